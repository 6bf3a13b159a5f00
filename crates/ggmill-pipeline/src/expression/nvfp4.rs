//! NVFP4 weights as checkpoints store them (pairs beside scales) in the order of GGUF's NVFP4. No
//! number changes.

use std::ops::Range;

use ggmill_core::{GgmlType, Shape};

use super::decode::{Decode, Inputs};
use crate::error::{Error, ErrorKind, Result};

/// Groups of 16 weights in a block.
const GROUPS: usize = 4;

/// NVFP4 in two tensors of bytes: two neighboring weights in a byte, the first in the lower half,
/// and a scale (E4M3, whose sign is ignored) for each 16 of them. Inputs are the weights, of shape
/// (half the row length, …), and the scales, of shape (row length / 16, …), both as I8. The output
/// is NVFP4. The factor for a whole tensor, which checkpoints have besides, is not in the blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Nvfp4;

impl Nvfp4 {
    /// The decoder.
    pub fn new() -> Self {
        Self
    }
}

impl Decode for Nvfp4 {
    fn name(&self) -> &'static str {
        "nvfp4"
    }

    fn output(&self, inputs: &[(GgmlType, Shape)]) -> Result<(GgmlType, Shape)> {
        let fault = |message: String| Error::new(ErrorKind::Checkpoint, message);
        let &[(GgmlType::I8, weights), (GgmlType::I8, scales)] = inputs else {
            return Err(fault("expected weights and scales as bytes".to_owned()));
        };
        let [pairs, others @ ..] = weights.dimensions() else {
            return Err(fault("expected rows of weights".to_owned()));
        };
        let row_len = pairs.checked_mul(2).ok_or_else(|| fault("too many elements".to_owned()))?;
        if row_len % 64 != 0 {
            let message = format!(
                "the row length {row_len} is not a multiple of the block size of NVFP4, 64"
            );
            return Err(Error::new(ErrorKind::Unsupported, message));
        }
        let expected = [&[row_len / 16], others].concat();
        if scales.dimensions() != expected {
            return Err(fault(format!(
                "scales of shape {scales} for weights of row length {row_len}, expected \
                 {expected:?}"
            )));
        }
        Ok((GgmlType::NVFP4, super::shape_of(&[&[row_len], others].concat())?))
    }

    fn decode(&self, rows: Range<u64>, inputs: &Inputs<'_>, out: &mut [u8]) -> Result<()> {
        let groups = inputs.shape(1).row_len();
        let (start, end) = (rows.start * groups, rows.end * groups);
        let weights = inputs.bytes(0, start * 8..end * 8)?;
        let scales = inputs.bytes(1, start..end)?;
        for ((weights, scales), out) in weights
            .as_chunks::<8>()
            .0
            .chunks_exact(GROUPS)
            .zip(scales.as_chunks::<GROUPS>().0)
            .zip(out.as_chunks_mut::<36>().0)
        {
            let (head, body) = out.split_at_mut(GROUPS);
            for (scale, out) in scales.iter().zip(head) {
                *out = scale & 0x7f;
            }
            for (weights, out) in weights.iter().zip(body.as_chunks_mut::<8>().0) {
                // Weight `i` goes into the lower half of byte `i`, weight `8 + i` into the upper.
                let weight = |number: usize| (weights[number / 2] >> (number % 2 * 4)) & 15;
                for (number, out) in out.iter_mut().enumerate() {
                    *out = weight(number) | weight(8 + number) << 4;
                }
            }
        }
        Ok(())
    }
}
