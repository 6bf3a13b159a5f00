//! Files of metadata and arrays.

use std::ops::ControlFlow;
use std::path::PathBuf;

use ggmill::io::{FileSink, Overwrite};
use ggmill::pipeline::{self, ErrorKind, Progress, Report};
use ggmill::{Builder, Endian, GgmlType, MetadataBuf, Plan, Shape, Writer, swap_bytes};
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
/// little-endian, as arrays of `uint8`.
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
    data: Vec<PyReadonlyArray1<'py, u8>>,
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
    let data = data.iter().map(contiguous).collect::<Result<Vec<_>>>()?;
    for (tensor, blocks) in plan.tensors().iter().zip(&data) {
        if blocks.len() as u64 != tensor.size() {
            let (name, found, expected) = (tensor.name(), blocks.len(), tensor.size());
            let message = format!("tensor {name:?}: {found} bytes, expected {expected}");
            return Err(Failure::misuse(message).at(&path));
        }
    }
    reporting(py, progress, |report| {
        let overwrite = if overwrite { Overwrite::Replace } else { Overwrite::Refuse };
        let mut sink = FileSink::create(&path, overwrite)?;
        sink.reserve(plan.total_len())?;
        let sink = stream(&plan, &data, big_endian, sink, report)?;
        Ok(sink.commit()?)
    })
}

fn stream(
    plan: &Plan,
    data: &[&[u8]],
    big_endian: bool,
    sink: FileSink,
    report: &mut Report<'_>,
) -> pipeline::Result<FileSink> {
    let written = |error: ggmill::WriteError<ggmill::io::Error>| match error {
        ggmill::WriteError::Plan(error) => pipeline::Error::caused(ErrorKind::Misuse, error),
        ggmill::WriteError::Sink(error) => error.into(),
    };
    let total = data.iter().map(|blocks| blocks.len() as u64).sum();
    let mut done = 0;
    let mut writer = Writer::start(plan, sink).map_err(written)?;
    for (number, (tensor, blocks)) in plan.tensors().iter().zip(data).enumerate() {
        let block = tensor.ggml_type().layout().map_or(1, |layout| layout.bytes as usize).max(1);
        let name = tensor.name().to_string_lossy().into_owned();
        let mut swapped = Vec::new();
        for piece in blocks.chunks((PIECE / block).max(1) * block) {
            let piece = if big_endian {
                swapped.clear();
                swapped.extend_from_slice(piece);
                swap_bytes(tensor.ggml_type(), &mut swapped)?;
                &swapped
            } else {
                piece
            };
            writer.write(number, piece).map_err(written)?;
            done += piece.len() as u64;
            if let ControlFlow::Break(()) = report(Progress::new(&name, done, total)) {
                return Err(pipeline::Error::new(ErrorKind::Cancelled, "stopped on request"));
            }
        }
    }
    writer.finish().map_err(written)
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
