//! The `ggmill` command: arguments as typed, then a configuration, then a command that writes its
//! result.
//!
//! This crate is the only place that prints, colors, reads the environment and decides exit codes;
//! everything else is in the libraries. Results go to standard output, everything else to standard
//! error. The exit code is 0 when all is well, 1 when there are findings or differences, 2 when
//! something was refused or failed. A reader that closes the pipe early is not a failure.
#![forbid(unsafe_code)]

use std::ffi::OsString;
use std::process::ExitCode;

mod arch_file;
mod args;
mod bad_numbers;
mod byte_size;
mod checked;
mod commands;
mod console;
mod counted;
mod each;
mod gather;
mod hints;
mod journal;
mod making;
mod other_tools;
mod outcome;
mod outputs;
mod paths;
mod progress;
mod ran;
#[cfg(feature = "remote")]
mod remote;
#[cfg(not(feature = "remote"))]
#[path = "no_remote.rs"]
mod remote;
mod run_model;
mod shard_limit;
mod source;
mod text_file;
mod tokenizer;
mod web;

use console::Console;

/// Runs the command with these arguments, of which the first is the name of the program, and says
/// how it ended.
///
/// ```no_run
/// let status = ggmill_cli::run(["ggmill", "inspect", "model.gguf"].map(Into::into));
/// ```
pub fn run(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    // With this a write beyond the limit on the size of files is an error like any other, and not
    // the end of the process. Without it, so be it.
    #[cfg(unix)]
    let _ = signal_hook::flag::register(
        signal_hook::consts::signal::SIGXFSZ,
        std::sync::Arc::default(),
    );
    let args: Vec<OsString> = args.into_iter().collect();
    let cli = match args::Cli::parse_with_colors(&args) {
        Ok(cli) => cli,
        Err(error) => {
            // Help and version are answers, the rest is misuse. A pipe that was closed early has
            // had its answer.
            let printed = error
                .print()
                .map_or_else(|error| error.kind() == std::io::ErrorKind::BrokenPipe, |()| true);
            return ExitCode::from(if error.use_stderr() || !printed { 2 } else { 0 });
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
