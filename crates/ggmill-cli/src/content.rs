//! What is wrong with the content of a file that could not be opened, and what it is instead.

use ggmill_core::ErrorKind;
use ggmill_inspect::{FileKind, sniff};

/// The kind of file, if it is not GGUF, and otherwise what to do about the error.
pub(crate) fn hint_for_content(
    error: &ggmill_core::Error,
    beginning: &[u8],
    name: Option<&str>,
) -> Option<String> {
    match sniff(beginning, name) {
        None | Some(FileKind::Gguf) => match error.kind() {
            // Lengths that no file has, or counts that no length is known for, are not made good by
            // more of the same.
            ErrorKind::Truncated
                if error.needed_length().is_some_and(|length| length < 1 << 50) =>
            {
                Some("download the rest of the file, or the whole file again".to_owned())
            }
            ErrorKind::Truncated => {
                Some("the file is damaged or truncated; download it again".to_owned())
            }
            ErrorKind::Version => {
                Some("the file is damaged, or newer than this program".to_owned())
            }
            _ => None,
        },
        Some(found) => {
            let advice = found.hint().map(|advice| format!("; {advice}")).unwrap_or_default();
            Some(format!("this is {found}{advice}"))
        }
    }
}
