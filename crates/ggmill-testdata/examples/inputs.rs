//! Writes generated models to a directory, for comparisons with the reference.
//!
//! ```text
//! cargo run -p ggmill-testdata --example inputs legacy DIRECTORY      files from before GGUF
//! cargo run -p ggmill-testdata --example inputs quantize DIRECTORY    models to quantize, with importance matrices
//! ```

use std::path::Path;

use ggmill_testdata::legacy::legacy_models;
use ggmill_testdata::models::models;

fn main() -> std::io::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [kind, directory] = &arguments[..] else {
        return Err(std::io::Error::other("expected legacy or quantize, and a directory"));
    };
    let write = |name: &str, bytes: &[u8]| std::fs::write(Path::new(directory).join(name), bytes);
    std::fs::create_dir_all(directory)?;
    if kind == "legacy" {
        for model in legacy_models() {
            write(model.name, &model.file)?;
        }
    } else {
        for model in models() {
            write(&format!("{}.gguf", model.name), &model.file)?;
            write(&format!("{}.imatrix.gguf", model.name), &model.imatrix())?;
            write(&format!("{}.imatrix.dat", model.name), &model.legacy_imatrix())?;
        }
    }
    Ok(())
}
