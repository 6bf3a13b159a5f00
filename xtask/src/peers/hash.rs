//! Hashes of tensor data, computed by others.

use std::path::PathBuf;

use super::{environment, ggmill, gguf_files, real_files};
use crate::process::{Done, root, run};

/// The bundled files whose manifests are committed: one with tensors, one without.
const BUNDLED: [&str; 2] = ["mobilenetv3_3class_v3_fp16.gguf", "ggml-vocab-phi-3.gguf"];

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Files to compare [default: the bundled files, and ../shared/data]
    files: Vec<PathBuf>,
    /// Write the manifests of bundled files into crates/ggmill-hash/tests/hashes instead
    #[arg(long, conflicts_with = "files")]
    write: bool,
}

pub(super) fn execute(args: &Args) -> Done {
    let mut script = environment::script("hash.py")?;
    if args.write {
        let real = root().join("crates/ggmill-testdata/real");
        return run(script
            .args(["--write", "crates/ggmill-hash/tests/hashes"])
            .args(BUNDLED.map(|name| real.join(name))));
    }
    let mut files = args.files.clone();
    if files.is_empty() {
        for directory in real_files() {
            files.extend(gguf_files(&directory)?);
        }
    }
    run(script.arg(ggmill()?).args(files))
}
