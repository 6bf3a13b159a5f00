//! SARIF 2.1.0, for code-scanning sites.

use serde_json::{Value, json};

use super::{Checked, Run, unquoted};
use crate::{Diagnostic, OwnedSubject, Severity, rules};

/// The report on some files as a SARIF log of one run.
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
            file.report.diagnostics().iter().map(|diagnostic| result(file.path, diagnostic))
        })
        .collect();
    let ran = files.iter().filter_map(|file| Some((file.path, file.run?)));
    let faults: Vec<Value> = ran
        .flat_map(|(path, run)| run.faults.iter().map(move |fault| fault_of_run(path, fault)))
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

fn result(path: &str, diagnostic: &Diagnostic) -> Value {
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

fn fault_of_run(path: &str, fault: &str) -> Value {
    json!({
        "ruleId": Run::CODE,
        "level": Severity::Error,
        "message": { "text": fault },
        "locations": [{ "physicalLocation": { "artifactLocation": { "uri": uri(path) } } }],
    })
}

/// A path as a relative reference: Other characters are percent-encoded.
fn uri(path: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/._-~".contains(&byte);
    path.bytes()
        .map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect()
}
