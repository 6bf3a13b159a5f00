//! Decoders, which compute rows of a tensor from several inputs: the trait, and those for integer
//! lists and grids. Decoders of quantized weights are in [`packed_floats`] and [`packed_integers`].
//!
//! [`packed_floats`]: super::packed_floats
//! [`packed_integers`]: super::packed_integers

use std::fmt::Debug;
use std::ops::Range;
use std::sync::Arc;

use ggmill_core::{GgmlType, Shape};

use crate::buffers::zeroed;
use crate::error::{Error, ErrorKind, Result};
use crate::expression::region::size;
use crate::expression::{Expression, Kind, shape_of};

/// Decodes packed weights (block scales, several weights per byte) from several tensors into one
/// tensor of a GGML type.
pub trait Decode: Debug + Send + Sync {
    /// Returns the name of the packing, for errors.
    fn name(&self) -> &'static str;

    /// Returns the type and shape of the output for inputs of these types and shapes. Fails if they
    /// are inconsistent.
    fn output(&self, inputs: &[(GgmlType, Shape)]) -> Result<(GgmlType, Shape)>;

    /// Decodes whole rows of the output, counted over all dimensions but the first, to contiguous
    /// little-endian bytes. May be called for any rows in any order, from several threads at once.
    fn decode(&self, rows: Range<u64>, inputs: &Inputs<'_>, out: &mut [u8]) -> Result<()>;
}

/// Access to the elements of expressions, implemented by the evaluator.
pub(super) trait Elements {
    /// Computes a range of elements: little-endian bytes in stored order.
    fn bytes_of(&self, this: &Expression, elements: Range<u64>) -> Result<Vec<u8>>;

    /// Computes a range of elements as `f32`.
    fn floats_of(&self, this: &Expression, elements: Range<u64>) -> Result<Vec<f32>>;
}

/// The inputs of a decoder.
#[derive(Clone, Copy)]
pub struct Inputs<'a> {
    pub(super) elements: &'a dyn Elements,
    pub(super) inputs: &'a [Expression],
}

impl Inputs<'_> {
    /// Returns the shape of input `number`. Panics if there is none.
    pub fn shape(&self, number: usize) -> &Shape {
        self.inputs[number].shape()
    }

    /// Returns the type of input `number`. Panics if there is none.
    pub fn ggml_type(&self, number: usize) -> GgmlType {
        self.inputs[number].ggml_type()
    }

    /// Returns a range of elements of an input: little-endian bytes in stored order.
    pub fn bytes(&self, number: usize, elements: Range<u64>) -> Result<Vec<u8>> {
        self.elements.bytes_of(&self.inputs[number], elements)
    }

    /// Returns a range of elements of an input as `f32`.
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
    // Permuted rows are close together. Decode them in one call with the rows in between, because
    // each call reads scales and zero points again.
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
    /// Decodes packed tensors. Fails if the decoder refuses their types and shapes.
    pub fn decode(decoder: impl Decode + 'static, inputs: &[Self]) -> Result<Self> {
        let types: Vec<_> =
            inputs.iter().map(|input| (input.ggml_type(), *input.shape())).collect();
        let with_operand = |error: Error| match inputs.first() {
            Some(first) => {
                Error::new(error.kind(), format!("{} of {first}: {error}", decoder.name()))
            }
            None => error,
        };
        let (ggml_type, shape) = decoder.output(&types).map_err(with_operand)?;
        Self::new(
            shape,
            ggml_type,
            Kind::Decoded { inputs: inputs.to_vec(), decoder: Arc::new(decoder) },
        )
    }
}

/// Converts I64 to I32. Fails for a value out of range, and names its row and column.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Narrow;

impl Narrow {
    /// Creates the decoder.
    pub fn new() -> Self {
        Self
    }
}

impl Decode for Narrow {
    fn name(&self) -> &'static str {
        "narrow"
    }

    fn output(&self, inputs: &[(GgmlType, Shape)]) -> Result<(GgmlType, Shape)> {
        match inputs {
            &[(GgmlType::I64, shape)] => Ok((GgmlType::I32, shape)),
            _ => Err(Error::new(ErrorKind::Checkpoint, "expected 64-bit integers")),
        }
    }

    fn decode(&self, rows: Range<u64>, inputs: &Inputs<'_>, out: &mut [u8]) -> Result<()> {
        let columns = inputs.shape(0).row_len();
        let bytes = inputs.bytes(0, rows.start * columns..rows.end * columns)?;
        let numbers = bytes.as_chunks().0.iter().map(|&number| i64::from_le_bytes(number));
        for ((index, number), out) in (0..).zip(numbers).zip(out.as_chunks_mut::<4>().0) {
            let narrow = i32::try_from(number).map_err(|_| {
                let (row, column) = (rows.start + index / columns.max(1), index % columns.max(1));
                let message =
                    format!("row {row}, column {column} is {number}, expected a 32-bit integer");
                Error::new(ErrorKind::Checkpoint, message)
            })?;
            *out = narrow.to_le_bytes();
        }
        Ok(())
    }
}

/// Adds to each integer its index in the list, counted from 0; input and output are I64. Draft
/// models for speculative decoding store the IDs of another vocabulary as such differences.
///
/// Fails for an ID that is negative, not below the limit, or a duplicate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct AddPlaces {
    limit: u64,
}

impl AddPlaces {
    /// Creates the decoder for IDs below `limit`.
    pub fn new(limit: u64) -> Self {
        Self { limit }
    }
}

impl Decode for AddPlaces {
    fn name(&self) -> &'static str {
        "add_places"
    }

    fn output(&self, inputs: &[(GgmlType, Shape)]) -> Result<(GgmlType, Shape)> {
        match inputs {
            // A single row is always decoded as a whole, which the search for duplicates needs.
            &[(GgmlType::I64, shape)] if shape.row_len() == shape.elements() => {
                Ok((GgmlType::I64, shape))
            }
            _ => Err(Error::new(ErrorKind::Checkpoint, "expected a list of 64-bit integers")),
        }
    }

    fn decode(&self, rows: Range<u64>, inputs: &Inputs<'_>, out: &mut [u8]) -> Result<()> {
        let columns = inputs.shape(0).row_len();
        let bytes = inputs.bytes(0, rows.start * columns..rows.end * columns)?;
        let (numbers, _) = bytes.as_chunks();
        let fault = |message: String| Error::new(ErrorKind::Checkpoint, message);
        let mut ids = Vec::new();
        ids.try_reserve_exact(numbers.len())
            .map_err(|_| fault(format!("not enough memory for {} IDs", numbers.len())))?;
        for (index, (&number, out)) in (0i64..).zip(numbers.iter().zip(out.as_chunks_mut().0)) {
            let difference = i64::from_le_bytes(number);
            let id = difference.checked_add(index);
            let id = id.filter(|id| u64::try_from(*id).is_ok_and(|id| id < self.limit));
            let id = id.ok_or_else(|| {
                fault(format!(
                    "element {index} is {difference}: with its index added, expected an ID below {}",
                    self.limit
                ))
            })?;
            *out = id.to_le_bytes();
            ids.push(id);
        }
        ids.sort_unstable();
        match ids.windows(2).find(|pair| pair[0] == pair[1]) {
            Some(pair) => Err(fault(format!("the ID {} occurs twice", pair[0]))),
            None => Ok(()),
        }
    }
}

/// Resamples a grid of vectors to another number of columns and rows by bilinear interpolation with
/// aligned corners, such as learned position embeddings for another image size. The input has the
/// shape (length, columns, rows) and any float type; the output is F32.
///
/// The arithmetic equals PyTorch's `interpolate` with `align_corners` on hardware with fused
/// multiply-add: one product and three fused additions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Bilinear {
    /// Columns of the output.
    pub columns: u64,
    /// Rows of the output.
    pub rows: u64,
}

impl Bilinear {
    /// Creates the decoder for an output of this size.
    pub fn new(columns: u64, rows: u64) -> Self {
        Self { columns, rows }
    }
}

/// Two adjacent indices of the input, with the weight of the second.
struct Neighbors {
    first: u64,
    second: u64,
    weight: f32,
}

impl Neighbors {
    /// Returns the neighbors of output index `index` of `to` among `from` input indices.
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "the reference computes positions in single precision; extents are below 2^24"
    )]
    fn new(index: u64, from: u64, to: u64) -> Self {
        if from == to {
            return Self { first: index, second: index, weight: 0.0 };
        }
        let last = from.saturating_sub(1);
        let ratio = if to > 1 { last as f32 / (to - 1) as f32 } else { 0.0 };
        let position = ratio * index as f32;
        let first = (position.floor() as u64).min(last);
        let second = if first < last { first + 1 } else { first };
        Self { first, second, weight: (position - first as f32).clamp(0.0, 1.0) }
    }
}

impl Decode for Bilinear {
    fn name(&self) -> &'static str {
        "bilinear"
    }

    fn output(&self, inputs: &[(GgmlType, Shape)]) -> Result<(GgmlType, Shape)> {
        const MAX_EXTENT: u64 = 1 << 24;
        let fault = |message: String| Error::new(ErrorKind::Checkpoint, message);
        let &[(_, grid)] = inputs else {
            return Err(fault(format!("{} tensors, expected one", inputs.len())));
        };
        let &[length, columns, rows] = grid.dimensions() else {
            return Err(fault(format!("a tensor of shape {grid}, expected a grid of vectors")));
        };
        if [columns, rows, self.columns, self.rows].iter().any(|&extent| extent >= MAX_EXTENT) {
            return Err(fault(format!("a grid of shape {grid}, the limit is {MAX_EXTENT}")));
        }
        Ok((GgmlType::F32, shape_of(&[length, self.columns, self.rows])?))
    }

    fn decode(&self, rows: Range<u64>, inputs: &Inputs<'_>, out: &mut [u8]) -> Result<()> {
        let &[length, from_columns, from_rows] = inputs.shape(0).dimensions() else {
            return Err(Error::new(ErrorKind::Checkpoint, "expected a grid of vectors"));
        };
        let vector = |column: u64, row: u64| {
            let start = (row * from_columns + column) * length;
            inputs.floats(0, start..start + length)
        };
        let width = size(length.saturating_mul(4)).max(1);
        for (row, out) in rows.zip(out.chunks_exact_mut(width)) {
            let x = Neighbors::new(row % self.columns.max(1), from_columns, self.columns);
            let y = Neighbors::new(row / self.columns.max(1), from_rows, self.rows);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Expression;
    use crate::source::MemorySource;

    #[test]
    fn ids_are_indices_plus_differences() {
        let decoded = |numbers: &[i64], limit| {
            let shape = Shape::new(&[numbers.len() as u64]).unwrap();
            let mut source = MemorySource::new();
            let bytes: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
            source.add("ids", GgmlType::I64, shape, bytes).unwrap();
            let list = Expression::tensor(&source, 0).unwrap();
            let sums = Expression::decode(AddPlaces::new(limit), &[list]).unwrap();
            let ids = |bytes: Vec<u8>| -> Vec<i64> {
                bytes.as_chunks().0.iter().map(|&id| i64::from_le_bytes(id)).collect()
            };
            let bytes = sums.evaluate(&source, 0..numbers.len() as u64);
            bytes.map(ids).map_err(|error| error.to_string())
        };
        assert_eq!(decoded(&[3, 3, 5, -3], 8), Ok(vec![3, 4, 7, 0]));
        for (numbers, limit, words) in [
            (&[3, 3, 5][..], 7, "element 2 is 5: with its index added, expected an ID below 7"),
            (&[0, -2], 7, "element 1 is -2"),
            (&[i64::MAX, i64::MAX], u64::MAX, "element 1 is 9223372036854775807"),
            (&[4, 2, 2], 7, "the ID 4 occurs twice"),
        ] {
            let error = decoded(numbers, limit).unwrap_err();
            assert!(error.contains(words), "{error}");
        }
    }
}
