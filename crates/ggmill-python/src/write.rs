//! Writing files from metadata and arrays.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use ggmill::core::{Builder, Plan, PlannedTensor, WriteError, Writer, swap_bytes};
use ggmill::io::{self, FileSink, Overwrite};
use ggmill::{Endian, GgmlType, MetadataBuf, Shape};
use numpy::PyReadonlyArray1;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::calls::{self, Reporter};
use crate::error::{Class, Failure, Result};
use crate::memory::contiguous;
use crate::value::{EncodedValue, bytes_of};

/// A metadata entry: its key, the numbers of its type and element types, its value.
type EntryArgument<'py> = (Bound<'py, PyAny>, Vec<u32>, Bound<'py, PyAny>);
/// A tensor: its name, the number of its type, its dimensions in stored order.
type TensorArgument<'py> = (Bound<'py, PyAny>, u32, Vec<u64>);

/// The number of bytes that are written between two progress reports.
const PIECE: usize = 1 << 20;

/// Returns the header of a file, the offset and size of the data of each tensor, and the length of the
/// file: `(header, [(offset, size)], total)`. Offsets are bytes from the start of the file.
#[pyfunction]
#[pyo3(signature = (metadata, tensors, *, big_endian = false, version_2 = false, pad = false))]
#[expect(clippy::type_complexity, reason = "three things")]
pub(crate) fn header<'py>(
    py: Python<'py>,
    metadata: Vec<EntryArgument<'py>>,
    tensors: Vec<TensorArgument<'py>>,
    big_endian: bool,
    version_2: bool,
    pad: bool,
) -> Result<(Bound<'py, PyBytes>, Vec<(u64, u64)>, u64)> {
    let plan = plan(&metadata, &tensors, big_endian, version_2, pad)?;
    let places = plan.tensors().iter().map(|tensor| (tensor.offset(), tensor.size())).collect();
    Ok((PyBytes::new(py, plan.header()), places, plan.total_len()))
}

/// Writes a file, completely or not at all.
///
/// The data of a tensor are its little-endian blocks, as an array of `uint8` or as a function that
/// returns one and is called when the tensor is written.
#[pyfunction]
#[pyo3(signature = (
    path, metadata, tensors, data, *, big_endian = false, version_2 = false, overwrite = false,
    progress = None
))]
pub(crate) fn write_file<'py>(
    py: Python<'py>,
    path: PathBuf,
    metadata: Vec<EntryArgument<'py>>,
    tensors: Vec<TensorArgument<'py>>,
    data: Vec<Bound<'py, PyAny>>,
    big_endian: bool,
    version_2: bool,
    overwrite: bool,
    progress: Option<Py<PyAny>>,
) -> Result<()> {
    let plan = plan(&metadata, &tensors, big_endian, version_2, false)?;
    if data.len() != tensors.len() {
        let message = format!("{} arrays for {} tensors", data.len(), tensors.len());
        return Err(Failure::misuse(message));
    }
    let data: Vec<Py<PyAny>> = data.into_iter().map(Bound::unbind).collect();
    // Arrays of the wrong length are rejected before the file is created.
    for (number, data) in data.iter().enumerate() {
        let data = data.bind(py);
        if !data.is_callable() {
            let blocks = data.extract::<PyReadonlyArray1<'_, u8>>()?;
            expect_len(&plan, number, contiguous(&blocks)?).map_err(|failure| failure.at(&path))?;
        }
    }
    calls::run(py, progress, |reporter| -> Result<()> {
        let overwrite = if overwrite { Overwrite::Replace } else { Overwrite::Refuse };
        let inputs: [&Path; 0] = [];
        let sink = FileSink::start(&path, &inputs, overwrite, plan.total_len())?;
        let sink = write_tensors(&plan, &data, big_endian, sink, &reporter)?;
        Ok(sink.commit()?)
    })
}

fn expect_len(plan: &Plan, number: usize, blocks: &[u8]) -> Result<()> {
    let Some(tensor) = plan.tensors().get(number) else { return Ok(()) };
    if blocks.len() as u64 == tensor.size() {
        return Ok(());
    }
    let (name, found, expected) = (tensor.name(), blocks.len(), tensor.size());
    Err(Failure::misuse(format!("tensor {name:?}: {found} bytes, expected {expected}")))
}

/// Renames a file within a file system. Fails if the new name exists.
#[pyfunction]
pub(crate) fn rename_no_replace(py: Python<'_>, from: PathBuf, to: PathBuf) -> Result<()> {
    Ok(py.detach(|| io::rename_no_replace(from, to))?)
}

fn write_tensors(
    plan: &Plan,
    data: &[Py<PyAny>],
    big_endian: bool,
    sink: FileSink,
    reporter: &Reporter,
) -> Result<FileSink> {
    let total = plan.tensors().iter().map(PlannedTensor::size).sum();
    let writer = Writer::start(plan, sink).map_err(not_written)?;
    let mut output = Output { plan, big_endian, writer, done: 0, total, reporter };
    for (number, data) in data.iter().enumerate() {
        // One at a time, so that a deferred array is released before the next one is created.
        Python::attach(|py| -> Result<()> {
            let data = data.bind(py);
            let array = if data.is_callable() { data.call0()? } else { data.clone() };
            let blocks = array.extract::<PyReadonlyArray1<'_, u8>>()?;
            let blocks = contiguous(&blocks)?;
            expect_len(plan, number, blocks)?;
            py.detach(|| output.write_tensor(number, blocks))
        })?;
    }
    output.writer.finish().map_err(not_written)
}

/// A file that is being written.
struct Output<'a> {
    plan: &'a Plan,
    big_endian: bool,
    writer: Writer<'a, FileSink>,
    done: u64,
    total: u64,
    reporter: &'a Reporter,
}

impl Output<'_> {
    fn write_tensor(&mut self, number: usize, blocks: &[u8]) -> Result<()> {
        let Some(tensor) = self.plan.tensors().get(number) else { return Ok(()) };
        let block = tensor.ggml_type().layout().map_or(1, |layout| layout.bytes as usize).max(1);
        let name = tensor.name().to_string_lossy();
        let mut swapped = Vec::new();
        for piece in blocks.chunks((PIECE / block).max(1) * block) {
            let piece = if self.big_endian {
                swapped.clear();
                swapped.extend_from_slice(piece);
                swap_bytes(tensor.ggml_type(), &mut swapped)?;
                &swapped
            } else {
                piece
            };
            self.writer.write(number, piece).map_err(not_written)?;
            self.done += piece.len() as u64;
            let answer = self.reporter.report(true, self.done, self.total, &name);
            if let ControlFlow::Break(()) = answer {
                return Err(Failure::new(Class::StoppedError, "cancelled", "stopped on request"));
            }
        }
        Ok(())
    }
}

fn not_written(error: WriteError<io::Error>) -> Failure {
    match error {
        WriteError::Plan(error) => error.into(),
        WriteError::Sink(error) => error.into(),
    }
}

fn plan(
    metadata: &[EntryArgument<'_>],
    tensors: &[TensorArgument<'_>],
    big_endian: bool,
    version_2: bool,
    pad: bool,
) -> Result<Plan> {
    let mut entries = MetadataBuf::new();
    for (key, types, value) in metadata {
        let key = bytes_of(key)?;
        let value = EncodedValue::new(types, value).map_err(|failure| failure.about_key(&key))?;
        entries.set(&key, value);
    }
    let mut builder = Builder::new().metadata(entries).endian(if big_endian {
        Endian::Big
    } else {
        Endian::Little
    });
    if version_2 {
        builder = builder.version_2();
    }
    if pad {
        builder = builder.pad_header();
    }
    for (name, ggml_type, dimensions) in tensors {
        let shape = Shape::new(dimensions)?;
        builder = builder.tensor(bytes_of(name)?, GgmlType(*ggml_type), shape);
    }
    Ok(builder.plan()?)
}
