//! The byte-level alphabet: GPT-2's mapping of bytes to printable characters.

/// The character of a byte, in UTF-8.
pub(super) struct Character([u8; 2], usize);

impl Character {
    pub(super) fn as_bytes(&self) -> &[u8] {
        self.0.get(..self.1).unwrap_or_default()
    }
}

/// Returns the code point of a byte: the byte itself if it is printable, otherwise the next unused
/// code point from 256 on.
pub(crate) fn code_point(byte: u8) -> u16 {
    let byte = u16::from(byte);
    match byte {
        0x21..=0x7E | 0xA1..=0xAC | 0xAE..=0xFF => byte,
        0..=0x20 => 0x100 + byte,
        0x7F..=0xA0 => 0x121 + byte - 0x7F,
        _ => 0x143,
    }
}

/// Returns the byte that a code point represents.
pub(crate) fn byte_of(point: u32) -> Option<u8> {
    let byte = match point {
        0x21..=0x7E | 0xA1..=0xAC | 0xAE..=0xFF => point,
        0x100..=0x120 => point - 0x100,
        0x121..=0x142 => point - 0x121 + 0x7F,
        0x143 => 0xAD,
        _ => return None,
    };
    u8::try_from(byte).ok()
}

/// Returns the characters that represent bytes, one for each.
#[cfg(feature = "tokenizer-json")]
pub fn to_byte_level(bytes: &[u8]) -> String {
    let characters = bytes.iter().map(|&byte| char::from_u32(code_point(byte).into()));
    characters.map(Option::unwrap_or_default).collect()
}

/// Returns the bytes that characters represent, or `None` if one of them represents no byte.
#[cfg(feature = "tokenizer-json")]
pub fn from_byte_level(text: &str) -> Option<Vec<u8>> {
    text.chars().map(|c| byte_of(c.into())).collect()
}

/// Returns the character of a byte.
#[expect(clippy::cast_possible_truncation, reason = "a code point below 0x800 has two bytes")]
pub(super) fn character(byte: u8) -> Character {
    let point = code_point(byte);
    if point < 0x80 {
        Character([point as u8, 0], 1)
    } else {
        Character([0xC0 | (point >> 6) as u8, 0x80 | (point & 0x3F) as u8], 2)
    }
}

/// Writes a word in the alphabet to `out`.
pub(super) fn encode(word: &[u8], out: &mut Vec<u8>) {
    out.clear();
    for &byte in word {
        out.extend_from_slice(character(byte).as_bytes());
    }
}

/// Returns the last byte of a text in the alphabet.
pub(super) fn last_byte(text: &[u8]) -> Option<u8> {
    (0..=u8::MAX).find(|&byte| text.ends_with(character(byte).as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_have_distinct_characters() {
        let mut points: Vec<u16> = (0..=255).map(code_point).collect();
        points.sort_unstable();
        points.dedup();
        assert_eq!(points.len(), 256);
        assert_eq!(points.last(), Some(&0x143));
        assert_eq!(character(b' ').as_bytes(), "Ġ".as_bytes());
        assert!((0..=255).all(|byte| byte_of(code_point(byte).into()) == Some(byte)));
        assert_eq!((0..0x11_0000).filter_map(byte_of).count(), 256);
        let ends = |byte| last_byte(&[b"a", character(byte).as_bytes()].concat());
        assert!((0..=255).all(|byte| ends(byte) == Some(byte)) && last_byte(b"").is_none());
        assert_eq!(character(0xAD).as_bytes(), "\u{143}".as_bytes());
    }
}
