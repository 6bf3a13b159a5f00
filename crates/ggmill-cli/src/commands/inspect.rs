//! `ggmill inspect`: the content of files.

use std::ffi::OsString;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use ggmill_core::{Model, RawStr};
use ggmill_inspect::{FileKind, Selection, json, markdown, notices, text};
use ggmill_text::Glob;

use crate::commands::{legacy_listing, vocabulary};
use crate::console::Console;
use crate::each::each;
use crate::journal::warn_of_journal;
use crate::outcome::{Failure, Status};
use crate::paths::shown;
use crate::source::{open_partial, what_it_is};

/// The maximum number of warnings: a hostile file can have a million.
const MAX_WARNINGS: usize = 20;

/// Show the contents of GGUF files: a summary, or all metadata and tensors
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  ggmill inspect model.gguf
  ggmill inspect model.gguf --all
  ggmill inspect model.gguf --tensors 'blk.0.*'
  ggmill inspect model.gguf --key 'tokenizer.*' --full --json
  ggmill inspect model.gguf --vocab '*ing'
  ggmill inspect model.gguf --json | jq '.metadata_by_key[\"general.name\"]'

--json and --markdown include metadata and tensors, unless options select a part. In JSON, \
`metadata` lists the entries in order, and `metadata_by_key` has their values by key; of an array, \
they have the first eight elements and `truncated`: true if there are more, or with --full all \
elements. For several files, --json prints one document after another.")]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag")]
pub(crate) struct Args {
    /// The files: GGUF files, any shard of a split model, or - for standard input
    #[arg(value_name = "FILE", required_unless_present_any = ["tensors", "vocab"])]
    files: Vec<PathBuf>,
    /// Show everything: summary, metadata and tensors; long strings and arrays are shortened
    #[arg(long, conflicts_with_all = ["metadata", "key", "tensors"])]
    all: bool,
    /// Show the metadata only
    #[arg(long)]
    metadata: bool,
    /// Show only metadata entries with matching keys (repeatable)
    #[arg(long, value_name = "GLOB")]
    key: Vec<Glob>,
    /// Show only the tensors, or only those with matching names (repeatable)
    #[arg(long, value_name = "GLOB", num_args = 0..=1, action = clap::ArgAction::Append)]
    tensors: Option<Vec<OsString>>,
    /// Show the tokens, or only those with matching text: ID, type, score, text, bytes
    #[arg(
        long,
        value_name = "GLOB",
        num_args = 0..=1,
        default_missing_value = "*",
        conflicts_with_all = ["all", "metadata", "key", "tensors", "full", "markdown", "alone"]
    )]
    vocab: Option<OsString>,
    /// Show long strings and arrays in full, and everything as --all does, unless options select a
    /// part
    #[arg(long)]
    full: bool,
    /// Write JSON
    #[arg(long, conflicts_with = "markdown")]
    json: bool,
    /// Write Markdown, for a model card or an issue
    #[arg(long)]
    markdown: bool,
    /// Inspect only this file, even if it is one shard of several
    #[arg(long)]
    alone: bool,
}

/// The arguments, resolved.
#[derive(Debug)]
pub(crate) struct Config {
    files: Vec<PathBuf>,
    alone: bool,
    selection: Selection,
    full: bool,
    format: Format,
    /// Whether to end with the options that show the rest.
    tells_of_rest: bool,
}

#[derive(Clone, Copy, Debug)]
enum Format {
    Text,
    Json,
    Markdown,
}

impl Config {
    /// Without options, text is a summary; JSON and Markdown have everything.
    fn of(args: Args) -> Result<Self, Failure> {
        let mut files = args.files;
        let asked_for_tensors = args.tensors.is_some();
        let mut names: Vec<Glob> = Vec::new();
        for value in args.tensors.unwrap_or_default() {
            names.extend(glob_or_file("--tensors", value, &mut files)?);
        }
        if files.is_empty() {
            return Err(no_file("--tensors 'blk.0.*'"));
        }
        let format = match (args.json, args.markdown) {
            (true, _) => Format::Json,
            (_, true) => Format::Markdown,
            _ => Format::Text,
        };
        let metadata = args.metadata || !args.key.is_empty();
        let is_selected = metadata || asked_for_tensors;
        let everything = !is_selected && (args.all || args.full || !matches!(format, Format::Text));
        let mut selection = Selection::default();
        selection.summary = !is_selected;
        selection.metadata = everything || metadata;
        selection.tensors = everything || asked_for_tensors;
        selection.keys = args.key;
        selection.names = names;
        Ok(Self {
            files,
            alone: args.alone,
            selection,
            full: args.full,
            format,
            tells_of_rest: !is_selected && !everything,
        })
    }
}

/// Parses the value of an option with an optional pattern. The value can be the file to inspect, as in
/// `--tensors model.gguf`.
fn glob_or_file(
    option: &str,
    value: OsString,
    files: &mut Vec<PathBuf>,
) -> Result<Option<Glob>, Failure> {
    // A missing file is reported as a file, not as a pattern.
    let is_missing =
        || files.is_empty() && Path::new(&value).extension().is_some_and(|end| end == "gguf");
    if value == "-" || Path::new(&value).is_file() || is_missing() {
        files.push(value.into());
        return Ok(None);
    }
    let text = value.to_string_lossy();
    let glob = text.parse().map_err(|error: ggmill_text::GlobError| {
        Failure::new(format_args!("{option} {:?}: {error}", RawStr::from(&*text)))
    })?;
    Ok(Some(glob))
}

fn no_file(options: &str) -> Failure {
    Failure::new("expected a file to inspect")
        .with_hint(Some(format!("ggmill inspect model.gguf {options}")))
}

pub(crate) fn run(args: Args, console: Console) -> Result<Status, Failure> {
    if let Some(value) = args.vocab {
        let mut files = args.files;
        let glob = glob_or_file("--vocab", value, &mut files)?;
        if files.is_empty() {
            return Err(no_file("--vocab '*ing'"));
        }
        let glob = glob.map_or_else(|| "*".parse().map_err(Failure::new), Ok)?;
        return each(&files, console, |_, file| vocabulary::print(file, &glob, args.json, console));
    }
    inspect(&Config::of(args)?, console)
}

/// Runs the command with `--all`.
pub(crate) fn run_all(mut args: Args, console: Console) -> Result<Status, Failure> {
    args.all = !args.metadata && args.key.is_empty() && args.tensors.is_none();
    run(args, console)
}

/// Shows each file. If one cannot be opened, the others are shown nevertheless.
fn inspect(config: &Config, console: Console) -> Result<Status, Failure> {
    each(&config.files, console, |number, file| {
        if config.files.len() > 1 && !matches!(config.format, Format::Json) {
            let mut out = console.text();
            let between = if number == 0 { "" } else { "\n" };
            let heading = if matches!(config.format, Format::Markdown) { "# " } else { "" };
            let colon = if heading.is_empty() { ":" } else { "\n" };
            writeln!(out, "{between}{heading}{}{colon}", shown(file))?;
            out.flush()?;
        }
        inspect_one(file, config, console)
    })
}

fn inspect_one(file: &Path, config: &Config, console: Console) -> Result<Status, Failure> {
    if let Some(FileKind::LegacyGgml { magic: "GGML" | "GGMF" | "GGJT", .. }) = what_it_is(file) {
        return legacy_listing::show(file, matches!(config.format, Format::Json), console);
    }
    warn_of_journal(file, console);
    let (model, broken) = open_partial(file, config.alone)?;
    let model = model.core();
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
        Format::Markdown => {
            let mut out = console.bytes();
            markdown::write(&mut out, model, &config.selection)?;
            out.flush()?;
        }
        Format::Text => {
            let options = text::Options::default()
                .with_width(console.width())
                .with_styled(console.is_styled())
                .with_full(config.full);
            let mut out = console.text();
            text::write(&mut out, model, &config.selection, &options)?;
            if config.tells_of_rest {
                let counted = |count: usize, one: &str, several: &str| {
                    format!("{count} {}", if count == 1 { one } else { several })
                };
                writeln!(
                    out,
                    "\n{}{}, {}: --metadata, --tensors, --all",
                    if model.header_fault().is_some() { "before the fault: " } else { "" },
                    counted(model.metadata().len(), "metadata entry", "metadata entries"),
                    counted(model.tensors().len(), "tensor", "tensors")
                )?;
            }
            out.flush()?;
        }
    }
    let status = unmatched(model, &config.selection, console);
    broken.map_or(Ok(status), Err)
}

/// Prints the summary of a file that was just written, except with `--quiet`.
pub(crate) fn summarize(file: &Path, console: Console) -> Result<Status, Failure> {
    if console.is_quiet() {
        return Ok(Status::Fine);
    }
    inspect(
        &Config {
            files: vec![file.to_owned()],
            alone: true,
            selection: Selection::summary(),
            full: false,
            format: Format::Text,
            tells_of_rest: false,
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

/// Warns about patterns that match nothing, and suggests a wider one. If no pattern matches anything,
/// the status is [`Status::Findings`].
fn unmatched(model: &Model, selection: &Selection, console: Console) -> Status {
    let key = |glob: &Glob| model.metadata().iter().any(|entry| glob.matches(entry.key()));
    let name = |glob: &Glob| model.tensors().iter().any(|tensor| glob.matches(tensor.name()));
    let (mut found, mut missed) = (0, 0);
    for (what, globs, matches) in [
        ("key", &selection.keys, &key as &dyn Fn(&Glob) -> bool),
        ("tensor", &selection.names, &name),
    ] {
        for glob in globs {
            if matches(glob) {
                found += 1;
                continue;
            }
            missed += 1;
            let text = glob.to_string();
            let wider = (!text.contains(['*', '?', '['])).then(|| format!("*{text}*"));
            let wider = wider.filter(|wider| wider.parse().is_ok_and(|wider| matches(&wider)));
            let hint =
                wider.map(|wider| format!("; try {:?}", RawStr::from(&*wider))).unwrap_or_default();
            console.warn(format_args!("no {what} matches {:?}{hint}", RawStr::from(&*text)));
        }
    }
    if missed > 0 && found == 0 { Status::Findings } else { Status::Fine }
}
