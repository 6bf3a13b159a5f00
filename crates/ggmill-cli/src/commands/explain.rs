//! `ggmill explain`: the page of a rule, a type, a key or an architecture.

use std::io::Write as _;

use ggmill_arch::Catalogue;
use ggmill_check::{near, render, rules_about};
use ggmill_core::RawStr;
use ggmill_inspect::explain::{self, key_page};

use crate::console::Console;
use crate::outcome::{Failure, Status};

/// Explain a rule of `check`, a tensor or metadata type, a standard key, or an architecture
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  ggmill explain GG1302
  ggmill explain tokenizer
  ggmill explain Q4_K
  ggmill explain Q4_K_M
  ggmill explain context_length
  ggmill explain types        # all types; also standard-keys, architectures
  ggmill explain              # list all topics")]
pub(crate) struct Args {
    /// A rule code, or the name of a rule group, type, metadata key or architecture; without it,
    /// all topics are listed
    topic: Option<String>,
}

pub(crate) fn run(args: &Args, console: Console) -> Result<Status, Failure> {
    let catalogue = Catalogue::new();
    let page = match args.topic.as_deref().map(str::trim) {
        None => format!(
            "# What `ggmill explain` knows\n\n{}{}",
            ggmill_check::topics(),
            explain::topics(&catalogue)
        ),
        Some(topic) => page(topic, &catalogue).ok_or_else(|| unknown(topic, &catalogue))?,
    };
    let mut out = console.text();
    render::page(&mut out, &page, console.is_styled(), console.width())?;
    out.flush()?;
    Ok(Status::Fine)
}

/// The page of a rule or a group of rules, else of a type or an architecture, else of a key.
fn page(topic: &str, catalogue: &Catalogue) -> Option<String> {
    let of_key = || key_page(topic, catalogue).map(|page| page + &rules_about(topic));
    ggmill_check::explain(topic).or_else(|| explain::page(topic, catalogue)).or_else(of_key)
}

fn unknown(topic: &str, catalogue: &Catalogue) -> Failure {
    let near = near(topic, explain::names(catalogue));
    let hint = if near.is_empty() {
        "`ggmill explain` lists all topics".to_owned()
    } else {
        format!("perhaps {}", near.join(" or "))
    };
    Failure::new(format_args!("unknown topic {:?}", RawStr::from(topic))).with_hint(Some(hint))
}
