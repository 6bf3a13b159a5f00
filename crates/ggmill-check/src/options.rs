//! Selection of rules.

use std::fmt;
use std::str::FromStr;

use ggmill_template::Json;

use crate::{Authority, Group, Rule, Severity};

/// The requirements that a file is checked against.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Profile {
    /// All requirements on the content of a file. Rules about its name ([`Group::Naming`]), about
    /// values that only some programs mishandle ([`Group::Threat`]), and those that render templates ([`Group::Rendering`]) or run the tokenizer
    /// ([`Group::Segmentation`]), are checked only if they are selected.
    #[default]
    All,
    /// The requirements of the specification.
    Spec,
    /// The requirements of llama.cpp.
    Ggml,
    /// [`All`](Self::All), and the rules that render chat templates or run the tokenizer.
    Run,
    /// The rules that recognize files able to trigger a published flaw of a program: those with
    /// [advisories](crate::Advisory). They include some that render chat templates.
    Threat,
}

impl Profile {
    /// Every profile.
    pub const ALL: [Self; 5] = [Self::Spec, Self::Ggml, Self::All, Self::Run, Self::Threat];

    /// Returns the name of the profile: `spec`, `ggml`, `all`, `run` or `threat`.
    pub fn name(self) -> &'static str {
        match self {
            Self::All => "all",
            Self::Spec => "spec",
            Self::Ggml => "ggml",
            Self::Run => "run",
            Self::Threat => "threat",
        }
    }
}

impl FromStr for Profile {
    type Err = ProfileError;

    /// Parses the name of a profile.
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

/// The error of an unknown profile name.
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

/// A selector of rules: a code, the beginning of a code, a group name, or `all`.
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
    /// Returns `true` if it selects the rule.
    pub fn selects(&self, rule: &Rule) -> bool {
        self.0 == "all" || rule.code.starts_with(&self.0) || rule.group.name() == self.0
    }
}

impl FromStr for Selector {
    type Err = SelectorError;

    /// Fails if it selects nothing.
    fn from_str(text: &str) -> Result<Self, SelectorError> {
        let text = text.trim();
        let name = text.to_ascii_lowercase();
        let selector = if name == "all" || Group::ALL.iter().any(|group| group.name() == name) {
            Self(name)
        } else {
            Self(text.to_ascii_uppercase())
        };
        let is_valid = selector.0.starts_with("GG")
            || !selector.0.is_ascii()
            || selector.0.chars().all(char::is_lowercase);
        if is_valid && !selector.0.is_empty() && crate::rules().any(|rule| selector.selects(rule)) {
            Ok(selector)
        } else {
            Err(SelectorError(()))
        }
    }
}

/// The error of a selector that selects no rule.
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

/// Options of a check.
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
    /// The rules to check; all if empty.
    pub select: Vec<Selector>,
    /// The rules to ignore.
    pub ignore: Vec<Selector>,
    /// The maximum number of findings of a rule that are listed; the others are counted.
    pub findings_per_rule: usize,
    /// Variables of chat templates, in addition to the conversation and the special tokens of the
    /// vocabulary.
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
    /// Sets the profile.
    #[must_use]
    pub fn with_profile(mut self, profile: Profile) -> Self {
        self.profile = profile;
        self
    }

    /// Sets the rules to check; all if empty.
    #[must_use]
    pub fn with_select(mut self, select: Vec<Selector>) -> Self {
        self.select = select;
        self
    }

    /// Sets the rules to ignore.
    #[must_use]
    pub fn with_ignore(mut self, ignore: Vec<Selector>) -> Self {
        self.ignore = ignore;
        self
    }

    /// Sets the maximum number of listed findings of each rule.
    #[must_use]
    pub fn with_findings_per_rule(mut self, count: usize) -> Self {
        self.findings_per_rule = count;
        self
    }

    /// Adds a variable of chat templates.
    #[must_use]
    pub fn with_variable(mut self, name: impl Into<String>, value: Json) -> Self {
        self.variables.push((name.into(), value));
        self
    }

    /// Returns the severity of a rule in this profile.
    pub fn severity(&self, rule: &Rule) -> Severity {
        if self.profile == Profile::Spec && rule.authority == Authority::Must {
            Severity::Error
        } else {
            rule.severity
        }
    }

    /// Returns `true` if the rule is checked.
    pub fn applies(&self, rule: &Rule) -> bool {
        let is_in =
            |selectors: &[Selector]| selectors.iter().any(|selector| selector.selects(rule));
        let in_profile = match self.profile {
            // File names are checked, and templates and tokenizers run, only on request.
            Profile::All | Profile::Run => {
                let runs = self.profile == Profile::Run;
                (rule.authority != Authority::Letter
                    && !matches!(rule.group, Group::Naming | Group::Threat)
                    && (runs || !rule.group.runs()))
                    || is_in(&self.select)
            }
            Profile::Spec => matches!(
                rule.authority,
                Authority::Both | Authority::Specification | Authority::Must | Authority::Letter
            ),
            Profile::Ggml => matches!(rule.authority, Authority::Both | Authority::Reference),
            Profile::Threat => rule.is_threat() || is_in(&self.select),
        };
        in_profile && (self.select.is_empty() || is_in(&self.select)) && !is_in(&self.ignore)
    }
}
