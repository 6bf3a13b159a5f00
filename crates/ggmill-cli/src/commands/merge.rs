//! `ggmill merge`: shards become one file again.

use std::io::Write as _;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use ggmill_core::Model;
use ggmill_core::RawStr;
use ggmill_edit::Parts;
use ggmill_io::RandomAccess;
use ggmill_pipeline::GgufCheckpoint;

use crate::commands::inspect;
use crate::console::Console;
use crate::making::Making;
use crate::outcome::{Failure, Status};
use crate::outputs::{Output, inputs_of, refuse_inputs};
use crate::paths::shown;
use crate::progress::Bar;
use crate::remote;
use crate::source::{open_alone, open_whole};

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
    /// Arguments that merge the set of one of its shards into a file.
    pub(crate) fn of(shard: &Path, output: &Path, force: bool, dry_run: bool, json: bool) -> Self {
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
    let shards = &*expanded(shards)?;
    let output = Output::new(output, shards, args.force, args.dry_run)?;
    if shards.iter().any(Parts::is_name_of_one) {
        return join_parts(args, shards, output, console);
    }
    if let Some(remote) = shards.iter().find(|shard| remote::is_remote(shard))
        && args.delete_shards
    {
        let message = format!("{}: is not on this machine, so it cannot be deleted", shown(remote));
        return Err(Failure::new(message));
    }
    let checkpoint = GgufCheckpoint::new(opened(shards)?).map_err(Failure::new)?;
    let inputs = inputs_of(&checkpoint)?;

    let plan = ggmill_edit::merge(&checkpoint)
        .and_then(|recipe| recipe.plan(&checkpoint))
        .map_err(Failure::new)?;
    let making = Making { output, inputs: &inputs, json: args.json };
    making.run_then(&plan, &checkpoint, console, || {
        if args.delete_shards {
            let written = GgufCheckpoint::open(output.path()).map_err(Failure::new)?;
            ggmill_edit::verify(&written, &plan, &checkpoint).map_err(kept)?;
            delete(&inputs, console)?;
        }
        Ok(())
    })
}

/// The model that shards are: one of them stands for all.
fn opened(shards: &[PathBuf]) -> Result<Model, Failure> {
    let together = |is_of_set: bool| {
        is_of_set.then(|| "pass only one shard: the others are found from its name".to_owned())
    };
    let is_remote = shards.iter().any(|shard| remote::is_remote(shard));
    match shards {
        [one] if is_remote => open_whole(one),
        several if is_remote => {
            let opened = several.iter().map(|shard| open_alone(shard)).collect::<Result<_, _>>()?;
            Model::from_shards(opened)
                .map_err(|error| Failure::new(error).with_hint(together(true)))
        }
        [one] => ggmill_io::open(one).map_err(Failure::new),
        several => ggmill_io::open_shards(several).map_err(|error| {
            let is_of_set = error.kind() == ggmill_io::ErrorKind::Shards;
            Failure::new(error).with_hint(together(is_of_set && several.len() > 1))
        }),
    }
}

/// The shards with patterns such as `model-*.gguf` replaced by the files that fit, where the shell
/// has not done it.
fn expanded(shards: &[PathBuf]) -> Result<Vec<PathBuf>, Failure> {
    let mut paths = Vec::new();
    for shard in shards {
        let pattern =
            shard.to_str().filter(|text| text.contains(['*', '?', '[']) && !shard.exists());
        // An address has a query behind `?`.
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

/// A hint for when the output was mistaken for a shard, or a shard for the output.
const NAME_IT: &str = "-o OUT specifies the file to write";

/// Which of the paths are read and which one is written. A shell that expands `model-*.gguf` leaves
/// no room for doubt: a shard is never the output.
fn shards_and_output(args: &Args) -> Result<(&[PathBuf], &Path), Failure> {
    let (shards, output) = match (&args.output, args.paths.split_last()) {
        (Some(output), _) => (&*args.paths, &**output),
        (None, Some((output, shards))) if !shards.is_empty() => (shards, &**output),
        _ => {
            return Err(
                Failure::new("no output file was given").with_hint(Some(NAME_IT.to_owned()))
            );
        }
    };
    if ggmill_io::shard_name(output).is_some() || Parts::is_name_of_one(output) {
        let message =
            format!("{}: has the name of a shard, but would be the output", shown(output));
        return Err(Failure::new(message).with_hint(Some(NAME_IT.to_owned())));
    }
    // A shard under another name.
    if args.output.is_none() && ggmill_io::open_alone(output).is_ok_and(|file| is_part(&file)) {
        let message =
            format!("{}: is a shard, but would be overwritten by the output", shown(output));
        return Err(Failure::new(message).with_hint(Some(NAME_IT.to_owned())));
    }
    Ok((shards, output))
}

fn is_part(file: &Model) -> bool {
    ggmill_core::Split::of(&file.metadata()).ok().flatten().is_some_and(|split| split.is_part())
}

/// Puts together what was cut by its bytes.
fn join_parts(
    args: &Args,
    paths: &[PathBuf],
    output: Output<'_>,
    console: Console,
) -> Result<Status, Failure> {
    let parts = Parts::open(paths).map_err(Failure::new)?;
    let inputs: Vec<PathBuf> = parts.files().iter().map(|file| file.path().to_owned()).collect();
    let (path, len) = (output.path(), parts.total_len());
    refuse_inputs(path, &inputs)?;
    if args.delete_shards && parts.surplus() > 0 {
        let message = format!(
            "the parts have {} bytes more than the model they belong to: one of them is too long, \
             so none is deleted",
            parts.surplus()
        );
        return Err(Failure::new(message)
            .with_hint(Some("without --delete-shards they are concatenated anyway".to_owned())));
    }
    let write_json = |written: bool| -> Result<(), Failure> {
        let paths: Vec<_> = inputs.iter().map(|path| path.to_string_lossy()).collect();
        let result = serde_json::json!({
            "schema": "ggmill.join/1", "output": path.to_string_lossy(), "written": written, "file_size": parts.total_len(), "parts": paths,
        });
        let mut out = console.bytes();
        ggmill_text::json::write_pretty(&mut out, &result)?;
        Ok(out.flush()?)
    };
    if args.dry_run {
        if args.json {
            write_json(false)?;
        } else {
            let mut out = console.text();
            writeln!(
                out,
                "{}: {} parts, {} bytes in all; nothing was written",
                shown(path),
                inputs.len(),
                parts.total_len()
            )?;
            out.flush()?;
        }
        return output.end_dry_run(&inputs, len).map(|()| Status::Fine);
    }
    let sink = output.start(&inputs, len)?;
    let mut bar = Bar::new(console);
    let sink = parts.join(sink, &mut |progress| {
        bar.update(progress.written, progress.total, progress.tensor);
        ControlFlow::Continue(())
    });
    sink.map_err(Failure::new)?.commit().map_err(Failure::new)?;
    drop(bar);
    if args.delete_shards {
        parts.verify(&RandomAccess::open(path).map_err(Failure::new)?).map_err(kept)?;
        delete(&inputs, console)?;
    }
    if args.json {
        write_json(true)?;
        return Ok(Status::Fine);
    }
    console.note(format_args!("wrote {}", shown(path)));
    inspect::summarize(path, console)
}

fn kept(error: ggmill_pipeline::Error) -> Failure {
    Failure::new(error).with_hint(Some("no shard was deleted".to_owned()))
}

/// Deletes files that have been read from, and says which ones are left when that fails.
fn delete(paths: &[PathBuf], console: Console) -> Result<(), Failure> {
    for (number, path) in paths.iter().enumerate() {
        std::fs::remove_file(path).map_err(|error| {
            let left = paths.len() - number;
            let message =
                format!("{}: cannot delete: {}", shown(path), RawStr::from(&*error.to_string()));
            Failure::new(message).with_hint(Some(format!(
                "the file was written; {left} of {} shards remain",
                paths.len()
            )))
        })?;
    }
    console.note(format_args!(
        "deleted {} shards after comparing them with the written file",
        paths.len()
    ));
    Ok(())
}
