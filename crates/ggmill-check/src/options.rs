//! Which rules apply.

use std::fmt;
use std::str::FromStr;

use ggmill_template::Json;

use crate::{Authority, Group, Rule, Severity};

/// The requirements that a file is checked against.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Profile {
    /// All requirements on the content of a file. Rules about its name ([`Group::Naming`]), and
    /// those that render templates ([`Group::Rendering`]) or run the tokenizer
    /// ([`Group::Segmentation`]), are checked only when they are selected.
    #[default]
    All,
    /// Those of the specification.
    Spec,
    /// Those of llama.cpp.
    Ggml,
    /// As [`All`](Self::All), and chat templates are rendered over conversations, and vocabularies
    /// are examined with their tokenizer.
    Run,
}

impl Profile {
    /// Every profile.
    pub const ALL: [Self; 4] = [Self::Spec, Self::Ggml, Self::All, Self::Run];

    /// The name of the profile: `spec`, `ggml`, `all` or `run`.
    pub fn name(self) -> &'static str {
        match self {
            Self::All => "all",
            Self::Spec => "spec",
            Self::Ggml => "ggml",
            Self::Run => "run",
        }
    }
}

impl FromStr for Profile {
    type Err = ProfileError;

    /// The profile of this name.
    ///
    /// ```
    /// use ggmill_check::Profile;
    /// for profile in Profile::ALL {
    ///     assert_eq!(profile.name().parse(), Ok(profile));
    /// }
    /// assert!("All".parse::<Profile>().is_err());
    /// ```
    fn from_str(name: &str) -> Result<Self, ProfileError> {
        Self::ALL.into_iter().find(|profile| profile.name() == name).ok_or(ProfileError(()))
    }
}

/// No profile has that name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProfileError(());

impl fmt::Display for ProfileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("expected a profile: ")?;
        for (number, profile) in Profile::ALL.iter().enumerate() {
            write!(f, "{}{}", if number == 0 { "" } else { ", " }, profile.name())?;
        }
        Ok(())
    }
}

impl std::error::Error for ProfileError {}

/// Some rules: by code, by the beginning of a code, or by group name.
///
/// ```
/// use ggmill_check::{Selector, rules};
/// let tensors: Selector = "tensors".parse()?;
/// assert!(rules().filter(|rule| tensors.selects(rule)).all(|rule| rule.code.starts_with("GG13")));
/// assert!("GG99".parse::<Selector>().is_err());
/// # Ok::<(), ggmill_check::SelectorError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selector(String);

impl Selector {
    /// Whether the rule is one of them.
    pub fn selects(&self, rule: &Rule) -> bool {
        self.0 == "all" || rule.code.starts_with(&self.0) || rule.group.name() == self.0
    }
}

impl FromStr for Selector {
    type Err = SelectorError;

    /// Fails when it selects nothing.
    fn from_str(text: &str) -> Result<Self, SelectorError> {
        let text = text.trim();
        let name = text.to_ascii_lowercase();
        let selector = if name == "all" || Group::ALL.iter().any(|group| group.name() == name) {
            Self(name)
        } else {
            Self(text.to_ascii_uppercase())
        };
        let some = selector.0.starts_with("GG")
            || !selector.0.is_ascii()
            || selector.0.chars().all(char::is_lowercase);
        if some && !selector.0.is_empty() && crate::rules().any(|rule| selector.selects(rule)) {
            Ok(selector)
        } else {
            Err(SelectorError(()))
        }
    }
}

/// No rule is selected by that.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SelectorError(());

impl fmt::Display for SelectorError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("expected a code such as GG1301, its beginning such as GG13, or a group: ")?;
        for (number, group) in Group::ALL.iter().enumerate() {
            write!(f, "{}{}", if number == 0 { "" } else { ", " }, group.name())?;
        }
        Ok(())
    }
}

impl std::error::Error for SelectorError {}

/// How a file is checked.
///
/// ```
/// use ggmill_check::{Options, Profile};
/// let options = Options::default().with_profile(Profile::Ggml);
/// assert_eq!(options.findings_per_rule, 20);
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Options {
    /// The requirements that are checked.
    pub profile: Profile,
    /// Only these rules; all when empty.
    pub select: Vec<Selector>,
    /// Not these.
    pub ignore: Vec<Selector>,
    /// Findings of one rule that are told; the rest are counted.
    pub findings_per_rule: usize,
    /// Variables that chat templates are rendered with, besides the conversation and the special
    /// tokens of the vocabulary.
    pub variables: Vec<(String, Json)>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            profile: Profile::All,
            select: Vec::new(),
            ignore: Vec::new(),
            findings_per_rule: 20,
            variables: Vec::new(),
        }
    }
}

impl Options {
    /// With the requirements of this profile.
    #[must_use]
    pub fn with_profile(mut self, profile: Profile) -> Self {
        self.profile = profile;
        self
    }

    /// With these rules only; all when empty.
    #[must_use]
    pub fn with_select(mut self, select: Vec<Selector>) -> Self {
        self.select = select;
        self
    }

    /// Without these rules.
    #[must_use]
    pub fn with_ignore(mut self, ignore: Vec<Selector>) -> Self {
        self.ignore = ignore;
        self
    }

    /// With at most this many findings of each rule.
    #[must_use]
    pub fn with_findings_per_rule(mut self, count: usize) -> Self {
        self.findings_per_rule = count;
        self
    }

    /// With a variable for chat templates.
    #[must_use]
    pub fn with_variable(mut self, name: impl Into<String>, value: Json) -> Self {
        self.variables.push((name.into(), value));
        self
    }

    /// How bad it is to break the rule, in this profile.
    pub fn severity(&self, rule: &Rule) -> Severity {
        if self.profile == Profile::Spec && rule.authority == Authority::Must {
            Severity::Error
        } else {
            rule.severity
        }
    }

    /// Whether the rule applies.
    pub fn applies(&self, rule: &Rule) -> bool {
        let among =
            |selectors: &[Selector]| selectors.iter().any(|selector| selector.selects(rule));
        let demanded = match self.profile {
            // The name of a file is checked, and a template or a tokenizer run, on request only.
            Profile::All | Profile::Run => {
                let runs = self.profile == Profile::Run;
                (rule.authority != Authority::Letter
                    && rule.group != Group::Naming
                    && (runs || !rule.group.runs()))
                    || among(&self.select)
            }
            Profile::Spec => matches!(
                rule.authority,
                Authority::Both | Authority::Specification | Authority::Must | Authority::Letter
            ),
            Profile::Ggml => matches!(rule.authority, Authority::Both | Authority::Reference),
        };
        demanded && (self.select.is_empty() || among(&self.select)) && !among(&self.ignore)
    }
}
