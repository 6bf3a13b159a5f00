//! The value of a hyperparameter or an expression.

use core::fmt;
use std::sync::Arc;

use ggmill_core::RawStr;

/// The value of a hyperparameter or of an expression over hyperparameters.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum ParameterValue {
    /// Nothing: a hyperparameter that is neither given nor has a default.
    None,
    /// An integer.
    Int(i64),
    /// A number with a fraction.
    Float(f64),
    /// True or false.
    Bool(bool),
    /// Text.
    Str(Arc<str>),
    /// A list: one value per block, usually.
    List(Arc<[ParameterValue]>),
}

impl ParameterValue {
    /// The name of its type, for messages.
    pub(crate) fn type_name(&self) -> &'static str {
        match self {
            Self::None => "nothing",
            Self::Int(_) => "an integer",
            Self::Float(_) => "a number",
            Self::Bool(_) => "a bool",
            Self::Str(_) => "a string",
            Self::List(_) => "a list",
        }
    }

    /// Whether there is a value at all.
    pub fn is_some(&self) -> bool {
        !matches!(self, Self::None)
    }

    /// The integer, when it is one.
    pub fn as_i64(&self) -> Option<i64> {
        match *self {
            Self::Int(value) => Some(value),
            _ => None,
        }
    }

    /// The integer, when it is one and not negative.
    pub fn as_u64(&self) -> Option<u64> {
        self.as_i64()?.try_into().ok()
    }

    /// The number, whole or not.
    pub fn as_f64(&self) -> Option<f64> {
        match *self {
            #[expect(clippy::cast_precision_loss, reason = "numbers that meet floats are floats")]
            Self::Int(value) => Some(value as f64),
            Self::Float(value) => Some(value),
            _ => None,
        }
    }

    /// The bool, when it is one.
    pub fn as_bool(&self) -> Option<bool> {
        match *self {
            Self::Bool(value) => Some(value),
            _ => None,
        }
    }

    /// The text, when it is one.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Self::Str(text) => Some(text),
            _ => None,
        }
    }

    /// The elements, when it is a list.
    pub fn as_list(&self) -> Option<&[Self]> {
        match self {
            Self::List(elements) => Some(elements),
            _ => None,
        }
    }
}

/// As an expression would write it; text from a configuration is escaped, long text and lists are
/// cut.
impl fmt::Display for ParameterValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("none"),
            Self::Int(value) => write!(f, "{value}"),
            Self::Float(value) => write!(f, "{value:?}"),
            Self::Bool(value) => write!(f, "{value}"),
            Self::Str(text) => write!(f, "{:?}", RawStr::from(&*crate::error::shortened(text))),
            Self::List(elements) => {
                const SHOWN: usize = 4;
                f.write_str("[")?;
                for (number, element) in elements.iter().take(SHOWN).enumerate() {
                    write!(f, "{}{element}", if number == 0 { "" } else { ", " })?;
                }
                f.write_str(if elements.len() > SHOWN { ", …]" } else { "]" })
            }
        }
    }
}
