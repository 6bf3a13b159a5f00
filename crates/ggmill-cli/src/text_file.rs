//! Text that a user hands over: rules, values, descriptions.

use std::path::Path;

use crate::outcome::Failure;

/// The text of a file of at most `limit` bytes: see [`ggmill::read_text`].
pub(crate) fn read_text(path: &Path, limit: u64) -> Result<String, Failure> {
    Ok(ggmill::read_text(path, limit)?)
}

/// The bytes of a file of at most `limit` bytes: see [`ggmill::read_bytes`].
pub(crate) fn read_bytes(path: &Path, limit: u64) -> Result<Vec<u8>, Failure> {
    Ok(ggmill::read_bytes(path, limit)?)
}
