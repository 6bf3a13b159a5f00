//! The command beside an older build of it.

use std::fs;
use std::path::PathBuf;

use super::{environment, ggmill};
use crate::process::{Done, root, run, target};

#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// The older program
    older: PathBuf,
    /// How many turns each has with each command
    #[arg(long, default_value_t = 9)]
    rounds: u32,
    /// MB of weights in each generated file
    #[arg(long, default_value_t = 1024)]
    megabytes: u32,
    /// Rows of the table, as it names them [default: all]
    #[arg(long = "row", value_name = "COMMAND")]
    rows: Vec<String>,
}

pub(super) fn execute(args: &Args) -> Done {
    let directory = target()?.join("peers/older");
    fs::create_dir_all(&directory).map_err(|error| format!("{}: {error}", directory.display()))?;
    run(environment::script("older.py")?
        .args([&args.older, &ggmill()?, &directory])
        .arg(root().join("crates/ggmill-testdata/real"))
        .arg(root().join("../shared/data"))
        .args([args.rounds, args.megabytes].map(|number| number.to_string()))
        .args(&args.rows))
}
