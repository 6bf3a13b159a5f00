//! Planned and written models. All files are written completely, or none.

use std::collections::HashMap;
use std::fmt;
use std::path::{Path, PathBuf};

use ggmill_arch::Catalogue;
use ggmill_check::{CheckedPlans, Diagnostic, Report, Severity};
use ggmill_core::{GgmlType, RawStr};
use ggmill_io::{FileSink, NewDirectory, Overwrite};
use ggmill_pipeline::{Checkpoint, Plan, Recipe, ShardFiles, plan_document, plans_document};

use crate::error::Kind;
use crate::progress::{Call, Stage};
use crate::{Error, Hint, Note, Result};

/// The output path of a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Destination {
    /// One file with this path.
    File(PathBuf),
    /// Shards whose names begin with this path.
    Shards(PathBuf),
    /// One file in this directory, named after the model.
    InDirectory(PathBuf),
    /// Shards in this directory, named after the model.
    ShardsInDirectory(PathBuf),
}

impl Destination {
    /// Returns a file, or the prefix of shards.
    pub(crate) fn new(path: &Path, is_split: bool) -> Self {
        if is_split { Self::Shards(without_extension(path)) } else { Self::File(path.to_owned()) }
    }

    /// Returns a directory if `path` is an existing one without the extension `.gguf`, or is empty,
    /// which is the current directory; otherwise a file or the prefix of shards.
    pub(crate) fn file_or_directory(path: &Path, is_split: bool) -> Self {
        let is_directory = path.as_os_str().is_empty()
            || path.is_dir() && path.extension().is_none_or(|found| found != "gguf");
        match (is_directory, is_split) {
            (false, _) => Self::new(path, is_split),
            (true, false) => Self::InDirectory(path.to_owned()),
            (true, true) => Self::ShardsInDirectory(path.to_owned()),
        }
    }

    /// Fails, before the work begins, for outputs that cannot be written: see [`check_output`].
    pub(crate) fn check(&self, inputs: &[PathBuf], overwrite: bool) -> Result<()> {
        match self {
            Self::File(path) => drop(start(path, inputs, overwrite, 0)?),
            // The number of shards is known only when they are planned.
            Self::Shards(prefix) => {
                for path in shard_paths(prefix, 1)? {
                    drop(start(&path, &[], true, 0)?);
                }
            }
            Self::InDirectory(directory) | Self::ShardsInDirectory(directory) => {
                drop(start(&directory.join("model.gguf"), &[], true, 0)?);
            }
        }
        Ok(())
    }

    /// Returns the paths of the files; `name` is the file name of a model in a directory.
    fn paths(&self, count: usize, name: impl FnOnce() -> String) -> Result<Vec<PathBuf>> {
        let prefix = match self {
            Self::File(path) => return Ok(vec![path.clone()]),
            Self::InDirectory(directory) => return Ok(vec![directory.join(name())]),
            Self::Shards(prefix) => prefix.clone(),
            Self::ShardsInDirectory(directory) => without_extension(&directory.join(name())),
        };
        shard_paths(&prefix, count)
    }
}

fn shard_paths(prefix: &Path, count: usize) -> Result<Vec<PathBuf>> {
    ggmill_io::shard_paths(prefix, count)
        .ok_or_else(|| Error::misuse("expected the prefix of the shards' names").at(prefix))
}

/// Fails if `path` could not be written: it is one of the inputs or not a regular file, its directory
/// is missing or not writable, or it exists and `overwrite` is not set. Called before the work begins.
pub fn check_output(path: impl AsRef<Path>, inputs: &[PathBuf], overwrite: bool) -> Result<()> {
    start(path.as_ref(), inputs, overwrite, 0).map(drop)
}

/// Writes a file completely or not at all. Fails if it is one of the inputs.
pub fn write_file(
    path: impl AsRef<Path>,
    inputs: &[PathBuf],
    overwrite: bool,
    bytes: &[u8],
) -> Result<()> {
    use ggmill_core::Sink as _;
    let mut sink = start(path.as_ref(), inputs, overwrite, bytes.len() as u64)?;
    sink.append(bytes)?;
    Ok(sink.commit()?)
}

/// Starts an output of `len` bytes. Every file that this crate writes is started here, so that no
/// input is overwritten.
pub(crate) fn start(
    path: &Path,
    inputs: &[PathBuf],
    overwrite: bool,
    len: u64,
) -> Result<FileSink> {
    FileSink::start(path, inputs, policy(overwrite), len).map_err(not_started)
}

fn policy(overwrite: bool) -> Overwrite {
    if overwrite { Overwrite::Replace } else { Overwrite::Refuse }
}

/// Converts the error of an output that could not be started. If its directory is missing, the hint is
/// to create it.
fn not_started(error: ggmill_io::Error) -> Error {
    let is_missing = error.io_error().is_some_and(|cause| {
        cause.kind() == std::io::ErrorKind::NotFound && !error.path().exists()
    });
    let hint = is_missing.then(|| Hint::CreateDirectory(error.path().to_owned()));
    Error::from(error).with_hint(hint)
}

/// Starts a directory that must not exist; `None` for a dry run.
pub(crate) fn start_directory(path: &Path, dry_run: bool) -> Result<Option<NewDirectory>> {
    let started = if dry_run {
        NewDirectory::check(path).map(|()| None)
    } else {
        NewDirectory::create(path).map(Some)
    };
    started.map_err(|error| {
        let exists = error.kind() == ggmill_io::ErrorKind::Exists;
        let error = Error::from(error);
        if exists { error.replace_hint(Hint::OtherDirectory) } else { error }
    })
}

/// Returns a path without the extension `.gguf`: the prefix of shards.
pub(crate) fn without_extension(path: &Path) -> PathBuf {
    if path.extension().is_some_and(|extension| extension == "gguf") {
        path.with_extension("")
    } else {
        path.to_owned()
    }
}

/// A source of tensors that a plan owns.
pub(crate) type Source = Box<dyn Checkpoint + Send + Sync>;

/// The arguments of [`Planned::new`].
pub(crate) struct ToPlan {
    pub(crate) recipes: Vec<Recipe>,
    pub(crate) source: Source,
    pub(crate) destination: Destination,
    pub(crate) inputs: Vec<PathBuf>,
    /// The file name of a model in a directory; `None` takes it from the plan.
    pub(crate) name: Option<String>,
    /// The file name, without the extension, of a model whose metadata lack the keys for one.
    pub(crate) other_name: String,
    /// The architectures that the model is checked with; `None` skips the check.
    pub(crate) rules: Option<Catalogue>,
    pub(crate) refusal: Option<Error>,
}

impl ToPlan {
    /// Returns the arguments for recipes without a check, with a destination that has a file name.
    pub(crate) fn new(
        recipes: Vec<Recipe>,
        source: impl Checkpoint + Send + 'static,
        destination: Destination,
        inputs: Vec<PathBuf>,
    ) -> Self {
        Self {
            recipes,
            source: Box::new(source),
            destination,
            inputs,
            name: None,
            other_name: String::new(),
            rules: None,
            refusal: None,
        }
    }
}

/// A planned model: every tensor with its type, its offset and its source. Nothing is written yet. A
/// plan exists only if nothing foreseeable prevents writing it.
pub struct Planned<'a> {
    plans: Vec<Plan>,
    paths: Vec<PathBuf>,
    source: Source,
    inputs: Vec<PathBuf>,
    checked: CheckedPlans,
    refusal: Option<Error>,
    prefix: Option<PathBuf>,
    pub(crate) call: Call<'a>,
}

impl fmt::Debug for Planned<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Planned").field("paths", &self.paths).finish_non_exhaustive()
    }
}

impl<'a> Planned<'a> {
    pub(crate) fn new(what: ToPlan, call: Call<'a>) -> Result<Self> {
        let ToPlan { recipes, source, destination, inputs, name, other_name, rules, refusal } =
            what;
        let plans = recipes
            .into_iter()
            .map(|recipe| recipe.plan(&*source))
            .collect::<Result<Vec<Plan>, _>>()?;
        let named = || {
            let planned = || plans.first().and_then(|plan| plan.file_name().ok());
            name.or_else(planned).unwrap_or_else(|| format!("{other_name}.gguf"))
        };
        let paths = destination.paths(plans.len(), named)?;
        for path in &paths {
            drop(start(path, &inputs, call.overwrite, 0)?);
        }
        let prefix = match &destination {
            Destination::Shards(prefix) => Some(prefix.clone()),
            Destination::ShardsInDirectory(_) => {
                let first = paths.first().and_then(|path| path.to_str());
                let prefix = first.and_then(|path| path.rsplit_once("-00001-of-"));
                prefix.map(|(prefix, _)| PathBuf::from(prefix))
            }
            _ => None,
        };
        let checked = match &rules {
            Some(catalogue) => CheckedPlans::of(&plans.iter().collect::<Vec<_>>(), catalogue)?,
            None => CheckedPlans::default(),
        };
        Ok(Self { plans, paths, source, inputs, checked, refusal, prefix, call })
    }

    /// Returns the plans, one for each file: every tensor with its type, size and offset.
    pub fn plans(&self) -> &[Plan] {
        &self.plans
    }

    /// Returns the paths of the files that [`write`](Self::write) writes.
    pub fn paths(&self) -> &[PathBuf] {
        &self.paths
    }

    /// Returns the plans, and the source that they read.
    pub fn into_plans(self) -> (Vec<Plan>, Box<dyn Checkpoint + Send + Sync>) {
        (self.plans, self.source)
    }

    /// Returns the total length of all files, in bytes.
    pub fn total_len(&self) -> u64 {
        self.plans.iter().map(|plan| plan.layout().total_len()).sum()
    }

    /// Returns the files that are read, none of which is written over.
    pub fn inputs(&self) -> &[PathBuf] {
        &self.inputs
    }

    /// Returns `true` if the model is written as a set of shards.
    pub fn is_split(&self) -> bool {
        self.prefix.is_some()
    }

    /// Returns the facts worth knowing about the model, and about the call so far.
    pub fn notes(&self) -> Vec<Note> {
        let of_plans = self.plans.iter().flat_map(Plan::notes).map(|note| Note::of_plan(note));
        self.call.notes.iter().cloned().chain(of_plans).collect()
    }

    /// Returns the findings of the check, for each file; none if the model was not checked.
    pub fn reports(&self) -> &[Report] {
        self.checked.reports()
    }

    /// Returns the first error of the check, which prevents writing.
    pub fn check_error(&self) -> Option<&Diagnostic> {
        self.checked.refusal()
    }

    /// Returns the error of [`write`](Self::write) for a model in which the check found errors.
    pub fn check_refusal(&self) -> Option<Error> {
        self.checked.refusal()?;
        let errors: u64 =
            self.checked.reports().iter().map(|report| report.count(Severity::Error)).sum();
        let errors = if errors == 1 { "1 error".to_owned() } else { format!("{errors} errors") };
        let message = format_args!("not written, because the model has {errors}");
        let error = Error::new(Kind::Refused, "check", message).with_hint(Hint::SkipCheck);
        Some(match self.paths.first() {
            Some(path) => error.at(path),
            None => error,
        })
    }

    /// Returns the error of [`write`](Self::write) for a model that can be planned, but not written,
    /// for example because an importance matrix is missing.
    pub fn refusal(&self) -> Option<&Error> {
        self.refusal.as_ref()
    }

    /// Fails with the [`refusal`](Self::refusal), if there is one.
    pub(crate) fn without_refusal(mut self) -> Result<Self> {
        self.refusal.take().map_or(Ok(self), Err)
    }

    /// Returns the [`refusal`](Self::refusal).
    pub fn into_refusal(self) -> Option<Error> {
        self.refusal
    }

    /// Returns the plans as JSON: `ggmill.plan/1`, or `ggmill.plans/1` for shards.
    pub fn document(&self) -> Result<serde_json::Value> {
        document(&self.plans, &self.paths, self.is_split(), false)
    }

    /// Fails if [`write`](Self::write) would, for example because an output exists or the disk is full.
    /// Writes nothing.
    pub fn check_outputs(&self) -> Result<()> {
        for (path, plan) in self.paths.iter().zip(&self.plans) {
            drop(start(path, &self.inputs, self.call.overwrite, plan.layout().total_len())?);
        }
        Ok(())
    }

    /// Writes the files: all of them complete, or none.
    pub fn write(self) -> Result<Written> {
        self.write_with_call().map(|(written, _)| written)
    }

    /// Writes the files, and returns the options of the call, for the steps after writing. A tensor that
    /// became F16 because its rows fit no block type, and whose values are too large for it, has a hint.
    pub(crate) fn write_with_call(self) -> Result<(Written, Call<'a>)> {
        const LEAST_BLOCK: u64 = 32;
        let tensors = self.plans.iter().flat_map(|plan| plan.layout().tensors());
        let unfit = tensors.filter(|tensor| {
            let is_ragged = !tensor.shape().row_len().is_multiple_of(LEAST_BLOCK);
            tensor.ggml_type() == GgmlType::F16 && is_ragged
        });
        let unfit: HashMap<String, u64> = unfit
            .map(|tensor| (tensor.name().to_string_lossy().into_owned(), tensor.shape().row_len()))
            .collect();
        self.write_all().map_err(|error| {
            let name = error.tensor().map(|name| name.to_string_lossy().into_owned());
            let is_range = error.kind_name() == ggmill_pipeline::ErrorKind::Range.name();
            match name.filter(|_| is_range).and_then(|name| unfit.get_key_value(&name)) {
                Some((name, &row_len)) => {
                    error.replace_hint(Hint::KeepInBf16(name.clone(), row_len))
                }
                None => error,
            }
        })
    }

    fn write_all(mut self) -> Result<(Written, Call<'a>)> {
        if let Some(refusal) = self.refusal {
            return Err(refusal);
        }
        if let Some(refusal) = self.check_refusal() {
            return Err(refusal);
        }
        let Self { plans, paths, source, inputs, prefix, call, .. } = &mut self;
        let overwrite = call.overwrite;
        let tensors = plans.iter().flat_map(|plan| plan.layout().tensors());
        let names = tensors.map(|tensor| tensor.name().to_string_lossy().into_owned());
        let numbers: HashMap<String, usize> = names.zip(1..).collect();
        if let (None, [plan], [path]) = (&prefix, &**plans, &**paths) {
            let sink = start(path, inputs, overwrite, plan.layout().total_len())?;
            let sink = call.with_numbers(Stage::Writing, &numbers, |options, report| {
                ggmill_pipeline::run(plan, &**source, sink, options, report)
            })?;
            sink.commit()?;
        } else {
            let files =
                ShardFiles::start(plans, paths, inputs, policy(overwrite)).map_err(not_started)?;
            call.with_numbers(Stage::Writing, &numbers, |options, report| {
                files.run(plans, &**source, options, report)
            })?;
        }
        let stale = prefix.as_ref().and_then(|prefix| ggmill_io::stale_shard(prefix, paths.len()));
        let losses: Vec<String> = plans.iter().flat_map(Plan::losses).collect();
        let non_finite: Vec<String> = plans.iter().flat_map(Plan::non_finite).collect();
        let mut notes = self.notes();
        notes.extend(stale.map(Note::StaleShards));
        notes.extend(losses.into_iter().map(Note::Underflow));
        notes.extend(non_finite.into_iter().map(Note::CopiedNonFinite));
        self.call.notes.clear();
        let written = Written {
            is_split: self.is_split(),
            notes,
            paths: self.paths,
            plans: self.plans,
            checked: self.checked,
        };
        Ok((written, self.call))
    }
}

/// A model that was written.
#[derive(Debug)]
pub struct Written {
    paths: Vec<PathBuf>,
    plans: Vec<Plan>,
    pub(crate) notes: Vec<Note>,
    checked: CheckedPlans,
    is_split: bool,
}

impl Written {
    /// Returns the paths of the files: one, or one for each shard.
    pub fn paths(&self) -> &[PathBuf] {
        &self.paths
    }

    /// Returns `true` if the model was written as a set of shards.
    pub fn is_split(&self) -> bool {
        self.is_split
    }

    /// Returns the plans of the files.
    pub fn plans(&self) -> &[Plan] {
        &self.plans
    }

    /// Returns the total length of all files, in bytes.
    pub fn total_len(&self) -> u64 {
        self.plans.iter().map(|plan| plan.layout().total_len()).sum()
    }

    /// Returns the facts worth knowing about the call.
    pub fn notes(&self) -> &[Note] {
        &self.notes
    }

    /// Returns the findings of the check, for each file; none if the model was not checked.
    pub fn reports(&self) -> &[Report] {
        self.checked.reports()
    }

    /// Returns the plans as JSON: `ggmill.plan/1`, or `ggmill.plans/1` for shards.
    pub fn document(&self) -> Result<serde_json::Value> {
        document(&self.plans, &self.paths, self.is_split, true)
    }
}

fn document(
    plans: &[Plan],
    paths: &[PathBuf],
    is_split: bool,
    written: bool,
) -> Result<serde_json::Value> {
    fn raw(path: &Path) -> RawStr<'_> {
        RawStr::new(path.as_os_str().as_encoded_bytes())
    }
    let value = if let (false, [plan], [path]) = (is_split, plans, paths) {
        serde_json::to_value(plan_document(plan, raw(path), written))
    } else {
        let plans = plans.iter().zip(paths).map(|(plan, path)| (plan, raw(path)));
        serde_json::to_value(plans_document(plans, written))
    };
    value.map_err(|error| Error::wrap(Kind::Malformed, "json", error))
}
