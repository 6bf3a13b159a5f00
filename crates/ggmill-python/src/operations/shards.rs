//! A model in other files: split into shards, or merged from them.

use std::path::PathBuf;

use ggmill::edit::{self, Parts};
use ggmill::io;
use ggmill::pipeline::GgufCheckpoint;
use pyo3::prelude::*;

use super::output::{Output, cut, files, json, open, start};
use crate::error::Result;
use crate::progress::reporting;

/// Splits a model into shards; returns the plans as JSON.
#[pyfunction]
#[pyo3(signature = (
    path, prefix, *, max_size = None, max_tensors = None, no_tensor_first = false,
    overwrite = false, dry_run = false, threads = None, progress = None
))]
pub(crate) fn split(
    py: Python<'_>,
    path: PathBuf,
    prefix: PathBuf,
    max_size: Option<u64>,
    max_tensors: Option<u64>,
    no_tensor_first: bool,
    overwrite: bool,
    dry_run: bool,
    threads: Option<usize>,
    progress: Option<Py<PyAny>>,
) -> Result<String> {
    let max_tensors = max_tensors.or(if max_size.is_none() { Some(128) } else { None });
    let cut = cut(max_size, max_tensors, no_tensor_first)?;
    let output = Output { path: prefix, cut, overwrite, dry_run, threads, progress };
    let checkpoint = py.detach(|| open(&path))?;
    let inputs = files(&checkpoint);
    output.look_ahead(&inputs)?;
    let recipe = ggmill::pipeline::Recipe::copy_of(&checkpoint)?;
    output.write(py, recipe, &checkpoint, &inputs)
}

/// Merges shards, or a file cut by its bytes, into one file; returns the plan as JSON.
#[pyfunction]
#[pyo3(signature = (
    paths, output, *, overwrite = false, dry_run = false, threads = None, progress = None
))]
pub(crate) fn merge(
    py: Python<'_>,
    paths: Vec<PathBuf>,
    output: PathBuf,
    overwrite: bool,
    dry_run: bool,
    threads: Option<usize>,
    progress: Option<Py<PyAny>>,
) -> Result<String> {
    if paths.iter().any(Parts::is_part_name) {
        let parts = Parts::open(&paths)?;
        let inputs: Vec<PathBuf> =
            parts.files().iter().map(|file| file.path().to_owned()).collect();
        let sink = start(&output, &inputs, overwrite, parts.total_len())?;
        if !dry_run {
            reporting(py, progress, |report| Ok(parts.join(sink, report)?.commit()?))?;
        }
        return json(&serde_json::json!({
            "schema": "ggmill.join/1",
            "output": output.to_string_lossy(),
            "written": !dry_run,
            "file_size": parts.total_len(),
        }));
    }
    let checkpoint = py.detach(|| -> Result<GgufCheckpoint> {
        let model = match &*paths {
            [one] => io::open(one),
            several => io::open_shards(several),
        };
        Ok(GgufCheckpoint::new(model?)?)
    })?;
    let inputs = files(&checkpoint);
    let output = Output { path: output, cut: None, overwrite, dry_run, threads, progress };
    output.look_ahead(&inputs)?;
    let recipe = edit::merge(&checkpoint)?;
    output.write(py, recipe, &checkpoint, &inputs)
}
