//! How much of a product one task computes.

use ggmill_quant::Panels;

/// Rows of the left operand that one task multiplies: a multiple of those of a tile, with any
/// instructions.
pub(crate) const HIGH: usize = 48;
/// Rows of a matrix that one task decodes.
pub(crate) const ROWS: usize = Panels::WIDTH;
