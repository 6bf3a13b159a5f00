//! Checks of the claims in `docs/ARCHITECTURE.md` about the sources.

mod crate_table;
mod cycles;
mod documents;
mod paths;
mod surface;
mod unsafe_code;

use crate::process::Done;

/// Returns the findings of every check. `allowed` has every crate with the crates of this workspace
/// that it may depend on.
pub(crate) fn findings(allowed: &[(&str, &[&str])]) -> Done<Vec<String>> {
    Ok([
        crate_table::findings(allowed)?,
        cycles::findings()?,
        surface::findings()?,
        unsafe_code::findings()?,
        documents::findings()?,
    ]
    .concat())
}
