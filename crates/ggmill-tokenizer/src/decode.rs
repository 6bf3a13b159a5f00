//! Decoding tokens to text: all at once, or one by one.

use crate::error::{Error, ErrorKind};
use crate::models::bpe::alphabet;
use crate::models::greedy::unescape;
use crate::symbols::SPACE;
use crate::tokenizer::Tokenizer;
use crate::unicode;
use crate::vocabulary::{Attributes, Kind, Vocabulary, byte_of_token};

/// Options for decoding tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct DecodeOptions {
    /// Omits BOS at the beginning and EOS at the end if the vocabulary adds them.
    pub remove_special: bool,
    /// Writes control and unknown tokens as their text instead of omitting them.
    pub unparse_special: bool,
}

impl DecodeOptions {
    /// Decodes every token and omits control tokens.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets whether BOS at the beginning and EOS at the end are omitted.
    #[must_use]
    pub fn remove_special(mut self, remove: bool) -> Self {
        self.remove_special = remove;
        self
    }

    /// Sets whether control and unknown tokens are written as their text.
    #[must_use]
    pub fn unparse_special(mut self, unparse: bool) -> Self {
        self.unparse_special = unparse;
        self
    }
}

impl Tokenizer {
    /// Returns the decoded bytes of a token, the text for a control token, or `None` if there is no
    /// such token.
    pub fn piece(&self, id: u32) -> Option<&[u8]> {
        self.texts().get(id)
    }

    /// Appends the text of tokens, as `llama_detokenize` does.
    ///
    /// Removes spaces before punctuation if [`Flags::clean_spaces`](crate::Flags) is set, and a
    /// space at the beginning if [`Flags::add_space_prefix`](crate::Flags) is set.
    ///
    /// Fails if there is no such token; the text of earlier tokens stays appended.
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

/// Removes spaces before punctuation and contractions, and returns the new length.
///
/// Every change needs a space before one of five characters. So only the text around such positions
/// is cleaned, from one [`is_cut`] to the next, and the rest is moved.
fn clean(text: &mut [u8]) -> usize {
    let (mut done, mut length) = (0, 0);
    for block in (0..text.len()).step_by(BLOCK) {
        let mut open = candidates(text.get(block..).unwrap_or_default());
        while open != 0 {
            let place = block + open.trailing_zeros() as usize;
            open &= open - 1;
            if place < done {
                continue;
            }
            let (from, to) = around(text, done, place);
            text.copy_within(done..from, length);
            length += from - done;
            if to == place + 2 && from == place && text[place + 1] != b'\'' {
                text[length] = text[place + 1];
                length += 1;
            } else {
                text.copy_within(from..to, length);
                length += clean_all(&mut text[length..length + to - from]);
            }
            done = to;
        }
    }
    text.copy_within(done.., length);
    length + text.len() - done
}

/// Returns the range around `place` that is cleaned on its own. It begins at `done` at the
/// earliest.
#[inline]
fn around(text: &[u8], done: usize, place: usize) -> (usize, usize) {
    let from = (done..=place).rev().find(|&at| is_cut(text, at)).unwrap_or(done);
    let to = (place + 2..text.len()).find(|&at| is_cut(text, at)).unwrap_or(text.len());
    (from, to)
}

/// Returns `true` if the text before a position and the text after it can be cleaned separately: at
/// a space that follows neither a space nor an apostrophe.
fn is_cut(text: &[u8], at: usize) -> bool {
    at == 0 || text[at] == b' ' && !matches!(text[at - 1], b' ' | b'\'')
}

/// The number of bytes that [`candidates`] examines.
const BLOCK: usize = 64;

/// Returns a bit mask of the first [`BLOCK`] positions: a bit is set for a space before one of the
/// five characters.
fn candidates(text: &[u8]) -> u64 {
    // The product has bit 0 of byte `n` in bit 56 + `n`, and no carry reaches these.
    const GATHER: u64 = 0x0102_0408_1020_4080;
    let is = |space: u8, next: u8| {
        let is_next = |mark: u8| u8::from(next == mark);
        let matters =
            is_next(b'?') | is_next(b'!') | is_next(b'.') | is_next(b',') | is_next(b'\'');
        u8::from(space == b' ') & matters
    };
    let mut found = [0; BLOCK];
    match text.first_chunk::<{ BLOCK + 1 }>() {
        Some(block) => {
            for (slot, (&space, &next)) in found.iter_mut().zip(block.iter().zip(&block[1..])) {
                *slot = is(space, next);
            }
        }
        None => {
            for (slot, (&space, &next)) in
                found.iter_mut().zip(text.iter().zip(text.iter().skip(1)))
            {
                *slot = is(space, next);
            }
        }
    }
    found
        .as_chunks::<8>()
        .0
        .iter()
        .rev()
        .fold(0, |bits, eight| bits << 8 | u64::from_le_bytes(*eight).wrapping_mul(GATHER) >> 56)
}

/// Cleans all of a text, and returns the new length. llama.cpp makes three passes, each over the
/// result of the previous one.
fn clean_all(text: &mut [u8]) -> usize {
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

/// Removes the byte before each position for which `remove` is true, and returns the new length.
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

/// Removes the spaces around an apostrophe between two spaces, and returns the new length.
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

/// Decodes tokens one by one, and never returns part of a character.
///
/// The concatenated results equal the result of [`Tokenizer::decode`] for all tokens. Text that
/// later tokens can change is held back: an incomplete character, and, if the vocabulary removes
/// spaces before punctuation, a space and up to three characters after it.
///
/// ```
/// # fn of(tokenizer: &ggmill_tokenizer::Tokenizer, ids: &[u32]) -> Result<(), ggmill_tokenizer::Error> {
/// use ggmill_tokenizer::{DecodeOptions, Decoder};
/// let mut decoder = Decoder::new(tokenizer, &DecodeOptions::new());
/// let mut text = Vec::new();
/// for &id in ids {
///     decoder.push(id, &mut text)?;
///     // `text` ends with a complete character.
/// }
/// decoder.finish(&mut text);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Decoder {
    tokenizer: Tokenizer,
    options: DecodeOptions,
    /// No token was pushed yet.
    is_first: bool,
    /// The space at the beginning of the next token is removed.
    remove_space: bool,
    /// An EOS token, which is omitted if no token follows.
    held: Option<u32>,
    /// Text from which spaces may still be removed.
    unclean: Vec<u8>,
    /// An incomplete character.
    partial: Vec<u8>,
}

impl Decoder {
    /// Creates a decoder.
    pub fn new(tokenizer: &Tokenizer, options: &DecodeOptions) -> Self {
        Self {
            tokenizer: tokenizer.clone(),
            options: *options,
            is_first: true,
            remove_space: tokenizer.vocabulary().flags().add_space_prefix,
            held: None,
            unclean: Vec::new(),
            partial: Vec::new(),
        }
    }

    /// Decodes a token, and appends the text that is complete.
    ///
    /// Fails if there is no such token, and ignores it.
    pub fn push(&mut self, id: u32, out: &mut Vec<u8>) -> Result<(), Error> {
        let vocabulary = self.tokenizer.vocabulary();
        if vocabulary.kind() == Kind::None {
            return Ok(());
        }
        if id >= vocabulary.len() {
            return Err(no_such(id, vocabulary.len() as usize));
        }
        let (flags, special) = (vocabulary.flags(), vocabulary.special_ids());
        let remove = self.options.remove_special;
        if std::mem::take(&mut self.is_first) && remove && flags.add_bos && special.bos == Some(id)
        {
            self.remove_space = false;
            return Ok(());
        }
        if let Some(held) = self.held.take() {
            self.text(held, out);
        }
        if remove && flags.add_eos && special.eos == Some(id) {
            self.held = Some(id);
        } else {
            self.text(id, out);
        }
        Ok(())
    }

    /// Appends the text that was held back, including an incomplete character, and resets the
    /// decoder.
    pub fn finish(&mut self, out: &mut Vec<u8>) {
        let mut unclean = std::mem::take(&mut self.unclean);
        let length = clean(&mut unclean);
        self.emit(&unclean[..length], out);
        out.append(&mut self.partial);
        *self = Self::new(&self.tokenizer, &self.options);
    }

    fn text(&mut self, id: u32, out: &mut Vec<u8>) {
        let tokenizer = self.tokenizer.clone();
        let texts = tokenizer.texts();
        let shown = self.options.unparse_special || !texts.is_hidden(id);
        let mut bytes = texts.get(id).filter(|_| shown).unwrap_or_default();
        if std::mem::take(&mut self.remove_space) {
            bytes = bytes.strip_prefix(b" ").unwrap_or(bytes);
        }
        if !tokenizer.vocabulary().flags().clean_spaces {
            self.emit(bytes, out);
            return;
        }
        self.unclean.extend_from_slice(bytes);
        let settled = settled(&self.unclean);
        if settled > 0 {
            let rest = self.unclean.split_off(settled);
            let mut unclean = std::mem::replace(&mut self.unclean, rest);
            let length = clean(&mut unclean);
            self.emit(&unclean[..length], out);
        }
    }

    /// Appends bytes up to the last complete character.
    fn emit(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        self.partial.extend_from_slice(bytes);
        let whole = self.partial.len() - incomplete(&self.partial);
        out.extend(self.partial.drain(..whole));
    }
}

/// Returns the length of the part that can be cleaned before more bytes are known. A change needs a
/// space or an apostrophe less than four bytes before it.
fn settled(text: &[u8]) -> usize {
    let is_quiet = |byte: &u8| !matches!(byte, b' ' | b'\'');
    let tail = text.len().saturating_sub(4);
    if text[tail..].iter().all(is_quiet) {
        return text.len();
    }
    (1..text.len()).rev().find(|&at| is_cut(text, at)).unwrap_or(0)
}

/// Returns the number of bytes at the end that are an incomplete character.
fn incomplete(text: &[u8]) -> usize {
    for length in 1..=text.len().min(3) {
        let needed = match text[text.len() - length] {
            0x80..0xC0 => continue,
            0xC2..0xE0 => 2,
            0xE0..0xF0 => 3,
            0xF0..0xF5 => 4,
            _ => 0,
        };
        let bytes = &text[text.len() - length..];
        // Bytes that cannot become a character are not held back.
        let is_prefix = std::str::from_utf8(bytes).is_err_and(|error| error.error_len().is_none());
        return if length < needed && is_prefix { length } else { 0 };
    }
    0
}

/// The decoded bytes of every token.
#[derive(Debug)]
pub(crate) struct Texts {
    bytes: Vec<u8>,
    starts: Vec<u32>,
    /// For each token, whether it is a control or unknown token.
    hidden: Vec<bool>,
}

/// The most bytes of descriptions of characters outside the byte-level alphabet, for all tokens
/// together. Each description contains the whole text of its token.
const MAX_DESCRIBED: usize = 64 << 20;

/// The number of tokens for which the output is enlarged at once.
const BATCH: usize = 64;
/// The number of bytes that are copied for a short text, whatever its length is.
const SHORT: usize = 16;

impl Texts {
    pub(crate) fn new(vocabulary: &Vocabulary) -> Self {
        let mut texts = Self { bytes: Vec::new(), starts: vec![0], hidden: Vec::new() };
        let mut allowance = MAX_DESCRIBED;
        for id in 0..vocabulary.len() {
            let start = texts.bytes.len();
            token(vocabulary, &mut allowance, id, &mut texts.bytes);
            if u32::try_from(texts.bytes.len()).is_err() {
                // Decoded text exceeds the file only if the tokens were chosen for it.
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

    /// Appends the texts of tokens. Fails if there is no such token.
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
                    // A copy of constant size is faster; the next token overwrites the excess.
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

/// Appends the bytes of a text in the byte-level alphabet. A character outside the alphabet is
/// described as in llama.cpp. A text whose descriptions would exceed `allowance`, the bytes that
/// remain for descriptions, is appended unchanged.
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

/// Appends the decoded text of a token, also of a control token.
fn token(vocabulary: &Vocabulary, allowance: &mut usize, id: u32, out: &mut Vec<u8>) {
    let text = vocabulary.shown(id).unwrap_or_default();
    let attributes = vocabulary.attributes(id);
    let is = |wanted| attributes.intersects(wanted);
    match vocabulary.kind() {
        Kind::None => {}
        Kind::Test => out.extend_from_slice(format!("{id:x}").as_bytes()),
        Kind::Rwkv => unescape(text, out),
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
                // llama.cpp aborts for such a token of WordPiece, or a short one.
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

/// Returns the hexadecimal number in at most two characters, as C's `strtol` reads it.
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Cleaning in parts equals cleaning as a whole.
        #[test]
        fn parts_are_cleaned_like_the_whole(text in "[ '.?smrvedx]{0,90}|( {0,3}['.,!?srevm]{0,3}[a-z]{0,70}){0,9}") {
            let (mut parts, mut whole) = (text.clone().into_bytes(), text.into_bytes());
            let (one, other) = (clean(&mut parts), clean_all(&mut whole));
            prop_assert_eq!(&parts[..one], &whole[..other]);
        }
    }

    #[test]
    fn spaces_before_punctuation_are_removed() {
        for (text, expected) in [
            ("a . b , c ?", "a. b, c?"),
            ("it 's we 're they 've I 'm", "it's we're they've I'm"),
            ("a ' b", "a'b"),
            ("   .", "  ."),
        ] {
            let mut text = text.as_bytes().to_vec();
            let length = clean(&mut text);
            assert_eq!(std::str::from_utf8(&text[..length]), Ok(expected));
        }
    }
}
