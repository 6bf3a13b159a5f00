//! `ggmill set-metadata`: what those type who come from gguf_set_metadata.

use std::path::PathBuf;

use crate::commands::edit;
use crate::console::Console;
use crate::outcome::{Failure, Status};

/// Set one key, as `ggmill edit FILE --set KEY=VALUE`
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The file
    file: PathBuf,
    /// The key
    key: String,
    /// The value
    #[arg(allow_hyphen_values = true)]
    value: String,
    /// Print what would happen, and write nothing
    #[arg(long)]
    dry_run: bool,
    /// Make an edit that would be refused
    #[arg(long, hide = true)]
    force: bool,
}

pub(crate) fn run(args: Args, console: Console) -> Result<Status, Failure> {
    let Args { file, key, value, dry_run, force } = args;
    edit::run(&edit::Args::set_one(file, &key, &value, dry_run, force), console)
}
