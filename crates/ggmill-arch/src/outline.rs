//! A description as it is written, for pages about it.

use crate::architecture::Architecture;
use crate::expression::Expression;
use crate::names::begins;
use crate::role::Role;
use crate::tensor::TensorGroup;

/// A tensor as a description writes it, with expressions in place of numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TensorOutline<'a> {
    /// The name, with `{bid}` for the loop variable.
    pub name: &'a str,
    /// The dimensions in stored order.
    pub shape: Vec<&'a str>,
    /// What it does.
    pub role: Role,
    /// The loop it stands in, such as `bid in 0..block_count`.
    pub repeat: Option<String>,
    /// Conditions under which a model has it; all must hold.
    pub conditions: Vec<&'a str>,
    /// When the model is incomplete without it: `true`, `false`, or an expression.
    pub required: &'a str,
    /// The tensor that does its work when it is absent.
    pub tied: Option<&'a str>,
    /// The tensor beside which it cannot stand.
    pub unless: Option<&'a str>,
}

/// A hyper-parameter as a description writes it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ParameterOutline<'a> {
    /// The name that expressions have for it.
    pub name: &'a str,
    /// Where a finished file has it, best first; `len(KEY)` is the number of a key's elements.
    pub keys: Vec<String>,
    /// The expression that gives it where a finished file does not.
    pub default: Option<&'a str>,
}

impl Architecture {
    /// The hyper-parameters as the description writes them, for finished files, in its order.
    pub fn outline_parameters(&self) -> impl Iterator<Item = ParameterOutline<'_>> {
        self.parameters.iter().map(|parameter| ParameterOutline {
            name: &parameter.name,
            keys: parameter.keys.iter().map(ToString::to_string).collect(),
            default: parameter.in_file.as_ref().or(parameter.default.as_ref()).map(Expression::text),
        })
    }

    /// The tensors as the description writes them, in its order.
    ///
    /// ```
    /// use ggmill_arch::Architecture;
    /// let gemma = Architecture::builtin("gemma").ok_or("built in")?;
    /// let up = gemma.outline().find(|tensor| tensor.name == "blk.{bid}.ffn_up.weight").ok_or("there")?;
    /// assert_eq!(up.shape, ["embedding_length", "feed_forward"]);
    /// assert_eq!(up.repeat.as_deref(), Some("bid in 0..block_count"));
    /// # Ok::<(), &str>(())
    /// ```
    pub fn outline(&self) -> impl Iterator<Item = TensorOutline<'_>> {
        self.groups.iter().flat_map(TensorGroup::outline)
    }

    /// Whether a model of this architecture can have a tensor of this name, whatever its numbers are.
    ///
    /// ```
    /// use ggmill_arch::Architecture;
    /// let gemma = Architecture::builtin("gemma").ok_or("built in")?;
    /// assert!(gemma.can_have("blk.12.ffn_up.weight") && !gemma.can_have("blk.12.ssm_in.weight"));
    /// # Ok::<(), &str>(())
    /// ```
    pub fn can_have(&self, tensor: &str) -> bool {
        self.outline().any(|described| begins(tensor, described.name))
    }
}
