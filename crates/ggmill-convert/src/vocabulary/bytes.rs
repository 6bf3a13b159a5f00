//! The alphabet of byte-level models: each byte has a character that can be seen.

/// The character that stands for a byte: itself where it can be seen, and one from U+0100 on, in
/// order, where it cannot.
fn character(byte: u8) -> char {
    let hidden = match byte {
        0..=0x20 => u32::from(byte),
        0x7f..=0xa0 => u32::from(byte).saturating_sub(0x7f - 0x21),
        0xad => 0x43,
        _ => return char::from(byte),
    };
    char::from_u32(hidden.saturating_add(0x100)).unwrap_or(char::REPLACEMENT_CHARACTER)
}

/// The byte that a character stands for.
fn byte(character: char) -> Option<u8> {
    Some(match u32::from(character) {
        code @ (0x21..=0x7e | 0xa1..=0xac | 0xae..=0xff) => u8::try_from(code).ok()?,
        code @ 0x100..=0x120 => u8::try_from(code.saturating_sub(0x100)).ok()?,
        code @ 0x121..=0x142 => u8::try_from(code.saturating_sub(0x121 - 0x7f)).ok()?,
        0x143 => 0xad,
        _ => return None,
    })
}

/// A text with a character for each of its bytes.
pub(crate) fn to_alphabet(text: &str) -> String {
    alphabet(text.as_bytes())
}

/// A character for each byte.
pub(crate) fn alphabet(bytes: &[u8]) -> String {
    bytes.iter().copied().map(character).collect()
}

/// The bytes that characters stand for; `None` where one stands for none.
pub(crate) fn of_alphabet(text: &str) -> Option<Vec<u8>> {
    text.chars().map(byte).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_has_a_character_of_its_own() {
        for number in 0..=255 {
            assert_eq!(byte(character(number)), Some(number), "{number}");
        }
        assert_eq!(to_alphabet(" \n\u{ad}\u{7f}a"), "ĠĊÂŃġa");
        assert_eq!(of_alphabet("Ġa"), Some(b" a".to_vec()));
        assert_eq!(of_alphabet("a b"), None);
    }
}
