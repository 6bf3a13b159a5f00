//! SARIF 2.1.0, for code-scanning sites.

use serde_json::{Value, json};

use super::{Checked, unquoted};
use crate::{Diagnostic, OwnedSubject, rules};

/// The report on some files as a SARIF log of one run.
pub fn sarif(files: &[Checked<'_>]) -> Value {
    let mut used: Vec<&str> =
        files.iter().flat_map(|file| file.report.counts()).map(|(rule, _)| rule.code).collect();
    used.sort_unstable();
    used.dedup();
    let described: Vec<Value> = rules()
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
    let results: Vec<Value> = files
        .iter()
        .flat_map(|file| {
            file.report.diagnostics().iter().map(|diagnostic| result(file.path, diagnostic))
        })
        .collect();
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

/// A path as a relative reference: Other characters are percent-encoded.
fn uri(path: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/._-~".contains(&byte);
    path.bytes()
        .map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect()
}
