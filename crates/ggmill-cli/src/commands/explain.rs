//! `ggmill explain`: the page of a rule, a type, a key or an architecture.

use std::io::Write as _;

use ggmill_arch::Catalogue;
use ggmill_arch::graph::OPERATION_SET;
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
  ggmill explain qwen3 --graph # the computation graph
  ggmill explain qwen3 --graph --svg > qwen3.svg
  ggmill explain types        # all types; also standard-keys, architectures
  ggmill explain              # list all topics")]
pub(crate) struct Args {
    /// A rule code, or the name of a rule group, type, metadata key or architecture; without it,
    /// all topics are listed
    topic: Option<String>,
    /// Print the computation graph of the architecture
    #[arg(long, requires = "topic")]
    graph: bool,
    /// Print the computation graph as a picture, an SVG document
    #[arg(long, requires = "graph")]
    svg: bool,
}

pub(crate) fn run(args: &Args, console: Console) -> Result<Status, Failure> {
    let catalogue = Catalogue::new();
    if args.graph {
        let topic = args.topic.as_deref().unwrap_or_default().trim();
        let mut out = console.text();
        out.write_all(graph(topic, args.svg, &catalogue)?.as_bytes())?;
        out.flush()?;
        return Ok(Status::Fine);
    }
    let page = match args.topic.as_deref().map(str::trim) {
        None => format!(
            "# Topics of `ggmill explain`\n\n{}{}",
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

/// The computation graph of an architecture, with its operation set.
fn graph(topic: &str, is_picture: bool, catalogue: &Catalogue) -> Result<String, Failure> {
    let architecture = catalogue.by_name(topic).ok_or_else(|| unknown(topic, catalogue))?;
    let (title, missing) = (architecture.title(), || {
        let with: Vec<&str> = catalogue
            .architectures()
            .filter(|architecture| architecture.has_graph())
            .map(ggmill_arch::Architecture::name)
            .collect();
        let near = near(topic, with.iter().map(|name| (*name).to_owned()));
        let near = if near.is_empty() { with.join(", ") } else { near.join(" or ") };
        Failure::new(format_args!("the description of {topic} has no computation graph"))
            .with_hint(Some(format!("architectures that have one: {near}")))
    });
    if is_picture {
        let outline = architecture.graph_outline().ok_or_else(missing)?;
        return Ok(explain::graph_svg(title, &outline));
    }
    let text = architecture.graph_text().ok_or_else(missing)?;
    Ok(format!("# {title}, operation set {OPERATION_SET}\n{text}"))
}

fn unknown(topic: &str, catalogue: &Catalogue) -> Failure {
    let near = near(topic, explain::names(catalogue));
    let hint = if near.is_empty() {
        "`ggmill explain` lists all topics".to_owned()
    } else {
        format!("did you mean {}?", near.join(" or "))
    };
    Failure::new(format_args!("unknown topic {:?}", RawStr::from(topic))).with_hint(Some(hint))
}
