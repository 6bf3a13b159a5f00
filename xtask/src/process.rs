//! Running other programs.

use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The outcome of a chore, with an error message.
pub(crate) type Done<T = ()> = Result<T, String>;

/// Returns the root of the repository.
pub(crate) fn root() -> &'static Path {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    manifest.parent().unwrap_or(manifest)
}

/// Returns a command for the Cargo that runs this, at the root of the repository.
pub(crate) fn cargo(arguments: &[&str]) -> Command {
    let mut command = command(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(arguments);
    command
}

/// Returns a command that runs at the root of the repository, without standard input: a chore never
/// waits for a user.
pub(crate) fn command(program: impl AsRef<std::ffi::OsStr>) -> Command {
    let mut command = Command::new(program);
    command.current_dir(root()).stdin(Stdio::null());
    command
}

/// Runs a command to its end with inherited output.
pub(crate) fn run(command: &mut Command) -> Done {
    let status = command.status().map_err(|error| format!("{}: {error}", shown(command)))?;
    if status.success() { Ok(()) } else { Err(format!("{}: {status}", shown(command))) }
}

/// Runs a command to its end and returns its output.
pub(crate) fn output(command: &mut Command) -> Done<String> {
    let output = command
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| format!("{}: {error}", shown(command)))?;
    if !output.status.success() {
        return Err(format!("{}: {}", shown(command), output.status));
    }
    String::from_utf8(output.stdout)
        .map_err(|_| format!("{}: printed what is not text", shown(command)))
}

/// Returns `true` if a command succeeds. Its output is dropped.
pub(crate) fn succeeds(command: &mut Command) -> bool {
    command
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

/// Returns a command as a user would type it.
pub(crate) fn shown(command: &Command) -> String {
    let program = Path::new(command.get_program()).file_name().unwrap_or(command.get_program());
    let words = std::iter::once(program).chain(command.get_args());
    words.map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ")
}

/// Returns the output of `cargo metadata`.
pub(crate) fn metadata() -> Done<serde_json::Value> {
    metadata_of("Cargo.toml")
}

/// Returns the output of `cargo metadata` for another workspace.
pub(crate) fn metadata_of(manifest: &str) -> Done<serde_json::Value> {
    let arguments = ["metadata", "--format-version=1", "--no-deps", "--manifest-path", manifest];
    let text = output(&mut cargo(&arguments))?;
    serde_json::from_str(&text).map_err(|error| format!("cargo metadata: {error}"))
}

/// Builds the tests of the workspace that `selection` names, by default all, and returns the path of
/// a program that is built with them. After the tests nothing is left to build; a package that is
/// built alone has other features, and its dependencies are compiled again.
pub(crate) fn built_by_tests(program: &str, selection: &[&str]) -> Done<PathBuf> {
    let build = ["test", "--quiet", "--locked", "--workspace", "--no-run"];
    run(cargo(&build).args(selection))?;
    Ok(target()?.join("debug").join(format!("{program}{}", env::consts::EXE_SUFFIX)))
}

/// Returns the target directory.
pub(crate) fn target() -> Done<PathBuf> {
    let metadata = metadata()?;
    let directory = metadata.get("target_directory").and_then(|directory| directory.as_str());
    directory
        .map(PathBuf::from)
        .ok_or_else(|| "cargo metadata names no target directory".to_owned())
}
