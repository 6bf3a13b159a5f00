//! Unigram: of all segmentations of a text into tokens, the one with the highest sum of scores.

use ggmill_core::Metadata;

use super::{Fragment, bound};
use crate::charsmap::CharsMap;
use crate::error::{Error, ErrorKind};
use crate::symbols::{self, Cuts, SPACE};
use crate::tokenizer::Sink;
use crate::trie::{ROOT, Trie};
use crate::unicode;
use crate::vocabulary::{Attributes, Vocabulary};
use crate::word_cache::{Few, Key, WordCache};
use crate::work::Work;

#[derive(Debug)]
pub(crate) struct Ugm {
    map: CharsMap,
    user_defined: Trie,
    tokens: Trie,
    /// The score of each token.
    scores: Vec<f64>,
    unknown_score: f64,
    /// The unknown token, or [`NONE`].
    unknown: u32,
    /// ASCII characters that normalization does not change, if another ASCII character or nothing
    /// follows.
    plain: [bool; 128],
    cuts: Cuts,
    /// The most symbols whose sum of scores is exact. Up to this length, words can be encoded
    /// separately.
    max_exact: usize,
}

/// Scratch memory.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    normalized: Normalized,
    cache: WordCache,
    best: Vec<Best>,
    found: Vec<(u32, usize, usize)>,
    ids: Vec<u32>,
}

impl Scratch {
    /// Frees buffers that a long text enlarged. The cache has its own bounds.
    pub(super) fn bound(&mut self) {
        bound(&mut self.normalized.text);
        bound(&mut self.normalized.from);
        bound(&mut self.best);
        bound(&mut self.found);
        bound(&mut self.ids);
    }
}

/// A normalized text.
#[derive(Debug, Default)]
struct Normalized {
    text: Vec<u8>,
    /// For each byte, the range in the fragment of the text that it comes from. Empty if ranges are
    /// not needed.
    from: Vec<(usize, usize)>,
}

/// The best segmentation up to a position: its last token, the start of that token, and the sum.
#[derive(Clone, Copy, Debug)]
struct Best {
    id: u32,
    from: usize,
    sum: f64,
}

const NONE: u32 = u32::MAX;
/// The difference between the lowest score of a token and the score of the unknown token.
const PENALTY: f32 = 10.0;

impl Ugm {
    pub(crate) fn new(vocabulary: &Vocabulary, metadata: &Metadata<'_>) -> Result<Self, Error> {
        let map = CharsMap::from_metadata(metadata)?;
        // llama.cpp builds its tables before it corrects attributes.
        let attributes = |id| vocabulary.attributes_in_file(id);
        let is = |id, wanted: Attributes| attributes(id).intersects(wanted);
        let texts = |wanted: Attributes| {
            let ids = (0..vocabulary.len()).filter(move |&id| is(id, wanted));
            ids.map(|id| (vocabulary.text(id).unwrap_or_default(), id))
        };
        let (defined, unused) = (Attributes::USER_DEFINED, Attributes::UNUSED);
        let no_memory = || Error::new(ErrorKind::Limit, "not enough memory for the tokens");
        let user_defined = Trie::new(texts(defined)).ok_or_else(no_memory)?;
        let can_occur = Attributes::NORMAL | defined | unused;
        let tokens = Trie::new(texts(can_occur)).ok_or_else(no_memory)?;
        let mut lowest = f32::MAX;
        for (_, id) in texts(Attributes::NORMAL) {
            // As in `std::min`, NaN is never lower.
            if vocabulary.score(id) < lowest {
                lowest = vocabulary.score(id);
            }
        }
        let unknown_score = f64::from(lowest - PENALTY);
        // The score of a user-defined token is 0.
        let scores: Vec<f64> =
            (0..vocabulary.len())
                .map(|id| {
                    if is_user_defined(vocabulary, id) { 0.0 } else { vocabulary.score(id).into() }
                })
                .collect();
        let mut exactness = Exactness::default();
        exactness.add(unknown_score);
        let mut cuts = Cuts::new();
        for (text, id) in texts(can_occur) {
            exactness.add(scores.get(id as usize).copied().unwrap_or_default());
            cuts.add(text, |_, _| {});
        }
        let mut plain = [false; 128];
        for (byte, plain) in (0u8..).zip(&mut plain) {
            *plain = map.keeps(byte) && user_defined.step(ROOT, byte).is_none();
        }
        Ok(Self {
            map,
            user_defined,
            tokens,
            scores,
            unknown_score,
            unknown: vocabulary.special_ids().unk.unwrap_or(NONE),
            plain,
            cuts,
            max_exact: exactness.symbols(),
        })
    }

    pub(crate) fn encode<S: Sink>(
        &self,
        vocabulary: &Vocabulary,
        fragment: Fragment<'_>,
        scratch: &mut Scratch,
        budget: &mut Work,
        out: &mut S,
    ) {
        let mut normalized = std::mem::take(&mut scratch.normalized);
        self.normalize(vocabulary, fragment.text, &mut normalized, S::RANGES, budget);
        let mut last = NONE;
        let mut pending: Option<(u32, usize, usize)> = None;
        self.words(&normalized.text, |start, end| {
            let word = &normalized.text[start..end];
            if S::RANGES {
                self.best(word, scratch, budget);
                for &(id, from, to) in &scratch.found {
                    let from = normalized.from.get(start + from).map_or(0, |range| range.0);
                    let to = (start + to).checked_sub(1).and_then(|to| normalized.from.get(to));
                    let piece =
                        (id, fragment.start + from, fragment.start + to.map_or(0, |to| to.1));
                    match &mut pending {
                        Some(known) if known.0 == self.unknown && id == known.0 => {
                            known.2 = piece.2;
                        }
                        _ => push(pending.replace(piece), out),
                    }
                }
            } else {
                last = self.ids(word, scratch, last, budget, out);
            }
        });
        push(pending, out);
        scratch.normalized = normalized;
    }

    /// Calls `each` with the range of each part that no token crosses.
    fn words(&self, text: &[u8], mut each: impl FnMut(usize, usize)) {
        let mut word = 0;
        if text.len() <= self.max_exact {
            let mut at = 0;
            while at < text.len() {
                let (next, can_cut) = self.cuts.after(text, at);
                if can_cut {
                    each(word, next);
                    word = next;
                }
                at = next;
            }
        }
        if word < text.len() {
            each(word, text.len());
        }
    }

    /// Encodes a word that follows the token `last`, and returns its last token.
    fn ids<S: Sink>(
        &self,
        word: &[u8],
        scratch: &mut Scratch,
        last: u32,
        budget: &mut Work,
        out: &mut S,
    ) -> u32 {
        let key = Key::new(word, 0, word.len());
        let mut room = Few::default();
        if let Some(known) = scratch.cache.get(key, word, &mut room) {
            return self.extend(known, last, out);
        }
        self.best(word, scratch, budget);
        if !budget.take(0) {
            return last;
        }
        let Scratch { cache, found, ids, .. } = scratch;
        ids.clear();
        ids.extend(found.iter().map(|&(id, ..)| id));
        cache.put(key, word, ids);
        self.extend(ids, last, out)
    }

    /// Passes tokens to `out`. Consecutive unknown tokens become one.
    fn extend<S: Sink>(&self, ids: &[u32], last: u32, out: &mut S) -> u32 {
        let unknown = self.unknown;
        if unknown == NONE {
            for &id in ids.iter().filter(|&&id| id != NONE) {
                out.push(id, 0, 0);
            }
        } else if last == unknown && ids.first() == Some(&unknown) {
            out.extend(&ids[1..]);
        } else {
            out.extend(ids);
        }
        ids.last().copied().unwrap_or(last)
    }

    /// Writes the best segmentation of a text to `scratch.found`. Consecutive unknown tokens become
    /// one.
    fn best(&self, text: &[u8], scratch: &mut Scratch, budget: &mut Work) {
        let Scratch { best, found, .. } = scratch;
        found.clear();
        best.clear();
        best.resize(text.len() + 1, Best { id: self.unknown, from: 0, sum: -f64::MAX });
        best[0].sum = 0.0;
        let mut at = 0;
        while at < text.len() {
            let length = symbols::length(&text[at..]);
            let sum = best[at].sum;
            let mut is_token = false;
            let mut node = ROOT;
            let mut steps = 1;
            for (end, &byte) in (at + 1..).zip(&text[at..]) {
                let Some(next) = self.tokens.step(node, byte) else { break };
                node = next;
                steps = end - at;
                let Some(id) = self.tokens.value(node) else { continue };
                is_token |= end - at == length;
                let sum = sum + self.scores[id as usize];
                // Of equal sums, the first is kept.
                if sum > best[end].sum {
                    best[end] = Best { id, from: at, sum };
                }
            }
            if !budget.take(steps) {
                return;
            }
            if !is_token {
                let sum = sum + self.unknown_score;
                if sum > best[at + length].sum {
                    best[at + length] = Best { id: self.unknown, from: at, sum };
                }
            }
            at += length;
        }
        let mut end = text.len();
        while end > 0 {
            let Best { id, from, .. } = best[end];
            match found.last_mut() {
                Some(after) if id == self.unknown && after.0 == id => after.1 = from,
                _ => found.push((id, from, end)),
            }
            end = from;
        }
        found.reverse();
    }

    /// Applies the character map, and writes spaces as U+2581.
    fn normalize(
        &self,
        vocabulary: &Vocabulary,
        text: &[u8],
        out: &mut Normalized,
        with_places: bool,
        budget: &mut Work,
    ) {
        out.text.clear();
        out.from.clear();
        out.text.reserve(text.len() + text.len() / 4);
        let flags = vocabulary.flags();
        let merge = flags.remove_extra_whitespaces;
        let mut prefix = flags.add_space_prefix;
        let mut in_word = false;
        let mut put = |bytes: &[u8], from: (usize, usize)| {
            for &byte in bytes {
                if byte == b' ' {
                    in_word = false;
                    if !merge {
                        out.text.extend_from_slice(SPACE);
                    }
                    continue;
                }
                if !in_word {
                    in_word = true;
                    if prefix || merge {
                        out.text.extend_from_slice(SPACE);
                        prefix = false;
                    }
                    if with_places {
                        out.from.resize(out.text.len(), (from.0, from.0));
                    }
                }
                out.text.push(byte);
            }
            if with_places {
                out.from.resize(out.text.len(), from);
            }
        };
        let mut at = 0;
        while at < text.len() {
            let rest = &text[at..];
            // A replacement of a plain character can only begin if a byte beyond ASCII follows it.
            let is_plain = |byte: &u8| self.plain.get(usize::from(*byte)) == Some(&true);
            let plain = rest.iter().position(|byte| !is_plain(byte)).unwrap_or(rest.len());
            let next = rest.get(plain).is_some_and(|&byte| byte >= 0x80);
            let plain = if next { plain.saturating_sub(1) } else { plain };
            if plain > 0 {
                if with_places {
                    for (place, byte) in (at..).zip(&rest[..plain]) {
                        put(&[*byte], (place, place + 1));
                    }
                } else {
                    put(&rest[..plain], (at, at + plain));
                }
                at += plain;
                continue;
            }
            // A prefix of a user-defined token is treated like the token, as in llama.cpp.
            let defined = self.user_defined.depth(rest);
            let (length, replacement) = if defined > 0 {
                (defined, &rest[..defined])
            } else if let Some(found) = self.map.longest(rest, budget) {
                found
            } else {
                match character_length(rest) {
                    Some(length) => (length, &rest[..length]),
                    None => (1, "\u{FFFD}".as_bytes()),
                }
            };
            put(replacement, (at, at + length));
            at += length;
        }
    }
}

/// Returns the length of the character at the beginning. Four bytes of the right form are a
/// character, even beyond the last code point, since the value is not used.
fn character_length(text: &[u8]) -> Option<usize> {
    match unicode::decode(text)? {
        (unicode::REPLACEMENT, 1) => {
            let four = text.get(..4)?;
            let is_tail = |byte: &u8| byte & 0xC0 == 0x80;
            (four[0] & 0xF8 == 0xF0 && four[1..].iter().all(is_tail)).then_some(4)
        }
        (_, length) => Some(length),
    }
}

fn push(piece: Option<(u32, usize, usize)>, out: &mut impl Sink) {
    if let Some((id, start, end)) = piece.filter(|piece| piece.0 != NONE) {
        out.push(id, start, end);
    }
}

/// Returns `true` if a token is user-defined after the corrections of attributes.
fn is_user_defined(vocabulary: &Vocabulary, id: u32) -> bool {
    vocabulary.attributes(id).contains(Attributes::USER_DEFINED)
}

/// Computes how many scores can be added exactly in 64 bits. With exact sums, the best segmentation
/// of a text is the best segmentation of each of its words.
#[derive(Debug)]
struct Exactness {
    /// The exponent of the least significant bit of any score.
    least: i32,
    greatest: f64,
}

impl Default for Exactness {
    fn default() -> Self {
        Self { least: 64, greatest: 0.0 }
    }
}

impl Exactness {
    fn add(&mut self, score: f64) {
        if score == 0.0 {
            return;
        }
        let bits = score.to_bits();
        let exponent = i32::try_from(bits >> 52 & 0x7FF).unwrap_or_default() - 1075;
        let fraction = bits & ((1 << 52) - 1) | 1 << 52;
        let zeros = i32::try_from(fraction.trailing_zeros()).unwrap_or_default();
        self.least = self.least.min(exponent + zeros);
        // No sum with NaN or infinity is exact.
        let size = if score.is_finite() { score.abs() } else { f64::INFINITY };
        self.greatest = self.greatest.max(size);
    }

    /// Returns the number of scores whose sum is exact for any selection of scores.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturates")]
    fn symbols(&self) -> usize {
        let greatest_sum = f64::powi(2.0, 52 + self.least.clamp(-1000, 64));
        let symbols = greatest_sum / self.greatest;
        if symbols.is_finite() {
            symbols as usize
        } else if self.greatest == 0.0 {
            usize::MAX
        } else {
            0
        }
    }
}
