//! Every file that the documents for contributors name is there.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use crate::process::{Done, root};

const DOCUMENTS: &[&str] = &["docs/ARCHITECTURE.md", "CONTRIBUTING.md", "SECURITY.md"];

/// Paths outside the repository, and generated ones.
const ELSEWHERE: &[&str] = &["../", "target/", "vendor/"];

/// Returns the names that lead to no file.
pub(super) fn findings() -> Done<Vec<String>> {
    let mut files = BTreeSet::new();
    collect(root(), root(), &mut files)?;
    let mut findings = Vec::new();
    for document in DOCUMENTS {
        let path = root().join(document);
        let text = fs::read_to_string(&path).map_err(|error| format!("{document}: {error}"))?;
        for name in named(&text).filter(|name| !leads_to_a_file(name, &files)) {
            findings.push(format!("{document}: names {name}, and there is no such file"));
        }
    }
    Ok(findings)
}

/// Returns the paths in a text: words between backquotes that have a slash or the extension of a
/// source, with braces expanded.
fn named(text: &str) -> impl Iterator<Item = String> + '_ {
    const ENDINGS: [&str; 6] = [".rs", ".toml", ".py", ".md", ".json", ".txt"];
    let lines = text.lines().flat_map(|line| line.split('`').skip(1).step_by(2));
    let is_path = |word: &&str| {
        let of_a_path = |sign: char| sign.is_alphanumeric() || "_-./<>{},".contains(sign);
        word.chars().all(of_a_path)
            && (word.contains('/') || ENDINGS.iter().any(|ending| word.ends_with(ending)))
    };
    lines.filter(is_path).flat_map(alternatives)
}

/// Expands braces: `a/{b,c}.rs` is `a/b.rs` and `a/c.rs`.
fn alternatives(path: &str) -> Vec<String> {
    let braces = path.split_once('{').and_then(|(before, rest)| {
        let (inside, after) = rest.split_once('}')?;
        Some((before, inside, after))
    });
    match braces {
        Some((before, inside, after)) => {
            inside.split(',').map(|one| format!("{before}{one}{after}")).collect()
        }
        None => vec![path.to_owned()],
    }
}

/// Returns `true` if `name` is the end of the path of a file or directory. Text after a placeholder
/// (`<name>`) is not checked.
fn leads_to_a_file(name: &str, files: &BTreeSet<String>) -> bool {
    if ELSEWHERE.iter().any(|elsewhere| name.starts_with(elsewhere)) {
        return true;
    }
    let certain = match name.split_once('<') {
        Some((before, _)) => before.rsplit_once('/').map_or("", |(directory, _)| directory),
        None => name,
    };
    let certain = certain.trim_matches('/');
    certain.is_empty()
        || files.iter().any(|file| {
            file.strip_suffix(certain).is_some_and(|rest| rest.is_empty() || rest.ends_with('/'))
        })
}

/// Collects the files and directories below a directory, relative to the root.
fn collect(directory: &Path, root: &Path, found: &mut BTreeSet<String>) -> Done {
    let failed = |error| format!("{}: {error}", directory.display());
    for entry in fs::read_dir(directory).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if name == "target" || name.starts_with('.') {
            continue;
        }
        if path.is_dir() {
            collect(&path, root, found)?;
        }
        let place = path.strip_prefix(root).unwrap_or(&path);
        found.insert(place.to_string_lossy().replace('\\', "/"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_found_and_words_are_not() {
        let text = "`a/b.rs`, `ReadAt`, `c.toml` and `d/{e,f}.rs`; `cargo xtask graph`, and/or";
        assert_eq!(named(text).collect::<Vec<_>>(), ["a/b.rs", "c.toml", "d/e.rs", "d/f.rs"]);
    }

    #[test]
    fn a_file_that_is_not_there_is_found() {
        let files = ["crates", "crates/a", "crates/a/b.rs"].map(str::to_owned).into();
        for there in ["crates/a/b.rs", "a/b.rs", "b.rs", "crates/a/", "a/<name>.rs", "<name>.rs"] {
            assert!(leads_to_a_file(there, &files), "{there}");
        }
        for absent in ["c.rs", "ab.rs", "crates/a/c.rs", "b/<name>.rs"] {
            assert!(!leads_to_a_file(absent, &files), "{absent}");
        }
    }
}
