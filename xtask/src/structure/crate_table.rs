//! The crates and their allowed dependencies in the documents for contributors, held against the
//! table that the manifests are held against.

use std::collections::BTreeSet;
use std::fs;

use crate::process::{Done, root};

/// The document with the table of crates and what each may depend on.
const ARCHITECTURE: &str = "docs/ARCHITECTURE.md";
/// The document that lists their directories.
const CONTRIBUTING: &str = "CONTRIBUTING.md";
/// The package in the directory `fuzz/`, which the documents name by its directory.
const FUZZ: &str = "ggmill-fuzz";

/// The differences between the documents and the allowed dependencies of every crate.
pub(super) fn findings(allowed: &[(&str, &[&str])]) -> Done<Vec<String>> {
    let text =
        |name| fs::read_to_string(root().join(name)).map_err(|error| format!("{name}: {error}"));
    let mut findings = differences(&text(ARCHITECTURE)?, allowed);
    let contributing = text(CONTRIBUTING)?;
    let crates = allowed
        .iter()
        .map(|(name, _)| name)
        .filter(|name| name.starts_with("ggmill") && **name != FUZZ);
    let missing = crates.filter(|name| !contributing.contains(&format!("`crates/{name}`")));
    findings.extend(missing.map(|name| format!("{CONTRIBUTING}: does not list crates/{name}")));
    Ok(findings)
}

/// The rows whose third column names other crates than the table allows, and the crates without a
/// row.
fn differences(document: &str, allowed: &[(&str, &[&str])]) -> Vec<String> {
    let mut rows = BTreeSet::new();
    let mut findings = Vec::new();
    for row in document.lines().filter(|line| line.starts_with("| `ggmill")) {
        let cells: Vec<&str> = row.split('|').collect();
        let &[_, first, _, dependencies, ..] = &cells[..] else { continue };
        let names: Vec<&str> = first.split('`').skip(1).step_by(2).collect();
        rows.extend(names.iter().copied());
        let &[name] = &names[..] else { continue };
        let Some((_, expected)) = allowed.iter().find(|(known, _)| *known == name) else {
            findings.push(format!("{ARCHITECTURE}: {name} is not in the table of graph.rs"));
            continue;
        };
        if dependencies.trim_start().starts_with("all ") {
            continue;
        }
        let mut found = crates_in(dependencies, allowed);
        // As in "what it finds in an edit".
        found.remove(name);
        let expected: BTreeSet<&str> = expected.iter().copied().collect();
        if found != expected {
            findings.push(format!(
                "{ARCHITECTURE}: {name} may depend on {found:?}, expected {expected:?}"
            ));
        }
    }
    let absent =
        allowed.iter().filter(|(name, _)| !rows.contains(name) && ![FUZZ, "xtask"].contains(name));
    findings.extend(absent.map(|(name, _)| format!("{ARCHITECTURE}: no row for {name}")));
    findings
}

/// The crates that a cell names, without the prefix that all have.
fn crates_in<'a>(cell: &str, allowed: &[(&'a str, &[&str])]) -> BTreeSet<&'a str> {
    let is_named = |name: &str| {
        let short = name.strip_prefix("ggmill-").unwrap_or(name);
        cell.split(|c: char| !c.is_alphanumeric() && c != '-').any(|word| word == short)
    };
    allowed.iter().map(|(name, _)| *name).filter(|name| is_named(name)).collect()
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

    const DOCUMENT: &str = "| crate | content | may depend on | effects |\n\
        | `ggmill-core` | the format | – | none |\n\
        | `ggmill-text` | names | core | none |\n\
        | `ggmill-edit` | edits | core; text for globs (feature `globs`) | none |\n\
        | `ggmill` | facade | all of the above | none |\n\
        | `ggmill-python`, `fuzz/` | unpublished | anything | anything |\n";

    #[test]
    fn a_document_that_says_the_same_has_no_findings() {
        assert_eq!(differences(DOCUMENT, ALLOWED), Vec::<String>::new());
        let alone = DOCUMENT.replace(
            "`ggmill-python`, `fuzz/` | unpublished | anything",
            "`ggmill-python` | Python | `ggmill`",
        );
        assert_eq!(differences(&alone, ALLOWED), Vec::<String>::new());
    }

    #[test]
    fn what_differs_is_found() {
        for (from, to) in [
            ("core; text for", "core for"),
            ("names | core", "names | core, edit"),
            ("| `ggmill-text` | names | core | none |\n", ""),
            ("`ggmill` |", "`ggmill-facade` |"),
        ] {
            let changed = DOCUMENT.replace(from, to);
            assert_ne!(changed, DOCUMENT, "{from}");
            assert_ne!(differences(&changed, ALLOWED), Vec::<String>::new(), "{from}");
        }
        let missing = DOCUMENT.replace("| `ggmill-text` | names | core | none |\n", "");
        assert_eq!(
            differences(&missing, ALLOWED),
            ["docs/ARCHITECTURE.md: no row for ggmill-text"]
        );
    }
}
