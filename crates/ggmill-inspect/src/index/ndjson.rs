//! Tables as NDJSON: a JSON object on each line.

use std::borrow::Cow;
use std::io::{self, BufRead as _, BufReader, Read as _, Write};
use std::sync::Arc;

use ggmill_core::{ByteSize, ReadAt};
use serde::Deserialize;

use crate::index::error::{Error, Result};
use crate::index::previous::{KnownFile, Modified, Previous};
use crate::index::rows::FileRows;
use crate::index::source::InOrder;
use crate::index::store::Store;
use crate::index::table::{Cell, ColumnKind, FILES, METADATA, Row, TENSORS, Table};
use crate::index::time;

/// Bytes of a line of an earlier index, at most. What is written here is shorter: texts are cut.
const MAX_LINE: u64 = 4 << 20;

/// The lines of an index while they are written.
pub(crate) struct Lines<W> {
    out: W,
    earlier: Earlier,
    line: Vec<u8>,
}

/// An earlier index, and where the lines of each of its files are.
#[derive(Debug, Default)]
pub(crate) struct Earlier {
    source: Option<Arc<dyn ReadAt>>,
    files: Vec<Block>,
}

/// The lines of a file.
#[derive(Debug, Default)]
struct Block {
    start: u64,
    len: u64,
    tensors: u64,
    entries: u64,
}

impl<W: Write> Lines<W> {
    pub(crate) fn new(out: W, earlier: Earlier) -> Self {
        Self { out, earlier, line: Vec::new() }
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
                    write!(line, "\"{}\"", time::text(*time))?;
                }
                Cell::Integer(number) => write!(line, "{number}")?,
                // What is not finite is null, as JSON has no word for it.
                Cell::Float(number) => serde_json::to_writer(&mut *line, number)?,
                Cell::Integers(numbers) => serde_json::to_writer(&mut *line, numbers)?,
            }
        }
        line.extend(b"}\n");
        self.out.write_all(line)
    }
}

impl<W: Write> Store for Lines<W> {
    fn write(&mut self, rows: FileRows) -> Result<()> {
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

    fn keep(&mut self, number: usize) -> Result<(u64, u64)> {
        let missing = || Error::Previous(format!("file {number} is not in the index"));
        let block = self.earlier.files.get(number).ok_or_else(missing)?;
        let source = self.earlier.source.as_ref().ok_or_else(missing)?;
        let mut lines = InOrder::new(Arc::clone(source), block.start).take(block.len);
        let copied = io::copy(&mut lines, &mut self.out)?;
        if copied < block.len {
            return Err(Error::Previous("the index changed while it was being read".to_owned()));
        }
        Ok((block.tensors, block.entries))
    }

    fn finish(mut self: Box<Self>) -> Result<()> {
        Ok(self.out.flush()?)
    }
}

/// What a line must have.
#[derive(Deserialize)]
struct Line<'a> {
    #[serde(borrow)]
    record: Cow<'a, str>,
    #[serde(borrow)]
    path: Cow<'a, str>,
}

/// What the line of a file has besides.
#[derive(Deserialize)]
struct FileLine {
    size: Option<i64>,
    modified: Option<String>,
    error: Option<String>,
    tensor_count: u64,
    metadata_count: u64,
}

/// A file whose lines are being read.
struct Reading {
    path: String,
    file: FileLine,
    block: Block,
}

/// Reads an earlier index: which files it has, and where their lines are. The lines after the last
/// line break belong to no file, nor do those of a file that has not all of its own.
pub(crate) fn earlier(source: Arc<dyn ReadAt>) -> Result<(Earlier, Previous)> {
    let mut input = BufReader::with_capacity(1 << 16, InOrder::new(Arc::clone(&source), 0));
    let mut earlier = Earlier { source: Some(source), files: Vec::new() };
    let (mut previous, mut current) = (Previous::default(), None::<Reading>);
    let (mut line, mut start) = (Vec::new(), 0u64);
    for number in 1u64.. {
        line.clear();
        let len = (&mut input).take(MAX_LINE).read_until(b'\n', &mut line)? as u64;
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
            finish(current.take(), &mut earlier, &mut previous);
            let file = serde_json::from_slice(&line).map_err(|error| refused(&error))?;
            let block = Block { start, len, ..Block::default() };
            current = Some(Reading { path: found.path.into_owned(), file, block });
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
    finish(current.take(), &mut earlier, &mut previous);
    Ok((earlier, previous))
}

/// Makes a file known, unless it had an error or has not all of its lines.
fn finish(read: Option<Reading>, earlier: &mut Earlier, previous: &mut Previous) {
    let Some(Reading { path, file, block }) = read else { return };
    let is_whole = (block.tensors, block.entries) == (file.tensor_count, file.metadata_count);
    let number = earlier.files.len();
    earlier.files.push(block);
    if let (Some(size), Some(modified), None, true) =
        (file.size, file.modified, file.error, is_whole)
    {
        let modified = Modified::Text(modified);
        previous.insert(path, KnownFile { size, modified, number });
    }
}
