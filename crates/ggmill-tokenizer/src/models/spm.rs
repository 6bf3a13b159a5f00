//! SentencePiece with scores: adjacent symbols whose concatenation is a token are merged, the
//! highest score first.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::{Fragment, bound, bound_heap};
use crate::explain::{ExplainedMerge, ExplainedWord, MergeOrder};
use crate::symbols::{self, Cuts, Pairs, Places, SPACE};
use crate::tokenizer::{Piece, Sink};
use crate::vocabulary::Vocabulary;
use crate::word_cache::{Few, Key, WordCache};
use crate::work::Work;

#[derive(Debug)]
pub(crate) struct Spm {
    cuts: Cuts,
    /// Pairs of symbols that are adjacent in some token. A text can be split between any other two
    /// symbols.
    pairs: Pairs,
    /// The token for each byte of a symbol that is not a token.
    bytes: [Option<u32>; 256],
}

/// Scratch memory.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    escaped: Vec<u8>,
    cache: WordCache,
    merger: Merger,
    ids: Vec<u32>,
}

impl Scratch {
    /// Frees buffers that a long text enlarged. The cache has its own bounds.
    pub(super) fn bound(&mut self) {
        bound(&mut self.escaped);
        bound(&mut self.ids);
        let Merger { symbols, heap, ends, scores, .. } = &mut self.merger;
        bound(symbols);
        bound_heap(heap);
        bound(ends);
        bound(scores);
    }
}

/// A part of the text. Its length is 0 once it was merged into its left neighbor.
#[derive(Clone, Copy, Debug)]
struct Symbol {
    start: usize,
    length: usize,
    previous: u32,
    next: u32,
}

/// A possible merge: the score as an integer of the same order, the left symbol, the right symbol,
/// and the length of both.
type Candidate = (u32, Reverse<u32>, u32, usize);

#[derive(Debug, Default)]
struct Merger {
    symbols: Vec<Symbol>,
    heap: BinaryHeap<Candidate>,
    /// The end of each symbol.
    ends: Vec<usize>,
    /// For few symbols, the score of each symbol merged with the next.
    scores: Vec<Option<u32>>,
    /// The remaining steps, for many symbols.
    budget: Work,
}

const NONE: u32 = u32::MAX;
/// The bytes of a looked-up text that take a step.
const BYTES_A_STEP: usize = 16;
/// The most symbols for which each best pair is found by linear search, without a queue.
const FEW: usize = 24;
/// Words of more bytes are split between symbols that are adjacent in no token.
const SHORT: usize = 15;
/// The limit for ASCII words, in which few symbols are adjacent in no token.
const SHORT_ASCII: usize = 48;

impl Spm {
    pub(crate) fn new(vocabulary: &Vocabulary) -> Self {
        let mut cuts = Cuts::new();
        let mut pairs = Vec::new();
        for id in 0..vocabulary.len() {
            cuts.add(vocabulary.text(id).unwrap_or_default(), |left, right| {
                pairs.push((left, right));
            });
        }
        let mut model = Self { cuts, pairs: Pairs::new(&pairs), bytes: [None; 256] };
        for byte in 0..=u8::MAX {
            // To llama.cpp a zero byte is an empty text. For a byte without a token it aborts; here
            // that is the unknown token.
            model.bytes[usize::from(byte)] = vocabulary
                .byte_token(byte)
                .or_else(|| vocabulary.id(&[byte]).filter(|_| byte != 0))
                .or(vocabulary.special_ids().unk);
        }
        model
    }

    /// Returns `true` if a text can be split between these two ASCII characters.
    pub(crate) fn can_cut(&self, before: u8, after: u8) -> bool {
        after == b' ' && before != b' ' && !self.cuts.joins_space(before)
    }

    pub(crate) fn encode<S: Sink>(
        &self,
        vocabulary: &Vocabulary,
        fragment: Fragment<'_>,
        scratch: &mut Scratch,
        budget: &mut Work,
        out: &mut S,
    ) {
        let prefix = vocabulary.flags().add_space_prefix && fragment.after_special;
        std::mem::swap(&mut scratch.merger.budget, budget);
        let mut escaped = std::mem::take(&mut scratch.escaped);
        symbols::escape(fragment.text, prefix, &mut escaped);
        let mut places = Places::new(fragment.text, prefix);
        let mut word = 0;
        let mut at = 0;
        while at < escaped.len() {
            let (next, can_cut) = self.cuts.after(&escaped, at);
            if can_cut || next == escaped.len() {
                self.word(vocabulary, &escaped[word..next], scratch, out, &mut |start, end| {
                    let (start, end) = places.range(word + start, word + end);
                    (fragment.start + start, fragment.start + end)
                });
                word = next;
            }
            at = next;
        }
        scratch.escaped = escaped;
        std::mem::swap(&mut scratch.merger.budget, budget);
    }

    /// Returns the text that is merged, and its words with their merges.
    pub(crate) fn explain(
        &self,
        vocabulary: &Vocabulary,
        fragment: Fragment<'_>,
    ) -> (Vec<u8>, Vec<ExplainedWord>) {
        let prefix = vocabulary.flags().add_space_prefix && fragment.after_special;
        let mut escaped = Vec::new();
        symbols::escape(fragment.text, prefix, &mut escaped);
        let mut places = Places::new(fragment.text, prefix);
        let mut merger = Merger::default();
        merger.budget.begin(escaped.len());
        let mut words = Vec::new();
        let (mut word, mut at) = (0, 0);
        while at < escaped.len() {
            let (next, can_cut) = self.cuts.after(&escaped, at);
            at = next;
            if !can_cut && next < escaped.len() {
                continue;
            }
            let text = &escaped[word..next];
            let mut steps = Vec::new();
            merger.merge_by_steps(vocabulary, text, &mut |start, middle, end| {
                let id = vocabulary.id(&text[start..end]);
                let score = id.map(|id| vocabulary.score(id)).unwrap_or_default();
                steps.push(ExplainedMerge { start, middle, end, order: MergeOrder::Score(score) });
            });
            let mut pieces = Vec::new();
            merger.each(|from, to| {
                let (start, end) = places.range(word + from, word + to);
                let (start, end) = (fragment.start + start, fragment.start + end);
                self.tokens(vocabulary, &text[from..to], |id| {
                    pieces.push(Piece { id, start, end });
                });
            });
            words.push(ExplainedWord {
                text: text.to_owned(),
                is_whole: false,
                merges: steps,
                pieces,
            });
            word = next;
        }
        (escaped, words)
    }

    /// Returns `true` if merging the characters of a string yields the string as one symbol.
    /// Otherwise no text yields it.
    pub(crate) fn is_reachable(
        vocabulary: &Vocabulary,
        text: &[u8],
        scratch: &mut Scratch,
    ) -> bool {
        scratch.merger.budget.begin(text.len());
        scratch.merger.merge(vocabulary, text);
        scratch.merger.ends.len() == 1
    }

    /// Encodes a part of the text that no token crosses.
    fn word<S: Sink>(
        &self,
        vocabulary: &Vocabulary,
        word: &[u8],
        scratch: &mut Scratch,
        out: &mut S,
        place: &mut impl FnMut(usize, usize) -> (usize, usize),
    ) {
        let is_short = word.len() <= SHORT
            || word.len() <= SHORT_ASCII && word.get(SPACE.len()..).is_none_or(<[u8]>::is_ascii);
        if is_short {
            self.part(vocabulary, word, scratch, out, place);
            return;
        }
        let mut start = 0;
        let mut at = 0;
        let mut before = None;
        while at < word.len() {
            let next = at + symbols::length(&word[at..]);
            let this = symbols::number(&word[at..next]);
            if before.is_some_and(|before| !self.pairs.may_have(before, this)) {
                let mut moved = |from, to| place(start + from, start + to);
                self.part(vocabulary, &word[start..at], scratch, out, &mut moved);
                start = at;
            }
            before = Some(this);
            at = next;
        }
        let mut moved = |from, to| place(start + from, start + to);
        self.part(vocabulary, &word[start..], scratch, out, &mut moved);
    }

    fn part<S: Sink>(
        &self,
        vocabulary: &Vocabulary,
        part: &[u8],
        scratch: &mut Scratch,
        out: &mut S,
        place: &mut impl FnMut(usize, usize) -> (usize, usize),
    ) {
        let Scratch { cache, merger, ids, .. } = scratch;
        if S::RANGES {
            merger.merge(vocabulary, part);
            merger.each(|from, to| {
                let (start, end) = place(from, to);
                self.tokens(vocabulary, &part[from..to], |id| out.push(id, start, end));
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
        merger.merge(vocabulary, part);
        merger.each(|from, to| self.tokens(vocabulary, &part[from..to], |id| ids.push(id)));
        if merger.budget.take(0) {
            cache.put(key, part, ids);
        }
        out.extend(ids);
    }

    /// Passes the token of a final symbol to `push`, or the tokens of its bytes.
    fn tokens(&self, vocabulary: &Vocabulary, symbol: &[u8], mut push: impl FnMut(u32)) {
        if let Some(id) = vocabulary.id(symbol) {
            push(id);
            return;
        }
        for &byte in symbol {
            if let Some(id) = self.bytes[usize::from(byte)] {
                push(id);
            }
        }
    }
}

/// Returns the score of a token as an integer of the same order, or `None` if the text is not a token.
#[inline]
fn score(vocabulary: &Vocabulary, text: &[u8]) -> Option<u32> {
    let id = vocabulary.id(text)?;
    // Adding 0 makes both zeros equal. NaN is lowest; llama.cpp defines no order for it.
    let score = vocabulary.score(id) + 0.0;
    if score.is_nan() {
        return Some(0);
    }
    let bits = score.to_bits();
    Some(if bits >> 31 == 0 { bits | 1 << 31 } else { !bits })
}

impl Merger {
    /// Merges the symbols of a text until no pair is a token.
    fn merge(&mut self, vocabulary: &Vocabulary, text: &[u8]) {
        self.merge_by_steps(vocabulary, text, &mut |_, _, _| {});
    }

    /// Merges the symbols, and calls `each` with the start of the left symbol, the start of the
    /// right one, and its end.
    fn merge_by_steps(
        &mut self,
        vocabulary: &Vocabulary,
        text: &[u8],
        each: &mut impl FnMut(usize, usize, usize),
    ) {
        self.ends.clear();
        self.symbols.clear();
        let mut at = 0;
        while at < text.len() {
            at += symbols::length(&text[at..]);
            self.ends.push(at);
        }
        if self.ends.len() <= FEW {
            self.merge_few(vocabulary, text, each);
        } else {
            self.merge_many(vocabulary, text, each);
        }
    }

    /// Calls `each` with the start and end of each symbol.
    fn each(&self, mut each: impl FnMut(usize, usize)) {
        let mut start = 0;
        for &end in &self.ends {
            each(start, end);
            start = end;
        }
    }

    fn merge_few(
        &mut self,
        vocabulary: &Vocabulary,
        text: &[u8],
        each: &mut impl FnMut(usize, usize, usize),
    ) {
        let ends = &mut self.ends;
        let start = |ends: &[usize], symbol: usize| if symbol == 0 { 0 } else { ends[symbol - 1] };
        self.scores.clear();
        for symbol in 0..ends.len().saturating_sub(1) {
            let pair = &text[start(ends, symbol)..ends[symbol + 1]];
            self.scores.push(score(vocabulary, pair));
        }
        loop {
            // The leftmost of equal scores: `max_by_key` returns the last.
            let best = self.scores.iter().enumerate().rev().max_by_key(|(_, score)| **score);
            let Some((symbol, Some(_))) = best else { break };
            each(start(ends, symbol), ends[symbol], ends[symbol + 1]);
            ends.remove(symbol);
            self.scores.remove(symbol);
            if symbol > 0 {
                let pair = &text[start(ends, symbol - 1)..ends[symbol]];
                self.scores[symbol - 1] = score(vocabulary, pair);
            }
            if symbol < self.scores.len() {
                let pair = &text[start(ends, symbol)..ends[symbol + 1]];
                self.scores[symbol] = score(vocabulary, pair);
            }
        }
    }

    fn merge_many(
        &mut self,
        vocabulary: &Vocabulary,
        text: &[u8],
        each: &mut impl FnMut(usize, usize, usize),
    ) {
        let Self { symbols, heap, ends, budget, .. } = self;
        heap.clear();
        let mut start = 0;
        for (&end, index) in ends.iter().zip(0u32..) {
            let previous = index.wrapping_sub(1);
            symbols.push(Symbol { start, length: end - start, previous, next: index + 1 });
            start = end;
        }
        if let Some(last) = symbols.last_mut() {
            last.next = NONE;
        }
        for left in (0u32..).take(symbols.len().saturating_sub(1)) {
            heap.extend(candidate(vocabulary, text, symbols, left, left + 1));
        }
        while let Some((_, Reverse(left), right, length)) = heap.pop() {
            let (one, other) = (symbols[left as usize], symbols[right as usize]);
            // A candidate is stale if one of its symbols was merged since.
            if one.length == 0 || other.length == 0 || one.length + other.length != length {
                continue;
            }
            // Each merge looks up two texts that are at least as long.
            if !budget.take(1 + length / BYTES_A_STEP) {
                break;
            }
            each(one.start, other.start, other.start + other.length);
            symbols[left as usize].length = length;
            symbols[left as usize].next = other.next;
            symbols[right as usize].length = 0;
            if other.next != NONE {
                symbols[other.next as usize].previous = left;
                heap.extend(candidate(vocabulary, text, symbols, left, other.next));
            }
            if one.previous != NONE {
                heap.extend(candidate(vocabulary, text, symbols, one.previous, left));
            }
        }
        ends.clear();
        let remaining = symbols.iter().filter(|symbol| symbol.length > 0);
        ends.extend(remaining.map(|symbol| symbol.start + symbol.length));
    }
}

/// Returns the merge of two adjacent symbols if their concatenation is a token.
fn candidate(
    vocabulary: &Vocabulary,
    text: &[u8],
    symbols: &[Symbol],
    left: u32,
    right: u32,
) -> Option<Candidate> {
    let start = symbols[left as usize].start;
    let length = symbols[left as usize].length + symbols[right as usize].length;
    let score = score(vocabulary, &text[start..start + length])?;
    Some((score, Reverse(left), right, length))
}
