//! Programs: a model with its computation graph, checked against each other.

use core::ops::Range;
use std::sync::Arc;

use ggmill_arch::graph::{
    Extent, Graph, Node, Operation, Output, STEPS_KEY, Weight, dimensions_of,
};
use ggmill_arch::{Architecture, ErrorKind as ArchErrorKind, ParameterValue};
use ggmill_core::{Model, NoTensors};
use ggmill_quant::{Panels, codec};

use crate::attention::QUERIES_PER_TASK;
use crate::error::{Error, ErrorKind, Result};
use crate::input::{Limits, Source, SourceLimits};
use crate::weights::Changed;

/// The approximate size of the panels of a matrix during a product, in bytes.
pub(crate) const TILE_BYTES: u64 = 64 << 20;
/// The number of rotation tables that are kept during a run.
pub(crate) const MAX_ROPE_TABLES: usize = 2;

/// The origin of the computation graph of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum GraphSource {
    /// The graph is from the description of the architecture.
    Description,
    /// The graph is from the metadata of the file.
    File,
}

/// The tensors with factors of rotary positions for texts within the original context, which graphs use,
/// and for longer ones.
const SHORT_FACTORS: &str = "rope_factors_short.weight";
const LONG_FACTORS: &str = "rope_factors_long.weight";

/// A model with its computation graph. All tensors of the graph exist in the file with the expected
/// shapes.
#[derive(Clone, Debug)]
pub struct Program<'m> {
    pub(crate) model: &'m Model,
    pub(crate) graph: Arc<Graph>,
    /// The weight that differs from that of the model.
    pub(crate) changed: Option<Changed>,
    /// The last node that uses the result of each node.
    pub(crate) last_use: Vec<usize>,
    /// The first node of the tail of the graph, which computes the output of each token independently.
    pub(crate) tail: usize,
    /// The limits of the text, and of the source if the model takes one.
    limits: Limits,
    source_limits: Option<SourceLimits>,
    source: GraphSource,
}

impl<'m> Program<'m> {
    /// Returns the program of a model, with the graph from a description of its architecture.
    ///
    /// Fails if the description has no graph for the model, or if a tensor is missing or has an unexpected
    /// shape or a type without a codec.
    pub fn of(model: &'m Model, architecture: &Architecture) -> Result<Self> {
        let failed = |error: ggmill_arch::Error| {
            let kind = match error.kind() {
                ArchErrorKind::Unsupported if !architecture.has_graph() => ErrorKind::NoGraph,
                _ => ErrorKind::Graph,
            };
            Error::new(kind, error)
        };
        if architecture.has_graph() {
            Self::check_has_tensors(model)?;
        }
        let resolved = architecture.resolve_file(model.metadata()).map_err(failed)?;
        let present = |name: &str| model.tensor(name).is_ok();
        let graph = resolved.graph(&present).map_err(failed)?;
        let is_short = graph.weights().iter().any(|weight| weight.name == SHORT_FACTORS);
        let mut program = Self::new(model, graph, GraphSource::Description)?;
        if let Some(&ParameterValue::Int(tokens @ 1..)) =
            resolved.parameter("rope_original_context")
            && is_short
            && present(LONG_FACTORS)
        {
            program.limits.short_factors = Some(tokens.unsigned_abs());
        }
        Ok(program)
    }

    /// Returns the program of a model, with the graph stored in its file.
    ///
    /// Fails if the file has no graph, or if [`Graph::stored`] fails. The cost of a run is known before it
    /// starts: see [`memory`](Self::memory), [`Graph::reads`], [`Graph::multiplications`] and
    /// [`Graph::attention_multiplications`].
    pub fn stored(model: &'m Model) -> Result<Self> {
        let graph = Graph::stored(model.metadata(), &dimensions_of(model)).ok_or_else(|| {
            Error::new(ErrorKind::NoGraph, "the file has no computation graph in its metadata")
        })?;
        Self::check_has_tensors(model)?;
        let graph = graph.map_err(|error| Error::new(ErrorKind::Graph, error))?;
        Self::new(model, graph, GraphSource::File)
    }

    /// Returns the program of a model, with the graph from the description of its architecture, or else
    /// with the graph stored in the file. `only` restricts it to one of the two.
    ///
    /// Fails like [`of`](Self::of), or like [`stored`](Self::stored) if no description has a graph.
    pub fn find(
        model: &'m Model,
        described: Option<&Architecture>,
        only: Option<GraphSource>,
    ) -> Result<Self> {
        let described = described.filter(|described| described.has_graph());
        let of_file = only != Some(GraphSource::Description);
        match described.filter(|_| only != Some(GraphSource::File)) {
            Some(described) => match Self::of(model, described) {
                Err(_) if of_file && model.metadata().get(STEPS_KEY).is_some() => {
                    Self::stored(model)
                }
                found => found,
            },
            None if of_file => Self::stored(model),
            None => {
                let message = "no description of the architecture has a computation graph";
                Err(Error::new(ErrorKind::NoGraph, message))
            }
        }
    }

    /// Fails for a file without tensors.
    fn check_has_tensors(model: &Model) -> Result<()> {
        NoTensors::of(model).map_or(Ok(()), |found| Err(Error::new(ErrorKind::Tensor, found)))
    }

    fn new(model: &'m Model, graph: Graph, source: GraphSource) -> Result<Self> {
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
        let is_of_text = |nodes: &Range<usize>| {
            let mut nodes = graph.nodes()[nodes.clone()].iter();
            nodes.any(|node| node.operation.is_of_text() || node.of_source)
        };
        let tail = last.filter(|section| section.nodes.start > 0 && !is_of_text(&section.nodes));
        let tail = tail.map_or(nodes.len(), |section| section.nodes.start);
        let limits = Limits::of(&graph, false)?;
        let source_limits = SourceLimits::of(&graph)?;
        let (changed, graph) = (None, Arc::new(graph));
        Ok(Self { model, graph, changed, last_use, tail, limits, source_limits, source })
    }

    /// Returns the origin of the graph.
    pub fn graph_source(&self) -> GraphSource {
        self.source
    }

    /// Returns the graph.
    pub fn graph(&self) -> &Graph {
        &self.graph
    }

    /// Returns `true` if the model takes a second text, the source.
    pub fn has_source(&self) -> bool {
        self.graph.has_source()
    }

    /// Returns the length of each source vector; `None` if the source is tokens or the model takes none.
    pub fn source_width(&self) -> Option<u64> {
        self.graph.source_width()
    }

    /// Returns the maximum number of source vectors, if a position table limits it.
    pub(crate) fn source_positions(&self) -> Option<u64> {
        match self.source_limits {
            Some(SourceLimits::Vectors(_, most)) => most,
            _ => None,
        }
    }

    /// Returns the vocabulary size that is valid for both the text and a source of tokens.
    pub fn vocabulary(&self) -> u64 {
        match self.source_limits {
            Some(SourceLimits::Tokens(source)) => self.limits.vocabulary.min(source.vocabulary),
            _ => self.limits.vocabulary,
        }
    }

    /// Returns the kind of the output.
    pub fn output(&self) -> Output {
        self.graph.output_kind()
    }

    /// Returns the number of output elements per token.
    pub fn output_len(&self) -> u64 {
        self.graph.nodes()[self.graph.output()].extent.length
    }

    /// Fails if the files of the model changed since they were opened. Call it before returning results.
    pub(crate) fn verify(&self) -> Result<()> {
        Ok(self.model.verify()?)
    }

    /// Fails for tokens outside the vocabulary, and for more tokens than the model has positions.
    pub(crate) fn check(&self, text: &[u32]) -> Result<()> {
        self.limits.check(text)
    }

    /// Returns the number of tokens or vectors of a source. Fails if its kind or length is wrong.
    pub(crate) fn check_source(&self, source: &Source<'_>) -> Result<usize> {
        self.source_limits.map_or(Ok(0), |limits| limits.check(source))
    }

    /// Returns the peak number of elements in memory per token, up to the tail of the graph.
    pub(crate) fn peak_elements(&self) -> u64 {
        self.peak_elements_of(0..self.tail, 0)
    }

    /// Returns the peak number of elements in memory per output token: the operands and results of the tail
    /// of the graph.
    pub(crate) fn peak_output_elements(&self) -> u64 {
        self.peak_elements_of(self.tail..self.graph.nodes().len(), self.state_elements())
    }

    /// Returns the number of elements per token that the tail of the graph takes from earlier nodes.
    fn state_elements(&self) -> u64 {
        let nodes = self.graph.nodes();
        let taken = (0..self.tail).filter(|&number| self.last_use[number] >= self.tail);
        taken.fold(0u64, |sum, node| sum.saturating_add(nodes[node].extent.elements()))
    }

    /// Returns the size of the states of `tokens` tokens, in bytes.
    pub(crate) fn state_memory(&self, tokens: u64) -> u64 {
        self.state_elements().saturating_mul(tokens).saturating_mul(4)
    }

    /// Returns the peak number of elements per token while these nodes are computed; `before` are in memory
    /// at the beginning.
    fn peak_elements_of(&self, range: Range<usize>, before: u64) -> u64 {
        let nodes = self.graph.nodes();
        let (mut held, mut most) = (before, before);
        for number in range {
            let node = &nodes[number];
            // Temporary buffers: packed keys and values of attention, results of a recurrence in
            // head-major order, operands and results of experts in expert order, and of one head.
            let temporary: u64 = match node.operation {
                Operation::SelectTokens(_) => packed_elements(nodes[node.inputs[1]].extent),
                Operation::Attention(ref attention) => {
                    let both = node.inputs[1..3].iter();
                    let both: u64 = both.map(|&input| packed_elements(nodes[input].extent)).sum();
                    // Runs have keys and values for one token of each run.
                    both + both.checked_div(attention.run).unwrap_or(0)
                }
                Operation::Recurrence(_) => node.extent.elements(),
                // The row numbers and their sorted order, 64 bits each.
                Operation::HashedRows(_) => node.extent.parts.unwrap_or(1).saturating_mul(4),
                Operation::TapsLinear { .. } => nodes[node.inputs[0]].extent.elements(),
                Operation::HeadLinear { .. } => {
                    node.extent.length.saturating_add(nodes[node.inputs[0]].extent.length)
                }
                Operation::ExpertLinear { .. } => {
                    let used = nodes[node.inputs[1]].extent.length;
                    node.extent.elements() + used * nodes[node.inputs[0]].extent.length
                }
                _ => 0,
            };
            held = held.saturating_add(node.extent.elements());
            most = most.max(held.saturating_add(temporary));
            let mut inputs = node.inputs.clone();
            inputs.sort_unstable();
            inputs.dedup();
            for input in inputs.into_iter().filter(|&input| self.last_use[input] == number) {
                held = held.saturating_sub(nodes[input].extent.elements());
            }
        }
        most
    }

    /// Returns the approximate memory for running `texts` texts at once, in bytes, without the model, if
    /// neither a text nor its source is longer than `longest` tokens. It includes the results of operations,
    /// the output of all tokens of one text, rotation tables, the panels of a matrix, the largest kernel,
    /// source vectors, and the attention scores on each thread.
    pub fn memory(&self, texts: u64, longest: u64, threads: u64) -> u64 {
        let states = self.memory_of_states(texts, longest, threads);
        states.saturating_add(self.memory_of_output(longest))
    }

    /// Returns the memory for running texts without the output, in bytes, like [`memory`](Self::memory).
    pub(crate) fn memory_of_states(&self, texts: u64, longest: u64, threads: u64) -> u64 {
        let tokens = texts.saturating_mul(longest);
        // An indexer has the scores of a head, their sum over heads, and the sorted indices.
        let has_picks = self.graph.nodes().iter().any(|node| match &node.operation {
            Operation::SelectTokens(_) => true,
            // The scores of runs, the scores of tokens, and both concatenated for the softmax.
            Operation::Attention(attention) => attention.run > 0,
            _ => false,
        });
        let rows = if has_picks { 3 * QUERIES_PER_TASK } else { QUERIES_PER_TASK };
        let scores = longest.saturating_mul(4 * rows as u64).saturating_mul(threads);
        // The result of attention to runs, before it is added to the result for tokens.
        let run_results = self.graph.nodes().iter().filter_map(|node| match &node.operation {
            Operation::Attention(attention) if attention.run > 0 => {
                Some(self.graph.nodes()[node.inputs[2]].extent.length)
            }
            _ => None,
        });
        let run_results =
            run_results.max().unwrap_or(0).saturating_mul(4 * QUERIES_PER_TASK as u64);
        let scores = scores.saturating_add(run_results.saturating_mul(threads));
        let results = self.peak_elements().saturating_mul(tokens).saturating_mul(4);
        let rotated = self.graph.nodes().iter().filter_map(|node| match &node.operation {
            Operation::Rope(rope) => Some(rope.length),
            _ => None,
        });
        // A cosine and a sine for each pair of each position, and the YaRN mix of each pair.
        let rope_tables = rotated.max().unwrap_or(0).saturating_mul(4 * MAX_ROPE_TABLES as u64);
        let rope_tables = rope_tables.saturating_mul(longest.saturating_add(1));
        // The recurrent state of one head on each thread.
        let of_head = |node: &Node| {
            let heads = node.extent.parts.unwrap_or(1).max(1);
            self.graph.state_of(node) / heads
        };
        let state = self.graph.nodes().iter().map(of_head).max().unwrap_or(0);
        let state = state.saturating_mul(4).saturating_mul(threads);
        // Decoded and packed kernels, and source vectors.
        let of_kernel = |node: &Node| match node.operation {
            Operation::TapsLinear { kernel, .. } => {
                let dimensions = self.graph.weights()[kernel].dimensions.iter();
                dimensions.fold(8u64, |all, &size| all.saturating_mul(size))
            }
            _ => 0,
        };
        let kernel = self.graph.nodes().iter().map(of_kernel).max().unwrap_or(0);
        let vectors = self.source_width().unwrap_or(0).saturating_mul(tokens).saturating_mul(4);
        let state = state.saturating_add(kernel).saturating_add(vectors);
        let sum =
            results.saturating_add(rope_tables).saturating_add(scores).saturating_add(TILE_BYTES);
        sum.saturating_add(state)
    }

    /// Returns the memory for the output of `tokens` tokens, in bytes, without the states and the panels of
    /// a matrix.
    pub(crate) fn memory_of_output(&self, tokens: u64) -> u64 {
        self.peak_output_elements().saturating_mul(tokens).saturating_mul(4)
    }
}

/// Returns the number of elements of a packed result: each part is padded to a multiple of the panel
/// width.
fn packed_elements(extent: Extent) -> u64 {
    let length = extent.length.next_multiple_of(Panels::WIDTH as u64);
    extent.parts.unwrap_or(1).saturating_mul(length)
}

/// Fails unless every tensor of the graph is in the file with the expected dimensions and a type that has
/// a codec.
fn check_tensors(model: &Model, graph: &Graph) -> Result<()> {
    for (number, weight) in graph.weights().iter().enumerate() {
        let wrong = |what: &str| {
            Error::new(ErrorKind::Tensor, format_args!("tensor {:?}: {what}", weight.name))
        };
        let tensor = model.tensor(&weight.name).map_err(|error| wrong(&error.to_string()))?;
        let dimensions = tensor.shape().dimensions();
        let used = dimensions.iter().rposition(|&dimension| dimension != 1);
        let used = used.map_or(1, |last| last + 1).min(dimensions.len());
        let fits = dimensions[..used] == weight.dimensions[..]
            || has_more_rows(dimensions, weight) && is_indexed_by_hashes(graph, number);
        if !fits {
            let (found, expected) = (shape_text(dimensions), shape_text(&weight.dimensions));
            return Err(wrong(&format!("shape {found}, expected {expected}")));
        }
        codec(tensor.ggml_type()).map_err(|error| wrong(&error.to_string()))?;
    }
    Ok(())
}

/// Returns `true` if a table has more rows than the graph expects.
fn has_more_rows(dimensions: &[u64], weight: &Weight) -> bool {
    match (dimensions, &*weight.dimensions) {
        (&[length, rows, ref others @ ..], &[expected, least]) => {
            length == expected && rows > least && others.iter().all(|&other| other == 1)
        }
        _ => false,
    }
}

/// Returns `true` if a tensor is indexed only by n-gram hashes: it may have rows that no hash selects.
fn is_indexed_by_hashes(graph: &Graph, weight: usize) -> bool {
    graph.nodes().iter().all(|node| {
        matches!(node.operation, Operation::HashedRows(_))
            || !node.operation.weights().contains(&weight)
    })
}

fn shape_text(dimensions: &[u64]) -> String {
    let shown: Vec<String> = dimensions.iter().map(u64::to_string).collect();
    format!("[{}]", shown.join(", "))
}
