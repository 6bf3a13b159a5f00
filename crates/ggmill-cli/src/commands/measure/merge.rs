//! `ggmill measure merge`: measurements of parts of a text become one of the whole.

use std::path::PathBuf;

use ggmill_run::Scores;

use super::report;
use crate::console::Console;
use crate::outcome::{Failure, Status};
use crate::outputs::Output;
use crate::paths::shown;
use crate::text_file::read_bytes;

/// Bytes of the scores of a part: a hundred for each position of each model.
const MAX_SCORES_LEN: u64 = 1 << 30;

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  ggmill measure merge a.json b.json
  ggmill measure merge parts/*.json --html page.html

The parts may be in any order. They must be of the same models and the same base, and together have \
all chunks from the first to the last.")]
pub(crate) struct Args {
    /// Files written by `measure --scores`
    #[arg(required = true, value_name = "SCORES.json")]
    parts: Vec<PathBuf>,
    /// Write an HTML page with a table of all models, and curves of the KL divergence
    #[arg(long, value_name = "PAGE.html")]
    html: Option<PathBuf>,
    /// Replace PAGE.html if it exists
    #[arg(long, requires = "html")]
    force: bool,
    /// Write JSON
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &Args, console: Console) -> Result<Status, Failure> {
    let start =
        |path: &PathBuf| Output::new(path, &args.parts, args.force)?.start(&args.parts, 0);
    let page = args.html.as_ref().map(start).transpose()?;
    let part = |path: &PathBuf| {
        let found = Scores::parse(&read_bytes(path, MAX_SCORES_LEN)?);
        found.map_err(|error| Failure::new(format_args!("{}: {error}", shown(path))))
    };
    let parts: Vec<Scores> = args.parts.iter().map(part).collect::<Result<_, _>>()?;
    let scores = Scores::merge(parts).map_err(Failure::new)?;
    report(&scores, page, args.json, console)
}
