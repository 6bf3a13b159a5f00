//! Tensor types, and arrays of values as blocks of them.

use ggmill::{GgmlType, quant};
use numpy::{PyArray1, PyReadonlyArray1};
use pyo3::prelude::*;

use crate::error::{Failure, Result};
use crate::filled::filled;
use crate::threads;

/// What is known of a tensor type.
#[derive(IntoPyObject)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts")]
pub(crate) struct TypeFacts {
    number: u32,
    name: &'static str,
    /// Elements of a block; 0 where they are not known, as for retired types.
    block_size: u32,
    /// Bytes of a block.
    type_size: u32,
    is_quantized: bool,
    /// Whether values are read from its blocks.
    decodes: bool,
    /// Whether values are rounded to it.
    encodes: bool,
    /// Whether that takes importance weights.
    needs_weights: bool,
}

/// Every tensor type that has a name.
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

/// Bytes of one row of a type.
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

/// Whole rows of `row_len` values as blocks of a type, row after row.
///
/// `weights` say how much each column matters. With `check`, a value that the type cannot hold is
/// an error.
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
        threads::rows(threads, (values, row_len), (blocks, row_size), work)
    })
}

/// An error that counts rows from the first of a piece, which is row `before` of all.
fn of_row(error: quant::Error, before: usize) -> Failure {
    let (quant::ErrorKind::NonFinite { row, .. } | quant::ErrorKind::OutOfRange { row, .. }) =
        error.kind()
    else {
        return error.into();
    };
    let text = error.to_string();
    let of_piece = format!("row {row},");
    let message = text.replacen(&of_piece, &format!("row {},", row + before), 1);
    match error.kind() {
        quant::ErrorKind::NonFinite { .. } => Failure::new("non_finite", message),
        _ => Failure::new("out_of_range", message),
    }
}

/// Whole blocks of a type as values.
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
        // The codec says what is wrong.
        codec.dequantize(blocks, &mut [])?;
    }
    filled(py, whole.saturating_mul(elements), |values| {
        let work = |_, blocks: &[u8], values: &mut [f32]| Ok(codec.dequantize(blocks, values)?);
        threads::rows(threads, (blocks, bytes), (values, elements), work)
    })
}

/// A copy of blocks in the other byte order.
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

/// The elements of an array that lie one after the other.
///
/// They are read while other Python threads run: that these do not write to the array meanwhile is
/// asked of the caller (`docs/python.md`), as NumPy does of those who call what releases Python.
/// What is read of an array that changes is values of then and of now; every pattern of bits is a
/// value of its type, and lengths are those of the array object, which cannot be resized while it
/// is borrowed.
pub(crate) fn contiguous<'a, T: numpy::Element>(
    array: &'a PyReadonlyArray1<'_, T>,
) -> Result<&'a [T]> {
    array.as_slice().map_err(|_| Failure::misuse("the array is not contiguous"))
}
