//! An updated index equals a new one.

use std::io::{Read as _, Write as _};
use std::num::NonZeroUsize;
use std::ops::ControlFlow;

use ggmill_core::{Builder, MetadataBuf, Model};
use ggmill_inspect::index::{Candidate, Error, IndexOptions, Tables, index};
use ggmill_testdata::bytes::{FileBytes, Value};
use parquet::file::reader::FileReader as _;
use parquet::file::serialized_reader::SerializedFileReader;
use snap::read::FrameDecoder;
use snap::write::FrameEncoder;

use crate::index::support::{File, file, ndjson, ndjson_rows, parquet, source};
use crate::index::tables::{all_files, generated};

/// Returns the files of two runs, between which one is removed, one added, one changed in time and
/// content, and one changed in size.
fn before_and_after() -> (Vec<File>, Vec<File>) {
    let before = generated(60);
    let mut after = before.clone();
    after.remove(50);
    after[40] = file("00040.gguf", before[41].1.clone(), 1_700_000_000_000_001);
    after[30] = file("00030.gguf", before[31].1.clone(), 1_700_000_000_000_000);
    after.insert(20, file("00019x.gguf", before[5].1.clone(), 3));
    assert_ne!(before[30].1.len(), before[31].1.len(), "the sizes differ");
    (before, after)
}

#[test]
fn only_changed_files_are_opened_and_the_result_equals_a_new_run() {
    let (before, after) = before_and_after();
    for threads in [1, 4] {
        let (text, ..) = ndjson(&before, None, threads).unwrap();
        let (updated, outcome, opened) = ndjson(&after, Some(&text), threads).unwrap();
        assert_eq!((opened, outcome.kept, outcome.files), (3, 57, 60));
        let (fresh, counts, _) = ndjson(&after, None, 1).unwrap();
        assert!(updated == fresh);
        assert_eq!((outcome.tensors, outcome.entries), (counts.tensors, counts.entries));
        let (tables, ..) = parquet(&before, None, threads).unwrap();
        let (updated, outcome, opened) = parquet(&after, Some(&tables[3]), threads).unwrap();
        assert_eq!((opened, outcome.kept, outcome.files), (3, 57, 60));
        assert!(updated == parquet(&after, None, 1).unwrap().0);
    }
}

/// The state is the NDJSON index in Snappy frames.
#[test]
fn the_state_has_the_lines_of_ndjson() {
    let files = all_files();
    let (tables, ..) = parquet(&files, None, 2).unwrap();
    let mut lines = Vec::new();
    FrameDecoder::new(&*tables[3]).read_to_end(&mut lines).unwrap();
    assert!(lines == ndjson(&files, None, 1).unwrap().0);
}

/// Floats that are not finite are null in NDJSON, and must survive an update of Parquet.
#[test]
fn non_finite_floats_survive_an_update() {
    let mut bytes = FileBytes::v3(0, 5);
    bytes.pair("nan", &Value::F32(f32::from_bits(0xffc0_0123)));
    for (key, value) in [("inf", f64::INFINITY), ("-inf", f64::NEG_INFINITY), ("-0", -0.0)] {
        bytes.pair(key, &Value::F64(value));
    }
    bytes.pair("text", &"NaN".into()).pad(32);
    let files = [file("f", bytes.into_bytes(), 0)];
    let (tables, ..) = parquet(&files, None, 1).unwrap();
    let (updated, _, opened) = parquet(&files, Some(&tables[3]), 1).unwrap();
    assert_eq!(opened, 0);
    assert!(updated == tables);
}

/// Several row groups, files without tensors, and rows that are skipped before copied ones.
#[test]
fn large_tables_are_the_same_after_an_update() {
    let mut files = generated(3);
    for number in 0..8 {
        let mut metadata = MetadataBuf::new();
        for entry in 0..1500_u64 {
            let key = format!("{entry:0200}.{number}");
            match entry % 5 {
                0 => metadata.set(key, entry),
                1 => metadata.set(key, 0.5),
                2 => metadata.set(key, "llama"),
                _ => metadata.set(key, &*format!("{entry:0300}.{number}")),
            }
        }
        let plan = Builder::new().metadata(metadata).plan().unwrap();
        let path = format!("b{number}{}", "x".repeat(4000));
        files.push(file(&path, plan.header().to_vec(), 5));
    }
    let (tables, ..) = parquet(&files, None, 1).unwrap();
    let table = bytes::Bytes::from(tables[2].clone());
    assert!(SerializedFileReader::new(table).unwrap().metadata().num_row_groups() > 1);
    let (updated, outcome, opened) = parquet(&files, Some(&tables[3]), 1).unwrap();
    assert_eq!((opened, outcome.kept), (0, 11));
    assert!(updated == tables);
    for removed in [5, 0] {
        files.remove(removed);
        let (updated, _, opened) = parquet(&files, Some(&tables[3]), 1).unwrap();
        assert_eq!(opened, 0);
        assert!(updated == parquet(&files, None, 1).unwrap().0);
    }
}

#[test]
fn files_with_an_error_are_read_again() {
    let files = all_files();
    let (text, first, _) = ndjson(&files, None, 2).unwrap();
    let (updated, outcome, opened) = ndjson(&files, Some(&text), 2).unwrap();
    assert_eq!((opened as u64, outcome.broken), (first.broken, first.broken));
    assert!(updated == text);
    let (tables, ..) = parquet(&files, None, 2).unwrap();
    let (updated, _, opened) = parquet(&files, Some(&tables[3]), 2).unwrap();
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

/// The text of a run that was killed in the middle of a line, at any place.
#[test]
fn truncated_ndjson_can_be_continued() {
    let files = generated(12);
    let (text, ..) = ndjson(&files, None, 1).unwrap();
    for end in (0..text.len()).step_by(37) {
        let (updated, outcome, opened) = ndjson(&files, text.get(..end), 1).unwrap();
        assert!(updated == text);
        assert_eq!(outcome.kept + opened as u64, 12);
        // Only the last file can lack lines.
        let whole = ndjson_rows(
            &text[..text[..end].iter().rposition(|&b| b == b'\n').map_or(0, |at| at + 1)],
        )[0]
        .len();
        assert!(outcome.kept + 1 >= whole as u64);
    }
}

#[test]
fn other_text_is_refused() {
    let refused = |text: &str| match ndjson(&[], Some(text.as_bytes()), 1) {
        Err(Error::Previous(why)) => why,
        other => panic!("{text}: {other:?}"),
    };
    for text in ["notes\n", "{}\n", "{\"record\":\"file\",\"path\":\"x\"}\n", "\n"] {
        assert!(refused(text).starts_with("line 1: "), "{text}");
    }
    assert_eq!(
        refused("{\"record\":\"tensor\",\"path\":\"x\"}\n"),
        "line 1: the line of the file that it belongs to is missing"
    );
    let long = format!("{}\n", " ".repeat(5 << 20));
    assert!(refused(&long).contains("longer than"));
}

fn compressed(text: &[u8]) -> Vec<u8> {
    let mut out = FrameEncoder::new(Vec::new());
    out.write_all(text).unwrap();
    out.into_inner().unwrap()
}

#[test]
fn a_damaged_state_is_refused() {
    let files = generated(20);
    let (tables, ..) = parquet(&files, None, 1).unwrap();
    let refused = |state: &[u8]| match parquet(&files, Some(state), 1) {
        Err(Error::Previous(why)) => why,
        other => panic!("{:?}", other.map(|made| made.1)),
    };
    let state = &tables[3];
    for len in [1, 9, 20, state.len() / 2, state.len() - 1] {
        assert!(!refused(&state[..len]).is_empty());
    }
    for place in [0, 12, 100, state.len() - 1] {
        let mut changed = state.clone();
        changed[place] ^= 1;
        assert!(!refused(&changed).is_empty());
    }
    assert!(!refused(&tables[0]).is_empty());
    assert!(refused(&compressed(b"notes\n")).starts_with("line 1: "));
    // A text that is cut is continued, as NDJSON is.
    let (text, ..) = ndjson(&files, None, 1).unwrap();
    let cut = compressed(&text[..text.len() / 2]);
    let (updated, outcome, opened) = parquet(&files, Some(&cut), 1).unwrap();
    assert!(updated == tables && outcome.kept > 5 && opened > 5);
    // Every column must be there and have its type.
    let text = String::from_utf8(text).unwrap();
    for (from, to, column) in [
        (r#","version":3,"#, r#","version":"3","#, "version"),
        (r#","version":3,"#, ",", "version"),
        (r#","position":0,"#, r#","position":null,"#, "position"),
        (r#","position":0,"#, r#","position":0.5,"#, "position"),
        (r#","dimensions":["#, r#","dimensions":[true,"#, "dimensions"),
    ] {
        assert!(text.contains(from));
        let why = refused(&compressed(text.replace(from, to).as_bytes()));
        let expected = format!("the column `{column}` is missing or of another type");
        assert!(why.ends_with(&expected), "{why}");
    }
}

#[test]
fn stopping_keeps_the_rows_of_the_earlier_index() {
    let mut files = generated(100);
    let (text, ..) = ndjson(&files, None, 1).unwrap();
    // Every second file is new.
    for (candidate, _) in files.iter_mut().step_by(2) {
        candidate.modified = Some(5);
    }
    let candidates: Vec<_> = files.iter().map(|(candidate, _)| candidate.clone()).collect();
    let open =
        |number: usize| Model::open_damaged(files[number].1.clone()).map_err(|e| e.to_string());
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
        // Files that are being read when the run stops are finished.
        assert!(outcome.files >= 55);
        // The next run reads the rest.
        let (updated, after, _) = ndjson(&files, Some(&out), 1).unwrap();
        assert_eq!(after.kept, outcome.files);
        assert!(updated == ndjson(&files, None, 1).unwrap().0);
    }
}
