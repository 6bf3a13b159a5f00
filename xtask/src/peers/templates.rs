//! Rendered chat templates, compared with Jinja's.

use std::path::PathBuf;

use super::classes;
use crate::process::{Done, cargo, command, root, run, target};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Directories of templates, such as `models/templates` in a source tree of llama.cpp
    #[arg(required = true)]
    directories: Vec<PathBuf>,
    /// A file of huggingface.js with templates and variables of their own (repeatable)
    #[arg(long, value_name = "FILE")]
    cases: Vec<PathBuf>,
    /// Write what Jinja makes of the templates into crates/ggmill-template/tests instead
    #[arg(long, conflicts_with = "cases")]
    record: bool,
}

pub(super) fn execute(args: &Args) -> Done {
    let mut script = command(classes::reference()?);
    script.arg(root().join("xtask/peers/templates.py"));
    if args.record {
        let tests = root().join("crates/ggmill-template/tests");
        return run(script.arg("--record").arg(tests).args(&args.directories));
    }
    run(&mut cargo(&[
        "build",
        "--quiet",
        "--release",
        "--package=ggmill-template",
        "--example=render",
    ]))?;
    for file in &args.cases {
        script.arg("--cases").arg(file);
    }
    run(script.arg(target()?.join("release/examples/render")).args(&args.directories))
}
