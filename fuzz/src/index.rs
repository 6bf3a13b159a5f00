//! Any text as an earlier index.

use std::ops::ControlFlow;
use std::sync::Arc;

use ggmill_core::ReadAt;
use ggmill_inspect::index::{Candidate, IndexOptions, Tables, index as make};

use crate::allocations::bounded;

/// The files of the seeds, with this size and time, so that their rows can be reused.
const FILES: [&str; 3] = ["a", "b", "c"];

/// Updates the text as an index. Kept rows are lines of the text, and updating the result keeps the
/// same rows and changes nothing.
pub fn index(data: &[u8]) {
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

/// Returns the index after an update in which no file can be opened, and the number of files that
/// it keeps, or `None` if it is refused.
fn update(data: &[u8]) -> Option<(Vec<u8>, u64)> {
    let files = FILES.map(|path| Candidate::new(path).with_state(Some(4), Some(4)));
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
