//! Rules, their severity and who requires them.

use std::borrow::Cow;
use std::fmt;

use serde::Serialize;

/// The severity of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
#[expect(clippy::exhaustive_enums, reason = "the three that SARIF and every linter have")]
pub enum Severity {
    /// A reader rejects or misreads the file.
    Error,
    /// The file loads, but something in it is wrong or unexpected.
    Warning,
    /// The file is valid; the finding is informative.
    Note,
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Error => "error",
            Self::Warning => "warning",
            Self::Note => "note",
        })
    }
}

/// Who requires what a rule checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Authority {
    /// The specification and llama.cpp, which refuses or misreads files that violate it.
    Both,
    /// The specification; llama.cpp accepts the file.
    Specification,
    /// The specification, which says "must" or calls anything else invalid: an error in the profile
    /// of the specification. llama.cpp accepts the file.
    Must,
    /// llama.cpp; not required by the specification.
    Reference,
    /// Neither: recommended practice.
    Practice,
    /// The letter of the specification, which few files follow: reported only in the profile of the
    /// specification, or when selected by name.
    Letter,
}

impl Authority {
    /// Returns the name in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Both => "both",
            Self::Specification | Self::Must => "specification",
            Self::Reference => "llama.cpp",
            Self::Letter => "letter of the specification",
            Self::Practice => "practice",
        }
    }
}

/// The subject of a rule: the first two digits of its code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
#[expect(missing_docs, reason = "each is its name")]
pub enum Group {
    Structure = 10,
    Metadata = 11,
    Keys = 12,
    Tensors = 13,
    Quantization = 14,
    Architecture = 15,
    Tokenizer = 16,
    Template = 17,
    Naming = 18,
    Shards = 19,
    Provenance = 20,
    Data = 21,
    Rendering = 22,
    Segmentation = 23,
    Threat = 24,
}

impl Group {
    /// Every group, in the order of their numbers.
    pub const ALL: [Self; 15] = [
        Self::Structure,
        Self::Metadata,
        Self::Keys,
        Self::Tensors,
        Self::Quantization,
        Self::Architecture,
        Self::Tokenizer,
        Self::Template,
        Self::Naming,
        Self::Shards,
        Self::Provenance,
        Self::Data,
        Self::Rendering,
        Self::Segmentation,
        Self::Threat,
    ];

    /// Returns `true` if its rules run a template or the tokenizer of the file.
    pub(crate) fn runs(self) -> bool {
        matches!(self, Self::Rendering | Self::Segmentation)
    }

    /// Returns the name, in lower case.
    pub fn name(self) -> &'static str {
        match self {
            Self::Structure => "structure",
            Self::Metadata => "metadata",
            Self::Keys => "keys",
            Self::Tensors => "tensors",
            Self::Quantization => "quantization",
            Self::Architecture => "architecture",
            Self::Tokenizer => "tokenizer",
            Self::Template => "template",
            Self::Naming => "naming",
            Self::Shards => "shards",
            Self::Provenance => "provenance",
            Self::Data => "data",
            Self::Rendering => "rendering",
            Self::Segmentation => "segmentation",
            Self::Threat => "threat",
        }
    }
}

/// A requirement that files are checked against.
#[derive(Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Rule {
    /// `GG` and four digits, the first two of which are the number of the group. Codes are never
    /// reused.
    pub code: &'static str,
    /// The group.
    pub group: Group,
    /// The severity of its findings.
    pub severity: Severity,
    /// Who requires it.
    pub authority: Authority,
    /// The problem, in a few words.
    pub summary: &'static str,
    /// When a finding is reported; then the requirement, quoting the specification or the behavior of
    /// llama.cpp.
    pub clause: &'static str,
    /// Why it matters.
    pub why: &'static str,
    /// How to fix it by hand.
    pub remedy: &'static str,
    /// The example of the page in its fixed form.
    pub fixed: &'static str,
    /// The automatic fix; `None` without one.
    pub automatic: Option<AutomaticFix>,
}

/// The effect of the automatic fix of a rule, in the third person.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AutomaticFix {
    /// Edits the metadata.
    Edit(&'static str),
    /// Rewrites the file.
    Rewrite(&'static str),
}

impl AutomaticFix {
    /// Returns the effect in words, in the third person.
    pub fn effect(self) -> &'static str {
        match self {
            Self::Edit(effect) | Self::Rewrite(effect) => effect,
        }
    }
}

impl Rule {
    /// Returns how to fix a finding: by hand, and by the command if `fixable`.
    pub(crate) fn help(&self, fixable: bool) -> Cow<'static, str> {
        match self.automatic.filter(|_| fixable) {
            Some(automatic) => {
                let effect = automatic.effect();
                Cow::Owned(format!("{} `ggmill check --fix` {effect}.", self.remedy))
            }
            None => Cow::Borrowed(self.remedy),
        }
    }
}

/// Declares the rules of a group as statics, and the table `RULES` of them. The effect of an automatic
/// fix follows `automatic`, or `rewrite` if the fix rewrites the file.
macro_rules! rules {
    ($group:ident; $($name:ident = $code:literal $severity:ident $authority:ident {
        summary: $summary:expr, clause: $clause:expr, why: $why:expr, remedy: $remedy:expr,
        fixed: $fixed:expr $(, automatic: $automatic:expr)? $(, rewrite: $rewrite:expr)? $(,)?
    })*) => {
        $(static $name: $crate::Rule = $crate::Rule {
            code: $code,
            group: $crate::Group::$group,
            severity: $crate::Severity::$severity,
            authority: $crate::Authority::$authority,
            summary: $summary,
            clause: $clause,
            why: $why,
            remedy: $remedy,
            fixed: $fixed,
            automatic: $crate::rule::automatic!($(Edit $automatic)? $(Rewrite $rewrite)?),
        };)*
        pub(super) const RULES: &[&$crate::Rule] = &[$(&$name),*];
    };
}
pub(crate) use rules;

/// Expands to the automatic fix of a rule, if it has one.
macro_rules! automatic {
    () => {
        None
    };
    ($kind:ident $effect:expr) => {
        Some($crate::AutomaticFix::$kind($effect))
    };
}
pub(crate) use automatic;
