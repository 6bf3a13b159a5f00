//! Any source of computation graphs, with the tables of a built-in architecture: the name of the
//! architecture, a zero byte, the source.

use std::time::{Duration, Instant};

use ggmill_arch::{Architecture, Resolved};

use crate::allocations::bounded;

/// Parses the source, resolves its names, and makes the graphs of sampled models, as loading a
/// description does. Time is bounded whatever the source computes.
pub fn program(data: &[u8]) {
    let mut halves = data.splitn(2, |&byte| byte == 0);
    let mut half = || halves.next().and_then(|half| str::from_utf8(half).ok());
    let (Some(name), Some(source)) = (half(), half()) else { return };
    let Some(tables) = Architecture::builtin_text(name).and_then(tables) else { return };
    let most = 3 * i64::try_from(Resolved::MAX_BYTES).expect("small");
    let started = Instant::now();
    let parse = || Architecture::parse_with_source(&tables, source);
    let parsed = bounded(data.len(), most, 2000, parse);
    let took = started.elapsed();
    assert!(took < Duration::from_secs(60), "{took:?} for {} bytes", source.len());
    let architecture = match parsed {
        Ok(architecture) => architecture,
        Err(error) => {
            let text = error.to_string();
            assert!(text.len() < 1 << 16, "an error of {} bytes", text.len());
            return;
        }
    };
    let text = architecture.graph_text().expect("it has a source");
    assert!(text.starts_with(source), "imported functions follow the source");
    let outline = architecture.graph_outline().expect("it has a source");
    let steps: usize = outline.iter().map(|group| group.steps.len()).sum();
    assert!(steps <= text.len(), "{steps} steps");
}

/// Returns the text of a description without the source of its graphs.
fn tables(text: &str) -> Option<String> {
    let (head, rest) = text.split_once("computation = '''\n")?;
    let (_, tail) = rest.split_once("\n'''\n")?;
    Some(format!("{head}{tail}"))
}
