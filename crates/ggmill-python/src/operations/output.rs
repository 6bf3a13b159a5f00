//! Models that are written: one file or shards, whole or not at all, and never over an input.

use std::path::{Path, PathBuf};

use ggmill::RawStr;
use ggmill::io::{self, FileSink, Overwrite};
use ggmill::pipeline::{
    self, Checkpoint, GgufCheckpoint, Recipe, RunOptions, ShardFiles, ShardLimit, SplitOptions,
    plan_document, plans_document,
};
use pyo3::prelude::*;

use crate::error::{Failure, Result};
use crate::progress::reporting;
use crate::threads;

/// Where a model goes, and how.
pub(super) struct Output {
    /// The file; with `cut`, the prefix of the shards' names.
    pub(super) path: PathBuf,
    pub(super) cut: Option<SplitOptions>,
    pub(super) overwrite: bool,
    /// Whether only the plan is made.
    pub(super) dry_run: bool,
    pub(super) threads: Option<usize>,
    pub(super) progress: Option<Py<PyAny>>,
}

/// The limit of shards, where one was asked for.
pub(super) fn cut(
    max_size: Option<u64>,
    max_tensors: Option<u64>,
    no_tensor_first: bool,
) -> Result<Option<SplitOptions>> {
    let limit = match (max_size, max_tensors) {
        (None, None) => return Ok(None),
        (Some(bytes), None) => ShardLimit::Bytes(bytes),
        (None, Some(tensors)) => ShardLimit::Tensors(tensors),
        _ => {
            return Err(Failure::misuse(
                "both max_size and max_tensors were given, expected one of them",
            ));
        }
    };
    let mut options = SplitOptions::new(limit);
    options.no_tensor_first = no_tensor_first;
    Ok(Some(options))
}

/// A model as the source of another.
pub(super) fn open(path: &Path) -> Result<GgufCheckpoint> {
    let model = io::open(path)?;
    Ok(GgufCheckpoint::new(model)?)
}

/// The files of a model.
pub(super) fn files(checkpoint: &GgufCheckpoint) -> Vec<PathBuf> {
    io::files(checkpoint.model()).map(|file| file.path().to_owned()).collect()
}

impl Output {
    /// What no amount of work would change is refused before the work begins.
    pub(super) fn look_ahead(&self, inputs: &[PathBuf]) -> Result<()> {
        if self.dry_run {
            return Ok(io::refuse_inputs(&self.path, inputs)?);
        }
        let first = if self.cut.is_some() {
            let first = io::shard_paths(&self.path, 1).unwrap_or_default();
            first.into_iter().next().ok_or_else(|| not_a_prefix(&self.path))?
        } else {
            self.path.clone()
        };
        let overwrite = self.overwrite || self.cut.is_some();
        start(&first, inputs, overwrite, 0).map(drop)
    }

    /// Writes the model, and returns its plan as JSON (`docs/formats/plan.md`).
    pub(super) fn write(
        self,
        py: Python<'_>,
        recipe: Recipe,
        checkpoint: &dyn Checkpoint,
        inputs: &[PathBuf],
    ) -> Result<String> {
        let options = threads::run_options(self.threads);
        match self.cut {
            None => self.write_one(py, recipe, checkpoint, inputs, &options),
            Some(cut) => {
                let recipes = recipe.split(&cut)?;
                self.write_shards(py, recipes, checkpoint, inputs, &options)
            }
        }
    }

    fn write_one(
        self,
        py: Python<'_>,
        recipe: Recipe,
        checkpoint: &dyn Checkpoint,
        inputs: &[PathBuf],
        options: &RunOptions,
    ) -> Result<String> {
        let plan = recipe.plan(checkpoint)?;
        let len = plan.layout().total_len();
        if self.dry_run {
            drop(start(&self.path, inputs, self.overwrite, len)?);
        } else {
            let sink = start(&self.path, inputs, self.overwrite, len)?;
            reporting(py, self.progress, |report| {
                let sink = pipeline::run(&plan, checkpoint, sink, options, report)?;
                Ok(sink.commit()?)
            })?;
        }
        let document = plan_document(&plan, shown(&self.path), !self.dry_run);
        json(&document)
    }

    /// Writes a model by the recipes of its shards.
    pub(super) fn write_shards(
        self,
        py: Python<'_>,
        recipes: Vec<Recipe>,
        checkpoint: &dyn Checkpoint,
        inputs: &[PathBuf],
        options: &RunOptions,
    ) -> Result<String> {
        let plans = recipes
            .into_iter()
            .map(|recipe| recipe.plan(checkpoint))
            .collect::<pipeline::Result<Vec<_>>>()?;
        let paths = io::shard_paths(&self.path, plans.len());
        let paths = paths.ok_or_else(|| not_a_prefix(&self.path))?;
        let sinks = ShardFiles::start(&plans, &paths, inputs, overwriting(self.overwrite))?;
        if !self.dry_run {
            reporting(py, self.progress, |report| sinks.run(&plans, checkpoint, options, report))?;
        }
        let shown = plans.iter().zip(paths.iter().map(|path| shown(path)));
        json(&plans_document(shown, !self.dry_run))
    }
}

pub(super) fn shown(path: &Path) -> RawStr<'_> {
    RawStr::new(path.as_os_str().as_encoded_bytes())
}

fn not_a_prefix(path: &Path) -> Failure {
    Failure::misuse("expected the prefix of the shards' names").at(path)
}

/// Starts a file of this many bytes, never over an input.
pub(super) fn start(
    path: &Path,
    inputs: &[PathBuf],
    overwrite: bool,
    len: u64,
) -> Result<FileSink> {
    Ok(FileSink::start(path, inputs, overwriting(overwrite), len)?)
}

fn overwriting(overwrite: bool) -> Overwrite {
    if overwrite { Overwrite::Replace } else { Overwrite::Refuse }
}

/// A document as JSON.
pub(super) fn json(document: &impl serde::Serialize) -> Result<String> {
    serde_json::to_string(document).map_err(|error| Failure::new("io", error.to_string()))
}
