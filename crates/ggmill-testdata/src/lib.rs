//! Test data: valid and broken GGUF files, and real files with their provenance.
//!
//! - [`bytes::FileBytes`] composes a file field by field, of any version and byte order, with any faults.
//!   It shares no code with the writer that it tests.
//! - [`corpus`] has small files composed with it: one for each possible fault, and one for each unusual
//!   but valid feature.
//! - [`real`] and [`shared`] return the paths of real files, [`expected`] of the results of other programs
//!   for them.
//! - [`tokenizers`] has tokenizers of every kind, with the token IDs of the `tokenizers` library.
//! - [`server`] serves files over HTTP, with faults if requested.
//!
//! Tests of every crate use it. It is not published.

pub mod bytes;
pub mod corpus;
pub mod legacy;
pub mod models;
pub mod server;
pub mod tokenizers;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Once;

use sha2::{Digest as _, Sha256};

/// Returns `true` if the environment variable `GGMILL_LONG` is set, as `cargo xtask ci --long` does.
///
/// Exhaustive tests then run every case; by default they run a small deterministic sample.
pub fn is_long() -> bool {
    std::env::var_os("GGMILL_LONG").is_some_and(|value| !value.is_empty() && value != "0")
}

/// The names of the bundled GGUF files in `real/`.
pub const REAL_GGUF: [&str; 4] = [
    "ggml-vocab-bert-bge.gguf",
    "ggml-vocab-llama.v1.gguf",
    "ggml-vocab-phi-3.gguf",
    "mobilenetv3_3class_v3_fp16.gguf",
];

/// The names of larger GGUF files for [`shared`], which may be missing.
pub const SHARED_GGUF: [&str; 6] = [
    "gguf/all-MiniLM-L6-v2.Q3_K_S.gguf",
    "vocab-gguf/ggml-vocab-falcon.gguf",
    "vocab-gguf/ggml-vocab-gpt-2.gguf",
    "vocab-gguf/ggml-vocab-llama-bpe.gguf",
    "vocab-gguf/ggml-vocab-llama-spm.gguf",
    "vocab-gguf/ggml-vocab-starcoder.gguf",
];

/// Returns the path of a bundled file or directory in `real/`. `real/README.md` has its source and license.
///
/// ```
/// assert!(ggmill_testdata::real("tinystories260K/model.safetensors").is_file());
/// ```
pub fn real(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("real").join(name)
}

/// Returns the path of a fixture in `expected/`: the results of other programs for real files.
/// `expected/README.md` says how it was created.
pub fn expected(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("expected").join(name)
}

/// Returns the path of a file or directory in `../shared/data`, relative to the workspace, or `None` if
/// it does not exist. The first missing file is reported on stderr, since tests are skipped.
pub fn shared(name: &str) -> Option<PathBuf> {
    static REPORTED: Once = Once::new();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data");
    let found = Some(root.join(name)).filter(|path| path.exists());
    if found.is_none() {
        #[expect(
            clippy::print_stderr,
            reason = "a skipped test that does not say so looks like a passed one"
        )]
        REPORTED.call_once(|| {
            eprintln!("skipped: {} is absent, so are the tests on it", root.join(name).display());
        });
    }
    found
}

/// Returns the paths of all bundled GGUF files and of the existing shared ones.
pub fn every_gguf() -> Vec<PathBuf> {
    REAL_GGUF.into_iter().map(real).chain(SHARED_GGUF.into_iter().filter_map(shared)).collect()
}

/// Returns the SHA-256 of bytes in hexadecimal, which fixtures have for large data.
pub fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().fold(String::new(), |mut hex, byte| {
        // Writing to a String cannot fail.
        let _ = write!(hex, "{byte:02x}");
        hex
    })
}
