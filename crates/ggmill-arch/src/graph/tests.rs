//! Compares the graphs of generated models with those recorded in `tests/fixtures/graphs.txt`.
//!
//! The record was made when graphs were lists of steps in TOML. A model is its metadata, and for each
//! tensor of the description whether it has it.
//!
//! `GGMILL_GRAPHS=DIRECTORY` compares with a larger record of whole graphs, a file per architecture,
//! `GGMILL_ARCHITECTURES=NAME,NAME` selects architectures. `GGMILL_SOURCES=DIRECTORY` reads
//! descriptions from a directory instead of the built-in ones, and checks their graphs.

use core::cell::Cell;
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;

use super::Graph;
use crate::catalogue::builtin::BuiltinParts;
use crate::data::schema::RawArchitecture;
use crate::description::architecture::Architecture;
use crate::error::Result;
use crate::language::expression::{Expression, Scope};
use crate::parameters::{Parameter, ParameterKey, ParameterSource};
use crate::resolve::Resolved;
use crate::value::ParameterValue;

struct Metadata(BTreeMap<String, ParameterValue>);

impl ParameterSource for Metadata {
    fn lookup(&self, parameter: &Parameter) -> Result<Option<(ParameterValue, String)>> {
        let mut keys = parameter.keys.iter().map(ToString::to_string);
        Ok(keys.find_map(|key| Some((parameter.kind.accept(self.0.get(&key)?)?, key))))
    }

    fn places(&self, parameter: &Parameter) -> Option<String> {
        parameter.keys.first().map(ParameterKey::key).map(str::to_owned)
    }

    fn default<'p>(&self, parameter: &'p Parameter) -> Option<&'p Expression> {
        parameter.in_file.as_ref().or(parameter.default.as_ref())
    }
}

/// A recorded model, and the lines of its graph or their hash.
struct Model {
    metadata: Metadata,
    tensors: String,
    lines: Vec<String>,
    hash: Option<u64>,
}

/// Parses a record. Each model has the name of its architecture, if the record has it.
fn models(text: &str) -> Vec<(String, Model)> {
    let mut models: Vec<(String, Model)> = Vec::new();
    for line in text.lines() {
        let (kind, rest) = line.split_once('\t').unwrap_or((line, ""));
        if kind == "model" {
            let metadata = Metadata(BTreeMap::new());
            let model = Model { metadata, tensors: String::new(), lines: Vec::new(), hash: None };
            models.push((rest.to_owned(), model));
            continue;
        }
        let (name, model) = models.last_mut().unwrap();
        match kind {
            "key" => {
                let (key, value) = rest.split_once('\t').unwrap();
                // A key that begins with a dot has the architecture as prefix.
                let key =
                    if key.starts_with('.') { format!("{name}{key}") } else { key.to_owned() };
                let fuel = Cell::new(Scope::FUEL);
                let value = Expression::parse(value).unwrap();
                let value = value.evaluate(&Scope::new(&[], &fuel)).unwrap();
                model.metadata.0.insert(key, value);
            }
            "tensors" => rest.clone_into(&mut model.tensors),
            "graph" => model.hash = Some(u64::from_str_radix(rest, 16).unwrap()),
            _ => model.lines.push(line.to_owned()),
        }
    }
    models
}

/// Returns a description from the directory of sources, or the built-in one.
fn described(name: &str) -> Result<Cow<'static, Architecture>> {
    let Ok(directory) = std::env::var("GGMILL_SOURCES") else {
        return Ok(Cow::Borrowed(Architecture::builtin(name).unwrap()));
    };
    let path = format!("{directory}/architectures/{name}");
    let text = std::fs::read_to_string(format!("{path}.toml")).unwrap();
    let mut raw: RawArchitecture = toml::from_str(&text).unwrap();
    raw.computation = std::fs::read_to_string(format!("{path}.py")).ok();
    let is_new = raw.computation.is_some();
    let architecture = Architecture::of_raw(raw, &BuiltinParts)?;
    if is_new {
        architecture.check_graph()?;
    }
    Ok(Cow::Owned(architecture))
}

/// Returns the graph of a model.
fn graph(architecture: &Architecture, model: &Model) -> Result<Graph> {
    let fuel = Cell::new(Scope::FUEL);
    let resolved = Resolved::of_file_within(architecture, &model.metadata, &fuel)?;
    let mut present = BTreeSet::new();
    for (spec, bit) in resolved.tensors().iter().zip(model.tensors.chars()) {
        if bit == '1' {
            present.insert(spec.name.as_str());
        }
    }
    assert_eq!(resolved.tensors().len(), model.tensors.len(), "{}", architecture.name());
    resolved.graph(&|name| present.contains(name))
}

/// Returns the steps, sections and weights of a graph as lines.
fn lines(graph: &Graph) -> Vec<String> {
    let mut lines: Vec<String> =
        graph.steps().unwrap().into_iter().map(|step| format!("step\t{step}")).collect();
    for section in graph.sections() {
        let nodes = &section.nodes;
        lines.push(format!("section\t{:?}\t{}\t{}", section.block, nodes.start, nodes.end));
    }
    for weight in graph.weights() {
        lines.push(format!("weight\t{}\t{:?}", weight.name, weight.dimensions));
    }
    lines
}

/// Returns the FNV-1a hash.
fn hash(lines: &[String]) -> u64 {
    let bytes = lines.iter().flat_map(|line| line.bytes().chain([b'\n']));
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// Compares the graphs of a record and returns the differences.
fn compare(name: &str, models: &[(String, Model)]) -> String {
    let mut faults = String::new();
    let architecture = match described(name) {
        Ok(architecture) => architecture,
        Err(error) => return format!("{name}: {error}\n"),
    };
    for (number, (_, model)) in models.iter().enumerate() {
        let found = match graph(&architecture, model) {
            Ok(graph) => lines(&graph),
            Err(error) => vec![error.to_string()],
        };
        let same = match model.hash {
            Some(expected) => hash(&found) == expected,
            None => found == model.lines,
        };
        if same {
            continue;
        }
        let other = hash(&found);
        writeln!(faults, "{name}: model {number} has another graph, {other:x}").unwrap();
        if model.hash.is_none() {
            let differs = found.iter().zip(&model.lines).position(|(found, known)| found != known);
            let place = differs.unwrap_or_else(|| found.len().min(model.lines.len()));
            let around = place.saturating_sub(2)..place.saturating_add(7);
            for (what, lines) in [("-", &model.lines), ("+", &found)] {
                for line in lines.iter().take(around.end).skip(around.start) {
                    writeln!(faults, "    {what} {line}").unwrap();
                }
            }
        } else if let [error] = &found[..] {
            writeln!(faults, "    {error}").unwrap();
        }
        if faults.len() > 1500 {
            break;
        }
    }
    faults
}

#[test]
fn graphs_equal_the_record() {
    let of = std::env::var("GGMILL_ARCHITECTURES").ok();
    let is_wanted =
        |name: &str| of.as_ref().is_none_or(|of| of.split(',').any(|wanted| wanted == name));
    let mut faults = String::new();
    let mut checked = 0;
    if let Ok(directory) = std::env::var("GGMILL_GRAPHS") {
        for architecture in Architecture::builtin_names().filter(|name| is_wanted(name)) {
            let path = Path::new(&directory).join(format!("{architecture}.models"));
            let Ok(text) = std::fs::read_to_string(path) else { continue };
            let models = models(&text);
            checked += models.len();
            faults += &compare(architecture, &models);
        }
    } else {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/graphs.txt");
        let models = models(&std::fs::read_to_string(path).unwrap());
        for models in models.chunk_by(|one, next| one.0 == next.0) {
            let name = &models[0].0;
            if is_wanted(name) {
                checked += models.len();
                faults += &compare(name, models);
            }
        }
    }
    println!("{checked} graphs");
    assert!(faults.is_empty(), "{faults}");
}
