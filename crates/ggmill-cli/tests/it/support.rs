//! Helpers of the tests.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use ggmill_testdata::bytes::{FileBytes, Value};

/// The result of a run of the program.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// Returns the program, without variables that control its colors.
pub(crate) fn command(directory: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ggmill"));
    command.current_dir(directory).stdin(Stdio::null());
    for name in ["NO_COLOR", "CLICOLOR", "CLICOLOR_FORCE"] {
        command.env_remove(name);
    }
    command
}

pub(crate) fn outcome(command: &mut Command) -> Outcome {
    let output = command.output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Outcome {
        code: output.status.code().unwrap(),
        stdout: text(output.stdout),
        stderr: text(output.stderr),
    }
}

pub(crate) fn ggmill(directory: &Path, args: &[impl AsRef<OsStr>]) -> Outcome {
    outcome(command(directory).args(args))
}

/// A temporary directory with files.
pub(crate) struct Directory(tempfile::TempDir);

impl Directory {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    /// Returns the names of the files, sorted.
    pub(crate) fn files(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.path()).unwrap();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    pub(crate) fn with(self, name: &str, bytes: impl AsRef<[u8]>) -> Self {
        std::fs::write(self.0.path().join(name), bytes).unwrap();
        self
    }
}

/// Returns a small complete file: three metadata entries, two tensors.
pub(crate) fn tiny() -> Vec<u8> {
    let mut file = FileBytes::v3(2, 4);
    file.pair("general.architecture", &"llama".into());
    file.pair("general.name", &"Tiny".into());
    file.pair("llama.context_length", &Value::U32(128));
    file.pair(
        "tokenizer.ggml.scores",
        &Value::Array(6, (0..20u8).map(|score| Value::F32(f32::from(score) / 4.0)).collect()),
    );
    file.tensor("token_embd.weight", &[8, 4], 0, 0)
        .tensor("output_norm.weight", &[8], 1, 128)
        .pad(32);
    file.raw(&[0; 128 + 32]);
    file.into_bytes()
}

/// Returns one shard of a set.
pub(crate) fn shard(number: u16, count: u16) -> Vec<u8> {
    let mut file = FileBytes::v3(1, 3);
    file.pair("general.architecture", &"llama".into())
        .pair("split.no", &Value::U16(number))
        .pair("split.count", &Value::U16(count));
    file.tensor(format!("blk.{number}.attn_q.weight"), &[8], 0, 0).pad(32).raw(&[0; 32]);
    file.into_bytes()
}

pub(crate) fn real(name: &str) -> PathBuf {
    ggmill_testdata::real(name)
}

/// Runs `ggmill quantize` in a directory.
pub(crate) fn quantize(directory: &Directory, args: &[&str]) -> Outcome {
    ggmill(directory.path(), &[&["quantize"], args].concat())
}

/// Runs `ggmill quantize` in a directory, which must succeed.
pub(crate) fn quantized(directory: &Directory, args: &[&str]) -> Outcome {
    let found = quantize(directory, args);
    assert_eq!(found.code, 0, "{args:?}: {}", found.stderr);
    found
}
