//! Outlines of descriptions, for pages about them.

use crate::reference::role::Role;

/// A tensor in a description, with expressions instead of numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TensorOutline<'a> {
    /// The name, with `{bid}` for the loop variable.
    pub name: &'a str,
    /// The dimensions in stored order.
    pub shape: Vec<&'a str>,
    /// The role.
    pub role: Role,
    /// The enclosing loop, such as `bid in 0..block_count`.
    pub repeat: Option<String>,
    /// The conditions for the tensor, which must all hold.
    pub conditions: Vec<&'a str>,
    /// The condition under which the model is incomplete without the tensor: `true`, `false`, or an
    /// expression.
    pub required: &'a str,
    /// The tensor that replaces it if it is missing.
    pub tied: Option<&'a str>,
    /// The tensor that excludes it.
    pub unless: Option<&'a str>,
}

/// A hyperparameter in a description.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ParameterOutline<'a> {
    /// The name in expressions.
    pub name: &'a str,
    /// The sources in a file, in order of precedence; `len(KEY)` is the number of elements of a key.
    pub keys: Vec<String>,
    /// The paths in the configuration of a checkpoint, in order of precedence.
    pub in_checkpoint: Vec<&'a str>,
    /// The default expression when reading a file.
    pub default: Option<&'a str>,
}
