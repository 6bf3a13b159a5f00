//! Files from before GGUF, converted by the reference.

use std::fs;
use std::path::PathBuf;

use ggmill_testdata::legacy::legacy_models;

use super::environment;
use crate::process::{Done, root, run, target};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// convert_llama_ggml_to_gguf.py of llama.cpp, as it is in the source package of llama-cpp-python 0.3.36
    script: PathBuf,
}

/// Writes what the reference makes of generated files into crates/ggmill-testdata/expected/legacy.json.
pub(super) fn execute(args: &Args) -> Done {
    let folder = target()?.join("peers/legacy");
    let failed = |error: std::io::Error| format!("{}: {error}", folder.display());
    drop(fs::remove_dir_all(&folder));
    fs::create_dir_all(&folder).map_err(failed)?;
    for model in legacy_models() {
        fs::write(folder.join(model.name), model.file).map_err(failed)?;
    }
    run(environment::script("legacy.py")?.arg(&args.script).arg(&folder).arg(root().join("crates/ggmill-testdata/expected/legacy.json")))
}
