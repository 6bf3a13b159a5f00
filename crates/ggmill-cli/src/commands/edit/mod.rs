//! `ggmill edit`: change what a file says, in place where that is safe.

mod graph;
mod options;
mod report;

use std::io::Write as _;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use ggmill_core::{MetadataBuf, Model, RawStr, ShardName, Split};
use ggmill_edit::{
    Edit, EditError, EditFindings, EditMethod, EditPlan, Edited, Editor, FILLER_KEY, KeyChange,
    broken_templates, edit_findings, meant_pattern, misspelled_keys,
};
use ggmill_io::{InPlace, Recovery};
use serde_json::json;

use self::options::Typed;
use self::report::Report;
use crate::console::Console;
use crate::outcome::{Failure, Status};
use crate::outputs::{Output, refuse_inputs, refuse_interrupted, start};
use crate::paths::shown;
use crate::progress::Bar;
use crate::remote;
use crate::source::refuse_input;

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
    edits: Typed,
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
    /// Whether the options are spelt as another tool has them, which takes some without effect.
    #[arg(skip)]
    is_of_other_tool: bool,
}

impl Args {
    /// As if one key of one file were to be set.
    pub(crate) fn set_one(
        file: PathBuf,
        key: &str,
        value: &str,
        dry_run: bool,
        force: bool,
    ) -> Self {
        Self {
            files: vec![file],
            edits: Typed::one(key, value),
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
            is_of_other_tool: true,
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
        // As gguf-set-metadata is called.
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
        refuse_unasked(args)?;
        return each(args, console, |file| in_place(args, file, &edits, console));
    };
    let [file] = &*args.files else {
        return Err(Failure::new("-o writes the edited copy of only one file")
            .with_hint(Some("--in-place edits several files".to_owned())));
    };
    let told = copy(args, file, output, &edits, console)?;
    print(args, &told, console)
}

/// Refuses to edit several files in place unless that was asked for: the last of them is an output
/// to those who come from programs that take IN and OUT.
fn refuse_unasked(args: &Args) -> Result<(), Failure> {
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

/// Goes through the files, and through with them when one fails.
fn each(
    args: &Args,
    console: Console,
    mut edit: impl FnMut(&Path) -> Result<serde_json::Value, Failure>,
) -> Result<Status, Failure> {
    if let [file] = &*args.files {
        return print(args, &edit(file)?, console);
    }
    let (mut told, mut failed) = (Vec::new(), 0usize);
    for file in &args.files {
        match edit(file) {
            Ok(one) => told.push(one),
            Err(Failure::Closed) => return Err(Failure::Closed),
            Err(failure) => {
                if let Failure::Refused { message, .. } = &failure {
                    let file = file.to_string_lossy();
                    told.push(json!({ "file": file, "error": message }));
                }
                console.error(&failure);
                failed += 1;
            }
        }
    }
    print(args, &json!({ "schema": "ggmill.edits/1", "files": told }), console)?;
    if failed == 0 {
        return Ok(Status::Fine);
    }
    Err(Failure::new(format_args!("{failed} of {} files failed", args.files.len())))
}

fn print(args: &Args, told: &serde_json::Value, console: Console) -> Result<Status, Failure> {
    if args.json && !told.is_null() {
        let mut out = console.bytes();
        ggmill_text::json::write_pretty(&mut out, told)?;
        out.flush()?;
    }
    Ok(Status::Fine)
}

/// Whether an edit sets a chat template.
fn is_of_template(edit: &Edit) -> bool {
    matches!(edit, Edit::Set { key, .. }
        if key.starts_with(ggmill_core::keys::TOKENIZER_CHAT_TEMPLATE))
}

fn recover(file: &Path, console: Console) -> Result<(), Failure> {
    let found = InPlace::recover(file).map_err(|error| refused_by_io(&error))?;
    let mut out = console.text();
    writeln!(out, "{}: {}", shown(file), recovered(found))?;
    Ok(out.flush()?)
}

fn recovered(found: Recovery) -> &'static str {
    match found {
        Recovery::Nothing => "no edit was interrupted",
        Recovery::Finished => "the interrupted edit was completed",
        Recovery::Undone => "the interrupted edit had changed nothing and was discarded",
    }
}

/// An edit that is laid out, with what it leads to.
struct Prepared {
    edited: Edited,
    plan: EditPlan,
    new_len: u64,
    before: MetadataBuf,
    findings: EditFindings,
}

/// Everything that comes before the first byte is written.
fn prepare(
    args: &Args,
    editor: &Editor,
    edits: &[Edit],
    console: Console,
) -> Result<Prepared, Failure> {
    tell_of_shards(editor.model(), editor.path(), console)?;
    let mut edits = edits.to_vec();
    if args.add_graph {
        if !edits.is_empty() {
            return Err(Failure::new(
                "--add-graph stores the graph of the metadata in the file, so it cannot be \
                 combined with other edits",
            )
            .with_hint(Some("add the graph after the other edits".to_owned())));
        }
        edits.extend(graph::edits(editor.path(), &args.arch_file)?);
    }
    let edits = &*edits;
    let mut edited = editor.edit(edits).map_err(|error| {
        let hint = match error.cause().and_then(|cause| cause.downcast_ref::<EditError>()) {
            Some(EditError::NoMatch(pattern)) => near(editor.model(), pattern),
            _ => None,
        };
        refused(error).with_hint(hint)
    })?;
    if args.no_padding {
        edited = edited.without_padding();
    }
    let plan = editor.plan(&edited).map_err(refused)?;
    let new_len = editor.planned_len(&plan).map_err(refused)?;
    let before = MetadataBuf::copy_of(&editor.model().metadata()).map_err(Failure::new)?;
    if let Some((key, fault)) = broken_templates(&edited).first().filter(|_| !args.force) {
        return Err(Failure::new(format_args!("{key}: does not parse: {fault}"))
            .with_hint(Some("--force sets it anyway".to_owned())));
    }
    let findings = if args.no_check {
        EditFindings::default()
    } else {
        edit_findings(editor, &edited, &plan).map_err(refused)?
    };
    let misspelled = misspelled_keys(&edited);
    let has_effect = args.output.is_some()
        || !misspelled.is_empty()
        || !findings.new_errors.is_empty()
        || edits.iter().any(is_of_template)
        || args.is_of_other_tool
        || args.no_check;
    if args.force && !has_effect {
        let what = "--force applies only to --output, keys that look misspelled, chat templates, \
                    and edits that cause errors";
        return Err(Failure::new(what));
    }
    if let Some(why) = findings.refusal().filter(|_| !args.force) {
        return Err(Failure::new(format_args!("{}: {why}", shown(editor.path())))
            .with_hint(Some("--force makes the edit anyway".to_owned())));
    }
    let is_new = |change: &&KeyChange| before.get(&change.key).is_none();
    if let Some(change) =
        edited.changes().iter().find(is_new).filter(|_| args.is_of_other_tool && !args.force)
    {
        // gguf-set-metadata refuses it, too, and a new key is often a misspelled one.
        let (file, key) = (shown(editor.path()), RawStr::new(&change.key));
        let hint = format!("`ggmill edit {file} --set {key}=VALUE` adds a key");
        return Err(
            Failure::new(format_args!("{file}: there is no key {key:?}")).with_hint(Some(hint))
        );
    }
    Ok(Prepared { edited, plan, new_len, before, findings })
}

/// The pattern that was meant by one that no key matches.
fn near(model: &Model, pattern: &str) -> Option<String> {
    let typed = pattern.parse().ok()?;
    let meant = meant_pattern(&typed, || model.metadata().iter().map(|entry| entry.key()))?;
    Some(format!("did you mean {:?}?", RawStr::from(&*meant)))
}

/// Edits the file itself.
fn in_place(
    args: &Args,
    file: &Path,
    edits: &[Edit],
    console: Console,
) -> Result<serde_json::Value, Failure> {
    if args.dry_run {
        refuse_interrupted(&[file])?;
    }
    let mut editor = Editor::open(file).map_err(refused)?;
    let Prepared { edited, plan, new_len, before, findings } =
        prepare(args, &editor, edits, console)?;
    let method = if args.dry_run {
        plan.method().clone()
    } else {
        let mut bar = Bar::new(console);
        editor
            .apply(plan.clone(), &edited, &mut |progress| {
                bar.update(progress.written, progress.total, progress.tensor);
                ControlFlow::Continue(())
            })
            .map_err(refused)?
    };
    let is_copied = matches!(method, EditMethod::Copy(_) | EditMethod::Rewrite(_));
    if args.dry_run && is_copied {
        // What the copy would be refused for, but want of space: the report says how much it takes.
        drop(start(file, &[], true, 0)?);
    }
    let told = Report {
        file,
        output: file,
        done: !args.dry_run,
        method: &method,
        plan: &plan,
        new_len,
        before: &before,
        edited: &edited,
        findings: &findings,
    }
    .tell(args.json, console)?;
    if args.dry_run && is_copied {
        drop(start(file, &[], true, new_len)?);
    }
    Ok(told)
}

/// Writes an edited copy.
fn copy(
    args: &Args,
    file: &PathBuf,
    output: &Path,
    edits: &[Edit],
    console: Console,
) -> Result<serde_json::Value, Failure> {
    refuse_interrupted(&[file])?;
    let hint = || Some("without -o, the file itself is edited".to_owned());
    refuse_inputs(output, std::slice::from_ref(file))
        .map_err(|failure| failure.with_hint(hint()))?;
    let inputs: Vec<PathBuf> = std::iter::once(file.clone()).chain(args.edits.files()).collect();
    let output = Output::new(output, &inputs, args.force, args.dry_run)?;
    let editor = Editor::open_source(file).map_err(refused)?;
    let Prepared { edited, plan, new_len, before, findings } =
        prepare(args, &editor, edits, console)?;
    if !args.dry_run {
        let sink = output.start(&inputs, new_len)?;
        let mut bar = Bar::new(console);
        let sink = editor.write(&plan, sink, &mut |progress| {
            bar.update(progress.written, progress.total, progress.tensor);
            ControlFlow::Continue(())
        });
        sink.map_err(refused)?.commit().map_err(|error| refused_by_io(&error))?;
    }
    let told = Report {
        file,
        output: output.path(),
        done: !args.dry_run,
        method: plan.method(),
        plan: &plan,
        new_len,
        before: &before,
        edited: &edited,
        findings: &findings,
    }
    .tell(args.json, console)?;
    if args.dry_run {
        output.end_dry_run(&inputs, new_len)?;
    }
    Ok(told)
}

/// The metadata of a set are those of its first shard.
fn tell_of_shards(model: &Model, path: &Path, console: Console) -> Result<(), Failure> {
    let Some(split) = Split::of(&model.metadata()).ok().flatten().filter(Split::is_part) else {
        return Ok(());
    };
    if split.number == 0 {
        console.note(format_args!(
            "this is the first of {} shards, from which readers take the metadata",
            split.count
        ));
        return Ok(());
    }
    let name = path.file_name().and_then(|name| name.to_str());
    // Under another name it belongs to no set, whatever it says.
    let Some(name) = name.and_then(ShardName::parse) else { return Ok(()) };
    let hint = format!("{} has the model's metadata", RawStr::from(name.sibling(1).as_str()));
    Err(Failure::new(format_args!(
        "{}: is shard {} of {}, expected the first",
        shown(path),
        split.number.saturating_add(1),
        split.count
    ))
    .with_hint(Some(hint)))
}

fn refused(error: ggmill_pipeline::Error) -> Failure {
    if let Some(source) = error.cause().and_then(|cause| cause.downcast_ref::<ggmill_io::Error>()) {
        return refused_by_io(source);
    }
    let hint = match error.cause().and_then(|cause| cause.downcast_ref::<EditError>()) {
        Some(EditError::Filler) => Some(format!("--unset {FILLER_KEY} removes it")),
        Some(EditError::NoSuchToken { key, .. } | EditError::AmbiguousToken { key, .. }) => {
            Some(format!("--set {key}=ID sets the token by its number"))
        }
        _ => None,
    };
    Failure::new(error).with_hint(hint)
}

fn refused_by_io(error: &ggmill_io::Error) -> Failure {
    let path = error.path();
    let is_link = || std::fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_symlink());
    let hint = match error.kind() {
        ggmill_io::ErrorKind::NotEditable if is_link() => Some(
            "edit the file that the link points to, if nothing else relies on it; -o writes a copy"
                .to_owned(),
        ),
        ggmill_io::ErrorKind::NotEditable => Some("-o writes an edited copy".to_owned()),
        ggmill_io::ErrorKind::Journal if error.io_error().is_some() => Some(format!(
            "once the cause is resolved, `ggmill edit --recover {}` completes or undoes the edit",
            shown(path)
        )),
        ggmill_io::ErrorKind::Journal if error.is_pending() => {
            Some(format!("`ggmill edit --recover {}` finishes or undoes it", shown(path)))
        }
        ggmill_io::ErrorKind::Journal => {
            Some("if the file is intact, delete the journal".to_owned())
        }
        _ => None,
    };
    Failure::new(error).with_hint(hint)
}
