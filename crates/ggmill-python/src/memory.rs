//! Memory of a model as NumPy arrays, without a copy: the one place of this crate with `unsafe`.

use std::path::Path;
use std::sync::Arc;

use ggmill::io;
use numpy::ndarray::ArrayView1;
use numpy::{PyArray1, PyArrayMethods as _};
use pyo3::prelude::*;

use crate::error::Result;

/// Opens a model by mapping its files.
pub(crate) fn map(path: &Path, alone: bool) -> Result<ggmill::core::Model> {
    // SAFETY: that the files are not written to while they are mapped is what `ggmill.open` asks of
    // its caller, as `numpy.memmap` does; `mmap=False` reads instead.
    let model = unsafe {
        if alone { io::map_alone_with(path, &ggmill::Limits::default()) } else { io::map(path) }
    };
    Ok(model?)
}

/// Keeps the memory of an array: the object that is its `base`.
#[pyclass(frozen, module = "ggmill._native")]
pub(crate) struct Memory {
    model: Arc<ggmill::core::Model>,
}

/// Bytes of a model as a read-only array of `uint8`, without a copy. The array keeps the model, so
/// that it outlives a `close`.
pub(crate) fn view<'py>(
    py: Python<'py>,
    model: &Arc<ggmill::core::Model>,
    find: impl for<'m> FnOnce(&'m ggmill::core::Model) -> Result<&'m [u8]>,
) -> Result<Bound<'py, PyArray1<u8>>> {
    let memory = Bound::new(py, Memory { model: Arc::clone(model) })?;
    let bytes = ArrayView1::from(find(&memory.get().model)?);
    // SAFETY: the bytes are borrowed from the model, which is in an `Arc` that the container holds
    // and never changes or gives away; the array holds the container. Nothing writes to the bytes:
    // the array is made read-only before Python sees it, and Python cannot make an array writable
    // whose base does not offer writable memory.
    let array = unsafe { PyArray1::borrow_from_array(&bytes, memory.clone().into_any()) };
    array.readwrite().make_nonwriteable();
    Ok(array)
}
