//! Properties of code points in Unicode 15.1, the version of llama.cpp's tables, and its UTF-8
//! decoder.

use std::sync::LazyLock;

/// The properties of a code point: one bit for the first letter of its general category, and one
/// for White_Space.
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

    /// A letter or a mark.
    pub(crate) const LETTER_OR_MARK: Self = Self(Self::LETTER.0 | Self::MARK.0);

    /// Returns `true` if any bit of `other` is set.
    #[inline]
    pub(crate) fn is(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }
}

/// The number of code points.
pub(crate) const CODE_POINTS: u32 = 0x11_0000;
/// The replacement character.
pub(crate) const REPLACEMENT: u32 = 0xFFFD;
const BLOCK: usize = 256;

/// A two-stage table of all code points.
#[derive(Debug)]
pub(crate) struct Table<T> {
    blocks: Vec<u16>,
    values: Vec<T>,
}

impl<T: Copy + Default + PartialEq> Table<T> {
    /// Creates a table from the start and value of each range, in ascending order.
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

    /// Returns the value of a code point, or the default beyond the last.
    #[inline]
    pub(crate) fn get(&self, point: u32) -> T {
        let block = self.blocks.get((point >> 8) as usize).copied().map(usize::from);
        let place = block.map(|block| block * BLOCK + (point & 0xFF) as usize);
        place.and_then(|place| self.values.get(place)).copied().unwrap_or_default()
    }
}

/// The contents of `data/unicode-15.1.bin`, which `conformance/unicode.py` writes. All numbers are
/// LEB128; signed ones are zigzag-encoded. Each of the four lists begins with its length; points
/// are stored as differences.
#[derive(Debug)]
struct Data {
    /// The start of each range of one category, and the bit of that category.
    categories: Vec<(u32, u16)>,
    /// The code points with the property White_Space.
    whitespace: Vec<u32>,
    /// Code points and their simple lower case.
    lower: Vec<(u32, u32)>,
    /// The first and last code point of a range, and the first code point of their canonical
    /// decomposition.
    decomposed: Vec<(u32, u32, u32)>,
}

/// Returns a reader of the unsigned LEB128 numbers in `bytes`; zeros follow the last one.
pub(crate) fn leb128(bytes: &'static [u8]) -> impl FnMut() -> u32 {
    let mut bytes = bytes.iter().copied();
    move || {
        let (mut value, mut shift) = (0u32, 0u32);
        for byte in bytes.by_ref() {
            value |= u32::from(byte & 0x7F).wrapping_shl(shift);
            shift += 7;
            if byte < 0x80 {
                break;
            }
        }
        value
    }
}

static DATA: LazyLock<Data> = LazyLock::new(|| {
    let mut number = leb128(include_bytes!("../data/unicode-15.1.bin"));
    let signed = |number: u32| (number >> 1) ^ (number & 1).wrapping_neg();
    let mut point = 0u32;
    let categories = (0..number()).map(|_| {
        let next = number();
        point = point.wrapping_add(next >> 3);
        (point, 1 << (next & 7))
    });
    let categories = categories.collect();
    point = 0;
    let whitespace = (0..number()).map(|_| {
        point = point.wrapping_add(number());
        point
    });
    let whitespace = whitespace.collect();
    point = 0;
    let lower = (0..number()).map(|_| {
        point = point.wrapping_add(number());
        (point, point.wrapping_add(signed(number())))
    });
    let lower = lower.collect();
    point = 0;
    let decomposed = (0..number()).map(|_| {
        let first = point.wrapping_add(number());
        point = first.wrapping_add(number());
        (first, point, first.wrapping_add(signed(number())))
    });
    let decomposed = decomposed.collect();
    Data { categories, whitespace, lower, decomposed }
});

/// Returns the start of each range of equal properties, with the properties.
pub(crate) fn ranges() -> impl Iterator<Item = (u32, Properties)> {
    let Data { categories, whitespace, .. } = &*DATA;
    let mut bounds: Vec<u32> = categories.iter().map(|&(first, _)| first).collect();
    bounds.extend(whitespace.iter().flat_map(|&point| [point, point.saturating_add(1)]));
    bounds.sort_unstable();
    bounds.dedup();
    bounds.into_iter().map(|point| {
        let after = categories.partition_point(|&(first, _)| first <= point);
        let category = after.checked_sub(1).and_then(|place| categories.get(place));
        let category = category.map_or(0, |&(_, category)| category);
        let is_whitespace = whitespace.binary_search(&point).is_ok();
        (point, Properties(category | if is_whitespace { Properties::WHITESPACE.0 } else { 0 }))
    })
}

static PROPERTIES: LazyLock<Table<u16>> =
    LazyLock::new(|| Table::new(ranges().map(|(point, properties)| (point, properties.0))));

/// Returns the properties of a code point. Beyond the last code point, they are those of an
/// unassigned one.
#[inline]
pub(crate) fn properties(point: u32) -> Properties {
    if point < CODE_POINTS { Properties(PROPERTIES.get(point)) } else { Properties::UNDEFINED }
}

/// Returns the simple lower case of a code point.
pub(crate) fn lower(point: u32) -> u32 {
    if point < 0x80 {
        return if (0x41..=0x5A).contains(&point) { point | 0x20 } else { point };
    }
    let lower = &DATA.lower;
    let found = lower.binary_search_by_key(&point, |&(from, _)| from).ok();
    found.and_then(|place| lower.get(place)).map_or(point, |&(_, to)| to)
}

/// Returns the first code point of the canonical decomposition.
pub(crate) fn first_decomposed(point: u32) -> u32 {
    if point < 0x80 {
        return point;
    }
    let decomposed = &DATA.decomposed;
    let after = decomposed.partition_point(|&(first, ..)| first <= point);
    let range = after.checked_sub(1).and_then(|place| decomposed.get(place));
    match range {
        Some(&(_, last, first)) if point <= last => first,
        _ => point,
    }
}

/// Returns `true` for the ideographs that BERT's tokenizers separate. One of the ranges begins 256
/// code points too late, in llama.cpp as in the `tokenizers` library.
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

/// Decodes the code point at the beginning of the bytes, and returns it with its length. Returns
/// `None` at the end.
///
/// As in llama.cpp, overlong forms and surrogates are accepted, and an invalid byte is U+FFFD of
/// length 1. Code points beyond U+10FFFF are invalid; llama.cpp throws for them.
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

/// Returns the length of a character by its first byte, as llama.cpp determines it for valid and
/// invalid text.
#[inline]
pub(crate) fn length_by_first(first: u8) -> usize {
    match first {
        0..0xC0 => 1,
        0xC0..0xE0 => 2,
        0xE0..0xF0 => 3,
        _ => 4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_data_are_complete() {
        let Data { categories, whitespace, lower, decomposed } = &*DATA;
        let lengths = [categories.len(), whitespace.len(), lower.len(), decomposed.len()];
        assert_eq!(lengths, [2272, 25, 1433, 1827]);
        assert_eq!(whitespace.last(), Some(&0x3000));
        assert_eq!(lower.last(), Some(&(0x1_E921, 0x1_E943)));
        assert_eq!(decomposed.last(), Some(&(0x2_FA1D, 0x2_FA1D, 0x2_A600)));
        assert_eq!(categories.last(), Some(&(0x10_FFFE, Properties::UNDEFINED.0)));
        assert!(
            properties(0x4E2D).is(Properties::LETTER)
                && properties(0x20).is(Properties::WHITESPACE)
        );
        assert_eq!((super::lower(0xC9), first_decomposed(0xE9)), (0xE9, 0x65));
    }
}
