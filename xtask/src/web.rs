//! The inspector page: builds it with Vite, and tests it in a browser.

use std::path::Path;

use crate::npm;
use crate::process::{Done, built_by_tests, command, root, run as run_command};
use crate::targets::WebLibrary;

/// The page's directory.
const PAGE: &str = "web";

#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// Leave the tests out
    #[arg(long)]
    build: bool,
    /// Arguments for `node --test`, after --
    #[arg(last = true)]
    node: Vec<String>,
}

/// Builds and tests the page. Fails if a tool is missing; without a browser the tests are skipped.
pub(crate) fn run(args: &Args) -> Done {
    npm::build()?;
    install()?;
    build()?;
    if args.build {
        return Ok(());
    }
    test(&npm::build_command()?, &args.node)
}

/// The step of the gate: builds and tests, or reports which tool is missing.
pub(crate) fn gate() -> Done {
    if npm::modules(WebLibrary::Installed)?.is_none() {
        return Ok(());
    }
    if let Err(message) = install() {
        println!("skipped: the inspector page is not built: {message}");
        return Ok(());
    }
    build()?;
    test(&built_by_tests(npm::COMMAND, &[])?, &[])
}

/// Installs the packages of the lock file without their install scripts.
fn install() -> Done {
    run_command(command("npm").current_dir(root().join(PAGE)).args([
        "ci",
        "--ignore-scripts",
        "--no-audit",
        "--no-fund",
    ]))
}

/// Checks the types and builds the page into `web/dist`.
fn build() -> Done {
    run_command(command("npm").current_dir(root().join(PAGE)).args(["run", "build"]))
}

/// Runs the tests, which compare edits with those of the built command.
fn test(built: &Path, arguments: &[String]) -> Done {
    let mut node = command("node");
    node.current_dir(root().join(PAGE)).arg("--test").args(arguments);
    node.arg("test/page.test.js").env("GGMILL", built);
    run_command(&mut node)
}
