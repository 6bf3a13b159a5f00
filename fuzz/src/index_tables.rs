//! Any bytes as the three Parquet tables of an earlier index.

use std::ops::ControlFlow;
use std::sync::Arc;

use ggmill_core::ReadAt;
use ggmill_inspect::index::{Candidate, IndexOptions, Tables, index};

use crate::allocations::bounded;

/// The files of the seeds, with this size and time, so that their rows can be reused.
pub(crate) const FILES: [&str; 3] = ["a", "b", "c"];

/// Memory of a few row groups with bounded cells, and their pages.
const MEMORY: i64 = 512 << 20;

/// The size and the time of the files.
pub(crate) fn candidates() -> [Candidate; 3] {
    FILES.map(|path| Candidate::new(path).with_state(Some(4), Some(4)))
}

/// Three tables as one input: the lengths of the first two, then all of them.
pub(crate) fn joined(tables: &[Vec<u8>; 3]) -> Vec<u8> {
    let [files, tensors, _] = tables;
    let lens = [files, tensors].map(|table| u16::try_from(table.len()).expect("a small table"));
    [lens.map(u16::to_le_bytes).concat(), tables.concat()].concat()
}

fn divided(data: &[u8]) -> Option<[Vec<u8>; 3]> {
    let ([a, b, c, d], rest) = data.split_first_chunk()?;
    let (files, rest) = rest.split_at_checked(u16::from_le_bytes([*a, *b]).into())?;
    let (tensors, metadata) = rest.split_at_checked(u16::from_le_bytes([*c, *d]).into())?;
    Some([files.to_vec(), tensors.to_vec(), metadata.to_vec()])
}

/// Updates the tables. Updating the result keeps the same rows and changes nothing.
pub fn index_tables(data: &[u8]) {
    let Some(tables) = divided(data) else { return };
    let Some((updated, kept)) = bounded(data.len(), MEMORY, 256, || update(&tables)) else {
        return;
    };
    assert!(update(&updated) == Some((updated, kept)), "an update of an update");
}

/// Returns the tables after an update in which no file can be opened, and the number of files that
/// they keep, or `None` if they are refused.
fn update(tables: &[Vec<u8>; 3]) -> Option<([Vec<u8>; 3], u64)> {
    let earlier = tables.each_ref().map(|table| Arc::new(table.clone()) as Arc<dyn ReadAt>);
    let mut out = [const { Vec::new() }; 3];
    let tables = Tables::parquet(out.each_mut(), Some(earlier)).ok()?;
    let open = |_| Err(String::new());
    let options = IndexOptions::default();
    let outcome =
        index(&candidates(), &open, tables, &options, &mut |_, _| ControlFlow::Continue(()))
            .ok()?;
    assert_eq!((outcome.files, outcome.broken), (3, 3 - outcome.kept));
    Some((out, outcome.kept))
}
