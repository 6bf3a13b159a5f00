//! Text of files as text of cells.

use ggmill_core::RawStr;

/// Bytes of a text in a cell, at most; longer ones are cut, and `length` of a metadata entry is that
/// of the whole.
pub const MAX_TEXT: usize = 64 << 10;

/// Text for a cell: as it is where it is UTF-8, otherwise escaped; cut where it is too long.
pub(crate) fn text_of(text: RawStr<'_>) -> String {
    let bytes = text.as_bytes();
    let kept = RawStr::new(bytes.get(..MAX_TEXT).unwrap_or(bytes));
    match kept.to_str() {
        Ok(text) => text.to_owned(),
        // The cut can be within a character, of which less than all is left.
        Err(error) if error.error_len().is_none() && bytes.len() > MAX_TEXT => {
            let whole = kept.as_bytes().get(..error.valid_up_to()).unwrap_or_default();
            RawStr::new(whole).to_string_lossy().into_owned()
        }
        Err(_) => kept.to_string(),
    }
}
