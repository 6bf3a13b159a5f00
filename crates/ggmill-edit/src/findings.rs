//! The findings of the rules in an edited file.

use std::collections::HashSet;

use ggmill_check::{
    Diagnostic, Fix, Group, Input, Options, OwnedSubject, Severity, check, meant_key,
    template_fault,
};
use ggmill_core::{Decoder, Limits, Model, RawStr, keys};
use ggmill_pipeline::{Error, ErrorKind, Result};

use crate::{EditMethod, EditPlan, Edited, Editor};

/// Findings of one rule that are compared between the file before and after an edit.
const COMPARED: usize = 10_000;

/// The findings that an edit leads to, before or after it is made.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct EditFindings {
    /// Errors that the file does not have before the edit: a reason not to make it. Worst first.
    pub new_errors: Vec<Diagnostic>,
    /// The other findings about changed keys, and the other findings that the file does not have
    /// before the edit. Worst first.
    pub diagnostics: Vec<Diagnostic>,
    /// New keys that are nearly those that programs look for.
    pub misspelled: Vec<Misspelt>,
}

/// A key that is nearly one that programs look for.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Misspelt {
    /// The key.
    pub key: String,
    /// The standard key that it resembles.
    pub meant: String,
}

/// Errors that are named when an edit is refused for them.
const MAX_NAMED: usize = 3;

impl EditFindings {
    /// Why the edit should not be made unless that was asked for: a new key that is nearly a known
    /// one, or errors that the file does not have before.
    pub fn refusal(&self) -> Option<String> {
        if let Some(Misspelt { key, meant }) = self.misspelled.first() {
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

/// Applies the rules about metadata to a file as an edit leaves it; how tensors lie is the writer's
/// concern. Reads no tensor data.
///
/// Fails when the edited header cannot be made or read.
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
    let after = Model::from_header(decoder.finish().map_err(failed)?, Vec::new());
    let (Some(before), Some(after)) = (editor.model().parts().first(), after.parts().first())
    else {
        return Ok(findings);
    };
    let options = Options::default().with_findings_per_rule(COMPARED);
    let told = |diagnostic: &Diagnostic| {
        (diagnostic.rule.code, diagnostic.subject.to_string(), diagnostic.message.clone())
    };
    let before = check(&Input::new(before), &options);
    let known: HashSet<_> = before.diagnostics().iter().map(told).collect();
    // A value that is wrong in another way than before is no worse.
    let fault = |diagnostic: &Diagnostic| (diagnostic.rule.code, diagnostic.subject.to_string());
    let faults: HashSet<_> = before
        .diagnostics()
        .iter()
        .filter(|found| found.severity == Severity::Error)
        .map(fault)
        .collect();
    let touched: HashSet<String> = edited
        .changes()
        .iter()
        .map(|change| OwnedSubject::Key(format!("{:?}", RawStr::new(&change.key))).to_string())
        .collect();
    let is_told = |diagnostic: &&Diagnostic| {
        let is_touched = touched.contains(&diagnostic.subject.to_string());
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

/// Whether the rules of a group are about what an edit changes.
fn is_of_metadata(group: Group) -> bool {
    !matches!(
        group,
        Group::Structure | Group::Tensors | Group::Naming | Group::Shards | Group::Data
    )
}

/// The new keys that are nearly others that programs look for, be those in the file or not: what a
/// caller may want to ask about before it writes.
pub fn misspelled_keys(edited: &Edited) -> Vec<Misspelt> {
    let architecture = edited.metadata().get(keys::GENERAL_ARCHITECTURE);
    let architecture = architecture.as_ref().and_then(ggmill_core::Value::as_str);
    let new = edited.changes().iter().filter(|change| change.after && !change.before);
    new.filter_map(|change| {
        let key = RawStr::new(&change.key).to_str().ok()?.to_owned();
        let meant = meant_key(&key, architecture)?;
        Some(Misspelt { key, meant })
    })
    .collect()
}

/// The chat templates among the changes that do not parse: the key, escaped, and what is wrong.
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
