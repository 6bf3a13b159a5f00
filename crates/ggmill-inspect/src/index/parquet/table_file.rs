//! Writing one table.

use std::io::Write;
use std::sync::Arc;

use bytes::Bytes;
use parquet::basic::Compression;
use parquet::data_type::{ByteArray, ByteArrayType, DoubleType, Int64Type};
use parquet::errors::{ParquetError, Result as ParquetResult};
use parquet::file::metadata::KeyValue;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};

use super::RUN;
use super::schema::{GROUP_BYTES, GROUP_ROWS, schema};
use crate::index::table::{Cell, Column, ColumnKind, Row, Table};

/// One file.
pub(super) struct TableFile<W: Write + Send> {
    writer: SerializedFileWriter<W>,
    table: &'static Table,
    columns: Vec<ColumnCells>,
    rows: usize,
    bytes: usize,
}

impl<W: Write + Send> TableFile<W> {
    pub(super) fn new(table: &'static Table, out: W) -> ParquetResult<Self> {
        let properties = WriterProperties::builder()
            .set_compression(Compression::SNAPPY)
            .set_statistics_enabled(EnabledStatistics::Chunk)
            .set_created_by(format!("ggmill {}", env!("CARGO_PKG_VERSION")))
            .build();
        let writer = SerializedFileWriter::new(out, schema(table)?, Arc::new(properties))?;
        let columns = table.columns.iter().map(ColumnCells::new).collect();
        Ok(Self { writer, table, columns, rows: 0, bytes: 0 })
    }

    pub(super) fn push(&mut self, path: &Bytes, row: Row) -> ParquetResult<()> {
        let mut columns = self.columns.iter_mut();
        if let Some(ColumnCells { values: Values::Text(texts), .. }) = columns.next() {
            texts.push(ByteArray::from(path.clone()));
        }
        // Rows share it in memory, but need not in the file.
        self.bytes = self.bytes.saturating_add(path.len());
        for (column, cell) in columns.zip(row) {
            self.bytes = self.bytes.saturating_add(cell.weight());
            column.push(cell);
        }
        self.rows += 1;
        if self.rows >= GROUP_ROWS || self.bytes >= GROUP_BYTES { self.end_group() } else { Ok(()) }
    }

    /// Writes the rows that are here as a row group.
    fn end_group(&mut self) -> ParquetResult<()> {
        if self.rows == 0 {
            return Ok(());
        }
        let mut group = self.writer.next_row_group()?;
        for (column, cells) in self.table.columns.iter().zip(&mut self.columns) {
            let Some(mut writer) = group.next_column()? else { break };
            std::mem::replace(cells, ColumnCells::new(column)).write(&mut writer)?;
            writer.close()?;
        }
        group.close()?;
        (self.rows, self.bytes) = (0, 0);
        Ok(())
    }

    pub(super) fn finish(mut self, run: &str) -> ParquetResult<()> {
        self.end_group()?;
        self.writer.append_key_value_metadata(KeyValue::new(RUN.to_owned(), run.to_owned()));
        let mut out = self.writer.into_inner()?;
        Ok(out.flush()?)
    }
}

/// The bytes with which the footer of a table's file begins, up to how many rows it has: those of
/// its columns.
pub(super) fn footer_start(table: &'static Table) -> ParquetResult<Vec<u8>> {
    let (none, one) = (footer(table, 0)?, footer(table, 1)?);
    let same = none.iter().zip(&one).take_while(|(a, b)| a == b);
    Ok(same.map(|(byte, _)| *byte).collect())
}

/// The footer of a table's file with so many rows.
fn footer(table: &'static Table, rows: usize) -> ParquetResult<Vec<u8>> {
    let mut out = Vec::new();
    let mut file = TableFile::new(table, &mut out)?;
    for _ in 0..rows {
        let cells = table.columns.iter().skip(1).map(|column| match column.kind {
            _ if column.optional => Cell::Null,
            ColumnKind::Text => Cell::Text(String::new()),
            ColumnKind::Integer | ColumnKind::Time => Cell::Integer(0),
            ColumnKind::Float => Cell::Float(0.0),
            ColumnKind::Integers => Cell::Integers(Vec::new()),
        });
        file.push(&Bytes::new(), cells.collect())?;
    }
    file.finish("")?;
    let footer = out.split_last_chunk::<8>().and_then(|(rest, [a, b, c, d, ..])| {
        let len = u32::from_le_bytes([*a, *b, *c, *d]) as usize;
        rest.get(rest.len().checked_sub(len)?..)
    });
    let missing = || ParquetError::General("a footer is missing".to_owned());
    footer.map(<[u8]>::to_vec).ok_or_else(missing)
}

/// The cells of a column in a row group, as the format takes them.
struct ColumnCells {
    values: Values,
    optional: bool,
    /// For each cell of an optional column, and each element of a list, whether it is there.
    defined: Vec<i16>,
    /// Of a list: 0 for its first element, 1 for the others.
    repeated: Vec<i16>,
}

enum Values {
    Text(Vec<ByteArray>),
    Integers(Vec<i64>),
    Floats(Vec<f64>),
}

impl ColumnCells {
    fn new(column: &Column) -> Self {
        let values = match column.kind {
            ColumnKind::Text => Values::Text(Vec::new()),
            ColumnKind::Float => Values::Floats(Vec::new()),
            ColumnKind::Integer | ColumnKind::Integers | ColumnKind::Time => {
                Values::Integers(Vec::new())
            }
        };
        Self { values, optional: column.optional, defined: Vec::new(), repeated: Vec::new() }
    }

    /// A cell that is not of the column's kind is a null. In a column without nulls it is missing,
    /// which the format's writer refuses.
    fn push(&mut self, cell: Cell) {
        let is_there = match (&mut self.values, cell) {
            (Values::Text(texts), Cell::Text(text)) => {
                texts.push(ByteArray::from(text.into_bytes()));
                true
            }
            (Values::Integers(numbers), Cell::Integer(number)) => {
                numbers.push(number);
                true
            }
            (Values::Floats(numbers), Cell::Float(number)) => {
                numbers.push(number);
                true
            }
            (Values::Integers(numbers), Cell::Integers(list)) => {
                for (place, number) in list.iter().enumerate() {
                    numbers.push(*number);
                    self.repeated.push(i16::from(place > 0));
                    self.defined.push(1);
                }
                if list.is_empty() {
                    self.repeated.push(0);
                    self.defined.push(0);
                }
                return;
            }
            _ => false,
        };
        if self.optional {
            self.defined.push(i16::from(is_there));
        }
    }

    fn write(self, writer: &mut SerializedColumnWriter<'_>) -> ParquetResult<()> {
        // A column without levels must not be given any.
        let [defined, repeated] =
            [&self.defined, &self.repeated].map(|levels| (!levels.is_empty()).then_some(&**levels));
        match &self.values {
            Values::Text(texts) => {
                writer.typed::<ByteArrayType>().write_batch(texts, defined, repeated)
            }
            Values::Integers(numbers) => {
                writer.typed::<Int64Type>().write_batch(numbers, defined, repeated)
            }
            Values::Floats(numbers) => {
                writer.typed::<DoubleType>().write_batch(numbers, defined, repeated)
            }
        }
        .map(drop)
    }
}
