//! The bytes that each token stands for.

use crate::attributes::Attributes;
use crate::error::{Error, ErrorKind};
use crate::models::bpe::alphabet;
use crate::models::rwkv;
use crate::spaces::SPACE;
use crate::unicode;
use crate::vocabulary::{Kind, Vocabulary, byte_of_token};

/// The bytes of every token.
#[derive(Debug)]
pub(crate) struct Texts {
    bytes: Vec<u8>,
    starts: Vec<u32>,
    /// Control and unknown tokens.
    hidden: Vec<bool>,
}

/// The most bytes of descriptions of characters that are not in GPT-2's alphabet, for all tokens
/// together: each has the token's whole text.
const MAX_DESCRIBED: usize = 64 << 20;

/// The tokens whose texts are copied at once, and the bytes that are copied of a short one.
const BATCH: usize = 64;
const SHORT: usize = 16;

impl Texts {
    pub(crate) fn new(vocabulary: &Vocabulary) -> Self {
        let mut texts = Self { bytes: Vec::new(), starts: vec![0], hidden: Vec::new() };
        let mut allowance = MAX_DESCRIBED;
        for id in 0..vocabulary.len() {
            let start = texts.bytes.len();
            token(vocabulary, &mut allowance, id, &mut texts.bytes);
            if u32::try_from(texts.bytes.len()).is_err() {
                // Only the text of hostile tokens is longer than the file.
                texts.bytes.truncate(start);
            }
            texts.starts.push(u32::try_from(texts.bytes.len()).unwrap_or(u32::MAX));
            let hidden = Attributes::CONTROL | Attributes::UNKNOWN;
            texts.hidden.push(vocabulary.attributes(id).intersects(hidden));
        }
        texts.bytes.resize(texts.bytes.len() + SHORT, 0);
        texts
    }

    #[inline]
    fn range(&self, id: u32) -> Option<(usize, usize)> {
        let start = *self.starts.get(id as usize)?;
        let end = *self.starts.get((id as usize).checked_add(1)?)?;
        Some((start as usize, end as usize))
    }

    #[inline]
    pub(crate) fn is_hidden(&self, id: u32) -> bool {
        self.hidden.get(id as usize).copied().unwrap_or_default()
    }

    pub(crate) fn get(&self, id: u32) -> Option<&[u8]> {
        let (start, end) = self.range(id)?;
        self.bytes.get(start..end)
    }

    /// Appends the texts of tokens.
    pub(crate) fn append(
        &self,
        ids: &[u32],
        unparse: bool,
        out: &mut Vec<u8>,
    ) -> Result<(), Error> {
        for batch in ids.chunks(BATCH) {
            let mut at = out.len();
            out.resize(at + BATCH * SHORT, 0);
            for (place, &id) in batch.iter().enumerate() {
                let Some((start, end)) = self.range(id) else {
                    out.truncate(at);
                    return Err(no_such(id, self.hidden.len()));
                };
                if !unparse && self.is_hidden(id) {
                    continue;
                }
                let length = end - start;
                if length <= SHORT {
                    // Always sixteen bytes: what is too much is written over.
                    out[at..at + SHORT].copy_from_slice(&self.bytes[start..start + SHORT]);
                } else {
                    out.resize(at + length + (BATCH - place) * SHORT, 0);
                    out[at..at + length].copy_from_slice(&self.bytes[start..end]);
                }
                at += length;
            }
            out.truncate(at);
        }
        Ok(())
    }
}

#[cold]
pub(crate) fn no_such(id: u32, tokens: usize) -> Error {
    Error::new(ErrorKind::NoSuchToken, format!("token {id}, but there are {tokens} tokens"))
}

/// Appends the bytes of a text in the byte-level alphabet. A character outside the alphabet is described as in
/// llama.cpp. A text whose descriptions would exceed `allowance`, the bytes that remain for descriptions, is
/// appended unchanged.
fn from_byte_level(text: &[u8], allowance: &mut usize, out: &mut Vec<u8>) {
    let (mut at, mut others) = (0, 0usize);
    while let Some((point, length)) = unicode::decode(&text[at..]) {
        at += length;
        others += usize::from(alphabet::byte_of(point).is_none());
    }
    match allowance.checked_sub(others.saturating_mul(text.len().saturating_add(32))) {
        Some(left) => *allowance = left,
        None => return out.extend_from_slice(text),
    }
    at = 0;
    while let Some((point, length)) = unicode::decode(&text[at..]) {
        at += length;
        if let Some(byte) = alphabet::byte_of(point) {
            out.push(byte);
            continue;
        }
        let mut character = Vec::new();
        unicode::encode(point, &mut character);
        out.extend_from_slice(b"[UNK_BYTE_0x");
        for byte in character {
            out.extend_from_slice(format!("{byte:02x}").as_bytes());
        }
        out.extend_from_slice(text);
        out.push(b']');
    }
}

/// Appends the text of a token, control tokens included.
fn token(vocabulary: &Vocabulary, allowance: &mut usize, id: u32, out: &mut Vec<u8>) {
    let text = vocabulary.shown(id).unwrap_or_default();
    let attributes = vocabulary.attributes(id);
    let is = |wanted| attributes.intersects(wanted);
    match vocabulary.kind() {
        Kind::None => {}
        Kind::Test => out.extend_from_slice(format!("{id:x}").as_bytes()),
        Kind::Rwkv => rwkv::unescape(text, out),
        Kind::Plamo2 => match byte_of_token(text).filter(|_| is(Attributes::BYTE)) {
            Some(byte) => out.push(byte),
            None => out.extend_from_slice(text),
        },
        Kind::Spm | Kind::Bpe | Kind::Wpm | Kind::Ugm => {
            if is(Attributes::CONTROL | Attributes::UNKNOWN | Attributes::USER_DEFINED) {
                out.extend_from_slice(text);
            } else if is(Attributes::NORMAL) {
                if vocabulary.kind() == Kind::Bpe && !vocabulary.flags().escape_whitespaces {
                    from_byte_level(text, allowance, out);
                } else {
                    unescape_spaces(text, out);
                }
            } else if is(Attributes::BYTE) {
                // The reference ends the process over such a token of WordPiece, or a short one.
                let digits = text.get(3..).filter(|_| vocabulary.kind() != Kind::Wpm);
                out.extend(digits.map(|digits| number(digits.get(..2).unwrap_or(digits))));
            }
        }
    }
}

fn unescape_spaces(text: &[u8], out: &mut Vec<u8>) {
    let mut rest = text;
    while let Some(&first) = rest.first() {
        if let Some(after) = rest.strip_prefix(SPACE) {
            out.push(b' ');
            rest = after;
        } else {
            out.push(first);
            rest = &rest[1..];
        }
    }
}

/// The hexadecimal number at the beginning of at most two characters, as C's `strtol` reads it.
fn number(digits: &[u8]) -> u8 {
    let digits = digits.trim_ascii_start();
    let (negative, digits) = match digits {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        _ => (false, digits),
    };
    let digits = digits.iter().map_while(|&digit| char::from(digit).to_digit(16));
    // At most two digits.
    let value = digits.fold(0, |value, digit| value << 4 | digit);
    let value = u8::try_from(value).unwrap_or_default();
    if negative { value.wrapping_neg() } else { value }
}
