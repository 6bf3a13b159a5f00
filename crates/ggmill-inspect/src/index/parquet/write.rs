//! Writing the tables.

use std::io::Write;

use bytes::Bytes;
use parquet::errors::ParquetError;

use super::earlier::Earlier;
use super::io_error;
use super::table_file::TableFile;
use crate::index::error::{Error, Result};
use crate::index::rows::FileRows;
use crate::index::store::Store;
use crate::index::table::{Cell, Row, TABLES};

/// The three files while they are written.
pub(crate) struct Files<W: Write + Send> {
    tables: [TableFile<W>; 3],
    earlier: Option<Earlier>,
    /// A digest of all rows, which tells the tables of one run.
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

    /// Begins the rows of the file of this path.
    fn begin(&mut self, path: String) -> Bytes {
        self.run = digest(self.run, path.as_bytes());
        path.into_bytes().into()
    }

    /// Adds a row to a table.
    fn push(&mut self, table: usize, path: &Bytes, row: Row) -> Result<()> {
        self.run = row.iter().fold(self.run, digest_of_cell);
        match self.tables.get_mut(table) {
            Some(table) => table.push(path, row).map_err(failed),
            None => Err(Error::Encode(format!("there is no table {table}"))),
        }
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

/// The digest with that of a cell: its kind, how long it is where that is not one length, and what
/// it has.
fn digest_of_cell(run: u64, cell: &Cell) -> u64 {
    let of_content =
        |kind: u8, len: usize| digest(digest(run, &[kind]), &(len as u64).to_le_bytes());
    match cell {
        Cell::Null => digest(run, &[0]),
        Cell::Text(text) => digest(of_content(1, text.len()), text.as_bytes()),
        Cell::Integer(number) => digest(digest(run, &[2]), &number.to_le_bytes()),
        Cell::Float(number) => digest(digest(run, &[3]), &number.to_bits().to_le_bytes()),
        Cell::Integers(numbers) => numbers
            .iter()
            .fold(of_content(4, numbers.len()), |run, number| digest(run, &number.to_le_bytes())),
    }
}

impl<W: Write + Send> Store for Files<W> {
    fn write(&mut self, rows: FileRows) -> Result<()> {
        let path = self.begin(rows.path);
        self.push(0, &path, rows.file)?;
        rows.tensors.into_iter().try_for_each(|row| self.push(1, &path, row))?;
        rows.entries.into_iter().try_for_each(|row| self.push(2, &path, row))
    }

    fn keep(&mut self, number: usize) -> Result<(u64, u64)> {
        let missing = || Error::Previous(format!("file {number} is not in it"));
        let mut earlier = self.earlier.take().ok_or_else(missing)?;
        let (name, row, [tensors, entries]) = earlier.file(number)?;
        let path = self.begin(name.clone());
        self.push(0, &path, row)?;
        // Row by row: how many they are is what the earlier index says.
        let tensors = earlier.rows(1, tensors, &name, |row| self.push(1, &path, row))?;
        let entries = earlier.rows(2, entries, &name, |row| self.push(2, &path, row))?;
        self.earlier = Some(earlier);
        Ok((tensors, entries))
    }

    fn finish(self: Box<Self>) -> Result<()> {
        let run = format!("{:016x}", self.run);
        self.tables.into_iter().try_for_each(|table| table.finish(&run)).map_err(failed)
    }
}
