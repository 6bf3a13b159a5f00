//! Paths and addresses in messages.

use std::fmt;
use std::path::Path;

use ggmill_core::RawStr;

/// Returns a path for a message: control characters are escaped, and an address has no secrets (user
/// name, password, query).
///
/// ```
/// let path = std::path::Path::new("a\u{1b}b.gguf");
/// assert_eq!(ggmill::display_path(path).to_string(), "a\\u{1b}b.gguf");
/// ```
pub fn display_path(path: &Path) -> impl fmt::Display + '_ {
    match address(path) {
        Some(address) => Shown::Address(address),
        None => Shown::Path(RawStr::new(path.as_os_str().as_encoded_bytes())),
    }
}

enum Shown<'a> {
    Address(String),
    Path(RawStr<'a>),
}

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(text) => RawStr::from(&**text).fmt(f),
            Self::Path(path) => path.fmt(f),
        }
    }
}

/// Returns an address without its secrets; `None` for a local path, also if an existing file is named
/// like an address.
#[cfg(feature = "remote")]
pub(crate) fn address(path: &Path) -> Option<String> {
    let text = path.to_str().filter(|text| text.contains(":/"))?;
    match ggmill_remote::Location::parse(text) {
        Ok(None) => None,
        _ if path.exists() => None,
        Ok(Some(location)) => Some(location.to_string()),
        Err(error) => Some(error.name().to_owned()),
    }
}

#[cfg(not(feature = "remote"))]
pub(crate) fn address(path: &Path) -> Option<String> {
    let text = path.to_str().filter(|text| text.contains("://") && !path.exists())?;
    let (scheme, rest) = text.split(['?', '#']).next()?.split_once("://")?;
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    Some(format!("{scheme}://{host}{path}"))
}

/// Returns `true` if a path is an address, and no local file has this name.
#[cfg(feature = "files")]
pub(crate) fn is_remote(path: &Path) -> bool {
    address(path).is_some()
}
