//! Hints for files that could not be opened, by their first bytes.

use ggmill_core::{ErrorKind, ReadAt};
use ggmill_inspect::{FileKind, SNIFFED, sniff};

use crate::Hint;

/// Returns a hint for a file that could not be opened: its kind if it is not GGUF, otherwise advice for
/// the error. `beginning` is its first [`SNIFFED`] bytes.
pub(crate) fn hint_for(
    error: &ggmill_core::Error,
    beginning: &[u8],
    name: Option<&str>,
) -> Option<Hint> {
    match sniff(beginning, name) {
        None | Some(FileKind::Gguf) => match error.kind() {
            // A damaged header can claim a length that no file has; downloading more does not help.
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

/// Returns the first [`SNIFFED`] bytes of a source, which determine its kind; none if reading fails.
pub(crate) fn beginning(source: &dyn ReadAt) -> Vec<u8> {
    let len = usize::try_from(source.len()).unwrap_or(usize::MAX).min(SNIFFED);
    let mut bytes = vec![0; len];
    match source.read_at(0, &mut bytes) {
        Ok(()) => bytes,
        Err(_) => Vec::new(),
    }
}
