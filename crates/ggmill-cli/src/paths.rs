//! Paths, and addresses of files elsewhere, as they are shown.

use std::fmt;
use std::path::Path;

use crate::remote;

/// A path fit to be shown; an address without its secrets.
pub(crate) fn shown(path: &Path) -> impl fmt::Display + '_ {
    ggmill::display_path(path)
}

/// A path as text of a document, such as a report; an address without its secrets.
pub(crate) fn text_of(path: &Path) -> String {
    remote::shown(path).unwrap_or_else(|| path.to_string_lossy().into_owned())
}

/// The last part of a path or of an address.
pub(crate) fn file_name(path: &Path) -> String {
    let name = || path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    remote::file_name(path).unwrap_or_else(name)
}
