//! Any text as an earlier index: as NDJSON and as the state of a Parquet index.

use std::io::Write as _;
use std::ops::ControlFlow;
use std::sync::Arc;

use ggmill_core::ReadAt;
use ggmill_inspect::index::{Candidate, IndexOptions, Tables, index as make};

use crate::allocations::bounded;

/// The files of the seeds, with the size and time that are unchanged there.
const FILES: [&str; 3] = ["a", "b", "c"];

/// Memory for a few columns of a row group and the buffers of Snappy.
const PARQUET_MEMORY: i64 = 8 << 20;

/// Updates the text as an index. The kept lines are lines of the text, and an update of the result
/// keeps them all and changes nothing.
pub fn index(data: &[u8]) {
    update_parquet(data);
    let Some((updated, kept)) = bounded(data.len(), 1 << 18, 64, || update(data)) else { return };
    assert!(kept > 0 || updated.is_empty(), "nothing is opened, so that all rows are kept ones");
    for line in updated.split_inclusive(|&byte| byte == b'\n') {
        assert!(
            data.windows(line.len()).any(|window| window == line),
            "a line of the earlier index"
        );
    }
    assert_eq!(update(&updated), Some((updated, kept)), "an update of an update");
}

/// Updates a Parquet index that has the text as its state.
fn update_parquet(data: &[u8]) {
    let state = compressed(data);
    let updated = bounded(data.len(), PARQUET_MEMORY, 256, || parquet(&state));
    if let Some(updated) = updated {
        assert!(parquet(&updated[3]) == Some(updated), "an update of an update");
    }
}

fn compressed(text: &[u8]) -> Vec<u8> {
    let mut out = snap::write::FrameEncoder::new(Vec::new());
    out.write_all(text).expect("memory is written");
    out.into_inner().expect("memory is written")
}

/// Returns the tables and the state of an update in which no file can be opened, or `None` if the
/// earlier state is refused.
fn parquet(state: &[u8]) -> Option<[Vec<u8>; 4]> {
    let mut out = [const { Vec::new() }; 4];
    let [files, tensors, metadata, new_state] = out.each_mut();
    let earlier: Arc<dyn ReadAt> = Arc::new(state.to_vec());
    let tables = Tables::parquet([files, tensors, metadata], new_state, Some(earlier)).ok()?;
    let open = |_| Err(String::new());
    let options = IndexOptions::default();
    make(&candidates(), &open, tables, &options, &mut |_, _| ControlFlow::Continue(())).ok()?;
    Some(out)
}

fn candidates() -> [Candidate; 3] {
    FILES.map(|path| Candidate::new(path).with_state(Some(4), Some(4)))
}

/// Returns the kept lines of an update in which no file can be opened, and the number of kept files;
/// `None` if the earlier index is refused.
fn update(data: &[u8]) -> Option<(Vec<u8>, u64)> {
    let files = candidates();
    let earlier: Arc<dyn ReadAt> = Arc::new(data.to_vec());
    let mut out = Vec::new();
    let tables = Tables::ndjson(&mut out, Some(earlier)).ok()?;
    let mut kept = 0;
    let open = |_| Err(String::new());
    let mut rest = Vec::new();
    let outcome = make(&files, &open, tables, &IndexOptions::default(), &mut |file, outcome| {
        if outcome.kept > kept {
            kept = outcome.kept;
        } else {
            rest.push(file.path.clone());
        }
        ControlFlow::Continue(())
    });
    let outcome = outcome.ok()?;
    assert_eq!((outcome.files, outcome.broken), (3, 3 - outcome.kept));
    // Rows of files that could not be opened are new.
    let mut kept_lines = Vec::new();
    for line in out.split_inclusive(|&byte| byte == b'\n') {
        let is_ours = rest.iter().any(|path| {
            let start = format!("{{\"record\":\"file\",\"path\":\"{path}\",");
            line.starts_with(start.as_bytes())
        });
        if !is_ours {
            kept_lines.extend(line);
        }
    }
    Some((kept_lines, outcome.kept))
}
