//! Benchmarks of ggmill and their recorded results.
//!
//! - `python3 conformance/run.py open` compares opening a file with other readers and with [`walk`], the
//!   least any reader can do; `RESULTS.md` has what it said.
//! - `check_speed` measures `ggmill check` beside its yardsticks.
//! - `cargo bench -p ggmill-bench` measures the reader alone, to see what a change does.

#[expect(
    unsafe_code,
    reason = "the lower bound checks nothing on purpose; its contract is in its documentation"
)]
mod walk;

pub use walk::{Walked, is_walkable, walk};
