//! The byte-level alphabet: GPT-2's mapping of bytes to printable characters.

use crate::models::bpe::alphabet;

/// Returns the characters that represent bytes, one for each.
pub fn to_byte_level(bytes: &[u8]) -> String {
    bytes
        .iter()
        .map(|&byte| char::from_u32(alphabet::code_point(byte).into()).unwrap_or_default())
        .collect()
}

/// Returns the bytes that characters represent, or `None` if one of them represents no byte.
pub fn from_byte_level(text: &str) -> Option<Vec<u8>> {
    text.chars().map(|c| alphabet::byte_of(c.into())).collect()
}
