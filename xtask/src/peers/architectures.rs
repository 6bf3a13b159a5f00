//! The architectures: their names imported from gguf, and the catalogue held against llama.cpp's
//! own loader.

use std::fs;
use std::path::PathBuf;

use super::{environment, source};
use crate::process::{Done, cargo, root, run, target};

/// Newer than the package of gguf, and its source.
const CONSTANTS: &str = "gguf-py/gguf/constants.py";

#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// A newer version of gguf's constants.py to import names from too, as NAME=PATH [default:
    /// that of llama-cpp-python's source package]
    #[arg(long, value_name = "NAME=PATH")]
    constants: Vec<String>,
    /// Hold the descriptions against llama.cpp's own loader: tiny models made from them, whole and
    /// with one thing wrong, and what it saves of them
    #[arg(long)]
    load: bool,
}

pub(super) fn execute(args: &Args) -> Done {
    if args.load { load() } else { names(args) }
}

/// Writes crates/ggmill-check/tests/loader.tsv, which the tests go by, and checks what libllama
/// saves.
fn load() -> Done {
    let samples = target()?.join("peers/samples");
    if samples.is_dir() {
        fs::remove_dir_all(&samples).map_err(|error| format!("{}: {error}", samples.display()))?;
    }
    let example =
        ["run", "--quiet", "--release", "--package=ggmill-check", "--example=samples", "--"];
    run(cargo(&example).arg("make").arg(&samples))?;
    run(environment::script("architectures.py")?
        .arg("load")
        .arg(&samples)
        .arg(root().join("crates/ggmill-check/tests/loader.tsv")))?;
    run(cargo(&example).arg("check").arg(samples.join("saved")))
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
