//! The architectures: their names imported from gguf, and the catalogue held against llama.cpp's own loader.

use std::path::PathBuf;

use super::{environment, source};
use crate::process::{Done, root, run};

/// Newer than the package of gguf, and its source.
const CONSTANTS: &str = "gguf-py/gguf/constants.py";

#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// A newer version of gguf's constants.py to import names from too, as NAME=PATH [default: that of llama-cpp-python's source package]
    #[arg(long, value_name = "NAME=PATH")]
    constants: Vec<String>,
}

pub(super) fn execute(args: &Args) -> Done {
    names(args)
}

/// Writes crates/ggmill-arch/data/names.toml.
fn names(args: &Args) -> Done {
    let out: PathBuf = root().join("crates/ggmill-arch/data/names.toml");
    let mut script = environment::script("architectures.py")?;
    script.arg("names").arg(out);
    if args.constants.is_empty() {
        let file = source::member(CONSTANTS)?;
        script.arg(format!("{}={}", source::PACKAGE.replace("==", " "), file.display()));
    }
    run(script.args(&args.constants))
}
