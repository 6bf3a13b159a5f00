//! Checks that `unsafe` is only in the files that `docs/ARCHITECTURE.md` lists, tests included. The
//! lint `unsafe_code` refuses it elsewhere unless a file permits it.

use std::fs;
use std::path::{Path, PathBuf};

use crate::process::{Done, root};
use crate::rust::Source;

/// The files and directories (with a slash) that may have it: those of published crates, then those
/// of unpublished programs and tests.
const PLACES: &[&str] = &[
    "crates/ggmill-quant/src/arch/",
    "crates/ggmill-io/src/map.rs",
    "crates/ggmill-python/src/memory.rs",
    "crates/ggmill-wasm/src/exports.rs",
    "crates/ggmill-bench/src/walk.rs",
    "crates/ggmill-bench/src/bin/open_worker.rs",
    "crates/ggmill-core/tests/allocations.rs",
    "crates/ggmill-convert/tests/memory.rs",
    "crates/ggmill-io/tests/it/",
    "crates/ggmill-pipeline/tests/memory.rs",
    "fuzz/src/allocations.rs",
];

const DOCUMENT: &str = "docs/ARCHITECTURE.md";

/// Returns uses in other files, entries without any use, and entries that the document does not
/// name.
pub(super) fn findings() -> Done<Vec<String>> {
    let mut sources = Vec::new();
    for directory in ["crates", "fuzz", "xtask"] {
        rust_files(&root().join(directory), &mut sources)?;
    }
    sources.sort();
    let mut using = Vec::new();
    for path in sources {
        let place = path.strip_prefix(root()).unwrap_or(&path);
        let place = place.to_string_lossy().replace('\\', "/");
        let source = Source::read(&path)?;
        if uses(&source) {
            using.push(place);
        }
    }
    Ok(held(&using, &read(&root().join(DOCUMENT))?))
}

fn read(path: &Path) -> Done<String> {
    fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
}

/// Returns `true` if a source has the keyword in code.
fn uses(source: &Source) -> bool {
    source.all_tokens().iter().any(|token| token.word() == Some("unsafe"))
}

/// Compares the files that use it, and the text of the document, with the list.
fn held(using: &[String], document: &str) -> Vec<String> {
    let is_in = |file: &str, place: &str| {
        if place.ends_with('/') { file.starts_with(place) } else { file == place }
    };
    let elsewhere = using
        .iter()
        .filter(|file| PLACES.iter().all(|place| !is_in(file, place)))
        .map(|file| format!("{file}: unsafe code, which belongs in one of {}", PLACES.join(", ")));
    let unused = PLACES
        .iter()
        .filter(|place| using.iter().all(|file| !is_in(file, place)))
        .map(|place| format!("{place}: may have unsafe code, and has none"));
    let unnamed = PLACES
        .iter()
        .filter(|place| !document.contains(**place))
        .map(|place| format!("{DOCUMENT}: does not name {place}, which has unsafe code"));
    elsewhere.chain(unused).chain(unnamed).collect()
}

/// Collects the Rust files below a directory, without target directories.
fn rust_files(directory: &Path, found: &mut Vec<PathBuf>) -> Done {
    let failed = |error| format!("{}: {error}", directory.display());
    for entry in fs::read_dir(directory).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if path.is_dir() {
            if name != "target" && !name.starts_with('.') {
                rust_files(&path, found)?;
            }
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_keyword_is_found_in_code_alone() {
        let uses = |source: &str| uses(&Source::parse("a.rs", source).unwrap());
        assert!(uses("#[cfg(test)]\nmod tests {\n    fn f() { unsafe { g() } }\n}"));
        assert!(uses("unsafe impl Send for A {}"));
        assert!(!uses("// unsafe\n#![forbid(unsafe_code)]\nconst A: &str = \"unsafe\";"));
    }

    #[test]
    fn every_difference_from_the_list_is_found() {
        let using: Vec<String> = PLACES
            .iter()
            .map(
                |place| if place.ends_with('/') { format!("{place}a.rs") } else { (*place).into() },
            )
            .collect();
        let document = PLACES.join("\n");
        assert_eq!(held(&using, &document), [""; 0]);
        let more = [using.clone(), vec!["crates/ggmill-core/src/lib.rs".to_owned()]].concat();
        assert_eq!(held(&more, &document).len(), 1);
        assert_eq!(held(&using[1..], &document).len(), 1);
        assert_eq!(held(&using, "").len(), PLACES.len());
    }
}
