//! Byte-pair encoding: text is split into words, and pairs of symbols are merged by rank.

pub(crate) mod alphabet;
mod inspect;
mod merges;

use std::ops::Range;

use ggmill_core::Metadata;

use super::{Fragment, bound};
use crate::error::{Error, ErrorKind};
use crate::pre::{Memo, Words};
use crate::symbols::SPACE;
use crate::tokenizer::Sink;
use crate::unicode::{self, Properties};
use crate::vocabulary::{DNA_MARKER, Dialect, Vocabulary};
use crate::word_cache::{AT_ONCE, Found, Key, ROOM, WordCache};
#[cfg(feature = "tokenizer-json")]
pub(crate) use merges::Entry;
use merges::NONE;
pub(crate) use merges::{Merges, Work};

/// The fewest words missing in the table of short words that are looked up together in the table of
/// long ones.
const MIN_TOGETHER: u32 = 6;

/// Scratch memory. The cache is valid only for the tokenizer that filled it.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    normal: Normal,
    words: WordScratch,
    memos: Vec<Memo>,
}

#[derive(Debug, Default)]
struct WordScratch {
    cache: WordCache,
    work: Work,
    tokens: Vec<u32>,
    /// The indices of the words of a batch that were merged, and the ranges of their tokens.
    merged: Vec<(usize, Range<usize>)>,
    encoded: Vec<u8>,
}

impl Scratch {
    /// Frees buffers that a long text enlarged. The cache has its own bounds.
    pub(super) fn bound(&mut self) {
        self.normal.bound();
        self.memos.iter_mut().for_each(Memo::bound);
        let WordScratch { work, tokens, encoded, .. } = &mut self.words;
        work.bound();
        bound(tokens);
        bound(encoded);
    }
}

/// A BPE model.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of the vocabulary")]
pub(crate) struct Bpe {
    words: Words,
    /// A pre-tokenizer that splits words at the same positions or more, and gives the same tokens.
    parts: Words,
    merges: Merges,
    /// The symbol of each byte, for byte-level vocabularies.
    bytes: Option<Box<[u32; 256]>>,
    /// The token for each byte of a symbol that is not a token.
    fallback: Box<[u32; 256]>,
    /// A word of newlines that is a token is not merged.
    newlines: bool,
    /// Spaces are written as U+2581.
    escape: bool,
    /// The space before which words are split if no merge crosses that position. `None` if words
    /// have no inner spaces.
    space: Option<&'static [u8]>,
    ignore_merges: bool,
    dialect: Dialect,
    lowercase: bool,
}

impl Bpe {
    /// Reads the merges and compiles the pre-tokenizer.
    pub(crate) fn new(vocabulary: &Vocabulary, metadata: &Metadata<'_>) -> Result<Self, Error> {
        let pre = vocabulary.pre.and_then(|pre| Some((pre, Words::new(pre)?)));
        let Some((pre, words)) = pre else {
            return Err(Error::new(ErrorKind::UnknownPreTokenizer, "no pre-tokenizer"));
        };
        let merges = Merges::new(vocabulary, metadata)?;
        let bytes = (!pre.raw).then(|| {
            Box::new(std::array::from_fn(|byte| {
                let text = alphabet::character(u8::try_from(byte).unwrap_or_default());
                merges.known(vocabulary, text.as_bytes()).unwrap_or(NONE)
            }))
        });
        let fallback = Box::new(std::array::from_fn(|byte| {
            let byte = u8::try_from(byte).unwrap_or_default();
            let id = if pre.raw { vocabulary.byte_token(byte) } else { vocabulary.id(&[byte]) };
            id.unwrap_or(NONE)
        }));
        let flags = vocabulary.flags();
        // With `ignore_merges`, a whole word must be looked up before it is split.
        let apart = !flags.ignore_merges && merges.keep_words_apart();
        let parts = if apart { Words::apart(pre) } else { None };
        let parts = parts.unwrap_or_else(|| words.clone());
        // Some pre-tokenizers keep whole phrases together. With `ignore_merges` a byte-level phrase
        // would have to be converted before it could be looked up.
        let has_phrases = bytes.is_some() && !flags.ignore_merges && !parts.can_cut(b'a', b' ');
        let space =
            if flags.escape_whitespaces { Some(SPACE) } else { has_phrases.then_some(&b" "[..]) };
        Ok(Self {
            words,
            parts,
            merges,
            bytes,
            fallback,
            newlines: pre.newlines,
            escape: flags.escape_whitespaces,
            space,
            ignore_merges: flags.ignore_merges,
            dialect: vocabulary.dialect,
            lowercase: flags.lowercase,
        })
    }

    /// Returns the words of a text as ranges of the original text.
    pub(crate) fn split_words(&self, text: &[u8]) -> Vec<(usize, usize)> {
        let mut normal = Normal::default();
        normal.rewrite(text, self.escape, true);
        let origin = Origin { start: 0, places: Some(&normal.origins) };
        let mut words = Vec::new();
        self.words.cut(&normal.text, &mut Vec::new(), &mut |start, end| {
            words.push((origin.of(start), origin.of(end)));
        });
        words
    }

    /// Returns `true` if a text can be split between these two ASCII characters.
    pub(crate) fn can_cut(&self, before: u8, after: u8) -> bool {
        self.dialect == Dialect::Plain
            && before.is_ascii_lowercase()
            && matches!(after, b' ' | b'\n')
            && !(self.escape && after == b' ')
            && self.parts.can_cut(before, after)
    }

    /// Passes the tokens of a fragment to `out`.
    pub(crate) fn encode<S: Sink>(
        &self,
        vocabulary: &Vocabulary,
        fragment: Fragment<'_>,
        scratch: &mut Scratch,
        out: &mut S,
    ) {
        let Scratch { normal, words, memos } = scratch;
        let Fragment { text, start, .. } = fragment;
        if self.dialect == Dialect::Whitespace {
            normal.segments(text, self.lowercase, |segment, origins| {
                let origin = Origin { start, places: Some(origins) };
                self.encode_words(vocabulary, segment, origin, words, memos, out);
            });
        } else if self.escape || std::str::from_utf8(text).is_err() {
            normal.rewrite(text, self.escape, S::RANGES);
            let origin = Origin { start, places: Some(&normal.origins) };
            self.encode_words(vocabulary, &normal.text, origin, words, memos, out);
        } else {
            let origin = Origin { start, places: None };
            self.encode_words(vocabulary, text, origin, words, memos, out);
        }
    }

    /// Encodes text that is UTF-8 except that it may contain surrogates.
    fn encode_words<S: Sink>(
        &self,
        vocabulary: &Vocabulary,
        text: &[u8],
        origin: Origin<'_>,
        scratch: &mut WordScratch,
        memos: &mut Vec<Memo>,
        out: &mut S,
    ) {
        let batch = [(0, 0); AT_ONCE];
        let mut run =
            Run { model: self, vocabulary, text, origin, scratch, out, batch, collected: 0 };
        if let Some(space) = self.space {
            self.parts.cut(text, memos, &mut |start, end| run.parts(start, end, space));
        } else {
            self.parts.cut(text, memos, &mut |start, end| run.word(start, end));
        }
        run.flush();
    }

    /// Calls `each` with the tokens of a word and their ranges in it.
    fn merge_word(
        &self,
        vocabulary: &Vocabulary,
        word: &[u8],
        memory: &mut Work,
        encoded: &mut Vec<u8>,
        each: &mut impl FnMut(u32, usize, usize),
    ) {
        if let Some(id) = self.whole(vocabulary, word, encoded) {
            return each(id, 0, word.len());
        }
        memory.symbols.clear();
        memory.starts.clear();
        self.symbols(vocabulary, word, memory);
        self.merges.merge(memory);
        for (place, (&symbol, &from)) in memory.symbols.iter().zip(&memory.starts).enumerate() {
            let from = from as usize;
            let to = memory.starts.get(place + 1).map_or(word.len(), |&to| to as usize);
            if let Some(id) = self.merges.token(symbol) {
                each(id, from, to);
            } else {
                self.fall_back(word.get(from..to).unwrap_or_default(), |id| each(id, from, to));
            }
        }
    }

    /// Appends the tokens of a word that is not in the cache.
    #[cold]
    fn merge_unknown(
        &self,
        vocabulary: &Vocabulary,
        word: &[u8],
        memory: &mut Work,
        encoded: &mut Vec<u8>,
        tokens: &mut Vec<u32>,
    ) {
        let mut each = |id, _, _| tokens.push(id);
        self.merge_word(vocabulary, word, memory, encoded, &mut each);
    }

    /// Returns the token of a word that is not merged.
    #[inline]
    fn whole(&self, vocabulary: &Vocabulary, word: &[u8], encoded: &mut Vec<u8>) -> Option<u32> {
        let whole = self.ignore_merges || (self.newlines && word.iter().all(|&byte| byte == b'\n'));
        if !whole {
            return None;
        }
        if self.bytes.is_some() {
            alphabet::encode(word, encoded);
            return vocabulary.id(encoded);
        }
        vocabulary.id(word)
    }

    /// Appends the symbols of a word before any merge.
    #[expect(clippy::cast_possible_truncation, reason = "a text has less than 2^31 bytes")]
    fn symbols(&self, vocabulary: &Vocabulary, word: &[u8], memory: &mut Work) {
        if let Some(bytes) = &self.bytes {
            let symbol = |&byte: &u8| bytes.get(usize::from(byte)).copied().unwrap_or(NONE);
            memory.symbols.extend(word.iter().map(symbol));
            memory.starts.extend(0..word.len() as u32);
            return;
        }
        let mut place = 0;
        while let Some(&first) = word.get(place) {
            let end = place.saturating_add(unicode::length_by_first(first)).min(word.len());
            let character = word.get(place..end).unwrap_or_default();
            memory.symbols.push(self.merges.known(vocabulary, character).unwrap_or(NONE));
            memory.starts.push(place as u32);
            place = end;
        }
    }

    /// Calls `each` with the tokens of the bytes of a symbol that is not a token. Bytes without a
    /// token are dropped.
    fn fall_back(&self, text: &[u8], mut each: impl FnMut(u32)) {
        let mut byte = |&byte: &u8| {
            let id = self.fallback.get(usize::from(byte)).copied().unwrap_or(NONE);
            if id != NONE {
                each(id);
            }
        };
        if self.bytes.is_some() {
            for &encoded in text {
                alphabet::character(encoded).as_bytes().iter().for_each(&mut byte);
            }
        } else {
            text.iter().for_each(byte);
        }
    }
}

/// Encodes the words of a text in batches, so that cache misses of their lookups overlap.
struct Run<'a, S> {
    model: &'a Bpe,
    vocabulary: &'a Vocabulary,
    text: &'a [u8],
    origin: Origin<'a>,
    scratch: &'a mut WordScratch,
    out: &'a mut S,
    /// The words that were not looked up yet, and their number.
    batch: [(usize, usize); AT_ONCE],
    collected: usize,
}

impl<S: Sink> Run<'_, S> {
    /// Splits a word before each space that no merge joins to the character before it, and adds the
    /// parts. A word of escaped text is a line.
    #[inline]
    fn parts(&mut self, start: usize, end: usize, space: &[u8]) {
        let whole = self.text.get(start..end).unwrap_or_default();
        // A line that is a token is not split.
        if self.model.ignore_merges && self.vocabulary.id(whole).is_some() {
            return self.word(start, end);
        }
        let Some(&first) = space.first() else { return self.word(start, end) };
        let mut done = start;
        for hit in memchr::memchr_iter(first, whole) {
            let place = start + hit;
            let before = place.checked_sub(1).and_then(|before| self.text.get(before));
            let is_cut = place > done
                && whole.get(hit..).is_some_and(|rest| rest.starts_with(space))
                && before.is_some_and(|&last| !self.model.merges.may_join_space(last));
            if is_cut {
                self.word(done, place);
                done = place;
            }
        }
        self.word(done, end);
    }

    /// Adds a word.
    #[inline]
    fn word(&mut self, start: usize, end: usize) {
        if S::RANGES {
            return self.word_with_ranges(start, end);
        }
        if let Some(place) = self.batch.get_mut(self.collected) {
            *place = (start, end);
        }
        self.collected += 1;
        if self.collected == AT_ONCE {
            self.flush();
        }
    }

    fn word_with_ranges(&mut self, start: usize, end: usize) {
        let word = self.text.get(start..end).unwrap_or_default();
        let (origin, out) = (self.origin, &mut *self.out);
        let mut each = |id, from: usize, to: usize| {
            out.push(id, origin.of(start + from), origin.of(start + to));
        };
        let WordScratch { work, encoded, .. } = &mut *self.scratch;
        self.model.merge_word(self.vocabulary, word, work, encoded, &mut each);
    }

    /// Encodes the collected words.
    #[inline(never)]
    fn flush(&mut self) {
        let count = std::mem::take(&mut self.collected).min(AT_ONCE);
        let Self { model, vocabulary, text, scratch, out, batch, .. } = self;
        let WordScratch { cache, work, tokens, merged, encoded } = &mut **scratch;
        let word = |number: usize| {
            let (start, end) = batch.get(number).copied().unwrap_or_default();
            text.get(start..end).unwrap_or_default()
        };
        let mut keys = [Key::LONG; AT_ONCE];
        for (key, &(start, end)) in keys.iter_mut().zip(&batch[..count]) {
            *key = Key::new(text, start, end);
        }
        let keys = keys.get(..count).unwrap_or_default();
        let Found { places, mut missing } = cache.find(keys);
        let many = (missing.count_ones() >= MIN_TOGETHER).then(|| cache.find_many(missing, word));
        let mut room = [0; ROOM];
        let mut done = 0;
        loop {
            let next = count.min(missing.trailing_zeros() as usize);
            let places = places.get(done..next).unwrap_or_default();
            out.extend(cache.tokens(places, &mut room));
            if next == count {
                break;
            }
            missing &= missing - 1;
            done = next + 1;
            let known = match &many {
                Some(many) => many.get(next).copied().flatten(),
                None => cache.many(word(next)),
            };
            if let Some(known) = known {
                out.extend(known);
            } else {
                let before = tokens.len();
                model.merge_unknown(vocabulary, word(next), work, encoded, tokens);
                out.extend(tokens.get(before..).unwrap_or_default());
                merged.push((next, before..tokens.len()));
            }
        }
        // Insertion invalidates the results of the lookup, so it comes last.
        for (number, ids) in merged.drain(..) {
            let key = keys.get(number).copied().unwrap_or(Key::LONG);
            cache.put(key, word(number), tokens.get(ids).unwrap_or_default());
        }
        tokens.clear();
    }
}

/// Maps positions of a rewritten text to the original text.
#[derive(Clone, Copy)]
struct Origin<'a> {
    start: usize,
    places: Option<&'a [u32]>,
}

impl Origin<'_> {
    fn of(self, place: usize) -> usize {
        let moved = match self.places {
            Some(places) => places.get(place).map_or(place, |&at| at as usize),
            None => place,
        };
        self.start.saturating_add(moved)
    }
}

/// A rewritten text, with the original position of each byte and of the end.
#[derive(Debug, Default)]
struct Normal {
    text: Vec<u8>,
    origins: Vec<u32>,
}

impl Normal {
    /// Frees buffers that a long text enlarged.
    fn bound(&mut self) {
        bound(&mut self.text);
        bound(&mut self.origins);
    }

    fn clear(&mut self) {
        self.text.clear();
        self.origins.clear();
    }

    /// Appends a code point with its original position.
    #[expect(clippy::cast_possible_truncation, reason = "a text has less than 2^31 bytes")]
    fn push(&mut self, point: u32, place: usize) {
        unicode::encode(point, &mut self.text);
        self.origins.resize(self.text.len(), place as u32);
    }

    #[expect(clippy::cast_possible_truncation, reason = "a text has less than 2^31 bytes")]
    fn end(&mut self, place: usize) {
        self.origins.push(place as u32);
    }

    /// Replaces invalid UTF-8 as llama.cpp does, and spaces by U+2581 if `escape`. Records original
    /// positions if `origins`.
    fn rewrite(&mut self, text: &[u8], escape: bool, origins: bool) {
        self.clear();
        if escape && !origins && std::str::from_utf8(text).is_ok() {
            for (number, part) in text.split(|&byte| byte == b' ').enumerate() {
                if number > 0 {
                    self.text.extend_from_slice(SPACE);
                }
                self.text.extend_from_slice(part);
            }
            return;
        }
        let mut place = 0;
        while let Some((point, length)) = text.get(place..).and_then(unicode::decode) {
            let point = if escape && point == 0x20 { 0x2581 } else { point };
            self.push(point, place);
            place += length;
        }
        self.end(place);
    }

    /// Calls `each` with the segments between whitespace and their original positions.
    fn segments(&mut self, text: &[u8], lowercase: bool, mut each: impl FnMut(&[u8], &[u32])) {
        self.clear();
        let mut place = 0;
        loop {
            let next = text.get(place..).and_then(unicode::decode);
            let is_space = |point: u32| unicode::properties(point).is(Properties::WHITESPACE);
            match next {
                Some((point, length)) if !is_space(point) => {
                    self.push(if lowercase { unicode::lower(point) } else { point }, place);
                    place += length;
                }
                _ => {
                    if !self.text.is_empty() {
                        self.end(place);
                        each(&self.text, &self.origins);
                        self.clear();
                    }
                    let Some((_, length)) = next else { return };
                    place += length;
                }
            }
        }
    }
}

const DNA_BEGIN: &[u8] = b"<dna>";
const DNA_END: &[u8] = b"</dna>";
const DNA_UNKNOWN: &[u8] = b"<oov>";
/// The number of letters in a DNA token.
const DNA_LETTERS: usize = 6;
/// The letter that pads the last token.
const DNA_PADDING: u8 = b'A';

/// BPE, except that DNA between `<dna>` and `</dna>` is split into tokens of six letters.
#[derive(Debug)]
pub(crate) struct Dna {
    words: Bpe,
    /// `None` if the vocabulary lacks one of them; then all text is encoded by BPE.
    tokens: Option<DnaTokens>,
}

#[derive(Clone, Copy, Debug)]
struct DnaTokens {
    begin: u32,
    end: u32,
    unknown: u32,
}

impl Dna {
    pub(crate) fn new(vocabulary: &Vocabulary, metadata: &Metadata<'_>) -> Result<Self, Error> {
        let words = Bpe::new(vocabulary, metadata)?;
        let [begin, end, unknown] = [DNA_BEGIN, DNA_END, DNA_UNKNOWN].map(|it| vocabulary.id(it));
        let tokens = begin.zip(end).zip(unknown);
        let tokens = tokens.map(|((begin, end), unknown)| DnaTokens { begin, end, unknown });
        Ok(Self { words, tokens })
    }

    pub(crate) fn encode<S: Sink>(
        &self,
        vocabulary: &Vocabulary,
        fragment: Fragment<'_>,
        scratch: &mut Scratch,
        out: &mut S,
    ) {
        let Some(tokens) = self.tokens else {
            return self.words.encode(vocabulary, fragment, scratch, out);
        };
        let Fragment { text, start, .. } = fragment;
        let mut at = 0;
        while at < text.len() {
            let begin = memchr::memmem::find(&text[at..], DNA_BEGIN).map(|place| at + place);
            let words = &text[at..begin.unwrap_or(text.len())];
            if !words.is_empty() {
                let words = Fragment { text: words, start: start + at, ..fragment };
                self.words.encode(vocabulary, words, scratch, out);
            }
            let Some(begin) = begin else { break };
            at = begin + DNA_BEGIN.len();
            out.push(tokens.begin, start + begin, start + at);
            let end = memchr::memmem::find(&text[at..], DNA_END).map(|place| at + place);
            let letters = &text[at..end.unwrap_or(text.len())];
            for chunk in letters.chunks(DNA_LETTERS) {
                let id = dna_token(vocabulary, chunk).unwrap_or(tokens.unknown);
                out.push(id, start + at, start + at + chunk.len());
                at += chunk.len();
            }
            if let Some(end) = end {
                at = end + DNA_END.len();
                out.push(tokens.end, start + end, start + at);
            }
        }
    }
}

/// Returns the token of at most six letters, converted to upper case and padded.
fn dna_token(vocabulary: &Vocabulary, letters: &[u8]) -> Option<u32> {
    let mut text = [DNA_PADDING; DNA_LETTERS + DNA_MARKER.len()];
    text[..letters.len()].copy_from_slice(letters);
    text[..letters.len()].make_ascii_uppercase();
    text[DNA_LETTERS..].copy_from_slice(DNA_MARKER);
    vocabulary.id(&text)
}
