//! A model with its computation graph, checked against each other.

use core::ops::Range;

use ggmill_arch::graph::{Extent, Graph, Operation, Output, Rows};
use ggmill_arch::{Architecture, ErrorKind as ArchErrorKind};
use ggmill_core::Model;
use ggmill_quant::{Panels, codec};

use crate::attention::QUERIES;
use crate::error::{Error, ErrorKind, Result};

/// A model that can be run: its computation graph, and the knowledge that every tensor the graph
/// needs is there, in the shape that the description says.
#[derive(Debug)]
pub struct Program<'m> {
    pub(crate) model: &'m Model,
    pub(crate) graph: Graph,
    /// The last node that takes the result of each node.
    pub(crate) last_use: Vec<usize>,
    /// The first node of the end of the graph, which computes with each token by itself.
    pub(crate) tail: usize,
    vocabulary: u64,
    positions: Option<u64>,
}

impl<'m> Program<'m> {
    /// The program of a model whose architecture has this description.
    ///
    /// Fails where the description has no graph or excludes the model from having one, and for
    /// tensors that are missing, of another shape, or of a type that no codec reads.
    pub fn of(model: &'m Model, architecture: &Architecture) -> Result<Self> {
        let failed = |error: ggmill_arch::Error| {
            let kind = match error.kind() {
                ArchErrorKind::Unsupported if !architecture.has_graph() => ErrorKind::NoGraph,
                _ => ErrorKind::Graph,
            };
            Error::new(kind, error)
        };
        let resolved = architecture.resolve_file(model.metadata()).map_err(failed)?;
        let present = |name: &str| model.tensor(name).is_ok();
        let graph = resolved.graph(&present).map_err(failed)?;
        check_tensors(model, &graph)?;
        let nodes = graph.nodes();
        let mut last_use: Vec<usize> = (0..nodes.len()).collect();
        for (number, node) in nodes.iter().enumerate() {
            for &input in &node.inputs {
                last_use[input] = number;
            }
        }
        last_use[graph.output()] = nodes.len();
        let last = graph.sections().last().filter(|section| section.block.is_none());
        let attends = |nodes: &Range<usize>| {
            let mut operations = graph.nodes()[nodes.clone()].iter().map(|node| &node.operation);
            operations.any(|operation| {
                matches!(
                    operation,
                    Operation::Attention(_) | Operation::Rope(_) | Operation::Rows { .. }
                )
            })
        };
        let tail = last.filter(|section| section.nodes.start > 0 && !attends(&section.nodes));
        let tail = tail.map_or(nodes.len(), |section| section.nodes.start);
        let rows_of = |wanted: Rows| {
            graph.nodes().iter().find_map(|node| match node.operation {
                Operation::Rows { table, rows } if rows == wanted => {
                    graph.weights()[table].dimensions.get(1).copied().or(Some(1))
                }
                _ => None,
            })
        };
        let (vocabulary, positions) = (rows_of(Rows::Tokens), rows_of(Rows::Positions));
        let vocabulary = vocabulary.ok_or_else(|| {
            Error::new(ErrorKind::Graph, "the graph does not take the tokens of the text")
        })?;
        Ok(Self { model, graph, last_use, tail, vocabulary, positions })
    }

    /// The graph.
    pub fn graph(&self) -> &Graph {
        &self.graph
    }

    /// How many tokens the model knows.
    pub fn vocabulary(&self) -> u64 {
        self.vocabulary
    }

    /// What the model gives for each token.
    pub fn output(&self) -> Output {
        self.graph.output_kind()
    }

    /// How many numbers it gives for each token.
    pub fn output_len(&self) -> u64 {
        self.graph.nodes()[self.graph.output()].extent.length
    }

    /// Fails for tokens that the model does not have, and for more than it has positions for.
    pub(crate) fn check(&self, tokens: &[u32]) -> Result<()> {
        let found = tokens.iter().find(|&&token| u64::from(token) >= self.vocabulary);
        if let Some(token) = found {
            let message = format!("token {token}, and the model has {} tokens", self.vocabulary);
            return Err(Error::new(ErrorKind::Tokens, message));
        }
        match self.positions {
            Some(most) if tokens.len() as u64 > most => Err(Error::new(
                ErrorKind::Tokens,
                format_args!("{} tokens, and the model has positions for {most}", tokens.len()),
            )),
            _ => Ok(()),
        }
    }

    /// The most numbers that are held at once for each token.
    pub(crate) fn numbers(&self) -> u64 {
        let nodes = self.graph.nodes();
        let (mut held, mut most) = (0u64, 0u64);
        for (number, node) in nodes[..self.tail].iter().enumerate() {
            // Keys and values of attention are there a second time, arranged for products, and
            // what is taken by experts, and their results, in the order of the experts.
            let arranged: u64 = match node.operation {
                Operation::Attention(_) => {
                    node.inputs[1..].iter().map(|&input| arranged(nodes[input].extent)).sum()
                }
                Operation::ExpertLinear { .. } => {
                    let used = nodes[node.inputs[1]].extent.length;
                    node.extent.elements() + used * nodes[node.inputs[0]].extent.length
                }
                _ => 0,
            };
            held = held.saturating_add(node.extent.elements());
            most = most.max(held.saturating_add(arranged));
            let mut inputs = node.inputs.clone();
            inputs.sort_unstable();
            inputs.dedup();
            for input in inputs.into_iter().filter(|&input| self.last_use[input] == number) {
                held = held.saturating_sub(nodes[input].extent.elements());
            }
        }
        most
    }

    /// Bytes of memory that running so many texts at once takes, about, beside the model and the
    /// output: the results of operations, the tiles of a matrix, and the scores of attention on each
    /// thread.
    pub fn memory(&self, texts: u64, longest: u64, threads: u64) -> u64 {
        const TILES: u64 = 64 << 20;
        let tokens = texts.saturating_mul(longest);
        let scores = longest.saturating_mul(4 * QUERIES as u64).saturating_mul(threads);
        let results = self.numbers().saturating_mul(tokens).saturating_mul(4);
        results.saturating_add(scores).saturating_add(TILES)
    }
}

/// What the parts of a value become, arranged for products: each as long as whole panels.
fn arranged(extent: Extent) -> u64 {
    let length = extent.length.next_multiple_of(Panels::WIDTH as u64);
    extent.parts.unwrap_or(1).saturating_mul(length)
}

/// Every tensor of the graph is in the file, with the dimensions of the description and a type that
/// can be read.
fn check_tensors(model: &Model, graph: &Graph) -> Result<()> {
    for weight in graph.weights() {
        let wrong = |what: &str| {
            Error::new(ErrorKind::Tensor, format_args!("tensor {:?}: {what}", weight.name))
        };
        let tensor = model.tensor(&weight.name).map_err(|error| wrong(&error.to_string()))?;
        let dimensions = tensor.shape().dimensions();
        let used = dimensions.iter().rposition(|&dimension| dimension != 1);
        let used = used.map_or(1, |last| last + 1).min(dimensions.len());
        if dimensions[..used] != weight.dimensions[..] {
            let (found, expected) = (shown(dimensions), shown(&weight.dimensions));
            return Err(wrong(&format!("shape {found}, expected {expected}")));
        }
        codec(tensor.ggml_type()).map_err(|error| wrong(&error.to_string()))?;
    }
    Ok(())
}

fn shown(dimensions: &[u64]) -> String {
    let shown: Vec<String> = dimensions.iter().map(u64::to_string).collect();
    format!("[{}]", shown.join(", "))
}
