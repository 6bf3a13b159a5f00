//! The tables and their columns, and what a row of one is.

/// A table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Table {
    /// Its name.
    pub name: &'static str,
    /// What NDJSON calls a row of it, in the field `record`.
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
    /// What its cells are.
    pub kind: ColumnKind,
    /// Whether a cell can be null.
    pub optional: bool,
}

/// What the cells of a column are.
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
pub(crate) const FILES: Table = Table {
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
pub(crate) const TENSORS: Table = Table {
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
pub(crate) const METADATA: Table = Table {
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

/// The tables of an index, in the order in which [`Tables::parquet`](crate::index::Tables::parquet) takes
/// them: files, tensors, metadata.
pub const TABLES: [Table; 3] = [FILES, TENSORS, METADATA];

/// A cell of a row.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Cell {
    Null,
    Text(String),
    Integer(i64),
    Float(f64),
    Integers(Vec<i64>),
}

impl Cell {
    /// An integer, or null where the column cannot have it.
    pub(crate) fn integer(number: Option<impl TryInto<i64>>) -> Self {
        number.and_then(|number| number.try_into().ok()).map_or(Self::Null, Self::Integer)
    }

    /// Bytes of a cell in memory beside its text or list. The same number on every machine, as row
    /// groups are divided by it.
    pub(crate) const OWN: usize = 32;

    /// Bytes that it takes in memory, about.
    pub(crate) fn weight(&self) -> usize {
        let content = match self {
            Self::Text(text) => text.len(),
            Self::Integers(numbers) => numbers.len().saturating_mul(size_of::<i64>()),
            _ => 0,
        };
        content.saturating_add(Self::OWN)
    }
}

/// The cells of a row after that of the path.
pub(crate) type Row = Vec<Cell>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_no_larger_than_they_are_counted() {
        assert!(size_of::<Cell>() <= Cell::OWN);
    }

    #[test]
    fn columns_have_names_of_their_own_and_the_path_is_the_first() {
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
}
