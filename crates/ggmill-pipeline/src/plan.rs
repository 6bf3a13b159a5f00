//! The work laid out: offsets and sizes from the core, and for each tensor where its elements come
//! from.

use ggmill_core::{Endian, PlannedTensor};

use crate::error::Result;
use crate::expression::Expression;
use crate::source::Checkpoint;

/// A file laid out to the byte, before any tensor data are read.
#[derive(Clone, Debug)]
pub struct Plan {
    pub(crate) layout: ggmill_core::Plan,
    /// As many as the layout has tensors.
    pub(crate) expressions: Vec<Expression>,
    pub(crate) endian: Endian,
    pub(crate) notes: Vec<String>,
}

impl Plan {
    /// The file as it will be: header, offsets, sizes.
    pub fn layout(&self) -> &ggmill_core::Plan {
        &self.layout
    }

    /// Where the elements of each tensor come from, in the order of the layout.
    pub fn expressions(&self) -> &[Expression] {
        &self.expressions
    }

    /// Fails when a tensor that is read is another one in this source than in the one the plan was
    /// made for.
    pub(crate) fn check(&self, source: &dyn Checkpoint) -> Result<()> {
        let check = |(tensor, expression): (&PlannedTensor, &Expression)| {
            expression
                .check(source.tensors())
                .map_err(|error| error.tensor(tensor.name().as_bytes()))
        };
        self.layout.tensors().iter().zip(&self.expressions).try_for_each(check)
    }

    /// Notes about the choices made.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }
}
