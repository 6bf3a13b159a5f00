//! Fuzzing: seeds, and the smoke run of the gate. The targets are in `fuzz/`.

use std::process::Command;

use crate::process::{Done, cargo, command, output, run, succeeds};

#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// How long each target runs
    #[arg(long, value_name = "SECONDS", default_value_t = 8)]
    seconds: u32,
    /// Do without a nightly toolchain and cargo-fuzz even where they are installed
    #[arg(long)]
    stable: bool,
}

impl Default for Args {
    fn default() -> Self {
        Self { seconds: 8, stable: false }
    }
}

/// Writes the seeds of every target into `fuzz/corpus`, which is not committed: the code that
/// builds them is.
pub(crate) fn seeds() -> Done {
    run(&mut harness(&["seeds", "fuzz/corpus"]))
}

/// Runs every target for a short while: guided by coverage where cargo-fuzz can be built, over
/// mutated seeds where not.
pub(crate) fn smoke(args: &Args) -> Done {
    seeds()?;
    let guided = !args.stable && succeeds(&mut cargo_fuzz(&["--version"])) && builds();
    if !guided {
        println!("no nightly toolchain with cargo-fuzz: mutating the seeds without guidance");
    }
    for target in targets()? {
        if guided {
            let corpus = format!("fuzz/corpus/{target}");
            let time = format!("-max_total_time={}", args.seconds);
            let limits = [
                "-rss_limit_mb=2048",
                "-malloc_limit_mb=64",
                "-max_len=4096",
                "-timeout=10",
                "-verbosity=0",
                "-print_final_stats=1",
            ];
            run(cargo_fuzz(&["run", &target, &corpus, "--", &time]).args(limits))?;
        } else {
            run(&mut harness(&[
                "run",
                &target,
                &args.seconds.to_string(),
                &format!("fuzz/corpus/{target}"),
            ]))?;
        }
    }
    Ok(())
}

/// Whether the guided targets build here: they need a C++ compiler besides.
fn builds() -> bool {
    run(&mut cargo_fuzz(&["build"])).inspect_err(|error| println!("{error}")).is_ok()
}

fn targets() -> Done<Vec<String>> {
    Ok(output(&mut harness(&["targets"]))?.lines().map(str::to_owned).collect())
}

fn cargo_fuzz(arguments: &[&str]) -> Command {
    // Through rustup, which alone understands "+nightly".
    let mut command = command("cargo");
    command.args(["+nightly", "fuzz"]).args(arguments);
    command
}

fn harness(arguments: &[&str]) -> Command {
    let mut command = cargo(&[
        "run",
        "--quiet",
        "--release",
        "--locked",
        "--manifest-path=fuzz/Cargo.toml",
        "--no-default-features",
        "--bin=harness",
        "--",
    ]);
    command.args(arguments);
    command
}
