//! Splitting a model into shards, and writing them.

use std::path::Path;

use ggmill_core::{Alignment, ByteSize, MetadataBuf, PlannedTensor, RawStr, keys};
use ggmill_io::{FileSink, MAX_OPEN_FILES, Overwrite, commit_all};

use crate::error::{Error, ErrorKind, Result};
use crate::recipe::{Form, Plan, Recipe, RecipeTensor};
use crate::run::{Progress, Report, RunOptions, run};
use crate::source::{Checkpoint, GgufCheckpoint};

/// The keys of a shard: its number, the count of shards, and the count of tensors in the set.
pub const SPLIT_KEYS: [&str; 3] = [keys::SPLIT_NO, keys::SPLIT_COUNT, keys::SPLIT_TENSORS_COUNT];

/// The maximum size of a shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ShardLimit {
    /// The number of tensors.
    Tensors(u64),
    /// The bytes of tensor data, including padding. A tensor larger than this gets its own shard.
    Bytes(u64),
}

/// How a model is split into shards.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct SplitOptions {
    /// The maximum size of a shard.
    pub limit: ShardLimit,
    /// If true, the first shard has only metadata, so that it is small and still identifies the
    /// model.
    pub no_tensor_first: bool,
}

impl SplitOptions {
    /// Creates options with this limit and with tensors in the first shard.
    pub fn new(limit: ShardLimit) -> Self {
        Self { limit, no_tensor_first: false }
    }
}

/// Splits a model into shards and returns the recipe of each, in order.
///
/// Like `llama-gguf-split`, the first shard has all metadata and the others only the split keys.
/// They also keep a non-default alignment, which the reference drops, so that its shards are
/// unreadable. Fails if the limit is 0, and if the split keys cannot count the shards or tensors.
pub fn split(checkpoint: &GgufCheckpoint, options: &SplitOptions) -> Result<Vec<Recipe>> {
    Recipe::copy_of(checkpoint)?.split(options)
}

impl Recipe {
    /// Splits the recipe of one file into those of a shard set, like [`split`](crate::split).
    pub fn split(self, options: &SplitOptions) -> Result<Vec<Self>> {
        let (groups, note) = groups(&self, options, alignment(&self.metadata)?)?;
        let mut shards = self
            .into_shards(&groups, [keys::SPLIT_NO, keys::SPLIT_TENSORS_COUNT, keys::SPLIT_COUNT])?;
        if let Some(first) = shards.first_mut() {
            first.notes.extend(note);
        }
        Ok(shards)
    }

    /// Splits into shards with these numbers of tensors. `order` is the order of the split keys.
    /// The notes stay with the first shard.
    pub fn into_shards(self, groups: &[usize], order: [&str; 3]) -> Result<Vec<Self>> {
        let too_many = |what: &str, limit: u64| {
            Error::new(
                ErrorKind::Misuse,
                format!("more than {limit} {what}; larger shards would reduce their number"),
            )
        };
        let tensors = i32::try_from(self.tensors.len())
            .map_err(|_| too_many("tensors", i32::MAX.unsigned_abs().into()))?;
        let count = u16::try_from(groups.len()).map_err(|_| too_many("shards", u16::MAX.into()))?;
        let alignment = alignment(&self.metadata)?;
        let form = Form { pad_header: true, ..self.form };
        let mut rest: Vec<RecipeTensor> = self.tensors;
        let mut first = Some((self.metadata, self.notes));
        let mut shards = Vec::with_capacity(groups.len());
        for (number, &len) in (0u16..).zip(groups) {
            let (mut metadata, notes) =
                first.take().unwrap_or_else(|| (alignment_only(alignment), Vec::new()));
            for key in SPLIT_KEYS {
                metadata.remove(key);
            }
            for key in order {
                match key {
                    keys::SPLIT_NO => metadata.set(key, number),
                    keys::SPLIT_COUNT => metadata.set(key, count),
                    _ => metadata.set(key, tensors),
                }
            }
            let later = rest.split_off(len.min(rest.len()));
            let tensors = std::mem::replace(&mut rest, later);
            shards.push(Self { metadata, tensors, notes, form });
        }
        Ok(shards)
    }
}

/// Returns the alignment of the metadata. Fails if it is invalid.
fn alignment(metadata: &MetadataBuf) -> Result<Alignment> {
    let Some(stated) = metadata.get(keys::GENERAL_ALIGNMENT) else { return Ok(Alignment::DEFAULT) };
    Alignment::new(stated.as_u64().unwrap_or(0))
        .map_err(|error| Error::caused(ErrorKind::Misuse, error).key(keys::GENERAL_ALIGNMENT))
}

/// Returns metadata with only the alignment, if it is not the default.
fn alignment_only(alignment: Alignment) -> MetadataBuf {
    let mut metadata = MetadataBuf::new();
    if alignment != Alignment::DEFAULT {
        metadata.set(keys::GENERAL_ALIGNMENT, alignment.get());
    }
    metadata
}

/// Returns the number of tensors of each shard, and a note about tensors larger than the limit.
fn groups(
    recipe: &Recipe,
    options: &SplitOptions,
    alignment: Alignment,
) -> Result<(Vec<usize>, Option<String>)> {
    if matches!(options.limit, ShardLimit::Tensors(0) | ShardLimit::Bytes(0)) {
        return Err(Error::new(ErrorKind::Misuse, "shards of size 0, expected at least 1"));
    }
    let mut groups = if options.no_tensor_first { vec![0, 0] } else { vec![0] };
    let (mut too_large, mut others) = (None, 0u64);
    let mut bytes = 0u64;
    for tensor in &recipe.tensors {
        let size = alignment.align(tensor.expression.size()).unwrap_or(u64::MAX);
        let last = groups.last().copied().unwrap_or(0);
        let full = match options.limit {
            ShardLimit::Tensors(limit) => last as u64 >= limit,
            ShardLimit::Bytes(limit) => last > 0 && bytes.saturating_add(size) > limit,
        };
        if full {
            groups.push(0);
            bytes = 0;
        }
        bytes = bytes.saturating_add(size);
        let Some(group) = groups.last_mut() else { continue };
        *group += 1;
        if let ShardLimit::Bytes(limit) = options.limit
            && size > limit
        {
            others += u64::from(too_large.is_some());
            too_large.get_or_insert_with(|| {
                let [size, limit] = ByteSize::both(size, limit);
                let name = RawStr::new(&tensor.name);
                format!("tensor {name:?} by itself has {size}, the limit is {limit}")
            });
        }
    }
    // A model without tensors needs no second shard after the metadata shard.
    if groups.len() > 1 && groups.last() == Some(&0) {
        groups.pop();
    }
    let note = too_large.map(|note| {
        if others > 0 { format!("{note}; {others} others are also too large") } else { note }
    });
    Ok((groups, note))
}

/// The output files of a shard set. Dropping them before the commit leaves nothing behind.
///
/// ```
/// # let directory = tempfile::tempdir()?;
/// # let prefix = directory.path().join("model");
/// use std::ops::ControlFlow;
/// use ggmill_core::{GgmlType, MetadataBuf, Shape};
/// use ggmill_io::{Overwrite, shard_paths};
/// use ggmill_pipeline::{
///     Expression, MemorySource, Plan, Recipe, RecipeTensor, RunOptions, ShardFiles, ShardLimit, SplitOptions,
/// };
/// let mut source = MemorySource::new();
/// for name in ["a", "b"] {
///     source.add(name, GgmlType::F32, Shape::new(&[2])?, vec![0; 8])?;
/// }
/// let tensor = |name| Ok(RecipeTensor::new(name, Expression::named(&source, name)?));
/// let tensors = ["a", "b"].into_iter().map(tensor).collect::<Result<_, ggmill_pipeline::Error>>()?;
/// let recipe = Recipe::new(MetadataBuf::new(), tensors);
/// let shards = recipe.split(&SplitOptions::new(ShardLimit::Tensors(1)))?;
/// let plans: Vec<Plan> = shards.into_iter().map(|shard| shard.plan(&source)).collect::<Result<_, _>>()?;
/// let paths = shard_paths(&prefix, plans.len()).ok_or("no prefix")?;
/// let inputs: [&str; 0] = [];
/// let files = ShardFiles::start(&plans, &paths, &inputs, Overwrite::Refuse)?;
/// files.run(&plans, &source, &RunOptions::default(), &mut |_| ControlFlow::Continue(()))?;
/// assert_eq!(ggmill_io::open(&paths[0])?.tensors().len(), 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Default)]
pub struct ShardFiles(Vec<FileSink>);

impl ShardFiles {
    /// Creates an empty set.
    pub fn new() -> Self {
        Self::default()
    }

    /// Starts the file of each plan with its length, so that an error for the last file occurs
    /// before the first is written. Fails like [`FileSink::start`].
    pub fn start(
        plans: &[Plan],
        paths: &[impl AsRef<Path>],
        inputs: &[impl AsRef<Path>],
        overwrite: Overwrite,
    ) -> ggmill_io::Result<Self> {
        let mut files = Self::new();
        for (plan, path) in plans.iter().zip(paths) {
            let len = plan.layout().total_len();
            files.add(FileSink::start(path, inputs, overwrite, len)?)?;
        }
        Ok(files)
    }

    /// Adds the file of the next shard. Closes it until it is written if too many are open.
    pub fn push(&mut self, sink: FileSink) -> Result<()> {
        Ok(self.add(sink)?)
    }

    fn add(&mut self, mut sink: FileSink) -> ggmill_io::Result<()> {
        if self.0.len() >= MAX_OPEN_FILES {
            sink.close_idle()?;
        }
        self.0.push(sink);
        Ok(())
    }

    /// Writes each shard and commits all of them when the last is complete. `progress` reports on
    /// the whole set. Fails like [`run`](crate::run).
    pub fn run(
        mut self,
        plans: &[Plan],
        source: &dyn Checkpoint,
        options: &RunOptions,
        progress: &mut Report<'_>,
    ) -> Result<()> {
        if plans.len() != self.0.len() {
            let message = format!("{} files for {} shards", self.0.len(), plans.len());
            return Err(Error::new(ErrorKind::Misuse, message));
        }
        let tensors = plans.iter().flat_map(|plan| plan.layout().tensors());
        let total = tensors.map(PlannedTensor::size).sum();
        let mut done = 0;
        for (number, (sink, plan)) in self.0.iter_mut().zip(plans).enumerate() {
            let mut within = 0;
            run(plan, source, &mut *sink, options, &mut |now| {
                within = now.written;
                progress(Progress::new(now.tensor, done + within, total))
            })?;
            done += within;
            if number >= MAX_OPEN_FILES {
                sink.close_idle()?;
            }
        }
        Ok(commit_all(self.0)?)
    }
}
