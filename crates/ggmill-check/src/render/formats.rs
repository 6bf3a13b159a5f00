//! Reports in formats for other programs: JSON, SARIF and annotations of GitHub Actions.

use std::io::{self, Write};

use ggmill_core::RawStr;
use serde_json::{Value, json};

use super::{Checked, Run, unquoted};
use crate::{Diagnostic, OwnedSubject, Severity, rules};

/// Returns the reports on files as JSON, `ggmill.check/1` (`docs/formats/check.md`).
pub fn json(files: &[Checked<'_>]) -> Value {
    let files: Vec<Value> = files.iter().map(json_file).collect();
    json!({ "schema": "ggmill.check/1", "files": files })
}

fn json_file(checked: &Checked<'_>) -> Value {
    let report = checked.report;
    let unlisted: Vec<Value> = report
        .counts()
        .iter()
        .filter_map(|(rule, count)| {
            let listed = report
                .diagnostics()
                .iter()
                .filter(|diagnostic| diagnostic.rule.code == rule.code)
                .count() as u64;
            (*count > listed).then(|| json!({ "code": rule.code, "count": count - listed }))
        })
        .collect();
    let mut file = json!({
        "path": checked.path,
        "errors": report.count(Severity::Error),
        "warnings": report.count(Severity::Warning),
        "notes": report.count(Severity::Note),
        "findings": report.diagnostics().iter().map(json_finding).collect::<Vec<_>>(),
        "untold": unlisted,
    });
    if let Some(run) = checked.run {
        file["run"] = run.document.clone();
    }
    file
}

/// Returns the subject of a finding as JSON: its kind, and its name if it has one.
pub(crate) fn subject_json(subject: &OwnedSubject) -> Value {
    let (kind, name) = match subject {
        OwnedSubject::File => ("file", Value::Null),
        OwnedSubject::Key(key) => ("key", unquoted(key).into()),
        OwnedSubject::Tensor(tensor) => ("tensor", unquoted(tensor).into()),
    };
    json!({ "kind": kind, "name": name })
}

fn json_finding(diagnostic: &Diagnostic) -> Value {
    json!({
        "code": diagnostic.rule.code,
        "group": diagnostic.rule.group.name(),
        "severity": diagnostic.severity,
        "offset": diagnostic.offset,
        "subject": subject_json(&diagnostic.subject),
        "summary": diagnostic.rule.summary,
        "message": diagnostic.message,
        "why": diagnostic.rule.why,
        "demanded_by": diagnostic.rule.authority.name(),
        "requirement": diagnostic.rule.requirement(),
        "help": diagnostic.help,
        "fix": diagnostic.fix.as_ref().map(ToString::to_string),
    })
}

/// Returns the reports on files as a SARIF 2.1.0 log of one run, for code-scanning services.
pub fn sarif(files: &[Checked<'_>]) -> Value {
    let mut used: Vec<&str> =
        files.iter().flat_map(|file| file.report.counts()).map(|(rule, _)| rule.code).collect();
    used.sort_unstable();
    used.dedup();
    let mut described: Vec<Value> = rules()
        .filter(|rule| used.binary_search(&rule.code).is_ok())
        .map(|rule| {
            json!({
                "id": rule.code,
                "shortDescription": { "text": rule.summary },
                "fullDescription": { "text": rule.clause },
                "help": { "text": format!("{} {}", rule.why, rule.help(true)) },
                "defaultConfiguration": { "level": rule.severity },
                "properties": { "group": rule.group.name(), "requirement": rule.requirement() },
            })
        })
        .collect();
    let mut results: Vec<Value> = files
        .iter()
        .flat_map(|file| {
            file.report.diagnostics().iter().map(|diagnostic| sarif_result(file.path, diagnostic))
        })
        .collect();
    let ran = files.iter().filter_map(|file| Some((file.path, file.run?)));
    let faults: Vec<Value> = ran
        .flat_map(|(path, run)| run.faults.iter().map(move |fault| run_fault(path, fault)))
        .collect();
    if !faults.is_empty() {
        described.push(json!({
            "id": Run::CODE,
            "shortDescription": { "text": Run::SUMMARY },
            "defaultConfiguration": { "level": Severity::Error },
        }));
        results.extend(faults);
    }
    json!({
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{
            "tool": { "driver": { "name": "ggmill", "version": env!("CARGO_PKG_VERSION"), "informationUri": env!("CARGO_PKG_HOMEPAGE"), "rules": described } },
            "results": results,
        }],
    })
}

fn sarif_result(path: &str, diagnostic: &Diagnostic) -> Value {
    let mut physical = json!({ "artifactLocation": { "uri": uri(path) } });
    if let Some(offset) = diagnostic.offset {
        physical["region"] = json!({ "byteOffset": offset, "byteLength": 0 });
    }
    let mut location = json!({ "physicalLocation": physical });
    if let OwnedSubject::Key(name) | OwnedSubject::Tensor(name) = &diagnostic.subject {
        location["logicalLocations"] = json!([{ "name": unquoted(name) }]);
    }
    json!({
        "ruleId": diagnostic.rule.code,
        "level": diagnostic.severity,
        "message": { "text": format!("{}: {}", diagnostic.subject, diagnostic.message) },
        "locations": [location],
    })
}

fn run_fault(path: &str, fault: &str) -> Value {
    json!({
        "ruleId": Run::CODE,
        "level": Severity::Error,
        "message": { "text": fault },
        "locations": [{ "physicalLocation": { "artifactLocation": { "uri": uri(path) } } }],
    })
}

/// Percent-encodes a path as a relative reference.
fn uri(path: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/._-~".contains(&byte);
    path.bytes()
        .map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect()
}

/// Writes annotations for GitHub Actions: a line for each finding and each fault of a run.
pub fn github(out: &mut dyn Write, checked: &Checked<'_>) -> io::Result<()> {
    for diagnostic in checked.report.diagnostics() {
        let level = match diagnostic.severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
            Severity::Note => "notice",
        };
        let title = format!("{}: {}", diagnostic.rule.code, diagnostic.rule.summary);
        let message = format!("{}: {}", diagnostic.subject, diagnostic.message);
        annotation(out, level, checked.path, &title, &message)?;
    }
    for fault in checked.run.iter().flat_map(|run| &run.faults) {
        let title = format!("{}: {}", Run::CODE, Run::SUMMARY);
        annotation(out, "error", checked.path, &title, fault)?;
    }
    Ok(())
}

fn annotation(
    out: &mut dyn Write,
    level: &str,
    path: &str,
    title: &str,
    message: &str,
) -> io::Result<()> {
    let (path, title, message) = (property(path), property(title), data(message));
    writeln!(out, "::{level} file={path},title={title}::{message}")
}

/// Escapes text for the runner. Characters that could affect a terminal, for which the runner has no
/// escape, are written as `\u{…}`.
fn data(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '%' => escaped.push_str("%25"),
            '\r' => escaped.push_str("%0D"),
            '\n' => escaped.push_str("%0A"),
            c if RawStr::is_plain(c) => escaped.push(c),
            c => escaped.extend(c.escape_unicode()),
        }
    }
    escaped
}

fn property(text: &str) -> String {
    data(text).replace(':', "%3A").replace(',', "%2C")
}
