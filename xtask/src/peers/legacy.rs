//! Files from before GGUF, converted by the reference.

use std::fs;
use std::path::PathBuf;

use ggmill_testdata::legacy::legacy_models;

use super::environment;
use crate::process::{Done, root, run, target};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// convert_llama_ggml_to_gguf.py of llama.cpp, as it is in the source package of
    /// llama-cpp-python 0.3.36
    script: PathBuf,
}

/// Writes what the reference makes of generated files into
/// crates/ggmill-testdata/expected/legacy.json.
pub(super) fn execute(args: &Args) -> Done {
    generate()?;
    run(environment::script("legacy.py")?
        .arg(&args.script)
        .arg(directory()?)
        .arg(root().join("crates/ggmill-testdata/expected/legacy.json")))
}

fn directory() -> Done<PathBuf> {
    Ok(target()?.join("peers/legacy"))
}

/// Writes the generated files into a directory of their own, and says where they are.
pub(super) fn generate() -> Done<Vec<PathBuf>> {
    let directory = directory()?;
    let failed = |error: std::io::Error| format!("{}: {error}", directory.display());
    drop(fs::remove_dir_all(&directory));
    fs::create_dir_all(&directory).map_err(failed)?;
    let mut paths = Vec::new();
    for model in legacy_models() {
        let path = directory.join(model.name);
        fs::write(&path, model.file).map_err(failed)?;
        paths.push(path);
    }
    Ok(paths)
}
