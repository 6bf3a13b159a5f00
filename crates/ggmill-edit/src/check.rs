//! The rules of `ggmill-check` and edits: the findings in an edited file, and fixes as edits.

use std::collections::HashSet;
use std::path::Path;

use ggmill_check::{
    Diagnostic, Fix, FixValue, Group, Input, Options, OwnedSubject, Severity, check, meant_key,
    template_fault,
};
use ggmill_core::{Decoder, Limits, Model, RawStr, keys};
use ggmill_pipeline::{Error, ErrorKind, Report, Result};
use ggmill_text::Glob;

use crate::{Edit, EditMethod, EditPlan, EditSyntaxError, EditValue, Edited, Editor, KeyType};

/// The maximum number of findings per rule that are compared, before and after an edit.
const MAX_FINDINGS: usize = 10_000;

/// The findings about an edited file.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct EditFindings {
    /// Errors that the edit introduces, for which it should be refused. Worst first.
    pub new_errors: Vec<Diagnostic>,
    /// The other findings about changed keys, and the other findings that the edit introduces. Worst
    /// first.
    pub diagnostics: Vec<Diagnostic>,
    /// New keys that look like misspelled standard keys.
    pub misspelled: Vec<MisspelledKey>,
}

/// A new key that looks like a misspelled standard key.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct MisspelledKey {
    /// The key.
    pub key: String,
    /// The standard key that was probably meant.
    pub meant: String,
}

/// The maximum number of errors in the reason for a refusal.
const MAX_NAMED: usize = 3;

impl EditFindings {
    /// Returns why the edit should be refused: a new key looks misspelled, or the edit introduces
    /// errors.
    pub fn refusal(&self) -> Option<String> {
        if let Some(MisspelledKey { key, meant }) = self.misspelled.first() {
            let (key, meant) = (RawStr::from(&**key), RawStr::from(&**meant));
            return Some(format!("key {key:?} is not a known key; did you mean {meant}?"));
        }
        let named = self.new_errors.iter().take(MAX_NAMED).map(|error| {
            let Diagnostic { rule, subject, message, .. } = error;
            format!("{subject}: {message} ({}: {})", rule.code, rule.summary)
        });
        let more = match self.new_errors.len().saturating_sub(MAX_NAMED) {
            0 => String::new(),
            more => format!("; and {more} more"),
        };
        let named = named.collect::<Vec<_>>().join("; ");
        (!named.is_empty()).then(|| format!("the edit would cause errors: {named}{more}"))
    }
}

/// Applies the rules about metadata to the file as a plan would leave it. The layout of tensors is not
/// checked, because the writer ensures it. Reads no tensor data.
///
/// Fails if the edited header cannot be made or parsed.
pub fn edit_findings(editor: &Editor, plan: &EditPlan) -> Result<EditFindings> {
    let (mut findings, edited) = (EditFindings::default(), plan.edited());
    if *plan.method() == EditMethod::Unchanged {
        return Ok(findings);
    }
    findings.misspelled = misspelled_keys(edited);
    let failed = |error| Error::caused(ErrorKind::Edit, error);
    let header = editor.planned_header(plan)?;
    let mut decoder = Decoder::new(Some(editor.planned_len(plan)?), &Limits::default());
    decoder.feed(&header).map_err(failed)?;
    let after = Model::from_header(decoder.finish().map_err(failed)?);
    let (Some(before), Some(after)) = (editor.model().parts().first(), after.parts().first())
    else {
        return Ok(findings);
    };
    let options = Options::default().with_findings_per_rule(MAX_FINDINGS);
    let told = |diagnostic: &Diagnostic| {
        (diagnostic.rule.code, diagnostic.subject.clone(), diagnostic.message.clone())
    };
    let before = check(&Input::new(before), &options);
    let known: HashSet<_> = before.diagnostics().iter().map(told).collect();
    // A different error of the same rule about the same key is not a new error.
    let fault = |diagnostic: &Diagnostic| (diagnostic.rule.code, diagnostic.subject.clone());
    let faults: HashSet<_> = before
        .diagnostics()
        .iter()
        .filter(|found| found.severity == Severity::Error)
        .map(fault)
        .collect();
    let touched: HashSet<OwnedSubject> = edited
        .changes()
        .iter()
        .map(|change| OwnedSubject::Key(change.key.as_slice().into()))
        .collect();
    let is_told = |diagnostic: &&Diagnostic| {
        let is_touched = touched.contains(&diagnostic.subject);
        let is_new = !known.contains(&told(diagnostic));
        let is_misspelled = matches!(&diagnostic.fix, Some(Fix::Rename { from, .. })
            if findings.misspelled.iter().any(|misspelled| misspelled.key == *from));
        is_of_metadata(diagnostic.rule.group)
            && !is_misspelled
            && (is_touched || is_new && diagnostic.severity != Severity::Note)
    };
    let after = check(&Input::new(after), &options);
    let (new_errors, others) =
        after.diagnostics().iter().filter(is_told).cloned().partition(|found| {
            found.severity == Severity::Error && !faults.contains(&fault(found))
        });
    (findings.new_errors, findings.diagnostics) = (new_errors, others);
    Ok(findings)
}

/// Returns `true` for a group of rules about metadata.
fn is_of_metadata(group: Group) -> bool {
    !matches!(
        group,
        Group::Structure | Group::Tensors | Group::Naming | Group::Shards | Group::Data
    )
}

/// Returns the new keys that look like misspelled standard keys.
pub fn misspelled_keys(edited: &Edited) -> Vec<MisspelledKey> {
    let architecture = edited.metadata().get(keys::GENERAL_ARCHITECTURE);
    let architecture = architecture.as_ref().and_then(ggmill_core::Value::as_str);
    let new = edited.changes().iter().filter(|change| change.after && !change.before);
    new.filter_map(|change| {
        let key = RawStr::new(&change.key).to_str().ok()?.to_owned();
        let meant = meant_key(&key, architecture)?;
        Some(MisspelledKey { key, meant })
    })
    .collect()
}

/// Returns the changed chat templates that do not parse: each key, escaped, with the error.
pub fn broken_templates(edited: &Edited) -> Vec<(String, String)> {
    let changed = edited.changes().iter().filter(|change| {
        let rest = change.key.strip_prefix(keys::TOKENIZER_CHAT_TEMPLATE.as_bytes());
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(b"."))
    });
    changed
        .filter_map(|change| {
            let value = edited.metadata().get(&change.key)?;
            let fault = template_fault(value.as_str()?)?;
            Some((RawStr::new(&change.key).to_string(), fault))
        })
        .collect()
}

impl Edit {
    /// Returns the edit that makes a fix; `None` for a fix that rewrites the file.
    ///
    /// ```
    /// use ggmill_check::Fix;
    /// use ggmill_edit::Edit;
    /// let fix = Fix::Rename { from: "general.naem".into(), to: "general.name".into() };
    /// assert_eq!(Edit::from_fix(&fix)?, Some(Edit::Rename { from: "general.naem".into(), to: "general.name".into() }));
    /// assert_eq!(Edit::from_fix(&Fix::Rewrite)?, None);
    /// # Ok::<(), ggmill_pipeline::Error>(())
    /// ```
    ///
    /// Fails for a type that no edit sets.
    pub fn from_fix(fix: &Fix) -> Result<Option<Self>> {
        Ok(match fix {
            Fix::Set { key, value_type, value } => {
                let key_type: KeyType = value_type.to_string().parse().map_err(|error| {
                    Error::caused(ErrorKind::Edit, EditSyntaxError::KeyType(error))
                })?;
                Some(Self::Set {
                    key: key.clone(),
                    key_type: Some(key_type),
                    value: edit_value(value),
                })
            }
            Fix::Rename { from, to } => Some(Self::Rename { from: from.clone(), to: to.clone() }),
            Fix::Unset { key } => Some(Self::Unset(Glob::literal(key))),
            _ => None,
        })
    }
}

/// Returns a value for an edit that declares its type.
fn edit_value(value: &FixValue) -> EditValue {
    match value {
        FixValue::String(text) => EditValue::Text(text.clone()),
        other => EditValue::Text(other.to_string()),
    }
}

/// Applies fixes to a file: edits its metadata, in place if that is safe, or rewrites the file as
/// version 3 if a fix requires that. The file is locked meanwhile, and it is replaced only when the new
/// one is complete. Returns remarks for the user.
///
/// Fails like [`Editor::apply`], for one shard of a set that would have to be rewritten, and if
/// `progress` stops it. The file is unchanged then.
pub fn apply_fixes<'a>(
    path: &Path,
    fixes: impl IntoIterator<Item = &'a Fix>,
    progress: &mut Report<'_>,
) -> Result<Vec<String>> {
    let (mut edits, mut rewrites) = (Vec::new(), false);
    for fix in fixes {
        rewrites |= *fix == Fix::Rewrite;
        edits.extend(Edit::from_fix(fix)?);
    }
    if edits.is_empty() && !rewrites {
        return Ok(Vec::new());
    }
    let mut editor = Editor::open(path)?;
    let edited = if edits.is_empty() { editor.unchanged()? } else { editor.edit(&edits)? };
    let plan = if rewrites { editor.plan_rewrite(edited)? } else { editor.plan(edited)? };
    let notes = plan.edited().notes().to_vec();
    editor.apply(plan, progress)?;
    Ok(notes)
}
