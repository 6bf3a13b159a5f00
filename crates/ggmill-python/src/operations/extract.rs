//! Tensors and metadata of a model, in files of their own.

use std::path::PathBuf;

use ggmill::MetadataBuf;
use ggmill::core::Sink as _;
use ggmill::edit::{extract_metadata, subset};
use ggmill::formats::{extract_npy, extract_safetensors, npy_len, safetensors_len};
use ggmill::pipeline::{Checkpoint as _, GgufCheckpoint, SourceTensor};
use pyo3::prelude::*;

use super::diff::globs;
use super::output::{Output, files, open, start};
use crate::error::{Failure, Result};
use crate::progress::reporting;
use crate::threads;

/// Takes tensors by the patterns of their names, all without one, and metadata by those of their
/// keys, into a file of format `gguf`, `safetensors`, `npy` or `json`. Returns the number of
/// tensors in it.
#[pyfunction]
#[pyo3(signature = (
    path, output, format, *, names = vec![], keys = vec![], raw = false, overwrite = false,
    threads = None, progress = None
))]
pub(crate) fn extract(
    py: Python<'_>,
    path: PathBuf,
    output: PathBuf,
    format: &str,
    names: Vec<String>,
    keys: Vec<String>,
    raw: bool,
    overwrite: bool,
    threads: Option<usize>,
    progress: Option<Py<PyAny>>,
) -> Result<usize> {
    let (name_globs, key_globs) = (globs(&names)?, globs(&keys)?);
    let checkpoint = py.detach(|| open(&path))?;
    let inputs = files(&checkpoint);
    let fits = |tensor: &SourceTensor| match &*name_globs {
        [] => key_globs.is_empty(),
        globs => globs.iter().any(|glob| glob.matches(tensor.name())),
    };
    let has_key = |key: ggmill::RawStr<'_>| {
        key_globs.is_empty() || key_globs.iter().any(|glob| glob.matches(key))
    };
    let tensors = checkpoint.tensors();
    for (pattern, glob) in names.iter().zip(&name_globs) {
        if !tensors.iter().any(|tensor| glob.matches(tensor.name())) {
            return Err(Failure::new("missing", format!("no tensor matches {pattern:?}")).at(&path));
        }
    }
    for (pattern, glob) in keys.iter().zip(&key_globs) {
        if !checkpoint.metadata().iter().any(|entry| glob.matches(entry.key())) {
            return Err(Failure::new("missing", format!("no key matches {pattern:?}")).at(&path));
        }
    }
    let numbers: Vec<usize> =
        (0..tensors.len()).filter(|&number| tensors.get(number).is_some_and(fits)).collect();
    let options = threads::run_options(threads);
    let taken = numbers.len();
    match format {
        "gguf" => {
            let (cut, dry_run) = (None, false);
            let output = Output { path: output, cut, overwrite, dry_run, threads, progress };
            let recipe = subset(&checkpoint, &numbers, has_key)?;
            output.write(py, recipe, &checkpoint, &inputs)?;
        }
        "json" => {
            if !names.is_empty() {
                return Err(Failure::misuse("a JSON file contains metadata, not tensors"));
            }
            let text = metadata_json(&checkpoint, has_key)?;
            let mut sink = start(&output, &inputs, overwrite, text.len() as u64)?;
            sink.append(text.as_bytes())?;
            sink.commit()?;
            return Ok(0);
        }
        "safetensors" | "npy" if numbers.is_empty() => {
            return Err(Failure::new("missing", "no tensors to extract").at(&path));
        }
        "safetensors" => {
            let len = safetensors_len(&checkpoint, &numbers, raw)?;
            let sink = start(&output, &inputs, overwrite, len)?;
            reporting(py, progress, |report| {
                extract_safetensors(&checkpoint, &numbers, raw, sink, &options, report)?
                    .commit()
                    .map_err(Into::into)
            })?;
        }
        "npy" => {
            let [one] = *numbers else {
                let message = format!("{taken} tensors, but a .npy file contains only one array");
                return Err(Failure::misuse(message));
            };
            let len = npy_len(&checkpoint, one, raw)?;
            let sink = start(&output, &inputs, overwrite, len)?;
            reporting(py, progress, |report| {
                extract_npy(&checkpoint, one, raw, sink, &options, report)?
                    .commit()
                    .map_err(Into::into)
            })?;
        }
        other => {
            let message = format!("format {other:?}, expected gguf, safetensors, npy or json");
            return Err(Failure::misuse(message));
        }
    }
    Ok(taken)
}

fn metadata_json(
    checkpoint: &GgufCheckpoint,
    has_key: impl FnMut(ggmill::RawStr<'_>) -> bool,
) -> Result<String> {
    let metadata = MetadataBuf::copy_of(&checkpoint.metadata())?;
    Ok(extract_metadata(&metadata, has_key)?)
}
