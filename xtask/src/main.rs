//! The project's own chores, as `cargo xtask <chore>`.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a chore says what it does")]

mod ci;
mod features;
mod flags;
mod fuzz;
mod graph;
mod names;
mod npm;
mod packages;
mod process;
mod python;
mod rust;
mod site;
mod sources;
mod structure;
mod targets;
mod web;
mod words;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::process::Done;

/// The project's own chores
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Xtask {
    #[command(subcommand)]
    chore: Chore,
}

#[derive(Debug, Subcommand)]
enum Chore {
    /// Run the whole gate: tests, format, lints, documentation, crate graph, features,
    /// other targets, the Python package, the npm package, the inspector page, fuzz smoke. With
    /// `--long`: every test case and longer fuzzing, for hours
    Ci(ci::Args),
    /// Check which crate depends on which, which may touch files, threads or the terminal, and that
    /// no code names an architecture
    Graph,
    /// Check the links of the documentation, and build its site where mdBook is installed
    Site,
    /// Package every published crate, and build programs that depend on the packages
    Packages,
    /// Write the seeds of every fuzz target into fuzz/corpus
    FuzzSeeds,
    /// Run every fuzz target for a short while
    FuzzSmoke(fuzz::Args),
    /// Build and test for other machines, as far as there are toolchains and emulators for them
    Targets(targets::Args),
    /// Build the Python package in a virtual environment, install it and test it
    Python(python::Args),
    /// Build the WebAssembly modules of the npm package, and test it with Node.js
    Npm(npm::Args),
    /// Build the inspector page, and test it in a browser
    Web(web::Args),
}

fn main() -> ExitCode {
    let done: Done = match Xtask::parse().chore {
        Chore::Ci(args) => ci::run(&args),
        Chore::Graph => graph::run(),
        Chore::Site => site::run(),
        Chore::Packages => packages::run(),
        Chore::FuzzSeeds => fuzz::seeds(),
        Chore::FuzzSmoke(args) => fuzz::smoke(&args),
        Chore::Targets(args) => targets::run(&args),
        Chore::Python(args) => python::run(&args),
        Chore::Npm(args) => npm::run(&args),
        Chore::Web(args) => web::run(&args),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("error: {message}");
            ExitCode::FAILURE
        }
    }
}
