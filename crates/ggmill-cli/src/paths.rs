//! Paths, and addresses of files elsewhere, as they are shown.

use std::fmt;
use std::path::Path;

use ggmill_core::RawStr;

use crate::outcome::Failure;
use crate::remote;

/// A path fit to be shown; an address without its secrets.
pub(crate) fn shown(path: &Path) -> impl fmt::Display + '_ {
    ggmill::display_path(path)
}

/// The bytes of a path on this machine, such as that of an output.
pub(crate) fn raw(path: &Path) -> RawStr<'_> {
    RawStr::new(path.as_os_str().as_encoded_bytes())
}

/// A path as text of a document, such as a report; an address without its secrets.
pub(crate) fn text_of(path: &Path) -> String {
    remote::shown(path).unwrap_or_else(|| path.to_string_lossy().into_owned())
}

/// Refuses a path that does not exist before anything is said of what it is not.
pub(crate) fn refuse_missing(src: &Path) -> Result<(), Failure> {
    if src.symlink_metadata().is_ok() {
        return Ok(());
    }
    Err(Failure::new(format_args!("{}: no such file or directory", shown(src)))
        .with_hint(repository_hint(src)))
}

/// The address that was meant by a name of a repository, where it reads like one.
fn repository_hint(src: &Path) -> Option<String> {
    let text = src.to_string_lossy();
    let id = text.trim_end_matches('/');
    let is_id = |part: &str| {
        part.starts_with(|c: char| c.is_ascii_alphanumeric())
            && part.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'))
    };
    match id.split('/').collect::<Vec<_>>()[..] {
        [owner, name] if is_id(owner) && is_id(name) && !Path::new(owner).exists() => {
            Some(format!("a repository on the Hugging Face Hub is `hf://{id}`"))
        }
        _ => None,
    }
}

/// The last part of a path or of an address.
pub(crate) fn file_name(path: &Path) -> String {
    let name = || path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    remote::file_name(path).unwrap_or_else(name)
}
