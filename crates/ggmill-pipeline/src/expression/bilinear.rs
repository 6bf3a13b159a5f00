//! The values of a grid at the places of another.

use std::ops::Range;

use ggmill_core::{GgmlType, Shape};

use super::decode::{Decode, Inputs};
use crate::error::{Error, ErrorKind, Result};

/// A grid of vectors becomes one with other numbers of columns and rows whose corners are the same:
/// linear interpolation between the four neighbors of each place, as for learned positions of
/// images of another size. The input has the shape (length, columns, rows), and floats of any type;
/// the output is F32.
///
/// The arithmetic is that of PyTorch's `interpolate` with `align_corners` on a machine that fuses
/// multiplication and addition: one product, to which three are added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Bilinear {
    /// Columns of the output.
    pub columns: u64,
    /// Rows of the output.
    pub rows: u64,
}

impl Bilinear {
    /// The decoder for a grid of this size.
    pub fn new(columns: u64, rows: u64) -> Self {
        Self { columns, rows }
    }
}

/// Two neighbors in a dimension, with the weight of the second.
struct Between {
    first: u64,
    second: u64,
    weight: f32,
}

impl Between {
    /// Where index `place` of `to` is among `from`.
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "the reference computes places in single precision; extents are below 2^24"
    )]
    fn of(place: u64, from: u64, to: u64) -> Self {
        if from == to {
            return Self { first: place, second: place, weight: 0.0 };
        }
        let last = from.saturating_sub(1);
        let ratio = if to > 1 { last as f32 / (to - 1) as f32 } else { 0.0 };
        let real = ratio * place as f32;
        let first = (real.floor() as u64).min(last);
        let second = if first < last { first + 1 } else { first };
        Self { first, second, weight: (real - first as f32).clamp(0.0, 1.0) }
    }
}

impl Decode for Bilinear {
    fn name(&self) -> &'static str {
        "bilinear"
    }

    fn output(&self, inputs: &[(GgmlType, Shape)]) -> Result<(GgmlType, Shape)> {
        const MOST: u64 = 1 << 24;
        let fault = |message: String| Error::new(ErrorKind::Checkpoint, message);
        let &[(_, grid)] = inputs else {
            return Err(fault(format!("{} tensors, expected one", inputs.len())));
        };
        let &[length, columns, rows] = grid.dimensions() else {
            return Err(fault(format!("a tensor of shape {grid}, expected a grid of vectors")));
        };
        if [columns, rows, self.columns, self.rows].iter().any(|&extent| extent >= MOST) {
            return Err(fault(format!("a grid of shape {grid}, the limit is {MOST}")));
        }
        Ok((GgmlType::F32, super::shape_of(&[length, self.columns, self.rows])?))
    }

    fn decode(&self, rows: Range<u64>, inputs: &Inputs<'_>, out: &mut [u8]) -> Result<()> {
        let &[length, from_columns, from_rows] = inputs.shape(0).dimensions() else {
            return Err(Error::new(ErrorKind::Checkpoint, "expected a grid of vectors"));
        };
        let vector = |column: u64, row: u64| {
            let start = (row * from_columns + column) * length;
            inputs.floats(0, start..start + length)
        };
        let width = super::copy::size(length.saturating_mul(4)).max(1);
        for (place, out) in rows.zip(out.chunks_exact_mut(width)) {
            let x = Between::of(place % self.columns.max(1), from_columns, self.columns);
            let y = Between::of(place / self.columns.max(1), from_rows, self.rows);
            let (x1, y1) = (x.weight, y.weight);
            let (x0, y0) = (1.0 - x1, 1.0 - y1);
            let upper = [vector(x.first, y.first)?, vector(x.second, y.first)?];
            let lower = [vector(x.first, y.second)?, vector(x.second, y.second)?];
            let [upper, lower] = [upper, lower].map(|[a, b]| a.into_iter().zip(b));
            let out = out.as_chunks_mut::<4>().0;
            for (((a, b), (c, d)), out) in upper.zip(lower).zip(out) {
                let sum = d.mul_add(y1 * x1, c * (y1 * x0));
                *out = a.mul_add(y0 * x0, b.mul_add(y0 * x1, sum)).to_le_bytes();
            }
        }
        Ok(())
    }
}
