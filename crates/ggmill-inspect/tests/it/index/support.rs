//! Helpers of the tests of indexes.

use std::num::NonZeroUsize;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use ggmill_core::{Model, ReadAt};
use ggmill_inspect::index::{Candidate, IndexOptions, IndexOutcome, Result, TABLES, Tables, index};
use parquet::file::reader::FileReader as _;
use parquet::file::serialized_reader::SerializedFileReader;
use parquet::record::Field;
use serde_json::{Map, Value as Json, json};

/// A candidate and the bytes of its file.
pub(crate) type File = (Candidate, Vec<u8>);

pub(crate) fn file(name: &str, bytes: Vec<u8>, modified: i64) -> File {
    (Candidate::new(name).with_state(Some(bytes.len() as u64), Some(modified)), bytes)
}

/// The output, its outcome, and the number of files that were opened.
pub(crate) type Made<T> = Result<(T, IndexOutcome, usize)>;

fn run(files: &[File], tables: Tables<'_>, threads: usize) -> Made<()> {
    let candidates: Vec<_> = files.iter().map(|(candidate, _)| candidate.clone()).collect();
    let opened = AtomicUsize::new(0);
    let open = |number: usize| {
        opened.fetch_add(1, Ordering::Relaxed);
        Model::open_damaged(files[number].1.clone()).map_err(|error| error.to_string())
    };
    let options = IndexOptions::default().with_threads(NonZeroUsize::new(threads).unwrap());
    let outcome =
        index(&candidates, &open, tables, &options, &mut |_, _| ControlFlow::Continue(()))?;
    Ok(((), outcome, opened.into_inner()))
}

pub(crate) fn source(bytes: &[u8]) -> Arc<dyn ReadAt> {
    Arc::new(bytes.to_vec())
}

pub(crate) fn ndjson(files: &[File], previous: Option<&[u8]>, threads: usize) -> Made<Vec<u8>> {
    let mut out = Vec::new();
    let tables = Tables::ndjson(&mut out, previous.map(source))?;
    let ((), outcome, opened) = run(files, tables, threads)?;
    Ok((out, outcome, opened))
}

/// Returns the three tables and the state.
pub(crate) fn parquet(
    files: &[File],
    previous: Option<&[u8]>,
    threads: usize,
) -> Made<[Vec<u8>; 4]> {
    let mut out = [const { Vec::new() }; 4];
    let [files_out, tensors, metadata, state] = out.each_mut();
    let tables = Tables::parquet([files_out, tensors, metadata], state, previous.map(source))?;
    let ((), outcome, opened) = run(files, tables, threads)?;
    Ok((out, outcome, opened))
}

/// Returns the rows of NDJSON by table.
pub(crate) fn ndjson_rows(text: &[u8]) -> [Vec<Json>; 3] {
    let mut rows = [const { Vec::new() }; 3];
    for line in str::from_utf8(text).unwrap().lines() {
        let mut row: Map<String, Json> = serde_json::from_str(line).unwrap();
        let record = row.remove("record").unwrap();
        let table = TABLES.iter().position(|table| record == table.record).unwrap();
        rows[table].push(row.into());
    }
    rows
}

/// Reads the rows of a Parquet file with the record reader of the crate `parquet`.
pub(crate) fn parquet_rows(table: &[u8]) -> Vec<Json> {
    let reader = SerializedFileReader::new(bytes::Bytes::copy_from_slice(table)).unwrap();
    let rows = reader.get_row_iter(None).unwrap();
    rows.map(|row| {
        let row = row.unwrap();
        let cells = row.get_column_iter().map(|(name, field)| (name.clone(), cell(field)));
        Json::Object(cells.collect())
    })
    .collect()
}

/// Returns a cell as in NDJSON, except that times are microseconds.
fn cell(field: &Field) -> Json {
    match field {
        Field::Null => Json::Null,
        Field::Str(text) => json!(text),
        Field::Long(number) | Field::TimestampMicros(number) => json!(number),
        Field::Double(number) => json!(number),
        Field::ListInternal(list) => list.elements().iter().map(cell).collect(),
        other => panic!("{other:?}"),
    }
}
