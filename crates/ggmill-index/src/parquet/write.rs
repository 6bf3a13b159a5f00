//! Writing the tables.

use std::io::Write;
use std::sync::Arc;

use bytes::Bytes;
use parquet::basic::Compression;
use parquet::data_type::{ByteArray, ByteArrayType, DoubleType, Int64Type};
use parquet::errors::{ParquetError, Result as ParquetResult};
use parquet::file::metadata::KeyValue;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};

use super::earlier::Earlier;
use super::schema::{GROUP_ROWS, schema};
use super::{RUN, io_error};
use crate::error::{Error, Result};
use crate::rows::FileRows;
use crate::store::Store;
use crate::table::{Cell, Column, ColumnKind, Row, TABLES, Table};

/// Bytes of the cells of a row group in memory, about.
const GROUP_BYTES: usize = 32 << 20;

/// The three files while they are written.
pub(crate) struct Files<W: Write + Send> {
    tables: [TableFile<W>; 3],
    earlier: Option<Earlier>,
    /// A digest of the rows of files, which tells the tables of one run.
    run: u64,
}

impl<W: Write + Send> Files<W> {
    pub(crate) fn new(outputs: [W; 3], earlier: Option<Earlier>) -> Result<Self> {
        let [files, tensors, metadata] = outputs;
        let file = |table, out| TableFile::new(table, out).map_err(failed);
        let [of_files, of_tensors, of_metadata] = &TABLES;
        Ok(Self {
            tables: [
                file(of_files, files)?,
                file(of_tensors, tensors)?,
                file(of_metadata, metadata)?,
            ],
            earlier,
            run: 0xcbf2_9ce4_8422_2325,
        })
    }
}

/// An error of writing.
fn failed(error: ParquetError) -> Error {
    io_error(error).map_or_else(Error::Encode, Error::Write)
}

/// FNV-1a, which is the same in every version of this program.
fn digest(digest: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(digest, |digest, &byte| {
        (digest ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

impl<W: Write + Send> Store for Files<W> {
    fn write(&mut self, rows: FileRows) -> Result<()> {
        self.run = digest(self.run, rows.path.as_bytes());
        for cell in rows.file.iter().take(5) {
            if let Cell::Integer(number) = cell {
                self.run = digest(self.run, &number.to_le_bytes());
            }
        }
        let path = Bytes::from(rows.path.into_bytes());
        let [files, tensors, metadata] = &mut self.tables;
        files.push(&path, rows.file).map_err(failed)?;
        for row in rows.tensors {
            tensors.push(&path, row).map_err(failed)?;
        }
        for row in rows.entries {
            metadata.push(&path, row).map_err(failed)?;
        }
        Ok(())
    }

    fn keep(&mut self, number: usize) -> Result<(u64, u64)> {
        let missing = || Error::Previous(format!("file {number} is not in it"));
        let rows = self.earlier.as_mut().ok_or_else(missing)?.rows(number)?;
        let counts = (rows.tensors.len() as u64, rows.entries.len() as u64);
        self.write(rows)?;
        Ok(counts)
    }

    fn finish(self: Box<Self>) -> Result<()> {
        let run = format!("{:016x}", self.run);
        self.tables.into_iter().try_for_each(|table| table.finish(&run)).map_err(failed)
    }
}

/// One file.
struct TableFile<W: Write + Send> {
    writer: SerializedFileWriter<W>,
    table: &'static Table,
    columns: Vec<ColumnCells>,
    rows: usize,
    bytes: usize,
}

impl<W: Write + Send> TableFile<W> {
    fn new(table: &'static Table, out: W) -> ParquetResult<Self> {
        let properties = WriterProperties::builder()
            .set_compression(Compression::SNAPPY)
            .set_statistics_enabled(EnabledStatistics::Chunk)
            .set_created_by(format!("ggmill {}", env!("CARGO_PKG_VERSION")))
            .build();
        let writer = SerializedFileWriter::new(out, schema(table)?, Arc::new(properties))?;
        let columns = table.columns.iter().map(ColumnCells::new).collect();
        Ok(Self { writer, table, columns, rows: 0, bytes: 0 })
    }

    fn push(&mut self, path: &Bytes, row: Row) -> ParquetResult<()> {
        let mut columns = self.columns.iter_mut();
        if let Some(ColumnCells { values: Values::Text(texts), .. }) = columns.next() {
            texts.push(ByteArray::from(path.clone()));
        }
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

    fn finish(mut self, run: &str) -> ParquetResult<()> {
        self.end_group()?;
        self.writer.append_key_value_metadata(KeyValue::new(RUN.to_owned(), run.to_owned()));
        let mut out = self.writer.into_inner()?;
        Ok(out.flush()?)
    }
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
