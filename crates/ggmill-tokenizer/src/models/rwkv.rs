//! The longest token first, over bytes.

use super::Fragment;
use crate::error::{Error, ErrorKind};
use crate::sink::Sink;
use crate::trie::Trie;
use crate::vocabulary::Vocabulary;

#[derive(Debug)]
pub(crate) struct Rwkv {
    tokens: Trie,
}

impl Rwkv {
    pub(crate) fn new(vocabulary: &Vocabulary) -> Result<Self, Error> {
        let mut bytes = Vec::new();
        let mut ends = Vec::new();
        for id in 0..vocabulary.len() {
            unescape(vocabulary.text(id).unwrap_or_default(), &mut bytes);
            ends.push(bytes.len());
        }
        let starts = std::iter::once(0).chain(ends.iter().copied());
        let texts = starts.zip(&ends).zip(0..).map(|((start, &end), id)| (&bytes[start..end], id));
        let tokens = Trie::new(texts)
            .ok_or_else(|| Error::new(ErrorKind::Limit, "not enough memory for the tokens"))?;
        Ok(Self { tokens })
    }

    /// Where no token begins a text, the reference gives the unknown token, and it never returns
    /// where only longer tokens begin with its first byte; here the byte is unknown in both cases,
    /// and dropped where the vocabulary has no unknown token.
    pub(crate) fn encode<S: Sink>(
        &self,
        vocabulary: &Vocabulary,
        fragment: Fragment<'_>,
        out: &mut S,
    ) {
        let unknown = vocabulary.special_ids().unk;
        let mut at = 0;
        while let Some(rest) = fragment.text.get(at..).filter(|rest| !rest.is_empty()) {
            let found = self.tokens.longest(rest);
            let (length, id) = found.map_or((1, unknown), |(length, id)| (length, Some(id)));
            if let Some(id) = id {
                out.push(id, fragment.start + at, fragment.start + at + length);
            }
            at += length;
        }
    }
}

/// Appends the bytes of a token: `\t`, `\n`, `\r` and `\xHH` are one byte, and a backslash before
/// anything else is left out.
pub(crate) fn unescape(text: &[u8], out: &mut Vec<u8>) {
    let mut bytes = text.iter().copied();
    while let Some(byte) = bytes.next() {
        if byte != b'\\' {
            out.push(byte);
            continue;
        }
        match bytes.next() {
            Some(b't') => out.push(b'\t'),
            Some(b'n') => out.push(b'\n'),
            Some(b'r') => out.push(b'\r'),
            Some(b'x') => {
                if let (Some(high), Some(low)) = (bytes.next(), bytes.next()) {
                    out.push((digit(high) << 4).wrapping_add(digit(low)));
                }
            }
            Some(other) => out.push(other),
            None => {}
        }
    }
}

/// The reference's value of a hexadecimal digit, for which it accepts any byte.
fn digit(byte: u8) -> u8 {
    // `char` is signed there: a byte beyond ASCII is less than `a`.
    if (b'a'..0x80).contains(&byte) {
        byte.wrapping_sub(b'a').wrapping_add(10)
    } else {
        byte.wrapping_sub(b'0')
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_are_those_of_the_reference() {
        let mut out = Vec::new();
        unescape(br"a\tb\n\r\\\x41\xc3\xA9\q\x4", &mut out);
        // Upper case digits are wrong digits to it, but digits.
        assert_eq!(out, b"a\tb\n\r\\A\xc3\x19q");
        out.clear();
        unescape(b"\\", &mut out);
        assert!(out.is_empty());
    }
}
