//! `ggmill merge`: merges the shards of a model into one file.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use ggmill::OpenOptions;
use ggmill_core::Model;
use ggmill_edit::Parts;

use crate::commands::inspect;
use crate::console::Console;
use crate::files::{check_output, shown};
use crate::model_output::{print_planned, print_written};
use crate::outcome::{Failure, Status};
use crate::progress::{Bars, with_bars};
use crate::remote;

/// Merge the shards of a model into one file
#[derive(Debug, clap::Args)]
#[expect(clippy::struct_excessive_bools, reason = "flags as they are typed")]
#[command(
    override_usage = "ggmill merge [OPTIONS] SHARD... OUT\n       ggmill merge [OPTIONS] SHARD... \
                      -o OUT",
    after_help = "\
Examples:
  ggmill merge model-00001-of-00009.gguf model.gguf
  ggmill merge model-*-of-00009.gguf -o model.gguf --delete-shards
  ggmill merge model.gguf.part1of3 -o model.gguf

One shard is enough: the others are found from its name. Files split at byte boundaries \
(.part1of3, .split-a, -split-a) are concatenated."
)]
pub(crate) struct Args {
    /// One shard or all shards in any order, followed by the output file unless -o is given
    #[arg(value_name = "SHARD... [OUT]", required = true, num_args = 1..)]
    paths: Vec<PathBuf>,
    /// The file to write
    #[arg(short, long, value_name = "OUT")]
    output: Option<PathBuf>,
    /// Delete the shards after verifying the merged file against them byte for byte
    #[arg(long, alias = "delete-parts", conflicts_with = "dry_run")]
    delete_shards: bool,
    /// Replace OUT if it exists
    #[arg(long)]
    force: bool,
    /// Print what would be written, with exact sizes and offsets, and write nothing
    #[arg(long)]
    dry_run: bool,
    /// Print the plan (type and offset of each tensor) as JSON instead of a summary
    #[arg(long)]
    json: bool,
}

impl Args {
    /// Returns the arguments of `ggmill split --merge`.
    pub(crate) fn of_split(
        shard: &Path,
        output: &Path,
        force: bool,
        dry_run: bool,
        json: bool,
    ) -> Self {
        Self {
            paths: vec![shard.to_owned()],
            output: Some(output.to_owned()),
            delete_shards: false,
            force,
            dry_run,
            json,
        }
    }
}

pub(crate) fn run(args: &Args, console: Console) -> Result<Status, Failure> {
    let (shards, output) = shards_and_output(args)?;
    let shards = expand_patterns(shards)?;
    check_output(output, &shards, args.force)?;
    let remote = shards.iter().find(|shard| remote::is_remote(shard));
    let options = remote.map_or_else(|| Ok(OpenOptions::new()), |path| remote::options(path))?;
    let bars = Bars::new(console);
    let builder = ggmill::merge(shards)?
        .overwrite(args.force)
        .delete_shards(args.delete_shards)
        .open_with(options);
    let plan = with_bars!(builder, bars).plan(output)?;
    if args.dry_run {
        #[expect(clippy::single_match_else, reason = "two kinds of plans")]
        match plan.planned() {
            Some(planned) => print_planned(planned, args.json, console)?,
            None => {
                let mut out = console.text();
                if args.json {
                    ggmill_text::json::write_pretty(&mut out, &plan.document()?)?;
                } else {
                    let (parts, len) = (plan.inputs().len(), plan.total_len());
                    let output = shown(output);
                    writeln!(
                        out,
                        "{output}: {parts} parts, {len} bytes in all; nothing was written"
                    )?;
                }
                out.flush()?;
                plan.check_outputs()?;
            }
        }
        return Ok(Status::Fine);
    }
    let merged = plan.write()?;
    bars.clear();
    if let Some(written) = merged.written() {
        return print_written(written, args.json, console);
    }
    if args.json {
        let mut out = console.bytes();
        ggmill_text::json::write_pretty(&mut out, &merged.document()?)?;
        out.flush()?;
        return Ok(Status::Fine);
    }
    console.note(format_args!("wrote {}", shown(merged.path())));
    inspect::summarize(merged.path(), console)
}

/// Expands patterns such as `model-*.gguf`, which the Windows shell passes unexpanded.
fn expand_patterns(shards: &[PathBuf]) -> Result<Vec<PathBuf>, Failure> {
    let mut paths = Vec::new();
    for shard in shards {
        let pattern =
            shard.to_str().filter(|text| text.contains(['*', '?', '[']) && !shard.exists());
        // In an address, `?` begins the query.
        let pattern = pattern.filter(|_| !remote::is_remote(shard));
        let Some(pattern) = pattern else {
            paths.push(shard.clone());
            continue;
        };
        let refused =
            |why: &dyn std::fmt::Display| Failure::new(format_args!("{}: {why}", shown(shard)));
        let found: Vec<PathBuf> = glob::glob(pattern)
            .map_err(|error| refused(&error.msg))?
            .filter_map(Result::ok)
            .collect();
        if found.is_empty() {
            return Err(refused(&"no file matches"));
        }
        paths.extend(found);
    }
    Ok(paths)
}

/// The hint for a missing output: the last path is a shard.
const OUTPUT_HINT: &str = "-o OUT specifies the file to write";

/// Separates the shards from the output, which is the last path without `-o`. Fails if the output is a
/// shard: after `ggmill merge model-*.gguf`, the last shard would be overwritten.
fn shards_and_output(args: &Args) -> Result<(&[PathBuf], &Path), Failure> {
    let (shards, output) = match (&args.output, args.paths.split_last()) {
        (Some(output), _) => (&*args.paths, &**output),
        (None, Some((output, shards))) if !shards.is_empty() => (shards, &**output),
        _ => {
            return Err(
                Failure::new("no output file was given").with_hint(Some(OUTPUT_HINT.to_owned()))
            );
        }
    };
    if ggmill_io::shard_name(output).is_some() || Parts::is_part_name(output) {
        let message =
            format!("{}: has the name of a shard, but would be the output", shown(output));
        return Err(Failure::new(message).with_hint(Some(OUTPUT_HINT.to_owned())));
    }
    // A shard that was renamed.
    if args.output.is_none() && ggmill_io::open_alone(output).is_ok_and(|file| is_shard(&file)) {
        let message =
            format!("{}: is a shard, but would be overwritten by the output", shown(output));
        return Err(Failure::new(message).with_hint(Some(OUTPUT_HINT.to_owned())));
    }
    Ok((shards, output))
}

fn is_shard(file: &Model) -> bool {
    ggmill_core::Split::of(&file.metadata()).ok().flatten().is_some_and(|split| split.is_part())
}
