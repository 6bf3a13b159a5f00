//! Weights of three values in two bits, as BitNet checkpoints store them.

use std::ops::Range;

use ggmill_core::{GgmlType, Shape};

use super::decode::{Decode, Inputs};
use crate::error::{Error, ErrorKind, Result};

/// A matrix of −1, 0 and 1 in two bits each, divided by one scale. Inputs are the weights, of shape
/// (columns, rows / 4) as I8, and the scale, one number. Bits 2i and 2i + 1 of byte (c, r) have the
/// element in column c of row i × (rows / 4) + r. The output is F32.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TernaryRows;

impl TernaryRows {
    /// The decoder.
    pub fn new() -> Self {
        Self
    }
}

impl Decode for TernaryRows {
    fn name(&self) -> &'static str {
        "ternary rows"
    }

    fn output(&self, inputs: &[(GgmlType, Shape)]) -> Result<(GgmlType, Shape)> {
        let fault = |message: String| Error::new(ErrorKind::Checkpoint, message);
        let &[(GgmlType::I8, weights), (_, scale)] = inputs else {
            return Err(fault("expected weights of one byte and a scale".to_owned()));
        };
        if scale.elements() != 1 {
            return Err(fault(format!("a scale of shape {scale}, expected one number")));
        }
        let &[columns, bytes] = weights.dimensions() else {
            return Err(fault(format!("weights of shape {weights}, expected a matrix")));
        };
        let rows = bytes.checked_mul(4).ok_or_else(|| fault("too many elements".to_owned()))?;
        Ok((GgmlType::F32, super::shape_of(&[columns, rows])?))
    }

    fn decode(&self, rows: Range<u64>, inputs: &Inputs<'_>, out: &mut [u8]) -> Result<()> {
        let columns = inputs.shape(0).row_len();
        let quarter = inputs.shape(0).dimensions().get(1).copied().unwrap_or(0).max(1);
        let scale = inputs.floats(1, 0..1)?.first().copied().unwrap_or(1.0);
        let width = super::copy::size(columns.saturating_mul(4)).max(1);
        let mut start = rows.start;
        let mut out = out.chunks_exact_mut(width);
        while start < rows.end {
            // Rows of one pair of bits lie one after the other.
            let (shift, end) = (start / quarter * 2, (start / quarter + 1) * quarter);
            let (from, count) = (start % quarter, end.min(rows.end) - start);
            let bytes = inputs.bytes(0, from * columns..(from + count) * columns)?;
            for (bytes, out) in bytes.chunks_exact(width / 4).zip(&mut out) {
                for (byte, out) in bytes.iter().zip(out.as_chunks_mut::<4>().0) {
                    *out = ((f32::from(byte >> shift & 3) - 1.0) / scale).to_le_bytes();
                }
            }
            start += count;
        }
        Ok(())
    }
}
