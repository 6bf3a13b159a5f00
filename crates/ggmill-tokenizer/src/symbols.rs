//! Symbols: what the reference takes for characters, by their first bytes, valid or not.

use std::collections::HashSet;

use foldhash::fast::RandomState;

use crate::spaces::SPACE;
use crate::unicode;

/// The length of the symbol at the beginning; 0 at the end.
#[inline]
pub(crate) fn length(text: &[u8]) -> usize {
    text.first().map_or(0, |&first| unicode::length_by_first(first).min(text.len()))
}

/// A symbol as a number: its length and its bytes. Those of four bytes begin with 0xF, so no two
/// are equal.
#[inline]
pub(crate) fn number(symbol: &[u8]) -> u32 {
    let number =
        |first: u32| symbol.iter().fold(first, |number, &byte| number << 8 | u32::from(byte));
    match symbol.len() {
        0 | 4 => number(0),
        1 => number(1),
        2 => number(2),
        _ => number(3),
    }
}

/// Symbols that are neighbours in some token. It may also have others.
#[derive(Debug)]
pub(crate) struct Pairs {
    bits: Vec<u64>,
    shift: u32,
}

impl Pairs {
    /// The bits for each pair, most of which are given several times.
    const ROOM: usize = 8;

    pub(crate) fn new(pairs: &[(u32, u32)]) -> Self {
        let size = pairs.len().saturating_mul(Self::ROOM).next_power_of_two().max(1 << 12);
        let mut new = Self { bits: vec![0; size / 64], shift: 64 - size.trailing_zeros() };
        for &(left, right) in pairs {
            let place = new.place(left, right);
            new.bits[place / 64] |= 1 << (place % 64);
        }
        new
    }

    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "the place is below the number of bits")]
    fn place(&self, left: u32, right: u32) -> usize {
        let pair = u64::from(left) << 32 | u64::from(right);
        ((pair ^ pair >> 29).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> self.shift) as usize
    }

    /// Whether two symbols may be neighbours in a token.
    #[inline]
    pub(crate) fn may_have(&self, left: u32, right: u32) -> bool {
        let place = self.place(left, right);
        self.bits.get(place / 64).is_none_or(|bits| bits >> (place % 64) & 1 != 0)
    }
}

/// Where texts can be cut before spaces: no token goes beyond such a place.
#[derive(Debug)]
pub(crate) struct Cuts {
    /// Symbols after which some token has a space.
    before_space: HashSet<u32, RandomState>,
    /// Those of one byte.
    bytes: [bool; 256],
}

impl Cuts {
    pub(crate) fn new() -> Self {
        Self { before_space: HashSet::default(), bytes: [false; 256] }
    }

    /// Takes a token into account, and calls with its neighbors.
    pub(crate) fn add(&mut self, token: &[u8], mut pair: impl FnMut(u32, u32)) {
        let space = number(SPACE);
        let mut rest = token;
        let mut before: Option<&[u8]> = None;
        while !rest.is_empty() {
            let (symbol, after) = rest.split_at(length(rest));
            if let Some(before) = before {
                pair(number(before), number(symbol));
                if number(symbol) == space {
                    self.before_space.insert(number(before));
                    if let &[byte] = before {
                        self.bytes[usize::from(byte)] = true;
                    }
                }
            }
            before = Some(symbol);
            rest = after;
        }
    }

    /// Whether a text can be cut after the symbol at a place: the end of the symbol, and whether a
    /// space follows that is in no token with it.
    #[inline]
    pub(crate) fn after(&self, text: &[u8], at: usize) -> (usize, bool) {
        let next = at + length(&text[at..]);
        let is_space = text.get(next) == Some(&SPACE[0]) && text[next..].starts_with(SPACE);
        (next, is_space && !self.has_space_after(&text[at..next]))
    }

    /// Whether some token has a space after this byte, which is a symbol.
    pub(crate) fn joins_space(&self, byte: u8) -> bool {
        self.bytes[usize::from(byte)]
    }

    fn has_space_after(&self, symbol: &[u8]) -> bool {
        match symbol {
            &[byte] => self.bytes[usize::from(byte)],
            _ => self.before_space.contains(&number(symbol)),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::hash::BuildHasher as _;

    use super::*;

    /// A file that makes its symbols collide for one seed does not for the next.
    #[test]
    fn symbols_are_hashed_with_a_random_seed() {
        let hash = || Cuts::new().before_space.hasher().hash_one(number("\u{e9}".as_bytes()));
        assert_ne!(hash(), hash());
    }
}
