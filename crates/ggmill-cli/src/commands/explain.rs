//! `ggmill explain`: the page of a rule, a type, a key or an architecture; its description and
//! computation graph.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use ggmill::no_graph;
use ggmill_arch::graph::{Graph, dimensions_of};
use ggmill_arch::{Architecture, Catalogue, TensorNames};
use ggmill_check::{near, render, rules_about};
use ggmill_core::{Model, RawStr, keys};
use ggmill_inspect::explain::{self, key_page};
use ggmill_run::{GraphSource, Program};

use crate::console::Console;
use crate::files::{file_name, open, shown};
use crate::hints::ARCH_FILE_HINT;
use crate::outcome::{Failure, Status};
use crate::remote;

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
  ggmill explain model.gguf --graph
  ggmill explain qwen3 --description > my-model.toml
  ggmill explain types        # all types; also standard-keys, architectures
  ggmill explain              # list all topics")]
pub(crate) struct Args {
    /// A rule code, or the name of a rule group, type, metadata key or architecture; with --graph,
    /// also a GGUF file; without it, all topics are listed
    topic: Option<String>,
    /// Print the computation graph of the architecture; of a file the one stored in it, otherwise
    /// that of its architecture. A note says if commands that run the file use another one
    #[arg(long, requires = "topic")]
    graph: bool,
    /// Print the computation graph as a picture, an SVG document
    #[arg(long, requires = "graph")]
    svg: bool,
    /// Print the built-in description of the architecture (TOML); a changed copy of it can be
    /// passed to other commands with --arch-file
    #[arg(long, requires = "topic", conflicts_with = "graph")]
    description: bool,
    /// An architecture description (TOML), or a directory of them, to use in addition to the
    /// built-in ones (repeatable)
    #[arg(long, value_name = "PATH", requires = "topic", conflicts_with = "description")]
    arch_file: Vec<PathBuf>,
}

pub(crate) fn run(args: &Args, console: Console) -> Result<Status, Failure> {
    let catalogue = ggmill::catalogue(&args.arch_file)?;
    if args.graph || args.description {
        let topic = args.topic.as_deref().unwrap_or_default().trim();
        let text = if args.description {
            description(topic, &catalogue)?.to_owned()
        } else {
            graph(topic, args.svg, &catalogue, console)?
        };
        let mut out = console.text();
        out.write_all(text.as_bytes())?;
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

/// Returns the page of a rule or a group of rules, else of a type or an architecture, else of a key.
fn page(topic: &str, catalogue: &Catalogue) -> Option<String> {
    let of_key = || key_page(topic, catalogue).map(|page| page + &rules_about(topic));
    ggmill_check::explain(topic).or_else(|| explain::page(topic, catalogue)).or_else(of_key)
}

/// Returns the text of the built-in description of an architecture.
fn description(topic: &str, catalogue: &Catalogue) -> Result<&'static str, Failure> {
    let architecture =
        explain::architecture(topic, catalogue).ok_or_else(|| not_described(topic, catalogue))?;
    // Every architecture of this catalogue is built in: --arch-file conflicts with --description.
    Architecture::builtin_text(architecture.name()).ok_or_else(|| unknown(topic, catalogue))
}

/// Returns the computation graph of an architecture or of a file, with its operation set.
fn graph(
    topic: &str,
    is_picture: bool,
    catalogue: &Catalogue,
    console: Console,
) -> Result<String, Failure> {
    if let Some(architecture) = explain::architecture(topic, catalogue) {
        return of_architecture(architecture, is_picture, catalogue);
    }
    if !is_file(topic) {
        return Err(not_described(topic, catalogue));
    }
    let path = Path::new(topic);
    let model = open(path, false)?;
    let model = model.core();
    let described = catalogue.for_metadata(model.metadata());
    if let Some(stored) = stored(path, model, is_picture) {
        let run = Program::find(model, described, None);
        if run.is_ok_and(|program| program.graph_source() == GraphSource::Description) {
            console.note(
                "commands that run this file use the graph in the description of its \
                 architecture, unless they are given --graph file",
            );
        }
        return stored;
    }
    if let Some(described) = described.filter(|described| described.has_graph()) {
        return of_architecture(described, is_picture, catalogue);
    }
    let error = match model.metadata().str(keys::GENERAL_ARCHITECTURE) {
        Ok(name) => no_graph(name, catalogue),
        Err(error) => error.into(),
    };
    Err(Failure::from(error).within(path))
}

/// Returns the computation graph in a description.
fn of_architecture(
    architecture: &Architecture,
    is_picture: bool,
    catalogue: &Catalogue,
) -> Result<String, Failure> {
    let (title, missing) =
        (architecture.title(), || Failure::from(no_graph(architecture.name(), catalogue)));
    if is_picture {
        let outline = architecture.graph_outline().ok_or_else(missing)?;
        return Ok(explain::graph_svg(title, &outline));
    }
    let text = architecture.graph_text().ok_or_else(missing)?;
    let set = architecture.graph_operation_set().map_err(Failure::new)?;
    let set = set.ok_or_else(missing)?;
    Ok(format!("# {title}, operation set {set}\n{text}"))
}

/// Returns the computation graph stored in a file, if there is one.
fn stored(path: &Path, model: &Model, is_picture: bool) -> Option<Result<String, Failure>> {
    let read = |graph: Graph| {
        let title = file_name(path);
        if is_picture {
            return Ok(explain::graph_svg(&title, &graph.outline()?));
        }
        let (title, set) = (RawStr::from(&*title), graph.operation_set());
        let mut text = format!("# {title}, stored in the file, operation set {set}\n");
        for step in graph.steps()? {
            // Tensor names can have any content, so they are escaped.
            text.push_str(&RawStr::from(&*step).to_string());
            text.push('\n');
        }
        Ok(text)
    };
    let text = Graph::stored(model.metadata(), &dimensions_of(model))?.and_then(read);
    Some(text.map_err(|error| {
        let hint = "`ggmill get FILE ggmill.graph` prints the steps as they are stored";
        Failure::new(format_args!("{}: {error}", shown(path))).with_hint(Some(hint.to_owned()))
    }))
}

/// Returns `true` if a topic is a file or an address.
fn is_file(topic: &str) -> bool {
    let path = Path::new(topic);
    topic == "-" || path.is_file() || remote::is_remote(path)
}

/// Returns the error for an architecture without a description.
fn not_described(topic: &str, catalogue: &Catalogue) -> Failure {
    if TensorNames::of(topic).is_none() {
        return unknown(topic, catalogue);
    }
    Failure::new(format_args!(
        "there is no description of architecture {:?}: only its tensor names are known",
        RawStr::from(topic)
    ))
    .with_hint(Some(ARCH_FILE_HINT.to_owned()))
}

fn unknown(topic: &str, catalogue: &Catalogue) -> Failure {
    if is_file(topic) {
        let hint = "`ggmill inspect FILE` shows a file, `ggmill explain FILE --graph` its \
                    computation graph";
        let message = format!("{}: a file, expected a topic", shown(Path::new(topic)));
        return Failure::new(message).with_hint(Some(hint.to_owned()));
    }
    let near = near(topic, explain::names(catalogue));
    let hint = if near.is_empty() {
        "`ggmill explain` lists all topics".to_owned()
    } else {
        format!("did you mean {}?", near.join(" or "))
    };
    Failure::new(format_args!("unknown topic {:?}", RawStr::from(topic))).with_hint(Some(hint))
}
