//! The tables, their columns and cells.

/// A table of an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Table {
    /// Its name.
    pub name: &'static str,
    /// The value of the field `record` in NDJSON.
    pub record: &'static str,
    /// Its columns, in order. The first is the path of the file.
    pub columns: &'static [Column],
}

/// A column of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Column {
    /// Its name.
    pub name: &'static str,
    /// The type of its cells.
    pub kind: ColumnKind,
    /// `true` if a cell can be null.
    pub optional: bool,
}

/// The type of the cells of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ColumnKind {
    /// UTF-8 text.
    Text,
    /// A signed integer of 64 bits.
    Integer,
    /// A float of 64 bits.
    Float,
    /// A list of signed integers of 64 bits.
    Integers,
    /// A time in microseconds, UTC.
    Time,
}

use ColumnKind::{Float, Integer, Integers, Text, Time};

const fn required(name: &'static str, kind: ColumnKind) -> Column {
    Column { name, kind, optional: false }
}

const fn optional(name: &'static str, kind: ColumnKind) -> Column {
    Column { name, kind, optional: true }
}

/// A row for each file.
pub(super) const FILES: Table = Table {
    name: "files",
    record: "file",
    columns: &[
        required("path", Text),
        optional("size", Integer),
        optional("modified", Time),
        optional("error", Text),
        required("tensor_count", Integer),
        required("metadata_count", Integer),
        optional("version", Integer),
        optional("endian", Text),
        optional("alignment", Integer),
        optional("data_offset", Integer),
        optional("parameters", Integer),
        optional("tensor_bytes", Integer),
        optional("bits_per_weight", Float),
        optional("architecture", Text),
        optional("name", Text),
        optional("type", Text),
        optional("license", Text),
        optional("file_type", Text),
        optional("quantization_version", Integer),
        optional("context_length", Integer),
        optional("embedding_length", Integer),
        optional("block_count", Integer),
        optional("feed_forward_length", Integer),
        optional("head_count", Integer),
        optional("head_count_kv", Integer),
        optional("expert_count", Integer),
        optional("expert_used_count", Integer),
        optional("tokenizer_model", Text),
        optional("tokenizer_pre", Text),
        optional("vocabulary_size", Integer),
        optional("chat_template_bytes", Integer),
        optional("shard", Integer),
        optional("shard_count", Integer),
    ],
};

/// A row for each tensor.
pub(super) const TENSORS: Table = Table {
    name: "tensors",
    record: "tensor",
    columns: &[
        required("path", Text),
        required("position", Integer),
        required("name", Text),
        required("type", Text),
        required("dimensions", Integers),
        optional("elements", Integer),
        optional("bytes", Integer),
        optional("file_offset", Integer),
    ],
};

/// A row for each metadata entry.
pub(super) const METADATA: Table = Table {
    name: "metadata",
    record: "metadata",
    columns: &[
        required("path", Text),
        required("position", Integer),
        required("key", Text),
        required("type", Text),
        optional("element_type", Text),
        optional("length", Integer),
        optional("value", Text),
        optional("integer", Integer),
        optional("float", Float),
    ],
};

/// The tables of an index, in the order in which [`Tables::parquet`](super::Tables::parquet) takes
/// their outputs: files, tensors, metadata.
pub const TABLES: [Table; 3] = [FILES, TENSORS, METADATA];

/// A cell of a row.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Cell {
    Null,
    Text(String),
    Integer(i64),
    Float(f64),
    Integers(Vec<i64>),
}

impl Cell {
    /// Returns an integer cell, or null if there is no number or it exceeds `i64`.
    pub(super) fn integer(number: Option<impl TryInto<i64>>) -> Self {
        number.and_then(|number| number.try_into().ok()).map_or(Self::Null, Self::Integer)
    }

    /// Bytes of a cell without its text or list: a constant rather than `size_of`, so that row groups
    /// end at the same rows on every machine.
    const SIZE: usize = 32;

    /// Returns the approximate size in memory, in bytes.
    pub(super) fn weight(&self) -> usize {
        let content = match self {
            Self::Text(text) => text.len(),
            Self::Integers(numbers) => numbers.len().saturating_mul(size_of::<i64>()),
            _ => 0,
        };
        content.saturating_add(Self::SIZE)
    }
}

/// The cells of a row, without the path.
pub(super) type Row = Vec<Cell>;

/// Formats a time in microseconds since 1970 (UTC) by RFC 3339: `2026-11-22T21:35:00.000000Z`.
pub(super) fn time_text(microseconds: i64) -> String {
    const DAY: i64 = 86_400_000_000;
    let (days, rest) = (microseconds.div_euclid(DAY), microseconds.rem_euclid(DAY));
    let (year, month, day) = date(days);
    let (seconds, fraction) = (rest / 1_000_000, rest % 1_000_000);
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    format!("{year:04}-{month:02}-{day:02}T{hours:02}:{minutes:02}:{seconds:02}.{fraction:06}Z")
}

/// Returns year, month and day of a day counted from 1970-01-01, in the Gregorian calendar. Internally
/// years begin in March, so that the leap day is the last day; 400 years have 146,097 days.
fn date(days: i64) -> (i64, i64, i64) {
    let days = days.saturating_add(719_468);
    let (era, day_of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let leaps = day_of_era / 1460 - day_of_era / 36_524 + day_of_era / 146_096;
    let year_of_era = (day_of_era - leaps) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    (era * 400 + year_of_era + i64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_takes_at_most_the_counted_size() {
        assert!(size_of::<Cell>() <= Cell::SIZE);
    }

    #[test]
    fn column_names_are_unique_and_the_path_is_first() {
        for table in TABLES {
            let names: Vec<_> = table.columns.iter().map(|column| column.name).collect();
            let mut unique = names.clone();
            unique.sort_unstable();
            unique.dedup();
            assert_eq!(unique.len(), names.len(), "{}", table.name);
            assert_eq!(names.first(), Some(&"path"));
            assert!(!names.contains(&"record"), "NDJSON has it");
        }
    }

    /// `date -u -d @SECONDS` is the reference.
    #[test]
    fn times_follow_the_calendar() {
        for (seconds, expected) in [
            (0, "1970-01-01T00:00:00"),
            (-1, "1969-12-31T23:59:59"),
            (951_782_399, "2000-02-28T23:59:59"),
            (951_782_400, "2000-02-29T00:00:00"),
            (1_709_251_199, "2024-02-29T23:59:59"),
            (4_107_542_400, "2100-03-01T00:00:00"),
            (-62_135_596_800, "0001-01-01T00:00:00"),
        ] {
            assert_eq!(time_text(seconds * 1_000_000), format!("{expected}.000000Z"));
        }
        assert_eq!(time_text(1_700_000_000_123_456), "2023-11-14T22:13:20.123456Z");
    }

    #[test]
    fn no_time_overflows() {
        assert!(time_text(i64::MAX).starts_with("294247-01-10"));
        assert!(time_text(i64::MIN).starts_with("-290308-12-21"));
    }
}
