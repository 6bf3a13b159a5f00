//! Values of hyperparameters and expressions.

use core::fmt;
use std::sync::Arc;

use ggmill_core::RawStr;

/// The value of a hyperparameter or of an expression over hyperparameters.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum ParameterValue {
    /// No value: an optional hyperparameter that is absent.
    None,
    /// An integer.
    Int(i64),
    /// A number with a fraction.
    Float(f64),
    /// True or false.
    Bool(bool),
    /// Text.
    Str(Arc<str>),
    /// A list, usually with one value per block.
    List(Arc<[ParameterValue]>),
}

impl ParameterValue {
    /// Returns the name of the type with its article, for messages.
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

    /// Returns `true` unless the value is [`None`](Self::None).
    pub fn is_some(&self) -> bool {
        !matches!(self, Self::None)
    }

    /// Returns the value if it is an integer.
    pub fn as_i64(&self) -> Option<i64> {
        match *self {
            Self::Int(value) => Some(value),
            _ => None,
        }
    }

    /// Returns the value if it is an integer of at least 0.
    pub fn as_u64(&self) -> Option<u64> {
        self.as_i64()?.try_into().ok()
    }

    /// Returns the value if it is a number, integers converted.
    pub fn as_f64(&self) -> Option<f64> {
        match *self {
            #[expect(
                clippy::cast_precision_loss,
                reason = "an integer in floating-point arithmetic is converted"
            )]
            Self::Int(value) => Some(value as f64),
            Self::Float(value) => Some(value),
            _ => None,
        }
    }

    /// Returns the value if it is a bool.
    pub fn as_bool(&self) -> Option<bool> {
        match *self {
            Self::Bool(value) => Some(value),
            _ => None,
        }
    }

    /// Returns the value if it is text.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Self::Str(text) => Some(text),
            _ => None,
        }
    }

    /// Returns the elements if the value is a list.
    pub fn as_list(&self) -> Option<&[Self]> {
        match self {
            Self::List(elements) => Some(elements),
            _ => None,
        }
    }
}

/// Formats the value in the syntax of expressions. Text from a configuration is escaped; long text and
/// lists are truncated.
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
