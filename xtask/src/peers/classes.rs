//! Recipes of checkpoints and of adapters, against the reference converter.

use std::env;
use std::process::Command;

use super::{OURS, environment, ggmill};
use crate::process::{Done, command, root, run, target};

/// An interpreter with torch, transformers 4.57.6 and numpy.
const PYTHON: &str = "REFERENCE_PYTHON";

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// What the script is to do: try NAME…, bless NAME…, ref NAME, materialize NAME DIR, build …
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    words: Vec<String>,
}

/// Passes the words on to a script that the reference's interpreter runs.
pub(super) fn execute(name: &str, args: &Args) -> Done {
    let needs_ours = matches!(args.words.first().map(String::as_str), Some("try" | "bless"));
    run(script(name, needs_ours)?.args(&args.words))
}

/// Compares every recipe with the reference, so many at once.
pub(super) fn all(jobs: usize) -> Done {
    run(script("classes.py", true)?.args(["all", &jobs.max(1).to_string()]))
}

/// Runs a script for recipes in the environment with libllama, beside the reference's.
pub(super) fn beside(name: &str, recipes: &[String]) -> Done {
    reference()?;
    run(script_beside(name)?.args(recipes))
}

/// A script for recipes in the environment with libllama.
pub(super) fn script_beside(name: &str) -> Done<Command> {
    let mut script = environment::script(name)?;
    give_environment(&mut script, true)?;
    Ok(script)
}

/// A script that the reference's interpreter runs.
pub(super) fn script(name: &str, needs_ours: bool) -> Done<Command> {
    let mut script = command(reference()?);
    script.arg(root().join("xtask/peers").join(name));
    give_environment(&mut script, needs_ours)?;
    Ok(script)
}

/// The reference's interpreter.
pub(super) fn reference() -> Done<std::ffi::OsString> {
    env::var_os(PYTHON).ok_or_else(|| {
        format!(
            "{PYTHON} names no interpreter: one with torch, transformers 4.57.6 and numpy; LLAMA_CPP \
             is the directory vendor/llama.cpp of llama-cpp-python 0.3.36"
        )
    })
}

/// Gives a script the variables that it reads: ours is built where none is named.
fn give_environment(script: &mut Command, needs_ours: bool) -> Done {
    if env::var_os("CLASSES_CACHE").is_none() {
        let cache = target()?.join("peers/classes");
        std::fs::create_dir_all(&cache).map_err(|error| format!("{}: {error}", cache.display()))?;
        script.env("CLASSES_CACHE", cache);
    }
    if needs_ours {
        script.env(OURS, ggmill()?);
    }
    Ok(())
}
