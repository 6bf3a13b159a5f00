//! Models that take the longest token at each position: WordPiece, within words, and RWKV.

use super::{Fragment, bound};
use crate::error::{Error, ErrorKind};
use crate::symbols::SPACE;
use crate::tokenizer::Sink;
use crate::trie::Trie;
use crate::unicode::{self, Properties};
use crate::vocabulary::Vocabulary;
use crate::word_cache::{Few, Key, WordCache};
use crate::work::Work;

/// WordPiece.
#[derive(Debug)]
pub(crate) struct Wpm {
    tokens: Trie,
}

/// Scratch memory.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    cache: WordCache,
    /// The tokens of a part of the text between whitespace.
    ids: Vec<u32>,
    word: Word,
    found: Vec<(u32, usize)>,
}

impl Scratch {
    /// Frees buffers that a long text enlarged. The cache has its own bounds.
    pub(super) fn bound(&mut self) {
        bound(&mut self.ids);
        bound(&mut self.word.text);
        bound(&mut self.word.from);
        bound(&mut self.found);
    }
}

/// A normalized word with a space before it.
#[derive(Debug, Default)]
struct Word {
    text: Vec<u8>,
    /// For each byte after the space, the range of its original character.
    from: Vec<(usize, usize)>,
}

impl Word {
    fn begin(&mut self) {
        self.text.clear();
        self.from.clear();
        self.text.extend_from_slice(SPACE);
    }

    fn is_empty(&self) -> bool {
        self.text.len() <= SPACE.len()
    }
}

/// Returns `true` for ASCII whitespace.
fn is_space(byte: u8) -> bool {
    byte < 0x80 && unicode::properties(byte.into()).is(Properties::WHITESPACE)
}

impl Wpm {
    pub(crate) fn new(vocabulary: &Vocabulary) -> Result<Self, Error> {
        let texts = (0..vocabulary.len()).map(|id| (vocabulary.text(id).unwrap_or_default(), id));
        let tokens = Trie::new(texts)
            .ok_or_else(|| Error::new(ErrorKind::Limit, "not enough memory for the tokens"))?;
        Ok(Self { tokens })
    }

    pub(crate) fn encode<S: Sink>(
        &self,
        vocabulary: &Vocabulary,
        fragment: Fragment<'_>,
        scratch: &mut Scratch,
        budget: &mut Work,
        out: &mut S,
    ) {
        // Words do not contain whitespace, so the parts between are encoded separately and cached.
        let text = fragment.text;
        let mut at = 0;
        while at < text.len() {
            if is_space(text[at]) {
                at += 1;
                continue;
            }
            let length = text[at..].iter().position(|&byte| is_space(byte));
            let end = length.map_or(text.len(), |length| at + length);
            self.part(vocabulary, &text[at..end], fragment.start + at, scratch, budget, out);
            at = end;
        }
    }

    fn part<S: Sink>(
        &self,
        vocabulary: &Vocabulary,
        part: &[u8],
        start: usize,
        scratch: &mut Scratch,
        budget: &mut Work,
        out: &mut S,
    ) {
        let Scratch { cache, ids, word, found } = scratch;
        if S::RANGES {
            self.words(vocabulary, part, word, found, budget, |id, from, to| {
                out.push(id, start + from, start + to);
            });
            return;
        }
        let key = Key::new(part, 0, part.len());
        let mut room = Few::default();
        if let Some(known) = cache.get(key, part, &mut room) {
            out.extend(known);
            return;
        }
        ids.clear();
        self.words(vocabulary, part, word, found, budget, |id, _, _| ids.push(id));
        if !budget.take(0) {
            return;
        }
        cache.put(key, part, ids);
        out.extend(ids);
    }

    /// Splits a part of the text into words, and passes their tokens to `push`.
    fn words(
        &self,
        vocabulary: &Vocabulary,
        part: &[u8],
        word: &mut Word,
        found: &mut Vec<(u32, usize)>,
        budget: &mut Work,
        mut push: impl FnMut(u32, usize, usize),
    ) {
        let flags = vocabulary.flags();
        word.begin();
        let mut at = 0;
        while let Some((point, length)) = unicode::decode(&part[at..]) {
            let range = (at, at + length);
            at += length;
            let point = if flags.strip_accents { unicode::first_decomposed(point) } else { point };
            let properties = unicode::properties(point);
            if properties.is(Properties::WHITESPACE) {
                self.word(vocabulary, word, found, budget, &mut push);
                continue;
            }
            if point == 0
                || point == unicode::REPLACEMENT
                || properties.is(Properties::CONTROL)
                || flags.strip_accents && properties.is(Properties::MARK)
            {
                continue;
            }
            let is_word = properties.is(Properties::PUNCTUATION)
                || point < 0x7F && properties.is(Properties::SYMBOL)
                || unicode::is_ideograph(point);
            if is_word {
                self.word(vocabulary, word, found, budget, &mut push);
            }
            unicode::encode(
                if flags.lowercase { unicode::lower(point) } else { point },
                &mut word.text,
            );
            word.from.resize(word.text.len() - SPACE.len(), range);
            if is_word {
                self.word(vocabulary, word, found, budget, &mut push);
            }
        }
        self.word(vocabulary, word, found, budget, &mut push);
    }

    /// Passes the tokens of a word to `push`: the longest at each position, or the unknown token
    /// for the whole word. Clears the word.
    fn word(
        &self,
        vocabulary: &Vocabulary,
        word: &mut Word,
        found: &mut Vec<(u32, usize)>,
        budget: &mut Work,
        push: &mut impl FnMut(u32, usize, usize),
    ) {
        if word.is_empty() {
            return;
        }
        found.clear();
        let mut at = 0;
        while at < word.text.len() {
            let Some((length, id)) = self.tokens.longest_within(&word.text[at..], budget) else {
                found.clear();
                break;
            };
            at += length;
            found.push((id, at));
        }
        // The space before the word has the position of its first character.
        let from = |place: usize| word.from.get(place.saturating_sub(SPACE.len()));
        let begin = word.from.first().map_or(0, |range| range.0);
        if let Some(id) = vocabulary.special_ids().unk.filter(|_| found.is_empty()) {
            push(id, begin, word.from.last().map_or(begin, |range| range.1));
        }
        let mut start = 0;
        for &(id, end) in &*found {
            let last = end.checked_sub(SPACE.len() + 1).and_then(|place| word.from.get(place));
            let from = from(start).map_or(begin, |range| range.0);
            push(id, from, last.map_or(begin, |range| range.1));
            start = end;
        }
        word.begin();
    }
}

/// RWKV: longest match over bytes.
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

    /// A byte at which no token matches is the unknown token, or is dropped if the vocabulary has
    /// none. llama.cpp does the same, but never returns if longer tokens begin with that byte.
    pub(crate) fn encode<S: Sink>(
        &self,
        vocabulary: &Vocabulary,
        fragment: Fragment<'_>,
        budget: &mut Work,
        out: &mut S,
    ) {
        let unknown = vocabulary.special_ids().unk;
        let mut at = 0;
        while let Some(rest) = fragment.text.get(at..).filter(|rest| !rest.is_empty()) {
            let found = self.tokens.longest_within(rest, budget);
            if !budget.take(1) {
                return;
            }
            let (length, id) = found.map_or((1, unknown), |(length, id)| (length, Some(id)));
            if let Some(id) = id {
                out.push(id, fragment.start + at, fragment.start + at + length);
            }
            at += length;
        }
    }
}

/// Appends the bytes of a token: the escapes `\t`, `\n`, `\r` and `\xHH` are one byte, and a
/// backslash before any other character is dropped.
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

/// Returns the value of a hexadecimal digit as llama.cpp computes it. It accepts any byte.
fn digit(byte: u8) -> u8 {
    // llama.cpp compares signed `char`s: a byte beyond ASCII is less than `a`.
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
    fn escapes_are_those_of_llama_cpp() {
        let mut out = Vec::new();
        unescape(br"a\tb\n\r\\\x41\xc3\xA9\q\x4", &mut out);
        // llama.cpp accepts upper-case digits, with wrong values.
        assert_eq!(out, b"a\tb\n\r\\A\xc3\x19q");
        out.clear();
        unescape(b"\\", &mut out);
        assert!(out.is_empty());
    }
}
