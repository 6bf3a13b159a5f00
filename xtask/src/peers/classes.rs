//! Recipes of checkpoints, class by class, against the reference converter.

use std::env;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::thread;

use super::ggmill;
use crate::process::{Done, command, root, run, target};

/// Where the recipes are.
const RECIPES: &str = "crates/ggmill-convert/tests/fixtures";

/// An interpreter with torch, transformers 4.57.6 and numpy.
const PYTHON: &str = "REFERENCE_PYTHON";

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// What xtask/peers/classes.py is to do: try NAME…, bless NAME…, ref NAME, materialize NAME DIR,
    /// build v4|v5 CONFIG NAME
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    words: Vec<String>,
}

/// Passes the words on, with the environment that the script needs.
pub(super) fn execute(args: &Args) -> Done {
    let needs_ours = matches!(args.words.first().map(String::as_str), Some("try" | "bless"));
    run(script(needs_ours)?.args(&args.words))
}

/// Compares every recipe with the reference, on so many processes.
pub(super) fn all(jobs: usize) -> Done {
    let mut names = Vec::new();
    for (kind, prefix) in [("classes", ""), ("mmproj", "mmproj/")] {
        let directory = root().join(RECIPES).join(kind);
        let files = std::fs::read_dir(&directory)
            .map_err(|error| format!("{}: {error}", directory.display()))?;
        names.extend(files.filter_map(|file| {
            let name = file.ok()?.file_name();
            Some(format!("{prefix}{}", name.to_string_lossy().strip_suffix(".json")?))
        }));
    }
    names.sort();
    // The first starts the reference, which all of them ask.
    let mut base = script(true)?;
    base.arg("try");
    let job = |number: usize| {
        let mut command = Command::new(base.get_program());
        command.current_dir(root()).stdin(Stdio::null()).args(base.get_args());
        command.envs(base.get_envs().filter_map(|(name, value)| Some((name, value?))));
        command.args(names.iter().skip(number).step_by(jobs.max(1)));
        command
    };
    let failed = thread::scope(|scope| {
        let running: Vec<_> = (0..jobs.max(1))
            .map(|number| {
                let mut command = job(number);
                scope.spawn(move || command.status())
            })
            .collect();
        running
            .into_iter()
            .map(|job| matches!(job.join(), Ok(Ok(status)) if status.success()))
            .filter(|is_fine| !is_fine)
            .count()
    });
    if failed == 0 {
        println!("{} recipes are equal to the reference", names.len());
        return Ok(());
    }
    Err(format!("recipes differ from the reference in {failed} of {jobs} processes"))
}

/// The interpreter with the reference.
pub(super) fn python() -> Done<PathBuf> {
    env::var_os(PYTHON).map(PathBuf::from).ok_or_else(|| {
        format!(
            "{PYTHON} names no interpreter: one with torch, transformers 4.57.6 and numpy; LLAMA_CPP \
             is the directory vendor/llama.cpp of llama-cpp-python 0.3.36"
        )
    })
}

/// The script with the variables it reads: ours is built where none is named.
fn script(needs_ours: bool) -> Done<Command> {
    let mut script = command(python()?);
    script.arg(root().join("xtask/peers/classes.py"));
    if env::var_os("CLASSES_CACHE").is_none() {
        let cache: PathBuf = target()?.join("peers/classes");
        std::fs::create_dir_all(&cache).map_err(|error| format!("{}: {error}", cache.display()))?;
        script.env("CLASSES_CACHE", cache);
    }
    if needs_ours && env::var_os("GGMILL").is_none() {
        script.env("GGMILL", ggmill()?);
    }
    Ok(script)
}
