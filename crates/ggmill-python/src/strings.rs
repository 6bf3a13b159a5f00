//! Where the strings of an array are, in bytes that need not be those of a model that is open.

use numpy::{PyArray1, PyReadonlyArray1};
use pyo3::prelude::*;

use crate::blocks::contiguous;
use crate::error::{Failure, Result};

/// Where each of `count` strings begins, counted from the start of `buffer`, of which the first is
/// at `offset`; at the end, where the last one ends: `count + 1` numbers.
///
/// A string is its length, 64 bits, and its bytes.
#[pyfunction]
#[pyo3(signature = (buffer, offset, count, *, big_endian = false))]
pub(crate) fn string_offsets<'py>(
    py: Python<'py>,
    buffer: PyReadonlyArray1<'py, u8>,
    offset: usize,
    count: usize,
    big_endian: bool,
) -> Result<Bound<'py, PyArray1<i64>>> {
    let bytes = contiguous(&buffer)?;
    let number = if big_endian { u64::from_be_bytes } else { u64::from_le_bytes };
    let outside = |at: usize| {
        Failure::new("truncated", format!("offset {at:#x}: the string ends after the bytes"))
    };
    // Each takes 8 bytes at least.
    if bytes.len().saturating_sub(offset) / 8 < count {
        return Err(outside(offset));
    }
    let mut offsets = Vec::with_capacity(count.saturating_add(1));
    let mut at = offset;
    for _ in 0..count {
        offsets.push(i64::try_from(at).map_err(|_| outside(at))?);
        let length =
            bytes.get(at..).and_then(|rest| rest.first_chunk()).ok_or_else(|| outside(at))?;
        let end = usize::try_from(number(*length)).ok().and_then(|length| {
            at.checked_add(8)?.checked_add(length).filter(|&end| end <= bytes.len())
        });
        at = end.ok_or_else(|| outside(at))?;
    }
    offsets.push(i64::try_from(at).map_err(|_| outside(at))?);
    Ok(PyArray1::from_vec(py, offsets))
}
