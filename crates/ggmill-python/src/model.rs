//! An open model.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use ggmill::core::Part;
use ggmill::{Endian, Value, inspect, io};
use numpy::PyArray1;
use pyo3::prelude::*;

use crate::array::{Array, Place};
use crate::error::{Failure, Result};
use crate::memory;
use crate::tensor::Tensor;
use crate::value::{bytes_of, object, string};

/// One entry of the metadata: key, type, offset of the entry, offset and length of its value.
type EntryPlace<'py> = (Bound<'py, PyAny>, u32, u64, u64, u64);

/// A model: one file or all shards of a set. Arrays made of it keep its files after `close`.
#[pyclass(frozen, name = "Model", module = "ggmill._native")]
pub(crate) struct OpenModel {
    /// `None` once it is closed.
    held: Mutex<Option<Arc<ggmill::core::Model>>>,
    path: PathBuf,
    is_mapped: bool,
}

impl OpenModel {
    /// The model, unless it was closed.
    pub(crate) fn open(&self) -> Result<Arc<ggmill::core::Model>> {
        let model = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        model.clone().ok_or_else(|| Failure::closed(&self.path))
    }

    /// The same with work on one of its files.
    fn part<R>(&self, part: usize, work: impl FnOnce(&Part) -> R) -> Result<R> {
        let model = self.open()?;
        let part = model.parts().get(part).ok_or_else(|| Failure::misuse("no such file"))?;
        Ok(work(part))
    }
}

#[pymethods]
impl OpenModel {
    #[new]
    #[pyo3(signature = (path, *, mmap = true, alone = false, salvage = false))]
    fn new(py: Python<'_>, path: PathBuf, mmap: bool, alone: bool, salvage: bool) -> Result<Self> {
        let model = py.detach(|| -> Result<ggmill::core::Model> {
            if salvage {
                Ok(io::salvage(&path)?)
            } else if mmap {
                memory::map(&path, alone)
            } else if alone {
                Ok(io::open_alone(&path)?)
            } else {
                Ok(io::open(&path)?)
            }
        })?;
        let is_mapped = mmap && !salvage;
        Ok(Self { held: Mutex::new(Some(Arc::new(model))), path, is_mapped })
    }

    /// Lets go of the files. Arrays that were made of them stay.
    fn close(&self, py: Python<'_>) {
        let model = self.held.lock().unwrap_or_else(PoisonError::into_inner).take();
        // Unmapping a large file takes a while.
        py.detach(|| drop(model));
    }

    #[getter]
    fn closed(&self) -> bool {
        self.held.lock().unwrap_or_else(PoisonError::into_inner).is_none()
    }

    /// The path that was opened.
    #[getter]
    fn path(&self) -> std::ffi::OsString {
        self.path.clone().into_os_string()
    }

    /// Whether the files are mapped: then views of their bytes need no copy.
    #[getter]
    fn mapped(&self) -> bool {
        self.is_mapped
    }

    /// The paths of its files, in order.
    fn paths(&self) -> Result<Vec<std::ffi::OsString>> {
        let model = self.open()?;
        Ok(io::files(&model).map(|file| file.path().as_os_str().to_owned()).collect())
    }

    /// The number of its files.
    fn part_count(&self) -> Result<usize> {
        Ok(self.open()?.parts().len())
    }

    /// The version of the format.
    fn version(&self) -> Result<u32> {
        Ok(self.open()?.index().version())
    }

    /// Whether the files are big-endian.
    fn big_endian(&self) -> Result<bool> {
        Ok(self.open()?.endian() == Endian::Big)
    }

    /// Of one file: bytes of all of it, of the header, up to the data, and the alignment.
    fn layout(&self, part: usize) -> Result<(Option<u64>, u64, u64, u64)> {
        self.part(part, |part| {
            let index = part.index();
            let alignment = index.alignment().get();
            (part.file_len(), index.header_len(), index.data_offset(), u64::from(alignment))
        })
    }

    /// The metadata entries of one file, in order.
    fn entries<'py>(&self, py: Python<'py>, part: usize) -> Result<Vec<EntryPlace<'py>>> {
        self.part(part, |part| {
            let entry = |entry: ggmill::Entry<'_>| {
                Ok((
                    string(py, entry.key())?,
                    entry.value_type().0,
                    entry.offset(),
                    entry.value_offset(),
                    entry.value_bytes().len() as u64,
                ))
            };
            part.metadata().iter().map(entry).collect()
        })?
    }

    /// The value of an entry: of several with one key, number `occurrence`. `None` where there is
    /// none.
    #[pyo3(signature = (part, key, occurrence = 0))]
    fn value<'py>(
        &self,
        py: Python<'py>,
        part: usize,
        key: &Bound<'py, PyAny>,
        occurrence: usize,
    ) -> Result<Option<Bound<'py, PyAny>>> {
        let model = self.open()?;
        let place = Place { part, key: bytes_of(key)?, occurrence };
        let Some(entry) = place.entry(&model) else { return Ok(None) };
        match entry.value()? {
            Value::Array(_) => {
                let array = Array::new(Arc::clone(&model), place);
                Ok(Some(Bound::new(py, array)?.into_any()))
            }
            value => object(py, &value, 0).map(Some),
        }
    }

    /// The number of tensors in all files.
    fn tensor_count(&self) -> Result<usize> {
        Ok(self.open()?.tensors().len())
    }

    /// The names of the tensors, in the order of the files.
    fn tensor_names<'py>(&self, py: Python<'py>) -> Result<Vec<Bound<'py, PyAny>>> {
        self.open()?.tensors().iter().map(|tensor| string(py, tensor.name())).collect()
    }

    /// Tensor number `number` in the order of the files.
    fn tensor(&self, number: usize) -> Result<Tensor> {
        Tensor::new(self.open()?, number, self.is_mapped)
    }

    /// All bytes of one file, without a copy; the header alone where it is not mapped.
    fn bytes<'py>(&self, py: Python<'py>, part: usize) -> Result<Bound<'py, PyArray1<u8>>> {
        memory::view(py, &self.open()?, |model| {
            let part = model.parts().get(part);
            part.map(Part::bytes).ok_or_else(|| Failure::misuse("no such file"))
        })
    }

    /// What was wrong with a file that was salvaged: messages.
    fn faults(&self) -> Result<Vec<String>> {
        Ok(self.open()?.faults().map(ToString::to_string).collect())
    }

    /// Fails when the files are not those that were opened.
    fn verify(&self, py: Python<'_>) -> Result<()> {
        let model = self.open()?;
        Ok(py.detach(|| model.verify())?)
    }

    /// The page of `ggmill inspect` as text.
    #[pyo3(signature = (*, full = false, width = None))]
    fn text(&self, py: Python<'_>, full: bool, width: Option<usize>) -> Result<String> {
        let model = self.open()?;
        let options = inspect::text::Options::default().with_width(width).with_full(full);
        let selection =
            if full { inspect::Selection::default() } else { inspect::Selection::summary() };
        let mut out = Vec::new();
        py.detach(|| inspect::text::write(&mut out, &model, &selection, &options))?;
        Ok(String::from_utf8_lossy(&out).into_owned())
    }

    /// The document of `ggmill inspect --json`.
    #[pyo3(signature = (*, full = false))]
    fn json(&self, py: Python<'_>, full: bool) -> Result<String> {
        let model = self.open()?;
        let arrays =
            if full { inspect::json::Arrays::Full } else { inspect::json::Arrays::Shortened };
        let selection = inspect::Selection::default();
        let mut out = Vec::new();
        py.detach(|| inspect::json::write(&mut out, &model, &selection, arrays))?;
        Ok(String::from_utf8_lossy(&out).into_owned())
    }
}
