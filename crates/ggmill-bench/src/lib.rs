//! Benchmarks of ggmill and their recorded results.
//!
//! - `python3 conformance/run.py open` compares opening a file with other readers and with [`walk`], the
//!   minimum work of a reader; `RESULTS.md` has its results.
//! - `check_speed` measures `ggmill check` and its baselines.
//! - `cargo bench -p ggmill-bench` measures the reader, to compare versions.

#[expect(
    unsafe_code,
    reason = "the lower bound checks nothing on purpose; its contract is in its documentation"
)]
mod walk;

pub use walk::{Walked, is_walkable, walk};
