//! Encoding to the types of a file.

use std::sync::Arc;

use ggmill_core::{GgmlType, Shape};
use ggmill_quant as quant;

use crate::buffers::zeroed;
use crate::error::{Error, ErrorKind, Result};
use crate::expression::evaluate::Evaluator;
use crate::expression::fidelity::Fidelity;
use crate::expression::region::{Out, Region, size};
use crate::expression::{CHUNK, Expression, Kind};

/// Parameters of an encoding.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Encoding {
    /// The importance weight of each column, one row for each matrix of a stack. Ignored by types
    /// without blocks.
    pub importance: Option<Arc<[f32]>>,
    /// If true, every value must be finite before and after the encoding, also if the type does not
    /// change.
    pub finite: bool,
    /// If true, values that are not finite are counted if the type does not change: see
    /// [`Plan::non_finite`](crate::Plan::non_finite).
    pub counts: bool,
}

impl Encoding {
    /// Creates an encoding that fails for values that are not finite before or after it.
    pub fn finite() -> Self {
        Self { finite: true, ..Self::default() }
    }

    /// Creates an encoding with optional importance weights.
    pub fn new(importance: Option<Vec<f32>>, finite: bool) -> Self {
        Self { importance: importance.map(Into::into), finite, ..Self::default() }
    }

    /// Creates an encoding that counts the values that are not finite.
    pub fn counting() -> Self {
        Self { counts: true, ..Self::default() }
    }
}

impl Expression {
    /// Converts the elements to another type. Elements that already have the type are copied
    /// unchanged; `finite` only checks them, and `counts` counts them. Fails if the row length is not a multiple of the block
    /// size, or if the importance weights do not match the shape.
    pub fn encode(&self, ggml_type: GgmlType, encoding: Encoding) -> Result<Self> {
        let shape = *self.shape();
        if let Some(weights) = &encoding.importance
            && matrices(&shape).checked_mul(shape.row_len()) != Some(weights.len() as u64)
        {
            return Err(Error::new(
                ErrorKind::Misuse,
                format!("{} importance weights do not fit shape {shape}", weights.len()),
            ));
        }
        if ggml_type == self.ggml_type() && !encoding.finite && !encoding.counts {
            return Ok(self.clone());
        }
        Self::new(
            shape,
            ggml_type,
            Kind::Encoded { child: self.clone(), encoding, fidelity: Arc::default() },
        )
    }
}

/// Returns the number of matrices stacked in a tensor: its third dimension.
pub fn matrices(shape: &Shape) -> u64 {
    shape.dimensions().get(2).copied().unwrap_or(1)
}

impl Evaluator<'_> {
    pub(super) fn encode(
        &self,
        this: &Expression,
        child: &Expression,
        encoding: &Encoding,
        fidelity: &Fidelity,
        mut region: Region,
        out: &mut Out<'_>,
    ) -> Result<()> {
        let (to, (block, atom)) = (this.ggml_type(), this.0.block);
        let shape = this.shape();
        if child.ggml_type() == to {
            return self.through_bytes(&mut region, out, atom, &mut |region, out| {
                self.fill(child, region.clone(), &mut Out::Bytes { bytes: out, atom })?;
                let mut values = zeroed((out.len() / atom).saturating_mul(size(block)))?;
                quant::dequantize(to, out, &mut values)
                    .map_err(|error| Error::caused(ErrorKind::Unsupported, error))?;
                let element = |index: usize| {
                    element(region, &this.0.extents, index as u64 / block) * block
                        + index as u64 % block
                };
                if !encoding.finite {
                    fidelity.count_non_finite(&values, element);
                    return Ok(());
                }
                refuse_non_finite(&values, |index| row_and_column(shape, element(index)))
            });
        }
        if block == 1 {
            return self.through_bytes(&mut region, out, atom, &mut |region, out| {
                let mut values = zeroed(size(region.atoms()))?;
                self.floats(child, region.clone(), &mut values)?;
                let place = |index: usize| {
                    row_and_column(shape, element(region, &this.0.extents, index as u64))
                };
                if encoding.finite {
                    refuse_non_finite(&values, place)?;
                }
                quant::quantize(to, &values, values.len(), None, out)
                    .map_err(|error| codec_error(&error, to, values.len(), &place))?;
                if child.ggml_type() == GgmlType::F64 {
                    // Doubles below the range of F32 are zeros already.
                    let mut doubles = zeroed(values.len().saturating_mul(8))?;
                    let bytes = &mut Out::Bytes { bytes: &mut doubles, atom: 8 };
                    self.fill(child, region.clone(), bytes)?;
                    fidelity.compare_doubles(to, &doubles, &values);
                }
                if is_float(to) {
                    let first = element(region, &this.0.extents, 0);
                    let step = (shape.elements() / CHUNK).max(1);
                    let is_sampled = Fidelity::samples(first / CHUNK, step);
                    if is_sampled {
                        let count = values.len().min(COMPARED);
                        fidelity.compare(to, &values[..count], &out[..count * atom], Some(first));
                    }
                    fidelity.compare(to, &values, out, None);
                }
                if encoding.finite { refuse_out_of_range(to, &values, out, place) } else { Ok(()) }
            });
        }
        let (width, row_bytes) = (size(shape.row_len()), size(this.0.extents[0]) * atom);
        let rows_of_matrix = shape.dimensions().get(1).copied().unwrap_or(1).max(1);
        self.rows(this, region, out, shape.row_len(), &mut |rows, region, out| {
            let mut values = zeroed(width.saturating_mul(rows.len()))?;
            self.floats(child, region, &mut values)?;
            let place = |index: usize| (rows[index / width], (index % width) as u64);
            if encoding.finite {
                refuse_non_finite(&values, place)?;
            }
            let matrix = |row: u64| size(row / rows_of_matrix % matrices(shape).max(1));
            let mut done = 0;
            while let Some(&first) = rows.get(done) {
                // Each matrix of a stack has its own importance weights.
                let count = match encoding.importance {
                    Some(_) => {
                        rows[done..].iter().take_while(|&&row| matrix(row) == matrix(first)).count()
                    }
                    None => rows.len(),
                };
                let weights = encoding
                    .importance
                    .as_deref()
                    .map(|weights| &weights[matrix(first) * width..][..width]);
                let (values, blocks) = (
                    &values[done * width..][..count * width],
                    &mut out[done * row_bytes..][..count * row_bytes],
                );
                quant::quantize(to, values, width, weights, blocks).map_err(|error| {
                    codec_error(&error, to, width, &|index| place(done * width + index))
                })?;
                done += count;
            }
            let count = shape.elements() / shape.row_len().max(1);
            let of_rows = values.chunks_exact(width).zip(out.chunks_exact(row_bytes));
            for (&row, (values, blocks)) in rows.iter().zip(of_rows) {
                let is_sampled = Fidelity::samples(row, count);
                fidelity.compare(to, values, blocks, is_sampled.then_some(row));
            }
            if encoding.finite { refuse_out_of_range(to, &values, out, place) } else { Ok(()) }
        })
    }
}

/// The most values of a region that are compared with their encoding as floats.
const COMPARED: usize = 1 << 14;

/// Returns `true` for a type of 16-bit floats.
fn is_float(to: GgmlType) -> bool {
    matches!(to, GgmlType::F16 | GgmlType::BF16)
}

/// Returns the element of the array at position `index` of a packed region.
fn element(region: &Region, extents: &[u64], mut index: u64) -> u64 {
    let (start, loops) = region.flatten(extents);
    loops.iter().fold(start, |element, this| {
        let i = index % this.count;
        index /= this.count;
        element + i * this.step
    })
}

/// Returns the row and column of an element.
fn row_and_column(shape: &Shape, element: u64) -> (u64, u64) {
    let row_len = shape.row_len().max(1);
    (element / row_len, element % row_len)
}

fn refuse_non_finite(values: &[f32], place: impl Fn(usize) -> (u64, u64)) -> Result<()> {
    let Some((index, value)) = first_where(values, |value| !value.is_finite()) else {
        return Ok(());
    };
    let (row, column) = place(index);
    Err(Error::new(
        ErrorKind::NonFinite,
        format!("row {row}, column {column} is {value}, expected a finite number"),
    ))
}

/// Fails if the type cannot represent one of the encoded values.
fn refuse_out_of_range(
    to: GgmlType,
    values: &[f32],
    blocks: &[u8],
    place: impl Fn(usize) -> (u64, u64),
) -> Result<()> {
    let Err(error) = quant::check_range(to, values, values.len(), blocks) else { return Ok(()) };
    let quant::ErrorKind::OutOfRange { column: index, .. } = error.kind() else {
        return Err(Error::caused(ErrorKind::Unsupported, error));
    };
    let ((row, column), value) = (place(index), values[index]);
    let size = if value.abs() < 1.0 { "small" } else { "large" };
    let message = if to.is_quantized() {
        format!(
            "row {row}, column {column} is {value:e}, in a block with numbers that are too {size} \
             for {to}"
        )
    } else {
        format!("row {row}, column {column} is {value:e}, which is too {size} for {to}")
    };
    Err(Error::new(ErrorKind::Range, message))
}

/// Converts a codec's error, whose rows have `row_len` elements, to one with the row and column of
/// the tensor.
fn codec_error(
    error: &quant::Error,
    to: GgmlType,
    row_len: usize,
    place: &dyn Fn(usize) -> (u64, u64),
) -> Error {
    match error.kind() {
        quant::ErrorKind::NonFinite { row, column } => {
            let (row, column) = place(row * row_len + column);
            Error::new(
                ErrorKind::NonFinite,
                format!("row {row}, column {column} is not finite, which {to} cannot represent"),
            )
        }
        _ => Error::new(ErrorKind::Misuse, error.to_string()),
    }
}

/// Finds the first value for which `is_match` holds, and its index. Tests many values without a
/// branch for each, which is several times faster.
fn first_where(values: &[f32], is_match: impl Fn(f32) -> bool) -> Option<(usize, f32)> {
    const STRIDE: usize = 256;
    for (number, chunk) in values.chunks(STRIDE).enumerate() {
        if chunk.iter().fold(false, |any, &value| any | is_match(value)) {
            let index = chunk.iter().position(|&value| is_match(value))?;
            return Some((number * STRIDE + index, chunk[index]));
        }
    }
    None
}
