//! `ggmill man`: manual pages.

use std::io::Write as _;

use crate::console::Console;
use crate::outcome::{Failure, Status};

/// Print a manual page
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  ggmill man | man -l -
  ggmill man inspect > ggmill-inspect.1")]
pub(crate) struct Args {
    /// The command the page is about; without one, ggmill itself
    command: Option<String>,
}

pub(crate) fn run(
    args: &Args,
    mut program: clap::Command,
    console: Console,
) -> Result<Status, Failure> {
    program.build();
    let command = match &args.command {
        None => program,
        Some(name) => match program.find_subcommand(name) {
            Some(command) => command.clone(),
            None => {
                return Err(Failure::new(format_args!(
                    "no command {:?}",
                    ggmill_core::RawStr::from(name.as_str())
                )));
            }
        },
    };
    let mut out = console.bytes();
    let version = concat!("ggmill ", env!("CARGO_PKG_VERSION"));
    clap_mangen::Man::new(command).source(version).manual("ggmill manual").render(&mut out)?;
    out.flush()?;
    Ok(Status::Fine)
}
