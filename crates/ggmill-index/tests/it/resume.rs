//! An index that is updated is the one that would be made anew.

use std::num::NonZeroUsize;
use std::ops::ControlFlow;

use ggmill_core::Model;
use ggmill_index::{Candidate, Error, IndexOptions, Tables, index};

use crate::support::{File, file, ndjson, ndjson_rows, parquet, source};
use crate::tables::{all_files, generated};

/// The files of a first run, and those of a second: one is gone, one is new, one has another time
/// and other content, one another size.
fn before_and_after() -> (Vec<File>, Vec<File>) {
    let before = generated(60);
    let mut after = before.clone();
    after.remove(50);
    after[40] = file("00040.gguf", before[41].1.clone(), 1_700_000_000_000_001);
    after[30] = file("00030.gguf", before[31].1.clone(), 1_700_000_000_000_000);
    after.insert(20, file("00019x.gguf", before[5].1.clone(), 3));
    assert_ne!(before[30].1.len(), before[31].1.len(), "the size tells");
    (before, after)
}

#[test]
fn only_what_changed_is_opened_and_the_result_is_that_of_a_new_run() {
    let (before, after) = before_and_after();
    for threads in [1, 4] {
        let (text, ..) = ndjson(&before, None, threads).unwrap();
        let (updated, outcome, opened) = ndjson(&after, Some(&text), threads).unwrap();
        assert_eq!((opened, outcome.kept, outcome.files), (3, 57, 60));
        let (fresh, counts, _) = ndjson(&after, None, 1).unwrap();
        assert!(updated == fresh);
        assert_eq!((outcome.tensors, outcome.entries), (counts.tensors, counts.entries));
        let (tables, ..) = parquet(&before, None, threads).unwrap();
        let (updated, outcome, opened) = parquet(&after, Some(&tables), threads).unwrap();
        assert_eq!((opened, outcome.kept, outcome.files), (3, 57, 60));
        assert!(updated == parquet(&after, None, 1).unwrap().0);
    }
}

#[test]
fn what_had_an_error_is_read_again() {
    let files = all_files();
    let (text, first, _) = ndjson(&files, None, 2).unwrap();
    let (updated, outcome, opened) = ndjson(&files, Some(&text), 2).unwrap();
    assert_eq!((opened as u64, outcome.broken), (first.broken, first.broken));
    assert!(updated == text);
    let (tables, ..) = parquet(&files, None, 2).unwrap();
    let (updated, _, opened) = parquet(&files, Some(&tables), 2).unwrap();
    assert!(opened as u64 == first.broken && updated == tables);
}

#[test]
fn a_file_of_unknown_size_or_time_is_read_again() {
    let mut files = generated(5);
    let (text, ..) = ndjson(&files, None, 1).unwrap();
    files[1].0 = Candidate::new("00001.gguf");
    files[3].0.modified = None;
    assert_eq!(ndjson(&files, Some(&text), 1).unwrap().2, 2);
}

/// A run that was broken off in the middle of a line, at any place.
#[test]
fn ndjson_that_is_cut_can_be_continued() {
    let files = generated(12);
    let (text, ..) = ndjson(&files, None, 1).unwrap();
    for end in (0..text.len()).step_by(37) {
        let (updated, outcome, opened) = ndjson(&files, text.get(..end), 1).unwrap();
        assert!(updated == text);
        assert_eq!(outcome.kept + opened as u64, 12);
        // All lines of a file are there before those of the next begin.
        let whole = ndjson_rows(
            &text[..text[..end].iter().rposition(|&b| b == b'\n').map_or(0, |at| at + 1)],
        )[0]
        .len();
        assert!(outcome.kept + 1 >= whole as u64);
    }
}

#[test]
fn what_is_not_an_index_is_refused() {
    let refused = |text: &str| match ndjson(&[], Some(text.as_bytes()), 1) {
        Err(Error::Previous(why)) => why,
        other => panic!("{text}: {other:?}"),
    };
    for text in ["notes\n", "{}\n", "{\"record\":\"file\",\"path\":\"x\"}\n", "\n"] {
        assert!(refused(text).starts_with("line 1: "), "{text}");
    }
    assert_eq!(
        refused("{\"record\":\"tensor\",\"path\":\"x\"}\n"),
        "line 1: the line of its file is missing"
    );
    let long = format!("{}\n", " ".repeat(5 << 20));
    assert!(refused(&long).contains("longer than"));
}

#[test]
fn damaged_tables_are_refused() {
    let files = generated(20);
    let (tables, ..) = parquet(&files, None, 1).unwrap();
    let refused = |tables: &[Vec<u8>; 3]| match parquet(&files, Some(tables), 1) {
        Err(Error::Previous(why)) => why,
        other => panic!("{:?}", other.map(|made| made.1)),
    };
    let [files_table, tensors, metadata] = tables.clone();
    let swapped = [files_table.clone(), metadata.clone(), tensors.clone()];
    assert_eq!(refused(&swapped), "tensors: its columns are others");
    let other = parquet(&generated(19), None, 1).unwrap().0;
    let mixed = [files_table.clone(), other[1].clone(), metadata.clone()];
    assert_eq!(refused(&mixed), "the tables are not of the same run");
    for (table, name) in ["files", "tensors", "metadata"].iter().enumerate() {
        let mut cut = tables.clone();
        for len in [0, 1, 11, cut[table].len() / 2, cut[table].len() - 1] {
            cut[table].truncate(len.min(cut[table].len()));
            assert!(refused(&cut).starts_with(name));
            cut[table].clone_from(&tables[table]);
        }
    }
}

#[test]
fn breaking_off_keeps_what_an_earlier_index_has() {
    let mut files = generated(100);
    let (text, ..) = ndjson(&files, None, 1).unwrap();
    // Every second file is new.
    for (candidate, _) in files.iter_mut().step_by(2) {
        candidate.modified = Some(5);
    }
    let candidates: Vec<_> = files.iter().map(|(candidate, _)| candidate.clone()).collect();
    let open = |number: usize| Model::salvage(files[number].1.clone()).map_err(|e| e.to_string());
    for threads in [1, 3] {
        let mut out = Vec::new();
        let tables = Tables::ndjson(&mut out, Some(source(&text))).unwrap();
        let options = IndexOptions::default().with_threads(NonZeroUsize::new(threads).unwrap());
        let mut calls = 0;
        let outcome = index(&candidates, &open, tables, &options, &mut |_, outcome| {
            calls += 1;
            assert_eq!(calls, outcome.files);
            if calls < 10 { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        })
        .unwrap();
        assert_eq!((outcome.kept, outcome.files + outcome.skipped), (50, 100));
        // What is in flight when it is broken off may be finished, or be many small files.
        assert!(outcome.files >= 55);
        // The next run reads the rest.
        let (updated, after, _) = ndjson(&files, Some(&out), 1).unwrap();
        assert_eq!(after.kept, outcome.files);
        assert!(updated == ndjson(&files, None, 1).unwrap().0);
    }
}
