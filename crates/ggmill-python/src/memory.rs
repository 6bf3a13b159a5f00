//! Memory that Rust and NumPy share: arrays that view a mapped model, and arrays that Rust fills. This
//! is the only module with `unsafe`.

use std::path::Path;

use ggmill::{Limits, Model, io};
use numpy::ndarray::ArrayView1;
use numpy::{Element, PyArray1, PyArrayMethods as _, PyReadonlyArray1};
use pyo3::prelude::*;

use crate::error::{Failure, Result};

/// Opens a model by mapping its files.
pub(crate) fn map(path: &Path, alone: bool) -> Result<Model> {
    // SAFETY: `ggmill.open` requires its caller not to write to the files while they are mapped, as
    // `numpy.memmap` does; `mmap=False` reads instead.
    let model =
        unsafe { if alone { io::map_alone_with(path, &Limits::default()) } else { io::map(path) } };
    Ok(model?.into())
}

/// Keeps the memory of an array alive: its `base` in NumPy.
#[pyclass(frozen, module = "ggmill._native")]
pub(crate) struct Memory {
    model: Model,
}

/// Returns bytes of a model as a read-only array of `uint8`, without a copy. The array keeps the model
/// open, also after a `close`.
pub(crate) fn view<'py>(
    py: Python<'py>,
    model: &Model,
    find: impl for<'m> FnOnce(&'m ggmill::core::Model) -> Result<&'m [u8]>,
) -> Result<Bound<'py, PyArray1<u8>>> {
    let memory = Bound::new(py, Memory { model: model.clone() })?;
    let bytes = ArrayView1::from(find(memory.get().model.core())?);
    // SAFETY: the bytes are borrowed from the model, whose memory is reference-counted; `memory` has
    // a reference that it never changes or gives away, and the array holds `memory`. Nothing writes
    // to the bytes: the array is made read-only before Python sees it, and Python cannot make an
    // array writable whose base does not offer writable memory.
    let array = unsafe { PyArray1::borrow_from_array(&bytes, memory.clone().into_any()) };
    array.readwrite().make_nonwriteable();
    Ok(array)
}

/// Returns an array of `count` values that `fill` writes without holding the GIL. They are zero
/// before.
///
/// NumPy allocates the memory, because it requests huge pages: touching new memory then takes a third
/// of the time that it takes with memory of Rust's allocator.
pub(crate) fn filled<T: Element + Send>(
    py: Python<'_>,
    count: usize,
    fill: impl FnOnce(&mut [T]) -> Result<()> + Send,
) -> Result<Bound<'_, PyArray1<T>>> {
    let zeros = py.import("numpy")?.call_method1("zeros", (count, T::get_dtype(py)));
    let array =
        zeros.map_err(|_| Failure::limit(format!("{count} values do not fit into memory")))?;
    let array: Bound<'_, PyArray1<T>> = array.cast_into().map_err(PyErr::from)?;
    {
        let mut values = array.readwrite();
        let values = values.as_slice_mut().map_err(|_| Failure::misuse("not contiguous"))?;
        py.detach(|| fill(values))?;
    }
    Ok(array)
}

/// Returns the elements of a contiguous array.
///
/// They are read while other Python threads run. As with NumPy functions that release the GIL, the
/// caller must not let these write to the array meanwhile (`docs/python.md`). If they do, a mixture of
/// old and new values is read: every bit pattern is a valid value, and the array cannot be resized
/// while it is borrowed.
pub(crate) fn contiguous<'a, T: Element>(array: &'a PyReadonlyArray1<'_, T>) -> Result<&'a [T]> {
    array.as_slice().map_err(|_| Failure::misuse("the array is not contiguous"))
}
