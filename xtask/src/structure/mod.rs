//! The claims of `docs/ARCHITECTURE.md` about the sources.

mod circles;
mod one_of_each;
mod paths;
mod surface;
mod tokens;

use crate::process::Done;

/// Everything that is found, of every check.
pub(crate) fn findings() -> Done<Vec<String>> {
    Ok([circles::findings()?, one_of_each::findings()?, surface::findings()?].concat())
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_sources_are_as_claimed() {
        let findings = super::findings().unwrap();
        assert!(findings.is_empty(), "{}", findings.join("\n"));
    }
}
