//! `ggmill edit`: change what a file says, in place where that is safe.

use std::io::{self, Write};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use clap::{Arg, ArgAction, ArgMatches, FromArgMatches};
use ggmill_core::{MetadataBuf, Model, RawStr, ShardName, Split, Value};
use ggmill_edit::{
    Edit, EditError, EditMethod, EditPlan, EditValue, Edited, Editor, FILLER_KEY, KeyChange,
};
use ggmill_io::{InPlace, Recovery};
use serde_json::json;

use crate::console::Console;
use crate::edit_file::{MAX_INPUT, set_from};
use crate::outcome::{Failure, Status};
use crate::outputs::{refuse_inputs, refuse_interrupted, start, tell_of_existing};
use crate::paths::shown;
use crate::progress::Bar;
use crate::text_file::read_text;

/// Characters of a value shown.
const SHOWN: usize = 60;

/// Change the metadata of a GGUF file, in place where that is safe
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  ggmill edit model.gguf --set general.name='My model' --unset 'general.base_model.*'
  ggmill edit model.gguf --chat-template template.jinja --special-token eos='<|im_end|>'
  ggmill edit model.gguf --set tokenizer.ggml.scores:[f32]=@scores.txt -o scored.gguf

VALUE has the type the key has now, else the one the specification or the architecture
gives it, else the one it looks like; KEY:TYPE=VALUE says it (u8 to i64, f32, f64, bool,
string, [string], …). Arrays are JSON, or @FILE with an element a line; @FILE for a string
is the whole file, and @@ a plain @. Edits happen in the order given.

A file is edited where it lies when its header has room, or the file system can make some;
a journal beside it keeps it whole should the machine stop halfway. Otherwise it is copied
and replaced. --dry-run says which.")]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag")]
pub(crate) struct Args {
    /// The file; of a set of shards the first
    file: PathBuf,
    #[command(flatten)]
    edits: Typed,
    /// Write the edited file here, and leave FILE as it is
    #[arg(short, long, value_name = "OUT")]
    output: Option<PathBuf>,
    /// Replace OUT if it exists
    #[arg(long, requires = "output")]
    force: bool,
    /// Finish or undo an edit that was interrupted, and do nothing else
    #[arg(long, conflicts_with_all = ["output", "dry_run"])]
    recover: bool,
    /// Print what would happen and what it would cost, and write nothing
    #[arg(long)]
    dry_run: bool,
    /// Write the result as JSON
    #[arg(long)]
    json: bool,
}

/// Edits as they are typed, in their order across options.
#[derive(Debug, Default)]
struct Typed(Vec<(&'static EditOption, String)>);

/// An option that makes edits.
#[derive(Debug)]
struct EditOption {
    name: &'static str,
    value_name: &'static str,
    help: &'static str,
    edits: fn(&str) -> Result<Vec<Edit>, Failure>,
}

static OPTIONS: [EditOption; 7] = [
    EditOption {
        name: "set",
        value_name: "KEY[:TYPE]=VALUE",
        help: "Set a key (repeatable, as all of these)",
        edits: set,
    },
    EditOption {
        name: "unset",
        value_name: "GLOB",
        help: "Remove the keys that fit",
        edits: unset,
    },
    EditOption {
        name: "rename",
        value_name: "OLD=NEW",
        help: "Give a key another name",
        edits: rename,
    },
    EditOption {
        name: "chat-template",
        value_name: "FILE",
        help: "Set the chat template to the content of a file",
        edits: chat_template,
    },
    EditOption {
        name: "special-token",
        value_name: "ROLE=TEXT",
        help: "Make the token with this text the bos, eos, eot, pad, …",
        edits: special_token,
    },
    EditOption {
        name: "set-from",
        value_name: "FILE",
        help: "Set every key of a JSON or TOML file",
        edits: |file| set_from(Path::new(file)),
    },
    EditOption {
        name: "tokens-from",
        value_name: "FILE",
        help: "Replace the vocabulary: a JSON array, or a token a line",
        edits: tokens_from,
    },
];

impl clap::Args for Typed {
    fn augment_args(command: clap::Command) -> clap::Command {
        OPTIONS.iter().fold(command, |command, option| {
            command.arg(
                Arg::new(option.name)
                    .long(option.name)
                    .value_name(option.value_name)
                    .help(option.help)
                    .action(ArgAction::Append),
            )
        })
    }

    fn augment_args_for_update(command: clap::Command) -> clap::Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for Typed {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut found = Vec::new();
        for option in &OPTIONS {
            let values = matches.get_many::<String>(option.name).into_iter().flatten();
            found.extend(
                matches
                    .indices_of(option.name)
                    .into_iter()
                    .flatten()
                    .zip(values)
                    .map(|(place, value)| (place, option, value.clone())),
            );
        }
        found.sort_by_key(|(place, ..)| *place);
        Ok(Self(found.into_iter().map(|(_, option, value)| (option, value)).collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Typed {
    /// The files that values come from.
    fn files(&self) -> impl Iterator<Item = PathBuf> {
        self.0.iter().filter_map(|(option, value)| match option.value_name {
            "FILE" => Some(PathBuf::from(value)),
            _ => value.split_once("=@").map(|(_, file)| PathBuf::from(file)),
        })
    }

    fn edits(&self) -> Result<Vec<Edit>, Failure> {
        let mut edits = Vec::new();
        for (option, value) in &self.0 {
            edits.append(&mut (option.edits)(value)?);
        }
        Ok(edits)
    }
}

fn misuse(option: &str, value: &str, why: impl std::fmt::Display) -> Failure {
    Failure::new(format_args!("--{option} {}: {why}", RawStr::from(value)))
}

fn set(text: &str) -> Result<Vec<Edit>, Failure> {
    let mut edit = Edit::parse_set(text).map_err(|why| misuse("set", text, why))?;
    if let Edit::Set { value, .. } = &mut edit
        && let EditValue::Text(text) = &value
        && let Some(rest) = text.strip_prefix('@')
    {
        *value = if rest.starts_with('@') {
            EditValue::Text(rest.to_owned())
        } else {
            EditValue::Content(read_text(Path::new(rest), MAX_INPUT)?)
        };
    }
    Ok(vec![edit])
}

fn unset(glob: &str) -> Result<Vec<Edit>, Failure> {
    Ok(vec![Edit::parse_unset(glob).map_err(Failure::new)?])
}

fn rename(text: &str) -> Result<Vec<Edit>, Failure> {
    let (from, to) =
        text.split_once('=').ok_or_else(|| misuse("rename", text, "expected OLD=NEW"))?;
    Ok(vec![Edit::Rename { from: from.to_owned(), to: to.to_owned() }])
}

fn chat_template(file: &str) -> Result<Vec<Edit>, Failure> {
    let key_type = "string".parse().ok();
    Ok(vec![Edit::Set {
        key: ggmill_core::keys::TOKENIZER_CHAT_TEMPLATE.to_owned(),
        key_type,
        value: EditValue::Content(read_text(Path::new(file), MAX_INPUT)?),
    }])
}

fn special_token(text: &str) -> Result<Vec<Edit>, Failure> {
    let (role, token) =
        text.split_once('=').ok_or_else(|| misuse("special-token", text, "expected ROLE=TEXT"))?;
    Ok(vec![Edit::SpecialToken { role: role.to_owned(), token: token.to_owned() }])
}

fn tokens_from(file: &str) -> Result<Vec<Edit>, Failure> {
    let text = read_text(Path::new(file), MAX_INPUT)?;
    Ok(vec![Edit::tokens_from(&text)])
}

pub(crate) fn run(args: &Args, console: Console) -> Result<Status, Failure> {
    if args.recover {
        return recover(&args.file, console);
    }
    let edits = args.edits.edits()?;
    if edits.is_empty() {
        return Err(Failure::new("no edits").with_hint(Some(
            "--set, --unset, --rename and others say what to change; --help has them all"
                .to_owned(),
        )));
    }
    match &args.output {
        Some(output) => copy(args, output, &edits, console),
        None => in_place(args, &edits, console),
    }
}

fn recover(file: &Path, console: Console) -> Result<Status, Failure> {
    let found = InPlace::recover(file).map_err(|error| refused_by_io(&error))?;
    let mut out = console.text();
    writeln!(out, "{}: {}", shown(file), recovered(found))?;
    out.flush()?;
    Ok(Status::Fine)
}

fn recovered(found: Recovery) -> &'static str {
    match found {
        Recovery::Nothing => "no edit was interrupted",
        Recovery::Finished => "the interrupted edit is finished",
        Recovery::Undone => "the interrupted edit had changed nothing, and is forgotten",
    }
}

/// Edits the file itself.
fn in_place(args: &Args, edits: &[Edit], console: Console) -> Result<Status, Failure> {
    if args.dry_run {
        refuse_interrupted(&[&args.file])?;
    }
    let mut editor = Editor::open(&args.file).map_err(refused)?;
    tell_of_shards(editor.model(), editor.path(), console)?;
    let edited = editor.edit(edits).map_err(refused)?;
    let plan = editor.plan(&edited).map_err(refused)?;
    let new_len = editor.planned_len(&plan).map_err(refused)?;
    let before = MetadataBuf::copy_of(&editor.model().metadata()).map_err(Failure::new)?;
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
    Report {
        file: &args.file,
        output: &args.file,
        done: !args.dry_run,
        method: &method,
        plan: &plan,
        new_len,
        before: &before,
        edited: &edited,
    }
    .write(args.json, console)
}

/// Writes an edited copy.
fn copy(args: &Args, output: &Path, edits: &[Edit], console: Console) -> Result<Status, Failure> {
    refuse_interrupted(&[&args.file])?;
    let hint = || Some("without -o the file itself is edited".to_owned());
    refuse_inputs(output, std::slice::from_ref(&args.file))
        .map_err(|failure| failure.with_hint(hint()))?;
    let inputs: Vec<PathBuf> =
        std::iter::once(args.file.clone()).chain(args.edits.files()).collect();
    refuse_inputs(output, &inputs)?;
    let editor = Editor::open_source(&args.file).map_err(refused)?;
    tell_of_shards(editor.model(), editor.path(), console)?;
    let edited = editor.edit(edits).map_err(refused)?;
    let plan = editor.plan(&edited).map_err(refused)?;
    let new_len = editor.planned_len(&plan).map_err(refused)?;
    let before = MetadataBuf::copy_of(&editor.model().metadata()).map_err(Failure::new)?;
    if !args.dry_run {
        let sink = start(output, &inputs, args.force, new_len)?;
        let mut bar = Bar::new(console);
        let sink = editor.write(&plan, sink, &mut |progress| {
            bar.update(progress.written, progress.total, progress.tensor);
            ControlFlow::Continue(())
        });
        sink.map_err(refused)?.commit().map_err(|error| refused_by_io(&error))?;
    }
    if args.dry_run {
        tell_of_existing(output, args.force, console);
    }
    Report {
        file: &args.file,
        output,
        done: !args.dry_run,
        method: plan.method(),
        plan: &plan,
        new_len,
        before: &before,
        edited: &edited,
    }
    .write(args.json, console)
}

/// The metadata of a set are those of its first shard.
fn tell_of_shards(model: &Model, path: &Path, console: Console) -> Result<(), Failure> {
    let Some(split) = Split::of(&model.metadata()).ok().flatten().filter(Split::is_part) else {
        return Ok(());
    };
    if split.number == 0 {
        console.note(format_args!(
            "this is the first of {} shards, and the one that readers take the metadata from",
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
        Some(EditError::Filler) => Some(format!("--unset {FILLER_KEY} takes it away")),
        Some(EditError::NoSuchToken { key, .. } | EditError::AmbiguousToken { key, .. }) => {
            Some(format!("--set {key}=ID takes a number"))
        }
        _ => None,
    };
    Failure::new(error).with_hint(hint)
}

fn refused_by_io(error: &ggmill_io::Error) -> Failure {
    let path = error.path();
    let is_link = || std::fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_symlink());
    let hint = match error.kind() {
        ggmill_io::ErrorKind::NotEditable if is_link() => {
            Some("edit that file, if nothing else relies on it; -o writes a copy".to_owned())
        }
        ggmill_io::ErrorKind::NotEditable => Some("-o writes an edited copy".to_owned()),
        ggmill_io::ErrorKind::Journal if error.io_error().is_some() => {
            Some(format!("`ggmill edit --recover {}` goes on once the cause is gone", shown(path)))
        }
        ggmill_io::ErrorKind::Journal if error.is_pending() => {
            Some(format!("`ggmill edit --recover {}` finishes or undoes it", shown(path)))
        }
        ggmill_io::ErrorKind::Journal => {
            Some("when the file is as it should be, delete the journal".to_owned())
        }
        _ => None,
    };
    Failure::new(error).with_hint(hint)
}

/// What was done, or would be.
struct Report<'a> {
    file: &'a Path,
    output: &'a Path,
    done: bool,
    method: &'a EditMethod,
    plan: &'a EditPlan,
    new_len: u64,
    before: &'a MetadataBuf,
    edited: &'a Edited,
}

impl Report<'_> {
    fn write(&self, json: bool, console: Console) -> Result<Status, Failure> {
        for note in self.edited.notes() {
            console.note(note);
        }
        if json {
            let mut out = console.bytes();
            ggmill_text::json::write_pretty(&mut out, &self.json())?;
            out.flush()?;
        } else {
            let mut out = console.text();
            self.text(&mut out)?;
            out.flush()?;
        }
        Ok(Status::Fine)
    }

    fn text(&self, out: &mut dyn Write) -> io::Result<()> {
        for change in self.edited.changes() {
            let key = RawStr::new(&change.key);
            let (before, after) = self.values(change);
            match (before, after) {
                (Some(before), Some(after)) => {
                    writeln!(out, "~ {key}  {} → {}", Brief(&before), Brief(&after))?;
                }
                (None, Some(after)) => writeln!(out, "+ {key}  {}", Brief(&after))?,
                (Some(before), None) => writeln!(out, "- {key}  {}", Brief(&before))?,
                (None, None) => {}
            }
        }
        let (file, output) = (shown(self.file), shown(self.output));
        let (old_len, new_len, written) = (self.plan.old_len(), self.new_len, self.plan.written());
        let room = self
            .plan
            .filler()
            .map(|filler| format!(", with room for {filler} bytes more"))
            .unwrap_or_default();
        match self.method {
            EditMethod::Unchanged => writeln!(out, "{file}: nothing to change")?,
            EditMethod::InPlace => {
                let journal = self.plan.journal_len();
                writeln!(
                    out,
                    "{file}: in place{room}; {written} bytes written after a journal of \
                     {journal}, the size stays {old_len}"
                )?;
            }
            EditMethod::Insert(inserted) => {
                let journal = self.plan.journal_len();
                writeln!(
                    out,
                    "{file}: in place after inserting {inserted} bytes{room}; {written} bytes \
                     written after a journal of {journal}, size {old_len} → {new_len}"
                )?;
            }
            EditMethod::Rewrite(why) => writeln!(
                out,
                "{output}: every tensor placed anew, since {why}; {new_len} bytes written, size \
                 {old_len} → {new_len}"
            )?,
            EditMethod::Copy(why) => writeln!(
                out,
                "{output}: one copy{room}, since {why}; {new_len} bytes written, size {old_len} → \
                 {new_len}"
            )?,
            _ => writeln!(out, "{output}: size {old_len} → {new_len}")?,
        }
        if self.done { Ok(()) } else { writeln!(out, "nothing was written") }
    }

    /// `docs/formats/edit.md`.
    fn json(&self) -> serde_json::Value {
        let (way, inserted) = match self.method {
            EditMethod::Unchanged => ("nothing", None),
            EditMethod::InPlace => ("in-place", None),
            EditMethod::Insert(inserted) => ("insert", Some(*inserted)),
            EditMethod::Rewrite(_) => ("rewrite", None),
            _ => ("copy", None),
        };
        let in_place = matches!(self.method, EditMethod::InPlace | EditMethod::Insert(_));
        let bytes_written = if in_place || *self.method == EditMethod::Unchanged {
            self.plan.written()
        } else {
            self.new_len
        };
        let change = |change: &KeyChange| {
            let (before, after) = self.values(change);
            json!({ "key": RawStr::new(&change.key).to_string_lossy(), "before": before.map(|value| json_of(&value)), "after": after.map(|value| json_of(&value)) })
        };
        json!({
            "schema": "ggmill.edit/1",
            "file": self.file.to_string_lossy(),
            "output": self.output.to_string_lossy(),
            "written": self.done,
            "way": way,
            "inserted": inserted,
            "filler": self.plan.filler(),
            "bytes_written": bytes_written,
            "journal_bytes": self.plan.journal_len(),
            "old_file_size": self.plan.old_len(),
            "file_size": self.new_len,
            "notes": self.edited.notes(),
            "changes": self.edited.changes().iter().map(change).collect::<Vec<_>>(),
        })
    }

    fn values<'a>(&'a self, change: &KeyChange) -> (Option<Value<'a>>, Option<Value<'a>>) {
        (self.before.get(&change.key), self.edited.metadata().get(&change.key))
    }
}

/// A value on one short line.
struct Brief<'a>(&'a Value<'a>);

impl std::fmt::Display for Brief<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match *self.0 {
            Value::Str(text) => {
                let whole = text.to_string_lossy();
                let short: String = whole.chars().take(SHOWN).collect();
                let more = if short.len() < whole.len() { "…" } else { "" };
                write!(f, "{:?}{more}", RawStr::from(short.as_str()))
            }
            Value::Array(array) => write!(f, "{}[{}]", array.element_type(), array.len()),
            Value::Bool(value) => write!(f, "{value}"),
            Value::F32(value) => write!(f, "{value:?}"),
            Value::F64(value) => write!(f, "{value:?}"),
            ref other => match other.as_i128() {
                Some(number) => write!(f, "{number} ({})", other.value_type()),
                None => write!(f, "{}", other.value_type()),
            },
        }
    }
}

/// A value's type with the value, or for an array its length.
fn json_of(value: &Value<'_>) -> serde_json::Value {
    let value_type = value.value_type().to_string();
    match *value {
        Value::Array(array) => {
            json!({ "type": format!("[{}]", array.element_type()), "length": array.len() })
        }
        Value::Str(text) => json!({ "type": value_type, "value": text.to_string_lossy() }),
        Value::Bool(v) => json!({ "type": value_type, "value": v }),
        Value::F32(v) => json!({ "type": value_type, "value": v }),
        Value::F64(v) => json!({ "type": value_type, "value": v }),
        Value::U64(v) => json!({ "type": value_type, "value": v }),
        ref other => json!({ "type": value_type, "value": other.as_i64() }),
    }
}
