//! Arrays whose memory NumPy allocates, and which are filled without holding Python.

use numpy::{Element, PyArray1, PyArrayMethods as _};
use pyo3::prelude::*;

use crate::error::{Failure, Result};

/// An array of so many values, all written by `fill`, which gets zeros.
///
/// NumPy asks the system for large pages, with which touching new memory takes a third of the time;
/// memory of Rust's allocator has none.
pub(crate) fn filled<T: Element + Send>(
    py: Python<'_>,
    count: usize,
    fill: impl FnOnce(&mut [T]) -> Result<()> + Send,
) -> Result<Bound<'_, PyArray1<T>>> {
    let made = py.import("numpy")?.call_method1("zeros", (count, T::get_dtype(py)));
    let array =
        made.map_err(|_| Failure::new("limit", format!("{count} values do not fit into memory")))?;
    let array: Bound<'_, PyArray1<T>> = array.cast_into().map_err(PyErr::from)?;
    {
        let mut values = array.readwrite();
        let values = values.as_slice_mut().map_err(|_| Failure::misuse("not contiguous"))?;
        py.detach(|| fill(values))?;
    }
    Ok(array)
}
