//! Compares the Parquet files of the bundled models with what DuckDB reads from them, recorded by
//! `cargo xtask peers index --record`.

use ggmill_testdata::{REAL_GGUF, real};
use serde_json::Value as Json;

use crate::index::support::{File, file, parquet, parquet_rows};

/// Lines of the name of a table and a row of it, as DuckDB reads them.
const GOLDEN: &str = include_str!("../../golden/duckdb.jsonl");

/// Compares numbers by value: `1.0` equals `1`.
fn same(ours: &Json, theirs: &Json) -> bool {
    match (ours, theirs) {
        (Json::Array(ours), Json::Array(theirs)) => {
            ours.len() == theirs.len() && ours.iter().zip(theirs).all(|(a, b)| same(a, b))
        }
        (Json::Number(_), Json::Number(_)) => ours.as_f64() == theirs.as_f64(),
        _ => ours == theirs,
    }
}

#[test]
fn parquet_is_what_duckdb_reads() {
    let files = REAL_GGUF.map(|name| file(name, std::fs::read(real(name)).unwrap(), 0));
    let files: &[File] = &files;
    let (tables, ..) = parquet(files, None, 1).unwrap();
    let names = ["files", "tensors", "metadata"];
    let rows = names.iter().zip(&tables).flat_map(|(name, table)| {
        parquet_rows(table).into_iter().map(|row| ((*name).to_owned(), row))
    });
    let mut golden =
        GOLDEN.lines().map(|line| serde_json::from_str::<(String, Json)>(line).unwrap());
    for (table, mut row) in rows {
        row.as_object_mut().unwrap().remove("modified");
        let (of, expected) = golden.next().unwrap();
        let (ours, theirs) = (row.as_object().unwrap(), expected.as_object().unwrap());
        let is_same = ours.len() == theirs.len()
            && ours.iter().all(|(name, cell)| theirs.get(name).is_some_and(|it| same(cell, it)));
        assert!(table == of && is_same, "{table}: {row}\n{of}: {expected}");
    }
    assert!(golden.next().is_none());
}
