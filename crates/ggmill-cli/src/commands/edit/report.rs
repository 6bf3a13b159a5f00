//! The report of an edit or its dry run, in text and as JSON.

use std::io::{self, Write};

use ggmill::EditSummary;
use ggmill_check::{Diagnostic, Severity};
use ggmill_core::{RawStr, Value};
use ggmill_edit::{EditMethod, FILLER_KEY, KeyChange};
use serde_json::json;

use crate::console::Console;
use crate::counted::counted;
use crate::outcome::Failure;
use crate::paths::shown;

/// Characters of a value shown.
const SHOWN: usize = 60;
/// Findings shown.
const MOST_FINDINGS: usize = 10;

/// The summary of the changes.
pub(super) struct Report<'a>(pub(super) &'a EditSummary);

impl Report<'_> {
    /// The changes and what became of the file, and on standard error what a person should know.
    /// Gives what it says as JSON.
    pub(super) fn tell(&self, json: bool, console: Console) -> Result<serde_json::Value, Failure> {
        if !json {
            let mut out = console.text();
            self.text(&mut out)?;
            out.flush()?;
        }
        for note in self.0.edited().notes() {
            console.note(note);
        }
        self.tell_findings(console);
        Ok(self.json())
    }

    fn tell_findings(&self, console: Console) {
        for misspelled in &self.0.findings().misspelled {
            console.warn(format_args!(
                "key {:?}: did you mean {}?",
                RawStr::from(&*misspelled.key),
                RawStr::from(&*misspelled.meant)
            ));
        }
        let found: Vec<_> = self.found().collect();
        for diagnostic in found.iter().copied().take(MOST_FINDINGS) {
            let Diagnostic { rule, severity, subject, message, help, .. } = diagnostic;
            let said = format!("{subject}: {message} ({}: {})", rule.code, rule.summary);
            match severity {
                Severity::Note => console.note(said),
                _ => console.warn(format_args!("{said}\n  {help}")),
            }
        }
        if let Some(more) = found.len().checked_sub(MOST_FINDINGS).filter(|&more| more > 0) {
            console.warn(format_args!("and {more} more; `ggmill check` shows all"));
        }
    }

    /// The findings, worst first.
    fn found(&self) -> impl Iterator<Item = &Diagnostic> {
        self.0.findings().new_errors.iter().chain(&self.0.findings().diagnostics)
    }

    fn text(&self, out: &mut dyn Write) -> io::Result<()> {
        for change in self.0.edited().changes() {
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
        if let Some(room) = self.0.plan().filler().filter(|_| self.0.plan().adds_filler()) {
            let bytes = if room == 1 { "byte" } else { "bytes" };
            let why = match self.0.method() {
                EditMethod::InPlace => "so that the tensor data need not be moved",
                _ => "so that later edits can be made in place; --no-padding omits it",
            };
            writeln!(out, "+ {FILLER_KEY}  {room} unused {bytes}, {why}")?;
        }
        let (file, output) = (shown(self.0.path()), shown(self.0.output()));
        let was = if self.0.is_written() { "" } else { "would be " };
        match self.0.method() {
            EditMethod::Unchanged => return writeln!(out, "{file}: nothing to change"),
            EditMethod::InPlace => write!(out, "{file}: {was}edited in place")?,
            EditMethod::Insert(inserted) => write!(
                out,
                "{file}: {was}edited in place, with {inserted} bytes inserted before the tensor \
                 data"
            )?,
            _ if self.0.path() != self.0.output() => write!(out, "{output}: {was}written")?,
            EditMethod::Rewrite(why) | EditMethod::Copy(why) => {
                write!(out, "{file}: {was}replaced by an edited copy, since {why}")?;
            }
            _ => write!(out, "{file}: {was}edited")?,
        }
        if self.0.is_written() {
            writeln!(out)
        } else {
            let bytes = usize::try_from(self.bytes_written()).unwrap_or(usize::MAX);
            writeln!(out, " ({} to write); nothing was written", counted(bytes, "byte"))
        }
    }

    /// Bytes written to the file or its copy.
    fn bytes_written(&self) -> u64 {
        match self.0.method() {
            EditMethod::InPlace | EditMethod::Insert(_) | EditMethod::Unchanged => {
                self.0.plan().written()
            }
            _ => self.0.file_len(),
        }
    }

    /// `docs/formats/edit.md`.
    fn json(&self) -> serde_json::Value {
        let (way, inserted) = match self.0.method() {
            EditMethod::Unchanged => ("nothing", None),
            EditMethod::InPlace => ("in-place", None),
            EditMethod::Insert(inserted) => ("insert", Some(*inserted)),
            EditMethod::Rewrite(_) => ("rewrite", None),
            _ => ("copy", None),
        };
        let change = |change: &KeyChange| {
            let (before, after) = self.values(change);
            json!({ "key": RawStr::new(&change.key).to_string_lossy(), "before": before.map(|value| json_of(&value)), "after": after.map(|value| json_of(&value)) })
        };
        json!({
            "schema": "ggmill.edit/1",
            "file": self.0.path().to_string_lossy(),
            "output": self.0.output().to_string_lossy(),
            "written": self.0.is_written(),
            "way": way,
            "inserted": inserted,
            "filler": self.0.plan().filler(),
            "filler_added": self.0.plan().adds_filler(),
            "bytes_written": self.bytes_written(),
            "journal_bytes": self.0.plan().journal_len(),
            "old_file_size": self.0.plan().old_len(),
            "file_size": self.0.file_len(),
            "notes": self.0.edited().notes(),
            "changes": self.0.edited().changes().iter().map(change).collect::<Vec<_>>(),
            "findings": self.findings_json(),
        })
    }

    fn findings_json(&self) -> Vec<serde_json::Value> {
        let misspelled = self.0.findings().misspelled.iter().map(|misspelled| {
            json!({
                "code": null,
                "severity": Severity::Warning,
                "subject": format!("key {:?}", RawStr::from(&*misspelled.key)),
                "message": format!("did you mean {}?", RawStr::from(&*misspelled.meant)),
            })
        });
        let found = self.found().map(|diagnostic| {
            json!({
                "code": diagnostic.rule.code,
                "severity": diagnostic.severity,
                "subject": diagnostic.subject.to_string(),
                "message": diagnostic.message,
            })
        });
        misspelled.chain(found).collect()
    }

    fn values<'a>(&'a self, change: &KeyChange) -> (Option<Value<'a>>, Option<Value<'a>>) {
        (self.0.before().get(&change.key), self.0.edited().metadata().get(&change.key))
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
