//! The Python package beside gguf.

use std::path::PathBuf;

use crate::process::{Done, command, root, run, target};
use crate::python;

use super::source;

/// An interpreter that has gguf, numpy and ggmill, instead of the environment of the package.
const PYTHON: &str = "GGMILL_PYTHON_PACKAGE";
/// What is compared.
const GGUF: &str = "gguf==0.19.0";

#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// A vocabulary of many tokens [default: that of gemma-4]
    vocabulary: Option<PathBuf>,
    /// How often each side works
    #[arg(long, value_name = "N", default_value_t = 3)]
    turns: u32,
    /// Only these: open, dequantize, write, key
    #[arg(long, value_name = "PART", num_args = 1..)]
    only: Vec<String>,
}

/// Compares speed and memory: xtask/peers/python_speed.py.
pub(super) fn speed(args: &Args) -> Done {
    let python = if let Some(path) = std::env::var_os(PYTHON) {
        path.into()
    } else {
        let python = python::released()?;
        let install = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", GGUF];
        run(command(&python).args(install))?;
        python
    };
    let vocabulary = match &args.vocabulary {
        Some(path) => path.clone(),
        None => source::gemma4()?,
    };
    let mut command = command(&python);
    command
        .arg(root().join("xtask/peers/python_speed.py"))
        .arg(vocabulary)
        .arg(target()?.join("python/speed"))
        .args(["--turns", &args.turns.to_string()]);
    if !args.only.is_empty() {
        command.arg("--only").args(&args.only);
    }
    run(&mut command)
}
