//! The whole gate. What passes here may be merged.

use std::fs;
use std::time::Instant;

use crate::process::{Done, cargo, run as run_command};
use crate::{features, fuzz, graph, npm, packages, python, site, targets, web};

#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// Leave out `cargo test`, for a caller who has run it
    #[arg(long)]
    no_tests: bool,
    /// Run every case of exhaustive tests (with `GGMILL_LONG=1`) and fuzz for longer, which takes
    /// hours
    #[arg(long)]
    long: bool,
}

type Step<'a> = (&'static str, &'a dyn Fn() -> Done);

/// Runs every step, also after one has failed: one run shows every failure.
pub(crate) fn run(args: &Args) -> Done {
    let steps: [Step; 14] = [
        ("tests", &|| tests(args.long)),
        ("tests of chores and fuzz targets", &tests_of_chores),
        ("format", &format),
        ("lints", &lints),
        ("documentation", &documentation),
        ("crate graph", &graph::run),
        ("features", &features::run),
        ("optimized codecs", &optimized_codecs),
        ("packages", &packages::run),
        ("other targets", &|| targets::run(&targets::Args::of_the_gate())),
        ("Python package", &python::gate),
        ("npm package", &npm::gate),
        ("inspector page", &web::gate),
        ("fuzzing", &|| fuzz::smoke(&fuzz::Args::of_the_gate(args.long))),
    ];
    let (mut failed, mut report) = (Vec::new(), Vec::new());
    for (name, step) in steps {
        if args.no_tests && name == "tests" {
            continue;
        }
        println!("\n== {name}");
        let (begin, before) = (Instant::now(), processor_seconds());
        let done = step();
        let seconds = begin.elapsed().as_secs();
        let time = match (before, processor_seconds()) {
            (Some(before), Some(after)) => {
                format!("{seconds} s, {} s of processors", after - before)
            }
            _ => format!("{seconds} s"),
        };
        report.push(match done {
            Ok(()) => format!("== {name}: passed in {time}"),
            Err(message) => {
                failed.push(name);
                format!("== {name}: FAILED after {time}: {message}")
            }
        });
        println!("{}", report.last().map_or("", |line| line));
    }
    println!("\n{}", report.join("\n"));
    if failed.is_empty() { Ok(()) } else { Err(format!("failed: {}", failed.join(", "))) }
}

/// Returns the CPU time of completed child processes in seconds, on Linux. It hardly depends on
/// other load.
fn processor_seconds() -> Option<u64> {
    /// Clock ticks per second in `/proc`, on every machine.
    const TICKS: u64 = 100;
    let stat = fs::read_to_string("/proc/self/stat").ok()?;
    // The name of the program may have spaces.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(13);
    let mut ticks = || fields.next()?.parse::<u64>().ok();
    Some((ticks()? + ticks()?) / TICKS)
}

fn tests(long: bool) -> Done {
    let mut test = cargo(&["test", "--workspace"]);
    if long {
        test.env("GGMILL_LONG", "1");
    }
    run_command(&mut test)
}

/// Runs the tests that `cargo test --workspace` leaves out, because users of the libraries do not
/// need them. They are two commands: `--bin` would leave out the binary that the second one runs.
fn tests_of_chores() -> Done {
    run_command(&mut cargo(&["test", "--workspace", "--locked", "--bin", "xtask"]))?;
    run_command(&mut cargo(&["test", "--workspace", "--locked", "--test", "targets"]))
}

/// Checks the format of the workspace and of the packages outside it.
fn format() -> Done {
    run_command(&mut cargo(&["fmt", "--all", "--check"]))?;
    [
        "crates/ggmill-python",
        "crates/ggmill-wasm",
        "xtask/targets/probe",
        "xtask/targets/wasm",
        "conformance/quant_work",
        "conformance/candle",
    ]
    .into_iter()
    .try_for_each(|package| {
        let manifest = format!("--manifest-path={package}/Cargo.toml");
        run_command(&mut cargo(&["fmt", "--check", &manifest]))
    })
}

fn lints() -> Done {
    run_command(&mut cargo(&[
        "clippy",
        "--workspace",
        "--all-targets",
        "--locked",
        "--",
        "-Dwarnings",
    ]))
}

/// Builds the codecs as `cargo install` does: the compiler has failed on vector code that it accepts with
/// fewer optimizations.
fn optimized_codecs() -> Done {
    run_command(&mut cargo(&["build", "--quiet", "--release", "--locked", "-p", "ggmill-quant"]))
}

fn documentation() -> Done {
    site::links()?;
    run_command(
        cargo(&["doc", "--workspace", "--no-deps", "--locked"]).env("RUSTDOCFLAGS", "-Dwarnings"),
    )
}
