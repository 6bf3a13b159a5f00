//! No text of a library names a flag of the command: hints are values, which the command words.

use std::fs;

use crate::process::{Done, root};
use crate::rust::Source;
use crate::sources::sources;

/// Packages that are not libraries or not published.
const PROGRAMS: &[&str] = &["ggmill-cli", "ggmill-bench", "ggmill-testdata"];

/// Sources of the pages of `ggmill explain`, which document the command.
const PAGES: &[&str] = &[
    "crates/ggmill-check/src/explain.rs",
    "crates/ggmill-check/src/rule.rs",
    "crates/ggmill-check/src/rules/",
    "crates/ggmill-inspect/src/explain/",
];

/// Returns the places where a library has a flag in a string literal.
pub(crate) fn findings() -> Done<Vec<String>> {
    let mut findings = Vec::new();
    let crates = root().join("crates");
    let failed = |error| format!("{}: {error}", crates.display());
    for entry in fs::read_dir(&crates).map_err(failed)? {
        let directory = entry.map_err(failed)?.path();
        if PROGRAMS.iter().any(|name| directory.ends_with(name)) {
            continue;
        }
        for path in sources(&directory.join("src"))? {
            let place =
                path.strip_prefix(root()).unwrap_or(&path).to_string_lossy().replace('\\', "/");
            if PAGES.iter().any(|page| place.starts_with(page)) {
                continue;
            }
            let code = Source::read(&path)?.code();
            let flags = code.iter().filter_map(|(number, line)| Some((number, flag(line)?)));
            findings.extend(flags.map(|(number, flag)| {
                format!(
                    "{place}:{number}: {flag}: a library does not know the flags of the command"
                )
            }));
        }
    }
    findings.sort();
    Ok(findings)
}

/// Returns the first flag in a line: two hyphens after a quote, a space or a parenthesis, followed
/// by a letter.
fn flag(line: &str) -> Option<&str> {
    line.match_indices("--").find_map(|(at, _)| {
        let (before, after) = line.split_at(at);
        let name = after.trim_start_matches("--");
        let begins = before.ends_with(['"', '`', '\'', ' ', '('])
            && name.starts_with(|c: char| c.is_ascii_lowercase());
        let len = name.find(|c: char| !c.is_ascii_lowercase() && c != '-').unwrap_or(name.len());
        after.get(..len + 2).filter(|_| begins)
    })
}

#[cfg(test)]
mod tests {
    use super::flag;

    #[test]
    fn flags_are_found() {
        assert_eq!(flag(r#"    refused("exists; --force replaces it")"#), Some("--force"));
        assert_eq!(flag(r#"    hint("`--arch-file` adds one")"#), Some("--arch-file"));
        for other in ["let a = b - -c;", "\"a--b\"", "// ---", "\"--\"", "x[1..]--"] {
            assert_eq!(flag(other), None, "{other}");
        }
    }
}
