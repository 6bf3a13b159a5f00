//! The Rust files of a directory.

use std::fs;
use std::path::{Path, PathBuf};

use crate::process::Done;

/// Returns the Rust files below a directory, in order, without files of unit tests.
pub(crate) fn sources(directory: &Path) -> Done<Vec<PathBuf>> {
    let failed = |error| format!("{}: {error}", directory.display());
    let mut found = Vec::new();
    let mut entries =
        fs::read_dir(directory).map_err(failed)?.collect::<Result<Vec<_>, _>>().map_err(failed)?;
    entries.sort_by_key(fs::DirEntry::file_name);
    for path in entries.iter().map(fs::DirEntry::path) {
        if path.is_dir() {
            found.extend(sources(&path)?);
        } else if path.extension().is_some_and(|extension| extension == "rs")
            && path.file_name().is_some_and(|name| name != "tests.rs")
        {
            found.push(path);
        }
    }
    Ok(found)
}
