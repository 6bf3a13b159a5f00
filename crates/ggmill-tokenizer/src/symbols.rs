//! Symbols of SentencePiece models: characters by their first byte, and spaces written as U+2581.

use std::collections::HashSet;

use foldhash::fast::RandomState;

use crate::unicode;

/// Returns the length of the symbol at the beginning, or 0 at the end. As in llama.cpp it depends
/// only on the first byte, so that a symbol need not be valid UTF-8.
#[inline]
pub(crate) fn length(text: &[u8]) -> usize {
    text.first().map_or(0, |&first| unicode::length_by_first(first).min(text.len()))
}

/// Returns a symbol as a number that contains its length and bytes. Symbols of four bytes begin
/// with 0xF, so numbers are unique.
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

/// A Bloom filter of the pairs of symbols that are adjacent in some token.
#[derive(Debug)]
pub(crate) struct Pairs {
    bits: Vec<u64>,
    shift: u32,
}

impl Pairs {
    /// The bits for each pair. Most pairs occur several times, so that more bits remain for each
    /// distinct pair.
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

    /// Returns `true` if two symbols may be adjacent in a token.
    #[inline]
    pub(crate) fn may_have(&self, left: u32, right: u32) -> bool {
        let place = self.place(left, right);
        self.bits.get(place / 64).is_none_or(|bits| bits >> (place % 64) & 1 != 0)
    }
}

/// The positions before spaces where texts can be split, since no token crosses them.
#[derive(Debug)]
pub(crate) struct Cuts {
    /// Symbols before a space in some token. The hash seed is random, since the symbols are content
    /// of the file.
    before_space: HashSet<u32, RandomState>,
    /// The symbols of one byte among them.
    bytes: [bool; 256],
}

impl Cuts {
    pub(crate) fn new() -> Self {
        Self { before_space: HashSet::default(), bytes: [false; 256] }
    }

    /// Adds a token, and calls `pair` with its adjacent symbols.
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

    /// Returns the end of the symbol at a position, and whether the text can be split there: before
    /// a space that no token joins to the symbol.
    #[inline]
    pub(crate) fn after(&self, text: &[u8], at: usize) -> (usize, bool) {
        let next = at + length(&text[at..]);
        let is_space = text.get(next) == Some(&SPACE[0]) && text[next..].starts_with(SPACE);
        (next, is_space && !self.has_space_after(&text[at..next]))
    }

    /// Returns `true` if some token has a space after this symbol of one byte.
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

/// The representation of a space in tokens: U+2581.
pub(crate) const SPACE: &[u8] = "\u{2581}".as_bytes();

/// Writes a text with every space replaced by [`SPACE`] to `out`, after one more [`SPACE`] if
/// `prefix`.
pub(crate) fn escape(text: &[u8], prefix: bool, out: &mut Vec<u8>) {
    out.clear();
    out.reserve(text.len() + text.len() / 3 + SPACE.len());
    if prefix {
        out.extend_from_slice(SPACE);
    }
    let mut done = 0;
    for space in memchr::memchr_iter(b' ', text) {
        out.extend_from_slice(&text[done..space]);
        out.extend_from_slice(SPACE);
        done = space + 1;
    }
    out.extend_from_slice(&text[done..]);
}

/// Maps ranges of an escaped text to the original text.
#[derive(Debug)]
pub(crate) struct Places<'t> {
    text: &'t [u8],
    source: usize,
    escaped: usize,
}

impl<'t> Places<'t> {
    /// Starts at the beginning of the text, after the prefix.
    pub(crate) fn new(text: &'t [u8], prefix: bool) -> Self {
        Self { text, source: 0, escaped: if prefix { SPACE.len() } else { 0 } }
    }

    /// Returns the original range for a range of the escaped text, which must not be before an
    /// earlier one. A part of an escaped space maps to the whole space.
    pub(crate) fn range(&mut self, start: usize, end: usize) -> (usize, usize) {
        while let Some(width) = self.width(self.source)
            && self.escaped + width <= start
        {
            self.source += 1;
            self.escaped += width;
        }
        let (mut source, mut escaped) = (self.source, self.escaped);
        while let Some(width) = self.width(source)
            && escaped < end
        {
            source += 1;
            escaped += width;
        }
        (self.source, source)
    }

    fn width(&self, source: usize) -> Option<usize> {
        self.text.get(source).map(|&byte| if byte == b' ' { SPACE.len() } else { 1 })
    }
}

#[cfg(test)]
mod tests {
    use std::hash::BuildHasher as _;

    use super::*;

    /// Symbols that were chosen to collide with one seed do not with another.
    #[test]
    fn symbols_are_hashed_with_a_random_seed() {
        let hash = || Cuts::new().before_space.hasher().hash_one(number("\u{e9}".as_bytes()));
        assert_ne!(hash(), hash());
    }

    #[test]
    fn ranges_map_to_the_original_text() {
        let mut out = Vec::new();
        escape(b" a  b", true, &mut out);
        assert_eq!(out, "▁▁a▁▁b".as_bytes());
        let mut places = Places::new(b" a  b", true);
        let ranges = [(0, 3), (3, 7), (7, 10), (11, 14)];
        let found: Vec<_> = ranges.iter().map(|&(start, end)| places.range(start, end)).collect();
        assert_eq!(found, [(0, 0), (0, 2), (2, 3), (3, 5)]);
    }
}
