//! The table of merges, and merging a word.
//!
//! A symbol is a string that occurs in a merge: a token, or a half or product of merges that is not
//! a token, numbered after the tokens. llama.cpp compares strings, so a product need not be a token.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use ggmill_core::{Metadata, keys};

use super::alphabet;
use crate::buffers::{bound, bound_heap};
use crate::error::{Error, ErrorKind};
use crate::symbols::SPACE;
use crate::unicode::{Properties, properties};
use crate::vocabulary::Vocabulary;
use crate::vocabulary::load::{optional, strings};
use crate::vocabulary::token_map::TokenMap;

/// No symbol.
pub(super) const NONE: u32 = u32::MAX;
/// No rank.
const UNRANKED: u32 = u32::MAX;
/// The initial hash factor.
const FACTOR: u64 = 0x9E37_79B9_7F4A_7C15;
/// A space in the byte-level alphabet.
const BYTE_LEVEL_SPACE: &[u8] = "\u{120}".as_bytes();
/// The most symbols of a word for which each best pair is found by linear search, without a queue.
const SHORT: usize = 48;

/// A merge: a pair of symbols, its rank and its product.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    pub(crate) left: u32,
    pub(crate) right: u32,
    pub(crate) rank: u32,
    pub(crate) product: u32,
}

const EMPTY: Entry = Entry { left: NONE, right: NONE, rank: UNRANKED, product: NONE };

/// A hash table of merges with open addressing.
#[derive(Debug)]
pub(crate) struct Merges {
    slots: Vec<Entry>,
    shift: u32,
    /// The odd hash factor. It is replaced once pairs collide too often.
    factor: u64,
    /// Occupied slots that insertions passed since the factor was set.
    collisions: usize,
    /// Symbols that are not tokens.
    others: TokenMap,
    tokens: u32,
    /// For each byte, whether the left half of a merge ends with it and the right half begins with
    /// a space.
    before_space: [bool; 256],
    /// The left half of a merge may end with a letter or a mark, and the right half begin with a
    /// space.
    joins_words: bool,
    /// The symbols are in the byte-level alphabet.
    is_byte_level: bool,
}

/// A merge that was applied to a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Applied {
    pub(super) rank: u32,
    pub(super) left: u32,
    pub(super) right: u32,
    /// The start of the left symbol in the word.
    pub(super) start: u32,
}

/// The symbols of a word that is being merged, and scratch memory.
#[derive(Debug, Default)]
pub(crate) struct Work {
    pub(super) symbols: Vec<u32>,
    /// The start of each symbol in the word.
    pub(super) starts: Vec<u32>,
    pairs: Vec<(u32, u32)>,
    links: Vec<(u32, u32)>,
    queue: BinaryHeap<Reverse<(u64, u32, u32, u32)>>,
}

impl Work {
    /// Takes the symbols of a word.
    #[cfg(feature = "tokenizer-json")]
    pub(crate) fn new(symbols: Vec<u32>) -> Self {
        let starts = vec![0; symbols.len()];
        Self { symbols, starts, ..Self::default() }
    }

    /// Returns the symbols of the word.
    #[cfg(feature = "tokenizer-json")]
    pub(crate) fn symbols(&self) -> &[u32] {
        &self.symbols
    }

    /// Frees buffers that a long word enlarged.
    pub(super) fn bound(&mut self) {
        bound(&mut self.symbols);
        bound(&mut self.starts);
        bound(&mut self.pairs);
        bound(&mut self.links);
        bound_heap(&mut self.queue);
    }
}

/// The number of merges that are hashed together, so that cache misses overlap.
const BATCH: usize = 64;

/// Reads merges in batches.
#[derive(Debug, Default)]
struct Reader {
    products: Vec<u8>,
    found: Vec<Option<u32>>,
    entries: Vec<Entry>,
    /// The first slot of each entry, and whether it is free.
    first: Vec<(usize, bool)>,
    /// The product of each merge, if it follows that of the merge before.
    guesses: Vec<Option<u32>>,
    /// The last product that is a token.
    last: u32,
}

impl Reader {
    /// Adds merges, given as rank, left half and right half.
    fn read(
        &mut self,
        merges: &mut Merges,
        vocabulary: &Vocabulary,
        batch: &[(u32, &[u8], &[u8])],
    ) -> Option<()> {
        let Self { products, found, entries, first, guesses, last } = self;
        products.clear();
        for (_, left, right) in batch {
            products.extend_from_slice(left);
            products.extend_from_slice(right);
        }
        let mut texts = Vec::with_capacity(batch.len().saturating_mul(3));
        let mut rest = &**products;
        guesses.clear();
        for &(_, left, right) in batch {
            let (product, tail) = rest.split_at_checked(left.len().checked_add(right.len())?)?;
            rest = tail;
            // Most vocabularies list tokens in the order of the merges that produce them.
            let guess = [*last, last.wrapping_add(1)].into_iter();
            let guess = guess.clone().find(|&id| vocabulary.texts.text(id) == Some(product));
            *last = guess.unwrap_or(*last);
            guesses.push(guess);
            texts.extend([left, right]);
            if guess.is_none() {
                texts.push(product);
            }
        }
        vocabulary.texts.get_many(&texts, found);
        let mut looked_up = texts.iter().zip(&*found);
        entries.clear();
        for (&(rank, left, right), &guess) in batch.iter().zip(&*guesses) {
            let mut symbol = || match looked_up.next()? {
                (_, Some(id)) => Some(*id),
                (text, None) => merges.other(text),
            };
            let (one, other) = (symbol()?, symbol()?);
            let product = match guess {
                Some(id) => id,
                None => symbol()?,
            };
            if product < merges.tokens {
                *last = product;
            }
            entries.push(Entry { left: one, right: other, rank, product });
            if right.starts_with(merges.space()) {
                merges.add_before_space(left);
            }
        }
        // Load all first slots before using any.
        first.clear();
        first.extend(entries.iter().map(|entry| {
            let place = merges.place(entry.left, entry.right);
            (place, merges.slots.get(place).is_some_and(|slot| slot.rank == UNRANKED))
        }));
        for (&entry, &(place, is_free)) in entries.iter().zip(&*first) {
            match merges.slots.get_mut(place) {
                Some(slot) if is_free && slot.rank == UNRANKED => *slot = entry,
                _ => merges.insert(entry),
            }
        }
        Some(())
    }
}

/// Returns `true` if text that ends with this symbol of the byte-level alphabet may end with a
/// letter or a mark.
fn may_end_word(mut text: &[u8]) -> bool {
    let mut bytes = [0; 4];
    for start in (0..bytes.len()).rev() {
        let Some(last) = alphabet::last_byte(text) else { break };
        bytes[start] = last;
        if last & 0xC0 != 0x80 {
            let character =
                std::str::from_utf8(&bytes[start..]).ok().and_then(|it| it.chars().next());
            return character.is_none_or(|it| properties(it.into()).is(Properties::LETTER_OR_MARK));
        }
        let length = alphabet::character(last).as_bytes().len();
        text = text.get(..text.len().saturating_sub(length)).unwrap_or_default();
    }
    // The symbol is part of an unknown character.
    true
}

#[cold]
fn no_memory() -> Error {
    Error::at(ErrorKind::Limit, keys::TOKENIZER_MERGES, "too many merges for the available memory")
}

impl Merges {
    /// Reads the merges. Fails if there are none, unless the pre-tokenizer allows that.
    pub(super) fn new(vocabulary: &Vocabulary, metadata: &Metadata<'_>) -> Result<Self, Error> {
        let key = keys::TOKENIZER_MERGES;
        let Some(array) = optional(metadata.array(key))? else {
            if vocabulary.pre.is_some_and(|pre| pre.without_merges) {
                return Self::with_room(vocabulary, 0).ok_or_else(no_memory);
            }
            return Err(Error::at(ErrorKind::Missing, key, "is missing"));
        };
        let count = usize::try_from(array.len()).map_err(|_| no_memory())?;
        let mut merges = Self::with_room(vocabulary, count).ok_or_else(no_memory)?;
        let mut batch: Vec<(u32, &[u8], &[u8])> = Vec::with_capacity(BATCH);
        let mut reader = Reader::default();
        for (rank, text) in strings(key, array)?.enumerate() {
            let text = text?;
            let tail = text.get(1..).unwrap_or_default();
            let Some(space) = tail.iter().position(|&byte| byte == b' ') else { continue };
            let (left, right) = text.split_at(space.saturating_add(1));
            let rank = u32::try_from(rank).ok().filter(|&rank| rank != UNRANKED);
            batch.push((rank.ok_or_else(no_memory)?, left, right.get(1..).unwrap_or_default()));
            if batch.len() == BATCH {
                reader.read(&mut merges, vocabulary, &batch).ok_or_else(no_memory)?;
                batch.clear();
                if merges.are_crowded() {
                    merges.rehash(vocabulary.texts.seed()).ok_or_else(no_memory)?;
                }
            }
        }
        reader.read(&mut merges, vocabulary, &batch).ok_or_else(no_memory)?;
        Ok(merges)
    }

    fn with_room(vocabulary: &Vocabulary, merges: usize) -> Option<Self> {
        let is_byte_level = vocabulary.pre.is_some_and(|pre| !pre.raw);
        Self::of(vocabulary.len(), is_byte_level, merges)
    }

    /// Creates a table of merges of tokens. The first entry of a pair is kept. Returns `None` if
    /// there is not enough memory.
    #[cfg(feature = "tokenizer-json")]
    pub(crate) fn from_entries(entries: impl ExactSizeIterator<Item = Entry>) -> Option<Self> {
        let mut merges = Self::of(NONE, false, entries.len())?;
        for entry in entries {
            merges.insert(entry);
            if merges.are_crowded() {
                merges.rehash(0)?;
            }
        }
        Some(merges)
    }

    fn of(tokens: u32, is_byte_level: bool, merges: usize) -> Option<Self> {
        // At most three quarters of the slots are taken.
        let size = merges.checked_add(merges / 3)?.checked_add(4)?.checked_next_power_of_two()?;
        let mut slots = Vec::new();
        slots.try_reserve_exact(size).ok()?;
        slots.resize(size, EMPTY);
        let shift = 64u32.checked_sub(size.trailing_zeros())?;
        let others = TokenMap::with_capacity(0, 0)?;
        Some(Self {
            slots,
            shift,
            factor: FACTOR,
            collisions: 0,
            others,
            tokens,
            before_space: [false; 256],
            joins_words: false,
            is_byte_level,
        })
    }

    /// Returns the representation of a space in symbols.
    fn space(&self) -> &'static [u8] {
        if self.is_byte_level { BYTE_LEVEL_SPACE } else { SPACE }
    }

    /// Records that a merge joins `left` to a space. A symbol that ends with no byte of the
    /// alphabet occurs in no text.
    fn add_before_space(&mut self, left: &[u8]) {
        let last =
            if self.is_byte_level { alphabet::last_byte(left) } else { left.last().copied() };
        if let Some(last) = last {
            self.before_space[usize::from(last)] = true;
            self.joins_words = self.joins_words || !self.is_byte_level || may_end_word(left);
        }
    }

    /// Returns `true` if no merge joins a letter or a mark to a space after it.
    pub(super) fn keep_words_apart(&self) -> bool {
        !self.joins_words
    }

    /// Returns `true` if insertions passed far more slots than they do on average while a quarter
    /// of the slots is free, so that the pairs were probably chosen to collide.
    fn are_crowded(&self) -> bool {
        self.collisions > self.slots.len().saturating_mul(16).saturating_add(4096)
    }

    /// Hashes all pairs again with a factor that depends on them and on `seed`.
    #[cold]
    fn rehash(&mut self, seed: u64) -> Option<()> {
        let mut slots = Vec::new();
        slots.try_reserve_exact(self.slots.len()).ok()?;
        slots.resize(self.slots.len(), EMPTY);
        let old = std::mem::replace(&mut self.slots, slots);
        let taken = || old.iter().filter(|entry| entry.rank != UNRANKED);
        let factor = taken().fold(self.factor ^ seed, |state, entry| {
            let pair = u64::from(entry.left) << 32 | u64::from(entry.right);
            (state.rotate_left(23) ^ pair).wrapping_mul(FACTOR)
        });
        (self.factor, self.collisions) = ((factor ^ factor >> 32) | 1, 0);
        for &entry in taken() {
            self.insert(entry);
        }
        Some(())
    }

    /// Returns the symbol of a string that is not a token, and adds it if necessary.
    fn other(&mut self, text: &[u8]) -> Option<u32> {
        let number = match self.others.get(text) {
            Some(known) => known,
            None => self.others.push(text)?.ok()?,
        };
        self.tokens.checked_add(number).filter(|&symbol| symbol != NONE)
    }

    /// Returns the symbol of a string.
    pub(super) fn known(&self, vocabulary: &Vocabulary, text: &[u8]) -> Option<u32> {
        vocabulary.id(text).or_else(|| Some(self.others.get(text)?.wrapping_add(self.tokens)))
    }

    /// Returns the token of a symbol.
    #[inline]
    pub(super) fn token(&self, symbol: u32) -> Option<u32> {
        (symbol < self.tokens).then_some(symbol)
    }

    /// Returns the string of a symbol.
    pub(super) fn text<'a>(&'a self, vocabulary: &'a Vocabulary, symbol: u32) -> Option<&'a [u8]> {
        match symbol.checked_sub(self.tokens) {
            None => vocabulary.texts.text(symbol),
            Some(number) => self.others.text(number),
        }
    }

    /// Returns the rank and product of every merge, in no particular order.
    pub(super) fn products(&self) -> impl Iterator<Item = (u32, u32)> {
        let taken = self.slots.iter().filter(|entry| entry.rank != UNRANKED);
        taken.map(|entry| (entry.rank, entry.product))
    }

    /// Returns `true` if a merge may join text that ends with a byte to a space after it.
    #[inline]
    pub(super) fn may_join_space(&self, last: u8) -> bool {
        self.before_space.get(usize::from(last)).copied().unwrap_or(true)
    }

    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "the place is below the number of slots")]
    fn place(&self, left: u32, right: u32) -> usize {
        let pair = u64::from(left) << 32 | u64::from(right);
        let mixed = (pair ^ pair >> 29).wrapping_mul(self.factor);
        (mixed >> self.shift) as usize
    }

    /// Adds a merge. An existing merge of the pair is kept.
    fn insert(&mut self, entry: Entry) {
        let mask = self.slots.len().wrapping_sub(1);
        let mut place = self.place(entry.left, entry.right);
        while let Some(slot) = self.slots.get_mut(place) {
            if slot.rank == UNRANKED {
                *slot = entry;
                return;
            }
            if (slot.left, slot.right) == (entry.left, entry.right) {
                return;
            }
            place = place.wrapping_add(1) & mask;
            self.collisions = self.collisions.saturating_add(1);
        }
    }

    /// Returns the rank and the product of a pair.
    #[inline]
    fn pair(&self, left: u32, right: u32) -> (u32, u32) {
        let mask = self.slots.len().wrapping_sub(1);
        let mut place = self.place(left, right);
        while let Some(slot) = self.slots.get(place) {
            if slot.rank == UNRANKED {
                break;
            }
            if (slot.left, slot.right) == (left, right) {
                return (slot.rank, slot.product);
            }
            place = place.wrapping_add(1) & mask;
        }
        (UNRANKED, NONE)
    }

    /// Merges the symbols until no pair has a rank: the lowest rank first, and of equal ranks the
    /// leftmost.
    pub(crate) fn merge(&self, work: &mut Work) {
        self.merge_by_steps(work, &mut |_| {});
    }

    /// Merges the symbols, and calls `each` with every merge in order.
    pub(super) fn merge_by_steps(&self, work: &mut Work, each: &mut impl FnMut(Applied)) {
        if work.symbols.len() <= SHORT {
            self.merge_short(work, each);
        } else {
            self.merge_long(work, each);
        }
    }

    fn merge_short(&self, work: &mut Work, each: &mut impl FnMut(Applied)) {
        let Work { symbols, starts, pairs, .. } = work;
        pairs.clear();
        let both = symbols.iter().zip(symbols.iter().skip(1));
        pairs.extend(both.map(|(&left, &right)| self.pair(left, right)));
        loop {
            let best = pairs.iter().enumerate().min_by_key(|(_, (rank, _))| *rank);
            let Some((place, &(rank, product))) = best else { return };
            if rank == UNRANKED {
                return;
            }
            if let (Some(&left), Some(&right)) = (symbols.get(place), symbols.get(place + 1)) {
                let start = starts.get(place).copied().unwrap_or_default();
                each(Applied { rank, left, right, start });
            }
            if let Some(slot) = symbols.get_mut(place) {
                *slot = product;
            }
            symbols.remove(place + 1);
            starts.remove(place + 1);
            pairs.remove(place);
            if let Some(before) = place.checked_sub(1)
                && let (Some(slot), Some(&left)) = (pairs.get_mut(before), symbols.get(before))
            {
                *slot = self.pair(left, product);
            }
            if let (Some(slot), Some(&right)) = (pairs.get_mut(place), symbols.get(place + 1)) {
                *slot = self.pair(product, right);
            }
        }
    }

    /// Merges with a queue, in time O(n log n).
    #[expect(clippy::cast_possible_truncation, reason = "a text has less than 2^31 bytes")]
    fn merge_long(&self, work: &mut Work, each: &mut impl FnMut(Applied)) {
        let Work { symbols, starts, links, queue, .. } = work;
        let count = symbols.len() as u32;
        links.clear();
        links.extend((0..count).map(|place| (place.wrapping_sub(1), place + 1)));
        let entry = |place: u32, left: u32, right: u32| {
            let (rank, product) = self.pair(left, right);
            let key = u64::from(rank) << 32 | u64::from(place);
            (rank != UNRANKED).then_some(Reverse((key, left, right, product)))
        };
        let pairs = symbols.iter().zip(symbols.iter().skip(1)).zip(0..);
        let mut entries = std::mem::take(queue).into_vec();
        entries.clear();
        entries.extend(pairs.filter_map(|((&left, &right), place)| entry(place, left, right)));
        *queue = BinaryHeap::from(entries);
        let at = |symbols: &[u32], place: u32| symbols.get(place as usize).copied();
        while let Some(Reverse((key, left, right, product))) = queue.pop() {
            let place = key as u32;
            let Some(&(before, next)) = links.get(place as usize) else { continue };
            if at(symbols, place) != Some(left) || at(symbols, next) != Some(right) {
                continue;
            }
            let start = starts.get(place as usize).copied().unwrap_or_default();
            each(Applied { rank: (key >> 32) as u32, left, right, start });
            let after = links.get(next as usize).map_or(count, |link| link.1);
            if let Some(slot) = symbols.get_mut(place as usize) {
                *slot = product;
            }
            if let Some(slot) = symbols.get_mut(next as usize) {
                *slot = NONE;
            }
            if let Some(link) = links.get_mut(place as usize) {
                link.1 = after;
            }
            if let Some(link) = links.get_mut(after as usize) {
                link.0 = place;
            }
            if let Some(symbol) = at(symbols, before) {
                queue.extend(entry(before, symbol, product));
            }
            if let Some(symbol) = at(symbols, after) {
                queue.extend(entry(place, product, symbol));
            }
        }
        // Move the remaining symbols, which are linked, to the front.
        let (mut place, mut kept) = (0, 0);
        while let (Some(symbol), Some(&start)) = (at(symbols, place), starts.get(place as usize)) {
            if let (Some(slot), Some(begin)) = (symbols.get_mut(kept), starts.get_mut(kept)) {
                (*slot, *begin) = (symbol, start);
            }
            kept += 1;
            place = links.get(place as usize).map_or(count, |link| link.1);
        }
        symbols.truncate(kept);
        starts.truncate(kept);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn symbols_that_may_end_with_a_letter_are_recognized() {
        let ends = |text: &str| {
            let characters = text.bytes().map(alphabet::character);
            let encoded: Vec<u8> = characters.flat_map(|it| it.as_bytes().to_vec()).collect();
            may_end_word(&encoded)
        };
        assert!(["a", " a", "é", " x\u{301}", "中", "𐐀"].map(ends).iter().all(|&ends| ends));
        assert!(!["1", "a.", "\n", "a ", "a\u{A0}", "a🦙", "'"].map(ends).iter().any(|&ends| ends));
        // Last bytes of characters.
        let encoded = |bytes: &[u8]| {
            bytes.iter().flat_map(|&it| alphabet::character(it).as_bytes().to_vec()).collect()
        };
        let parts: [&[u8]; 4] = [b"\xA0", b"\x82\xA0", b"\x80\x80\x80\x80\x80", b"a\xA0"];
        assert!(parts.into_iter().all(|bytes| may_end_word(&{
            let it: Vec<u8> = encoded(bytes);
            it
        })));
    }

    /// Pairs that were chosen to collide do not take quadratic time.
    #[test]
    fn colliding_pairs_are_hashed_again() {
        const TOKENS: u32 = 3000;
        const PAIRS: usize = 6000;
        let mut merges = Merges::of(TOKENS, true, PAIRS).unwrap();
        let all = (0..TOKENS).flat_map(|left| (0..TOKENS).map(move |right| (left, right)));
        let crowd = all.filter(|&(left, right)| merges.place(left, right) < 16);
        let pairs: Vec<(u32, u32)> = crowd.take(PAIRS).collect();
        assert_eq!(pairs.len(), PAIRS);
        let mut rehashes = 0;
        for (rank, &(left, right)) in (0..).zip(&pairs) {
            merges.insert(Entry { left, right, rank, product: rank });
            if merges.are_crowded() {
                merges.rehash(7).unwrap();
                rehashes += 1;
            }
        }
        assert!((1..=2).contains(&rehashes), "{rehashes}");
        assert!(merges.collisions < PAIRS * 8, "{} collisions", merges.collisions);
        for (rank, &(left, right)) in (0..).zip(&pairs) {
            assert_eq!(merges.pair(left, right), (rank, rank));
            // The first rank is kept.
            merges.insert(Entry { left, right, rank: 9, product: 9 });
            assert_eq!(merges.pair(left, right), (rank, rank));
        }
    }
}
