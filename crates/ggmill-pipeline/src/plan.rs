//! The work laid out: offsets and sizes from the core, and for each tensor where its elements come from.

use ggmill_core::Endian;

use crate::expression::Expression;

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

    /// What a person should know of the choices made.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }
}
