//! `ggmill diff`: what two models do not have in common.

use std::io::Write as _;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use ggmill_core::Model;
use ggmill_edit::hash::{Comparison, ToCompare};
use ggmill_inspect::diff::{DataDiff, Diff, NumericDiff, json, text};
use ggmill_inspect::{Selection, json as inspect_json, text as inspect_text};
use ggmill_io::RandomAccess;
use ggmill_pipeline::{Checkpoint as _, GgufCheckpoint, RunOptions, SourceTensor};
use ggmill_text::Glob;

use crate::commands::extract::fits_any;
use crate::console::Console;
use crate::outcome::{Failure, Status};
use crate::outputs::refuse_interrupted;
use crate::paths::shown;
use crate::progress::Bar;
use crate::source::open_whole;

/// Compare two models: metadata, tensors and tensor values
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  ggmill diff old.gguf new.gguf
  ggmill diff model-F16.gguf model-Q4_K_M.gguf --data --tensors='blk.0.*'

Split models are compared as whole models. The space that edits reserve (ggmill.padding) is not \
compared. The exit code is 0 if the models are the same, 1 if they differ, 2 if a file cannot be \
read.")]
#[expect(clippy::struct_excessive_bools, reason = "flags as they are typed")]
pub(crate) struct Args {
    /// The first model, or any of its shards
    a: PathBuf,
    /// The second model, or any of its shards
    b: PathBuf,
    /// Compare only the metadata, without reading tensor data
    #[arg(long)]
    metadata: bool,
    /// Compare only metadata with matching keys (repeatable)
    #[arg(long, value_name = "GLOB")]
    key: Vec<Glob>,
    /// Compare only the tensors, or only those with matching names (repeatable)
    #[arg(long, value_name = "GLOB", num_args = 0..=1, require_equals = true, action = clap::ArgAction::Append)]
    tensors: Option<Vec<Glob>>,
    /// Report numeric differences between tensors, including quantized ones
    #[arg(long)]
    data: bool,
    /// Show long strings and arrays in full, and also unchanged tensors
    #[arg(long)]
    full: bool,
    /// Write JSON
    #[arg(long)]
    json: bool,
}

impl Args {
    fn selection(&self) -> Selection {
        let metadata = self.metadata || !self.key.is_empty();
        let tensors = self.tensors.is_some();
        let mut selection = Selection::metadata(self.key.clone());
        selection.metadata = metadata || !tensors;
        selection.tensors = tensors || !metadata;
        selection.names = self.tensors.clone().unwrap_or_default();
        selection
    }
}

pub(crate) fn run(args: &Args, console: Console) -> Result<Status, Failure> {
    let (a, b) = (open(&args.a)?, open(&args.b)?);
    let selection = args.selection();
    let files = || a.parts().iter().chain(b.parts());
    fits_any("key", &selection.keys, || {
        files().flat_map(|file| file.metadata().iter()).map(|entry| entry.key())
    })?;
    if selection.tensors {
        let (a, b) = (
            GgufCheckpoint::new(a).map_err(Failure::new)?,
            GgufCheckpoint::new(b).map_err(Failure::new)?,
        );
        fits_any("tensor", &selection.names, || {
            a.tensors().iter().chain(b.tensors()).map(SourceTensor::name)
        })?;
        let mut diff = Diff::of(a.model(), b.model(), &selection).map_err(Failure::new)?;
        compare(&mut diff, &a, &b, args.data, console)?;
        return show(&diff, args, console);
    }
    let diff = Diff::of(&a, &b, &selection).map_err(Failure::new)?;
    show(&diff, args, console)
}

fn open(path: &Path) -> Result<Model, Failure> {
    let model = open_whole(path)?;
    refuse_interrupted(&ggmill_io::files(&model).map(RandomAccess::path).collect::<Vec<_>>())?;
    Ok(model)
}

/// Compares the data of tensors that both have, in one shape.
fn compare(
    diff: &mut Diff<'_>,
    a: &GgufCheckpoint,
    b: &GgufCheckpoint,
    numeric: bool,
    console: Console,
) -> Result<(), Failure> {
    let comparable = |(_, pair): &(usize, &ggmill_inspect::diff::TensorPair<'_>)| {
        pair.has_same_shape() && (numeric || pair.has_same_type())
    };
    let both = diff.tensors().unwrap_or_default().iter().enumerate().filter(comparable).filter_map(
        |(number, pair)| {
            let (a, b) = pair.both()?;
            Some((number, ToCompare { a: a.number, b: b.number }))
        },
    );
    let (numbers, pairs): (Vec<usize>, Vec<ToCompare>) = both.unzip();
    let mut bar = Bar::new(console);
    let found = ggmill_edit::hash::compare(
        a,
        b,
        &pairs,
        numeric,
        &RunOptions::default(),
        &mut |progress| {
            bar.update(progress.written, progress.total, progress.tensor);
            ControlFlow::Continue(())
        },
    )
    .map_err(Failure::new)?;
    for (number, found) in numbers.into_iter().zip(found) {
        diff.set_data(number, data(&found));
    }
    Ok(())
}

fn data(found: &Comparison) -> DataDiff {
    let numeric = found.numeric.map(|error| NumericDiff {
        max_abs: error.max_abs,
        max_at: error.max_at,
        rmse: error.rmse,
        relative: error.relative,
        cosine: error.cosine,
        non_finite: error.non_finite,
    });
    DataDiff { first_byte: found.first_byte, different_bytes: found.different_bytes, numeric }
}

fn show(diff: &Diff<'_>, args: &Args, console: Console) -> Result<Status, Failure> {
    let names = [shown(&args.a).to_string(), shown(&args.b).to_string()];
    let names = [names[0].as_str(), names[1].as_str()];
    let status = if diff.is_same() { Status::Fine } else { Status::Findings };
    if args.json {
        let arrays =
            if args.full { inspect_json::Arrays::Full } else { inspect_json::Arrays::Shortened };
        let mut out = console.bytes();
        json::write(&mut out, diff, names, arrays)?;
        out.flush()?;
        return Ok(status);
    }
    let options = inspect_text::Options::default()
        .with_width(console.width())
        .with_styled(console.is_styled())
        .with_full(args.full);
    let mut out = console.text();
    text::write(&mut out, diff, names, &options)?;
    out.flush()?;
    console.note(text::conclusion(diff));
    Ok(status)
}
