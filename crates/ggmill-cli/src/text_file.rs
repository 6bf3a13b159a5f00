//! Text that a user hands over in a file: rules, values, descriptions.

use std::path::Path;

use ggmill_io::RandomAccess;

use crate::outcome::Failure;
use crate::paths::shown;

/// The text of a file of at most `limit` bytes, without the byte order mark that some editors put
/// first.
pub(crate) fn read_text(path: &Path, limit: u64) -> Result<String, Failure> {
    let bytes =
        RandomAccess::open(path).and_then(|file| file.read_whole(limit)).map_err(Failure::new)?;
    let mut text = String::from_utf8(bytes).map_err(|error| {
        Failure::new(format_args!(
            "{}: not UTF-8 from byte {}",
            shown(path),
            error.utf8_error().valid_up_to()
        ))
    })?;
    if text.starts_with('\u{feff}') {
        text.drain(..'\u{feff}'.len_utf8());
    }
    Ok(text)
}
