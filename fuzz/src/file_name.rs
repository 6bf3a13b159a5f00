//! Any text as a file name by the convention.

use ggmill_core::FileName;

use crate::allocations::bounded;

/// Parses the name; a parsed name formats to the same text.
pub fn file_name(data: &[u8]) {
    let Ok(text) = str::from_utf8(data) else { return };
    if let Some(name) = bounded(data.len(), 1 << 10, 64, || FileName::parse(text)) {
        assert_eq!(name.to_string(), text);
        assert_eq!(FileName::parse(&name.to_string()), Some(name));
    }
}
