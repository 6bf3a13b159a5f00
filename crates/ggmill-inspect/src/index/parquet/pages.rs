//! The pages of a column of an earlier index. The format's reader takes as much memory as their
//! heads say, and stops the program over some columns; so both are checked before. What is in the
//! pages it does not decode.

use std::sync::Arc;

use bytes::Bytes;
use ggmill_core::ReadAt;
use parquet::basic::{Compression, Encoding};
use parquet::column::page::{Page as FormatPage, PageReader as _};
use parquet::errors::{ParquetError, Result};
use parquet::file::metadata::ColumnChunkMetaData;
use parquet::file::reader::{ChunkReader, Length};
use parquet::file::serialized_reader::SerializedPageReader;

use super::schema::{GROUP_BYTES, ROW_BYTES};
use crate::index::source::InOrder;

/// Bytes of a page, at most: the texts of a row group, and where each ends.
const PAGE_BYTES: u64 = (GROUP_BYTES + ROW_BYTES + (1 << 20)) as u64;
/// Bytes of a page in the file, at most: as many as Snappy takes for what it cannot compress.
const STORED_BYTES: u64 = PAGE_BYTES + PAGE_BYTES / 6 + 32;
/// Bytes of all pages of a column of a row group, at most: a dictionary and levels among them.
const COLUMN_BYTES: usize = GROUP_BYTES + ROW_BYTES + (4 << 20);
/// Bytes of the head of a page, at most.
const START: usize = 64;

/// Of a page, or the head of one, that is not what the tables are written with.
const OTHER_PAGE: &str = "a page is not one that ggmill writes";

pub(super) fn failed(why: &str) -> ParquetError {
    ParquetError::General(why.to_owned())
}

/// What is in a page.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Kind {
    /// The values of a dictionary.
    Dictionary,
    /// Values.
    Plain,
    /// Indices of values in the dictionary.
    Indices,
}

/// A page that is one of those that ggmill writes, as far as its head says.
pub(super) struct Page {
    pub(super) kind: Kind,
    /// How many values it says to have, nulls and empty lists among them.
    pub(super) count: usize,
    pub(super) bytes: Bytes,
}

/// The pages of a column, with no more values than there may be.
pub(super) struct Pages {
    reader: SerializedPageReader<Heads>,
    /// Whether a page was read, and whether that was a dictionary.
    has_begun: bool,
    has_dictionary: bool,
    /// The most values of a dictionary.
    most: usize,
    /// How many values the next pages may have.
    left: usize,
    /// How many bytes the next pages may have.
    bytes: usize,
}

impl Pages {
    /// The pages of a column that has at most this number of values, nulls among them.
    pub(super) fn new(
        source: &Arc<dyn ReadAt>,
        column: &ColumnChunkMetaData,
        rows: usize,
        values: usize,
    ) -> Result<Self> {
        if !matches!(column.compression(), Compression::SNAPPY | Compression::UNCOMPRESSED) {
            return Err(failed("a column has a compression that ggmill does not write"));
        }
        let source = Arc::new(Heads(Source(Arc::clone(source))));
        Ok(Self {
            reader: SerializedPageReader::new(source, column, rows, None)?,
            has_begun: false,
            has_dictionary: false,
            most: values,
            left: values,
            bytes: COLUMN_BYTES,
        })
    }

    fn read(&mut self) -> Result<Option<Page>> {
        let Some(page) = self.reader.get_next_page()? else { return Ok(None) };
        let bytes = self.bytes.checked_sub(page.buffer().len());
        self.bytes = bytes.ok_or_else(|| failed("a column is too long"))?;
        let kind = self.kind(&page)?;
        let count = page.num_values() as usize;
        if kind == Kind::Dictionary {
            self.has_dictionary = true;
            if count > self.most {
                return Err(failed("a dictionary has more values than its column"));
            }
        } else {
            let left = self.left.checked_sub(count);
            self.left = left.ok_or_else(|| failed("a column has more values than its rows"))?;
        }
        self.has_begun = true;
        Ok(Some(Page { kind, count, bytes: page.buffer().clone() }))
    }

    /// What is in the next page.
    fn kind(&self, page: &FormatPage) -> Result<Kind> {
        let is_dictionary = match page {
            FormatPage::DataPage {
                def_level_encoding: Encoding::RLE,
                rep_level_encoding: Encoding::RLE,
                ..
            } => false,
            // There is one, and it is the first.
            FormatPage::DictionaryPage { .. } if !self.has_begun => true,
            _ => return Err(failed(OTHER_PAGE)),
        };
        match (is_dictionary, page.encoding()) {
            (true, Encoding::PLAIN | Encoding::PLAIN_DICTIONARY) => Ok(Kind::Dictionary),
            (false, Encoding::PLAIN) => Ok(Kind::Plain),
            (false, Encoding::RLE_DICTIONARY | Encoding::PLAIN_DICTIONARY) => {
                let missing = || failed("a dictionary is missing");
                self.has_dictionary.then_some(Kind::Indices).ok_or_else(missing)
            }
            _ => Err(failed("a page has an encoding that ggmill does not write")),
        }
    }
}

impl Iterator for Pages {
    type Item = Result<Page>;

    fn next(&mut self) -> Option<Self::Item> {
        self.read().transpose()
    }
}

/// A source of bytes by position, as the format's reader wants it.
pub(super) struct Source(pub(super) Arc<dyn ReadAt>);

impl Length for Source {
    fn len(&self) -> u64 {
        self.0.len()
    }
}

impl ChunkReader for Source {
    type T = InOrder;

    fn get_read(&self, start: u64) -> Result<InOrder> {
        Ok(InOrder::new(Arc::clone(&self.0), start))
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes> {
        let end = start.checked_add(length as u64);
        if end.is_none_or(|end| end > self.0.len()) {
            return Err(ParquetError::EOF(format!(
                "bytes {start} to {start} + {length} of a file of {} bytes",
                self.0.len()
            )));
        }
        let mut bytes = Vec::new();
        bytes.try_reserve_exact(length).map_err(|error| ParquetError::External(error.into()))?;
        bytes.resize(length, 0);
        self.0
            .read_at(start, &mut bytes)
            .map_err(|error| ParquetError::General(error.to_string()))?;
        Ok(bytes.into())
    }
}

/// The same for pages, of which only the heads are read in order.
struct Heads(Source);

impl Length for Heads {
    fn len(&self) -> u64 {
        self.0.len()
    }
}

impl ChunkReader for Heads {
    type T = InOrder;

    fn get_read(&self, start: u64) -> Result<InOrder> {
        let left = usize::try_from(self.len().saturating_sub(start)).unwrap_or(START);
        let head = self.0.get_bytes(start, left.min(START))?;
        match page_len(&head) {
            Some(len) if len <= PAGE_BYTES => self.0.get_read(start),
            Some(_) => Err(failed("a page is too long")),
            None => Err(failed(OTHER_PAGE)),
        }
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes> {
        if length as u64 > STORED_BYTES {
            return Err(failed("a page is too long"));
        }
        self.0.get_bytes(start, length)
    }
}

/// How many bytes a page has once it is decoded, where its head is one that ggmill writes: a struct
/// of Thrift's compact protocol with the kind of the page, its two lengths and the struct of that
/// kind. The format's reader takes the last of duplicate fields, so there may be none.
fn page_len(mut head: &[u8]) -> Option<u64> {
    let head = &mut head;
    let (kind, len, _) = (integer(head)?, integer(head)?, integer(head)?);
    // A data page: how many values, their encoding, and those of the levels. A dictionary: how many
    // values, their encoding, and whether they are in order.
    let (of_kind, integers) = match kind {
        0 => (0x2c, 4),
        2 => (0x4c, 2),
        _ => return None,
    };
    if byte(head)? != of_kind {
        return None;
    }
    for _ in 0..integers {
        integer(head)?;
    }
    let mut end = byte(head)?;
    if kind == 2 && matches!(end, 0x11 | 0x12) {
        end = byte(head)?;
    }
    (end == 0 && byte(head)? == 0).then_some(len)
}

fn byte(head: &mut &[u8]) -> Option<u8> {
    let (&first, rest) = head.split_first()?;
    *head = rest;
    Some(first)
}

/// The next field, an integer of 32 bits that is not negative.
fn integer(head: &mut &[u8]) -> Option<u64> {
    if byte(head)? != 0x15 {
        return None;
    }
    let number = number(|| byte(head))?;
    // Whether it is negative is the lowest bit.
    (number & 1 == 0).then_some(number >> 1)
}

/// A number of 32 bits or a few more from bytes of 7 bits each, the lowest first.
pub(super) fn number(mut byte: impl FnMut() -> Option<u8>) -> Option<u64> {
    let mut number = 0;
    for shift in (0..35).step_by(7) {
        let byte = byte()?;
        number |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(number);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::page_len;

    #[test]
    fn heads() {
        const DATA: &[u8] = &[0x15, 0x18, 0x2c, 0x15, 2, 0x15, 0, 0x15, 6, 0x15, 6, 0, 0];
        const DICTIONARY: &[u8] = &[0x15, 0x18, 0x4c, 0x15, 2, 0x15, 0, 0x12, 0, 0];
        for (start, end, expected) in [
            (&[0x15, 0x00, 0x15, 0x14][..], DATA, Some(10)),
            (&[0x15, 0x04, 0x15, 0x80, 0x01], DICTIONARY, Some(64)),
            (&[0x15, 0x04, 0x15, 0x14], &[0x15, 2, 0x4c, 0x15, 2, 0x15, 0, 0, 0], Some(10)),
            (&[0x15, 0x00, 0x15, 0xfe, 0xff, 0xff, 0xff, 0x0f], DATA, Some(0x7fff_ffff)),
            // A data page of the second version, and structs of other kinds than the page.
            (&[0x15, 0x06, 0x15, 0x14], DATA, None),
            (&[0x15, 0x00, 0x15, 0x14], DICTIONARY, None),
            (&[0x15, 0x04, 0x15, 0x14], DATA, None),
            // The length once more.
            (&[0x15, 0x00, 0x15, 0x14, 0x15, 0x18, 0x05, 0x04, 0x14], &DATA[2..], None),
            (&[0x15, 0x00, 0x15, 0x13], DATA, None),
            (&[0x15, 0x00, 0x15, 0x80, 0x80, 0x80, 0x80, 0x80, 0x01], DATA, None),
            (&[0x15, 0x00, 0x25, 0x14], DATA, None),
            (&[0x05, 0x02, 0x00, 0x15, 0x14], DATA, None),
            (&[0x15, 0x00, 0x15, 0x14], &DATA[..DATA.len() - 1], None),
            (&[0x15, 0x00, 0x15], &[], None),
            (&[], &[], None),
        ] {
            let head = [start, end].concat();
            assert_eq!(page_len(&head), expected, "{head:x?}");
        }
    }
}
