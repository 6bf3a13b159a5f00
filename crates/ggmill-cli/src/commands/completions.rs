//! `ggmill completions`: scripts for the completion of commands and options in a shell.

use std::io::Write as _;

use crate::console::Console;
use crate::outcome::{Failure, Status};

/// Print shell completions
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  ggmill completions bash > ~/.local/share/bash-completion/completions/ggmill
  ggmill completions fish > ~/.config/fish/completions/ggmill.fish")]
pub(crate) struct Args {
    /// The shell
    shell: clap_complete::Shell,
}

pub(crate) fn run(
    args: &Args,
    mut program: clap::Command,
    console: Console,
) -> Result<Status, Failure> {
    // The generator panics on a write error, which writing to memory does not have.
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut program, "ggmill", &mut script);
    let mut out = console.bytes();
    out.write_all(&script)?;
    out.flush()?;
    Ok(Status::Fine)
}
