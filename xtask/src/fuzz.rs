//! Fuzzing: seeds, and the smoke run of the gate. The targets are in `fuzz/`.

use std::path::PathBuf;
use std::process::{Command, Output};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use crate::process::{Done, built_by_tests, cargo, command, output, run, shown, succeeds, target};

/// The program that writes seeds, and mutates them if cargo-fuzz is not available.
const HARNESS: &str = "harness";

#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// Seconds per target
    #[arg(long, value_name = "SECONDS", default_value_t = 8)]
    seconds: u32,
    /// Do without a nightly toolchain and cargo-fuzz even where they are installed
    #[arg(long)]
    stable: bool,
}

impl Args {
    /// Returns the settings of the gate: a smoke run, or five minutes per target.
    pub(crate) fn of_the_gate(long: bool) -> Self {
        Self { seconds: if long { 300 } else { 8 }, stable: false }
    }
}

/// Writes the seeds of every target into `fuzz/corpus`, which is generated and not committed.
pub(crate) fn seeds() -> Done {
    let build = ["run", "--quiet", "--locked", "-p", "ggmill-fuzz", "--bin", HARNESS, "--"];
    run(cargo(&build).args(["seeds", "fuzz/corpus"]))
}

/// Runs every target for a short while, guided by coverage if cargo-fuzz builds, otherwise over
/// mutated seeds. One target runs per processor.
pub(crate) fn smoke(args: &Args) -> Done {
    let guided = !args.stable
        && succeeds(command("cargo").args(["+nightly", "fuzz", "--version"]))
        && builds();
    let built = if guided {
        // Built with the targets.
        guided_programs()?.join(HARNESS)
    } else {
        println!("no nightly toolchain with cargo-fuzz: mutating the seeds without guidance");
        built_by_tests(HARNESS, &["--test", "targets"])?
    };
    let harness = |arguments: &[&str]| {
        let mut harness = command(&built);
        harness.args(arguments);
        harness
    };
    run(&mut harness(&["seeds", "fuzz/corpus"]))?;
    let targets = output(&mut harness(&["targets"]))?;
    let targets: Vec<&str> = targets.lines().collect();
    each_at_once(&targets, |target| {
        let corpus = format!("fuzz/corpus/{target}");
        if guided {
            guided_run(args, target, &corpus)
        } else {
            harness(&["run", target, &args.seconds.to_string(), &corpus])
        }
    })
}

/// Returns the command of one guided target, with limits of memory and time.
fn guided_run(args: &Args, target: &str, corpus: &str) -> Command {
    let time = format!("-max_total_time={}", args.seconds);
    let limits = [
        "-rss_limit_mb=2048",
        "-malloc_limit_mb=64",
        "-max_len=4096",
        "-timeout=10",
        "-verbosity=0",
        "-print_final_stats=1",
    ];
    let mut run = cargo_fuzz("run", &[target, corpus, "--", &time]);
    run.args(limits);
    run
}

/// Runs a command for each name, one per processor, and prints its output when it ends. Starts none
/// after a failure.
fn each_at_once(names: &[&str], command: impl Fn(&str) -> Command + Sync) -> Done {
    let (next, failed) = (AtomicUsize::new(0), Mutex::new(Ok(())));
    let is_fine = || failed.lock().is_ok_and(|failed| failed.is_ok());
    let work = || {
        while is_fine()
            && let Some(name) = names.get(next.fetch_add(1, Ordering::Relaxed))
        {
            let mut command = command(name);
            let done = match command.output() {
                Ok(Output { status, stdout, stderr }) => {
                    // One write, because other threads print too.
                    let said =
                        [stdout, stderr].map(|said| String::from_utf8_lossy(&said).into_owned());
                    println!("-- {name}\n{}", said.concat());
                    if status.success() {
                        Ok(())
                    } else {
                        Err(format!("{}: {status}", shown(&command)))
                    }
                }
                Err(error) => Err(format!("{}: {error}", shown(&command))),
            };
            if done.is_err()
                && let Ok(mut failed) = failed.lock()
            {
                *failed = done;
            }
        }
    };
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(work);
        }
    });
    failed.into_inner().map_err(|error| error.to_string())?
}

/// Returns `true` if the guided targets build: they need a C++ compiler.
fn builds() -> bool {
    run(&mut cargo_fuzz("build", &[])).inspect_err(|error| println!("{error}")).is_ok()
}

/// Returns the directory of the programs that cargo-fuzz builds.
fn guided_programs() -> Done<PathBuf> {
    let about = output(command("rustc").args(["+nightly", "-vV"]))?;
    let host = about.lines().find_map(|line| line.strip_prefix("host: "));
    let host = host.ok_or("rustc names no host")?;
    Ok(target()?.join(host).join("release"))
}

/// Returns a subcommand of cargo-fuzz, which builds in the release profile.
fn cargo_fuzz(subcommand: &str, arguments: &[&str]) -> Command {
    // Only rustup understands "+nightly".
    let mut command = command("cargo");
    command.args(["+nightly", "fuzz", subcommand, "--features=libfuzzer"]).args(arguments);
    // Linking many programs with LTO is slow, and findings do not depend on it.
    command.env("CARGO_PROFILE_RELEASE_LTO", "off");
    command
}
