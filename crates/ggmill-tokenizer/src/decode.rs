//! From tokens back to text.

use crate::error::Error;
use crate::tokenizer::Tokenizer;
use crate::vocabulary::Kind;

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

/// Removes spaces before punctuation and contractions; the length that is left.
///
/// A change needs a space before one of five characters, and nothing else near. So only what is
/// around such places is cleaned, from one [`is_cut`] to the next, and the rest is moved.
pub(crate) fn clean(text: &mut [u8]) -> usize {
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

/// What is to be cleaned around a place, after what is done.
#[inline]
fn around(text: &[u8], done: usize, place: usize) -> (usize, usize) {
    let from = (done..=place).rev().find(|&at| is_cut(text, at)).unwrap_or(done);
    let to = (place + 2..text.len()).find(|&at| is_cut(text, at)).unwrap_or(text.len());
    (from, to)
}

/// Whether the text before a position and the text from there on can be cleaned one by one: where
/// a space follows neither a space nor an apostrophe.
pub(crate) fn is_cut(text: &[u8], at: usize) -> bool {
    at == 0 || text[at] == b' ' && !matches!(text[at - 1], b' ' | b'\'')
}

/// Bytes that are examined together.
const BLOCK: usize = 64;

/// The places among the first where a space is before one of the characters that matter, a bit for
/// each.
fn candidates(text: &[u8]) -> u64 {
    // The product has bit 0 of byte `n` as bit 56 + `n`, and no carry comes to them.
    const GATHER: u64 = 0x0102_0408_1020_4080;
    let is = |space: u8, next: u8| {
        let matters =
            (next == b'?') | (next == b'!') | (next == b'.') | (next == b',') | (next == b'\'');
        u8::from((space == b' ') & matters)
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

/// The same for all of a text. The reference goes over it three times, each time over what the last
/// left.
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// What is cleaned in parts is what is cleaned as a whole.
        #[test]
        fn parts_are_cleaned_like_the_whole(text in "[ '.?smrvedx]{0,90}|( {0,3}['.,!?srevm]{0,3}[a-z]{0,70}){0,9}") {
            let (mut parts, mut whole) = (text.clone().into_bytes(), text.into_bytes());
            let (one, other) = (clean(&mut parts), clean_all(&mut whole));
            prop_assert_eq!(&parts[..one], &whole[..other]);
        }
    }

    #[test]
    fn spaces_go_before_punctuation() {
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
