//! MXFP4 weights as checkpoints store them (blocks beside scales) in the order of GGUF's MXFP4. No
//! number changes.

use std::ops::Range;

use ggmill_core::{GgmlType, Shape};

use super::decode::{Decode, Inputs};
use crate::error::{Error, ErrorKind, Result};

/// Bytes of the weights of a block.
const BYTES: usize = 16;

/// MXFP4 in two tensors of bytes: for each block 16 bytes with two neighboring weights each, the
/// first in the lower half, and its scale (E8M0). Inputs are the weights, of shape (16, blocks of a
/// row, …), and the scales, of shape (blocks of a row, …), both as I8. The output is MXFP4.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Mxfp4;

impl Mxfp4 {
    /// The decoder.
    pub fn new() -> Self {
        Self
    }
}

impl Decode for Mxfp4 {
    fn name(&self) -> &'static str {
        "mxfp4"
    }

    fn output(&self, inputs: &[(GgmlType, Shape)]) -> Result<(GgmlType, Shape)> {
        let fault = |message: &str| Error::new(ErrorKind::Checkpoint, message);
        let &[(GgmlType::I8, weights), (GgmlType::I8, scales)] = inputs else {
            return Err(fault("expected weights and scales as bytes"));
        };
        let [16, blocks, others @ ..] = weights.dimensions() else {
            return Err(fault("expected blocks of 16 bytes"));
        };
        if scales.dimensions() != &weights.dimensions()[1..] {
            return Err(fault("expected a scale for each block"));
        }
        let row_len = blocks.checked_mul(32).ok_or_else(|| fault("too many elements"))?;
        Ok((GgmlType::MXFP4, super::shape_of(&[&[row_len], others].concat())?))
    }

    fn decode(&self, rows: Range<u64>, inputs: &Inputs<'_>, out: &mut [u8]) -> Result<()> {
        let blocks = inputs.shape(1).row_len();
        let (start, end) = (rows.start * blocks, rows.end * blocks);
        let weights = inputs.bytes(0, start * BYTES as u64..end * BYTES as u64)?;
        let scales = inputs.bytes(1, start..end)?;
        for ((weights, scale), out) in
            weights.as_chunks::<BYTES>().0.iter().zip(scales).zip(out.as_chunks_mut::<17>().0)
        {
            // Weight `i` goes into the lower half of byte `i`, weight `16 + i` into the upper.
            let weight = |number: usize| (weights[number / 2] >> (number % 2 * 4)) & 15;
            out[0] = scale;
            for (number, out) in out[1..].iter_mut().enumerate() {
                *out = weight(number) | weight(BYTES + number) << 4;
            }
        }
        Ok(())
    }
}
