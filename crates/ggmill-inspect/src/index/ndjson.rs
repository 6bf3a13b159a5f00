//! Tables as NDJSON, a JSON object on each line, and reading them back for an update.

use std::borrow::Cow;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::io::{self, BufRead as _, BufReader, Read, Write};
use std::sync::Arc;

use ggmill_core::{ByteSize, ReadAt};
use serde::Deserialize;

use super::rows::FileRows;
use super::table::{Cell, ColumnKind, FILES, METADATA, Row, TENSORS, Table, time_text};
use super::{Candidate, Error, Result, Store};

/// Bytes of a line of an earlier index, at most. Lines written here are shorter, as texts are cut.
const MAX_LINE: u64 = 4 << 20;
const BUFFER: usize = 1 << 16;

/// Writes rows as lines.
pub(super) struct Lines<W> {
    out: W,
    earlier: Option<Earlier>,
    line: Vec<u8>,
}

impl<W: Write> Lines<W> {
    pub(super) fn new(out: W, earlier: Option<Earlier>) -> Self {
        Self { out, earlier, line: Vec::new() }
    }

    #[cfg(feature = "parquet")]
    pub(super) fn get_ref(&self) -> &W {
        &self.out
    }

    pub(super) fn write_rows(&mut self, rows: &FileRows) -> Result<()> {
        let path = ggmill_text::json::to_string(&rows.path)
            .map_err(|error| Error::Encode(error.to_string()))?;
        self.write_row(&FILES, &path, &rows.file)?;
        for row in &rows.entries {
            self.write_row(&METADATA, &path, row)?;
        }
        for row in &rows.tensors {
            self.write_row(&TENSORS, &path, row)?;
        }
        Ok(())
    }

    fn write_row(&mut self, table: &Table, path: &str, row: &Row) -> io::Result<()> {
        let line = &mut self.line;
        line.clear();
        write!(line, "{{\"record\":\"{}\",\"path\":{path}", table.record)?;
        for (column, cell) in table.columns.iter().skip(1).zip(row) {
            write!(line, ",\"{}\":", column.name)?;
            match cell {
                Cell::Null => line.extend(b"null"),
                Cell::Text(text) => ggmill_text::json::write(line, text)?,
                Cell::Integer(time) if column.kind == ColumnKind::Time => {
                    write!(line, "\"{}\"", time_text(*time))?;
                }
                Cell::Integer(number) => write!(line, "{number}")?,
                // JSON has no infinity and no NaN: serde_json writes null.
                Cell::Float(number) => serde_json::to_writer(&mut *line, number)?,
                Cell::Integers(numbers) => serde_json::to_writer(&mut *line, numbers)?,
            }
        }
        line.extend(b"}\n");
        self.out.write_all(line)
    }

    /// Copies the lines of file `number` of the earlier index and passes each to `take`. Numbers must
    /// ascend. Returns the numbers of tensors and metadata entries.
    pub(super) fn copy(
        &mut self,
        number: usize,
        take: &mut dyn FnMut(&[u8]) -> Result<()>,
    ) -> Result<(u64, u64)> {
        let missing = || Error::Previous(format!("file {number} is not in the index"));
        self.earlier.as_mut().ok_or_else(missing)?.file(number, &mut self.line, &mut |line| {
            self.out.write_all(line)?;
            take(line)
        })
    }

    pub(super) fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

impl<W: Write> Store for Lines<W> {
    fn write(&mut self, rows: FileRows) -> Result<()> {
        self.write_rows(&rows)
    }

    fn keep(&mut self, number: usize, _: &Candidate) -> Result<(u64, u64)> {
        self.copy(number, &mut |_| Ok(()))
    }

    fn finish(mut self: Box<Self>) -> Result<()> {
        Ok(self.flush()?)
    }
}

/// An earlier index, whose files are read in ascending order.
pub(super) struct Earlier {
    input: BufReader<Box<dyn Read>>,
    position: u64,
    files: Vec<Block>,
}

/// Where the lines of a file are, and how many.
#[derive(Debug, Default)]
struct Block {
    start: u64,
    len: u64,
    tensors: u64,
    entries: u64,
}

impl Earlier {
    /// Passes each line of file `number` to `take`, with its line break. Returns the numbers of
    /// tensors and metadata entries.
    fn file(
        &mut self,
        number: usize,
        line: &mut Vec<u8>,
        take: &mut dyn FnMut(&[u8]) -> Result<()>,
    ) -> Result<(u64, u64)> {
        let changed = || Error::Previous("the index changed while it was being read".to_owned());
        let block = self.files.get(number).ok_or_else(changed)?;
        let gap = block.start.checked_sub(self.position).ok_or_else(changed)?;
        let skipped =
            io::copy(&mut (&mut self.input).take(gap), &mut io::sink()).map_err(unread)?;
        if skipped < gap {
            return Err(changed());
        }
        let mut remaining = block.len;
        while remaining > 0 {
            line.clear();
            let limit = remaining.min(MAX_LINE);
            let len = (&mut self.input).take(limit).read_until(b'\n', line).map_err(unread)?;
            if len == 0 {
                return Err(changed());
            }
            remaining = remaining.saturating_sub(len as u64);
            take(line)?;
        }
        self.position = block.start.saturating_add(block.len);
        Ok((block.tensors, block.entries))
    }
}

/// A file of an earlier index whose rows can be copied.
#[derive(Debug)]
struct KnownFile {
    size: i64,
    /// The modification time as the index has it.
    modified: String,
    /// The position among the files of the index.
    number: usize,
}

/// The files of an earlier index by path: those without an error, and the first of each path.
#[derive(Debug, Default)]
pub(super) struct Previous(HashMap<String, KnownFile>);

impl Previous {
    /// Returns for each candidate its number in the earlier index if it is unchanged. Numbers ascend,
    /// as rows are copied in one pass: a file that moved to an earlier position counts as changed.
    pub(super) fn unchanged(&self, files: &[Candidate]) -> Vec<Option<usize>> {
        let mut next = 0;
        let number = |file: &Candidate| {
            let known = self.0.get(&file.path)?;
            let is_unchanged = known.number >= next
                && known.size == i64::try_from(file.size?).ok()?
                && known.modified == time_text(file.modified?);
            if is_unchanged {
                next = known.number.saturating_add(1);
            }
            is_unchanged.then_some(known.number)
        };
        files.iter().map(number).collect()
    }
}

/// The fields that every line must have.
#[derive(Deserialize)]
struct Line<'a> {
    #[serde(borrow)]
    record: Cow<'a, str>,
    #[serde(borrow)]
    path: Cow<'a, str>,
}

/// The fields of the line of a file that an update needs.
#[derive(Deserialize)]
struct FileLine {
    size: Option<i64>,
    modified: Option<String>,
    error: Option<String>,
    tensor_count: u64,
    metadata_count: u64,
}

/// Opens an earlier NDJSON index.
#[expect(clippy::needless_pass_by_value, reason = "the files of both formats are opened alike")]
pub(super) fn open(source: Arc<dyn ReadAt>) -> Result<(Earlier, Previous)> {
    scan(&|| Box::new(Sequential::new(Arc::clone(&source))))
}

/// Scans an earlier index for its files and the places of their lines. `open` is called twice: for
/// this scan and for copying. A line that is cut off at the end is ignored, as are the lines of a file
/// that lacks some.
pub(super) fn scan(open: &dyn Fn() -> Box<dyn Read>) -> Result<(Earlier, Previous)> {
    let mut input = BufReader::with_capacity(BUFFER, open());
    let (mut files, mut previous) = (Vec::new(), Previous::default());
    let mut current = None::<Scanned>;
    let (mut line, mut start) = (Vec::new(), 0u64);
    for number in 1u64.. {
        line.clear();
        let len = (&mut input).take(MAX_LINE).read_until(b'\n', &mut line).map_err(unread)? as u64;
        if line.pop().is_none_or(|last| last != b'\n') {
            if len == MAX_LINE {
                let why = format!("line {number} is longer than {}", ByteSize::from(MAX_LINE));
                return Err(Error::Previous(why));
            }
            break;
        }
        let refused =
            |why: &dyn std::fmt::Display| Error::Previous(format!("line {number}: {why}"));
        let found: Line<'_> = serde_json::from_slice(&line).map_err(|error| refused(&error))?;
        if found.record == FILES.record {
            if let Some(scanned) = current.take() {
                scanned.finish(&mut files, &mut previous);
            }
            let file = serde_json::from_slice(&line).map_err(|error| refused(&error))?;
            let block = Block { start, len, ..Block::default() };
            current = Some(Scanned { path: found.path.into_owned(), file, block });
        } else {
            let Some(current) = current.as_mut().filter(|current| current.path == found.path)
            else {
                return Err(refused(&"the line of the file that it belongs to is missing"));
            };
            let count = match &*found.record {
                record if record == TENSORS.record => &mut current.block.tensors,
                record if record == METADATA.record => &mut current.block.entries,
                _ => return Err(refused(&"unknown record")),
            };
            *count = count.saturating_add(1);
            current.block.len = current.block.len.saturating_add(len);
        }
        start = start.saturating_add(len);
    }
    if let Some(scanned) = current {
        scanned.finish(&mut files, &mut previous);
    }
    let input = BufReader::with_capacity(BUFFER, open());
    Ok((Earlier { input, position: 0, files }, previous))
}

/// A file whose lines are being scanned.
struct Scanned {
    path: String,
    file: FileLine,
    block: Block,
}

impl Scanned {
    /// Adds the file to `previous`, unless it has an error or lacks lines.
    fn finish(self, files: &mut Vec<Block>, previous: &mut Previous) {
        let Self { path, file, block } = self;
        let is_complete =
            (block.tensors, block.entries) == (file.tensor_count, file.metadata_count);
        let number = files.len();
        files.push(block);
        if let (Some(size), Some(modified), None, true) =
            (file.size, file.modified, file.error, is_complete)
            && let Entry::Vacant(new) = previous.0.entry(path)
        {
            new.insert(KnownFile { size, modified, number });
        }
    }
}

/// Parses a line into the number of its table and its row. The modification time of a file is
/// `modified`, which is known to equal the text in the line.
#[cfg(feature = "parquet")]
pub(super) fn parse_row(
    line: &[u8],
    modified: Option<i64>,
) -> std::result::Result<(usize, Row), String> {
    use super::table::TABLES;
    use serde_json::{Map, Value as Json};
    let mut cells: Map<String, Json> =
        serde_json::from_slice(line).map_err(|error| error.to_string())?;
    let record = cells.remove("record").unwrap_or_default();
    let number = TABLES.iter().position(|table| record == table.record);
    let number = number.ok_or("unknown record")?;
    let mut row = Row::new();
    for column in TABLES.get(number).into_iter().flat_map(|table| table.columns.iter().skip(1)) {
        let cell = match (column.kind, cells.remove(column.name)) {
            (_, Some(Json::Null)) if column.optional => Some(Cell::Null),
            (ColumnKind::Text, Some(Json::String(text))) => Some(Cell::Text(text)),
            (ColumnKind::Integer, Some(number)) => number.as_i64().map(Cell::Integer),
            (ColumnKind::Float, Some(number)) => number.as_f64().map(Cell::Float),
            (ColumnKind::Time, Some(Json::String(_))) => modified.map(Cell::Integer),
            (ColumnKind::Integers, Some(Json::Array(numbers))) => {
                let numbers: Option<Vec<i64>> = numbers.iter().map(Json::as_i64).collect();
                numbers.map(Cell::Integers)
            }
            _ => None,
        };
        row.push(cell.ok_or_else(|| {
            format!("the column `{}` is missing or of another type", column.name)
        })?);
    }
    // JSON has null for a float that is not finite; its text is the value.
    if let [_, _, Cell::Text(kind), _, _, Cell::Text(text), _, float @ Cell::Null] = &mut *row
        && matches!(&**kind, "f32" | "f64")
    {
        *float = text.parse().map_or(Cell::Null, Cell::Float);
    }
    Ok((number, row))
}

#[expect(clippy::needless_pass_by_value, reason = "it is an argument of `map_err`")]
fn unread(error: io::Error) -> Error {
    Error::Previous(error.to_string())
}

/// Reads a source of bytes by position from start to end.
pub(super) struct Sequential {
    source: Arc<dyn ReadAt>,
    position: u64,
}

impl Sequential {
    pub(super) fn new(source: Arc<dyn ReadAt>) -> Self {
        Self { source, position: 0 }
    }
}

impl Read for Sequential {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let remaining = self.source.len().saturating_sub(self.position);
        let len = usize::try_from(remaining).unwrap_or(usize::MAX).min(out.len());
        let out = out.get_mut(..len).unwrap_or_default();
        self.source
            .read_at(self.position, out)
            .map_err(|error| io::Error::other(error.to_string()))?;
        self.position = self.position.saturating_add(len as u64);
        Ok(len)
    }
}
