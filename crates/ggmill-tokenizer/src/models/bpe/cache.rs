//! Words and their tokens, bounded in size.

use std::collections::HashMap;

use foldhash::fast::FixedState;

/// The most tokens of a word in the table of short words.
pub(super) const TOKENS: usize = 3;
/// The most bytes of such a word.
pub(super) const SHORT: usize = 15;
/// The number of short words in the beginning, and the most.
const SIZES: (usize, usize) = (1 << 10, 1 << 16);
/// The most bytes of a long word.
const LONG: usize = 512;
/// The most bytes of all long words.
const LONG_BYTES: usize = 1 << 21;

#[derive(Clone, Copy, Debug)]
struct Short {
    /// The bytes of the word and its length; 0 where there is none.
    key: u128,
    tokens: [u32; TOKENS],
    count: u32,
}

const NO_WORD: Short = Short { key: 0, tokens: [0; TOKENS], count: 0 };

/// Tokens of words. A word that is in a place another needs is forgotten.
#[derive(Debug, Default)]
pub(crate) struct Cache {
    short: Vec<Short>,
    misses: usize,
    long: HashMap<Box<[u8]>, (u32, u32), FixedState>,
    tokens: Vec<u32>,
    bytes: usize,
}

/// A word as a number: its bytes and its length. 0 where it is too long or empty.
#[inline]
pub(super) fn key(text: &[u8], start: usize, end: usize) -> u128 {
    let length = end.wrapping_sub(start);
    if length > SHORT || length == 0 {
        return 0;
    }
    let bytes = if let Some(bytes) = text.get(start..).and_then(|rest| rest.first_chunk::<16>()) {
        u128::from_le_bytes(*bytes)
    } else {
        let mut bytes = [0; 16];
        for (slot, &byte) in bytes.iter_mut().zip(text.get(start..end).unwrap_or_default()) {
            *slot = byte;
        }
        u128::from_le_bytes(bytes)
    };
    let mask = (1u128 << (length * 8)).wrapping_sub(1);
    bytes & mask | (length as u128) << 120
}

impl Cache {
    #[inline]
    #[expect(
        clippy::cast_possible_truncation,
        reason = "the halves are mixed, and the top is taken"
    )]
    pub(super) fn place(&self, key: u128) -> usize {
        let (low, high) = (key as u64, (key >> 64) as u64);
        let mixed = u128::from(low ^ 0x9E37_79B9_7F4A_7C15)
            .wrapping_mul(u128::from(high ^ 0xD6E8_FEB8_6659_FD93));
        ((mixed >> 64) as u64 ^ mixed as u64) as usize & self.short.len().wrapping_sub(1)
    }

    /// The tokens of a short word, and how many they are, if they are in its place.
    #[inline]
    pub(super) fn short(&self, place: usize, key: u128) -> Option<(&[u32; TOKENS], u32)> {
        let entry = self.short.get(place).filter(|entry| entry.key == key)?;
        Some((&entry.tokens, entry.count))
    }

    /// Remembers a short word.
    pub(super) fn keep_short(&mut self, key: u128, tokens: &[u32]) {
        if tokens.len() > TOKENS || key == 0 {
            return;
        }
        self.misses += 1;
        if self.short.is_empty() || (self.misses > self.short.len() && self.short.len() < SIZES.1) {
            let size = if self.short.is_empty() { SIZES.0 } else { self.short.len() * 8 };
            self.misses = 0;
            let old = std::mem::replace(&mut self.short, vec![NO_WORD; size.min(SIZES.1)]);
            for entry in old.into_iter().filter(|entry| entry.key != 0) {
                let place = self.place(entry.key);
                if let Some(slot) = self.short.get_mut(place) {
                    *slot = entry;
                }
            }
        }
        let count = u32::try_from(tokens.len()).unwrap_or_default();
        let mut entry = Short { key, tokens: [0; TOKENS], count };
        for (slot, &token) in entry.tokens.iter_mut().zip(tokens) {
            *slot = token;
        }
        let place = self.place(key);
        if let Some(slot) = self.short.get_mut(place) {
            *slot = entry;
        }
    }

    /// The tokens of a long word.
    pub(super) fn long(&self, word: &[u8]) -> Option<&[u32]> {
        let &(start, end) = self.long.get(word)?;
        self.tokens.get(start as usize..end as usize)
    }

    /// Remembers a long word.
    pub(super) fn keep_long(&mut self, word: &[u8], tokens: &[u32]) {
        if word.len() > LONG {
            return;
        }
        // An entry costs its text, its tokens and its place.
        let cost = word.len() + tokens.len() * 4 + 48;
        if self.bytes + cost > LONG_BYTES {
            self.long.clear();
            self.tokens.clear();
            self.bytes = 0;
        }
        let start = u32::try_from(self.tokens.len());
        let end = u32::try_from(self.tokens.len() + tokens.len());
        if let (Ok(start), Ok(end)) = (start, end) {
            self.bytes += cost;
            self.tokens.extend_from_slice(tokens);
            self.long.insert(word.into(), (start, end));
        }
    }
}
