//! One tensor of a model.

use std::ffi::OsString;
use std::ops::Range;
use std::sync::Arc;

use ggmill::{Endian, GgmlType, Shape, quant};
use numpy::PyArray1;
use pyo3::prelude::*;

use crate::error::{Failure, Result};
use crate::filled::filled;
use crate::memory;
use crate::threads;
use crate::value::string;

/// A tensor: what the header says of it, and ways to its data.
#[pyclass(frozen, module = "ggmill._native")]
pub(crate) struct Tensor {
    model: Arc<ggmill::core::Model>,
    number: usize,
    is_mapped: bool,
}

impl Tensor {
    pub(crate) fn new(
        model: Arc<ggmill::core::Model>,
        number: usize,
        is_mapped: bool,
    ) -> Result<Self> {
        let this = Self { model, number, is_mapped };
        this.tensor()?;
        Ok(this)
    }

    fn tensor(&self) -> Result<ggmill::core::Tensor<'_>> {
        nth(&self.model, self.number)
    }
}

fn nth(model: &ggmill::core::Model, number: usize) -> Result<ggmill::core::Tensor<'_>> {
    model.tensors().nth(number).ok_or_else(|| Failure::misuse("no such tensor"))
}

/// So many zeros, or an error where memory does not hold them.
fn zeros<T: Clone + Default>(count: usize) -> Result<Vec<T>> {
    let mut values = Vec::new();
    values
        .try_reserve_exact(count)
        .map_err(|_| Failure::new("limit", format!("{count} values do not fit into memory")))?;
    values.resize(count, T::default());
    Ok(values)
}

fn to_usize(number: u64) -> Result<usize> {
    usize::try_from(number)
        .map_err(|_| Failure::new("limit", format!("{number} does not fit into memory")))
}

#[pymethods]
impl Tensor {
    #[getter]
    fn name<'py>(&self, py: Python<'py>) -> Result<Bound<'py, PyAny>> {
        string(py, self.tensor()?.name())
    }

    /// The number of the type.
    #[getter]
    fn type_number(&self) -> Result<u32> {
        Ok(self.tensor()?.ggml_type().0)
    }

    /// The dimensions in stored order, the row length first.
    #[getter]
    fn dimensions(&self) -> Result<Vec<u64>> {
        Ok(self.tensor()?.shape().dimensions().to_vec())
    }

    /// Where the data begins in their file.
    #[getter]
    fn offset(&self) -> Result<u64> {
        Ok(self.tensor()?.offset())
    }

    /// Where the tensor info begins in the file.
    #[getter]
    fn info_offset(&self) -> Result<u64> {
        Ok(self.tensor()?.info_offset())
    }

    /// Bytes of the data; `None` for an unknown type.
    #[getter]
    fn size(&self) -> Result<Option<u64>> {
        Ok(self.tensor()?.size())
    }

    /// Which file of the model it is in, counted from 0.
    #[getter]
    fn part(&self) -> Result<usize> {
        Ok(self.tensor()?.part())
    }

    /// The path of the file it is in.
    #[getter]
    fn path(&self) -> Result<Option<OsString>> {
        let part = self.tensor()?.part();
        let file = self.model.parts().get(part).and_then(ggmill::io::file_of);
        Ok(file.map(|file| file.path().as_os_str().to_owned()))
    }

    /// Whether the stored data is big-endian.
    #[getter]
    fn big_endian(&self) -> Result<bool> {
        Ok(self.tensor()?.endian() == Endian::Big)
    }

    /// The data as they lie in the file: a view where it is mapped, a copy otherwise.
    fn raw<'py>(&self, py: Python<'py>) -> Result<Bound<'py, PyArray1<u8>>> {
        if self.is_mapped {
            let number = self.number;
            return memory::view(py, &self.model, |model| Ok(nth(model, number)?.raw_data()?));
        }
        let tensor = self.tensor()?;
        let size = tensor.size().unwrap_or(0);
        self.last_byte(&tensor, size)?;
        filled(py, to_usize(size)?, |data| Ok(self.model.read_raw(&tensor, 0, data)?))
    }

    /// The data in canonical form, little-endian blocks: a view where that is how they lie in a
    /// mapped file, a copy otherwise.
    fn canonical<'py>(&self, py: Python<'py>) -> Result<Bound<'py, PyArray1<u8>>> {
        let tensor = self.tensor()?;
        if self.is_mapped && tensor.endian() == Endian::Little {
            return self.raw(py);
        }
        let data = py.detach(|| self.model.read_tensor(&tensor))?;
        Ok(PyArray1::from_vec(py, data))
    }

    /// The values of rows `start` up to `stop` as `float32`, row after row.
    #[pyo3(signature = (start, stop, *, threads = None))]
    fn dequantize<'py>(
        &self,
        py: Python<'py>,
        start: u64,
        stop: u64,
        threads: Option<usize>,
    ) -> Result<Bound<'py, PyArray1<f32>>> {
        let tensor = self.tensor()?;
        let (shape, row_size) = (tensor.shape(), row_size(tensor.ggml_type(), tensor.shape())?);
        if start > stop || stop > shape.rows() {
            let rows = shape.rows();
            return Err(Failure::misuse(format!(
                "rows {start} to {stop} were requested, but the tensor has {rows}"
            )));
        }
        self.last_byte(&tensor, if start < stop { stop * row_size } else { 0 })?;
        let (row_len, rows) = (to_usize(shape.row_len())?, to_usize(stop - start)?);
        filled(py, row_len.saturating_mul(rows), |values| {
            self.decode(&tensor, start..stop, (to_usize(row_size)?, row_len), values, threads)
        })
    }
}

impl Tensor {
    /// Reads the last of this many bytes: an error where the file ends before it, and before memory
    /// is asked for.
    fn last_byte(&self, tensor: &ggmill::core::Tensor<'_>, size: u64) -> Result<()> {
        if let Some(last) = size.checked_sub(1) {
            self.model.read_raw(tensor, last, &mut [0])?;
        }
        Ok(())
    }

    /// Decodes rows of this many bytes and values each.
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
        let mapped = self.is_mapped && tensor.endian() == Endian::Little;
        let here = if mapped {
            tensor.raw_data()?.get(to_usize(rows.start * row)?..to_usize(rows.end * row)?)
        } else {
            None
        };
        if let Some(blocks) = here {
            let work = |_, blocks: &[u8], values: &mut [f32]| Ok(codec.dequantize(blocks, values)?);
            return threads::rows(threads, (blocks, row_size), (values, row_len), work);
        }
        // By rows: reading needs the number of the row, and memory for a piece.
        let numbers: Vec<u64> = rows.clone().collect();
        let work = |place: usize, piece: &[u64], values: &mut [f32]| {
            let mut blocks = zeros::<u8>(piece.len().saturating_mul(row_size))?;
            self.model.read(tensor, (rows.start + place as u64) * row, &mut blocks)?;
            Ok(codec.dequantize(&blocks, values)?)
        };
        threads::rows(threads, (&numbers, 1), (values, row_len), work)
    }
}

/// Bytes of one row.
fn row_size(ggml_type: GgmlType, shape: &Shape) -> Result<u64> {
    ggml_type
        .layout()
        .and_then(|layout| layout.bytes_for(shape.row_len()))
        .ok_or_else(|| Failure::new("unsupported", format!("the size of {ggml_type} is unknown")))
}
