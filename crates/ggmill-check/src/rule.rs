//! What a rule is.

use std::fmt;

use serde::Serialize;

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
#[expect(clippy::exhaustive_enums, reason = "the three that SARIF and every linter have")]
pub enum Severity {
    /// Some reader refuses the file, or reads something else than was meant.
    Error,
    /// The file loads, and something in it is wrong or will surprise.
    Warning,
    /// Worth knowing.
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

/// Who demands what a rule holds a file to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Authority {
    /// The specification, and llama.cpp refuses or misreads what breaks it.
    Both,
    /// The specification; llama.cpp lets it pass.
    Specification,
    /// The specification, which says "must" or calls anything else invalid: an error for whoever
    /// asks for the specification. llama.cpp lets it pass.
    Must,
    /// llama.cpp; the specification allows it or says nothing.
    Reference,
    /// Neither: experience with files.
    Practice,
    /// The letter of the specification, which hardly any file keeps: asked for only by the profile
    /// of the specification, or by name.
    Letter,
}

impl Authority {
    /// One word or two for programs.
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

/// What a rule is about. The first two digits of its codes.
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
}

impl Group {
    /// Every group, in the order of their numbers.
    pub const ALL: [Self; 12] = [
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
    ];

    /// The name, in lower case.
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
        }
    }
}

/// One thing a file is held to.
#[derive(Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Rule {
    /// `GG` and four digits, the first two of which are those of the group. Never given to another
    /// rule.
    pub code: &'static str,
    /// What it is about.
    pub group: Group,
    /// How bad a finding is.
    pub severity: Severity,
    /// Who demands it.
    pub authority: Authority,
    /// What is wrong, in a few words.
    pub summary: &'static str,
    /// The sentence of the specification, or the behaviour of the reference, that it enforces.
    pub clause: &'static str,
    /// Why it matters.
    pub why: &'static str,
    /// What to do.
    pub remedy: &'static str,
}

/// Declares the rules of a group as statics, and the table of them.
macro_rules! rules {
    ($group:ident; $($name:ident = $code:literal $severity:ident $authority:ident {
        summary: $summary:expr, clause: $clause:expr, why: $why:expr, remedy: $remedy:expr $(,)?
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
        };)*
        pub(super) static RULES: &[&$crate::Rule] = &[$(&$name),*];
    };
}
pub(crate) use rules;
