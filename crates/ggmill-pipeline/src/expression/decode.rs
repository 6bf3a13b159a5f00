//! Decoders of packed sources: each is a file of its own.

use std::fmt::Debug;
use std::ops::Range;
use std::sync::Arc;

use ggmill_core::{GgmlType, Shape};

use super::copy::size;
use super::{Expression, Kind};
use crate::buffers::zeroed;
use crate::error::{Error, Result};

/// Turns tensors in which something has packed weights (scales in blocks, several weights in a
/// byte) into one of an ordinary type.
pub trait Decode: Debug + Send + Sync {
    /// The name of the packing, for errors.
    fn name(&self) -> &'static str;

    /// The type and shape of what inputs of these types and shapes hold. Fails when they do not fit
    /// together.
    fn output(&self, inputs: &[(GgmlType, Shape)]) -> Result<(GgmlType, Shape)>;

    /// Decodes rows of the output, counted over all its dimensions but the first, into `out`:
    /// whole, one after the other, little-endian. It may be called for any rows in any order, from
    /// several threads at once.
    fn decode(&self, rows: Range<u64>, inputs: &Inputs<'_>, out: &mut [u8]) -> Result<()>;
}

/// Who knows the elements of expressions.
pub(super) trait Elements {
    /// Bytes of a range of elements, in stored order, little-endian.
    fn bytes_of(&self, this: &Expression, elements: Range<u64>) -> Result<Vec<u8>>;

    /// A range of elements as numbers.
    fn floats_of(&self, this: &Expression, elements: Range<u64>) -> Result<Vec<f32>>;
}

/// The input of a decoder.
#[derive(Clone, Copy)]
pub struct Inputs<'a> {
    pub(super) elements: &'a dyn Elements,
    pub(super) inputs: &'a [Expression],
}

impl Inputs<'_> {
    /// The shape of an input. Panics when there are not so many.
    pub fn shape(&self, number: usize) -> &Shape {
        self.inputs[number].shape()
    }

    /// The type of an input. Panics when there are not so many.
    pub fn ggml_type(&self, number: usize) -> GgmlType {
        self.inputs[number].ggml_type()
    }

    /// Bytes of a range of elements of an input, in stored order, little-endian.
    pub fn bytes(&self, number: usize, elements: Range<u64>) -> Result<Vec<u8>> {
        self.elements.bytes_of(&self.inputs[number], elements)
    }

    /// A range of elements of an input as numbers.
    pub fn floats(&self, number: usize, elements: Range<u64>) -> Result<Vec<f32>> {
        self.elements.floats_of(&self.inputs[number], elements)
    }
}

impl std::fmt::Debug for Inputs<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.inputs).finish()
    }
}

/// Decodes rows of this many bytes, in any order, into `out`.
pub(super) fn decode_rows(
    decoder: &dyn Decode,
    rows: &[u64],
    row: usize,
    inputs: &Inputs<'_>,
    out: &mut [u8],
) -> Result<()> {
    // Rows that were permuted lie close together: they are decoded in one call with those between
    // them, as each call reads scales and zero points again.
    if let (Some(&first), Some(&last)) = (rows.iter().min(), rows.iter().max())
        && !rows.is_sorted()
        && last - first < 2 * rows.len() as u64
    {
        let mut span = zeroed(size(last - first + 1).saturating_mul(row))?;
        decoder.decode(first..last + 1, inputs, &mut span)?;
        for (&number, out) in rows.iter().zip(out.chunks_exact_mut(row.max(1))) {
            out.copy_from_slice(&span[size(number - first) * row..][..row]);
        }
        return Ok(());
    }
    let mut done = 0;
    while let Some(&first) = rows.get(done) {
        let count =
            rows[done..].iter().zip(first..).take_while(|(row, expected)| *row == expected).count();
        let out = &mut out[done * row..][..count * row];
        decoder.decode(first..first + count as u64, inputs, out)?;
        done += count;
    }
    Ok(())
}

impl Expression {
    /// The values of packed tensors. Fails when the decoder cannot take them.
    pub fn decode(decoder: impl Decode + 'static, inputs: &[Self]) -> Result<Self> {
        let types: Vec<_> =
            inputs.iter().map(|input| (input.ggml_type(), *input.shape())).collect();
        let about = |error: Error| match inputs.first() {
            Some(first) => {
                Error::new(error.kind(), format!("{} of {first}: {error}", decoder.name()))
            }
            None => error,
        };
        let (ggml_type, shape) = decoder.output(&types).map_err(about)?;
        Self::new(
            shape,
            ggml_type,
            Kind::Decoded { inputs: inputs.to_vec(), decoder: Arc::new(decoder) },
        )
    }
}
