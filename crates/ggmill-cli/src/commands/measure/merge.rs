//! `ggmill measure merge`: merges measurements of parts of a text.

use std::path::PathBuf;

use ggmill::{check_output, merge_scores};

use super::{Page, report};
use crate::console::Console;
use crate::outcome::{Failure, Status};
use crate::outputs::refuse_stream;

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
    if let Some(path) = &args.html {
        refuse_stream(path)?;
        check_output(path, &args.parts, args.force)?;
    }
    let scores = merge_scores(&args.parts)?;
    let page = args.html.as_deref();
    let page = page.map(|path| Page { path, inputs: &args.parts, force: args.force });
    report(&scores, page, args.json, console)
}
