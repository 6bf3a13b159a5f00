//! A bounded cache of words and their tokens.

use std::hash::BuildHasher;

use foldhash::fast::FixedState;

/// The longest word in bytes that is cached.
const LONGEST: usize = 512;
/// The most tokens of a word in the table of short words.
const FEW: usize = 4;
/// The bits of a token in that table.
const TOKEN_BITS: u32 = 24;
/// The most bytes of a word in that table.
const SHORT: usize = 15;
/// The initial and the greatest number of pairs in that table.
const PAIRS: (usize, usize) = (1 << 9, 1 << 16);
/// The most words in the table of long words.
const WORDS: usize = 1 << 16;
/// The most bytes of these words.
const BYTES: usize = 1 << 22;
/// The most tokens of these words.
const TOKENS: usize = 1 << 20;
/// The initial number of slots of that table.
const MIN_SLOTS: usize = 1 << 10;
/// The most slots that are probed, since words can be chosen to collide.
const MAX_PROBES: usize = 32;

/// The number of words that are looked up at once.
pub(crate) const AT_ONCE: usize = 64;
/// The most tokens of short words that are looked up at once.
pub(crate) const ROOM: usize = AT_ONCE * FEW;

/// A word as a number that contains its bytes and length, or [`Key::LONG`] if it is too long or
/// empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Key(u128);

/// The mask of the bytes of a word, by its length.
const MASKS: [u128; SHORT + 1] = {
    let mut masks = [0; SHORT + 1];
    let mut length = 1;
    while length <= SHORT {
        masks[length] = (1 << (length * 8)) - 1;
        length += 1;
    }
    masks
};

impl Key {
    pub(crate) const LONG: Self = Self(0);

    /// Returns the key of a part of a text.
    #[inline]
    pub(crate) fn new(text: &[u8], start: usize, end: usize) -> Self {
        let length = end.wrapping_sub(start);
        let Some(&mask) = MASKS.get(length) else { return Self::LONG };
        let bytes = match text.get(start..).and_then(|rest| rest.first_chunk::<16>()) {
            Some(bytes) => u128::from_le_bytes(*bytes),
            None => last_bytes(text.get(start..end).unwrap_or_default()),
        };
        Self(bytes & mask | (length as u128) << 120)
    }

    /// Returns the index of the word's pair in a table whose size is a power of two.
    #[inline]
    #[expect(
        clippy::cast_possible_truncation,
        reason = "the halves are mixed, and the low bits are taken"
    )]
    fn place(self, size: usize) -> usize {
        let (low, high) = (self.0 as u64, (self.0 >> 64) as u64);
        let mixed = u128::from(low ^ 0x9E37_79B9_7F4A_7C15)
            .wrapping_mul(u128::from(high ^ 0xD6E8_FEB8_6659_FD93));
        ((mixed >> 64) as u64 ^ mixed as u64) as usize & size.wrapping_sub(1)
    }
}

/// Returns the bytes of a short word at the end of a text.
#[cold]
fn last_bytes(word: &[u8]) -> u128 {
    let mut bytes = [0; 16];
    for (slot, &byte) in bytes.iter_mut().zip(word) {
        *slot = byte;
    }
    u128::from_le_bytes(bytes)
}

/// The tokens of a short word.
pub(crate) type Few = [u32; FEW];

/// A short word and its tokens. The highest bits of the last token are the number of tokens.
#[derive(Clone, Copy, Debug)]
struct Short {
    key: u128,
    tokens: Few,
}

/// A free place: no word has this key.
const NO_WORD: Short = Short { key: u128::MAX, tokens: [0; FEW] };

impl Short {
    /// Returns `None` if the tokens are too many or too large.
    fn new(key: Key, ids: &[u32]) -> Option<Self> {
        let mut tokens = [0; FEW];
        tokens.get_mut(..ids.len())?.copy_from_slice(ids);
        let is_small = ids.iter().all(|id| id >> TOKEN_BITS == 0);
        tokens[FEW - 1] |= u32::try_from(ids.len()).ok()? << TOKEN_BITS;
        is_small.then_some(Self { key: key.0, tokens })
    }

    /// Returns the tokens, padded, and their number.
    #[inline]
    fn tokens(&self) -> (Few, usize) {
        let mut tokens = self.tokens;
        tokens[FEW - 1] &= (1 << TOKEN_BITS) - 1;
        (tokens, (self.tokens[FEW - 1] >> TOKEN_BITS) as usize)
    }
}

/// Two words in a cache line, the most recent first.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
struct Pair([Short; 2]);

const NO_WORDS: Pair = Pair([NO_WORD; 2]);

/// The positions of words in the table of short words. An insertion invalidates them.
pub(crate) struct Found {
    pub(crate) places: [u32; AT_ONCE],
    /// A bit for each word that is not in the table; the lowest bit is the first word.
    pub(crate) missing: u64,
}

/// Returns the indices of the set bits in ascending order.
#[inline]
fn bits(mut rest: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let number = (rest != 0).then_some(rest.trailing_zeros() as usize);
        rest &= rest.wrapping_sub(1);
        number
    })
}

/// Returns the number of unused bits in a mask of `words` words.
#[expect(clippy::cast_possible_truncation, reason = "at most 64")]
fn unused_bits(words: usize) -> u32 {
    AT_ONCE.saturating_sub(words) as u32
}

/// A word in the table of long words: it is long or has many tokens.
#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    hash: u64,
    /// The offset of the word.
    bytes: u32,
    /// The offset of its tokens.
    ids: u32,
    /// The length of the word, or 0 if the slot is free.
    length: u16,
    count: u16,
}

/// A bounded cache. A short word replaces another one. Long words are removed all at once when
/// their table is full.
#[derive(Debug, Default)]
pub(crate) struct WordCache {
    pairs: Vec<Pair>,
    /// The number of insertions since the table of short words was enlarged.
    put: usize,
    /// The slots of the table of long words. Their number is a power of two; at most half are used.
    slots: Vec<Slot>,
    used: usize,
    bytes: Vec<u8>,
    ids: Vec<u32>,
}

#[inline]
fn hash(word: &[u8]) -> u64 {
    FixedState::with_seed(0x776f_7264).hash_one(word)
}

#[inline]
fn place(hash: u64, slots: usize) -> usize {
    (hash >> 32) as usize & slots.wrapping_sub(1)
}

impl WordCache {
    /// Looks up at most [`AT_ONCE`] short words before any result is used, so that cache misses
    /// overlap.
    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "the table is small")]
    pub(crate) fn find(&self, keys: &[Key]) -> Found {
        let mut places = [0; AT_ONCE];
        let mut missing = 0;
        let keys = keys.get(..AT_ONCE).unwrap_or(keys);
        for (found_at, key) in places.iter_mut().zip(keys) {
            let place = key.place(self.pairs.len());
            let Pair([first, second]) = self.pairs.get(place).unwrap_or(&NO_WORDS);
            let is_second = second.key == key.0;
            // Both are compared, without a branch.
            let is_first = first.key == key.0;
            let is_missing = !(is_first | is_second);
            missing = missing >> 1 | u64::from(is_missing) << (AT_ONCE - 1);
            *found_at = (place as u32).wrapping_mul(2) | u32::from(is_second);
        }
        let missing = missing.checked_shr(unused_bits(keys.len())).unwrap_or(0);
        Found { places, missing }
    }

    /// Returns the concatenated tokens of words that were found.
    #[inline]
    pub(crate) fn tokens<'r>(&self, places: &[u32], room: &'r mut [u32; ROOM]) -> &'r [u32] {
        let mut length = 0;
        for &place in places {
            let Some(Pair(words)) = self.pairs.get(place as usize / 2) else { break };
            let word = &words[place as usize % 2];
            let (tokens, count) = word.tokens();
            // All of them are copied, so that no branch depends on their number.
            if let Some(room) = room.get_mut(length..).and_then(<[u32]>::first_chunk_mut) {
                *room = tokens;
            }
            length += count;
        }
        room.get(..length).unwrap_or_default()
    }

    /// Returns the tokens of a word in the table of short words.
    #[inline]
    fn few<'r>(&self, key: Key, room: &'r mut Few) -> Option<&'r [u32]> {
        let pair = self.pairs.get(key.place(self.pairs.len()))?;
        let found = pair.0.iter().find(|word| word.key == key.0)?;
        let (tokens, count) = found.tokens();
        *room = tokens;
        room.get(..count)
    }

    /// Returns the tokens of a word in the table of long words.
    pub(crate) fn many(&self, word: &[u8]) -> Option<&[u32]> {
        if word.len() > LONGEST || self.used == 0 {
            return None;
        }
        let hash = hash(word);
        self.slots_with(hash).find_map(|slot| self.tokens_of(slot, word))
    }

    /// Returns the slots with a hash.
    #[inline]
    fn slots_with(&self, hash: u64) -> impl Iterator<Item = &Slot> {
        let mask = self.slots.len().wrapping_sub(1);
        let first = place(hash, self.slots.len());
        let slots =
            (0..MAX_PROBES).map_while(move |step| self.slots.get(first.wrapping_add(step) & mask));
        slots.take_while(|slot| slot.length != 0).filter(move |slot| slot.hash == hash)
    }

    /// Returns the tokens of a slot if it contains the word.
    #[inline]
    fn tokens_of(&self, slot: &Slot, word: &[u8]) -> Option<&[u32]> {
        let start = slot.bytes as usize;
        let is_same = self.bytes.get(start..start.checked_add(usize::from(slot.length))?)? == word;
        let start = slot.ids as usize;
        let ids = self.ids.get(start..start.checked_add(usize::from(slot.count))?)?;
        is_same.then_some(ids)
    }

    /// Looks up the words whose bit is set in `wanted` in the table of long words. All slots are
    /// loaded before any is used, so that cache misses overlap.
    pub(crate) fn find_many<'w>(
        &self,
        wanted: u64,
        word: impl Fn(usize) -> &'w [u8],
    ) -> [Option<&[u32]>; AT_ONCE] {
        let mut found = [None; AT_ONCE];
        if self.used == 0 {
            return found;
        }
        let (mut hashes, mut lengths) = ([0; AT_ONCE], 0);
        for number in bits(wanted) {
            let word = word(number);
            if word.len() > LONGEST {
                continue;
            }
            hashes[number] = hash(word);
            let slot = self.slots.get(place(hashes[number], self.slots.len()));
            lengths += slot.map_or(0, |slot| usize::from(slot.length));
        }
        // Loads the slots into the cache.
        std::hint::black_box(lengths);
        let (mut slots, mut loaded) = ([None; AT_ONCE], 0);
        for number in bits(wanted) {
            let slot = self.slots_with(hashes[number]).next();
            if let Some(slot) = slot {
                loaded += self.ids.get(slot.ids as usize).copied().map_or(0, u64::from);
                loaded += self.bytes.get(slot.bytes as usize).copied().map_or(0, u64::from);
            }
            slots[number] = slot;
        }
        std::hint::black_box(loaded);
        for number in bits(wanted) {
            let word = word(number);
            found[number] = slots[number]
                .and_then(|slot| self.tokens_of(slot, word).or_else(|| self.many(word)));
        }
        found
    }

    /// Returns the tokens of a word.
    #[inline]
    pub(crate) fn get<'r>(&'r self, key: Key, word: &[u8], room: &'r mut Few) -> Option<&'r [u32]> {
        match self.few(key, room) {
            Some(ids) => Some(ids),
            None => self.many(word),
        }
    }

    /// Adds a word that is not in the cache.
    pub(crate) fn put(&mut self, key: Key, word: &[u8], ids: &[u32]) {
        match Short::new(key, ids).filter(|_| key != Key::LONG) {
            Some(word) => self.put_few(word),
            None if !word.is_empty() && word.len() <= LONGEST => self.put_many(word, ids),
            None => {}
        }
    }

    fn put_few(&mut self, word: Short) {
        self.put += 1;
        let size = self.pairs.len();
        if size == 0 || (self.put > size && size < PAIRS.1) {
            self.put = 0;
            let size = (size * 8).clamp(PAIRS.0, PAIRS.1);
            for Pair(words) in std::mem::replace(&mut self.pairs, vec![NO_WORDS; size]) {
                for word in words.into_iter().rev().filter(|word| word.key != NO_WORD.key) {
                    self.place_few(word);
                }
            }
        }
        self.place_few(word);
    }

    /// Places a word first in its pair. The word that was first becomes the second.
    fn place_few(&mut self, word: Short) {
        let place = Key(word.key).place(self.pairs.len());
        if let Some(Pair([first, second])) = self.pairs.get_mut(place)
            && first.key != word.key
        {
            *second = std::mem::replace(first, word);
        }
    }

    fn put_many(&mut self, word: &[u8], ids: &[u32]) {
        let (Ok(length), Ok(count)) = (u16::try_from(word.len()), u16::try_from(ids.len())) else {
            return;
        };
        if self.used >= WORDS
            || self.bytes.len() + word.len() > BYTES
            || self.ids.len() + ids.len() > TOKENS
        {
            self.slots.fill(Slot::default());
            self.used = 0;
            self.bytes.clear();
            self.ids.clear();
        }
        if (self.used + 1) * 2 > self.slots.len() {
            let size = (self.slots.len() * 2).max(MIN_SLOTS);
            for slot in std::mem::replace(&mut self.slots, vec![Slot::default(); size]) {
                if slot.length != 0 {
                    self.insert(slot);
                }
            }
        }
        let slot = Slot {
            hash: hash(word),
            bytes: u32::try_from(self.bytes.len()).unwrap_or_default(),
            ids: u32::try_from(self.ids.len()).unwrap_or_default(),
            length,
            count,
        };
        self.insert(slot);
        self.used += 1;
        self.bytes.extend_from_slice(word);
        self.ids.extend_from_slice(ids);
    }

    /// Inserts a slot. The word is dropped if all [`MAX_PROBES`] slots are occupied.
    fn insert(&mut self, slot: Slot) {
        let mut at = place(slot.hash, self.slots.len());
        for _ in 0..MAX_PROBES {
            if self.slots[at].length == 0 {
                self.slots[at] = slot;
                return;
            }
            at = (at + 1) & (self.slots.len() - 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn get(cache: &WordCache, text: &[u8]) -> Option<Vec<u32>> {
        let mut room = [0; FEW];
        cache.get(Key::new(text, 0, text.len()), text, &mut room).map(<[u32]>::to_vec)
    }

    fn put(cache: &mut WordCache, word: &[u8], ids: &[u32]) {
        cache.put(Key::new(word, 0, word.len()), word, ids);
    }

    #[test]
    fn words_are_found_with_their_tokens() {
        let mut cache = WordCache::default();
        let mut found = 0;
        for number in 0..200_000u32 {
            // Short and long words, with few and many tokens.
            let word = format!("{number}{}", "x".repeat(number as usize % 40));
            let ids: Vec<u32> = (number..=number + number % 5).collect();
            assert_eq!(get(&cache, word.as_bytes()), None);
            put(&mut cache, word.as_bytes(), &ids);
            assert_eq!(get(&cache, word.as_bytes()).as_ref(), Some(&ids));
            let earlier = number / 2;
            let word = format!("{earlier}{}", "x".repeat(earlier as usize % 40));
            if let Some(known) = get(&cache, word.as_bytes()) {
                found += 1;
                assert!(known.iter().copied().eq(earlier..=earlier + earlier % 5));
            }
        }
        assert!(found > 25_000, "{found}");
        assert!(cache.slots.len() <= 2 * WORDS && cache.pairs.len() == PAIRS.1);
        assert!(cache.bytes.len() <= BYTES && cache.ids.len() <= TOKENS);
    }

    #[test]
    fn words_are_distinguished_by_their_lengths() {
        let mut cache = WordCache::default();
        let words: [&[u8]; 6] = [b"", b"a", b"a\0", b"\0", &[b'x'; LONGEST], &[b'x'; LONGEST + 1]];
        for (word, id) in words.iter().zip(0..) {
            assert_eq!(get(&cache, word), None);
            put(&mut cache, word, &[id]);
        }
        let kept = words.map(|word| get(&cache, word));
        let one = |id| Some(vec![id]);
        assert_eq!(kept, [None, one(1), one(2), one(3), one(4), None]);
        put(&mut cache, b"nothing", &[]);
        assert_eq!(get(&cache, b"nothing"), Some(vec![]));
        // Tokens may use all bits.
        for ids in [[u32::MAX; 4], [1 << TOKEN_BITS, 1, 2, 3], [3, 2, 1, (1 << TOKEN_BITS) - 1]] {
            let word = format!("ids {}", ids[0]);
            put(&mut cache, word.as_bytes(), &ids);
            assert_eq!(get(&cache, word.as_bytes()), Some(ids.to_vec()));
        }
        // The key does not depend on the bytes after the word.
        assert_eq!(Key::new(b"ab and more bytes", 0, 2), Key::new(b"ab", 0, 2));
    }
}
