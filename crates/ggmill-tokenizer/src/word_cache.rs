//! Words that were tokenized before, and their tokens: bounded in size.

use std::hash::BuildHasher;

use foldhash::fast::FixedState;

/// Longer words are not kept.
pub(crate) const LONGEST: usize = 512;
/// The most tokens of a word in the table of short words.
pub(crate) const FEW: usize = 3;
/// The most bytes of such a word.
const SHORT: usize = 15;
/// The number of short words in the beginning, and the most.
const SHORT_WORDS: (usize, usize) = (1 << 10, 1 << 16);
/// The most words that are long or have many tokens.
const WORDS: usize = 1 << 16;
/// The most bytes of such words, and the most of their tokens.
const BYTES: usize = 1 << 22;
const TOKENS: usize = 1 << 20;
const SLOTS_AT_FIRST: usize = 1 << 10;
/// The most slots that are looked at: words can be made to collide.
const STEPS: usize = 32;

/// A word as a number: its bytes and its length. [`Key::LONG`] where it is too long or empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Key(u128);

/// The bits of the bytes of a word, by its length.
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

    /// The key of a part of a text.
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

    /// The place of the word in a table whose size is a power of two.
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

/// The bytes of a short word at the end of a text.
#[cold]
fn last_bytes(word: &[u8]) -> u128 {
    let mut bytes = [0; 16];
    for (slot, &byte) in bytes.iter_mut().zip(word) {
        *slot = byte;
    }
    u128::from_le_bytes(bytes)
}

/// A short word and its tokens. Two are side by side in a cache line.
#[derive(Clone, Copy, Debug)]
#[repr(align(32))]
struct Short {
    key: u128,
    tokens: [u32; FEW],
    count: u32,
}

/// No word has such a key.
const NO_WORD: Short = Short { key: u128::MAX, tokens: [0; FEW], count: 0 };

/// A word that is long or has many tokens.
#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    hash: u64,
    /// Where the word and its tokens are.
    bytes: u32,
    ids: u32,
    /// 0 where the slot is free.
    length: u16,
    count: u16,
}

/// Words and their tokens. A short word takes the place of another; others are forgotten together
/// when there is no room for one more.
#[derive(Debug, Default)]
pub(crate) struct WordCache {
    short: Vec<Short>,
    /// The words that were put into the table of this size.
    put: usize,
    /// A number of slots that is a power of two, at most half used.
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
    /// Whether short words are in their places: a bit for each. What is loaded is near when it is
    /// asked for again, and the memory's delays overlap.
    #[inline]
    pub(crate) fn near(&self, keys: &[Key]) -> u64 {
        let mut found = 0;
        for (number, key) in keys.iter().take(64).enumerate() {
            let word = self.short.get(key.place(self.short.len()));
            found |= u64::from(word.is_some_and(|word| word.key == key.0)) << number;
        }
        found
    }

    /// The tokens of a short word, if they are few, and how many they are.
    #[inline]
    pub(crate) fn few(&self, key: Key) -> Option<(&[u32; FEW], u32)> {
        let place = key.place(self.short.len());
        let mut found = self.short.get(place)?;
        if found.key != key.0 {
            found = self.short.get(place ^ 1)?;
            if found.key != key.0 {
                return None;
            }
        }
        Some((&found.tokens, found.count))
    }

    /// The tokens of a word that is long or has many.
    pub(crate) fn many(&self, word: &[u8]) -> Option<&[u32]> {
        if word.len() > LONGEST || self.used == 0 {
            return None;
        }
        let hash = hash(word);
        let mut at = place(hash, self.slots.len());
        for _ in 0..STEPS {
            let slot = self.slots.get(at)?;
            if slot.length == 0 {
                return None;
            }
            if slot.hash == hash && usize::from(slot.length) == word.len() {
                let start = slot.bytes as usize;
                if self.bytes.get(start..start + word.len())? == word {
                    let start = slot.ids as usize;
                    return self.ids.get(start..start + usize::from(slot.count));
                }
            }
            at = (at + 1) & (self.slots.len() - 1);
        }
        None
    }

    /// The tokens of a part of a text.
    #[inline]
    pub(crate) fn get(&self, key: Key, word: &[u8]) -> Option<&[u32]> {
        match self.few(key) {
            Some((ids, count)) => ids.get(..count as usize),
            None => self.many(word),
        }
    }

    /// Keeps the tokens of a word that is not here.
    pub(crate) fn put(&mut self, key: Key, word: &[u8], ids: &[u32]) {
        if key != Key::LONG && ids.len() <= FEW {
            self.put_few(key, ids);
        } else if !word.is_empty() && word.len() <= LONGEST {
            self.put_many(word, ids);
        }
    }

    fn put_few(&mut self, key: Key, ids: &[u32]) {
        self.put += 1;
        let size = self.short.len();
        if size == 0 || (self.put > size && size < SHORT_WORDS.1) {
            self.put = 0;
            let size = (size * 8).clamp(SHORT_WORDS.0, SHORT_WORDS.1);
            for word in std::mem::replace(&mut self.short, vec![NO_WORD; size]) {
                if word.key != NO_WORD.key {
                    self.place_few(word);
                }
            }
        }
        let mut tokens = [0; FEW];
        for (slot, &id) in tokens.iter_mut().zip(ids) {
            *slot = id;
        }
        self.place_few(Short { key: key.0, tokens, count: u32::try_from(ids.len()).unwrap_or(0) });
    }

    /// The word that was put before moves aside.
    fn place_few(&mut self, word: Short) {
        let place = Key(word.key).place(self.short.len());
        let before = std::mem::replace(&mut self.short[place], word);
        if before.key != NO_WORD.key {
            self.short[place ^ 1] = before;
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
            let size = (self.slots.len() * 2).max(SLOTS_AT_FIRST);
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

    /// A word that others leave no slot for near its own is not kept.
    fn insert(&mut self, slot: Slot) {
        let mut at = place(slot.hash, self.slots.len());
        for _ in 0..STEPS {
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

    fn get<'c>(cache: &'c WordCache, text: &[u8]) -> Option<&'c [u32]> {
        cache.get(Key::new(text, 0, text.len()), text)
    }

    fn put(cache: &mut WordCache, word: &[u8], ids: &[u32]) {
        cache.put(Key::new(word, 0, word.len()), word, ids);
    }

    #[test]
    fn what_is_put_is_found_and_what_is_found_was_put() {
        let mut cache = WordCache::default();
        let mut found = 0;
        for number in 0..300_000u32 {
            // Some are short, some long; some have few tokens, some many.
            let word = format!("{number}{}", "x".repeat(number as usize % 40));
            let ids: Vec<u32> = (number..=number + number % 5).collect();
            assert_eq!(get(&cache, word.as_bytes()), None);
            put(&mut cache, word.as_bytes(), &ids);
            assert_eq!(get(&cache, word.as_bytes()), Some(&*ids));
            let earlier = number / 2;
            let word = format!("{earlier}{}", "x".repeat(earlier as usize % 40));
            if let Some(known) = get(&cache, word.as_bytes()) {
                found += 1;
                assert!(known.iter().copied().eq(earlier..=earlier + earlier % 5));
            }
        }
        assert!(found > 50_000, "{found}");
        assert!(cache.slots.len() <= 2 * WORDS && cache.short.len() == SHORT_WORDS.1);
        assert!(cache.bytes.len() <= BYTES && cache.ids.len() <= TOKENS);
    }

    #[test]
    fn words_are_told_apart_by_their_lengths() {
        let mut cache = WordCache::default();
        let words: [&[u8]; 6] = [b"", b"a", b"a\0", b"\0", &[b'x'; LONGEST], &[b'x'; LONGEST + 1]];
        for (word, id) in words.iter().zip(0..) {
            assert_eq!(get(&cache, word), None);
            put(&mut cache, word, &[id]);
        }
        let kept = words.map(|word| get(&cache, word).map(<[u32]>::to_vec));
        let one = |id| Some(vec![id]);
        assert_eq!(kept, [None, one(1), one(2), one(3), one(4), None]);
        put(&mut cache, b"nothing", &[]);
        assert_eq!(get(&cache, b"nothing"), Some(&[][..]));
        // The bytes after a word do not count.
        assert_eq!(Key::new(b"ab and more bytes", 0, 2), Key::new(b"ab", 0, 2));
    }
}
