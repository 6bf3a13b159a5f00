//! The values in the pages of a column of an earlier index. They are decoded here, because the
//! format's reader stops the program over some of them.

use bytes::{Buf as _, Bytes};
use parquet::errors::{ParquetError, Result};

use super::pages::{Kind, Page, failed, number};
use crate::index::table::{Column, ColumnKind};

/// The most bits that an index of a dictionary has.
const INDEX_BITS: u32 = 32;

/// A value as the format writes it one after another.
pub(super) trait Value: Clone {
    /// The first value of these bytes. They have those after it then.
    fn first(bytes: &mut Bytes) -> Option<Self>;
}

impl Value for i64 {
    fn first(bytes: &mut Bytes) -> Option<Self> {
        bytes.try_get_i64_le().ok()
    }
}

impl Value for f64 {
    fn first(bytes: &mut Bytes) -> Option<Self> {
        bytes.try_get_f64_le().ok()
    }
}

/// A text, which shares the memory of its page.
impl Value for Bytes {
    fn first(bytes: &mut Bytes) -> Option<Self> {
        let len = bytes.try_get_u32_le().ok()?;
        split(bytes, len as usize)
    }
}

/// What a page has before its values.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Levels {
    /// Nothing: each row has a value.
    None,
    /// Which rows have a value.
    Optional,
    /// Which values begin a row, then which are none because their row is an empty list.
    List,
}

impl Levels {
    /// Those of a column. No list is optional.
    pub(super) fn of(column: &Column) -> Self {
        match (column.kind, column.optional) {
            (ColumnKind::Integers, _) => Self::List,
            (_, true) => Self::Optional,
            (_, false) => Self::None,
        }
    }
}

/// Gives all that the pages of a column have to `take`, in order: whether it begins a row, and the
/// value. Nulls and empty lists have none.
pub(super) fn read<T: Value>(
    pages: impl IntoIterator<Item = Result<Page>>,
    levels: Levels,
    mut take: impl FnMut(bool, Option<T>) -> Result<()>,
) -> Result<()> {
    let mut dictionary = Vec::new();
    for page in pages {
        let Page { kind, count, mut bytes } = page?;
        if kind == Kind::Dictionary {
            let mut values = Values::Plain(bytes);
            dictionary = (0..count).map(|_| values.next()).collect::<Result<_>>()?;
            values.end()?;
            continue;
        }
        let mut runs = |has_them: bool| has_them.then(|| Runs::of_levels(&mut bytes)).transpose();
        let mut repeated = runs(levels == Levels::List)?;
        let mut defined = runs(levels != Levels::None)?;
        let mut values = match kind {
            Kind::Indices => Values::Indices(Runs::of_indices(bytes)?, &dictionary),
            Kind::Plain | Kind::Dictionary => Values::Plain(bytes),
        };
        for _ in 0..count {
            let begins = !repeated.as_mut().map_or(Ok(false), Runs::level)?;
            let is_there = defined.as_mut().map_or(Ok(true), Runs::level)?;
            take(begins, if is_there { Some(values.next()?) } else { None })?;
        }
        values.end()?;
        [repeated, defined].into_iter().flatten().try_for_each(Runs::end)?;
    }
    Ok(())
}

/// The values of a page.
enum Values<'a, T> {
    Plain(Bytes),
    Indices(Runs, &'a [T]),
}

impl<T: Value> Values<'_, T> {
    fn next(&mut self) -> Result<T> {
        match self {
            Self::Plain(bytes) => T::first(bytes).ok_or_else(too_short),
            Self::Indices(indices, dictionary) => {
                let index = usize::try_from(indices.next()?).ok();
                let value = index.and_then(|index| dictionary.get(index)).cloned();
                value.ok_or_else(|| failed("a dictionary has fewer values than an index says"))
            }
        }
    }

    /// Fails where there are values that the page does not say to have.
    fn end(self) -> Result<()> {
        match self {
            Self::Plain(bytes) if bytes.is_empty() => Ok(()),
            Self::Plain(_) => Err(too_long()),
            Self::Indices(indices, _) => indices.end(),
        }
    }
}

/// Numbers of a few bits each, in runs. The page says how many there are: the last run may have more,
/// as packed numbers are filled to a multiple of eight.
struct Runs {
    /// Those after this run.
    bytes: Bytes,
    bits: u32,
    run: Run,
    /// How many numbers of the run are left. They take no memory.
    left: u64,
}

enum Run {
    /// One number, again and again.
    Same(u64),
    /// Numbers one after another, from the lowest bit of each byte.
    Packed {
        bytes: Bytes,
        /// Bits that were taken from the bytes and belong to the next numbers, and how many.
        ahead: u64,
        count: u32,
    },
}

impl Runs {
    fn new(bytes: Bytes, bits: u32) -> Self {
        Self { bytes, bits, run: Run::Same(0), left: 0 }
    }

    /// The levels at the start of a page, which then has what follows them.
    fn of_levels(page: &mut Bytes) -> Result<Self> {
        // As a text: how many bytes, and these.
        Ok(Self::new(Bytes::first(page).ok_or_else(too_short)?, 1))
    }

    /// Indices of a dictionary.
    fn of_indices(mut page: Bytes) -> Result<Self> {
        let bits = u32::from(page.try_get_u8().map_err(|_| too_short())?);
        if bits > INDEX_BITS {
            return Err(failed("an index of a dictionary has more than 32 bits"));
        }
        Ok(Self::new(page, bits))
    }

    fn next(&mut self) -> Result<u64> {
        while self.left == 0 {
            self.begin()?;
        }
        self.left -= 1;
        match &mut self.run {
            Run::Same(number) => Ok(*number),
            Run::Packed { bytes, ahead, count } => {
                while *count < self.bits {
                    *ahead |= u64::from(bytes.try_get_u8().map_err(|_| too_short())?) << *count;
                    *count += u8::BITS;
                }
                let number = *ahead & !(u64::MAX << self.bits);
                *ahead >>= self.bits;
                *count -= self.bits;
                Ok(number)
            }
        }
    }

    /// Begins the next run: its length and whether it is packed, then its numbers.
    fn begin(&mut self) -> Result<()> {
        let head = number(|| self.bytes.try_get_u8().ok());
        let head = head.ok_or_else(|| failed("a run has a length that ggmill does not write"))?;
        let len = head >> 1;
        if head & 1 == 0 {
            let bytes = self.bits.div_ceil(u8::BITS) as usize;
            let number = self.bytes.try_get_uint_le(bytes).map_err(|_| too_short())?;
            (self.run, self.left) = (Run::Same(number), len);
        } else {
            // The length is in groups of eight numbers, which have a byte for each bit of one.
            let bytes = usize::try_from(len.saturating_mul(self.bits.into())).ok();
            let bytes = bytes.and_then(|len| split(&mut self.bytes, len)).ok_or_else(too_short)?;
            self.run = Run::Packed { bytes, ahead: 0, count: 0 };
            self.left = len.saturating_mul(8);
        }
        Ok(())
    }

    /// The next number as a level, of which there are two.
    fn level(&mut self) -> Result<bool> {
        match self.next()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(failed("a level is above 1")),
        }
    }

    /// Fails where there are numbers that the page does not say to have.
    fn end(self) -> Result<()> {
        let filled = if matches!(self.run, Run::Packed { .. }) { 7 } else { 0 };
        if self.bytes.is_empty() && self.left <= filled { Ok(()) } else { Err(too_long()) }
    }
}

/// Takes the first bytes off others, if there are so many.
fn split(bytes: &mut Bytes, len: usize) -> Option<Bytes> {
    (len <= bytes.len()).then(|| bytes.split_to(len))
}

fn too_short() -> ParquetError {
    failed("a page has fewer values than it says")
}

fn too_long() -> ParquetError {
    failed("a page has more values than it says")
}

#[cfg(test)]
mod tests {
    use std::fmt::Debug;

    use super::*;
    use crate::index::table::TABLES;

    /// What is read of these pages, or why nothing is.
    fn outcome<T: Value>(
        pages: &[(Kind, usize, &[u8])],
        levels: Levels,
    ) -> Result<Vec<(bool, Option<T>)>, String> {
        let pages = pages.iter().map(|&(kind, count, bytes)| {
            Ok(Page { kind, count, bytes: Bytes::copy_from_slice(bytes) })
        });
        let mut found = Vec::new();
        let read = read(pages, levels, |begins, value| {
            found.push((begins, value));
            Ok(())
        });
        read.map(|()| found).map_err(|error| crate::index::parquet::io_error(error).unwrap_err())
    }

    #[track_caller]
    fn refused<T: Value + Debug>(pages: &[(Kind, usize, &[u8])], levels: Levels, expected: &str) {
        assert_eq!(outcome::<T>(pages, levels).unwrap_err(), expected);
    }

    const FEWER: &str = "a page has fewer values than it says";
    const MORE: &str = "a page has more values than it says";
    const OUT_OF_RANGE: &str = "a dictionary has fewer values than an index says";
    const NO_LENGTH: &str = "a run has a length that ggmill does not write";

    /// Three texts as a dictionary.
    const TEXTS: (Kind, usize, &[u8]) = (Kind::Dictionary, 3, b"\x01\0\0\0a\0\0\0\0\x02\0\0\0bc");

    fn texts(texts: &[&'static str]) -> Vec<(bool, Option<Bytes>)> {
        texts.iter().map(|text| (true, Some(Bytes::from(*text)))).collect()
    }

    #[test]
    fn texts_are_one_after_another() {
        let read =
            |count, bytes: &[u8]| outcome::<Bytes>(&[(Kind::Plain, count, bytes)], Levels::None);
        assert_eq!(read(2, b"\x02\0\0\0ab\0\0\0\0"), Ok(texts(&["ab", ""])));
        assert_eq!(read(0, b""), Ok(Vec::new()));
        // Fewer bytes than a length has, and fewer than a length says.
        for bytes in [&b"\x02\0\0\0ab\x01\0\0"[..], b"\x02\0\0\0ab", b"\x02\0\0\0ab\x02\0\0\0a"] {
            assert_eq!(read(2, bytes), Err(FEWER.to_owned()));
        }
        assert_eq!(read(1, &[0xff; 4]), Err(FEWER.to_owned()));
        assert_eq!(read(1, b"\0\0\0\0\0"), Err(MORE.to_owned()));
    }

    #[test]
    fn numbers_have_eight_bytes() {
        let bytes = [1.5f64.to_le_bytes(), (-2.0f64).to_le_bytes()].concat();
        let page = [(Kind::Plain, 2, &*bytes)];
        assert_eq!(
            outcome::<f64>(&page, Levels::None),
            Ok(vec![(true, Some(1.5)), (true, Some(-2.0))])
        );
        refused::<i64>(&[(Kind::Plain, 2, &bytes[..15])], Levels::None, FEWER);
        refused::<i64>(&[(Kind::Plain, 1, &bytes)], Levels::None, MORE);
    }

    #[test]
    fn indices_are_of_the_dictionary() {
        let read = |count, bytes: &[u8]| {
            outcome::<Bytes>(&[TEXTS, (Kind::Indices, count, bytes)], Levels::None)
        };
        // One index twice, then eight packed ones, of which four count: 2, 0, 1, 2.
        let bytes = &[2, 4, 1, 3, 0b1001_0010, 0];
        assert_eq!(read(6, bytes), Ok(texts(&["", "", "bc", "a", "", "bc"])));
        // As packed as indices are when there is one value: they have no bits.
        let one = (Kind::Dictionary, 1, &b"\x01\0\0\0x"[..]);
        for bytes in [&[0, 6][..], &[0, 3]] {
            let pages = [one, (Kind::Indices, 3, bytes)];
            assert_eq!(outcome(&pages, Levels::None), Ok(texts(&["x"; 3])));
        }
        for (count, bytes, expected) in [
            (1, &[2, 2, 3][..], OUT_OF_RANGE),
            (1, &[32, 2, 0xff, 0xff, 0xff, 0xff], OUT_OF_RANGE),
            (1, &[33, 2, 0, 0, 0, 0, 0], "an index of a dictionary has more than 32 bits"),
            (1, &[255, 2], "an index of a dictionary has more than 32 bits"),
            (1, &[], FEWER),
            (1, &[2], NO_LENGTH),
            (1, &[2, 2], FEWER),
            (1, &[2, 3, 0], FEWER),
            (9, &[2, 3, 0, 0], NO_LENGTH),
            // Runs longer than the values.
            (1, &[2, 4, 0], MORE),
            (1, &[2, 5, 0, 0, 0, 0], MORE),
            (1, &[2, 2, 0, 0], MORE),
            (1, &[0, 0xff, 0xff, 0xff, 0xff, 0x0f], MORE),
            (1, &[32, 0xff, 0xff, 0xff, 0xff, 0x0f], FEWER),
            // A run whose length has no end, or too many bytes.
            (1, &[2, 0x80, 0x80], NO_LENGTH),
            (1, &[2, 0x82, 0x80, 0x80, 0x80, 0x80, 0x00, 0], NO_LENGTH),
            (1, &[2, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x01], NO_LENGTH),
        ] {
            assert_eq!(read(count, bytes), Err(expected.to_owned()), "{bytes:x?}");
        }
        let empty = (Kind::Dictionary, 0, &[][..]);
        refused::<Bytes>(&[empty, (Kind::Indices, 1, &[0, 2])], Levels::None, OUT_OF_RANGE);
        refused::<Bytes>(&[(Kind::Dictionary, 4, TEXTS.2)], Levels::None, FEWER);
        refused::<Bytes>(&[(Kind::Dictionary, 2, TEXTS.2)], Levels::None, MORE);
    }

    #[test]
    fn a_value_is_null_where_the_level_is_0() {
        let read = |count, levels: &[u8]| {
            let len = u32::try_from(levels.len()).unwrap().to_le_bytes();
            let bytes = [&len, levels, &7i64.to_le_bytes(), &8i64.to_le_bytes()].concat();
            outcome::<i64>(&[(Kind::Plain, count, &bytes)], Levels::Optional)
        };
        let expected = vec![(true, None), (true, Some(7)), (true, Some(8)), (true, None)];
        assert_eq!(read(4, &[3, 0b0110]), Ok(expected.clone()));
        assert_eq!(read(4, &[2, 0, 4, 1, 2, 0]), Ok(expected));
        for (count, levels, expected) in [
            // Levels that are fewer than the values or more, of more or fewer values.
            (3, &[4, 1][..], NO_LENGTH),
            (9, &[3, 0b11], NO_LENGTH),
            (2, &[6, 1], MORE),
            (2, &[4, 1, 0], MORE),
            (2, &[5, 0b11, 0], MORE),
            (3, &[6, 1], FEWER),
            (1, &[2, 1], MORE),
            (2, &[4, 2], "a level is above 1"),
            (2, &[], NO_LENGTH),
        ] {
            assert_eq!(read(count, levels), Err(expected.to_owned()), "{levels:x?}");
        }
        for bytes in [&[][..], &[2, 0, 0], &[2, 0, 0, 0, 2], &[0xff; 5]] {
            refused::<i64>(&[(Kind::Plain, 1, bytes)], Levels::Optional, FEWER);
        }
        // Nulls only, as they are written with a dictionary that is empty.
        let pages = [(Kind::Dictionary, 0, &[][..]), (Kind::Indices, 2, &[2, 0, 0, 0, 4, 0, 0])];
        assert_eq!(outcome::<i64>(&pages, Levels::Optional), Ok(vec![(true, None); 2]));
    }

    #[test]
    fn an_element_begins_a_list_or_goes_on_with_it() {
        let values = [1i64, 2, 3].map(i64::to_le_bytes).concat();
        // [1, 2], [], [3]
        let levels = [2, 0, 0, 0, 3, 0b0010, 2, 0, 0, 0, 3, 0b1011];
        let bytes = [&levels, &*values].concat();
        assert_eq!(
            outcome(&[(Kind::Plain, 4, &bytes)], Levels::List),
            Ok(vec![(true, Some(1)), (false, Some(2)), (true, None), (true, Some(3))])
        );
        refused::<i64>(&[(Kind::Plain, 4, &levels[..6])], Levels::List, FEWER);
        assert!(
            TABLES
                .iter()
                .flat_map(|table| table.columns)
                .all(|column| { column.kind != ColumnKind::Integers || !column.optional })
        );
    }

    /// No bytes stop the program, and none give more than a page says to have.
    #[test]
    fn damaged_pages_are_read_or_refused() {
        let pages: [(Levels, Kind, u8, &[u8]); 5] = [
            (Levels::None, Kind::Plain, 2, b"\x02\0\0\0ab\0\0\0\0"),
            (Levels::None, Kind::Indices, 6, &[2, 4, 1, 3, 0b1001_0010, 0]),
            (Levels::None, Kind::Indices, 3, &[2, 6, 1]),
            (Levels::Optional, Kind::Indices, 9, &[4, 0, 0, 0, 3, 0b0110, 2, 1, 2, 6, 1]),
            (Levels::List, Kind::Indices, 4, &[2, 0, 0, 0, 3, 2, 2, 0, 0, 0, 3, 11, 2, 3, 9, 0]),
        ];
        let mut state = 0x9e37_79b9_7f4a_7c15u64;
        let mut below = |limit: usize| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            usize::try_from(state % limit as u64).unwrap()
        };
        let mut read = [0; 2];
        for _ in 0..200_000 {
            let (levels, kind, mut count, page) = pages[below(pages.len())];
            let mut page = page.to_vec();
            for _ in 0..=below(3) {
                let place = below(page.len() + 1);
                let limit = [8, 256][below(2)];
                let byte = u8::try_from(below(limit)).unwrap();
                match (below(5), page.get_mut(place)) {
                    (0, _) => page.insert(place, byte),
                    (1, Some(_)) => drop(page.remove(place)),
                    (2, _) => count = byte,
                    (_, Some(found)) => *found = byte,
                    (_, None) => page.push(byte),
                }
            }
            let count = usize::from(count);
            let found = outcome::<Bytes>(&[TEXTS, (kind, count, &page)], levels);
            assert!(found.as_ref().map_or(true, |found| found.len() == count));
            read[usize::from(found.is_ok())] += 1;
        }
        assert!(read.iter().all(|&count| count > 5000), "{read:?}");
    }
}
