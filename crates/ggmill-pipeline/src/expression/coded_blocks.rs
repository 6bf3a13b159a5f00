//! Weights of four bits that are places in a table, with a scale for each block, as bitsandbytes
//! stores them.

use std::ops::Range;

use ggmill_core::{GgmlType, Shape};

use super::decode::{Decode, Inputs};
use crate::error::{Error, ErrorKind, Result};

/// Places in a table of 16 numbers, two in a byte, the first in the upper half; blocks, which do not
/// end with a row, have a scale each. The output is F32: number × scale.
///
/// Inputs are the places, as I8 of any shape of half as many bytes as there are elements, the table
/// (16), and the scales, one for each block in order. After
/// [`with_coded_scales`](Self::with_coded_scales) the scales are places as well (I8), and their
/// table (256) and the scales of their blocks follow.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CodedBlocks {
    shape: Shape,
    block: u64,
    /// Scales in a block of scales, and what is added to each.
    coded: Option<(u64, f32)>,
}

impl CodedBlocks {
    /// An array of this shape, with blocks of so many elements. Not 0.
    pub fn new(shape: Shape, block: u64) -> Self {
        Self { shape, block: block.max(1), coded: None }
    }

    /// The same with scales that are places in a table, in blocks of so many, which have a scale
    /// themselves: a scale is number × scale of its block + `offset`.
    #[must_use]
    pub fn with_coded_scales(self, block: u64, offset: f32) -> Self {
        Self { coded: Some((block.max(1), offset)), ..self }
    }

    /// The scales of blocks.
    fn scales(&self, blocks: Range<u64>, inputs: &Inputs<'_>) -> Result<Vec<f32>> {
        let Some((block, offset)) = self.coded else { return inputs.floats(2, blocks) };
        let places = inputs.bytes(2, blocks.clone())?;
        let table = inputs.floats(3, 0..256)?;
        let first = blocks.start / block;
        let scales = inputs.floats(4, first..blocks.end.div_ceil(block))?;
        let scale = |(number, place): (u64, u8)| {
            let scale = scales[super::copy::size(number / block - first)];
            table[usize::from(place)] * scale + offset
        };
        Ok(blocks.zip(places).map(scale).collect())
    }
}

impl Decode for CodedBlocks {
    fn name(&self) -> &'static str {
        "coded blocks"
    }

    fn output(&self, inputs: &[(GgmlType, Shape)]) -> Result<(GgmlType, Shape)> {
        let blocks = self.shape.elements().div_ceil(self.block);
        let mut expected = vec![
            ("weights", self.shape.elements().div_ceil(2)),
            ("numbers in the table", 16),
            ("scales", blocks),
        ];
        if let Some((block, _)) = self.coded {
            expected.push(("numbers in the table of scales", 256));
            expected.push(("scales of scales", blocks.div_ceil(block)));
        }
        let fault = |message: String| Err(Error::new(ErrorKind::Checkpoint, message));
        if inputs.len() != expected.len() {
            return fault(format!("{} inputs, expected {}", inputs.len(), expected.len()));
        }
        for ((ggml_type, found), (what, expected)) in inputs.iter().zip(&expected) {
            let is_code = *what == "weights" || *what == "scales" && self.coded.is_some();
            if found.elements() != *expected || is_code && *ggml_type != GgmlType::I8 {
                return fault(format!(
                    "{what} of type {ggml_type} and shape {found}, expected {expected} for \
                     weights of shape {}",
                    self.shape
                ));
            }
        }
        Ok((GgmlType::F32, self.shape))
    }

    fn decode(&self, rows: Range<u64>, inputs: &Inputs<'_>, out: &mut [u8]) -> Result<()> {
        let columns = self.shape.row_len();
        let elements = rows.start * columns..rows.end * columns;
        if elements.is_empty() {
            return Ok(());
        }
        let bytes = inputs.bytes(0, elements.start / 2..elements.end.div_ceil(2))?;
        let table = inputs.floats(1, 0..16)?;
        let first = elements.start / self.block;
        let scales = self.scales(first..elements.end.div_ceil(self.block), inputs)?;
        let skipped = elements.start / 2;
        for (element, out) in elements.zip(out.as_chunks_mut::<4>().0) {
            let byte = bytes[super::copy::size(element / 2 - skipped)];
            let place = if element % 2 == 0 { byte >> 4 } else { byte & 15 };
            let scale = scales[super::copy::size(element / self.block - first)];
            *out = (table[usize::from(place)] * scale).to_le_bytes();
        }
        Ok(())
    }
}
