//! Running other programs.

use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The outcome of a chore: done, or the reason why not, for people.
pub(crate) type Done<T = ()> = Result<T, String>;

/// The root of the repository.
pub(crate) fn root() -> &'static Path {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    manifest.parent().unwrap_or(manifest)
}

/// Cargo of the toolchain that runs this, at the root of the repository.
pub(crate) fn cargo(arguments: &[&str]) -> Command {
    let mut command = command(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(arguments);
    command
}

/// A program at the root of the repository. It has no standard input: a chore never waits for
/// somebody to type.
pub(crate) fn command(program: impl AsRef<std::ffi::OsStr>) -> Command {
    let mut command = Command::new(program);
    command.current_dir(root()).stdin(Stdio::null());
    command
}

/// Runs a command to its end, its output going where ours goes.
pub(crate) fn run(command: &mut Command) -> Done {
    let status = command.status().map_err(|error| format!("{}: {error}", shown(command)))?;
    if status.success() { Ok(()) } else { Err(format!("{}: {status}", shown(command))) }
}

/// Runs a command to its end and takes what it prints.
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

/// Whether a command runs and succeeds, quietly.
pub(crate) fn succeeds(command: &mut Command) -> bool {
    command
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

/// A command as somebody would type it.
pub(crate) fn shown(command: &Command) -> String {
    let program = Path::new(command.get_program()).file_name().unwrap_or(command.get_program());
    let words = std::iter::once(program).chain(command.get_args());
    words.map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ")
}

/// The output of `cargo metadata`.
pub(crate) fn metadata() -> Done<serde_json::Value> {
    metadata_of("Cargo.toml")
}

/// The same for a workspace of its own.
pub(crate) fn metadata_of(manifest: &str) -> Done<serde_json::Value> {
    let arguments = ["metadata", "--format-version=1", "--no-deps", "--manifest-path", manifest];
    let text = output(&mut cargo(&arguments))?;
    serde_json::from_str(&text).map_err(|error| format!("cargo metadata: {error}"))
}

/// Builds what the tests of the workspace run, and finds a program among it. After the tests there is
/// nothing left to build, which is why the gate takes its programs from there: a package that is built
/// alone has other features, and all it depends on is compiled again.
pub(crate) fn built_by_tests(program: &str) -> Done<PathBuf> {
    run(&mut cargo(&["test", "--quiet", "--locked", "--workspace", "--no-run"]))?;
    Ok(target()?.join("debug").join(format!("{program}{}", env::consts::EXE_SUFFIX)))
}

/// The directory of built things.
pub(crate) fn target() -> Done<PathBuf> {
    let metadata = metadata()?;
    let directory = metadata.get("target_directory").and_then(|directory| directory.as_str());
    directory
        .map(PathBuf::from)
        .ok_or_else(|| "cargo metadata names no target directory".to_owned())
}
