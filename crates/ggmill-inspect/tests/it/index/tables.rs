//! The rows of the tables, which are the same in all formats.

use std::io::{self, Write};
use std::ops::ControlFlow;

use ggmill_core::{Builder, GgmlType, MetadataBuf, Model, Shape};
use ggmill_inspect::index::{ColumnKind, Error, Fault, IndexOptions, TABLES, Tables, index};
use ggmill_testdata::{REAL_GGUF, corpus, real};
use serde_json::{Value as Json, json};

use crate::index::support::{File, file, ndjson, ndjson_rows, parquet, parquet_rows};

/// Returns every file of the corpus, valid or broken, and the real files.
pub(crate) fn all_files() -> Vec<File> {
    let mut files: Vec<File> = corpus::all()
        .into_iter()
        .zip(0..)
        .map(|(case, number)| file(&format!("{number:03}-{}", case.name), case.bytes, number))
        .collect();
    let real = REAL_GGUF.map(|name| file(name, std::fs::read(real(name)).unwrap(), 7));
    files.extend(real);
    files
}

/// Returns small models that differ in sizes, counts and values.
pub(crate) fn generated(count: u64) -> Vec<File> {
    (0..count)
        .map(|number| {
            let mut metadata = MetadataBuf::new();
            metadata.set("general.architecture", "llama");
            metadata.set("general.name", &*format!("model {number}"));
            metadata.set("llama.block_count", u32::try_from(number % 80).unwrap());
            for key in 0..number % 7 {
                metadata.set(format!("x.{key}"), key);
            }
            let tensors =
                (0..number % 11).fold(Builder::new().metadata(metadata), |file, tensor| {
                    let shape = Shape::new(&[32 * (tensor + 1), number % 4 + 1]).unwrap();
                    file.tensor(format!("blk.{tensor}.weight"), GgmlType::Q8_0, shape)
                });
            let plan = tensors.plan().unwrap();
            let mut bytes = plan.header().to_vec();
            bytes.resize(usize::try_from(plan.total_len()).unwrap(), 0);
            file(&format!("{number:05}.gguf"), bytes, 1_700_000_000_000_000)
        })
        .collect()
}

#[test]
fn a_row_has_the_columns_of_its_table_and_cells_of_their_kinds() {
    let (text, ..) = ndjson(&all_files(), None, 2).unwrap();
    for (table, rows) in TABLES.iter().zip(ndjson_rows(&text)) {
        assert!(!rows.is_empty());
        for row in rows {
            let row = row.as_object().unwrap();
            assert_eq!(row.len(), table.columns.len());
            for column in table.columns {
                let cell = &row[column.name];
                let fits = match column.kind {
                    ColumnKind::Text | ColumnKind::Time => cell.is_string(),
                    ColumnKind::Integer => cell.is_i64(),
                    ColumnKind::Float => cell.is_number(),
                    ColumnKind::Integers => {
                        cell.as_array().is_some_and(|list| list.iter().all(Json::is_i64))
                    }
                    kind => panic!("{kind:?}"),
                };
                assert!(fits || column.optional && cell.is_null(), "{}: {cell}", column.name);
            }
        }
    }
}

#[test]
fn rows_have_the_counts_and_errors_of_the_files() {
    let files = all_files();
    let (text, outcome, opened) = ndjson(&files, None, 3).unwrap();
    let [rows, tensors, metadata] = ndjson_rows(&text);
    assert_eq!((opened, rows.len()), (files.len(), files.len()));
    let (mut faults, mut counts) = (Vec::new(), (0, 0));
    for (number, ((candidate, bytes), row)) in files.iter().zip(&rows).enumerate() {
        assert_eq!(row["path"], *candidate.path);
        assert_eq!(row["size"], bytes.len());
        let (error, tensors, entries) = match Model::open_damaged(bytes.clone()) {
            Err(error) => (Some(error.to_string()), 0, 0),
            Ok(model) => (
                model.faults().next().map(ToString::to_string),
                model.tensors().len(),
                model.metadata().len(),
            ),
        };
        faults.extend(error.iter().map(|error| (number, error.clone())));
        counts = (counts.0 + tensors, counts.1 + entries);
        assert_eq!(row["error"].as_str(), error.as_deref(), "{}", candidate.path);
        assert_eq!(
            (&row["tensor_count"], &row["metadata_count"]),
            (&json!(tensors), &json!(entries))
        );
    }
    let broken = faults.len() as u64;
    assert!(broken > 50 && broken < outcome.files);
    assert_eq!((tensors.len(), metadata.len()), counts);
    assert_eq!(outcome.broken, broken);
    faults.truncate(Fault::MOST);
    let found = outcome.faults.into_iter().map(|found| (found.file, found.reason));
    assert_eq!(found.collect::<Vec<_>>(), faults);
    assert_eq!((outcome.tensors, outcome.entries), (counts.0 as u64, counts.1 as u64));
}

/// Removes the times, which are numbers in Parquet.
fn without_times(mut rows: Vec<Json>) -> Vec<Json> {
    rows.iter_mut().filter_map(Json::as_object_mut).for_each(|row| {
        row.remove("modified");
    });
    rows
}

#[test]
fn parquet_read_back_has_the_rows_of_ndjson() {
    for files in [all_files(), generated(500), Vec::new()] {
        let (text, of_text, _) = ndjson(&files, None, 2).unwrap();
        let (tables, of_tables, _) = parquet(&files, None, 2).unwrap();
        assert_eq!(of_text, of_tables);
        for (table, rows) in tables.iter().zip(ndjson_rows(&text)) {
            let mut found = parquet_rows(table);
            // JSON has no NaN and no infinity.
            found.iter_mut().filter_map(|row| row.get_mut("float")).for_each(|float| {
                if float.as_f64().is_some_and(|float| !float.is_finite()) {
                    *float = Json::Null;
                }
            });
            assert!(without_times(found) == without_times(rows));
        }
    }
}

#[test]
fn the_tables_do_not_depend_on_the_number_of_threads() {
    let files = [all_files(), generated(100)].concat();
    let (text, tables) = (ndjson(&files, None, 1).unwrap().0, parquet(&files, None, 1).unwrap().0);
    for threads in [2, 9] {
        assert!(ndjson(&files, None, threads).unwrap().0 == text);
        assert!(parquet(&files, None, threads).unwrap().0 == tables);
    }
}

#[test]
fn times_are_text_in_ndjson_and_microseconds_in_parquet() {
    let files = [file("x", corpus::valid().swap_remove(0).bytes, 1_700_000_000_123_456)];
    let (text, ..) = ndjson(&files, None, 1).unwrap();
    assert_eq!(ndjson_rows(&text)[0][0]["modified"], "2023-11-14T22:13:20.123456Z");
    let (tables, ..) = parquet(&files, None, 1).unwrap();
    assert_eq!(parquet_rows(&tables[0])[0]["modified"], 1_700_000_000_123_456i64);
}

/// The errors of files are reported even if the index cannot be written.
#[test]
fn an_index_that_cannot_be_written_has_an_outcome() {
    struct Full(usize);
    impl Write for Full {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 = self.0.checked_sub(bytes.len()).ok_or(io::ErrorKind::StorageFull)?;
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let files = all_files();
    let candidates: Vec<_> = files.iter().map(|(candidate, _)| candidate.clone()).collect();
    let open =
        |number: usize| Model::open_damaged(files[number].1.clone()).map_err(|e| e.to_string());
    let (whole, ..) = ndjson(&files, None, 1).unwrap();
    let mut out = Full(whole.len() - 1);
    let tables = Tables::ndjson(&mut out, None).unwrap();
    let unfinished = index(&candidates, &open, tables, &IndexOptions::default(), &mut |_, _| {
        ControlFlow::Continue(())
    });
    let unfinished = unfinished.unwrap_err();
    assert!(matches!(unfinished.error, Error::Write(_)), "{unfinished}");
    assert_eq!(unfinished.outcome.faults.len(), Fault::MOST);
}
