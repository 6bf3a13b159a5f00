//! A description as it is written, for pages about it.

use crate::architecture::Architecture;
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

impl Architecture {
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
}
