//! Hashes of weights.

use std::path::PathBuf;

use ggmill::RawStr;
use ggmill::hash::{HashKind, HashSubject};
use ggmill::pipeline::Checkpoint as _;
use pyo3::prelude::*;

use super::output::open;
use crate::error::{Failure, Result};
use crate::progress::reporting;
use crate::threads;
use crate::value::string;

/// A hash: its kind, its digest in hexadecimal, and the tensor it is of (`None`: the model).
type Line<'py> = (&'static str, String, Option<Bound<'py, PyAny>>);

/// Hashes of a model and, unless `tensors` is false, of each tensor.
#[pyfunction]
#[pyo3(signature = (path, kinds, *, tensors = true, threads = None, progress = None))]
pub(crate) fn hash<'py>(
    py: Python<'py>,
    path: PathBuf,
    kinds: Vec<String>,
    tensors: bool,
    threads: Option<usize>,
    progress: Option<Py<PyAny>>,
) -> Result<Vec<Line<'py>>> {
    let kind = |name: &String| {
        HashKind::ALL.into_iter().find(|kind| kind.name() == name).ok_or_else(|| {
            let all: Vec<_> = HashKind::ALL.into_iter().map(HashKind::name).collect();
            Failure::misuse(format!("hash {name:?}, expected one of {}", all.join(", ")))
        })
    };
    let kinds = kinds.iter().map(kind).collect::<Result<Vec<_>>>()?;
    let checkpoint = py.detach(|| open(&path))?;
    let options = threads::run_options(threads);
    let hashes = reporting(py, progress, |report| {
        ggmill::hash::hash(&checkpoint, &kinds, tensors, &options, report)
    })?;
    let names: Vec<RawStr<'_>> =
        checkpoint.tensors().iter().map(ggmill::pipeline::SourceTensor::name).collect();
    let line = |line: ggmill::hash::HashLine<'_>| {
        let tensor = match &line.subject {
            HashSubject::Tensor(name) => Some(string(py, *name)?),
            _ => None,
        };
        Ok((line.kind.name(), line.digest, tensor))
    };
    hashes.lines(&names).into_iter().map(line).collect()
}
