//! `ggmill.check/1`: documented in `docs/formats/check.md`.

use serde_json::{Value, json};

use super::{Checked, unquoted};
use crate::{Diagnostic, OwnedSubject, Severity};

/// The report on some files as JSON.
pub fn json(files: &[Checked<'_>]) -> Value {
    let files: Vec<Value> = files.iter().map(file).collect();
    json!({ "schema": "ggmill.check/1", "files": files })
}

fn file(checked: &Checked<'_>) -> Value {
    let report = checked.report;
    let untold: Vec<Value> = report
        .counts()
        .iter()
        .filter_map(|(rule, count)| {
            let told = report
                .diagnostics()
                .iter()
                .filter(|diagnostic| diagnostic.rule.code == rule.code)
                .count() as u64;
            (*count > told).then(|| json!({ "code": rule.code, "count": count - told }))
        })
        .collect();
    let mut file = json!({
        "path": checked.path,
        "errors": report.count(Severity::Error),
        "warnings": report.count(Severity::Warning),
        "notes": report.count(Severity::Note),
        "findings": report.diagnostics().iter().map(finding).collect::<Vec<_>>(),
        "untold": untold,
    });
    if let Some(run) = checked.run {
        file["run"] = run.document.clone();
    }
    file
}

fn finding(diagnostic: &Diagnostic) -> Value {
    let (kind, name) = match &diagnostic.subject {
        OwnedSubject::File => ("file", Value::Null),
        OwnedSubject::Key(key) => ("key", unquoted(key).into()),
        OwnedSubject::Tensor(tensor) => ("tensor", unquoted(tensor).into()),
    };
    json!({
        "code": diagnostic.rule.code,
        "group": diagnostic.rule.group.name(),
        "severity": diagnostic.severity,
        "offset": diagnostic.offset,
        "subject": { "kind": kind, "name": name },
        "summary": diagnostic.rule.summary,
        "message": diagnostic.message,
        "why": diagnostic.rule.why,
        "demanded_by": diagnostic.rule.authority.name(),
        "requirement": diagnostic.rule.requirement(),
        "help": diagnostic.help,
        "fix": diagnostic.fix.as_ref().map(ToString::to_string),
    })
}
