//! `ggmill man`: prints manual pages.

use std::io::Write as _;

use crate::console::Console;
use crate::outcome::{Failure, Status};

/// Print a manual page
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  ggmill man | man -l -
  ggmill man inspect > ggmill-inspect.1
  ggmill man imatrix show | man -l -")]
pub(crate) struct Args {
    /// The command [default: ggmill itself]
    #[arg(value_name = "COMMAND")]
    commands: Vec<String>,
}

pub(crate) fn run(
    args: &Args,
    mut program: clap::Command,
    console: Console,
) -> Result<Status, Failure> {
    program.build();
    let mut command = program;
    for name in args.commands.iter().flat_map(|words| words.split_whitespace()) {
        let found = command.find_subcommand(name).cloned();
        command = found.ok_or_else(|| {
            let name = ggmill_core::RawStr::from(name);
            let known: Vec<_> = command
                .get_subcommands()
                .filter(|known| !known.is_hide_set())
                .map(clap::Command::get_name)
                .collect();
            Failure::new(format_args!("{} has no command {name:?}", command.get_name())).with_hint(
                (!known.is_empty()).then(|| format!("its commands are {}", known.join(", "))),
            )
        })?;
    }
    let mut out = console.bytes();
    let version = concat!("ggmill ", env!("CARGO_PKG_VERSION"));
    clap_mangen::Man::new(command).source(version).manual("ggmill manual").render(&mut out)?;
    out.flush()?;
    Ok(Status::Fine)
}
