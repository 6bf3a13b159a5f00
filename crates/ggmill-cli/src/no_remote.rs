//! Replaces `remote` in a build without that feature: addresses are recognized, so that they can be
//! rejected by name.

use std::path::{Path, PathBuf};

use crate::outcome::Failure;

pub(crate) fn without_cache() {}

#[expect(clippy::unnecessary_wraps, reason = "with `remote` it can fail")]
pub(crate) fn options(_: &Path) -> Result<ggmill::OpenOptions, Failure> {
    Ok(ggmill::OpenOptions::new())
}

#[expect(clippy::unnecessary_wraps, reason = "with `remote` it can fail")]
pub(crate) fn options_for(_: &[PathBuf]) -> Result<ggmill::OpenOptions, Failure> {
    Ok(ggmill::OpenOptions::new())
}

pub(crate) fn is_remote(path: &Path) -> bool {
    path.to_str().is_some_and(|text| text.contains("://")) && !path.exists()
}

/// Returns an address without its secrets: user name, password, and the query, which can be a
/// signature. `None` for a path.
pub(crate) fn shown(path: &Path) -> Option<String> {
    let text = path.to_str().filter(|_| is_remote(path))?;
    let (scheme, rest) = text.split(['?', '#']).next()?.split_once("://")?;
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    Some(format!("{scheme}://{host}{path}"))
}

pub(crate) fn file_name(_: &Path) -> Option<String> {
    None
}
