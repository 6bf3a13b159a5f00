//! The `ggmill` command.

use std::process::ExitCode;

fn main() -> ExitCode {
    ggmill_cli::run(std::env::args_os())
}
