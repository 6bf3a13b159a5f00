//! `ggmill diff`: compares two models.

use std::io::Write as _;
use std::path::PathBuf;

use ggmill_inspect::diff::{Diff, json, text};
use ggmill_inspect::{json as inspect_json, text as inspect_text};
use ggmill_text::Glob;

use crate::console::Console;
use crate::files::{open_model, shown};
use crate::outcome::{Failure, Status};
use crate::progress::{Bars, with_bars};

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

pub(crate) fn run(args: &Args, console: Console) -> Result<Status, Failure> {
    let bars = Bars::new(console);
    let (a, b) = (open_model(&args.a)?, open_model(&args.b)?);
    let mut builder = ggmill::diff(&a, &b)?.keys(args.key.iter().cloned()).numeric(args.data);
    if args.metadata {
        builder = builder.metadata();
    }
    if let Some(names) = &args.tensors {
        builder = builder.tensors(names.iter().cloned());
    }
    let diff = with_bars!(builder, bars).run()?;
    bars.clear();
    show(&diff, args, console)
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
