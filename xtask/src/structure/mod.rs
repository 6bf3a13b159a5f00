//! What `docs/ARCHITECTURE.md` claims of the sources, held against them.

mod circles;
mod one_of_each;
mod paths;
mod tokens;

use crate::process::Done;

/// Claims that do not hold yet, each by the files it is about. What is here and holds fails, so the list only gets shorter.
const KNOWN: &[&str] = &[
    "crates/ggmill-cli/src/making.rs",
    "crates/ggmill-cli/src/args.rs",
    "crates/ggmill-edit/src/edit/apply.rs",
    "crates/ggmill-pipeline/src/plan.rs",
    "crates/ggmill-quantize/src/remarks.rs",
    "crates/ggmill-check/src/input.rs",
    "crates/ggmill-io/src/shards.rs",
];

/// Everything that is found, of every check.
pub(crate) fn findings() -> Done<Vec<String>> {
    let found = [circles::findings()?, one_of_each::findings()?].concat();
    let known = |finding: &String| KNOWN.iter().any(|known| finding.contains(known));
    let settled = KNOWN
        .iter()
        .filter(|known| !found.iter().any(|finding| finding.contains(**known)))
        .map(|known| format!("{known}: no longer found; take it off the list"));
    let settled: Vec<String> = settled.collect();
    Ok(found.into_iter().filter(|finding| !known(finding)).chain(settled).collect())
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_sources_are_as_claimed() {
        let findings = super::findings().unwrap();
        assert!(findings.is_empty(), "{}", findings.join("\n"));
    }
}
