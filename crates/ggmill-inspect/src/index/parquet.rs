//! Tables as Parquet files, and the state from which they are updated.

use std::io::{self, Write};
use std::sync::Arc;

use bytes::Bytes;
use ggmill_core::ReadAt;
use parquet::basic::{Compression, LogicalType, Repetition, TimeUnit, Type as Physical};
use parquet::data_type::{ByteArray, ByteArrayType, DoubleType, Int64Type};
use parquet::errors::{ParquetError, Result as ParquetResult};
use parquet::file::metadata::KeyValue;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use parquet::schema::types::{Type, TypePtr};
use snap::read::FrameDecoder;
use snap::write::FrameEncoder;

use super::ndjson::{self, Earlier, Lines, Previous, Sequential};
use super::rows::FileRows;
use super::table::{Cell, Column, ColumnKind, Row, TABLES, Table};
use super::{Candidate, Error, Result, Store};

/// The key of a file's metadata whose value is the same in the tables of one run.
const RUN: &str = "ggmill.index.run";
/// Rows of a row group, at most.
const GROUP_ROWS: usize = 1 << 17;
/// Bytes of the cells and paths of a row group in memory at which the group is written.
const GROUP_BYTES: usize = 32 << 20;

/// Opens an earlier state: NDJSON in Snappy's frame format.
#[expect(clippy::needless_pass_by_value, reason = "the files of both formats are opened alike")]
pub(super) fn open_state(source: Arc<dyn ReadAt>) -> Result<(Earlier, Previous)> {
    ndjson::scan(&|| Box::new(FrameDecoder::new(Sequential::new(Arc::clone(&source)))))
}

/// Writes rows to the three tables and the state.
pub(super) struct Files<W: Write + Send> {
    tables: [TableFile<W>; 3],
    state: Lines<Digest<FrameEncoder<W>>>,
}

impl<W: Write + Send> Files<W> {
    pub(super) fn new(outputs: [W; 3], state: W, earlier: Option<Earlier>) -> Result<Self> {
        let [files, tensors, metadata] = outputs;
        let file = |table, out| TableFile::new(table, out).map_err(failed);
        let [of_files, of_tensors, of_metadata] = &TABLES;
        Ok(Self {
            tables: [
                file(of_files, files)?,
                file(of_tensors, tensors)?,
                file(of_metadata, metadata)?,
            ],
            state: Lines::new(Digest::new(FrameEncoder::new(state)), earlier),
        })
    }
}

impl<W: Write + Send> Store for Files<W> {
    fn write(&mut self, rows: FileRows) -> Result<()> {
        self.state.write_rows(&rows)?;
        let path = Bytes::from(rows.path);
        let [files, tensors, metadata] = &mut self.tables;
        files.push(&path, rows.file).map_err(failed)?;
        rows.tensors.into_iter().try_for_each(|row| tensors.push(&path, row)).map_err(failed)?;
        rows.entries.into_iter().try_for_each(|row| metadata.push(&path, row)).map_err(failed)
    }

    fn keep(&mut self, number: usize, file: &Candidate) -> Result<(u64, u64)> {
        let path = Bytes::copy_from_slice(file.path.as_bytes());
        self.state.copy(number, &mut |line| {
            let refused = |why| Error::Previous(format!("{}: {why}", file.path));
            let (table, row) = ndjson::parse_row(line, file.modified).map_err(refused)?;
            match self.tables.get_mut(table) {
                Some(table) => table.push(&path, row).map_err(failed),
                None => Ok(()),
            }
        })
    }

    fn finish(mut self: Box<Self>) -> Result<()> {
        self.state.flush()?;
        let run = format!("{:016x}", self.state.get_ref().digest);
        self.tables.into_iter().try_for_each(|table| table.finish(&run)).map_err(failed)
    }
}

/// Returns the I/O error inside an error of the format as such, and any other as text.
fn failed(error: ParquetError) -> Error {
    match error {
        ParquetError::External(cause) => match cause.downcast() {
            Ok(error) => Error::Write(*error),
            Err(cause) => Error::Encode(cause.to_string()),
        },
        ParquetError::General(text) => Error::Encode(text),
        error => Error::Encode(error.to_string()),
    }
}

/// Computes the FNV-1a hash of what is written: the same in every version of this program.
struct Digest<W> {
    out: W,
    digest: u64,
}

impl<W> Digest<W> {
    fn new(out: W) -> Self {
        Self { out, digest: 0xcbf2_9ce4_8422_2325 }
    }
}

impl<W: Write> Write for Digest<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let len = self.out.write(bytes)?;
        for byte in bytes.iter().take(len) {
            self.digest = (self.digest ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
        Ok(len)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// Writes one table.
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
        // Rows share the path in memory, but the encoder may copy it for each.
        self.bytes = self.bytes.saturating_add(path.len());
        for (column, cell) in columns.zip(row) {
            self.bytes = self.bytes.saturating_add(cell.weight());
            column.push(cell);
        }
        self.rows += 1;
        if self.rows >= GROUP_ROWS || self.bytes >= GROUP_BYTES { self.end_group() } else { Ok(()) }
    }

    /// Writes the collected rows as a row group.
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

/// The cells of a column in a row group, as the format's writer takes them.
struct ColumnCells {
    values: Values,
    optional: bool,
    /// The definition levels: 1 for a cell of an optional column or an element of a list that is
    /// present, 0 for a null or an empty list.
    defined: Vec<i16>,
    /// The repetition levels of a list: 0 for its first element, 1 for the others.
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

    /// Adds a cell. A cell of another kind is a null, which the format's writer refuses in a required
    /// column.
    fn push(&mut self, cell: Cell) {
        let is_present = match (&mut self.values, cell) {
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
            self.defined.push(i16::from(is_present));
        }
    }

    fn write(self, writer: &mut SerializedColumnWriter<'_>) -> ParquetResult<()> {
        // The writer refuses levels for a column that has none.
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

fn schema(table: &Table) -> ParquetResult<TypePtr> {
    let fields = table.columns.iter().map(|column| field(column).map(Arc::new));
    let fields = fields.collect::<ParquetResult<_>>()?;
    Ok(Arc::new(Type::group_type_builder(table.name).with_fields(fields).build()?))
}

fn field(column: &Column) -> ParquetResult<Type> {
    let repetition = if column.optional { Repetition::OPTIONAL } else { Repetition::REQUIRED };
    let (physical, logical) = match column.kind {
        ColumnKind::Text => (Physical::BYTE_ARRAY, Some(LogicalType::String)),
        ColumnKind::Integer => (Physical::INT64, None),
        ColumnKind::Float => (Physical::DOUBLE, None),
        ColumnKind::Time => (Physical::INT64, Some(LogicalType::timestamp(true, TimeUnit::MICROS))),
        ColumnKind::Integers => {
            // The specification's three-level list: a repeated group around the element.
            let element = Type::primitive_type_builder("element", Physical::INT64)
                .with_repetition(Repetition::REQUIRED)
                .build()?;
            let list = Type::group_type_builder("list")
                .with_repetition(Repetition::REPEATED)
                .with_fields(vec![Arc::new(element)])
                .build()?;
            return Type::group_type_builder(column.name)
                .with_repetition(repetition)
                .with_logical_type(Some(LogicalType::List))
                .with_fields(vec![Arc::new(list)])
                .build();
        }
    };
    Type::primitive_type_builder(column.name, physical)
        .with_repetition(repetition)
        .with_logical_type(logical)
        .build()
}
