//! Common to commands that make a set of shards: plans are printed, or every shard is written and
//! named when the last is complete.

use std::io::{self, Write};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use ggmill_pipeline::{Checkpoint, Plan, Recipe, RunOptions, ShardFiles, plans_document};

use crate::console::Console;
use crate::making::{print_shards, tell};
use crate::outcome::{Failure, Status};
use crate::outputs::{not_started, overwrite, refuse_inputs, start};
use crate::paths::{raw, shown};
use crate::progress::{Bar, TensorNumbers};

/// Whether the recipes of a set are printed or carried out.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MakingShards<'a> {
    /// The prefix of the shards' names, directory included.
    pub(crate) prefix: &'a Path,
    /// The files that are read, none of which is written over.
    pub(crate) inputs: &'a [PathBuf],
    /// Whether files that exist are replaced.
    pub(crate) force: bool,
    /// Whether the plans are printed and nothing is written.
    pub(crate) dry_run: bool,
    /// Whether the plans are printed as JSON instead of a table.
    pub(crate) json: bool,
}

impl MakingShards<'_> {
    /// Makes the shards, and says where they are, with their plans.
    pub(crate) fn run(
        self,
        recipes: Vec<Recipe>,
        checkpoint: &dyn Checkpoint,
        console: Console,
    ) -> Result<(Status, Vec<(PathBuf, Plan)>), Failure> {
        let plans: Vec<Plan> = recipes
            .into_iter()
            .map(|recipe| recipe.plan(checkpoint))
            .collect::<Result<_, _>>()
            .map_err(Failure::new)?;
        let status = self.run_plans(&plans, checkpoint, console)?;
        Ok((status, self.outputs(plans.len())?.into_iter().zip(plans).collect()))
    }

    /// The paths of so many shards.
    pub(crate) fn outputs(self, count: usize) -> Result<Vec<PathBuf>, Failure> {
        let expected = || {
            Failure::new(format_args!(
                "{}: expected the prefix of the shards' names",
                shown(self.prefix)
            ))
        };
        ggmill_io::shard_paths(self.prefix, count).ok_or_else(expected)
    }

    /// Makes shards that are planned.
    pub(crate) fn run_plans(
        self,
        plans: &[Plan],
        checkpoint: &dyn Checkpoint,
        console: Console,
    ) -> Result<Status, Failure> {
        let outputs = self.outputs(plans.len())?;
        for output in &outputs {
            refuse_inputs(output, self.inputs)?;
        }
        if self.dry_run {
            // What the run would be refused for, but want of space: the table says how much it takes.
            for output in &outputs {
                drop(start(output, self.inputs, self.force, 0)?);
            }
        } else {
            let files = self.begin(plans, &outputs)?;
            let (mut bar, numbers) = (Bar::new(console), TensorNumbers::of(plans));
            let written = files.run(plans, checkpoint, &RunOptions::default(), &mut |progress| {
                bar.update(progress.written, progress.total, &numbers.label(progress.tensor));
                ControlFlow::Continue(())
            });
            written.map_err(Failure::new)?;
        }
        let mut out = console.text();
        if self.json {
            print_json(&mut out, plans, &outputs, !self.dry_run)?;
        } else if self.dry_run || !console.is_quiet() {
            print_shards(&mut out, plans, &outputs)?;
        }
        out.flush()?;
        for plan in plans {
            tell(plan, console);
        }
        if self.dry_run {
            drop(self.begin(plans, &outputs)?);
            console.note("nothing was written");
        } else if let Some(stale) = ggmill_io::stale_shard(self.prefix, outputs.len()) {
            console.note(format_args!(
                "{} and other shards of an earlier set are still in the same directory",
                shown(&stale)
            ));
        }
        Ok(Status::Fine)
    }

    /// Refuses, before the work begins, what can be known then: a prefix that is none, a directory that is missing or not
    /// writable. Which shards there will be is known when they are planned.
    pub(crate) fn look_ahead(self) -> Result<Self, Failure> {
        for path in &self.outputs(1)? {
            drop(start(path, &[], true, 0)?);
        }
        Ok(self)
    }

    /// Begins every shard, so that the first is not written when the last cannot be.
    fn begin(&self, plans: &[Plan], outputs: &[PathBuf]) -> Result<ShardFiles, Failure> {
        ShardFiles::start(plans, outputs, self.inputs, overwrite(self.force))
            .map_err(|error| not_started(&error))
    }
}

/// The plans as JSON (`docs/formats/plan.md`).
fn print_json(
    out: &mut dyn Write,
    plans: &[Plan],
    outputs: &[PathBuf],
    written: bool,
) -> io::Result<()> {
    let plans = plans.iter().zip(outputs).map(|(plan, output)| (plan, raw(output)));
    ggmill_text::json::write_pretty(out, &plans_document(plans, written))
}
