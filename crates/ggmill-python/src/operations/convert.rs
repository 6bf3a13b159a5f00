//! Checkpoints, adapters and files from before GGUF become GGUF.

use std::path::{Path, PathBuf};

use ggmill::{Convert, Planned};
use pyo3::prelude::*;

use super::output::{cut, json};
use super::quantize::{Types, with_types};
use super::shared::SharedPlan;
use crate::error::{Failure, Result};
use crate::progress::Told;
use crate::threads;

/// What Python says of a conversion, as its arguments are named.
#[derive(Debug, FromPyObject)]
#[expect(clippy::struct_excessive_bools, reason = "arguments as they are named")]
#[pyo3(from_item_all)]
pub(crate) struct Conversion {
    base: Option<PathBuf>,
    name: Option<String>,
    metadata: Option<String>,
    arch_files: Vec<PathBuf>,
    no_vocab: bool,
    vocab_only: bool,
    mmproj: bool,
    pre: Option<String>,
    check: bool,
}

/// Converts a checkpoint, an adapter, or a file from before GGUF; returns the plan as JSON.
#[pyfunction]
#[pyo3(signature = (
    path, output, type_name, types, conversion, *, max_size = None, max_tensors = None,
    overwrite = false, dry_run = false, threads = None, progress = None
))]
pub(crate) fn convert(
    py: Python<'_>,
    path: PathBuf,
    output: PathBuf,
    type_name: &str,
    types: Types,
    conversion: Conversion,
    max_size: Option<u64>,
    max_tensors: Option<u64>,
    overwrite: bool,
    dry_run: bool,
    threads: Option<usize>,
    progress: Option<Py<PyAny>>,
) -> Result<String> {
    let cut = cut(max_size, max_tensors, false)?;
    let told = Told::new(progress);
    let document = py.detach(|| {
        let builder = builder(&path, type_name, &types, conversion, threads, &told)?;
        let mut builder = builder.overwrite(overwrite);
        if let Some(cut) = cut {
            builder = builder.split(cut.limit);
        }
        let planned = builder.plan(&output)?;
        refuse_errors(&planned)?;
        if dry_run {
            planned.check_outputs()?;
            return Ok(planned.document()?);
        }
        Ok(planned.write()?.document()?)
    });
    json(&outcome(&told, document)?)
}

/// The plan of the same, to be shared out.
#[pyfunction]
#[pyo3(signature = (
    path, output, type_name, types, conversion, *, overwrite = false, threads = None
))]
pub(crate) fn plan_convert(
    py: Python<'_>,
    path: PathBuf,
    output: PathBuf,
    type_name: &str,
    types: Types,
    conversion: Conversion,
    overwrite: bool,
    threads: Option<usize>,
) -> Result<SharedPlan> {
    let told = Told::new(None);
    let planned = py.detach(|| {
        let builder = builder(&path, type_name, &types, conversion, threads, &told)?;
        let planned = builder.overwrite(overwrite).plan(&output)?.into_planned()?;
        refuse_errors(&planned)?;
        Ok(planned)
    });
    SharedPlan::of(outcome(&told, planned)?)
}

/// Why a conversion ended: an error of the library, or of the check.
enum Ended {
    Library(ggmill::Error),
    Refused(Failure),
}

impl From<ggmill::Error> for Ended {
    fn from(error: ggmill::Error) -> Self {
        Self::Library(error)
    }
}

fn outcome<T>(told: &Told, outcome: std::result::Result<T, Ended>) -> Result<T> {
    match outcome {
        Ok(done) => told.outcome(Ok(done)),
        Err(Ended::Library(error)) => told.outcome(Err(error)),
        Err(Ended::Refused(failure)) => Err(failure),
    }
}

fn builder<'a>(
    path: &Path,
    type_name: &str,
    types: &Types,
    conversion: Conversion,
    threads: Option<usize>,
    told: &Told,
) -> ggmill::Result<Convert<'a>> {
    let told = told.clone();
    let mut builder = ggmill::convert(path)?
        .no_vocab(conversion.no_vocab)
        .vocab_only(conversion.vocab_only)
        .mmproj(conversion.mmproj)
        .check(conversion.check)
        .architectures(&conversion.arch_files)?
        .threads(threads::count(threads))
        .on_progress(move |progress| told.show(progress))
        .to(type_name)?;
    if let Some(base) = conversion.base {
        builder = builder.base(base);
    }
    if let Some(name) = conversion.name {
        builder = builder.name(name);
    }
    if let Some(json) = &conversion.metadata {
        builder = builder.metadata_json(json)?;
    }
    if let Some(name) = conversion.pre {
        builder = builder.pre(name);
    }
    Ok(with_types!(types, builder))
}

/// Refuses a model that the rules find an error in.
fn refuse_errors(planned: &Planned<'_>) -> std::result::Result<(), Ended> {
    let (Some(found), Some(path)) = (planned.check_error(), planned.paths().first()) else {
        return Ok(());
    };
    let (code, subject) = (found.rule.code, &found.subject);
    let message = format!("{subject}: {} ({code}); the file was not written", found.message);
    Err(Ended::Refused(Failure::new("check", message).at(path)))
}
