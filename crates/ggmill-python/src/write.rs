//! Files of metadata and arrays.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use ggmill::core::{Builder, Plan, PlannedTensor, Writer, swap_bytes};
use ggmill::io::{self, FileSink, Overwrite};
use ggmill::pipeline::{self, ErrorKind, Progress, Report};
use ggmill::{Endian, GgmlType, MetadataBuf, Shape};
use numpy::PyReadonlyArray1;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::blocks::contiguous;
use crate::error::{Failure, Result};
use crate::progress::reporting;
use crate::value::{Given, bytes_of};

/// An entry to be: its key, its types from the outside in, its value.
type GivenEntry<'py> = (Bound<'py, PyAny>, Vec<u32>, Bound<'py, PyAny>);
/// A tensor to be: its name, its type, its dimensions in stored order.
type GivenTensor<'py> = (Bound<'py, PyAny>, u32, Vec<u64>);

/// Bytes written at once.
const PIECE: usize = 1 << 20;

/// The header of a file, and where its data will be: `(header, [(offset, size)], total)`. Offsets
/// are counted from the start of the file, in bytes.
#[pyfunction]
#[pyo3(signature = (metadata, tensors, *, big_endian = false, version_2 = false, pad = false))]
#[expect(clippy::type_complexity, reason = "three things")]
pub(crate) fn header<'py>(
    py: Python<'py>,
    metadata: Vec<GivenEntry<'py>>,
    tensors: Vec<GivenTensor<'py>>,
    big_endian: bool,
    version_2: bool,
    pad: bool,
) -> Result<(Bound<'py, PyBytes>, Vec<(u64, u64)>, u64)> {
    let plan = plan(&metadata, &tensors, big_endian, version_2, pad)?;
    let places = plan.tensors().iter().map(|tensor| (tensor.offset(), tensor.size())).collect();
    Ok((PyBytes::new(py, plan.header()), places, plan.total_len()))
}

/// Writes a file whole or not at all: metadata, and tensors with their blocks in canonical form,
/// little-endian, as arrays of `uint8` or as functions that make these when they are written.
#[pyfunction]
#[pyo3(signature = (
    path, metadata, tensors, data, *, big_endian = false, version_2 = false, overwrite = false,
    progress = None
))]
pub(crate) fn write_file<'py>(
    py: Python<'py>,
    path: PathBuf,
    metadata: Vec<GivenEntry<'py>>,
    tensors: Vec<GivenTensor<'py>>,
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
    // What there is already is refused before a file is begun.
    for (number, data) in data.iter().enumerate() {
        let data = data.bind(py);
        if !data.is_callable() {
            let blocks = data.extract::<PyReadonlyArray1<'_, u8>>()?;
            expect_len(&plan, number, contiguous(&blocks)?).map_err(|failure| failure.at(&path))?;
        }
    }
    let raised: Mutex<Option<Failure>> = Mutex::default();
    let outcome = reporting(py, progress, |report| {
        let overwrite = if overwrite { Overwrite::Replace } else { Overwrite::Refuse };
        let inputs: [&Path; 0] = [];
        let sink = FileSink::start(&path, &inputs, overwrite, plan.total_len())?;
        let sink = stream(&plan, &data, big_endian, sink, report).map_err(|failure| {
            *raised.lock().unwrap_or_else(PoisonError::into_inner) = Some(failure);
            stopped()
        })?;
        Ok(sink.commit()?)
    });
    let raised = raised.into_inner().unwrap_or_else(PoisonError::into_inner);
    match (outcome, raised) {
        // What the callback raised is why the rest was stopped.
        (Err(Failure::Raised(error)), _) => Err(Failure::Raised(error)),
        (_, Some(failure)) => Err(failure),
        (outcome, None) => outcome,
    }
}

fn stopped() -> pipeline::Error {
    pipeline::Error::new(ErrorKind::Cancelled, "stopped on request")
}

fn expect_len(plan: &Plan, number: usize, blocks: &[u8]) -> Result<()> {
    let Some(tensor) = plan.tensors().get(number) else { return Ok(()) };
    if blocks.len() as u64 == tensor.size() {
        return Ok(());
    }
    let (name, found, expected) = (tensor.name(), blocks.len(), tensor.size());
    Err(Failure::misuse(format!("tensor {name:?}: {found} bytes, expected {expected}")))
}

/// Gives a file another name on the same file system, never that of an existing file.
#[pyfunction]
pub(crate) fn rename_no_replace(py: Python<'_>, from: PathBuf, to: PathBuf) -> Result<()> {
    Ok(py.detach(|| io::rename_no_replace(from, to))?)
}

/// The tensors of a file that is begun, one after the other.
struct Stream<'a, 'r> {
    plan: &'a Plan,
    big_endian: bool,
    writer: Writer<'a, FileSink>,
    done: u64,
    total: u64,
    report: &'a mut Report<'r>,
}

fn stream(
    plan: &Plan,
    data: &[Py<PyAny>],
    big_endian: bool,
    sink: FileSink,
    report: &mut Report<'_>,
) -> Result<FileSink> {
    let total = plan.tensors().iter().map(PlannedTensor::size).sum();
    let writer = Writer::start(plan, sink).map_err(written)?;
    let mut stream = Stream { plan, big_endian, writer, done: 0, total, report };
    for (number, data) in data.iter().enumerate() {
        // One after the other, so that what is made for one is gone before the next.
        Python::attach(|py| -> Result<()> {
            let data = data.bind(py);
            let made = if data.is_callable() { data.call0()? } else { data.clone() };
            let blocks = made.extract::<PyReadonlyArray1<'_, u8>>()?;
            let blocks = contiguous(&blocks)?;
            expect_len(plan, number, blocks)?;
            py.detach(|| stream.tensor(number, blocks))
        })?;
    }
    stream.writer.finish().map_err(written)
}

fn written(error: ggmill::core::WriteError<io::Error>) -> Failure {
    match error {
        ggmill::core::WriteError::Plan(error) => {
            pipeline::Error::caused(ErrorKind::Misuse, error).into()
        }
        ggmill::core::WriteError::Sink(error) => error.into(),
    }
}

impl Stream<'_, '_> {
    fn tensor(&mut self, number: usize, blocks: &[u8]) -> Result<()> {
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
            self.writer.write(number, piece).map_err(written)?;
            self.done += piece.len() as u64;
            let progress = Progress::new(&name, self.done, self.total);
            if let ControlFlow::Break(()) = (self.report)(progress) {
                return Err(stopped().into());
            }
        }
        Ok(())
    }
}

fn plan(
    metadata: &[GivenEntry<'_>],
    tensors: &[GivenTensor<'_>],
    big_endian: bool,
    version_2: bool,
    pad: bool,
) -> Result<Plan> {
    let mut entries = MetadataBuf::new();
    for (key, types, value) in metadata {
        let key = bytes_of(key)?;
        let value = Given::new(types, value).map_err(|failure| failure.about_key(&key))?;
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
