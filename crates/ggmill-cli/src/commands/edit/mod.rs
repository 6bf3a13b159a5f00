//! `ggmill edit`: changes the metadata of a file, in place where that is safe; and `ggmill
//! set-metadata`, the command line of gguf-py's `gguf_set_metadata.py`.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use ggmill::{EditSummary, FileEdit, Hint, PlannedEdit};
use ggmill_core::RawStr;
use ggmill_edit::Edit;
use ggmill_io::Recovery;
use serde_json::json;

use self::options::EditOptions;
use self::report::Report;
use crate::console::Console;
use crate::files::{refuse_input, refuse_stream, shown};
use crate::outcome::{Failure, Status};
use crate::progress::{Bars, with_bars};
use crate::remote;

mod options;
mod report;

/// Change the metadata of a GGUF file, in place where that is safe
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  ggmill edit model.gguf --set general.name='My model' --unset 'general.base_*'
  ggmill edit model.gguf --chat-template template.jinja
  ggmill edit model.gguf --special-token eos='<|im_end|>'
  ggmill edit in.gguf --set tokenizer.ggml.scores:[f32]=@scores.txt -o out.gguf
  ggmill edit --in-place models/*.gguf --set general.license=mit

The type of VALUE is the current type of the key, else the type defined by the specification or \
the architecture, else inferred from VALUE; KEY:TYPE=VALUE sets it explicitly (u8 to i64, f32, \
f64, bool, string, [string], …). Arrays are given as JSON, or as @FILE with one element per \
line; for a string, @FILE is the whole file. @- reads standard input, and so does - where an \
option takes a FILE. To give a value that begins with @, double the @: @@name sets @name. \
general.file_type takes names such as Q4_K_M. Edits are made in the order given.

A file is edited in place if its header has enough free space, or if the file system can insert \
space into a file; a journal next to it protects against a crash during the edit. Otherwise the \
file is copied and replaced. --dry-run shows which. The first edit that does not fit reserves \
space for later edits, in a key that readers ignore (ggmill.padding).

An edit is refused, and nothing is written, if it sets a new key that looks like a misspelled \
known key (llama.context_lenght), if a chat template does not parse, or if `ggmill check` would \
report an error that the file did not have before the edit. --force makes the edit anyway. Other \
findings about the changed keys are printed. --no-check skips these checks, except that of chat \
templates.

Use --in-place to edit several files. Each edit is atomic; the exit code is 2 if any of them \
fails.")]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag")]
pub(crate) struct Args {
    /// The files to edit; for a split model the first shard, which has the metadata
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    #[command(flatten)]
    edits: EditOptions,
    /// Write the computation graph of the model into the file, so that a program can run it without
    /// knowing its architecture
    #[arg(long)]
    add_graph: bool,
    /// A file or directory with descriptions of architectures, for --add-graph
    #[arg(long, value_name = "PATH", requires = "add_graph")]
    arch_file: Vec<PathBuf>,
    /// Write the edited file here, and leave FILE unchanged
    #[arg(short, long, value_name = "OUT")]
    output: Option<PathBuf>,
    /// Edit several files in place; a single file is edited in place without this option
    #[arg(short, long, conflicts_with = "output")]
    in_place: bool,
    /// Replace OUT if it exists; make an edit that would be refused (see below)
    #[arg(long)]
    force: bool,
    /// Do not reserve space for later edits, and remove ggmill.padding if present, which may require
    /// rewriting the file
    #[arg(long)]
    no_padding: bool,
    /// Skip the checks of changed keys
    #[arg(long)]
    no_check: bool,
    /// Finish or undo an interrupted edit, and do nothing else
    #[arg(long, conflicts_with_all = ["output", "dry_run"])]
    recover: bool,
    /// Print what would be changed and how many bytes would be written, and write nothing
    #[arg(long)]
    dry_run: bool,
    /// Write the result as JSON
    #[arg(long)]
    json: bool,
    /// If true, the arguments are those of `set-metadata`, where `--force` is accepted even if it has
    /// no effect.
    #[arg(skip)]
    is_set_metadata: bool,
}

impl Args {
    /// Returns the arguments of `ggmill set-metadata`, which sets one key of one file.
    fn set_one(file: PathBuf, key: &str, value: &str, dry_run: bool, force: bool) -> Self {
        Self {
            files: vec![file],
            edits: EditOptions::one(key, value),
            add_graph: false,
            arch_file: Vec::new(),
            output: None,
            in_place: false,
            force,
            no_padding: false,
            no_check: false,
            recover: false,
            dry_run,
            json: false,
            is_set_metadata: true,
        }
    }
}

pub(crate) fn run(args: &Args, console: Console) -> Result<Status, Failure> {
    if args.recover {
        return each(args, console, |file| {
            recover(file, console).map(|()| serde_json::Value::Null)
        });
    }
    args.files.iter().try_for_each(|file| refuse_input(file))?;
    let edits = args.edits.edits()?;
    if let Some(file) = args.files.iter().find(|file| remote::is_remote(file)) {
        let message = format!("{}: remote files can be read, but not edited", shown(file));
        let hint = "download the file, and edit the copy".to_owned();
        return Err(Failure::new(message).with_hint(Some(hint)));
    }
    if edits.is_empty() && !args.no_padding && !args.add_graph {
        // The arguments of gguf-set-metadata.
        let hint = match &*args.files {
            [file, key, _] if !key.exists() => {
                format!("`ggmill edit {} --set {}=VALUE` sets a key", shown(file), shown(key))
            }
            _ => {
                "--set, --unset, --rename and other options specify changes; --help lists them all"
                    .to_owned()
            }
        };
        return Err(Failure::new("no edits").with_hint(Some(hint)));
    }
    let Some(output) = &args.output else {
        if let Some(absent) = args.files.iter().find(|file| args.files.len() > 1 && !file.exists())
        {
            let hint = "-o OUT writes an edited copy".to_owned();
            let message = format!("{}: no such file; no file was edited", shown(absent));
            return Err(Failure::new(message).with_hint(Some(hint)));
        }
        require_in_place(args)?;
        check_force(args, &edits)?;
        return each(args, console, |file| in_place(args, file, &edits, console));
    };
    let [file] = &*args.files else {
        return Err(Failure::new("-o writes the edited copy of only one file")
            .with_hint(Some("--in-place edits several files".to_owned())));
    };
    let report = copy(args, file, output, &edits, console)?;
    print(args, &report, console)
}

/// Fails for several files without `--in-place`: other tools take IN and OUT, so the last file may be
/// meant as the output.
fn require_in_place(args: &Args) -> Result<(), Failure> {
    let copy = match &*args.files {
        [_] => return Ok(()),
        _ if args.in_place => return Ok(()),
        [file, output] => {
            format!("-o {} writes an edited copy of {}; ", shown(output), shown(file))
        }
        _ => String::new(),
    };
    let message = format!("{} files were given; no file was edited", args.files.len());
    Err(Failure::new(message).with_hint(Some(format!("{copy}--in-place edits each of them"))))
}

/// Edits each file, continues after a failure, and prints the JSON reports.
fn each(
    args: &Args,
    console: Console,
    mut edit: impl FnMut(&Path) -> Result<serde_json::Value, Failure>,
) -> Result<Status, Failure> {
    if let [file] = &*args.files {
        return print(args, &edit(file)?, console);
    }
    let (mut reports, mut failed) = (Vec::new(), 0usize);
    for file in &args.files {
        match edit(file) {
            Ok(report) => reports.push(report),
            Err(Failure::Closed) => return Err(Failure::Closed),
            Err(failure) => {
                if let Failure::Refused { message, .. } = &failure {
                    let file = file.to_string_lossy();
                    reports.push(json!({ "file": file, "error": message }));
                }
                console.error(&failure);
                failed += 1;
            }
        }
    }
    print(args, &json!({ "schema": "ggmill.edits/1", "files": reports }), console)?;
    if failed == 0 {
        return Ok(Status::Fine);
    }
    Err(Failure::new(format_args!("{failed} of {} files failed", args.files.len())))
}

fn print(args: &Args, report: &serde_json::Value, console: Console) -> Result<Status, Failure> {
    if args.json && !report.is_null() {
        let mut out = console.bytes();
        ggmill_text::json::write_pretty(&mut out, report)?;
        out.flush()?;
    }
    Ok(Status::Fine)
}

/// Returns `true` if an edit sets a chat template.
fn sets_template(edit: &Edit) -> bool {
    matches!(edit, Edit::Set { key, .. }
        if key.starts_with(ggmill_core::keys::TOKENIZER_CHAT_TEMPLATE))
}

fn recover(file: &Path, console: Console) -> Result<(), Failure> {
    let found = ggmill::recover(file).map_err(refused)?;
    let mut out = console.text();
    let outcome = match found {
        Recovery::Nothing => "no edit was interrupted",
        Recovery::Finished => "the interrupted edit was completed",
        Recovery::Undone => "the interrupted edit had changed nothing and was discarded",
    };
    writeln!(out, "{}: {outcome}", shown(file))?;
    Ok(out.flush()?)
}

/// Returns the edit of a file with the options of the arguments.
fn builder<'a>(args: &Args, file: &Path, edits: &[Edit]) -> Result<FileEdit<'a>, Failure> {
    let mut builder = ggmill::edit(file)?
        .edits(edits.iter().cloned())
        .no_padding(args.no_padding)
        .check(!args.no_check)
        .force(args.force)
        .overwrite(args.force);
    if args.add_graph {
        builder = builder.add_graph(&args.arch_file);
    }
    Ok(builder)
}

/// Edits the file itself, and returns the report as JSON.
fn in_place(
    args: &Args,
    file: &Path,
    edits: &[Edit],
    console: Console,
) -> Result<serde_json::Value, Failure> {
    if args.dry_run {
        ggmill::refuse_interrupted(&[file])?;
    }
    let bars = Bars::new(console);
    let builder = builder(args, file, edits)?;
    let planned = with_bars!(builder, bars).plan().map_err(refused)?;
    check_plan(args, edits, &planned)?;
    finish(args, planned, &bars, console)
}

/// Writes an edited copy, and returns the report as JSON.
fn copy(
    args: &Args,
    file: &Path,
    output: &Path,
    edits: &[Edit],
    console: Console,
) -> Result<serde_json::Value, Failure> {
    ggmill::refuse_interrupted(&[file])?;
    refuse_stream(output)?;
    let bars = Bars::new(console);
    let builder = builder(args, file, edits)?.inputs(args.edits.files());
    let planned = with_bars!(builder, bars).plan_copy(output).map_err(refused)?;
    check_plan(args, edits, &planned)?;
    finish(args, planned, &bars, console)
}

/// Makes a planned edit unless it is a dry run, and prints the report, which is returned as JSON.
fn finish(
    args: &Args,
    planned: PlannedEdit<'_>,
    bars: &Bars,
    console: Console,
) -> Result<serde_json::Value, Failure> {
    if args.dry_run {
        let report = Report(&planned).print(args.json, console)?;
        planned.check_outputs()?;
        return Ok(report);
    }
    let summary = planned.apply().map_err(refused)?;
    bars.clear();
    Report(&summary).print(args.json, console)
}

/// Returns `true` if `--force` has an effect on a planned edit.
fn force_has_effect(args: &Args, edits: &[Edit], planned: &EditSummary) -> bool {
    args.output.is_some()
        || planned.has_misspelled_keys()
        || !planned.findings().new_errors.is_empty()
        || edits.iter().any(sets_template)
        || args.is_set_metadata
        || args.no_check
}

/// Fails for `--force` if it has an effect on none of several files, before any of them is edited.
fn check_force(args: &Args, edits: &[Edit]) -> Result<(), Failure> {
    if !args.force || args.files.len() < 2 {
        return Ok(());
    }
    let mut has_plan = false;
    for file in &args.files {
        // Planning an interrupted edit would finish it. Errors are reported when the file is edited.
        if ggmill::refuse_interrupted(&[file]).is_err() {
            continue;
        }
        let Ok(planned) = builder(args, file, edits)?.plan() else { continue };
        if force_has_effect(args, edits, &planned) {
            return Ok(());
        }
        has_plan = true;
    }
    if has_plan { Err(useless_force()) } else { Ok(()) }
}

fn useless_force() -> Failure {
    Failure::new(
        "--force applies only to --output, keys that look misspelled, chat templates, and edits \
         that cause errors",
    )
}

/// Fails for `--force` without an effect, which [`check_force`] refuses for several files, and for a
/// new key in `set-metadata`.
fn check_plan(args: &Args, edits: &[Edit], planned: &EditSummary) -> Result<(), Failure> {
    if args.force && args.files.len() == 1 && !force_has_effect(args, edits, planned) {
        return Err(useless_force());
    }
    if args.is_set_metadata
        && !args.force
        && let Some(key) = planned.new_keys().next()
    {
        // gguf-set-metadata rejects new keys, too: a new key is often a misspelled one.
        let file = shown(planned.path());
        let hint = format!("`ggmill edit {file} --set {key}=VALUE` adds a key");
        let message = format_args!("{file}: there is no key {key:?}");
        return Err(Failure::new(message).with_hint(Some(hint)));
    }
    Ok(())
}

/// Converts an error of an edit. Its hint names options of this command.
fn refused(error: ggmill::Error) -> Failure {
    let path = error.path().map(|path| shown(path).to_string()).unwrap_or_default();
    let (message, hint) = (error.to_string(), error.hint().cloned());
    let hint = match hint {
        Some(Hint::GraphLast) => {
            let message = "--add-graph stores the graph of the metadata in the file, so it cannot \
                           be combined with other edits";
            let hint = "add the graph after the other edits".to_owned();
            return Failure::new(message).with_hint(Some(hint));
        }
        Some(Hint::Pattern(meant)) => format!("did you mean {:?}?", RawStr::from(&*meant)),
        Some(Hint::Recover) => format!("`ggmill edit --recover {path}` finishes or undoes it"),
        Some(Hint::RecoverLater) => format!(
            "once the cause is resolved, `ggmill edit --recover {path}` completes or undoes the edit"
        ),
        _ => return Failure::from(error),
    };
    Failure::new(message).with_hint(Some(hint))
}

/// Set one key, as `ggmill edit FILE --set KEY=VALUE`
#[derive(Debug, clap::Args)]
pub(crate) struct SetMetadataArgs {
    /// The file
    file: PathBuf,
    /// The key
    key: String,
    /// The value
    #[arg(allow_hyphen_values = true)]
    value: String,
    /// Print what would happen, and write nothing
    #[arg(long)]
    dry_run: bool,
    /// Make an edit that would be refused
    #[arg(long, hide = true)]
    force: bool,
}

pub(crate) fn run_set_metadata(args: SetMetadataArgs, console: Console) -> Result<Status, Failure> {
    let SetMetadataArgs { file, key, value, dry_run, force } = args;
    run(&Args::set_one(file, &key, &value, dry_run, force), console)
}
