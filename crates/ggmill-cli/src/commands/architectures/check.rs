//! `ggmill architectures check`: reads a description and prints what it says of a model.

use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use ggmill::{read_architectures, read_text};
use ggmill_arch::graph::Graph;
use ggmill_arch::{Architecture, ErrorKind, KeyValue, Origin, ParameterValue, Resolved};
use ggmill_core::{FileType, MetadataBuf, RawStr, keys};
use ggmill_pipeline::formats::{Unambiguous, json_from_slice};

use crate::console::Console;
use crate::files::shown;
use crate::outcome::{Failure, Status};

/// The maximum size of a configuration, in bytes.
const MAX_CONFIG: u64 = 4 << 20;
/// The maximum number of tokens of a generated vocabulary.
const MAX_TOKENS: u64 = 1 << 22;

/// Check an architecture description and print what it says
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  ggmill architectures check my-model.toml
  ggmill architectures check my-model.toml --config model/config.json

The computation is read from my-model.py beside the description, or from the description itself, and \
its graph is checked on generated models. With --config, prints the hyperparameters, metadata keys \
and tensors of the model that config.json describes, the members of config.json that the description does \
not read, and an outline of the graph.

Exit code 1: the description gives no graph for this model.")]
pub(crate) struct Args {
    /// An architecture description (TOML)
    file: PathBuf,
    /// The config.json of a checkpoint, to apply the description to
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

pub(crate) fn run(args: &Args, console: Console) -> Result<Status, Failure> {
    let read = read_architectures(std::slice::from_ref(&args.file))?;
    let [architecture] = &read[..] else {
        let message = format!("{}: is a directory, expected a description", shown(&args.file));
        return Err(Failure::new(message));
    };
    let mut out = console.text();
    let status = match &args.config {
        None => {
            write_description(&mut out, architecture)?;
            Status::Fine
        }
        Some(path) => write_model(&mut out, architecture, path)?,
    };
    out.flush()?;
    Ok(status)
}

/// Prints the title, the classes, and the size of the computation.
fn write_head(out: &mut impl Write, architecture: &Architecture) -> io::Result<()> {
    writeln!(out, "{}: {}", architecture.name(), architecture.title())?;
    let classes: Vec<&str> = architecture.checkpoint_classes().collect();
    if !classes.is_empty() {
        writeln!(out, "classes: {}", classes.join(", "))?;
    }
    Ok(())
}

/// Prints a description in terms of its hyperparameters.
fn write_description(out: &mut impl Write, architecture: &Architecture) -> Result<(), Failure> {
    write_head(out, architecture)?;
    writeln!(out, "\nhyperparameters")?;
    for parameter in architecture.outline_parameters() {
        write!(out, "  {}", parameter.name)?;
        if !parameter.in_checkpoint.is_empty() {
            write!(out, " from {}", parameter.in_checkpoint.join(", "))?;
        }
        if let Some(default) = parameter.default {
            write!(out, ", default {default}")?;
        }
        writeln!(out)?;
    }
    writeln!(out, "\nkeys")?;
    for key in architecture.keys() {
        writeln!(out, "  {}", key.name)?;
    }
    writeln!(out, "\ntensors")?;
    for tensor in architecture.outline() {
        write!(out, "  {} [{}]", tensor.name, tensor.shape.join(", "))?;
        if let Some(repeat) = &tensor.repeat {
            write!(out, " for {repeat}")?;
        }
        writeln!(out)?;
    }
    let set = architecture.graph_operation_set().map_err(Failure::new)?;
    match (set, architecture.without_graph()) {
        (Some(set), _) => {
            writeln!(out, "\ngraph: checked on generated models, operation set {set}")?;
        }
        (None, Some(because)) => writeln!(out, "\ngraph: none, {because}")?,
        (None, None) => writeln!(out, "\ngraph: none, the description has no computation")?,
    }
    Ok(())
}

/// Prints the model that a configuration describes.
fn write_model(
    out: &mut impl Write,
    architecture: &Architecture,
    path: &Path,
) -> Result<Status, Failure> {
    let failed = |error: &dyn std::fmt::Display| Failure::new(error).within(path);
    let text = read_text(path, MAX_CONFIG)?;
    let Unambiguous(config) = json_from_slice(text.as_bytes()).map_err(|error| failed(&error))?;
    let resolved = architecture.resolve(&config).map_err(|error| failed(&error))?;
    write_head(out, architecture)?;
    writeln!(out, "\nhyperparameters")?;
    for (name, value) in resolved.parameters() {
        if !matches!(value, ParameterValue::None) {
            writeln!(out, "  {name} = {value}")?;
        }
    }
    writeln!(out, "\nkeys")?;
    for key in resolved.keys() {
        writeln!(out, "  {} = {}", key.name, value_of(&key.value))?;
    }
    write_tensors(out, &resolved)?;
    let unread = architecture.unread_members(&config);
    if !unread.is_empty() {
        writeln!(out, "\nmembers of config.json that the description does not read")?;
        for member in unread {
            writeln!(out, "  {}", RawStr::from(&*member))?;
        }
    }
    Ok(match graph(architecture, &resolved) {
        None => {
            writeln!(out, "\ngraph: none, the description has no computation")?;
            Status::Fine
        }
        Some(Ok(graph)) => {
            write_graph(out, &graph)?;
            Status::Fine
        }
        Some(Err(error)) if error.kind() == ErrorKind::Unsupported => {
            writeln!(out, "\ngraph: none for this model: {error}")?;
            Status::Findings
        }
        Some(Err(error)) => return Err(failed(&error)),
    })
}

/// Returns a value and its type: `32 (u32)`.
fn value_of(value: &KeyValue) -> String {
    /// The maximum number of characters of a value.
    const MAX_CHARS: usize = 100;
    let (value, value_type): (&dyn fmt::Debug, &str) = match value {
        KeyValue::U8(value) => (value, "u8"),
        KeyValue::I8(value) => (value, "i8"),
        KeyValue::U16(value) => (value, "u16"),
        KeyValue::I16(value) => (value, "i16"),
        KeyValue::U32(value) => (value, "u32"),
        KeyValue::I32(value) => (value, "i32"),
        KeyValue::U64(value) => (value, "u64"),
        KeyValue::I64(value) => (value, "i64"),
        KeyValue::F32(value) => (value, "f32"),
        KeyValue::F64(value) => (value, "f64"),
        KeyValue::Bool(value) => (value, "bool"),
        KeyValue::Str(value) => (value, "str"),
        KeyValue::U32Array(values) => (values, "u32array"),
        KeyValue::I32Array(values) => (values, "i32array"),
        KeyValue::U64Array(values) => (values, "u64array"),
        KeyValue::I64Array(values) => (values, "i64array"),
        KeyValue::F32Array(values) => (values, "f32array"),
        KeyValue::BoolArray(values) => (values, "boolarray"),
        KeyValue::StrArray(values) => (values, "strarray"),
        _ => return "the type of the file".into(),
    };
    let value = format!("{value:?}");
    let value: String = match value.char_indices().nth(MAX_CHARS) {
        Some((end, _)) => format!("{}...", value.get(..end).unwrap_or_default()),
        None => value,
    };
    format!("{value} ({value_type})")
}

/// Prints each tensor with its shape in stored order, once for all blocks.
fn write_tensors(out: &mut impl Write, resolved: &Resolved<'_>) -> io::Result<()> {
    let mut blocks: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    let mut lines = Vec::new();
    for tensor in resolved.tensors() {
        let (name, block) = without_number(&tensor.name);
        let mut line = format!("{name} {:?}", tensor.shape.dimensions());
        if !tensor.required {
            line += " optional";
        }
        if let Origin::Checkpoint(sources) = &tensor.origin {
            let names = sources.iter().filter_map(|source| source.names.first());
            let names: Vec<String> = names.map(|name| without_number(name).0).collect();
            line.push_str(" from ");
            line.push_str(&names.join(" or "));
        }
        // Names of a checkpoint can have any content.
        let line = RawStr::from(&*line).to_string();
        let of_line = blocks.entry(line.clone()).or_insert_with(|| {
            lines.push(line);
            Vec::new()
        });
        of_line.extend(block);
    }
    writeln!(out, "\ntensors ({})", resolved.tensors().len())?;
    for line in lines {
        let blocks = blocks.get(&line).map(|blocks| ranges(blocks)).unwrap_or_default();
        let blocks = if blocks.is_empty() { blocks } else { format!(", {{bid}} = {blocks}") };
        writeln!(out, "  {line}{blocks}")?;
    }
    Ok(())
}

/// Returns a name with `{bid}` for the first number between its dots, and the number.
fn without_number(name: &str) -> (String, Option<u64>) {
    let mut number = None;
    let parts = name.split('.').map(|part| match part.parse() {
        Ok(found) if number.is_none() => {
            number = Some(found);
            "{bid}"
        }
        _ => part,
    });
    let name = parts.collect::<Vec<_>>().join(".");
    (name, number)
}

/// Returns numbers as ranges: `0-3, 5`.
fn ranges(numbers: &[u64]) -> String {
    let runs = numbers.chunk_by(|one, next| one.checked_add(1) == Some(*next));
    let runs = runs.filter_map(|run| match run {
        [] => None,
        [one] => Some(one.to_string()),
        [first, .., last] => Some(format!("{first}-{last}")),
    });
    runs.collect::<Vec<_>>().join(", ")
}

/// Returns the graph of a finished file with the required tensors; `None` for a description without a
/// computation.
fn graph(
    architecture: &Architecture,
    resolved: &Resolved<'_>,
) -> Option<Result<Graph, ggmill_arch::Error>> {
    architecture.has_graph().then(|| {
        let mut metadata = MetadataBuf::new();
        metadata.set(keys::GENERAL_ARCHITECTURE, architecture.name());
        // Some files have the size of the vocabulary as the length of its list only.
        let size = resolved.parameter("vocab_size").and_then(ParameterValue::as_u64);
        let size = size.filter(|&size| size <= MAX_TOKENS).and_then(|size| size.try_into().ok());
        if let Some(size) = size {
            metadata.set(keys::TOKENIZER_TOKENS, vec![""; size]);
        }
        resolved.write_early_keys(FileType::F16, &mut metadata);
        resolved.write_keys(FileType::F16, &mut metadata);
        let model = architecture.resolve_metadata(&metadata)?;
        model.graph(&|name| resolved.tensor(name).is_some_and(|tensor| tensor.required))
    })
}

/// Prints how many operations each block has, and with which tensors.
fn write_graph(out: &mut impl Write, graph: &Graph) -> io::Result<()> {
    let (nodes, set) = (graph.nodes().len(), graph.operation_set());
    writeln!(out, "\ngraph ({nodes} operations, operation set {set})")?;
    let mut sections: Vec<(String, Vec<u64>)> = Vec::new();
    for section in graph.sections() {
        let nodes = graph.nodes().get(section.nodes.clone()).unwrap_or_default();
        let mut names: Vec<String> = Vec::new();
        for weight in nodes.iter().flat_map(|node| node.operation.weights()) {
            let name = graph.weights().get(weight).map_or("", |weight| &weight.name);
            let (name, _) = without_number(name);
            let name = name.strip_prefix("blk.{bid}.").unwrap_or(&name);
            let name = name.strip_suffix(".weight").unwrap_or(name).to_owned();
            if !names.contains(&name) {
                names.push(name);
            }
        }
        let mut line = match nodes.len() {
            1 => "1 operation".to_owned(),
            count => format!("{count} operations"),
        };
        if !names.is_empty() {
            line.push_str(" with ");
            line.push_str(&names.join(", "));
        }
        match sections.iter_mut().find(|(known, blocks)| *known == line && !blocks.is_empty()) {
            Some((_, blocks)) if section.block.is_some() => blocks.extend(section.block),
            _ => sections.push((line, section.block.into_iter().collect())),
        }
    }
    for (line, blocks) in sections {
        match &blocks[..] {
            [] => writeln!(out, "  {line}")?,
            [_] => writeln!(out, "  block {}: {line}", ranges(&blocks))?,
            _ => writeln!(out, "  blocks {}: {line}", ranges(&blocks))?,
        }
    }
    Ok(())
}
