//! Descriptions of architectures that a user gives.

use std::path::PathBuf;

use ggmill_arch::Catalogue;

use crate::outcome::Failure;

/// What to do about a checkpoint of an unknown class.
pub(crate) const ARCH_FILE_HINT: &str = "--arch-file adds a description of your own; \
                                         `ggmill explain ARCHITECTURE --description` prints one to \
                                         start from";

/// The architectures to know: the built-in ones, and those of files a user gives.
pub(crate) fn catalogue(files: &[PathBuf]) -> Result<Catalogue, Failure> {
    Ok(ggmill::catalogue(files)?)
}
