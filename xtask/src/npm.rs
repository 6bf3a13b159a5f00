//! The npm package: builds its WebAssembly modules, and tests it with Node.js.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::process::{
    Done, built_by_tests, cargo, command, output, root, run as run_command, succeeds, target,
};
use crate::targets::{self, WebLibrary};

/// The package's directory.
const PACKAGE: &str = "npm";
/// The file of each module, and the features it is built with.
const MODULES: [(&str, &[&str]); 4] = [
    ("reader.wasm", &[]),
    ("core.wasm", &["--features=core"]),
    ("text.wasm", &["--features=text"]),
    ("estimate.wasm", &["--features=estimate"]),
];
/// The type checker and the declarations it needs.
const TYPESCRIPT: [&str; 2] = ["typescript@5", "@types/node@20"];
/// The command, whose results the tests compare with.
pub(crate) const COMMAND: &str = "ggmill";
/// The JavaScript runtimes that the package supports, with the arguments to run a script.
const RUNTIMES: [(&str, &[&str]); 3] = [("node", &[]), ("deno", &["run", "-A"]), ("bun", &["run"])];
/// The test that runs in each of them.
const PORTABLE: &str = "test/portable/main.mjs";

#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// Leave the tests out
    #[arg(long)]
    build: bool,
    /// Arguments for `node --test`, after --
    #[arg(last = true)]
    node: Vec<String>,
}

/// Builds and tests the package. Fails if a tool is missing.
pub(crate) fn run(args: &Args) -> Done {
    let library = build()?;
    if args.build {
        return Ok(());
    }
    test(&build_command()?, library, &args.node)
}

/// Builds the modules as they are published: for size, if the source of the standard library is
/// installed.
pub(crate) fn build() -> Done<WebLibrary> {
    let library = match targets::web_cargo("build", WebLibrary::ForSize) {
        Ok(_) => WebLibrary::ForSize,
        Err(missing) => {
            println!("the modules are larger than those that are published: {missing}");
            WebLibrary::Any
        }
    };
    modules(library)?.ok_or("the npm package was not built")?;
    Ok(library)
}

/// The step of the gate: builds and tests, or reports which tool is missing.
pub(crate) fn gate() -> Done {
    match modules(WebLibrary::Installed)? {
        Some(()) => test(&built_by_tests(COMMAND, &[])?, WebLibrary::Installed, &[]),
        None => Ok(()),
    }
}

/// Builds the modules into the package. Returns `None` and says why if a tool is missing.
pub(crate) fn modules(library: WebLibrary) -> Done<Option<()>> {
    if let Some(missing) = node_is_missing() {
        println!("skipped: {missing}");
        return Ok(None);
    }
    let directory = root().join(PACKAGE).join("wasm");
    fs::create_dir_all(&directory).map_err(|error| format!("{}: {error}", directory.display()))?;
    let built = target()?.join("npm");
    for (name, features) in MODULES {
        let mut command = match targets::web_cargo("build", library) {
            Ok(cargo) => cargo,
            Err(missing) => {
                println!("skipped: {missing}");
                return Ok(None);
            }
        };
        command.args(["--manifest-path=crates/ggmill-wasm/Cargo.toml", "--release"]).args(features);
        run_command(command.env("CARGO_TARGET_DIR", &built))?;
        let made = built.join(targets::WEB).join("release/ggmill_wasm.wasm");
        copy(&made, &directory.join(name))?;
    }
    for licence in ["LICENSE-MIT", "LICENSE-APACHE"] {
        // Copies, because a package cannot have links.
        copy(&root().join(licence), &root().join(PACKAGE).join(licence))?;
    }
    Ok(Some(()))
}

fn copy(from: &Path, to: &Path) -> Done {
    fs::copy(from, to).map(drop).map_err(|error| format!("{}: {error}", to.display()))
}

fn node_is_missing() -> Option<String> {
    let Ok(version) = output(command("node").arg("--version")) else {
        return Some("no node (package nodejs)".to_owned());
    };
    let major = version.trim().trim_start_matches('v').split('.').next()?.parse::<u32>();
    (!major.is_ok_and(|major| major >= 20))
        .then(|| format!("node is of version {}, expected 20 or later", version.trim()))
}

/// Runs the tests, which compare results with those of the built command.
fn test(built: &Path, library: WebLibrary, arguments: &[String]) -> Done {
    lints()?;
    types()?;
    let corpus = target()?.join("npm/corpus");
    run_command(
        cargo(&["run", "--quiet", "-p", "ggmill-testdata", "--example", "corpus", "--"])
            .arg(&corpus),
    )?;
    let package = root().join(PACKAGE);
    let mut node = command("node");
    node.current_dir(&package).arg("--test").args(arguments);
    for test in tests(&package.join("test"))? {
        node.arg(test);
    }
    node.env("GGMILL", built).env("GGMILL_CORPUS", corpus);
    if library != WebLibrary::ForSize {
        node.env("GGMILL_WASM_LARGE", "1");
    }
    let data = root().join("../shared/data");
    if data.is_dir() {
        node.env("GGMILL_DATA", data);
    } else {
        println!("{}: not there, and its files are not tested with", data.display());
    }
    run_command(&mut node)?;
    for (runtime, words) in RUNTIMES {
        if succeeds(command(runtime).arg("--version")) {
            run_command(command(runtime).current_dir(&package).args(words).arg(PORTABLE))?;
        } else {
            println!("{runtime} is not there, and the package is not tested with it");
        }
    }
    Ok(())
}

/// Builds only the command, which is faster than building all tests.
pub(crate) fn build_command() -> Done<PathBuf> {
    run_command(&mut cargo(&["build", "--locked", "-p", "ggmill-cli"]))?;
    Ok(target()?.join("debug").join(format!("{COMMAND}{}", std::env::consts::EXE_SUFFIX)))
}

fn tests(directory: &Path) -> Done<Vec<PathBuf>> {
    let failed = |error| format!("{}: {error}", directory.display());
    let mut tests = Vec::new();
    for entry in fs::read_dir(directory).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        if path.to_string_lossy().ends_with(".test.js") {
            tests.push(path);
        }
    }
    tests.sort();
    Ok(tests)
}

/// Runs Clippy over each module, if the toolchain has it.
fn lints() -> Done {
    for (_, features) in MODULES {
        let mut clippy = match targets::web_cargo("clippy", WebLibrary::Any) {
            Ok(clippy) => clippy,
            Err(missing) => {
                println!("skipped: no clippy for the modules: {missing}");
                return Ok(());
            }
        };
        run_command(
            clippy
                .args(["--manifest-path=crates/ggmill-wasm/Cargo.toml", "--release"])
                .args(features)
                .env("CARGO_TARGET_DIR", target()?.join("npm"))
                .args(["--", "-Dwarnings"]),
        )?;
    }
    Ok(())
}

/// Checks the declarations against programs that use them, if npm can install TypeScript.
fn types() -> Done {
    let tools = match install("npm-types", &TYPESCRIPT) {
        Ok(tools) => tools,
        Err(message) => {
            println!("skipped: the types are not checked: {message}");
            return Ok(());
        }
    };
    run_command(
        command("node")
            .current_dir(root().join(PACKAGE))
            .arg(tools.join("typescript/bin/tsc"))
            .args(["--project", "test/types", "--typeRoots"])
            .arg(tools.join("@types")),
    )
}

/// Installs npm packages into a directory in `target`, the first time. Returns it.
fn install(name: &str, packages: &[&str]) -> Done<PathBuf> {
    let directory = target()?.join(name);
    let modules = directory.join("node_modules");
    if modules.join(".package-lock.json").is_file() {
        return Ok(modules);
    }
    fs::create_dir_all(&directory).map_err(|error| format!("{}: {error}", directory.display()))?;
    let mut npm: Command = command("npm");
    npm.args(["install", "--no-audit", "--no-fund", "--no-save", "--prefix"]).arg(&directory);
    run_command(npm.args(packages))?;
    Ok(modules)
}
