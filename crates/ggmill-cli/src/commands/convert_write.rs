//! The end of a conversion: the name of the file, the rules, and the run.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use ggmill_arch::Catalogue;
use ggmill_core::{RawStr, Value, keys};
use ggmill_pipeline::{Checkpoint, Plan, Recipe, SplitOptions};
use ggmill_run::Recorded;

use crate::checked::Checked;
use crate::commands::quantize::without_ending;
use crate::console::Console;
use crate::making::Making;
use crate::outcome::{Failure, Status};
use crate::outputs::{Output, start};
use crate::ran::Ran;
use crate::shards::MakingShards;

/// Where a file goes.
#[derive(Clone, Copy, Debug)]
pub(super) enum Place<'a> {
    /// To this path, which for shards is their prefix.
    File(&'a Path),
    /// Into this directory, under a name of its own.
    Directory(&'a Path),
}

impl<'a> Place<'a> {
    /// What a user means: a directory that exists, unless it has the name of a GGUF file; the
    /// current directory where nothing is given.
    pub(super) fn of(output: Option<&'a Path>) -> Self {
        match output {
            Some(path) if path.is_dir() && path.extension().is_none_or(|found| found != "gguf") => {
                Self::Directory(path)
            }
            Some(path) => Self::File(path),
            None => Self::Directory(Path::new("")),
        }
    }

    /// The path, for a file with this name of its own.
    pub(super) fn path(self, name: impl FnOnce() -> String) -> PathBuf {
        match self {
            Self::File(path) => path.to_owned(),
            Self::Directory(directory) => directory.join(name()),
        }
    }
}

/// Where a converted model goes, and how.
#[derive(Clone, Copy, Debug)]
pub(super) struct Destination<'a> {
    /// The file, the prefix of its shards, or the directory for it.
    pub(super) place: Place<'a>,
    /// The name for a model that the convention has none for.
    pub(super) other_name: &'a str,
    pub(super) inputs: &'a [PathBuf],
    pub(super) cut: Option<&'a SplitOptions>,
    pub(super) force: bool,
    pub(super) dry_run: bool,
    pub(super) json: bool,
    /// The architectures that the rules go by, unless the model is not checked.
    pub(super) rules: Option<&'a Catalogue>,
    /// Recorded logits that the file is run against, with the architectures there are.
    pub(super) verify: Option<(&'a Recorded, &'a Catalogue)>,
}

impl Destination<'_> {
    /// Refuses, before anything is read, an output that cannot be written, as far as that is known.
    pub(super) fn look_ahead(self) -> Result<(), Failure> {
        let output = match self.place {
            Place::File(output) => output,
            Place::Directory(directory) => {
                // The name is known later; with any name it can be written into or not.
                return start(&directory.join("model.gguf"), &[], true, 0).map(drop);
            }
        };
        if self.cut.is_some() {
            return self.shards(&without_ending(output)).look_ahead().map(drop);
        }
        Output::new(output, self.inputs, self.force, self.dry_run).map(drop)
    }

    /// Checks the model, writes it if there is no error in it, and says what was found.
    pub(super) fn write(
        self,
        recipe: Recipe,
        checkpoint: &dyn Checkpoint,
        console: Console,
    ) -> Result<Status, Failure> {
        let has_vocabulary = !lacks_vocabulary(&recipe);
        // The name is that of the model as a whole.
        let has_own_name = matches!(self.place, Place::Directory(_));
        let of_set = self.cut.filter(|_| has_own_name).map(|_| recipe.clone());
        let plans: Vec<Plan> = match self.cut {
            Some(cut) => {
                let shards = recipe.split(cut).map_err(Failure::new)?.into_iter();
                shards.map(|shard| shard.plan(checkpoint)).collect::<Result<_, _>>()
            }
            None => recipe.plan(checkpoint).map(|plan| vec![plan]),
        }
        .map_err(Failure::new)?;
        let output = self.place.path(|| match self.cut {
            None => self.name(plans.first()),
            Some(_) => self.name(of_set.and_then(|whole| whole.plan(checkpoint).ok()).as_ref()),
        });
        let prefix = without_ending(&output);
        let outputs = match self.cut {
            Some(_) => self.shards(&prefix).outputs(plans.len())?,
            None => vec![output],
        };
        // A plan that is refused is printed first.
        let early = if self.dry_run { None } else { Some(self.check(&plans, &outputs, console)?) };
        let status = match (self.cut, &*plans, &*outputs) {
            (None, [plan], [output]) => {
                let output = Output::new(output, self.inputs, self.force, self.dry_run)?;
                let making = Making { output, inputs: self.inputs, json: self.json };
                making.run(plan, checkpoint, console)?
            }
            _ => self.shards(&prefix).run_plans(&plans, checkpoint, console)?,
        };
        early
            .map_or_else(|| self.check(&plans, &outputs, console), Ok)?
            .tell(has_vocabulary, console);
        match (self.verify, outputs.first()) {
            (Some((logits, catalogue)), Some(first)) => verify(first, logits, catalogue, console),
            _ => Ok(status),
        }
    }

    fn shards<'p>(&'p self, prefix: &'p Path) -> MakingShards<'p> {
        let Self { inputs, force, dry_run, json, .. } = *self;
        MakingShards { prefix, inputs, force, dry_run, json }
    }

    /// The name that the metadata give the model.
    fn name(&self, plan: Option<&Plan>) -> String {
        let name = plan.and_then(|plan| plan.file_name().ok());
        name.unwrap_or_else(|| format!("{}.gguf", self.other_name))
    }

    fn check(
        &self,
        plans: &[Plan],
        outputs: &[PathBuf],
        console: Console,
    ) -> Result<Checked, Failure> {
        let Some(catalogue) = self.rules else { return Ok(Checked::default()) };
        Checked::of(plans, outputs, catalogue, console)
    }
}

/// Whether a model is one that should have a vocabulary, and was converted without.
pub(super) fn lacks_vocabulary(recipe: &Recipe) -> bool {
    recipe.metadata.get(keys::TOKENIZER_MODEL) == Some(Value::Str(RawStr::from("none")))
}

/// Runs what was written over the tokens of recorded logits.
fn verify(
    file: &Path,
    logits: &Recorded,
    catalogue: &Catalogue,
    console: Console,
) -> Result<Status, Failure> {
    let Ran { run, text } = Ran::of(file, Ok(Some(logits)), catalogue, console);
    let mut out = console.text();
    write!(out, "\n{}", text?)?;
    out.flush()?;
    Ok(if run.faults.is_empty() { Status::Fine } else { Status::Findings })
}
