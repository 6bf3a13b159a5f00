//! Compares the table of crates in `docs/ARCHITECTURE.md` with the allowed dependencies, which the
//! manifests are compared with.

use std::collections::BTreeSet;
use std::fs;

use crate::process::{Done, root};

const DOCUMENT: &str = "docs/ARCHITECTURE.md";
/// Packages outside `crates/`, which have no row.
const NO_ROW: [&str; 2] = ["ggmill-fuzz", "xtask"];

/// Returns the differences between the document and the allowed dependencies of every crate.
pub(super) fn findings(allowed: &[(&str, &[&str])]) -> Done<Vec<String>> {
    let text = fs::read_to_string(root().join(DOCUMENT));
    Ok(differences(&text.map_err(|error| format!("{DOCUMENT}: {error}"))?, allowed))
}

/// Returns the rows whose third column names other crates than `allowed`, and crates without a row.
fn differences(document: &str, allowed: &[(&str, &[&str])]) -> Vec<String> {
    let mut findings = Vec::new();
    let mut absent: BTreeSet<&str> = allowed.iter().map(|(name, _)| *name).collect();
    for row in document.lines().filter(|line| line.starts_with("| `ggmill")) {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        let &[_, name, _, dependencies, _] = &cells[..] else { continue };
        let name = name.trim_matches('`');
        absent.remove(name);
        let Some((_, expected)) = allowed.iter().find(|(known, _)| *known == name) else {
            findings.push(format!("{DOCUMENT}: {name} is not in the table of graph.rs"));
            continue;
        };
        let words: BTreeSet<&str> =
            dependencies.split(|c: char| !c.is_alphanumeric() && c != '-').collect();
        let is_named = |name: &&&str| words.contains(name.strip_prefix("ggmill-").unwrap_or(name));
        let found: BTreeSet<&str> =
            allowed.iter().map(|(name, _)| name).filter(is_named).copied().collect();
        let expected: BTreeSet<&str> = expected.iter().copied().collect();
        if dependencies != "all libraries" && found != expected {
            findings
                .push(format!("{DOCUMENT}: {name} may depend on {found:?}, expected {expected:?}"));
        }
    }
    let absent = absent.into_iter().filter(|name| !NO_ROW.contains(name));
    findings.extend(absent.map(|name| format!("{DOCUMENT}: no row for {name}")));
    findings
}

#[cfg(test)]
mod tests {
    use super::differences;

    const ALLOWED: &[(&str, &[&str])] = &[
        ("ggmill-core", &[]),
        ("ggmill-text", &["ggmill-core"]),
        ("ggmill-edit", &["ggmill-core", "ggmill-text"]),
        ("ggmill", &["ggmill-core", "ggmill-text", "ggmill-edit"]),
        ("ggmill-python", &["ggmill"]),
        ("xtask", &[]),
    ];

    const DOCUMENT: &str = "| `ggmill-core` | the format | – |\n\
        | `ggmill-text` | text | core |\n\
        | `ggmill-edit` | edits | core; text for what it finds |\n\
        | `ggmill` | everything | all libraries |\n\
        | `ggmill-python` | Python | ggmill |\n";

    #[test]
    fn an_equal_document_has_no_findings() {
        assert_eq!(differences(DOCUMENT, ALLOWED), [""; 0]);
    }

    #[test]
    fn differences_are_found() {
        for (from, to, finding) in [
            ("| text | core |", "| text | – |", "ggmill-text may depend on {}"),
            ("core; text for", "core; for", "ggmill-edit may depend on {\"ggmill-core\"}"),
            ("`ggmill-python`", "`ggmill-nothing`", "ggmill-nothing is not in the table"),
        ] {
            let found = differences(&DOCUMENT.replace(from, to), ALLOWED);
            assert!(found[0].contains(finding), "{found:?}");
        }
        let without = DOCUMENT.replace("| `ggmill-text` | text | core |\n", "");
        assert_eq!(
            differences(&without, ALLOWED),
            ["docs/ARCHITECTURE.md: no row for ggmill-text"]
        );
    }
}
