//! `ggmill inspect`: shows the content of GGUF files and legacy files.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use ggmill::Note;
use ggmill_core::{Model, RawStr};
use ggmill_inspect::{FileKind, Selection, json, markdown, notices, text};
use ggmill_pipeline::Checkpoint as _;
use ggmill_pipeline::formats::Legacy;
use ggmill_text::{Glob, LosslessStr, json as safe_json};
use ggmill_tokenizer::{Attributes, Kind, Tokenizer};
use serde_json::json;

use crate::console::{Console, counted};
use crate::files::{kind_of_file, open_partial, open_tokenizer, shown};
use crate::outcome::{Failure, Status, each};

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
    /// If true, the last line names the options that show the rest.
    names_options: bool,
}

#[derive(Clone, Copy, Debug)]
enum Format {
    Text,
    Json,
    Markdown,
}

impl Config {
    /// Resolves the arguments. Without options, text is a summary; JSON and Markdown have everything.
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
            names_options: !is_selected && !everything,
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
        return each(&files, console, |_, file| print_tokens(file, &glob, args.json, console));
    }
    inspect(&Config::of(args)?, console)
}

/// Runs the command with `--all`.
pub(crate) fn run_all(mut args: Args, console: Console) -> Result<Status, Failure> {
    args.all = !args.metadata && args.key.is_empty() && args.tensors.is_none();
    run(args, console)
}

/// Shows each file, and continues after one that cannot be opened.
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
    if let Some(FileKind::LegacyGgml { magic: "GGML" | "GGMF" | "GGJT", .. }) = kind_of_file(file) {
        return show_legacy(file, matches!(config.format, Format::Json), console);
    }
    if let Some(note) = Note::interrupted(file) {
        console.tell(&note);
    }
    let (model, truncation) = open_partial(file, config.alone)?;
    let model = model.core();
    if truncation.is_none() {
        print_notices(model, console);
    }
    match config.format {
        Format::Json => {
            let arrays = if config.full { json::Arrays::Full } else { json::Arrays::Shortened };
            let mut out = console.bytes();
            json::write(&mut out, model, &config.selection, arrays)?;
            out.flush()?;
        }
        Format::Markdown => {
            let mut out = console.text();
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
            if config.names_options {
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
    let status = warn_of_unmatched(model, &config.selection, console);
    truncation.map_or(Ok(status), Err)
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
            names_options: false,
        },
        console,
    )
}

fn print_notices(model: &Model, console: Console) {
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
fn warn_of_unmatched(model: &Model, selection: &Selection, console: Console) -> Status {
    let key = |glob: &Glob| model.metadata().iter().any(|entry| glob.matches(entry.key()));
    let name = |glob: &Glob| model.tensors().iter().any(|tensor| glob.matches(tensor.name()));
    let (mut matched, mut unmatched) = (0, 0);
    for (what, globs, matches) in [
        ("key", &selection.keys, &key as &dyn Fn(&Glob) -> bool),
        ("tensor", &selection.names, &name),
    ] {
        for glob in globs {
            if matches(glob) {
                matched += 1;
                continue;
            }
            unmatched += 1;
            let text = glob.to_string();
            let wider = (!text.contains(['*', '?', '['])).then(|| format!("*{text}*"));
            let wider = wider.filter(|wider| wider.parse().is_ok_and(|wider| matches(&wider)));
            let hint =
                wider.map(|wider| format!("; try {:?}", RawStr::from(&*wider))).unwrap_or_default();
            console.warn(format_args!("no {what} matches {:?}{hint}", RawStr::from(&*text)));
        }
    }
    if unmatched > 0 && matched == 0 { Status::Findings } else { Status::Fine }
}

/// Prints the content of a legacy file.
fn show_legacy(path: &Path, as_json: bool, console: Console) -> Result<Status, Failure> {
    let legacy = Legacy::open(path).map_err(Failure::new)?;
    let tensors = || {
        legacy.tensors().iter().enumerate().map(|(number, tensor)| {
            (tensor, legacy.place(number).unwrap_or_default(), legacy.block_note(number))
        })
    };
    if as_json {
        let tensors: Vec<_> = tensors()
            .map(|(tensor, (offset, size), note)| {
                json!({
                    "name": tensor.name().to_string_lossy(), "type": tensor.ggml_type.to_string(), "shape": tensor.shape.dimensions(),
                    "offset": offset, "size": size, "blocks": note,
                })
            })
            .collect();
        let parameters: serde_json::Map<_, _> = legacy
            .parameters()
            .iter()
            .map(|(name, value)| ((*name).to_owned(), json!(value)))
            .collect();
        let document = json!({
            "schema": "ggmill.legacy/1", "container": legacy.container().to_string(), "family": legacy.family().to_string(),
            "parameters": parameters, "vocabulary": legacy.vocabulary().len(), "tensors": tensors,
        });
        let mut out = console.bytes();
        ggmill_text::json::write_pretty(&mut out, &document)?;
        out.flush()?;
        return Ok(Status::Fine);
    }
    let mut out = console.text();
    writeln!(
        out,
        "{}\n  {} of {}, legacy format",
        shown(path),
        legacy.container(),
        legacy.family()
    )?;
    for (name, value) in legacy.parameters() {
        writeln!(out, "  {name:<14} {value}")?;
    }
    if legacy.vocabulary().len() > 0 {
        let some: Vec<String> = legacy
            .vocabulary()
            .skip(259)
            .take(5)
            .map(|(token, _)| format!("{:?}", RawStr::new(token)))
            .collect();
        let some =
            if some.is_empty() { String::new() } else { format!(": … {} …", some.join(" ")) };
        let tokens = counted(legacy.vocabulary().len(), "token");
        writeln!(out, "  {:<14} {tokens}{some}", "vocabulary")?;
    }
    writeln!(out, "\nTensors · {}", legacy.tensors().len())?;
    let width = legacy
        .tensors()
        .iter()
        .map(|tensor| tensor.name().to_string().chars().count())
        .max()
        .unwrap_or(0);
    for (tensor, (offset, size), note) in tensors() {
        let note = note.map(|note| format!("  ({note})")).unwrap_or_default();
        writeln!(
            out,
            "  {:<width$}  {:<14} {:<5} {size:>12} bytes at {offset:#x}{note}",
            tensor.name().to_string(),
            tensor.shape.to_string(),
            tensor.ggml_type
        )?;
    }
    out.flush()?;
    Ok(Status::Fine)
}

/// Prints the tokens whose text in the file, or whose decoded text, matches a pattern.
fn print_tokens(
    file: &Path,
    glob: &Glob,
    as_json: bool,
    console: Console,
) -> Result<Status, Failure> {
    let tokenizer = open_tokenizer(file, None, console)?;
    let vocabulary = tokenizer.vocabulary();
    if vocabulary.kind() == Kind::None {
        console.warn(format_args!(
            "{}: according to tokenizer.ggml.model there is no tokenizer, so the tokens have no \
             text",
            shown(file)
        ));
        return Ok(Status::Findings);
    }
    let matches_all = glob.as_str() == "*";
    let ids = (0..vocabulary.len()).filter(|&id| {
        let matches =
            |text: Option<&[u8]>| text.is_some_and(|text| glob.matches(RawStr::new(text)));
        matches_all || matches(vocabulary.text(id)) || matches(tokenizer.piece(id))
    });
    let mut count = 0u32;
    if as_json {
        let mut out = console.bytes();
        out.write_all(b"[")?;
        for id in ids {
            write!(out, "{}\n  ", if count > 0 { "," } else { "" })?;
            count += 1;
            let token = json!({
                "id": id,
                "text": LosslessStr(RawStr::new(vocabulary.text(id).unwrap_or_default())),
                "type": attribute_names(&tokenizer, id),
                "score": vocabulary.score(id),
                "bytes_hex": hex(tokenizer.piece(id).unwrap_or_default()),
            });
            safe_json::write(&mut out, &token)?;
        }
        out.write_all(b"\n]\n")?;
        out.flush()?;
    } else {
        let mut out = console.text();
        for id in ids {
            count += 1;
            let text = RawStr::new(vocabulary.text(id).unwrap_or_default());
            let bytes = RawStr::new(tokenizer.piece(id).unwrap_or_default());
            let attributes = attribute_names(&tokenizer, id).join(" ");
            let score = vocabulary.score(id);
            let text = format!("{text:?}");
            writeln!(out, "{id:>7}  {attributes:<14} {score:>10}  {text:<24} {bytes:?}")?;
        }
        out.flush()?;
    }
    if count == 0 {
        console.warn(format_args!("no token matches {:?}", RawStr::from(glob.as_str())));
        return Ok(Status::Findings);
    }
    Ok(Status::Fine)
}

/// Returns the names of the attributes of a token.
fn attribute_names(tokenizer: &Tokenizer, id: u32) -> Vec<&'static str> {
    let attributes = tokenizer.vocabulary().attributes(id);
    let mut names = Vec::new();
    for (attribute, name) in [
        (Attributes::NORMAL, "normal"),
        (Attributes::UNKNOWN, "unknown"),
        (Attributes::CONTROL, "control"),
        (Attributes::USER_DEFINED, "user-defined"),
        (Attributes::UNUSED, "unused"),
        (Attributes::BYTE, "byte"),
    ] {
        if attributes.contains(attribute) {
            names.push(name);
        }
    }
    names
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}
