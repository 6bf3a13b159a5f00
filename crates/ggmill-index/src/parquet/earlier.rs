//! Reading an earlier index.

use std::sync::Arc;
use std::vec;

use bytes::Bytes;
use ggmill_core::ReadAt;
use parquet::column::reader::{ColumnReader, ColumnReaderImpl};
use parquet::data_type::DataType;
use parquet::errors::{ParquetError, Result as ParquetResult};
use parquet::file::metadata::RowGroupMetaData;
use parquet::file::reader::{ChunkReader, FileReader as _, Length};
use parquet::file::serialized_reader::SerializedFileReader;
use parquet::schema::types::SchemaDescriptor;

use super::schema::{GROUP_ROWS, schema};
use super::{RUN, io_error};
use crate::error::{Error, Result};
use crate::previous::{KnownFile, Modified, Previous};
use crate::rows::FileRows;
use crate::source::InOrder;
use crate::table::{Cell, Row, TABLES, Table};

/// Bytes of the texts in one column of a row group: 4 KiB for each of as many rows as an index has
/// in a group.
const MAX_TEXT_BYTES: usize = 4096 * GROUP_ROWS;
/// Rows that are decoded at once.
const BATCH_ROWS: usize = 1024;
/// Elements of a list, on average over the rows of a group. A tensor has four dimensions.
const MAX_LIST: usize = 16;

/// The three tables of an earlier index, each read from its start to its end.
pub(crate) struct Earlier {
    tables: [TableRows; 3],
    /// For each file, the first row of its tensors and entries, and how many there are.
    files: Vec<[(u64, usize); 2]>,
}

/// Opens an earlier index. Fails where a table is not that of an index, or not of the same run.
pub(crate) fn earlier(sources: [Arc<dyn ReadAt>; 3]) -> Result<(Earlier, Previous)> {
    let [files, tensors, metadata] = sources;
    let [of_files, of_tensors, of_metadata] = &TABLES;
    let again = Arc::clone(&files);
    let tables = [
        TableRows::open(of_files, files)?,
        TableRows::open(of_tensors, tensors)?,
        TableRows::open(of_metadata, metadata)?,
    ];
    let [run, others @ ..] = tables.each_ref().map(|table| &table.run);
    if run.is_none() || others.iter().any(|other| *other != run) {
        return Err(Error::Previous("the tables are not of the same run".to_owned()));
    }
    let mut rows = TableRows::open(of_files, again)?;
    let (mut known, mut previous) = (Vec::new(), Previous::default());
    let mut starts = [0u64; 2];
    while let Some((path, row)) = rows.next()? {
        let count = |cell: Option<&Cell>| match cell {
            Some(Cell::Integer(count)) => usize::try_from(*count).ok(),
            _ => None,
        };
        let counts = [count(row.get(3)), count(row.get(4))];
        let [Some(tensors), Some(entries)] = counts else {
            return Err(rows.wrong(&"a count is negative"));
        };
        known.push([(starts[0], tensors), (starts[1], entries)]);
        for (start, count) in starts.iter_mut().zip([tensors, entries]) {
            *start = start.saturating_add(count as u64);
        }
        if let [Cell::Integer(size), Cell::Integer(modified), Cell::Null, ..] = &*row {
            let (size, modified) = (*size, Modified::Microseconds(*modified));
            previous.insert(path, KnownFile { size, modified, number: known.len() - 1 });
        }
    }
    let [_, of_tensors, of_metadata] = &tables;
    for (table, expected) in [of_tensors, of_metadata].into_iter().zip(starts) {
        if table.len() != expected {
            let why = format!("{} rows, expected {expected}", table.len());
            return Err(table.wrong(&why));
        }
    }
    Ok((Earlier { tables, files: known }, previous))
}

impl Earlier {
    /// The rows of a file. Numbers ascend.
    pub(super) fn rows(&mut self, number: usize) -> Result<FileRows> {
        let missing = || Error::Previous(format!("file {number} is not in it"));
        let [tensors, entries] = *self.files.get(number).ok_or_else(missing)?;
        let [of_files, of_tensors, of_metadata] = &mut self.tables;
        of_files.skip_to(number as u64)?;
        let (path, file) = of_files.next()?.ok_or_else(missing)?;
        let tensors = of_tensors.of_file(&path, tensors)?;
        let entries = of_metadata.of_file(&path, entries)?;
        Ok(FileRows { path, file, tensors, entries })
    }
}

/// A table that is read from its start to its end, a row group at a time.
struct TableRows {
    table: &'static Table,
    reader: SerializedFileReader<Source>,
    run: Option<String>,
    /// The next row group.
    group: usize,
    /// The cells that are left of the last, by columns.
    columns: Vec<vec::IntoIter<Cell>>,
    /// The number of the next row.
    position: u64,
}

impl TableRows {
    fn open(table: &'static Table, source: Arc<dyn ReadAt>) -> Result<Self> {
        let wrong = |error: ParquetError| wrong(table, &message(error));
        let reader = SerializedFileReader::new(Source(source)).map_err(wrong)?;
        let expected = SchemaDescriptor::new(schema(table).map_err(wrong)?);
        let metadata = reader.metadata().file_metadata();
        let shapes = |schema: &SchemaDescriptor| -> Vec<_> {
            let columns = schema.columns().iter();
            columns
                .map(|column| {
                    let levels = (column.max_def_level(), column.max_rep_level());
                    (column.path().string(), column.physical_type(), levels)
                })
                .collect()
        };
        if shapes(metadata.schema_descr()) != shapes(&expected) {
            return Err(self::wrong(table, &"its columns are others"));
        }
        let entries = metadata.key_value_metadata();
        let run = entries.and_then(|entries| entries.iter().find(|entry| entry.key == RUN));
        let run = run.and_then(|entry| entry.value.clone());
        Ok(Self { table, reader, run, group: 0, columns: Vec::new(), position: 0 })
    }

    fn wrong(&self, why: &dyn std::fmt::Display) -> Error {
        wrong(self.table, why)
    }

    /// How many rows there are.
    fn len(&self) -> u64 {
        u64::try_from(self.reader.metadata().file_metadata().num_rows()).unwrap_or(0)
    }

    /// The next row, with the path of its file.
    fn next(&mut self) -> Result<Option<(String, Row)>> {
        while self.columns.first().is_none_or(|column| column.len() == 0) {
            if self.group >= self.reader.num_row_groups() {
                return Ok(None);
            }
            let (table, group) = (self.table, self.group);
            self.columns = self.decode(group).map_err(|error| wrong(table, &message(error)))?;
            self.group += 1;
        }
        let mut cells = self.columns.iter_mut().map_while(Iterator::next);
        let path = cells.next();
        let row: Row = cells.collect();
        self.position = self.position.saturating_add(1);
        match path {
            Some(Cell::Text(path)) if row.len() + 1 == self.table.columns.len() => {
                Ok(Some((path, row)))
            }
            _ => Err(self.wrong(&"a row lacks cells")),
        }
    }

    /// Goes on to the row of this number. Row groups on the way are not decoded.
    fn skip_to(&mut self, row: u64) -> Result<()> {
        while self.position < row {
            let left = self.columns.first().map_or(0, ExactSizeIterator::len) as u64;
            if left == 0 {
                let groups = self.reader.metadata().row_groups();
                let rows = groups.get(self.group).map(RowGroupMetaData::num_rows);
                let rows = rows.and_then(|rows| u64::try_from(rows).ok());
                if let Some(rows) = rows.filter(|rows| self.position.saturating_add(*rows) <= row) {
                    self.position = self.position.saturating_add(rows);
                    self.group += 1;
                } else if self.next()?.is_none() {
                    return Err(self.wrong(&"it ends too early"));
                }
                continue;
            }
            let step = left.min(row - self.position);
            for column in &mut self.columns {
                if let Some(last) = usize::try_from(step).ok().and_then(|step| step.checked_sub(1))
                {
                    column.nth(last);
                }
            }
            self.position = self.position.saturating_add(step);
        }
        Ok(())
    }

    /// The rows of a file from this one on.
    fn of_file(&mut self, path: &str, (start, count): (u64, usize)) -> Result<Vec<Row>> {
        self.skip_to(start)?;
        let mut rows = Vec::new();
        for _ in 0..count {
            match self.next()? {
                Some((found, row)) if found == path => rows.push(row),
                _ => return Err(self.wrong(&"the rows of a file are not together")),
            }
        }
        Ok(rows)
    }

    /// The cells of a row group, by columns.
    fn decode(&self, group: usize) -> ParquetResult<Vec<vec::IntoIter<Cell>>> {
        let group = self.reader.get_row_group(group)?;
        let rows = usize::try_from(group.metadata().num_rows()).unwrap_or(usize::MAX);
        if rows > GROUP_ROWS {
            let why = format!("a row group of {rows} rows, expected at most {GROUP_ROWS}");
            return Err(ParquetError::General(why));
        }
        (0..self.table.columns.len())
            .map(|column| Ok(cells(group.get_column_reader(column)?, rows)?.into_iter()))
            .collect()
    }
}

fn wrong(table: &Table, why: &dyn std::fmt::Display) -> Error {
    Error::Previous(format!("{}: {why}", table.name))
}

fn message(error: ParquetError) -> String {
    io_error(error).map_or_else(|text| text, |error| error.to_string())
}

/// The cells of a column.
fn cells(reader: ColumnReader, rows: usize) -> ParquetResult<Vec<Cell>> {
    let wrong = |why: &str| ParquetError::General(why.to_owned());
    match reader {
        ColumnReader::ByteArrayColumnReader(reader) => {
            // Rows may share one text in the file, and do not here.
            let mut left = MAX_TEXT_BYTES;
            column(reader, rows, |value| {
                left = left
                    .checked_sub(value.data().len())
                    .ok_or_else(|| wrong("the texts of a row group are too long"))?;
                let text = String::from_utf8(value.data().to_vec());
                text.map(Cell::Text).map_err(|_| wrong("a text is not UTF-8"))
            })
        }
        ColumnReader::Int64ColumnReader(reader) => {
            column(reader, rows, |value| Ok(Cell::Integer(value)))
        }
        ColumnReader::DoubleColumnReader(reader) => {
            column(reader, rows, |value| Ok(Cell::Float(value)))
        }
        _ => Err(wrong("a column of another type")),
    }
}

/// The cells of a column with values of this type; in a list they are its elements.
fn column<T: DataType>(
    mut reader: ColumnReaderImpl<T>,
    rows: usize,
    mut cell: impl FnMut(T::T) -> ParquetResult<Cell>,
) -> ParquetResult<Vec<Cell>> {
    let (mut values, mut defined, mut repeated) = (Vec::new(), Vec::new(), Vec::new());
    let mut read = 0;
    while read < rows {
        let (records, _, _) = reader.read_records(
            (rows - read).min(BATCH_ROWS),
            Some(&mut defined),
            Some(&mut repeated),
            &mut values,
        )?;
        if records == 0 {
            return Err(ParquetError::General("a column ends too early".to_owned()));
        }
        read += records;
        if values.len() > rows.saturating_mul(MAX_LIST) {
            return Err(ParquetError::General("the lists of a column are too long".to_owned()));
        }
    }
    let mut values = values.into_iter();
    let mut next = || {
        let value = values.next();
        cell(value.ok_or_else(|| ParquetError::General("a value is missing".to_owned()))?)
    };
    if !repeated.is_empty() {
        return lists(&defined, &repeated, next);
    }
    if defined.is_empty() {
        return (0..rows).map(|_| next()).collect();
    }
    defined.iter().map(|&level| if level > 0 { next() } else { Ok(Cell::Null) }).collect()
}

/// Elements put together into lists.
fn lists(
    defined: &[i16],
    repeated: &[i16],
    mut next: impl FnMut() -> ParquetResult<Cell>,
) -> ParquetResult<Vec<Cell>> {
    let mut cells = Vec::new();
    for (&level, &repetition) in defined.iter().zip(repeated) {
        if repetition == 0 {
            cells.push(Cell::Integers(Vec::new()));
        }
        if level > 0
            && let (Cell::Integer(element), Some(Cell::Integers(list))) =
                (next()?, cells.last_mut())
        {
            list.push(element);
        }
    }
    Ok(cells)
}

/// A source of bytes by position, as the format's reader wants it.
struct Source(Arc<dyn ReadAt>);

impl Length for Source {
    fn len(&self) -> u64 {
        self.0.len()
    }
}

impl ChunkReader for Source {
    type T = InOrder;

    fn get_read(&self, start: u64) -> ParquetResult<InOrder> {
        Ok(InOrder::new(Arc::clone(&self.0), start))
    }

    fn get_bytes(&self, start: u64, length: usize) -> ParquetResult<Bytes> {
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
