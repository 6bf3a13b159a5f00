//! Changes that fix a finding and lose nothing.

use std::fmt;

use ggmill_core::{RawStr, ValueType};

/// A change to a file that fixes a finding, leaves every weight as it is, and takes away nothing
/// that any reader could use.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Fix {
    /// Gives a key a value: in its place, or at the end. Of a duplicate key, one entry remains.
    Set {
        /// The key.
        key: String,
        /// The type of the value.
        value_type: ValueType,
        /// The value.
        value: FixValue,
    },
    /// Gives a key another name, in its place.
    Rename {
        /// The key as it is.
        from: String,
        /// The key as it shall be.
        to: String,
    },
    /// Takes a key away.
    Unset {
        /// The key.
        key: String,
    },
    /// Writes the file again as version 3, with tensors in order, aligned, and padded with zeros.
    Rewrite,
}

impl Fix {
    pub(crate) fn set(
        key: impl Into<String>,
        value_type: ValueType,
        value: impl Into<FixValue>,
    ) -> Self {
        Self::Set { key: key.into(), value_type, value: value.into() }
    }
}

/// The value that a fix gives a key.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FixValue {
    /// True or false.
    Bool(bool),
    /// A whole number, within the range of the fix's type.
    Integer(i128),
    /// Text.
    String(String),
}

impl From<bool> for FixValue {
    fn from(value: bool) -> Self {
        Self::Bool(value)
    }
}

impl From<i128> for FixValue {
    fn from(value: i128) -> Self {
        Self::Integer(value)
    }
}

impl From<u32> for FixValue {
    fn from(value: u32) -> Self {
        Self::Integer(value.into())
    }
}

impl From<u64> for FixValue {
    fn from(value: u64) -> Self {
        Self::Integer(value.into())
    }
}

impl From<&str> for FixValue {
    fn from(value: &str) -> Self {
        Self::String(value.to_owned())
    }
}

impl fmt::Display for FixValue {
    /// As JSON has it: text in quotes, and escaped.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bool(value) => value.fmt(f),
            Self::Integer(value) => value.fmt(f),
            Self::String(text) => serde_json::Value::from(text.as_str()).fmt(f),
        }
    }
}

/// A fix, with the findings that it fixes.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ProposedFix {
    /// The codes of the rules whose findings are fixed, as often as the rules are broken.
    pub codes: Vec<&'static str>,
    /// The change that fixes them.
    pub fix: Fix,
}

impl fmt::Display for Fix {
    /// In one line, without control characters.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = |key: &str| RawStr::from(key).to_string();
        match self {
            Self::Set { key, value_type, value } => write!(
                f,
                "set {} = {} ({value_type})",
                shown(key),
                RawStr::from(value.to_string().as_str())
            ),
            Self::Rename { from, to } => write!(f, "rename {} to {}", shown(from), shown(to)),
            Self::Unset { key } => write!(f, "remove {}", shown(key)),
            Self::Rewrite => f.write_str("rewrite the file"),
        }
    }
}
