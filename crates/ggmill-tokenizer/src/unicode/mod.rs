//! Properties of code points in Unicode 15.1, the version of the reference's tables.

#[expect(clippy::unreadable_literal, reason = "generated")]
mod tables;

use std::sync::LazyLock;

use tables::{CATEGORIES, LOWER, NFD_FIRST, WHITESPACE};

/// The properties of a code point: one bit for its general category's first letter, and one for
/// whitespace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Properties(u16);

impl Properties {
    pub(crate) const UNDEFINED: Self = Self(1);
    pub(crate) const NUMBER: Self = Self(2);
    pub(crate) const LETTER: Self = Self(4);
    pub(crate) const MARK: Self = Self(0x10);
    pub(crate) const PUNCTUATION: Self = Self(0x20);
    pub(crate) const SYMBOL: Self = Self(0x40);
    pub(crate) const CONTROL: Self = Self(0x80);
    pub(crate) const WHITESPACE: Self = Self(0x100);

    /// A letter or a mark, as most words end with.
    pub(crate) const LETTER_OR_MARK: Self = Self(Self::LETTER.0 | Self::MARK.0);

    /// Whether any of the other's bits is set.
    #[inline]
    pub(crate) fn is(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }
}

/// One more than the last code point.
pub(crate) const CODE_POINTS: u32 = 0x11_0000;
/// The replacement character.
pub(crate) const REPLACEMENT: u32 = 0xFFFD;
const BLOCK: usize = 256;

/// A table of two stages over all code points.
#[derive(Debug)]
pub(crate) struct Table<T> {
    blocks: Vec<u16>,
    values: Vec<T>,
}

impl<T: Copy + Default + PartialEq> Table<T> {
    /// The table of a function that is constant between the code points that `bounds` has in
    /// ascending order, beginning with 0.
    pub(crate) fn new(ranges: impl IntoIterator<Item = (u32, T)>) -> Self {
        let mut ranges = ranges.into_iter().peekable();
        let mut current = T::default();
        let mut table = Self { blocks: Vec::with_capacity(0x1100), values: Vec::new() };
        let mut block = [current; BLOCK];
        let mut last: Option<(T, u16)> = None;
        let mut start = 0u32;
        while start < CODE_POINTS {
            let end = start.saturating_add(256);
            let uniform = ranges.peek().is_none_or(|&(first, _)| first >= end);
            if let Some((value, number)) = last
                && uniform
                && value == current
            {
                table.blocks.push(number);
                start = end;
                continue;
            }
            for (point, slot) in (start..end).zip(&mut block) {
                while let Some(&(first, value)) = ranges.peek()
                    && first <= point
                {
                    current = value;
                    ranges.next();
                }
                *slot = current;
            }
            let found = table.values.chunks_exact(BLOCK).position(|known| known == block);
            let number = found.unwrap_or_else(|| {
                table.values.extend_from_slice(&block);
                (table.values.len() / BLOCK).saturating_sub(1)
            });
            // At most 4352 blocks.
            let number = u16::try_from(number).unwrap_or_default();
            last = uniform.then_some((current, number));
            table.blocks.push(number);
            start = end;
        }
        table
    }

    /// The value of a code point; the default beyond the last.
    #[inline]
    pub(crate) fn get(&self, point: u32) -> T {
        let block = self.blocks.get((point >> 8) as usize).copied().map(usize::from);
        let place = block.map(|block| block * BLOCK + (point & 0xFF) as usize);
        place.and_then(|place| self.values.get(place)).copied().unwrap_or_default()
    }
}

/// Where each range of equal properties begins, with the properties.
pub(crate) fn ranges() -> impl Iterator<Item = (u32, Properties)> {
    let mut bounds: Vec<u32> = CATEGORIES.iter().map(|entry| entry >> 8).collect();
    bounds.extend(WHITESPACE.iter().flat_map(|&point| [point, point.saturating_add(1)]));
    bounds.sort_unstable();
    bounds.dedup();
    bounds.into_iter().map(|point| (point, searched(point)))
}

/// The properties of a code point, by search.
fn searched(point: u32) -> Properties {
    let after = CATEGORIES.partition_point(|entry| entry >> 8 <= point);
    let category = after.checked_sub(1).and_then(|place| CATEGORIES.get(place));
    let category = category.and_then(|entry| u16::try_from(entry & 0xFF).ok());
    let category = category.unwrap_or_default();
    let whitespace = if WHITESPACE.binary_search(&point).is_ok() { 0x100 } else { 0 };
    Properties(category | whitespace)
}

static PROPERTIES: LazyLock<Table<Bits>> =
    LazyLock::new(|| Table::new(ranges().map(|(point, properties)| (point, properties.0))));

type Bits = u16;

/// The properties of a code point; beyond the last, those of one that is not assigned.
#[inline]
pub(crate) fn properties(point: u32) -> Properties {
    if point < CODE_POINTS { Properties(PROPERTIES.get(point)) } else { Properties::UNDEFINED }
}

/// The simple lower case of a code point.
pub(crate) fn lower(point: u32) -> u32 {
    if point < 0x80 {
        return if (0x41..=0x5A).contains(&point) { point | 0x20 } else { point };
    }
    let found = LOWER.binary_search_by_key(&point, |&(from, _)| from).ok();
    found.and_then(|place| LOWER.get(place)).map_or(point, |&(_, to)| to)
}

/// The first code point of the canonical decomposition.
pub(crate) fn first_decomposed(point: u32) -> u32 {
    let after = NFD_FIRST.partition_point(|&(first, ..)| first <= point);
    let range = after.checked_sub(1).and_then(|place| NFD_FIRST.get(place));
    match range {
        Some(&(_, last, first)) if point <= last => first,
        _ => point,
    }
}

/// Returns `true` for the ideographs that BERT's tokenizers separate. One of the ranges begins 256 code points
/// too late, in llama.cpp as in the `tokenizers` library.
pub(crate) fn is_ideograph(point: u32) -> bool {
    matches!(
        point,
        0x4E00..=0x9FFF
            | 0x3400..=0x4DBF
            | 0x20000..=0x2A6DF
            | 0x2A700..=0x2B73F
            | 0x2B740..=0x2B81F
            | 0x2B920..=0x2CEAF
            | 0xF900..=0xFAFF
            | 0x2F800..=0x2FA1F
    )
}

/// The code point at the beginning of the bytes and how many bytes it has, as the reference decodes:
/// overlong forms and surrogates are accepted, and a byte that begins nothing is U+FFFD of length 1.
/// `None` at the end.
///
/// The reference throws for code points beyond U+10FFFF; here each byte of them is U+FFFD.
#[inline]
pub(crate) fn decode(bytes: &[u8]) -> Option<(u32, usize)> {
    let first = *bytes.first()?;
    if first < 0x80 {
        return Some((first.into(), 1));
    }
    Some(decode_long(first, bytes))
}

fn decode_long(first: u8, bytes: &[u8]) -> (u32, usize) {
    let tail = |place: usize| {
        bytes.get(place).filter(|&&byte| byte & 0xC0 == 0x80).map(|&byte| u32::from(byte & 0x3F))
    };
    let decoded = match first {
        0xC0..0xE0 => tail(1).map(|a| (u32::from(first & 0x1F) << 6 | a, 2)),
        0xE0..0xF0 => {
            tail(1).zip(tail(2)).map(|(a, b)| (u32::from(first & 0x0F) << 12 | a << 6 | b, 3))
        }
        0xF0..0xF8 => tail(1)
            .zip(tail(2))
            .zip(tail(3))
            .map(|((a, b), c)| (u32::from(first & 0x07) << 18 | a << 12 | b << 6 | c, 4)),
        _ => None,
    };
    decoded.filter(|&(point, _)| point < CODE_POINTS).unwrap_or((REPLACEMENT, 1))
}

/// Appends a code point as UTF-8; surrogates like any other code point of three bytes.
#[expect(clippy::cast_possible_truncation, reason = "each value is masked to a byte")]
pub(crate) fn encode(point: u32, out: &mut Vec<u8>) {
    let tail = |shift: u32| (0x80 | (point >> shift & 0x3F)) as u8;
    match point {
        0..0x80 => out.push(point as u8),
        0x80..0x800 => out.extend_from_slice(&[(0xC0 | point >> 6) as u8, tail(0)]),
        0x800..0x1_0000 => {
            out.extend_from_slice(&[(0xE0 | point >> 12) as u8, tail(6), tail(0)]);
        }
        _ => out.extend_from_slice(&[(0xF0 | (point >> 18 & 7)) as u8, tail(12), tail(6), tail(0)]),
    }
}

/// The length the reference takes a character to have by its first byte, valid or not.
#[inline]
pub(crate) fn length_by_first(first: u8) -> usize {
    match first {
        0..0xC0 => 1,
        0xC0..0xE0 => 2,
        0xE0..0xF0 => 3,
        _ => 4,
    }
}
