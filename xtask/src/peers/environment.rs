//! The Python environment of the peers.

use std::env;
use std::path::PathBuf;
use std::process::Command;

use crate::process::{Done, command, root, run, succeeds, target};

/// The peers, pinned. What they find depends on their version, and every recorded number names it.
pub(super) const PACKAGES: &[&str] = &[
    "gguf==0.19.0",
    "llama-cpp-python==0.3.36",
    "numpy",
    "safetensors",
    "jsonschema",
    "xxhash",
    "blake3",
];

/// An interpreter that has them already.
const PYTHON: &str = "GGMILL_PEERS_PYTHON";

/// The interpreter with the peers: the one the environment variable names, or one in
/// `target/peers`, made the first time.
///
/// llama-cpp-python is built from source then, which takes some minutes and a C++ compiler.
pub(super) fn python() -> Done<PathBuf> {
    if let Some(python) = env::var_os(PYTHON) {
        return Ok(python.into());
    }
    let directory = target()?.join("peers/venv");
    let python = directory.join(if cfg!(windows) { "Scripts/python.exe" } else { "bin/python" });
    if !succeeds(
        command(&python)
            .args(["-c", "import gguf, llama_cpp, numpy, safetensors, jsonschema, xxhash, blake3"]),
    ) {
        println!(
            "making {} with {} (set {PYTHON} to use another interpreter)",
            directory.display(),
            PACKAGES.join(", ")
        );
        run(command("python3").args(["-m", "venv"]).arg(&directory))?;
        run(command(&python)
            .args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"])
            .args(PACKAGES))?;
    }
    Ok(python)
}

/// A script of `xtask/peers`, ready for arguments.
pub(super) fn script(name: &str) -> Done<Command> {
    let mut python = command(python()?);
    python.arg(root().join("xtask/peers").join(name));
    Ok(python)
}
