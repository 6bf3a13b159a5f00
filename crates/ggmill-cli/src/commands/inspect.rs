//! `ggmill inspect`: what is in a file.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use ggmill_core::Model;
use ggmill_inspect::{FileKind, Selection, json, notices, text};
use ggmill_text::Glob;

use crate::commands::legacy_listing;
use crate::console::Console;
use crate::journal::warn_of_journal;
use crate::outcome::{Failure, Status};
use crate::source::{open_what_is_there, what_it_is};

/// Tensors listed on a terminal by a command that did not ask for tensors.
const TENSOR_ROWS: usize = 48;
/// Warnings shown; a hostile file can deserve a million.
const MAX_WARNINGS: usize = 20;

/// Show what is in a GGUF file: summary, metadata, tensors
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  ggmill inspect model.gguf
  ggmill inspect model.gguf --key 'tokenizer.*' --full --json")]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag")]
pub(crate) struct Args {
    /// The file, any shard of a set, or - for standard input
    file: PathBuf,
    /// Show the metadata only
    #[arg(long)]
    metadata: bool,
    /// Show only the metadata with keys like this (repeatable)
    #[arg(long, value_name = "GLOB")]
    key: Vec<Glob>,
    /// Show only the tensors, or those with names like this (repeatable)
    #[arg(long, value_name = "GLOB", num_args = 0..=1, require_equals = true, action = clap::ArgAction::Append)]
    tensors: Option<Vec<Glob>>,
    /// Show long strings and arrays in full
    #[arg(long)]
    full: bool,
    /// Write JSON
    #[arg(long)]
    json: bool,
    /// Inspect only this file, even if it is one shard of several
    #[arg(long)]
    alone: bool,
}

/// The arguments, resolved.
#[derive(Debug)]
pub(crate) struct Config {
    file: PathBuf,
    alone: bool,
    selection: Selection,
    full: bool,
    format: Format,
    /// Whether a long list of tensors may be shortened.
    shorten_tensors: bool,
}

#[derive(Clone, Copy, Debug)]
enum Format {
    Text,
    Json,
}

impl From<Args> for Config {
    fn from(args: Args) -> Self {
        let metadata = args.metadata || !args.key.is_empty();
        let everything = !metadata && args.tensors.is_none();
        let selection = Selection {
            summary: everything,
            metadata: everything || metadata,
            tensors: everything || args.tensors.is_some(),
            keys: args.key,
            names: args.tensors.unwrap_or_default(),
        };
        let format = if args.json { Format::Json } else { Format::Text };
        Self {
            file: args.file,
            alone: args.alone,
            selection,
            full: args.full,
            format,
            shorten_tensors: everything && !args.full,
        }
    }
}

pub(crate) fn run(config: &Config, console: Console) -> Result<Status, Failure> {
    if let Some(FileKind::LegacyGgml { magic: "GGML" | "GGMF" | "GGJT", .. }) =
        what_it_is(&config.file)
    {
        return legacy_listing::show(&config.file, matches!(config.format, Format::Json), console);
    }
    warn_of_journal(&config.file, console);
    let (model, broken) = open_what_is_there(&config.file, config.alone)?;
    let model = &model;
    if broken.is_none() {
        warn(model, console);
    }
    match config.format {
        Format::Json => {
            let arrays = if config.full { json::Arrays::Full } else { json::Arrays::Shortened };
            let mut out = console.bytes();
            json::write(&mut out, model, &config.selection, arrays)?;
            out.flush()?;
        }
        Format::Text => {
            let width = console.width();
            let tensor_rows = (width.is_some() && config.shorten_tensors).then_some(TENSOR_ROWS);
            let options = text::Options {
                width,
                styled: console.is_styled(),
                full: config.full,
                tensor_rows,
                rest_hint: Some("--tensors lists all"),
            };
            let mut out = console.text();
            text::write(&mut out, model, &config.selection, &options)?;
            out.flush()?;
        }
    }
    let status = unmatched(model, &config.selection, console);
    broken.map_or(Ok(status), Err)
}

/// The summary of a file that was just written.
pub(crate) fn summarize(file: &Path, console: Console) -> Result<Status, Failure> {
    let selection = Selection { metadata: false, tensors: false, ..Selection::default() };
    run(
        &Config {
            file: file.to_owned(),
            alone: true,
            selection,
            full: false,
            format: Format::Text,
            shorten_tensors: true,
        },
        console,
    )
}

fn warn(model: &Model, console: Console) {
    let notices = notices(model);
    for notice in notices.iter().take(MAX_WARNINGS) {
        console.warn(notice);
    }
    if let Some(more) = notices.len().checked_sub(MAX_WARNINGS).filter(|&more| more > 0) {
        console.warn(format_args!("and {more} more of this kind"));
    }
}

/// Reports which patterns match nothing. It is a finding when none matches anything.
fn unmatched(model: &Model, selection: &Selection, console: Console) -> Status {
    let key = |glob: &&Glob| model.metadata().iter().any(|pair| glob.matches(pair.key()));
    let name = |glob: &&Glob| model.tensors().iter().any(|tensor| glob.matches(tensor.name()));
    let (mut found, mut missed) = (0, 0);
    for (what, globs, fits) in [
        ("key", &selection.keys, &key as &dyn Fn(&&Glob) -> bool),
        ("tensor", &selection.names, &name),
    ] {
        for glob in globs {
            if fits(&glob) {
                found += 1;
            } else {
                missed += 1;
                console.warn(format_args!(
                    "no {what} matches {:?}",
                    ggmill_core::RawStr::from(glob.to_string().as_str())
                ));
            }
        }
    }
    if missed > 0 && found == 0 { Status::Findings } else { Status::Fine }
}
