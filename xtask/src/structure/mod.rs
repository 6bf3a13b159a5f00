//! What `docs/ARCHITECTURE.md` claims of the sources, held against them.

mod circles;
mod one_of_each;
mod paths;
mod tokens;

use crate::process::Done;

/// Claims that do not hold yet, each by a file it is about. The list only gets shorter.
const KNOWN: &[&str] = &[
    "crates/ggmill-cli/src/making.rs",
    "crates/ggmill-cli/src/args.rs",
    "crates/ggmill-edit/src/edit/apply.rs",
    "crates/ggmill-pipeline/src/expression/evaluate.rs",
    "crates/ggmill-check/src/input.rs",
    "crates/ggmill-io/src/shards.rs",
];

/// Everything that is found, of every check.
pub(crate) fn findings() -> Done<Vec<String>> {
    let found = [circles::findings()?, one_of_each::findings()?].concat();
    Ok(found.into_iter().filter(|finding| !KNOWN.iter().any(|known| finding.contains(known))).collect())
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_sources_are_as_claimed() {
        let findings = super::findings().unwrap();
        assert!(findings.is_empty(), "{}", findings.join("\n"));
    }
}
