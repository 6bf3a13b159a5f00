//! The whole gate. What passes here may be merged.

use std::time::Instant;

use crate::process::{Done, cargo, run as run_command};
use crate::{features, fuzz, graph, npm, packages, python, site, targets};

#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// Leave out `cargo test`, for a caller who has run it
    #[arg(long)]
    no_tests: bool,
}

type Step = (&'static str, fn() -> Done);

/// Runs every step, also after one has failed: one run shows every failure.
pub(crate) fn run(args: &Args) -> Done {
    let steps: [Step; 11] = [
        ("tests", tests),
        ("format", format),
        ("lints", lints),
        ("documentation", documentation),
        ("crate graph", graph::run),
        ("features", features::run),
        ("packages", packages::run),
        ("other targets", || targets::run(&targets::Args::of_the_gate())),
        ("Python package", python::gate),
        ("npm package", npm::gate),
        ("fuzz smoke", || fuzz::smoke(&fuzz::Args::default())),
    ];
    let mut failed = Vec::new();
    for (name, step) in steps {
        if args.no_tests && name == "tests" {
            continue;
        }
        println!("\n== {name}");
        let begin = Instant::now();
        let done = step();
        let seconds = begin.elapsed().as_secs();
        match done {
            Ok(()) => println!("== {name}: passed in {seconds} s"),
            Err(message) => {
                println!("== {name}: FAILED after {seconds} s: {message}");
                failed.push(name);
            }
        }
    }
    if failed.is_empty() { Ok(()) } else { Err(format!("failed: {}", failed.join(", "))) }
}

fn tests() -> Done {
    run_command(&mut cargo(&["test", "--workspace"]))
}

/// The workspace, and what is kept out of it.
fn format() -> Done {
    run_command(&mut cargo(&["fmt", "--all", "--check"]))?;
    [
        "crates/ggmill-python",
        "crates/ggmill-wasm",
        "fuzz",
        "xtask/targets/probe",
        "xtask/targets/quant_work",
        "xtask/targets/wasm",
        "xtask/peers/candle",
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
    ]))?;
    run_command(&mut cargo(&[
        "clippy",
        "--manifest-path=fuzz/Cargo.toml",
        "--no-default-features",
        "--all-targets",
        "--locked",
        "--",
        "-Dwarnings",
    ]))
}

fn documentation() -> Done {
    site::links()?;
    run_command(
        cargo(&["doc", "--workspace", "--no-deps", "--locked"]).env("RUSTDOCFLAGS", "-Dwarnings"),
    )
}
