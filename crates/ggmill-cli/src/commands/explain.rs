//! `ggmill explain`: the page of a rule, a type, a key or an architecture.

use std::io::Write as _;

use ggmill_arch::Catalogue;
use ggmill_core::RawStr;

use crate::console::Console;
use crate::outcome::{Failure, Status};

/// Explain a rule of `check`, a tensor or metadata type, a standard key, or an architecture
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  ggmill explain GG1302
  ggmill explain Q4_K
  ggmill explain general.alignment")]
pub(crate) struct Args {
    /// The code of a rule, or the name of a type, key or architecture
    topic: String,
}

pub(crate) fn run(args: &Args, console: Console) -> Result<Status, Failure> {
    let page = ggmill_check::explain(args.topic.trim(), &Catalogue::new()).ok_or_else(|| {
        Failure::new(format_args!("nothing is known of {:?}", RawStr::from(args.topic.as_str())))
            .with_hint(Some("rules have codes such as GG1302; docs/rules in the repository lists them all".to_owned()))
    })?;
    let mut out = console.text();
    out.write_all(page.as_bytes())?;
    out.flush()?;
    Ok(Status::Fine)
}
