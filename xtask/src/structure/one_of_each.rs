//! One trait that reads bytes by position, and one type for a model.

use std::fs;

use crate::process::{Done, root};
use crate::sources::{code, sources};

/// A kind of thing there is one of: what its definition looks like, and the file that has it.
struct One {
    what: &'static str,
    words: &'static [&'static str],
    file: &'static str,
}

const ONES: &[One] = &[
    One {
        what: "trait that reads bytes by position",
        words: &["trait ReadAt", "trait Read", "trait Source", "trait Medium"],
        file: "crates/ggmill-core/src/read_at.rs",
    },
    One {
        what: "type for a model in files",
        words: &["struct Model<", "struct Model ", "struct Model;"],
        file: "crates/ggmill-core/src/model/mod.rs",
    },
];

/// Traits whose name could be one of those and whose purpose is another, by file.
const OTHERS: &[(&str, &str)] = &[
    (
        "crates/ggmill-io/src/in_place/protocol.rs",
        "a disk that is written, inserted into and synced; tests have one that loses power",
    ),
    ("crates/ggmill-testdata/src/models.rs", "a model that is made for tests"),
];

/// Definitions beside the one.
pub(super) fn findings() -> Done<Vec<String>> {
    let crates = root().join("crates");
    let failed = |error| format!("{}: {error}", crates.display());
    let mut findings = Vec::new();
    for entry in fs::read_dir(&crates).map_err(failed)? {
        for path in sources(&entry.map_err(failed)?.path().join("src"))? {
            let place =
                path.strip_prefix(root()).unwrap_or(&path).to_string_lossy().replace('\\', "/");
            let source = fs::read_to_string(&path).map_err(|error| format!("{place}: {error}"))?;
            if OTHERS.iter().any(|(file, _)| *file == place) {
                continue;
            }
            findings.extend(others(&place, &source));
        }
    }
    findings.sort();
    Ok(findings)
}

fn others(place: &str, source: &str) -> Vec<String> {
    let mut findings = Vec::new();
    for (number, line) in code(source) {
        let another =
            |one: &&One| one.file != place && one.words.iter().any(|word| line.contains(word));
        findings.extend(ONES.iter().find(another).map(|one| {
            format!("{place}:{number}: another {}, beside that of {}", one.what, one.file)
        }));
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_one_is_found() {
        let source = "/// trait ReadAt\npub trait ReadAt: Debug {\n}\npub struct Model<'a>(&'a \
                      str);\npub struct Models;\n";
        assert_eq!(others("crates/a/src/b.rs", source).len(), 2);
        assert_eq!(others("crates/ggmill-core/src/read_at.rs", source).len(), 1);
    }
}
