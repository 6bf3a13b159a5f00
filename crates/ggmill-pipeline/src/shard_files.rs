//! A set of shards written: all of them complete before any has its name.

use std::path::Path;

use ggmill_core::PlannedTensor;
use ggmill_io::{FileSink, MAX_OPEN_FILES, Overwrite, commit_all};

use crate::error::{Error, ErrorKind, Result};
use crate::plan::Plan;
use crate::run::{Progress, Report, RunOptions, run};
use crate::source::Checkpoint;

/// Files that become the shards of a set. Dropped before they are, they leave nothing behind.
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
    /// None yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Starts every file, so that the first is not written when the last cannot be: as many as there
    /// are plans, each of the length that its plan says. Fails as [`FileSink::start`] does.
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

    /// Adds the file of the next shard. It is closed until it is written where too many are open.
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

    /// Writes each shard by its plan, and names them all when the last is complete. `progress`
    /// reports on the set as a whole. Fails as [`run`](crate::run) does.
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
