//! The inspector page: builds it with Vite, and tests it in a browser.

use std::path::Path;

use crate::npm;
use crate::process::{Done, built_by_tests, command, root, run as run_command};
use crate::targets::WebLibrary;

/// The directory of the page in the repository.
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

/// Builds and tests, or fails where that cannot be done. Without a browser the tests are skipped, and
/// say so.
pub(crate) fn run(args: &Args) -> Done {
    npm::build()?;
    install()?;
    build()?;
    if args.build {
        return Ok(());
    }
    test(&npm::build_command()?, &args.node)
}

/// The same as a step of the gate, which says what it leaves out.
pub(crate) fn gate() -> Done {
    if npm::modules(WebLibrary::Installed)?.is_none() {
        return Ok(());
    }
    if let Err(message) = install() {
        println!("skipped: the inspector page is not built: {message}");
        return Ok(());
    }
    build()?;
    test(&built_by_tests(npm::COMMAND)?, &[])
}

/// The packages of the lock file. None of them has to run anything to be installed.
fn install() -> Done {
    run_command(command("npm").current_dir(root().join(PAGE)).args([
        "ci",
        "--ignore-scripts",
        "--no-audit",
        "--no-fund",
    ]))
}

/// Checks the types, and builds the page into `web/dist`.
fn build() -> Done {
    run_command(command("npm").current_dir(root().join(PAGE)).args(["run", "build"]))
}

/// Runs the tests beside a built command, whose edits those of the page are compared with.
fn test(built: &Path, arguments: &[String]) -> Done {
    let mut node = command("node");
    node.current_dir(root().join(PAGE)).arg("--test").args(arguments);
    node.arg("test/page.test.js").env("GGMILL", built);
    run_command(&mut node)
}
