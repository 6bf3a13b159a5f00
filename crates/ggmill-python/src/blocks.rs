//! Tensor types, and the conversion of arrays to blocks and back.

use ggmill::{GgmlType, quant};
use numpy::{PyArray1, PyReadonlyArray1};
use pyo3::prelude::*;

use crate::calls::convert_rows;
use crate::error::{Class, Failure, Result};
use crate::memory::{contiguous, filled};

/// The properties of a tensor type.
#[derive(IntoPyObject)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts")]
pub(crate) struct TypeFacts {
    number: u32,
    name: &'static str,
    /// The number of elements in a block; 0 for types that were removed.
    block_size: u32,
    /// The size of a block in bytes.
    type_size: u32,
    /// `true` if a block contains more than one element.
    is_quantized: bool,
    /// `true` if blocks can be decoded.
    decodes: bool,
    /// `true` if values can be encoded as this type.
    encodes: bool,
    /// `true` if encoding requires importance weights.
    needs_weights: bool,
}

/// Returns every tensor type that has a name.
#[pyfunction]
pub(crate) fn types() -> Vec<TypeFacts> {
    let facts = |this: GgmlType| {
        let layout = this.layout();
        let block_size = layout.map_or(0, |layout| layout.elements);
        let codec = quant::codec(this).ok();
        let encodes = |codec: &dyn quant::BlockCodec| {
            let done = codec.quantize(&[], block_size as usize, None, &mut []);
            !done.is_err_and(|error| error.kind() == quant::ErrorKind::Unsupported)
        };
        Some(TypeFacts {
            number: this.0,
            name: this.name()?,
            block_size,
            type_size: layout.map_or(0, |layout| layout.bytes),
            is_quantized: this.is_quantized(),
            decodes: codec.is_some(),
            encodes: codec.is_some_and(encodes),
            needs_weights: codec.is_some_and(quant::BlockCodec::needs_weights),
        })
    };
    GgmlType::all().filter_map(facts).collect()
}

/// Returns the size of a row in bytes.
fn row_size(ggml_type: GgmlType, row_len: usize) -> Result<usize> {
    let size = ggml_type.layout().and_then(|layout| layout.bytes_for(row_len as u64));
    let size = size.and_then(|size| usize::try_from(size).ok());
    size.ok_or_else(|| {
        let multiple = ggml_type.layout().map_or(0, |layout| layout.elements);
        Failure::misuse(format!(
            "row length {row_len} is not a multiple of the block size of {ggml_type}, {multiple}"
        ))
    })
}

/// Encodes rows of `row_len` values as blocks of a type, row after row.
///
/// `weights` are the importance weights of the columns. With `check`, a value that the type cannot
/// represent is an error.
#[pyfunction]
#[pyo3(signature = (type_number, values, row_len, weights = None, *, check = false, threads = None))]
pub(crate) fn quantize<'py>(
    py: Python<'py>,
    type_number: u32,
    values: PyReadonlyArray1<'py, f32>,
    row_len: usize,
    weights: Option<PyReadonlyArray1<'py, f32>>,
    check: bool,
    threads: Option<usize>,
) -> Result<Bound<'py, PyArray1<u8>>> {
    let ggml_type = GgmlType(type_number);
    let codec = quant::codec(ggml_type)?;
    let values = contiguous(&values)?;
    let weights = weights.as_ref().map(contiguous).transpose()?;
    let row_size = row_size(ggml_type, row_len)?;
    if row_len == 0 && !values.is_empty() || row_len > 0 && values.len() % row_len != 0 {
        let message = format!("{} values, expected whole rows of {row_len}", values.len());
        return Err(Failure::misuse(message));
    }
    let rows = values.len().checked_div(row_len).unwrap_or(0);
    filled(py, row_size.saturating_mul(rows), |blocks| {
        let work = |row: usize, values: &[f32], blocks: &mut [u8]| {
            let done = codec.quantize(values, row_len, weights, blocks);
            let done = done.and_then(|()| {
                if check { codec.check_range(values, row_len, blocks) } else { Ok(()) }
            });
            done.map_err(|error| of_row(error, row))
        };
        convert_rows(threads, (values, row_len), (blocks, row_size), work)
    })
}

/// Converts an error in a piece of the rows, which begins with row `first`: the row in its message
/// becomes the row of the whole array.
fn of_row(error: quant::Error, first: usize) -> Failure {
    let (quant::ErrorKind::NonFinite { row, .. } | quant::ErrorKind::OutOfRange { row, .. }) =
        error.kind()
    else {
        return error.into();
    };
    let in_piece = format!("row {row},");
    let message = error.to_string().replacen(&in_piece, &format!("row {},", row + first), 1);
    Failure::new(Class::ArgumentError, error.kind().name(), message)
}

/// Decodes whole blocks of a type.
#[pyfunction]
#[pyo3(signature = (type_number, blocks, *, threads = None))]
pub(crate) fn dequantize<'py>(
    py: Python<'py>,
    type_number: u32,
    blocks: PyReadonlyArray1<'py, u8>,
    threads: Option<usize>,
) -> Result<Bound<'py, PyArray1<f32>>> {
    let ggml_type = GgmlType(type_number);
    let codec = quant::codec(ggml_type)?;
    let blocks = contiguous(&blocks)?;
    let layout = ggml_type.layout();
    let (elements, bytes) =
        layout.map_or((1, 1), |layout| (layout.elements as usize, layout.bytes as usize));
    let whole = blocks.len() / bytes.max(1);
    if whole.saturating_mul(bytes) != blocks.len() {
        // Fails with the codec's message about incomplete blocks.
        codec.dequantize(blocks, &mut [])?;
    }
    filled(py, whole.saturating_mul(elements), |values| {
        let work = |_, blocks: &[u8], values: &mut [f32]| Ok(codec.dequantize(blocks, values)?);
        convert_rows(threads, (blocks, bytes), (values, elements), work)
    })
}

/// Returns a copy of blocks in the other byte order.
#[pyfunction]
pub(crate) fn swap_bytes<'py>(
    py: Python<'py>,
    type_number: u32,
    blocks: PyReadonlyArray1<'py, u8>,
) -> Result<Bound<'py, PyArray1<u8>>> {
    let blocks = contiguous(&blocks)?;
    let swapped = py.detach(|| -> Result<Vec<u8>> {
        let mut swapped = blocks.to_vec();
        quant::swap_bytes(GgmlType(type_number), &mut swapped)?;
        Ok(swapped)
    })?;
    Ok(PyArray1::from_vec(py, swapped))
}
