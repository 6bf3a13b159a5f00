//! Words that were tokenized before, and their tokens: bounded in size.

use std::hash::BuildHasher;

use foldhash::fast::FixedState;

/// Longer words are not kept.
pub(crate) const LONGEST: usize = 64;
/// The most words.
const WORDS: usize = 1 << 16;
/// The most bytes of words, and the most tokens.
const ROOM: usize = 1 << 20;
const SLOTS_AT_FIRST: usize = 1 << 10;

/// Words and their tokens. When it is full it is emptied.
#[derive(Debug, Default)]
pub(crate) struct WordCache {
    /// A number of slots that is a power of two, less than three quarters used.
    slots: Vec<Slot>,
    used: usize,
    bytes: Vec<u8>,
    ids: Vec<u32>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    hash: u64,
    /// Where the word and its tokens are.
    bytes: u32,
    ids: u32,
    /// 0 where the slot is free.
    length: u8,
    count: u8,
}

impl WordCache {
    #[inline]
    fn hash(word: &[u8]) -> u64 {
        FixedState::with_seed(0x776f_7264).hash_one(word)
    }

    #[inline]
    fn place(&self, hash: u64) -> usize {
        (hash >> 32) as usize & self.slots.len().wrapping_sub(1)
    }

    /// The tokens of a word, if it is here.
    #[inline]
    pub(crate) fn get(&self, word: &[u8]) -> Option<&[u32]> {
        if word.len() > LONGEST {
            return None;
        }
        let hash = Self::hash(word);
        let mut place = self.place(hash);
        loop {
            let slot = self.slots.get(place)?;
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
            place = (place + 1) & (self.slots.len() - 1);
        }
    }

    /// Keeps the tokens of a word that is not here.
    pub(crate) fn put(&mut self, word: &[u8], ids: &[u32]) {
        let Ok(length) = u8::try_from(word.len()) else { return };
        let Ok(count) = u8::try_from(ids.len()) else { return };
        if length == 0 || word.len() > LONGEST {
            return;
        }
        if self.used >= WORDS
            || self.bytes.len() + word.len() > ROOM
            || self.ids.len() + ids.len() > ROOM
        {
            self.slots.fill(Slot::default());
            self.used = 0;
            self.bytes.clear();
            self.ids.clear();
        }
        if (self.used + 1) * 4 > self.slots.len() * 3 {
            self.grow();
        }
        let slot = Slot {
            hash: Self::hash(word),
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

    fn insert(&mut self, slot: Slot) {
        let mut place = self.place(slot.hash);
        while self.slots[place].length != 0 {
            place = (place + 1) & (self.slots.len() - 1);
        }
        self.slots[place] = slot;
    }

    fn grow(&mut self) {
        let size = (self.slots.len() * 2).max(SLOTS_AT_FIRST);
        for slot in std::mem::replace(&mut self.slots, vec![Slot::default(); size]) {
            if slot.length != 0 {
                self.insert(slot);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_put_is_found_until_it_is_emptied() {
        let mut cache = WordCache::default();
        assert_eq!(cache.get(b"a"), None);
        for number in 0..200_000u32 {
            let word = number.to_string();
            assert_eq!(cache.get(word.as_bytes()), None);
            cache.put(word.as_bytes(), &[number, number + 1]);
            assert_eq!(cache.get(word.as_bytes()), Some(&[number, number + 1][..]));
        }
        assert!(cache.slots.len() <= 2 * WORDS && cache.bytes.len() <= ROOM);
        cache.put(&[b'x'; LONGEST + 1], &[1]);
        assert_eq!(cache.get(&[b'x'; LONGEST + 1]), None);
        cache.put(b"nothing", &[]);
        assert_eq!(cache.get(b"nothing"), Some(&[][..]));
    }
}
