//! Where the real files lie.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Once;

use sha2::{Digest as _, Sha256};

/// The GGUF files bundled under `real/`: always there.
pub const REAL_GGUF: [&str; 4] = [
    "ggml-vocab-bert-bge.gguf",
    "ggml-vocab-llama.v1.gguf",
    "ggml-vocab-phi-3.gguf",
    "mobilenetv3_3class_v3_fp16.gguf",
];

/// The larger GGUF files, beside the workspace where somebody has put them: names for [`shared`].
pub const SHARED_GGUF: [&str; 6] = [
    "gguf/all-MiniLM-L6-v2.Q3_K_S.gguf",
    "vocab-gguf/ggml-vocab-falcon.gguf",
    "vocab-gguf/ggml-vocab-gpt-2.gguf",
    "vocab-gguf/ggml-vocab-llama-bpe.gguf",
    "vocab-gguf/ggml-vocab-llama-spm.gguf",
    "vocab-gguf/ggml-vocab-starcoder.gguf",
];

/// A file or directory bundled under `real/`; `README.md` there says where each comes from and under
/// which licence.
///
/// ```
/// assert!(ggmill_testdata::real("tinystories260K/model.safetensors").is_file());
/// ```
pub fn real(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("real").join(name)
}

/// A fixture under `expected/`: what others find in real files; `README.md` there says how each was
/// made.
pub fn expected(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("expected").join(name)
}

/// A file or directory of `../shared/data`, counted from the workspace root, or `None` where that
/// directory is absent. The first time it is, a line on stderr says that tests are skipped for want of
/// it.
pub fn shared(name: &str) -> Option<PathBuf> {
    static SAID: Once = Once::new();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data");
    let found = Some(root.join(name)).filter(|path| path.exists());
    if found.is_none() {
        #[expect(
            clippy::print_stderr,
            reason = "a skipped test that does not say so looks like a passed one"
        )]
        SAID.call_once(|| {
            eprintln!("skipped: {} is absent, so are the tests on it", root.join(name).display());
        });
    }
    found
}

/// Every real GGUF file at hand, by its file name: the bundled ones, then the shared ones that are
/// present.
pub fn every_gguf() -> Vec<PathBuf> {
    REAL_GGUF.into_iter().map(real).chain(SHARED_GGUF.into_iter().filter_map(shared)).collect()
}

/// The SHA-256 of bytes, in hexadecimal: how expectations name large data.
pub fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().fold(String::new(), |mut hex, byte| {
        // Writing to a String cannot fail.
        let _ = write!(hex, "{byte:02x}");
        hex
    })
}
