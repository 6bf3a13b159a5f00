//! Reading an earlier index.

use std::collections::HashMap;
use std::sync::Arc;
use std::vec;

use bytes::Bytes;
use ggmill_core::ReadAt;
use parquet::errors::{ParquetError, Result as ParquetResult};
use parquet::file::metadata::RowGroupMetaData;
use parquet::file::reader::{ChunkReader as _, FileReader as _, Length as _};
use parquet::file::serialized_reader::{ReadOptionsBuilder, SerializedFileReader};
use parquet::schema::types::SchemaDescriptor;

use super::pages::{Pages, Source, failed};
use super::schema::{GROUP_BYTES, GROUP_ROWS, ROW_BYTES, schema};
use super::table_file::footer_start;
use super::values::{Levels, read};
use super::{RUN, io_error};
use crate::index::error::{Error, Result};
use crate::index::previous::{KnownFile, Modified, Previous};
use crate::index::table::{Cell, Column, ColumnKind, Row, TABLES, Table};

/// Bytes of the footer of a table, at most. The format's reader takes memory for as many row groups
/// as the footer has bytes. A table of this one has some thousand groups of 32 MB.
const FOOTER_BYTES: u64 = 8 << 20;

/// Of a column with fewer rows than its row group.
const TOO_EARLY: &str = "a column ends too early";

/// The three tables of an earlier index, each read from its start to its end.
pub(crate) struct Earlier {
    tables: [TableRows; 3],
    /// For each file that may be taken from here, the rows of its tensors and entries.
    files: HashMap<usize, [Rows; 2]>,
}

/// Rows of a table.
#[derive(Clone, Copy)]
pub(super) struct Rows {
    first: u64,
    count: u64,
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
        let why = "the tables are not of the same run: the end of one was interrupted, or a table was \
                   replaced";
        return Err(Error::Previous(why.to_owned()));
    }
    let mut rows = TableRows::open(of_files, again)?;
    let (mut known, mut previous) = (HashMap::new(), Previous::default());
    let mut starts = [0u64; 2];
    for number in 0.. {
        let Some((path, row)) = rows.next()? else { break };
        let count = |cell: Option<&Cell>| match cell {
            Some(Cell::Integer(count)) => u64::try_from(*count).ok(),
            _ => None,
        };
        let counts = [count(row.get(3)), count(row.get(4))];
        let [Some(tensors), Some(entries)] = counts else {
            return Err(rows.wrong(&"a count is negative"));
        };
        let places = [(starts[0], tensors), (starts[1], entries)];
        for (start, (_, count)) in starts.iter_mut().zip(places) {
            *start = start.saturating_add(count);
        }
        if let [Cell::Integer(size), Cell::Integer(modified), Cell::Null, ..] = &*row {
            let (size, modified) = (*size, Modified::Microseconds(*modified));
            if previous.insert(path, KnownFile { size, modified, number }) {
                known.insert(number, places.map(|(first, count)| Rows { first, count }));
            }
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
    /// The row of a file, and where those of its tensors and entries are. Numbers ascend.
    pub(super) fn file(&mut self, number: usize) -> Result<(String, Row, [Rows; 2])> {
        let missing = || Error::Previous(format!("file {number} is not in it"));
        let places = *self.files.get(&number).ok_or_else(missing)?;
        let [of_files, ..] = &mut self.tables;
        of_files.skip_to(number as u64)?;
        let (path, row) = of_files.next()?.ok_or_else(missing)?;
        Ok((path, row, places))
    }

    /// Gives each row of a file in a table to `take`; how many there are.
    pub(super) fn rows(
        &mut self,
        table: usize,
        Rows { first, count }: Rows,
        path: &str,
        mut take: impl FnMut(Row) -> Result<()>,
    ) -> Result<u64> {
        let missing = || Error::Previous(format!("table {table} is not in it"));
        let rows = self.tables.get_mut(table).ok_or_else(missing)?;
        rows.skip_to(first)?;
        for _ in 0..count {
            match rows.next()? {
                Some((found, row)) if found == path => take(row)?,
                _ => return Err(rows.wrong(&"the rows of a file are not together")),
            }
        }
        Ok(count)
    }
}

/// A table that is read from its start to its end, a row group at a time.
struct TableRows {
    table: &'static Table,
    source: Arc<dyn ReadAt>,
    reader: SerializedFileReader<Source>,
    run: Option<String>,
    /// The next row group.
    group: usize,
    /// The paths that are left of the last. They are many and few differ, so they share the memory
    /// of the file's.
    paths: vec::IntoIter<Bytes>,
    /// The other cells that are left of it, by columns.
    columns: Vec<vec::IntoIter<Cell>>,
    /// The number of the next row.
    position: u64,
}

impl TableRows {
    fn open(table: &'static Table, source: Arc<dyn ReadAt>) -> Result<Self> {
        let wrong = |error: ParquetError| wrong(table, &message(error));
        let of_reader = Source(Arc::clone(&source));
        check_footer(table, &of_reader).map_err(wrong)?;
        let expected = SchemaDescriptor::new(schema(table).map_err(wrong)?);
        let options = ReadOptionsBuilder::new().with_parquet_schema(Arc::new(expected)).build();
        let reader = SerializedFileReader::new_with_options(of_reader, options).map_err(wrong)?;
        check_columns(reader.metadata().row_groups()).map_err(wrong)?;
        let metadata = reader.metadata().file_metadata();
        let entries = metadata.key_value_metadata();
        let run = entries.and_then(|entries| entries.iter().find(|entry| entry.key == RUN));
        let run = run.and_then(|entry| entry.value.clone());
        let (paths, columns) = (Vec::new().into_iter(), Vec::new());
        Ok(Self { table, source, reader, run, group: 0, paths, columns, position: 0 })
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
        let path = loop {
            if let Some(path) = self.paths.next() {
                break path;
            }
            if self.group >= self.reader.num_row_groups() {
                return Ok(None);
            }
            let (table, group) = (self.table, self.group);
            (self.paths, self.columns) =
                self.decode(group).map_err(|error| wrong(table, &message(error)))?;
            self.group += 1;
        };
        let row: Row = self.columns.iter_mut().map_while(Iterator::next).collect();
        self.position = self.position.saturating_add(1);
        match str::from_utf8(&path) {
            Ok(path) if row.len() + 1 == self.table.columns.len() => {
                Ok(Some((path.to_owned(), row)))
            }
            Ok(_) => Err(self.wrong(&"a row lacks cells")),
            Err(_) => Err(self.wrong(&"a string is not valid UTF-8")),
        }
    }

    /// Goes on to the row of this number. Row groups on the way are not decoded.
    fn skip_to(&mut self, row: u64) -> Result<()> {
        while self.position < row {
            let left = self.paths.len() as u64;
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
            if let Some(last) = usize::try_from(step).ok().and_then(|step| step.checked_sub(1)) {
                self.paths.nth(last);
                self.columns.iter_mut().for_each(|column| drop(column.nth(last)));
            }
            self.position = self.position.saturating_add(step);
        }
        Ok(())
    }

    /// The paths and the other cells of a row group, by columns.
    fn decode(&self, group: usize) -> ParquetResult<Group> {
        let group = self.reader.get_row_group(group)?;
        let rows = usize::try_from(group.metadata().num_rows()).unwrap_or(usize::MAX);
        if rows > GROUP_ROWS {
            let why = format!("a row group of {rows} rows, expected at most {GROUP_ROWS}");
            return Err(ParquetError::General(why));
        }
        let pages = |number: usize, elements: usize| {
            let column = group.metadata().columns().get(number);
            let column = column.ok_or_else(|| failed("a column is missing"))?;
            Pages::new(&self.source, column, rows, rows.saturating_add(elements))
        };
        let mut room = Room(GROUP_BYTES + ROW_BYTES);
        let mut paths = Vec::with_capacity(rows);
        read(pages(0, 0)?, Levels::None, |_, path: Option<Bytes>| {
            room.take(path.as_ref().map_or(0, Bytes::len), 1)?;
            paths.extend(path);
            Ok(())
        })?;
        if paths.len() < rows {
            return Err(failed(TOO_EARLY));
        }
        let mut room = Room(GROUP_BYTES + ROW_BYTES);
        let columns = self.table.columns.iter().enumerate().skip(1);
        let columns = columns.map(|(number, column)| {
            let is_list = column.kind == ColumnKind::Integers;
            let elements = if is_list { room.0 / size_of::<i64>() } else { 0 };
            let cells = Cells::read(pages(number, elements)?, column, rows, &mut room)?;
            Ok(cells.into_iter())
        });
        Ok((paths.into_iter(), columns.collect::<ParquetResult<_>>()?))
    }
}

/// Fails where columns are not one after the other, as they are written. Row groups that share pages
/// would take more time than the file has bytes for.
fn check_columns(groups: &[RowGroupMetaData]) -> ParquetResult<()> {
    let mut end = 0;
    for column in groups.iter().flat_map(RowGroupMetaData::columns) {
        let (data, size) = (column.data_page_offset(), column.compressed_size());
        let start = column.dictionary_page_offset().map_or(data, |offset| offset.min(data));
        if start < 0 || size < 0 {
            return Err(failed("a column begins or ends before the file"));
        }
        let next = start.checked_add(size);
        match next.filter(|_| start >= end) {
            Some(next) => end = next,
            None => return Err(failed("its columns overlap")),
        }
    }
    Ok(())
}

/// Fails where the footer of a table does not begin with its columns, as they are written here. The
/// format's reader takes memory for as many columns as a footer says, and stops the program over
/// those that are nested too deep. Columns that come later in the footer are skipped, as the reader
/// is given ours.
fn check_footer(table: &'static Table, source: &Source) -> ParquetResult<()> {
    let end = source.len().checked_sub(8).ok_or_else(|| failed("it is too short"))?;
    let tail = source.get_bytes(end, 8)?;
    let Some([a, b, c, d, b'P', b'A', b'R', b'1']) = tail.first_chunk::<8>() else {
        return Err(failed("its end is not that of a Parquet file"));
    };
    let len = u64::from(u32::from_le_bytes([*a, *b, *c, *d]));
    if len > FOOTER_BYTES {
        return Err(failed("its footer is too long"));
    }
    let start = end.checked_sub(len).ok_or_else(|| failed("its footer begins before it"))?;
    let expected = footer_start(table)?;
    if len < expected.len() as u64 || source.get_bytes(start, expected.len())? != expected {
        return Err(failed("its columns are different"));
    }
    Ok(())
}

/// The paths of rows, and their other cells by columns.
type Group = (vec::IntoIter<Bytes>, Vec<vec::IntoIter<Cell>>);

fn wrong(table: &Table, why: &dyn std::fmt::Display) -> Error {
    Error::Previous(format!("{}: {why}", table.name))
}

fn message(error: ParquetError) -> String {
    io_error(error).map_or_else(|text| text, |error| error.to_string())
}

/// How much memory the cells of a row group may still take. Rows share a text in the file, and do
/// not once they are decoded.
struct Room(usize);

impl Room {
    /// Takes elements of some bytes each from what is left.
    fn take(&mut self, count: usize, bytes: usize) -> ParquetResult<()> {
        let left = count.checked_mul(bytes).and_then(|bytes| self.0.checked_sub(bytes));
        self.0 = left.ok_or_else(|| failed("a row group takes too much memory"))?;
        Ok(())
    }
}

/// The cells of a column, one for each row.
struct Cells {
    cells: Vec<Cell>,
    rows: usize,
}

impl Cells {
    /// The cells of a column with these pages.
    fn read(
        pages: Pages,
        column: &Column,
        rows: usize,
        room: &mut Room,
    ) -> ParquetResult<Vec<Cell>> {
        room.take(rows, Cell::OWN)?;
        let levels = Levels::of(column);
        let mut cells = Self { cells: Vec::with_capacity(rows), rows };
        match column.kind {
            ColumnKind::Text => {
                read(pages, levels, |_, text| cells.push(text_cell(text.as_ref(), room)?))
            }
            ColumnKind::Integer | ColumnKind::Time => read(pages, levels, |_, number| {
                cells.push(number.map_or(Cell::Null, Cell::Integer))
            }),
            ColumnKind::Float => {
                read(pages, levels, |_, number| cells.push(number.map_or(Cell::Null, Cell::Float)))
            }
            ColumnKind::Integers => read(pages, levels, |begins, element| {
                room.take(1, size_of::<i64>())?;
                cells.push_element(begins, element)
            }),
        }?;
        if cells.cells.len() < rows {
            return Err(failed(TOO_EARLY));
        }
        Ok(cells.cells)
    }

    fn push(&mut self, cell: Cell) -> ParquetResult<()> {
        if self.cells.len() >= self.rows {
            return Err(failed("a column has more rows than its row group"));
        }
        self.cells.push(cell);
        Ok(())
    }

    /// Adds an element to the last list, or to a new one. An empty list has none.
    fn push_element(&mut self, begins: bool, element: Option<i64>) -> ParquetResult<()> {
        if begins {
            self.push(Cell::Integers(Vec::new()))?;
        }
        let Some(Cell::Integers(list)) = self.cells.last_mut() else {
            return Err(failed("an element is not in a list"));
        };
        list.extend(element);
        Ok(())
    }
}

/// The cell of a text, with memory of its own.
fn text_cell(text: Option<&Bytes>, room: &mut Room) -> ParquetResult<Cell> {
    let Some(text) = text else { return Ok(Cell::Null) };
    room.take(text.len(), 1)?;
    let text = str::from_utf8(text).map_err(|_| failed("a string is not valid UTF-8"))?;
    Ok(Cell::Text(text.to_owned()))
}
