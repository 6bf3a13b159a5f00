//! A description as it is written, for pages about it.

use crate::reference::role::Role;

/// A tensor as a description writes it, with expressions in place of numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TensorOutline<'a> {
    /// The name, with `{bid}` for the loop variable.
    pub name: &'a str,
    /// The dimensions in stored order.
    pub shape: Vec<&'a str>,
    /// Its role.
    pub role: Role,
    /// The loop it is in, such as `bid in 0..block_count`.
    pub repeat: Option<String>,
    /// Conditions under which a model has it; all must hold.
    pub conditions: Vec<&'a str>,
    /// When the model is incomplete without it: `true`, `false`, or an expression.
    pub required: &'a str,
    /// The tensor that does its work when it is absent.
    pub tied: Option<&'a str>,
    /// The tensor that it cannot be combined with.
    pub unless: Option<&'a str>,
}

/// A hyperparameter as a description writes it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ParameterOutline<'a> {
    /// The name that expressions have for it.
    pub name: &'a str,
    /// Where a finished file has it, best first; `len(KEY)` is the number of a key's elements.
    pub keys: Vec<String>,
    /// Where the configuration of a checkpoint has it, best first.
    pub in_checkpoint: Vec<&'a str>,
    /// The expression that gives it where a finished file does not.
    pub default: Option<&'a str>,
}
