//! `ggmill split`: a model becomes a set of shards.

use std::io::{self, Write};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use ggmill_convert::{GgufCheckpoint, Plan, Recipe, ShardLimit, SplitOptions};
use ggmill_core::shard_file_name;

use crate::console::Console;
use crate::making::{inputs_of, plan_as_json, refuse_inputs, shown, start, tell};
use crate::outcome::{Failure, Status};
use crate::progress::Bar;

/// Split a model into shards
#[derive(Debug, clap::Args)]
#[expect(clippy::struct_excessive_bools, reason = "flags as they are typed")]
#[command(after_help = "\
Examples:
  ggmill split model.gguf model --max-size 2G
  ggmill split model.gguf shards/model --max-tensors 64 --no-tensor-first-split

The shards are PREFIX-00001-of-00009.gguf and so on, as llama-gguf-split names them. Their
data are moved without being read; a limit counts data alone, not the header.")]
pub(crate) struct Args {
    /// The model: a file, or any shard of a set that is to be cut anew
    file: PathBuf,
    /// What the names of the shards begin with, folder included
    prefix: PathBuf,
    /// So many tensors in a shard
    #[arg(long, value_name = "N", default_value_t = 128, value_parser = clap::value_parser!(u64).range(1..), conflicts_with = "max_size")]
    max_tensors: u64,
    /// So many bytes of data in a shard: a number and K, M or G (of 1000)
    #[arg(long, value_name = "N(K|M|G)", value_parser = size)]
    max_size: Option<u64>,
    /// Leave the tensors out of the first shard, so that it is small
    #[arg(long)]
    no_tensor_first_split: bool,
    /// Replace shards that exist
    #[arg(long)]
    force: bool,
    /// Print which shards would be written, and write nothing
    #[arg(long)]
    dry_run: bool,
    /// Write the result as JSON
    #[arg(long)]
    json: bool,
}

/// A size such as `500M`.
fn size(text: &str) -> Result<u64, String> {
    let expected = || "expected a number and K, M or G, such as 500M".to_owned();
    let (digits, factor) = match text.char_indices().next_back() {
        Some((at, 'K' | 'k')) => (text.get(..at), 1000),
        Some((at, 'M' | 'm')) => (text.get(..at), 1_000_000),
        Some((at, 'G' | 'g')) => (text.get(..at), 1_000_000_000),
        _ => (Some(text), 1),
    };
    let number = digits.and_then(|digits| digits.parse::<u64>().ok()).filter(|&number| number > 0).ok_or_else(expected)?;
    number.checked_mul(factor).ok_or_else(expected)
}

pub(crate) fn run(args: &Args, console: Console) -> Result<Status, Failure> {
    let checkpoint = GgufCheckpoint::open(&args.file).map_err(Failure::new)?;
    let inputs = inputs_of(&checkpoint)?;
    let mut options = SplitOptions::new(args.max_size.map_or(ShardLimit::Tensors(args.max_tensors), ShardLimit::Bytes));
    options.no_tensor_first = args.no_tensor_first_split;
    let recipes = ggmill_convert::split(&checkpoint, &options).map_err(Failure::new)?;
    let plans: Vec<Plan> = recipes.into_iter().map(|recipe: Recipe| recipe.plan(&checkpoint)).collect::<Result<_, _>>().map_err(Failure::new)?;
    let outputs = names(&args.prefix, plans.len())?;
    for output in &outputs {
        refuse_inputs(output, &inputs)?;
    }
    if !args.dry_run {
        write(&plans, &outputs, &checkpoint, &inputs, args.force, console)?;
    }
    let mut out = console.text();
    if args.json {
        print_json(&mut out, &plans, &outputs, !args.dry_run)?;
    } else {
        print_table(&mut out, &plans, &outputs)?;
    }
    out.flush()?;
    for plan in &plans {
        tell(plan, console);
    }
    if args.dry_run {
        console.note("nothing was written");
    }
    Ok(Status::Fine)
}

/// The paths of so many shards.
fn names(prefix: &Path, count: usize) -> Result<Vec<PathBuf>, Failure> {
    let bad = || Failure::new(format_args!("{}: expected what the names of the shards begin with", shown(prefix)));
    // `folder/` has a last part too, and it is not the beginning of a name.
    let ends_in_name = !prefix.as_os_str().as_encoded_bytes().last().is_some_and(|&last| std::path::is_separator(last.into()));
    let name = prefix.file_name().and_then(|name| name.to_str()).filter(|_| ends_in_name).ok_or_else(bad)?;
    let count = u32::try_from(count).map_err(|_| bad())?;
    Ok((1..=count).map(|number| prefix.with_file_name(shard_file_name(name, number, count))).collect())
}

/// Writes all shards, and names them when the last is complete.
fn write(plans: &[Plan], outputs: &[PathBuf], checkpoint: &GgufCheckpoint, inputs: &[PathBuf], force: bool, console: Console) -> Result<(), Failure> {
    let mut sinks = Vec::with_capacity(plans.len());
    for (plan, output) in plans.iter().zip(outputs) {
        sinks.push(start(output, inputs, force, plan.layout().total_len())?);
    }
    let total = plans.iter().flat_map(|plan| plan.layout().tensors()).map(ggmill_core::PlannedTensor::size).sum();
    let mut bar = Bar::new(console);
    let mut done = 0;
    for (sink, plan) in sinks.iter_mut().zip(plans) {
        let mut within = 0;
        ggmill_convert::run(plan, checkpoint, sink, &mut |progress| {
            within = progress.written;
            bar.update(done + within, total, progress.tensor);
            ControlFlow::Continue(())
        })
        .map_err(Failure::new)?;
        done += within;
    }
    ggmill_io::commit_all(sinks).map_err(Failure::new)
}

fn print_table(out: &mut dyn Write, plans: &[Plan], outputs: &[PathBuf]) -> io::Result<()> {
    for (plan, output) in plans.iter().zip(outputs) {
        let layout = plan.layout();
        let tensors = match layout.tensors().len() {
            1 => "1 tensor".to_owned(),
            several => format!("{several} tensors"),
        };
        writeln!(out, "{}  {tensors}  {} bytes", shown(output), layout.total_len())?;
    }
    Ok(())
}

/// The plans as JSON (`docs/formats/plan.md`).
fn print_json(out: &mut dyn Write, plans: &[Plan], outputs: &[PathBuf], written: bool) -> io::Result<()> {
    let plans: Vec<_> = plans.iter().zip(outputs).map(|(plan, output)| plan_as_json(plan, output, written)).collect();
    serde_json::to_writer_pretty(&mut *out, &serde_json::json!({ "schema": "ggmill.plans/1", "plans": plans }))?;
    writeln!(out)
}
