//! `split`, `merge` and `repack`: rewrite a model without changing its tensors.

use std::path::{Path, PathBuf};

use ggmill_core::{Alignment, Endian};
use ggmill_edit::{Parts, RepackOptions};
use ggmill_io::RandomAccess;
use ggmill_pipeline::{GgufCheckpoint, Recipe, ShardLimit, SplitOptions};
use serde_json::{Value, json};

use crate::error::Kind;
use crate::open::refuse_interrupted;
use crate::output::{Destination, ToPlan, start};
use crate::paths::is_remote;
use crate::progress::{Call, Stage, call_options};
use crate::{Error, Hint, Model, Note, OpenOptions, Planned, Result, Written, display_path};

/// Splits a model into shards, as `llama-gguf-split` does.
///
/// ```no_run
/// use ggmill::pipeline::ShardLimit;
/// let model = ggmill::Model::open("model.gguf")?;
/// let written = ggmill::split(&model)?.limit(ShardLimit::Bytes(2_000_000_000)).write("model")?;
/// println!("{} shards", written.paths().len());
/// # Ok::<(), ggmill::Error>(())
/// ```
pub fn split<'a>(model: &Model) -> Result<Split<'a>> {
    Ok(Split {
        checkpoint: model.checkpoint()?,
        inputs: model.files(),
        call: Call::default(),
        options: SplitOptions::new(ShardLimit::Tensors(128)),
    })
}

/// The options of [`split()`].
#[derive(Debug)]
pub struct Split<'a> {
    checkpoint: GgufCheckpoint,
    inputs: Vec<PathBuf>,
    call: Call<'a>,
    options: SplitOptions,
}

impl<'a> Split<'a> {
    call_options!(overwrite);

    /// Sets the limit for a shard. The default is 128 tensors.
    #[must_use]
    pub fn limit(mut self, limit: ShardLimit) -> Self {
        self.options.limit = limit;
        self
    }

    /// Writes no tensors to the first shard, so that it is small.
    #[must_use]
    pub fn no_tensor_first(mut self, no_tensor_first: bool) -> Self {
        self.options.no_tensor_first = no_tensor_first;
        self
    }

    /// Writes the shards, `PREFIX-00001-of-00009.gguf`, …: `plan(prefix)?.write()`.
    pub fn write(self, prefix: impl AsRef<Path>) -> Result<Written> {
        self.plan(prefix)?.write()
    }

    /// Plans the shards, and writes nothing.
    pub fn plan(self, prefix: impl AsRef<Path>) -> Result<Planned<'a>> {
        let Self { checkpoint, inputs, call, options } = self;
        refuse_interrupted(&inputs)?;
        let destination = Destination::Shards(prefix.as_ref().to_owned());
        destination.check(&inputs, call.overwrite)?;
        let recipes = ggmill_pipeline::split(&checkpoint, &options)?;
        Planned::new(ToPlan::new(recipes, checkpoint, destination, inputs), call)
    }
}

/// Writes a model with a different alignment, byte order or format version. A set of shards becomes
/// one file.
///
/// ```no_run
/// let model = ggmill::Model::open("model.gguf")?;
/// ggmill::repack(&model)?.endian(ggmill::Endian::Big).write("model-s390x.gguf")?;
/// # Ok::<(), ggmill::Error>(())
/// ```
pub fn repack<'a>(model: &Model) -> Result<Repack<'a>> {
    Ok(Repack {
        checkpoint: model.checkpoint()?,
        inputs: model.files(),
        call: Call::default(),
        options: RepackOptions::default(),
    })
}

/// The options of [`repack()`]. By default nothing changes.
#[derive(Debug)]
pub struct Repack<'a> {
    checkpoint: GgufCheckpoint,
    inputs: Vec<PathBuf>,
    call: Call<'a>,
    options: RepackOptions,
}

impl<'a> Repack<'a> {
    call_options!(overwrite);

    /// Sets the alignment of tensor data.
    #[must_use]
    pub fn alignment(mut self, alignment: Alignment) -> Self {
        self.options.alignment = Some(alignment);
        self
    }

    /// Sets the byte order of the header and of the blocks of tensor data.
    #[must_use]
    pub fn endian(mut self, endian: Endian) -> Self {
        self.options.endian = Some(endian);
        self
    }

    /// Sets the format version, 2 or 3.
    #[must_use]
    pub fn version(mut self, version: u32) -> Self {
        self.options.version = Some(version);
        self
    }

    /// Writes the file: `plan(out)?.write()`.
    pub fn write(self, out: impl AsRef<Path>) -> Result<Written> {
        self.plan(out)?.write()
    }

    /// Plans the file, and writes nothing.
    pub fn plan(self, out: impl AsRef<Path>) -> Result<Planned<'a>> {
        let Self { checkpoint, inputs, call, options } = self;
        refuse_interrupted(&inputs)?;
        let recipe = ggmill_edit::repack(&checkpoint, &options)?;
        let shards = checkpoint.model().parts().len();
        let mut planned = plan_file(recipe, checkpoint, out.as_ref(), inputs, call)?;
        if shards > 1 {
            planned.call.note(Note::ShardsJoined(shards));
        }
        Ok(planned)
    }
}

/// Plans one file, and adds a note for an alignment that llama.cpp rejects.
pub(super) fn plan_file<'a>(
    recipe: Recipe,
    source: impl ggmill_pipeline::Checkpoint + Send + 'static,
    out: &Path,
    inputs: Vec<PathBuf>,
    call: Call<'a>,
) -> Result<Planned<'a>> {
    let destination = Destination::File(out.to_owned());
    destination.check(&inputs, call.overwrite)?;
    let mut planned = Planned::new(ToPlan::new(vec![recipe], source, destination, inputs), call)?;
    let alignment = planned.plans().first().map(|plan| plan.layout().alignment());
    if let Some(alignment) = alignment.filter(|alignment| !alignment.is_power_of_two()) {
        planned.call.note(Note::OddAlignment(alignment.get()));
    }
    Ok(planned)
}

/// Merges the shards of a model into one file. One shard is enough: the others are found from its name.
/// Parts of a file that was split at byte boundaries (`.part1of3`, `.split-a`) are concatenated.
///
/// ```no_run
/// let merged = ggmill::merge(["model-00001-of-00009.gguf"])?.write("model.gguf")?;
/// println!("{} bytes", merged.total_len());
/// # Ok::<(), ggmill::Error>(())
/// ```
pub fn merge<'a>(shards: impl IntoIterator<Item = impl Into<PathBuf>>) -> Result<Merge<'a>> {
    let shards: Vec<PathBuf> = shards.into_iter().map(Into::into).collect();
    if shards.is_empty() {
        return Err(Error::misuse("no shard was given"));
    }
    Ok(Merge { shards, call: Call::default(), open: OpenOptions::new(), delete: false })
}

/// The options of [`merge()`].
#[derive(Debug)]
pub struct Merge<'a> {
    shards: Vec<PathBuf>,
    call: Call<'a>,
    open: OpenOptions,
    delete: bool,
}

impl<'a> Merge<'a> {
    call_options!(overwrite);

    /// Deletes the shards after comparing the written file with them byte for byte.
    #[must_use]
    pub fn delete_shards(mut self, delete: bool) -> Self {
        self.delete = delete;
        self
    }

    /// Sets how addresses are opened.
    #[must_use]
    pub fn open_with(mut self, options: OpenOptions) -> Self {
        self.open = options;
        self
    }

    /// Writes the file: `plan(out)?.write()`.
    pub fn write(self, out: impl AsRef<Path>) -> Result<Merged> {
        self.plan(out)?.write()
    }

    /// Plans the file, and writes nothing.
    pub fn plan(self, out: impl AsRef<Path>) -> Result<MergePlan<'a>> {
        let Self { shards, call, open, delete } = self;
        let out = out.as_ref();
        let destination = Destination::File(out.to_owned());
        destination.check(&shards, call.overwrite)?;
        if shards.iter().any(Parts::is_part_name) {
            return plan_join(&shards, out, delete, call);
        }
        if let Some(remote) = shards.iter().find(|shard| is_remote(shard))
            && delete
        {
            let message = "is not on this machine, so it cannot be deleted";
            return Err(Error::misuse(message).at(remote));
        }
        let model = open_shards(&shards, &open)?;
        let inputs = model.files();
        refuse_interrupted(&inputs)?;
        let checkpoint = model.checkpoint()?;
        let recipe = ggmill_edit::merge(&checkpoint)?;
        let plan = ToPlan::new(vec![recipe], checkpoint, destination, inputs);
        let planned = Planned::new(plan, call)?;
        Ok(MergePlan { how: How::Shards { planned, model }, delete })
    }
}

/// Opens shards as one model: a single path opens its whole set.
fn open_shards(shards: &[PathBuf], open: &OpenOptions) -> Result<Model> {
    let has_remote = shards.iter().any(|shard| is_remote(shard));
    match shards {
        [one] if has_remote => open.open(one),
        several if has_remote => {
            let alone = open.clone().alone(true);
            let open = |shard: &PathBuf| {
                let in_use = || Error::misuse("the shard is in use");
                alone.open(shard)?.into_core().ok_or_else(in_use)
            };
            let opened = several.iter().map(open).collect::<Result<Vec<ggmill_core::Model>>>()?;
            let model = ggmill_core::Model::from_shards(opened)
                .map_err(|error| Error::from(error).replace_hint(Hint::OneShard))?;
            Ok(model.into())
        }
        [one] => Ok(ggmill_io::open(one)?.into()),
        several => {
            let model = ggmill_io::open_shards(several).map_err(|error| {
                let is_of_set = error.kind() == ggmill_io::ErrorKind::Shards;
                Error::from(error).with_hint(is_of_set.then_some(Hint::OneShard))
            })?;
            Ok(model.into())
        }
    }
}

fn plan_join<'a>(
    paths: &[PathBuf],
    out: &Path,
    delete: bool,
    call: Call<'a>,
) -> Result<MergePlan<'a>> {
    let parts = Parts::open(paths)?;
    let inputs: Vec<PathBuf> = parts.files().iter().map(|file| file.path().to_owned()).collect();
    ggmill_io::refuse_inputs(out, &inputs)?;
    if delete && parts.surplus() > 0 {
        let message = format_args!(
            "the parts have {} bytes more than the model they belong to: one of them is too long, \
             so none is deleted",
            parts.surplus()
        );
        let error = Error::new(Kind::Malformed, "surplus", message);
        return Err(error.with_hint(Hint::KeepShards));
    }
    let how = How::Parts(Join { parts, inputs, out: out.to_owned(), call });
    Ok(MergePlan { how, delete })
}

/// A planned merge.
#[derive(Debug)]
pub struct MergePlan<'a> {
    how: How<'a>,
    delete: bool,
}

#[derive(Debug)]
enum How<'a> {
    Shards { planned: Planned<'a>, model: Model },
    Parts(Join<'a>),
}

#[derive(Debug)]
struct Join<'a> {
    parts: Parts,
    inputs: Vec<PathBuf>,
    out: PathBuf,
    call: Call<'a>,
}

impl<'a> MergePlan<'a> {
    /// Returns the plan of a merge of shards; `None` for parts of a file that was split at byte
    /// boundaries.
    pub fn planned(&self) -> Option<&Planned<'a>> {
        match &self.how {
            How::Shards { planned, .. } => Some(planned),
            How::Parts(_) => None,
        }
    }

    /// Returns the shards or parts, in order.
    pub fn inputs(&self) -> &[PathBuf] {
        match &self.how {
            How::Shards { planned, .. } => planned.inputs(),
            How::Parts(join) => &join.inputs,
        }
    }

    /// Returns the length of the file, in bytes.
    pub fn total_len(&self) -> u64 {
        match &self.how {
            How::Shards { planned, .. } => planned.total_len(),
            How::Parts(join) => join.parts.total_len(),
        }
    }

    /// Returns the plan as JSON: `ggmill.plan/1`, or `ggmill.join/1` for parts.
    pub fn document(&self) -> Result<Value> {
        match &self.how {
            How::Shards { planned, .. } => planned.document(),
            How::Parts(join) => {
                Ok(join_document(&join.out, &join.inputs, join.parts.total_len(), false))
            }
        }
    }

    /// Fails if [`write`](Self::write) would, for example because the disk is full. Writes nothing.
    pub fn check_outputs(&self) -> Result<()> {
        match &self.how {
            How::Shards { planned, .. } => planned.check_outputs(),
            How::Parts(Join { parts, inputs, out, call }) => {
                start(out, inputs, call.overwrite, parts.total_len()).map(drop)
            }
        }
    }

    /// Writes the file, and deletes the shards if [`delete_shards`](Merge::delete_shards) is set.
    pub fn write(self) -> Result<Merged> {
        let Self { how, delete } = self;
        match how {
            How::Shards { planned, model } => {
                let inputs = planned.inputs().to_vec();
                let (mut written, mut call) = planned.write_with_call()?;
                if delete && let ([path], [plan]) = (written.paths(), written.plans()) {
                    let file = GgufCheckpoint::open(path)?;
                    ggmill_edit::verify(&file, plan, &model.checkpoint()?).map_err(kept)?;
                    delete_shards(&inputs, &mut call)?;
                }
                written.notes.append(&mut call.notes);
                let (path, len) = (written.paths().first().cloned(), written.total_len());
                let path = path.unwrap_or_default();
                Ok(Merged { notes: Vec::new(), written: Some(written), path, inputs, len })
            }
            How::Parts(Join { parts, inputs, out, mut call }) => {
                let len = parts.total_len();
                let sink = start(&out, &inputs, call.overwrite, len)?;
                let sink =
                    call.with_report(Stage::Writing, |_, report| parts.join(sink, report))?;
                sink.commit()?;
                if delete {
                    parts.verify(&RandomAccess::open(&out)?).map_err(kept)?;
                    delete_shards(&inputs, &mut call)?;
                }
                Ok(Merged { notes: call.notes, written: None, path: out, inputs, len })
            }
        }
    }
}

/// A written model that was merged from shards or parts.
#[derive(Debug)]
pub struct Merged {
    written: Option<Written>,
    path: PathBuf,
    inputs: Vec<PathBuf>,
    len: u64,
    notes: Vec<Note>,
}

impl Merged {
    /// Returns the model that was merged from shards; `None` if parts were concatenated.
    pub fn written(&self) -> Option<&Written> {
        self.written.as_ref()
    }

    /// Returns the path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the length of the file, in bytes.
    pub fn total_len(&self) -> u64 {
        self.len
    }

    /// Returns the facts worth knowing about the call.
    pub fn notes(&self) -> &[Note] {
        self.written.as_ref().map_or(&self.notes, Written::notes)
    }

    /// Returns the plan as JSON: `ggmill.plan/1`, or `ggmill.join/1` for parts.
    pub fn document(&self) -> Result<Value> {
        match &self.written {
            Some(written) => written.document(),
            None => Ok(join_document(&self.path, &self.inputs, self.len, true)),
        }
    }
}

/// Returns the JSON of a concatenation, `ggmill.join/1`: see `docs/formats/`.
fn join_document(out: &Path, parts: &[PathBuf], len: u64, written: bool) -> Value {
    let parts: Vec<_> = parts.iter().map(|path| path.to_string_lossy()).collect();
    json!({
        "schema": "ggmill.join/1",
        "output": out.to_string_lossy(),
        "written": written,
        "file_size": len,
        "parts": parts,
    })
}

fn kept(error: ggmill_pipeline::Error) -> Error {
    Error::from(error).replace_hint(Hint::NothingDeleted)
}

/// Deletes the merged files. If that fails, the hint has the number of remaining files.
fn delete_shards(paths: &[PathBuf], call: &mut Call<'_>) -> Result<()> {
    for (number, path) in paths.iter().enumerate() {
        std::fs::remove_file(path).map_err(|error| {
            let cause = ggmill_core::RawStr::from(&*error.to_string()).to_string();
            let message = format_args!("{}: cannot delete: {cause}", display_path(path));
            let hint = Hint::ShardsRemain { remaining: paths.len() - number, count: paths.len() };
            Error::new(Kind::Io, "io", message).with_hint(hint)
        })?;
    }
    call.note(Note::ShardsDeleted(paths.len()));
    Ok(())
}
