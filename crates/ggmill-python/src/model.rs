//! An open model: its metadata, and its tensors.

use std::ffi::OsString;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::{Mutex, OnceLock, PoisonError};

use ggmill::core::Header;
use ggmill::{Endian, GgmlType, OpenOptions, RawStr, Shape, Value, ValueType, inspect, io, quant};
use numpy::PyArray1;
use pyo3::prelude::*;

use crate::calls::convert_rows;
use crate::error::{Class, Failure, Result};
use crate::memory::{self, filled};
use crate::value::{bytes_of, object, string};

/// An array of `uint64`.
type Numbers<'py> = Bound<'py, PyArray1<u64>>;
/// One entry of the metadata: key, type, offset of the entry, offset and length of its value.
type EntryPlace<'py> = (Bound<'py, PyAny>, u32, u64, u64, u64);

/// A model: one file or all shards of a set. Arrays that view it keep its files open after `close`.
#[pyclass(frozen, name = "Model", module = "ggmill._native")]
pub(crate) struct OpenModel {
    /// `None` after `close`.
    model: Mutex<Option<ggmill::Model>>,
    path: PathBuf,
    is_mapped: bool,
}

impl OpenModel {
    /// Returns the model. Fails if it is closed.
    pub(crate) fn open(&self) -> Result<ggmill::Model> {
        let model = self.model.lock().unwrap_or_else(PoisonError::into_inner);
        model.clone().ok_or_else(|| Failure::closed(&self.path))
    }

    /// Calls `work` with one of the files.
    fn part<R>(&self, part: usize, work: impl FnOnce(&Header<'_>) -> R) -> Result<R> {
        let model = self.open()?;
        let part = model.core().parts().get(part).ok_or_else(|| Failure::misuse("no such file"))?;
        Ok(work(part))
    }
}

#[pymethods]
impl OpenModel {
    #[new]
    #[pyo3(signature = (path, *, mmap = true, alone = false, damaged = false))]
    fn new(py: Python<'_>, path: PathBuf, mmap: bool, alone: bool, damaged: bool) -> Result<Self> {
        let is_mapped = mmap && !damaged;
        let model = py.detach(|| -> Result<ggmill::Model> {
            if damaged {
                Ok(ggmill::Model::open_damaged(&path)?)
            } else if mmap {
                memory::map(&path, alone)
            } else {
                Ok(OpenOptions::new().alone(alone).open(&path)?)
            }
        })?;
        Ok(Self { model: Mutex::new(Some(model)), path, is_mapped })
    }

    /// Closes the files. Arrays that view them stay valid.
    fn close(&self, py: Python<'_>) {
        let model = self.model.lock().unwrap_or_else(PoisonError::into_inner).take();
        // Unmapping a large file takes a while.
        py.detach(|| drop(model));
    }

    #[getter]
    fn closed(&self) -> bool {
        self.model.lock().unwrap_or_else(PoisonError::into_inner).is_none()
    }

    /// Returns the path that was opened.
    #[getter]
    fn path(&self) -> OsString {
        self.path.clone().into_os_string()
    }

    /// Returns `true` if the files are mapped, so that views of their bytes need no copy.
    #[getter]
    fn mapped(&self) -> bool {
        self.is_mapped
    }

    /// Returns the paths of the files, in order.
    fn paths(&self) -> Result<Vec<OsString>> {
        Ok(self.open()?.files().into_iter().map(PathBuf::into_os_string).collect())
    }

    /// Returns the number of files.
    fn part_count(&self) -> Result<usize> {
        Ok(self.open()?.core().parts().len())
    }

    /// Returns the version of the format.
    fn version(&self) -> Result<u32> {
        Ok(self.open()?.core().header().version())
    }

    /// Returns `true` if the files are big-endian.
    fn big_endian(&self) -> Result<bool> {
        Ok(self.open()?.core().endian() == Endian::Big)
    }

    /// Returns the length of one file, the length of its header, the offset of its tensor data, and
    /// the alignment, all in bytes.
    fn layout(&self, part: usize) -> Result<(Option<u64>, u64, u64, u64)> {
        self.part(part, |part| {
            let alignment = part.alignment().get();
            (part.file_len(), part.header_len(), part.data_offset(), u64::from(alignment))
        })
    }

    /// Returns the metadata entries of one file, in order.
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

    /// Returns the value of an entry; for a duplicate key, of entry number `occurrence`. Returns
    /// `None` if there is no such entry.
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
        let Some(entry) = place.entry(model.core()) else { return Ok(None) };
        match entry.value()? {
            Value::Array(_) => {
                let array = Array { model: model.clone(), place, strings: OnceLock::new() };
                Ok(Some(Bound::new(py, array)?.into_any()))
            }
            value => object(py, &value, 0).map(Some),
        }
    }

    /// Returns the number of tensors in all files.
    fn tensor_count(&self) -> Result<usize> {
        Ok(self.open()?.core().tensors().len())
    }

    /// Returns the names of the tensors, in the order of the files.
    fn tensor_names<'py>(&self, py: Python<'py>) -> Result<Vec<Bound<'py, PyAny>>> {
        self.open()?.tensors().map(|tensor| string(py, tensor.name())).collect()
    }

    /// Returns tensor number `number` in the order of the files.
    fn tensor(&self, number: usize) -> Result<Tensor> {
        let tensor = Tensor { model: self.open()?, number, is_mapped: self.is_mapped };
        tensor.info()?;
        Ok(tensor)
    }

    /// Returns all bytes of one file, without a copy; only the header if the file is not mapped.
    fn bytes<'py>(&self, py: Python<'py>, part: usize) -> Result<Bound<'py, PyArray1<u8>>> {
        memory::view(py, &self.open()?, |model| {
            let part = model.parts().get(part);
            part.map(Header::bytes).ok_or_else(|| Failure::misuse("no such file"))
        })
    }

    /// Returns messages about the damage in a file that was opened as damaged.
    fn faults(&self) -> Result<Vec<String>> {
        Ok(self.open()?.core().faults().map(ToString::to_string).collect())
    }

    /// Fails if a file was modified or replaced since it was opened.
    fn verify(&self, py: Python<'_>) -> Result<()> {
        let model = self.open()?;
        Ok(py.detach(|| model.core().verify())?)
    }

    /// Returns the output of `ggmill inspect`.
    #[pyo3(signature = (*, full = false, width = None))]
    fn text(&self, py: Python<'_>, full: bool, width: Option<usize>) -> Result<String> {
        let model = self.open()?;
        let options = inspect::text::Options::default().with_width(width).with_full(full);
        let selection =
            if full { inspect::Selection::default() } else { inspect::Selection::summary() };
        let mut out = Vec::new();
        py.detach(|| inspect::text::write(&mut out, model.core(), &selection, &options))?;
        Ok(String::from_utf8_lossy(&out).into_owned())
    }

    /// Returns the JSON document of `ggmill inspect --json`.
    #[pyo3(signature = (*, full = false))]
    fn json(&self, py: Python<'_>, full: bool) -> Result<String> {
        let model = self.open()?;
        let arrays =
            if full { inspect::json::Arrays::Full } else { inspect::json::Arrays::Shortened };
        let selection = inspect::Selection::default();
        let mut out = Vec::new();
        py.detach(|| inspect::json::write(&mut out, model.core(), &selection, arrays))?;
        Ok(String::from_utf8_lossy(&out).into_owned())
    }
}

/// An entry of a model's metadata. A key can occur several times.
#[derive(Clone, Debug)]
struct Place {
    part: usize,
    key: Vec<u8>,
    /// The number of the entry among those with this key, from 0.
    occurrence: usize,
}

impl Place {
    /// Finds the entry by bisection.
    fn entry<'m>(&self, model: &'m ggmill::core::Model) -> Option<ggmill::Entry<'m>> {
        model.parts().get(self.part)?.metadata().all(&self.key).nth(self.occurrence)
    }

    fn array<'m>(&self, model: &'m ggmill::core::Model) -> Result<ggmill::Array<'m>> {
        match self.entry(model).map(|entry| entry.value()).transpose()? {
            Some(Value::Array(array)) => Ok(array),
            _ => Err(Failure::misuse("no such array")),
        }
    }
}

/// An array in the metadata of a model, whose elements are decoded on access.
#[pyclass(frozen, module = "ggmill._native")]
pub(crate) struct Array {
    model: ggmill::Model,
    place: Place,
    /// The offset of each string in the bytes of the elements, and its length.
    strings: OnceLock<Vec<(usize, usize)>>,
}

impl Array {
    fn array(&self) -> Result<ggmill::Array<'_>> {
        self.place.array(self.model.core())
    }

    /// Returns the offsets and lengths of the strings. The first call walks over all of them.
    fn strings(&self) -> Result<&[(usize, usize)]> {
        if let Some(strings) = self.strings.get() {
            return Ok(strings);
        }
        let array = self.array()?;
        let base = array.as_bytes().as_ptr().addr();
        let texts = array.strings().ok_or_else(|| {
            let message = format!("an array of {}", array.element_type());
            Failure::new(Class::FormatError, "wrong_type", message)
        })?;
        let place = |text: ggmill::core::Result<RawStr<'_>>| {
            let bytes = text?.as_bytes();
            Ok((bytes.as_ptr().addr().saturating_sub(base), bytes.len()))
        };
        let strings = texts.map(place).collect::<Result<Vec<_>>>()?;
        Ok(self.strings.get_or_init(|| strings))
    }

    fn element<'py>(&self, py: Python<'py>, number: u64) -> Result<Bound<'py, PyAny>> {
        let array = self.array()?;
        if array.element_type() == ValueType::STRING {
            let strings = self.strings()?;
            let (start, len) = usize::try_from(number)
                .ok()
                .and_then(|number| strings.get(number).copied())
                .ok_or_else(|| Failure::misuse("no such element"))?;
            let text = array.as_bytes().get(start..).and_then(|rest| rest.get(..len));
            return string(py, RawStr::new(text.unwrap_or_default()));
        }
        match array.get(number) {
            Some(value) => object(py, &value?, 1),
            None => Err(Failure::misuse("no such element")),
        }
    }
}

#[pymethods]
impl Array {
    fn __len__(&self) -> Result<usize> {
        let len = self.array()?.len();
        usize::try_from(len).map_err(|_| Failure::limit(format!("{len} elements")))
    }

    /// Returns the number of the type of the elements.
    #[getter]
    fn element_type(&self) -> Result<u32> {
        Ok(self.array()?.element_type().0)
    }

    /// Returns element number `number`, counted from 0.
    fn get<'py>(&self, py: Python<'py>, number: u64) -> Result<Bound<'py, PyAny>> {
        self.element(py, number)
    }

    /// Returns the elements of a range, as `slice.indices` gives it.
    fn range<'py>(
        &self,
        py: Python<'py>,
        start: i64,
        stop: i64,
        stride: i64,
    ) -> Result<Vec<Bound<'py, PyAny>>> {
        let mut found = Vec::new();
        let mut at = start;
        while (stride > 0 && at < stop) || (stride < 0 && at > stop) {
            let number = u64::try_from(at).map_err(|_| Failure::misuse("no such element"))?;
            found.push(self.element(py, number)?);
            at = at.saturating_add(stride);
        }
        Ok(found)
    }

    /// Returns all elements as a list.
    fn tolist<'py>(&self, py: Python<'py>) -> Result<Bound<'py, PyAny>> {
        object(py, &Value::Array(self.array()?), 0)
    }

    /// Returns the bytes of the elements as they are in the file, without a copy.
    fn raw<'py>(&self, py: Python<'py>) -> Result<Bound<'py, PyArray1<u8>>> {
        memory::view(py, &self.model, |model| Ok(self.place.array(model)?.as_bytes()))
    }

    /// Returns the offset of each string in `raw`, and its length: two arrays of `uint64`.
    fn places_of_strings<'py>(&self, py: Python<'py>) -> Result<(Numbers<'py>, Numbers<'py>)> {
        let strings = py.detach(|| self.strings())?;
        let starts = strings.iter().map(|(start, _)| *start as u64).collect();
        let lengths = strings.iter().map(|(_, len)| *len as u64).collect();
        Ok((PyArray1::from_vec(py, starts), PyArray1::from_vec(py, lengths)))
    }
}

/// A tensor of a model.
#[pyclass(frozen, module = "ggmill._native")]
pub(crate) struct Tensor {
    model: ggmill::Model,
    number: usize,
    is_mapped: bool,
}

impl Tensor {
    fn info(&self) -> Result<ggmill::core::Tensor<'_>> {
        nth(self.model.core(), self.number)
    }
}

fn nth(model: &ggmill::core::Model, number: usize) -> Result<ggmill::core::Tensor<'_>> {
    model.tensors().nth(number).ok_or_else(|| Failure::misuse("no such tensor"))
}

#[pymethods]
impl Tensor {
    #[getter]
    fn name<'py>(&self, py: Python<'py>) -> Result<Bound<'py, PyAny>> {
        string(py, self.info()?.name())
    }

    /// Returns the number of the type.
    #[getter]
    fn type_number(&self) -> Result<u32> {
        Ok(self.info()?.ggml_type().0)
    }

    /// Returns the dimensions in stored order, the row length first.
    #[getter]
    fn dimensions(&self) -> Result<Vec<u64>> {
        Ok(self.info()?.shape().dimensions().to_vec())
    }

    /// Returns the offset of the data in its file, in bytes.
    #[getter]
    fn offset(&self) -> Result<u64> {
        Ok(self.info()?.offset())
    }

    /// Returns the offset of the tensor info in its file, in bytes.
    #[getter]
    fn info_offset(&self) -> Result<u64> {
        Ok(self.info()?.info_offset())
    }

    /// Returns the size of the data in bytes; `None` for an unknown type.
    #[getter]
    fn size(&self) -> Result<Option<u64>> {
        Ok(self.info()?.size())
    }

    /// Returns the index of the file that contains the tensor.
    #[getter]
    fn part(&self) -> Result<usize> {
        Ok(self.info()?.part())
    }

    /// Returns the path of the file that contains the tensor.
    #[getter]
    fn path(&self) -> Result<Option<OsString>> {
        let part = self.info()?.part();
        let file = self.model.core().parts().get(part).and_then(io::file_of);
        Ok(file.map(|file| file.path().as_os_str().to_owned()))
    }

    /// Returns `true` if the stored data is big-endian.
    #[getter]
    fn big_endian(&self) -> Result<bool> {
        Ok(self.info()?.endian() == Endian::Big)
    }

    /// Returns the stored data: a view if the file is mapped, otherwise a copy.
    fn raw<'py>(&self, py: Python<'py>) -> Result<Bound<'py, PyArray1<u8>>> {
        if self.is_mapped {
            let number = self.number;
            return memory::view(py, &self.model, |model| Ok(nth(model, number)?.raw_data()?));
        }
        let tensor = self.info()?;
        let size = tensor.size().unwrap_or(0);
        self.read_last(&tensor, size)?;
        filled(py, to_usize(size)?, |data| Ok(self.model.core().read_raw(&tensor, 0, data)?))
    }

    /// Returns the data as little-endian blocks: a view if a mapped file stores them so, otherwise a
    /// copy.
    fn canonical<'py>(&self, py: Python<'py>) -> Result<Bound<'py, PyArray1<u8>>> {
        let tensor = self.info()?;
        if self.is_mapped && tensor.endian() == Endian::Little {
            return self.raw(py);
        }
        let data = py.detach(|| self.model.core().read_tensor(&tensor))?;
        Ok(PyArray1::from_vec(py, data))
    }

    /// Decodes rows `start` to `stop` (exclusive) to `float32`, row after row.
    #[pyo3(signature = (start, stop, *, threads = None))]
    fn dequantize<'py>(
        &self,
        py: Python<'py>,
        start: u64,
        stop: u64,
        threads: Option<usize>,
    ) -> Result<Bound<'py, PyArray1<f32>>> {
        let tensor = self.info()?;
        let (shape, row_size) = (tensor.shape(), row_size(tensor.ggml_type(), tensor.shape())?);
        if start > stop || stop > shape.rows() {
            let rows = shape.rows();
            return Err(Failure::misuse(format!(
                "rows {start} to {stop} were requested, but the tensor has {rows}"
            )));
        }
        self.read_last(&tensor, if start < stop { stop * row_size } else { 0 })?;
        let (row_len, rows) = (to_usize(shape.row_len())?, to_usize(stop - start)?);
        filled(py, row_len.saturating_mul(rows), |values| {
            self.decode(&tensor, start..stop, (to_usize(row_size)?, row_len), values, threads)
        })
    }
}

impl Tensor {
    /// Reads the last of `size` bytes. Fails if the file ends before it, so that no memory is
    /// allocated for data that a truncated file does not have.
    fn read_last(&self, tensor: &ggmill::core::Tensor<'_>, size: u64) -> Result<()> {
        if let Some(last) = size.checked_sub(1) {
            self.model.core().read_raw(tensor, last, &mut [0])?;
        }
        Ok(())
    }

    /// Decodes rows of `row_size` bytes and `row_len` values.
    fn decode(
        &self,
        tensor: &ggmill::core::Tensor<'_>,
        rows: Range<u64>,
        (row_size, row_len): (usize, usize),
        values: &mut [f32],
        threads: Option<usize>,
    ) -> Result<()> {
        let codec = quant::codec(tensor.ggml_type())?;
        let row = row_size as u64;
        let blocks = if self.is_mapped && tensor.endian() == Endian::Little {
            tensor.raw_data()?.get(to_usize(rows.start * row)?..to_usize(rows.end * row)?)
        } else {
            None
        };
        if let Some(blocks) = blocks {
            let work = |_, blocks: &[u8], values: &mut [f32]| Ok(codec.dequantize(blocks, values)?);
            return convert_rows(threads, (blocks, row_size), (values, row_len), work);
        }
        // Each thread reads the rows that it decodes.
        let numbers: Vec<u64> = rows.clone().collect();
        let work = |place: usize, piece: &[u64], values: &mut [f32]| {
            let mut blocks = zeros(piece.len().saturating_mul(row_size))?;
            self.model.core().read(tensor, (rows.start + place as u64) * row, &mut blocks)?;
            Ok(codec.dequantize(&blocks, values)?)
        };
        convert_rows(threads, (&numbers, 1), (values, row_len), work)
    }
}

/// Returns the size of one row in bytes.
fn row_size(ggml_type: GgmlType, shape: &Shape) -> Result<u64> {
    ggml_type
        .layout()
        .and_then(|layout| layout.bytes_for(shape.row_len()))
        .ok_or_else(|| Failure::unsupported(format!("the size of {ggml_type} is unknown")))
}

/// Returns `count` zeros. Fails if they do not fit into memory.
fn zeros(count: usize) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    bytes
        .try_reserve_exact(count)
        .map_err(|_| Failure::limit(format!("{count} values do not fit into memory")))?;
    bytes.resize(count, 0);
    Ok(bytes)
}

fn to_usize(number: u64) -> Result<usize> {
    usize::try_from(number)
        .map_err(|_| Failure::limit(format!("{number} does not fit into memory")))
}
