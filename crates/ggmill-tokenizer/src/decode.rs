//! From tokens back to text.

use crate::attributes::Attributes;
use crate::error::{Error, ErrorKind};
use crate::models::{plamo2, rwkv};
use crate::spaces::SPACE;
use crate::tokenizer::Tokenizer;
use crate::unicode;
use crate::vocabulary::{Kind, Vocabulary};

/// How tokens become text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct DecodeOptions {
    /// A begin token at the beginning and an end token at the end are left out, where the
    /// vocabulary adds them.
    pub remove_special: bool,
    /// Control and unknown tokens are shown as their text; otherwise they are left out.
    pub unparse_special: bool,
}

impl DecodeOptions {
    /// Every token, control tokens left out.
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether a begin token at the beginning and an end token at the end are left out.
    #[must_use]
    pub fn remove_special(mut self, remove: bool) -> Self {
        self.remove_special = remove;
        self
    }

    /// Whether control and unknown tokens are shown as their text.
    #[must_use]
    pub fn unparse_special(mut self, unparse: bool) -> Self {
        self.unparse_special = unparse;
        self
    }
}

/// The bytes of every token.
#[derive(Debug)]
pub(crate) struct Texts {
    bytes: Vec<u8>,
    starts: Vec<u32>,
    /// Control and unknown tokens.
    hidden: Vec<bool>,
}

/// The tokens whose texts are copied at once, and the bytes that are copied of a short one.
const BATCH: usize = 64;
const SHORT: usize = 16;

impl Texts {
    pub(crate) fn new(vocabulary: &Vocabulary) -> Self {
        let mut texts = Self { bytes: Vec::new(), starts: vec![0], hidden: Vec::new() };
        let alphabet = Alphabet::new();
        for id in 0..vocabulary.len() {
            let start = texts.bytes.len();
            token(vocabulary, &alphabet, id, &mut texts.bytes);
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
    fn append(&self, ids: &[u32], unparse: bool, out: &mut Vec<u8>) -> Result<(), Error> {
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
    Error::new(ErrorKind::NoSuchToken, format!("token {id}: there are {tokens} tokens"))
}

/// GPT-2's characters for bytes.
struct Alphabet([Option<u8>; 0x144]);

impl Alphabet {
    fn new() -> Self {
        let mut bytes = [None; 0x144];
        let mut others = 0x100;
        for byte in 0..=u8::MAX {
            let is_itself = matches!(byte, 0x21..=0x7E | 0xA1..=0xAC | 0xAE..=0xFF);
            let place = if is_itself { usize::from(byte) } else { others };
            others += usize::from(!is_itself);
            bytes[place] = Some(byte);
        }
        Self(bytes)
    }

    /// The bytes of a text in this alphabet; what is not in it is described, as the reference does.
    fn decode(&self, text: &[u8], out: &mut Vec<u8>) {
        let mut at = 0;
        while let Some((point, length)) = unicode::decode(&text[at..]) {
            at += length;
            if let Some(byte) = self.0.get(point as usize).copied().flatten() {
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
}

/// Appends the text of a token, control tokens included.
fn token(vocabulary: &Vocabulary, alphabet: &Alphabet, id: u32, out: &mut Vec<u8>) {
    let text = vocabulary.shown(id).unwrap_or_default();
    let attributes = vocabulary.attributes(id);
    let is = |wanted| attributes.intersects(wanted);
    match vocabulary.kind() {
        Kind::None => {}
        Kind::Test => out.extend_from_slice(format!("{id:x}").as_bytes()),
        Kind::Rwkv => rwkv::unescape(text, out),
        Kind::Plamo2 => match plamo2::byte(text).filter(|_| is(Attributes::BYTE)) {
            Some(byte) => out.push(byte),
            None => out.extend_from_slice(text),
        },
        Kind::Spm | Kind::Bpe | Kind::Wpm | Kind::Ugm => {
            if is(Attributes::CONTROL | Attributes::UNKNOWN | Attributes::USER_DEFINED) {
                out.extend_from_slice(text);
            } else if is(Attributes::NORMAL) {
                if vocabulary.kind() == Kind::Bpe && !vocabulary.flags().escape_whitespaces {
                    alphabet.decode(text, out);
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

impl Tokenizer {
    /// The bytes that a token stands for, control tokens with their text; `None` for an ID beyond
    /// the last.
    pub fn piece(&self, id: u32) -> Option<&[u8]> {
        self.texts().get(id)
    }

    /// Appends the text of tokens, as `llama_detokenize` makes it.
    ///
    /// Fails for an ID beyond the last; what it appended until then stays.
    ///
    /// Spaces before punctuation go where the vocabulary says so
    /// ([`Flags::clean_spaces`](crate::Flags)), and a space at the beginning where it adds one.
    pub fn decode(
        &self,
        ids: &[u32],
        options: &DecodeOptions,
        out: &mut Vec<u8>,
    ) -> Result<(), Error> {
        let vocabulary = self.vocabulary();
        if vocabulary.kind() == Kind::None {
            return Ok(());
        }
        let (flags, special) = (vocabulary.flags(), vocabulary.special_ids());
        let mut ids = ids;
        let mut remove_space = flags.add_space_prefix;
        if options.remove_special {
            if flags.add_bos && ids.first().is_some_and(|&first| special.bos == Some(first)) {
                remove_space = false;
                ids = &ids[1..];
            }
            if flags.add_eos && ids.last().is_some_and(|&last| special.eos == Some(last)) {
                ids = &ids[..ids.len() - 1];
            }
        }
        let start = out.len();
        let texts = self.texts();
        if let Some((first, rest)) = ids.split_first().filter(|_| remove_space) {
            texts.append(&[*first], options.unparse_special, out)?;
            if out.get(start) == Some(&b' ') {
                out.remove(start);
            }
            ids = rest;
        }
        texts.append(ids, options.unparse_special, out)?;
        if flags.clean_spaces {
            let length = clean(&mut out[start..]);
            out.truncate(start + length);
        }
        Ok(())
    }
}

/// Removes spaces before punctuation and contractions; the length that is left. The reference goes
/// over the text three times, each time over what the last left.
pub(crate) fn clean(text: &mut [u8]) -> usize {
    let length = pass(text, |text, at| {
        text[at - 1] == b' ' && matches!(text[at], b'?' | b'!' | b'.' | b',')
    });
    let length = apostrophes(&mut text[..length]);
    pass(&mut text[..length], |text, at| {
        if text[at - 1] != b' ' || text[at] != b'\'' {
            return false;
        }
        match text.get(at + 1) {
            Some(b's' | b'm') => true,
            Some(b'r' | b'v') => text.get(at + 2) == Some(&b'e'),
            _ => false,
        }
    })
}

/// Removes the byte before each place where `remove` says so; the length that is left.
fn pass(text: &mut [u8], remove: impl Fn(&[u8], usize) -> bool) -> usize {
    let mut length = text.len().min(1);
    for at in 1..text.len() {
        if remove(text, at) {
            length -= 1;
        }
        text[length] = text[at];
        length += 1;
    }
    length
}

/// Removes the spaces around an apostrophe between two.
fn apostrophes(text: &mut [u8]) -> usize {
    let mut length = text.len().min(1);
    let mut at = 1;
    while at < text.len() {
        let byte = text[at];
        if byte == b'\'' && text[at - 1] == b' ' && text.get(at + 1) == Some(&b' ') {
            length -= 1;
            at += 1;
            text[at] = 0;
        }
        text[length] = byte;
        length += 1;
        at += 1;
    }
    length
}
