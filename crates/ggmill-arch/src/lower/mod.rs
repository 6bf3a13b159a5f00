//! Lowering of a computation graph: the ggml operations that llama.cpp evaluates for a batch, for each
//! operation of the graph, in the order in which ggml evaluates them.

mod attention;
mod dag;
mod elements;
mod experts;
mod rows;
mod states;

use std::collections::BTreeMap;

use self::attention::Stored;
use self::dag::{Dag, Op, node};
use self::states::{Kept, Scan};
use crate::error::{Error, ErrorKind, Result};
use crate::graph::{Graph, Node, Operation};
use crate::language::block::block_of_side;
use crate::memory::compute::{
    Build, ComputeKind, ComputeLayer, ComputeNode, ComputeNumbers, ComputeResults, Late, Sums,
};
use crate::memory::{CacheSpec, CachedBlock};

/// A model whose graph is lowered.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Lowering {
    pub(crate) graph: Graph,
    pub(crate) caches: Vec<CacheSpec>,
    pub(crate) build: Build,
}

/// The tokens that a result has numbers for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rows {
    /// The tokens of the batch.
    Tokens,
    /// The tokens that give scores.
    Outputs,
    /// None: it has the same numbers for all.
    Once,
}

/// The result of an operation of the graph.
#[derive(Clone, Copy, Debug)]
struct Value {
    op: Op,
    rows: Rows,
}

/// An input of llama.cpp's graphs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Input {
    Tokens,
    Embeddings,
    SecondTokens,
    Positions,
    OutputIds,
    QueryScales,
    /// By whether the block has a window.
    KeyTurn(bool),
    ValueTurn(bool),
    KeyPlaces(bool),
    ValuePlaces(bool),
    Mask(bool),
    Buckets,
    Source,
    SourceMask,
    StateIds,
}

pub(super) struct Lower<'a> {
    lowering: &'a Lowering,
    numbers: ComputeNumbers,
    dag: Dag,
    /// The results of the nodes of the graph so far.
    values: Vec<Option<Value>>,
    /// The nodes that take a node.
    users: Vec<Vec<usize>>,
    /// The nodes that are computed for the tokens that give scores.
    of_outputs: Vec<bool>,
    /// The block of each node.
    blocks: Vec<Option<u64>>,
    /// The part of the model that is lowered.
    layer: ComputeLayer,
    inputs: BTreeMap<Input, Op>,
    /// Results whose rows have been chosen.
    chosen: BTreeMap<Op, Op>,
    /// Stored keys and values, by node.
    stored: BTreeMap<usize, Stored>,
    kept: BTreeMap<u64, Kept>,
    /// How the states of the block that is lowered are computed, if it has any.
    scan: Option<Scan>,
    /// The cache of each block.
    cached_blocks: BTreeMap<u64, CachedBlock>,
    /// If true, a block of the model has a window.
    has_windows: bool,
    /// The sizes of the matrices that turn keys, without and with a window.
    turned: [u64; 2],
    rest_ids: Option<Op>,
    /// Vectors in the shape that experts take.
    vectors: BTreeMap<Op, Op>,
    /// The embeddings of tokens with room for those of images.
    wide: Option<Op>,
}

impl ComputeResults for Lowering {
    fn nodes(&self, numbers: ComputeNumbers) -> Result<Vec<ComputeNode>> {
        Lower::new(self, numbers).model()
    }
}

/// The product of counts.
fn product(counts: &[u64]) -> u64 {
    counts.iter().fold(1, |product: u64, &count| product.saturating_mul(count))
}

impl<'a> Lower<'a> {
    fn new(lowering: &'a Lowering, numbers: ComputeNumbers) -> Self {
        let nodes = lowering.graph.nodes();
        let mut users = vec![Vec::new(); nodes.len()];
        for (user, node) in nodes.iter().enumerate() {
            for &input in &node.inputs {
                if let Some(users) = users.get_mut(input) {
                    users.push(user);
                }
            }
        }
        let mut blocks = vec![None; nodes.len()];
        // Blocks that are computed again count on.
        let (mut before, mut next) = (0u64, 0u64);
        for section in lowering.graph.sections() {
            let first = nodes.get(section.nodes.start);
            let Some(mut number) = section.block.filter(|_| !first.is_some_and(|it| it.of_source))
            else {
                continue;
            };
            if number.saturating_add(before) < next {
                before = next;
            }
            number = number.saturating_add(before);
            next = number.saturating_add(1);
            for block in blocks.get_mut(section.nodes.clone()).into_iter().flatten() {
                *block = Some(number);
            }
        }
        let cached = lowering.caches.iter().flat_map(|cache| &cache.blocks);
        let mut lower = Self {
            lowering,
            numbers,
            dag: Dag::default(),
            values: vec![None; nodes.len()],
            of_outputs: rows::of_outputs(lowering, &users),
            users,
            blocks,
            layer: ComputeLayer::Input,
            inputs: BTreeMap::new(),
            chosen: BTreeMap::new(),
            stored: BTreeMap::new(),
            kept: BTreeMap::new(),
            scan: None,
            has_windows: cached.clone().any(|block| block.window.is_some()),
            cached_blocks: cached.map(|block| (block.block, *block)).collect(),
            turned: [0; 2],
            rest_ids: None,
            vectors: BTreeMap::new(),
            wide: None,
        };
        lower.turned = [false, true].map(|windowed| lower.turned_part(windowed));
        lower
    }

    fn model(mut self) -> Result<Vec<ComputeNode>> {
        let graph = &self.lowering.graph;
        let embeddings = self.input(Input::Embeddings);
        let last_block = self.blocks.iter().rposition(Option::is_some);
        for (number, node) in graph.nodes().iter().enumerate() {
            if node.of_source {
                continue;
            }
            let layer = match self.blocks.get(number).copied().flatten() {
                Some(block) => ComputeLayer::Block(block),
                None if last_block.is_some_and(|last| number > last) => ComputeLayer::Output,
                None => ComputeLayer::Input,
            };
            if layer != self.layer {
                self.layer = layer;
                self.scan = self.scan_of(number);
            }
            if self.values.get(number).is_some_and(Option::is_some) {
                continue;
            }
            if let Some(value) = self.operation(number, node)? {
                let value = self.with_images(number, value);
                self.set(number, value);
            }
            self.dag.check()?;
        }
        self.output(embeddings)?;
        Ok(self.dag.finish())
    }

    /// The result of a block, with the further embeddings of images that are added to it.
    fn with_images(&mut self, number: usize, value: Value) -> Value {
        let behind = &self.lowering.build.deepstack_behind;
        let (Some(wide), ComputeLayer::Block(block)) = (self.wide, self.layer) else {
            return value;
        };
        let next = self.blocks.get(number.saturating_add(1)).copied().flatten();
        if next == Some(block) || !behind.contains(&block) {
            return value;
        }
        let elements = self.dag.elements(value.op);
        let skipped = product(&[
            self.lowering.build.deepstack,
            self.embedding(),
            self.numbers.tokens.saturating_sub(1),
        ]);
        let view = self.op(ComputeKind::View, elements.saturating_add(skipped), vec![wide]);
        let op = self.op(ComputeKind::InPlace, elements, vec![value.op, view]);
        Value { op, ..value }
    }

    fn set(&mut self, number: usize, value: Value) {
        if let Some(place) = self.values.get_mut(number) {
            *place = Some(value);
        }
    }

    fn node(&self, number: usize) -> Result<&'a Node> {
        let graph: &'a Graph = &self.lowering.graph;
        graph.nodes().get(number).ok_or_else(|| unknown("a node"))
    }

    /// The result of a node, whatever tokens it is of.
    fn whole(&self, number: usize) -> Result<Value> {
        let value = self.values.get(number).copied().flatten();
        value.ok_or_else(|| unknown("an operand"))
    }

    /// An operand of a node, of the tokens that the node is computed for.
    fn operand(&mut self, number: usize, which: usize) -> Result<Op> {
        let of = self.node(number)?.inputs.get(which).copied();
        self.value(of.ok_or_else(|| unknown("an operand"))?, number)
    }

    /// The result of a node, of the tokens that another is computed for.
    fn value(&mut self, of: usize, user: usize) -> Result<Op> {
        let value = self.whole(of)?;
        if value.rows == Rows::Tokens && self.rows_of(user) == Rows::Outputs {
            let length = self.node(of)?.extent.elements();
            return Ok(self.choose(value.op, length));
        }
        Ok(value.op)
    }

    /// The rows of the tokens that give scores.
    fn choose(&mut self, op: Op, length: u64) -> Op {
        if let Some(&chosen) = self.chosen.get(&op) {
            return chosen;
        }
        let ids = self.input(Input::OutputIds);
        let elements = product(&[length, self.numbers.outputs]);
        let chosen = self.op(ComputeKind::Own, elements, vec![op, ids]);
        self.chosen.insert(op, chosen);
        chosen
    }

    fn rows_of(&self, number: usize) -> Rows {
        if self.of_outputs.get(number).copied().unwrap_or(false) {
            Rows::Outputs
        } else {
            Rows::Tokens
        }
    }

    fn count(&self, rows: Rows) -> u64 {
        match rows {
            Rows::Tokens => self.numbers.tokens,
            Rows::Outputs => self.numbers.outputs,
            Rows::Once => 1,
        }
    }

    /// An operation on results alone.
    fn op(&mut self, kind: ComputeKind, elements: u64, sources: Vec<Op>) -> Op {
        self.dag.add(node(kind, elements, self.layer, sources))
    }

    /// An operation with a weight.
    fn weighted(
        &mut self,
        kind: ComputeKind,
        elements: u64,
        sources: Vec<Op>,
        weight: usize,
    ) -> Op {
        let name = self.lowering.graph.weights().get(weight).map_or("", |weight| &weight.name);
        let layer = match block_of_side(name) {
            Some(block) => ComputeLayer::Block(block),
            // Those of a norm before the blocks are beside the first one.
            None if self.layer == ComputeLayer::Input && kind == ComputeKind::InPlace => {
                ComputeLayer::Block(0)
            }
            None => self.layer,
        };
        let tensor = Some(name.into());
        self.dag.add(ComputeNode { elements, kind, layer, weighted: true, sources, tensor })
    }

    /// An operation with the cache or a state of the block.
    fn cached(&mut self, elements: u64, sources: Vec<Op>) -> Op {
        let node = node(ComputeKind::Own, elements, self.layer, sources);
        self.dag.add(ComputeNode { weighted: true, ..node })
    }

    /// A view of all numbers of a result.
    fn reshaped(&mut self, op: Op) -> Op {
        let view = self.op(ComputeKind::View, self.dag.elements(op), vec![op]);
        if self.dag.is_strided(op) {
            self.dag.set_strided(view);
        }
        view
    }

    /// Adds a contiguous copy of a result.
    fn contiguous(&mut self, op: Op, elements: u64) -> Op {
        self.op(ComputeKind::Own, elements, vec![op])
    }

    fn input(&mut self, input: Input) -> Op {
        if let Some(&op) = self.inputs.get(&input) {
            return op;
        }
        let elements = self.input_size(input);
        let op = self.dag.add(node(ComputeKind::Input, elements, ComputeLayer::Input, Vec::new()));
        if matches!(input, Input::Embeddings) {
            let tokens = self.input(Input::Tokens);
            self.dag.expand(tokens);
            self.dag.expand(op);
        }
        self.inputs.insert(input, op);
        op
    }

    fn input_size(&self, input: Input) -> u64 {
        let ComputeNumbers { tokens, outputs, sequences, flash, .. } = self.numbers;
        let build = &self.lowering.build;
        let mask = |elements: u64| if flash { elements.div_ceil(2) } else { elements };
        match input {
            Input::Tokens | Input::SecondTokens | Input::QueryScales => tokens,
            Input::Embeddings => {
                product(&[build.deepstack.saturating_add(1), self.embedding(), tokens])
            }
            Input::Positions => product(&[build.position_parts.max(1), tokens]),
            Input::OutputIds => outputs,
            Input::StateIds => sequences,
            Input::KeyTurn(windowed) => {
                let [whole, window] = self.turned;
                let part = if windowed { window } else { whole };
                product(&[part, part])
            }
            Input::ValueTurn(_) => 4096,
            Input::KeyPlaces(_) => product(&[2, tokens]),
            Input::ValuePlaces(_) => {
                let spread = if self.numbers.transposed { self.numbers.longest_values } else { 1 };
                product(&[2, tokens, spread])
            }
            Input::Mask(windowed) => mask(product(&[self.cells(windowed), tokens])),
            Input::Buckets => product(&[self.cells(false), tokens]),
            Input::Source => product(&[self.embedding(), build.source_tokens]),
            Input::SourceMask => mask(product(&[build.source_tokens, tokens])),
        }
    }

    /// The length of the embedding of a token.
    fn embedding(&self) -> u64 {
        let mut nodes = self.lowering.graph.nodes().iter();
        let first = nodes.find(|node| matches!(node.operation, Operation::Rows { .. }));
        first.map_or(0, |node| node.extent.elements())
    }

    /// Adds the results of the model: the embeddings of tokens, and their scores.
    fn output(&mut self, embeddings: Op) -> Result<()> {
        let graph = &self.lowering.graph;
        let build = &self.lowering.build;
        let last = graph.output();
        let length = self.node(last)?.extent.elements();
        // The norm whose result the scores are computed from.
        let mut before = last;
        let mut scores = false;
        loop {
            let node = self.node(before)?;
            let is_norm =
                matches!(node.operation, Operation::RmsNorm { .. } | Operation::LayerNorm { .. });
            let is_linear = matches!(node.operation, Operation::Linear { .. });
            let Some(&input) = node.inputs.first() else { break };
            if is_norm || scores && self.blocks.get(before).is_some_and(Option::is_some) {
                break;
            }
            scores |= is_linear;
            if !scores && graph.output_kind() == crate::graph::Output::Embedding {
                break;
            }
            before = input;
        }
        let value = self.whole(last)?;
        let scores =
            if value.rows == Rows::Tokens { self.choose(value.op, length) } else { value.op };
        self.dag.expand(scores);
        let mut given = Vec::new();
        let normed = self.whole(before)?.op;
        let chosen = self.chosen.get(&normed).copied();
        given.push(chosen.unwrap_or(normed));
        if !build.gives_rows {
            let whole = match build.late {
                // Before the choice and the norm.
                Late::Blocks => {
                    let input = self.node(before)?.inputs.first().copied();
                    input.and_then(|input| self.whole(input).ok()).map(|value| value.op)
                }
                _ => Some(normed),
            };
            given.extend(whole);
        }
        given.extend([scores, embeddings]);
        let end = self.op(ComputeKind::Given, 0, given);
        self.dag.expand(end);
        Ok(())
    }
}

/// The error for what is not lowered.
#[cold]
fn unknown(what: &str) -> Error {
    let message = format!("{what} of the computation graph has no known operations of ggml");
    Error::new(ErrorKind::Unsupported, message)
}
