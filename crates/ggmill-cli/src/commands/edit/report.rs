//! The report of an edit or its dry run, in text and as JSON.

use std::collections::BTreeMap;
use std::io::{self, Write};

use ggmill::EditSummary;
use ggmill_check::{Diagnostic, OwnedSubject, Severity};
use ggmill_core::{MetadataBuf, RawStr, Value};
use ggmill_edit::{EditMethod, FILLER_KEY, KeyChange};
use serde_json::json;

use crate::console::{Console, counted};
use crate::files::shown;
use crate::outcome::Failure;

/// The maximum number of characters of a value that are shown.
const MAX_CHARS: usize = 60;
/// The maximum number of findings that are shown.
const MAX_FINDINGS: usize = 10;

/// An edit that was made or planned, to be reported.
pub(super) struct Report<'a>(pub(super) &'a EditSummary);

impl Report<'_> {
    /// Prints the notes and findings, and the changes as text unless `json` is set. Returns the report
    /// as JSON.
    pub(super) fn print(&self, json: bool, console: Console) -> Result<serde_json::Value, Failure> {
        if !json {
            let mut out = console.text();
            self.text(&mut out)?;
            out.flush()?;
        }
        for note in self.0.edited().notes() {
            console.note(note);
        }
        self.print_findings(console);
        Ok(self.json())
    }

    fn print_findings(&self, console: Console) {
        for misspelled in &self.0.findings().misspelled {
            console.warn(format_args!(
                "key {:?}: did you mean {}?",
                RawStr::from(&*misspelled.key),
                RawStr::from(&*misspelled.meant)
            ));
        }
        let found: Vec<_> = self.diagnostics().collect();
        for diagnostic in found.iter().copied().take(MAX_FINDINGS) {
            let Diagnostic { rule, severity, subject, message, help, .. } = diagnostic;
            let text = format!("{subject}: {message} ({}: {})", rule.code, rule.summary);
            match severity {
                Severity::Note => console.note(text),
                _ => console.warn(format_args!("{text}\n  {help}")),
            }
        }
        if let Some(more) = found.len().checked_sub(MAX_FINDINGS).filter(|&more| more > 0) {
            console.warn(format_args!("and {more} more; `ggmill check` shows all"));
        }
    }

    /// Returns the findings, new errors first.
    fn diagnostics(&self) -> impl Iterator<Item = &Diagnostic> {
        self.0.findings().new_errors.iter().chain(&self.0.findings().diagnostics)
    }

    fn text(&self, out: &mut dyn Write) -> io::Result<()> {
        let values = Values::of(self.0);
        for change in self.0.edited().changes() {
            let key = RawStr::new(&change.key);
            match values.of_change(change) {
                (Some(before), Some(after)) => {
                    writeln!(out, "~ {key}  {} → {}", ShortValue(&before), ShortValue(&after))?;
                }
                (None, Some(after)) => writeln!(out, "+ {key}  {}", ShortValue(&after))?,
                (Some(before), None) => writeln!(out, "- {key}  {}", ShortValue(&before))?,
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

    /// Returns the number of bytes that are written to the file or its copy.
    fn bytes_written(&self) -> u64 {
        match self.0.method() {
            EditMethod::InPlace | EditMethod::Insert(_) | EditMethod::Unchanged => {
                self.0.plan().written()
            }
            _ => self.0.file_len(),
        }
    }

    /// Returns the report as JSON: see `docs/formats/edit.md`.
    fn json(&self) -> serde_json::Value {
        let (method, inserted) = match self.0.method() {
            EditMethod::Unchanged => ("nothing", None),
            EditMethod::InPlace => ("in-place", None),
            EditMethod::Insert(inserted) => ("insert", Some(*inserted)),
            EditMethod::Rewrite(_) => ("rewrite", None),
            _ => ("copy", None),
        };
        let values = Values::of(self.0);
        let change = |change: &KeyChange| {
            let (before, after) = values.of_change(change);
            json!({ "key": RawStr::new(&change.key).to_string_lossy(), "before": before.map(|value| json_of(&value)), "after": after.map(|value| json_of(&value)) })
        };
        json!({
            "schema": "ggmill.edit/1",
            "file": self.0.path().to_string_lossy(),
            "output": self.0.output().to_string_lossy(),
            "written": self.0.is_written(),
            "way": method,
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
                "subject": OwnedSubject::Key(misspelled.key.as_bytes().into()),
                "message": format!("did you mean {}?", RawStr::from(&*misspelled.meant)),
            })
        });
        let found = self.diagnostics().map(|diagnostic| {
            json!({
                "code": diagnostic.rule.code,
                "severity": diagnostic.severity,
                "subject": diagnostic.subject,
                "message": diagnostic.message,
            })
        });
        misspelled.chain(found).collect()
    }
}

/// The values of keys before and after an edit. Both are indexed, because an edit can change every key.
struct Values<'a>([BTreeMap<&'a [u8], Value<'a>>; 2]);

impl<'a> Values<'a> {
    fn of(edit: &'a EditSummary) -> Self {
        Self([edit.before(), edit.edited().metadata()].map(MetadataBuf::first_values))
    }

    fn of_change(&self, change: &KeyChange) -> (Option<Value<'a>>, Option<Value<'a>>) {
        let [before, after] = &self.0;
        (before.get(&*change.key).copied(), after.get(&*change.key).copied())
    }
}

/// Displays a value on one line: long strings are truncated, and arrays have only type and length.
struct ShortValue<'a>(&'a Value<'a>);

impl std::fmt::Display for ShortValue<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match *self.0 {
            Value::Str(text) => {
                let full = text.to_string_lossy();
                let short: String = full.chars().take(MAX_CHARS).collect();
                let more = if short.len() < full.len() { "…" } else { "" };
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

/// Returns the type of a value, and the value, or the length of an array.
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
