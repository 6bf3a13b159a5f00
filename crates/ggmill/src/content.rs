//! What a file is that could not be opened, by its first bytes.

use ggmill_core::{ErrorKind, ReadAt};
use ggmill_inspect::{FileKind, SNIFFED, sniff};

use crate::Hint;

/// Returns what a file is if it is not GGUF, and otherwise what to do about the error.
pub(crate) fn hint_for(
    error: &ggmill_core::Error,
    beginning: &[u8],
    name: Option<&str>,
) -> Option<Hint> {
    match sniff(beginning, name) {
        None | Some(FileKind::Gguf) => match error.kind() {
            // No download completes a file with lengths that no file has, or with counts whose
            // length is unknown.
            ErrorKind::Truncated
                if error.needed_length().is_some_and(|length| length < 1 << 50) =>
            {
                Some(Hint::DownloadRest)
            }
            ErrorKind::Truncated => Some(Hint::DownloadAgain),
            ErrorKind::Version => Some(Hint::DamagedOrNewer),
            _ => None,
        },
        Some(found) => Some(Hint::Content(found)),
    }
}

/// Returns the first bytes of a source, enough to tell what it is.
pub(crate) fn beginning(source: &dyn ReadAt) -> Vec<u8> {
    let len = usize::try_from(source.len()).unwrap_or(usize::MAX).min(SNIFFED);
    let mut bytes = vec![0; len];
    match source.read_at(0, &mut bytes) {
        Ok(()) => bytes,
        Err(_) => Vec::new(),
    }
}
