//! Byte pairs that are merged in the order of their ranks.

mod alone;
pub(crate) mod alphabet;
mod merges;
mod normal;
mod steps;

use std::ops::Range;

use ggmill_core::Metadata;

use super::Fragment;
use crate::error::{Error, ErrorKind};
use crate::memory::bound;
use crate::pre::{Memo, Words};
use crate::sink::Sink;
use crate::unicode;
use crate::vocabulary::{Dialect, Vocabulary};
use crate::word_cache::{AT_ONCE, Found, Key, ROOM, WordCache};
#[cfg(feature = "tokenizer-json")]
pub(crate) use merges::Entry;
pub(crate) use merges::{Merges, Work};
use merges::{NONE, SPACE};
use normal::Normal;

/// From how many words on, of those that are not in the table of short words, they are looked up
/// together.
const TOGETHER: u32 = 6;

/// Memory that calls use one after the other. The cache belongs to the tokenizer it was used with.
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
    /// The numbers of the words of the batch that were merged, and where their tokens are.
    merged: Vec<(usize, Range<usize>)>,
    encoded: Vec<u8>,
}

impl Scratch {
    /// Gives back what one long text made large. The cache is bounded in itself.
    pub(super) fn bound(&mut self) {
        self.normal.bound();
        self.memos.iter_mut().for_each(Memo::bound);
        let WordScratch { work, tokens, encoded, .. } = &mut self.words;
        work.bound();
        bound(tokens);
        bound(encoded);
    }
}

/// The model of byte pairs.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a switch of the vocabulary")]
pub(crate) struct Bpe {
    words: Words,
    /// The same or finer ones, of which the tokens are those of the words.
    parts: Words,
    merges: Merges,
    /// The symbols of the bytes, where text is merged in their alphabet.
    bytes: Option<Box<[u32; 256]>>,
    /// What stands for a byte of text that has no token.
    fallback: Box<[u32; 256]>,
    newlines: bool,
    escape: bool,
    /// What words are cut before where no merge joins the parts, if they may have it within.
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
        // A word that is taken as a whole has no parts.
        let apart = !flags.ignore_merges && merges.keep_words_apart();
        let parts = if apart { Words::apart(pre) } else { None };
        let parts = parts.unwrap_or_else(|| words.clone());
        // Some pre-tokenizers leave whole phrases together. A phrase of bytes that is a token could
        // only be looked up in their alphabet.
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

    /// The words of a text as they are cut, in the positions of the text.
    pub(crate) fn cut_words(&self, text: &[u8]) -> Vec<(usize, usize)> {
        let mut normal = Normal::default();
        normal.rewrite(text, self.escape, true);
        let origin = Origin { start: 0, places: Some(&normal.origins) };
        let mut words = Vec::new();
        self.words.cut(&normal.text, &mut Vec::new(), &mut |start, end| {
            words.push((origin.of(start), origin.of(end)));
        });
        words
    }

    /// Whether a text can be cut between these two ASCII characters.
    pub(crate) fn can_cut(&self, before: u8, after: u8) -> bool {
        self.dialect == Dialect::Plain
            && before.is_ascii_lowercase()
            && matches!(after, b' ' | b'\n')
            && !(self.escape && after == b' ')
            && self.parts.can_cut(before, after)
    }

    /// The tokens of a fragment.
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

    /// The tokens of text that is UTF-8, but may have surrogates.
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

    /// The tokens of a word with their ranges in it.
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

    /// Puts the tokens of a word that is not known behind others.
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

    /// The token that a word is without any merge.
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

    /// The symbols of a word before any merge.
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

    /// What stands for text that has no token: tokens of its bytes, and nothing for those that have
    /// none.
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

/// The words of a text on their way to the sink. Some are collected before they are looked up, so
/// that the memory's delays overlap.
struct Run<'a, S> {
    model: &'a Bpe,
    vocabulary: &'a Vocabulary,
    text: &'a [u8],
    origin: Origin<'a>,
    scratch: &'a mut WordScratch,
    out: &'a mut S,
    /// Words that were not looked up yet, and how many there are.
    batch: [(usize, usize); AT_ONCE],
    collected: usize,
}

impl<S: Sink> Run<'_, S> {
    /// A word that is cut further where no merge joins the parts: before a space, as the text has
    /// it, if none has it there. A word of escaped text is a line.
    #[inline]
    fn parts(&mut self, start: usize, end: usize, space: &[u8]) {
        let whole = self.text.get(start..end).unwrap_or_default();
        // A line that is a token is taken as a whole.
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

    /// A word.
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

    /// The tokens of the words that were collected.
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
        let many = (missing.count_ones() >= TOGETHER).then(|| cache.find_many(missing, word));
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
        // What was found holds until now.
        for (number, ids) in merged.drain(..) {
            let key = keys.get(number).copied().unwrap_or(Key::LONG);
            cache.put(key, word(number), tokens.get(ids).unwrap_or_default());
        }
        tokens.clear();
    }
}

/// Where the bytes of a rewritten text come from.
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
