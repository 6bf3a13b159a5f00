//! The claims of `docs/ARCHITECTURE.md` about the sources.

mod circles;
mod documents;
mod one_of_each;
mod paths;
mod surface;
mod tokens;
mod unsafe_code;

use crate::process::Done;

/// Everything that is found, of every check.
pub(crate) fn findings() -> Done<Vec<String>> {
    Ok([
        circles::findings()?,
        one_of_each::findings()?,
        surface::findings()?,
        unsafe_code::findings()?,
        documents::findings()?,
    ]
    .concat())
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_sources_are_as_claimed() {
        let findings = super::findings().unwrap();
        assert!(findings.is_empty(), "{}", findings.join("\n"));
    }
}
