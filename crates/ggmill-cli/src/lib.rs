//! The `ggmill` command: parses arguments, calls the crate `ggmill`, and prints the result.
//!
//! This crate is the only place that prints, colors, reads the environment and decides exit codes;
//! everything else is in the libraries. Results go to standard output, everything else to standard
//! error. The exit code is 0 for success, 1 for findings or differences, 2 for failure. A reader that
//! closes the pipe early is not a failure.
#![forbid(unsafe_code)]

use std::ffi::OsString;
use std::process::ExitCode;

mod args;
mod commands;
mod console;
mod files;
mod guard;
mod hints;
mod library;
mod model_output;
mod options;
mod outcome;
mod progress;
#[cfg(feature = "remote")]
mod remote;
#[cfg(not(feature = "remote"))]
#[path = "no_remote.rs"]
mod remote;
mod usage_errors;

use console::Console;

/// Runs the command, and returns its exit code. The first argument is the name of the program.
///
/// ```no_run
/// let status = ggmill_cli::run(["ggmill", "inspect", "model.gguf"].map(Into::into));
/// ```
pub fn run(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    // A write beyond the file size limit (`ulimit -f`) raises this signal, which ends the process
    // unless it is handled; with a handler, the write fails with EFBIG. If the handler cannot be
    // installed, the default remains.
    #[cfg(unix)]
    let _ = signal_hook::flag::register(
        signal_hook::consts::signal::SIGXFSZ,
        std::sync::Arc::default(),
    );
    let args: Vec<OsString> = args.into_iter().collect();
    let cli = match args::Cli::parse_safely(&args) {
        Ok(cli) => cli,
        Err(error) => {
            // clap returns help and the version as errors, too; those go to standard output. A closed
            // pipe is not a failure.
            let console = Console::new(args::Cli::color_of(&args).into(), false);
            let is_printed = console
                .usage(&error)
                .map_or_else(|error| error.kind() == std::io::ErrorKind::BrokenPipe, |()| true);
            return ExitCode::from(if error.use_stderr() || !is_printed { 2 } else { 0 });
        }
    };
    let console = Console::new(cli.color.into(), cli.quiet);
    if cli.no_cache {
        remote::without_cache();
    }
    let result = cli.command.run(console);
    if let Err(failure) = &result {
        console.error(failure);
    }
    outcome::exit_code(&result)
}
