//! Edits of metadata, and models in other files: split, merged, extracted.

use std::path::PathBuf;

use ggmill::edit::{Edit, EditMethod, EditValue, TypedValue};
use ggmill::{ExtractFormat, Model, RawStr};
use pyo3::prelude::*;

use super::quantize::write;
use super::{globs, json, located, shard_limit};
use crate::calls::{self, thread_count};
use crate::error::{Failure, Result};
use crate::value::EncodedValue;

/// A value to set: the key, the numbers of its type and element types, and the value; without types,
/// the value is JSON.
type Setting<'py> = (String, Option<Vec<u32>>, Bound<'py, PyAny>);

/// Edits the metadata of a file; returns a report as JSON.
#[pyfunction]
#[pyo3(signature = (
    path, *, set = vec![], unset = vec![], rename = vec![], special_tokens = vec![],
    output = None, overwrite = false, check = true, dry_run = false, progress = None
))]
pub(crate) fn edit<'py>(
    py: Python<'py>,
    path: PathBuf,
    set: Vec<Setting<'py>>,
    unset: Vec<String>,
    rename: Vec<(String, String)>,
    special_tokens: Vec<(String, String)>,
    output: Option<PathBuf>,
    overwrite: bool,
    check: bool,
    dry_run: bool,
    progress: Option<Py<PyAny>>,
) -> Result<String> {
    let mut edits = Vec::new();
    for (key, types, value) in set {
        let value = match types {
            Some(types) => {
                let encoded = EncodedValue::new(&types, &value);
                EditValue::Typed(TypedValue::new(
                    &encoded.map_err(|failure| failure.about_key(key.as_bytes()))?,
                ))
            }
            None => EditValue::Json(
                serde_json::from_str(&value.extract::<String>()?)
                    .map_err(|error| Failure::misuse(error.to_string()))?,
            ),
        };
        edits.push(Edit::Set { key, key_type: None, value });
    }
    for pattern in unset {
        let edit = Edit::parse_unset(&pattern);
        edits.push(edit.map_err(|error| Failure::misuse(error.to_string()))?);
    }
    edits.extend(rename.into_iter().map(|(from, to)| Edit::Rename { from, to }));
    let special = |(role, token)| Edit::SpecialToken { role, token };
    edits.extend(special_tokens.into_iter().map(special));
    if edits.is_empty() {
        return Err(Failure::misuse("no edits").at(&path));
    }
    let edited = calls::run(py, progress, |reporter| -> Result<_> {
        let builder = ggmill::edit(&path)?
            .edits(edits)
            .check(check)
            .force(!check)
            .overwrite(overwrite)
            .on_progress(move |progress| reporter.progress(progress));
        let planned = match &output {
            Some(output) => builder.plan_copy(output),
            None => builder.plan(),
        };
        let planned = planned.map_err(|error| located(error, &path))?;
        Ok(if dry_run { report(&planned) } else { report(&planned.apply()?) })
    })?;
    json(&edited)
}

fn report(edit: &ggmill::EditSummary) -> serde_json::Value {
    let (method, reason) = match edit.method() {
        EditMethod::Unchanged => ("unchanged", None),
        EditMethod::InPlace => ("in_place", None),
        EditMethod::Insert(_) => ("insert", None),
        EditMethod::Copy(why) => ("copy", Some(*why)),
        EditMethod::Rewrite(why) => ("rewrite", Some(*why)),
        _ => ("other", None),
    };
    let keys = edit.edited().changes().iter();
    let keys = keys.map(|change| RawStr::new(&change.key).to_string_lossy().into_owned());
    let findings = edit.findings().diagnostics.iter().map(|diagnostic| {
        serde_json::json!({
            "code": diagnostic.rule.code,
            "message": diagnostic.message,
            "subject": diagnostic.subject.json_name(),
        })
    });
    serde_json::json!({
        "written": edit.is_written(),
        "method": method,
        "reason": reason,
        "keys": keys.collect::<Vec<_>>(),
        "file_size": edit.file_len(),
        "notes": edit.edited().notes(),
        "findings": findings.collect::<Vec<_>>(),
    })
}

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
    let limit = shard_limit(max_size, max_tensors)?;
    let document = calls::run(py, progress, |reporter| {
        let mut builder = ggmill::split(&Model::open(&path)?)?
            .no_tensor_first(no_tensor_first)
            .overwrite(overwrite)
            .threads(thread_count(threads).get())
            .on_progress(move |progress| reporter.progress(progress));
        if let Some(limit) = limit {
            builder = builder.limit(limit);
        }
        write(builder.plan(&prefix)?, dry_run)
    })?;
    json(&document)
}

/// Merges shards, or the parts of a file that was split at byte boundaries, into one file; returns the
/// plan as JSON.
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
    let document = calls::run(py, progress, |reporter| -> ggmill::Result<_> {
        let planned = ggmill::merge(paths)?
            .overwrite(overwrite)
            .threads(thread_count(threads).get())
            .on_progress(move |progress| reporter.progress(progress))
            .plan(&output)?;
        if dry_run {
            planned.check_outputs()?;
            return planned.document();
        }
        planned.write()?.document()
    })?;
    json(&document)
}

/// Extracts tensors by patterns for their names (all without a pattern), and metadata by patterns for
/// the keys, to a file in the format `gguf`, `safetensors`, `npy` or `json`. Returns the number of
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
    let (names, keys) = (globs(&names)?, globs(&keys)?);
    let format = match format {
        "gguf" => ExtractFormat::Gguf,
        "safetensors" => ExtractFormat::Safetensors,
        "npy" => ExtractFormat::Npy,
        "json" => ExtractFormat::Json,
        other => {
            let message = format!("format {other:?}, expected gguf, safetensors, npy or json");
            return Err(Failure::misuse(message));
        }
    };
    let extracted = calls::run(py, progress, |reporter| -> Result<_> {
        ggmill::extract(&Model::open(&path)?)?
            .tensors(names)
            .keys(keys)
            .format(format)
            .raw(raw)
            .overwrite(overwrite)
            .threads(thread_count(threads).get())
            .on_progress(move |progress| reporter.progress(progress))
            .write(&output)
            .map_err(|error| located(error, &path))
    })?;
    Ok(match extracted.written() {
        Some(written) => written.plans().iter().map(|plan| plan.layout().tensors().len()).sum(),
        None => extracted.tensors(),
    })
}
