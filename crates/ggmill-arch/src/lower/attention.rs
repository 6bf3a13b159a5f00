//! Attention: what is stored in a cache, and the heads' results.

use super::{Input, Lower, Op, Rows, Value, product, unknown};
use crate::error::Result;
use crate::graph::{Attention, Extent, Node, Operation};
use crate::memory::CachedBlock;
use crate::memory::compute::{ComputeKind, ComputeLayer, ComputeNumbers};

/// The keys and values of a block in a cache.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stored {
    keys: Op,
    values: Option<Op>,
    /// The block whose cache has them.
    block: CachedBlock,
}

/// The operands of attention other than queries.
#[derive(Clone, Copy, Debug)]
struct AttentionOperands {
    keys: Op,
    values: Op,
    mask: Op,
    /// The tokens that are attended to, in all streams.
    cells: u64,
    /// If true, values are stored so that the product with scores takes them as they are.
    is_transposed: bool,
}

/// The lengths of heads.
#[derive(Clone, Copy, Debug)]
struct Heads {
    queries: u64,
    count: u64,
    key: u64,
    value: u64,
}

impl Lower<'_> {
    fn is_cached(&self) -> bool {
        !self.lowering.build.uncached && !self.cached_blocks.is_empty()
    }

    /// The tokens that a block attends to, of one stream.
    pub(super) fn cells(&self, windowed: bool) -> u64 {
        match (self.is_cached(), windowed) {
            (false, _) => self.numbers.tokens,
            (true, true) => self.numbers.window_cells,
            (true, false) => self.numbers.cells,
        }
    }

    /// The largest power of two from 64 to 2,048 that divides the length of a key: with a matrix of this
    /// size, keys are turned before they are quantized.
    pub(super) fn turned_part(&self, windowed: bool) -> u64 {
        let mut first = None;
        let mut found = None;
        for (node, block) in self.lowering.graph.nodes().iter().zip(&self.blocks) {
            let (Operation::Attention(_), Some(block)) = (&node.operation, block) else { continue };
            let key = node.inputs.get(1).and_then(|&key| self.node(key).ok());
            let Some(length) = key.map(|key| key.extent.length) else { continue };
            first = first.or(Some(length));
            if self.cached_block(*block).is_some_and(|block| block.window.is_some()) == windowed {
                found = found.or(Some(length));
            }
        }
        match (first, found) {
            (Some(first), Some(found)) if first % 64 == 0 && found % 64 == 0 => {
                (1 << found.trailing_zeros()).min(2048)
            }
            _ => 0,
        }
    }

    fn cached_block(&self, block: u64) -> Option<&CachedBlock> {
        self.cached_blocks.get(&block)
    }

    pub(super) fn attention(
        &mut self,
        number: usize,
        node: &Node,
        attention: &Attention,
    ) -> Result<Op> {
        let &[query, k, v, ..] = &node.inputs[..] else { return Err(unknown("attention")) };
        if attention.picks || attention.run > 0 {
            return Err(unknown("attention to tokens that are picked"));
        }
        let [queries, keys, values] = [query, k, v].map(|node| self.node(node).map(|it| it.extent));
        let (queries, keys, values) = (queries?, keys?, values?);
        let parts = |extent: Extent| extent.parts.unwrap_or(1);
        let heads = Heads {
            queries: parts(queries),
            count: parts(keys),
            key: keys.length,
            value: values.length,
        };
        let mut q = self.value(query, number)?;
        let biased = attention.buckets;
        let is_flash = self.numbers.flash && biased.is_none();
        let of_source = self.node(k)?.of_source;
        let operands = if of_source {
            self.source_keys(q, k, v, heads, is_flash)?
        } else if self.is_cached() {
            let block = match self.layer {
                ComputeLayer::Block(block) => self.cached_block(block).copied(),
                _ => None,
            };
            // Later blocks take what an earlier one has stored.
            let shared = self.stored.get(&k).map(|stored| stored.block);
            let block = shared.or(block).ok_or_else(|| unknown("attention without a cache"))?;
            self.cached_keys(number, &mut q, [k, v], heads, block, is_flash)?
        } else {
            self.batch_keys(number, q, [k, v], heads, is_flash, attention.window > 0)?
        };
        let tokens = self.numbers.tokens;
        let result = product(&[heads.queries, heads.value, tokens]);
        let AttentionOperands { keys, mut values, mask, cells, is_transposed } = operands;
        let mut heard;
        if is_flash {
            heard = self.op(ComputeKind::Own, result, vec![q, keys, values, mask]);
            if let Some(sinks) = attention.sinks {
                self.name(heard, sinks);
            }
        } else {
            if !is_transposed {
                let length = product(&[heads.count, heads.value, cells]);
                let bytes = if of_source || !self.is_cached() {
                    1024
                } else if self.is_latent() {
                    self.numbers.key_bytes
                } else {
                    self.numbers.value_bytes
                };
                let length = product(&[length, bytes]).div_ceil(1024);
                values = self.op(ComputeKind::Own, length, vec![values]);
            }
            let per_stream = cells.checked_div(self.streams(of_source)).unwrap_or(0);
            let scores = product(&[per_stream, heads.queries, tokens]);
            let mut masked = self.op(ComputeKind::Own, scores, vec![q, keys]);
            if let Some(buckets) = biased {
                let input = self.input(Input::Buckets);
                let rows = self.op(ComputeKind::View, self.dag.elements(input), vec![input]);
                let bias = self.weighted(ComputeKind::Own, scores, vec![rows], buckets.weight);
                let bias = self.op(ComputeKind::Own, scores, vec![bias]);
                masked = self.op(ComputeKind::InPlace, scores, vec![masked, bias]);
            }
            if let Some(sinks) = attention.sinks {
                masked = self.weighted(ComputeKind::InPlace, scores, vec![masked, mask], sinks);
            } else {
                masked = self.op(ComputeKind::InPlace, scores, vec![masked, mask]);
            }
            heard = self.op(ComputeKind::Own, result, vec![values, masked]);
        }
        let mut copied = !is_flash;
        // Heads that attend to a vector of low rank get their values out of it at once.
        let latent = self.value_matrix(number);
        if let Some((head, matrix)) = latent {
            let length = product(&[self.node(head)?.extent.elements(), tokens]);
            heard = self.weighted(ComputeKind::Own, length, vec![heard], matrix);
            heard = self.op(ComputeKind::Own, length, vec![heard]);
            copied = false;
        } else if copied {
            heard = self.op(ComputeKind::Own, result, vec![heard]);
        }
        self.dag.expand(heard);
        if !copied {
            heard = self.reshaped(heard);
        }
        if !of_source && latent.is_none() && self.turns_values() {
            let turn = self.input(Input::ValueTurn(self.windowed_block()));
            heard = self.op(ComputeKind::Own, result, vec![heard, turn]);
        }
        if let Some((head, _)) = latent {
            self.set(head, Value { op: heard, rows: Rows::Tokens });
        }
        Ok(heard)
    }

    fn streams(&self, of_source: bool) -> u64 {
        if of_source || !self.is_cached() { 1 } else { self.numbers.streams.max(1) }
    }

    fn windowed_block(&self) -> bool {
        match self.layer {
            ComputeLayer::Block(block) => {
                self.cached_block(block).is_some_and(|block| block.window.is_some())
            }
            _ => false,
        }
    }

    /// Returns `true` if values are parts of keys in this block.
    fn is_latent(&self) -> bool {
        match self.layer {
            ComputeLayer::Block(block) => {
                self.cached_block(block).is_some_and(|block| block.values == 0)
            }
            _ => false,
        }
    }

    /// Returns `true` if values are turned before they are quantized.
    fn turns_values(&self) -> bool {
        let mut nodes = self.lowering.graph.nodes().iter();
        let first = nodes.find(|node| matches!(node.operation, Operation::Attention(_)));
        let values = first.and_then(|node| node.inputs.get(2));
        let length = values.and_then(|&values| self.node(values).ok()).map(|it| it.extent.length);
        self.numbers.quantized_values
            && self.is_cached()
            && !self.is_latent()
            && length.is_some_and(|length| length % 64 == 0)
    }

    fn name(&mut self, op: Op, weight: usize) {
        let name = self.lowering.graph.weights().get(weight).map(|weight| weight.name.as_str());
        self.dag.set_tensor(op, name);
    }

    /// The node behind attention that has a matrix for the values of each head, and the matrix.
    fn value_matrix(&self, number: usize) -> Option<(usize, usize)> {
        if !self.is_latent() {
            return None;
        }
        let &[view] = self.users.get(number)?.as_slice() else { return None };
        let &[head] = self.users.get(view)?.as_slice() else { return None };
        match self.node(head).ok()?.operation {
            Operation::HeadLinear { matrix } => Some((head, matrix)),
            _ => None,
        }
    }

    /// Keys and values of the batch itself, where there is no cache.
    fn batch_keys(
        &mut self,
        number: usize,
        q: Op,
        [k, v]: [usize; 2],
        heads: Heads,
        is_flash: bool,
        windowed: bool,
    ) -> Result<AttentionOperands> {
        let (mut keys, mut values) = (self.value(k, number)?, self.value(v, number)?);
        self.dag.expand(q);
        self.dag.expand(keys);
        self.dag.expand(values);
        let cells = self.numbers.tokens;
        if is_flash {
            let length = |head: u64| product(&[heads.count, head, cells]).div_ceil(2);
            keys = self.op(ComputeKind::Own, length(heads.key), vec![keys]);
            values = self.op(ComputeKind::Own, length(heads.value), vec![values]);
        }
        let mask = self.input(Input::Mask(windowed));
        Ok(AttentionOperands { keys, values, mask, cells, is_transposed: false })
    }

    /// Keys and values of the source that an encoder has read.
    fn source_keys(
        &mut self,
        q: Op,
        k: usize,
        v: usize,
        heads: Heads,
        is_flash: bool,
    ) -> Result<AttentionOperands> {
        let (mut keys, mut values) = (self.of_source(k)?, self.of_source(v)?);
        self.dag.expand(q);
        self.dag.expand(keys);
        self.dag.expand(values);
        let cells = self.lowering.build.source_tokens;
        if is_flash {
            let length = |head: u64| product(&[heads.count, head, cells]).div_ceil(2);
            keys = self.op(ComputeKind::Own, length(heads.key), vec![keys]);
            values = self.op(ComputeKind::Own, length(heads.value), vec![values]);
        }
        let mask = self.input(Input::SourceMask);
        Ok(AttentionOperands { keys, values, mask, cells, is_transposed: false })
    }

    /// Adds the products of the source with the weights of a block, and returns the one of a node.
    fn of_source(&mut self, number: usize) -> Result<Op> {
        // Down to what the encoder gives.
        let mut chain = Vec::new();
        let mut below = number;
        while let node = self.node(below)?
            && matches!(node.operation, Operation::View | Operation::Linear { .. })
            && let Some(&input) = node.inputs.first()
        {
            chain.push(below);
            below = input;
        }
        let mut op = self.input(Input::Source);
        for number in chain.into_iter().rev() {
            let node = self.node(number)?;
            op = match node.operation {
                Operation::Linear { matrix, .. } => {
                    let tokens = self.lowering.build.source_tokens;
                    let elements = product(&[node.extent.elements(), tokens]);
                    self.weighted(ComputeKind::Own, elements, vec![op], matrix)
                }
                _ => self.reshaped(op),
            };
        }
        Ok(op)
    }

    /// Keys and values of a cache, in which those of the batch are stored.
    fn cached_keys(
        &mut self,
        number: usize,
        q: &mut Op,
        [k, v]: [usize; 2],
        heads: Heads,
        block: CachedBlock,
        is_flash: bool,
    ) -> Result<AttentionOperands> {
        let windowed = block.window.is_some();
        let is_latent = block.values == 0;
        let tokens = self.numbers.tokens;
        let turned = (self.numbers.quantized_keys && (!is_latent || self.has_windows))
            .then_some(self.turned)
            .filter(|&[whole, window]| (if windowed { window } else { whole }) > 0)
            .map(|_| self.input(Input::KeyTurn(windowed)));
        if let Some(turn) = turned {
            *q = self.turn(*q, turn, product(&[heads.queries, heads.key, tokens]));
        }
        let stored = match self.stored.get(&k).copied() {
            Some(stored) => {
                self.dag.expand(*q);
                stored
            }
            None => self.store(number, *q, [k, v], heads, block, turned)?,
        };
        let ComputeNumbers { key_bytes, value_bytes, .. } = self.numbers;
        let streams = self.numbers.streams.max(1);
        let cells = self.cells(windowed);
        let all = product(&[cells, streams]);
        let key_length = product(&[heads.count, heads.key]);
        let value_length = product(&[heads.count, heads.value]);
        let bytes = |elements: u64, bytes: u64| product(&[elements, bytes]).div_ceil(1024);
        let mut keys = self.op(
            ComputeKind::View,
            bytes(product(&[all, key_length]), key_bytes),
            vec![stored.keys],
        );
        let mut values = match stored.values {
            None => {
                let elements =
                    product(&[all.saturating_sub(1), key_length]).saturating_add(heads.value);
                self.op(ComputeKind::View, bytes(elements, key_bytes), vec![stored.keys])
            }
            Some(stored) => {
                let spread = if self.numbers.transposed {
                    self.numbers.longest_values
                } else {
                    value_length
                };
                let rows = product(&[spread, streams.saturating_sub(1)]);
                let elements = product(&[cells, rows.saturating_add(value_length)]);
                self.op(ComputeKind::View, bytes(elements, value_bytes), vec![stored])
            }
        };
        if is_flash {
            let is_wide = if is_latent { self.numbers.wide_keys } else { self.numbers.wide_values };
            if self.numbers.wide_keys {
                let length = product(&[all, key_length]).div_ceil(2);
                keys = self.op(ComputeKind::Own, length, vec![keys]);
            }
            if is_wide {
                let count = if is_latent { 1 } else { heads.count };
                let length = product(&[all, count, heads.value]).div_ceil(2);
                values = self.op(ComputeKind::Own, length, vec![values]);
            }
        }
        let mask = self.input(Input::Mask(windowed));
        let is_transposed = self.numbers.transposed && !is_latent;
        Ok(AttentionOperands { keys, values, mask, cells: all, is_transposed })
    }

    /// The product with a matrix that spreads the numbers of a head before they are quantized.
    fn turn(&mut self, op: Op, turn: Op, elements: u64) -> Op {
        let op = if self.dag.is_strided(op) { self.contiguous(op, elements) } else { op };
        self.op(ComputeKind::Own, elements, vec![op, turn])
    }

    fn store(
        &mut self,
        number: usize,
        q: Op,
        [k, v]: [usize; 2],
        heads: Heads,
        block: CachedBlock,
        turned: Option<Op>,
    ) -> Result<Stored> {
        let windowed = block.window.is_some();
        let tokens = self.numbers.tokens;
        let key_elements = product(&[heads.count, heads.key, tokens]);
        let value_elements = product(&[heads.count, heads.value, tokens]);
        let is_latent = block.values == 0;
        let mut key = self.value(k, number)?;
        if let Some(turn) = turned {
            key = self.turn(key, turn, key_elements);
        }
        let mut value = self.value(v, number)?;
        if self.turns_values() {
            let turn = self.input(Input::ValueTurn(windowed));
            value = self.turn(value, turn, value_elements);
        }
        self.dag.expand(q);
        if self.has_windows {
            self.dag.expand(key);
        }
        self.dag.expand(value);
        self.dag.expand(key);
        let places = self.input(Input::KeyPlaces(windowed));
        let keys = self.cached(0, vec![key, places]);
        self.dag.expand(keys);
        let mut values = None;
        if !is_latent {
            let longest = self.numbers.longest_values;
            if self.numbers.transposed {
                if self.dag.is_strided(value) {
                    value = self.contiguous(value, value_elements);
                }
                if product(&[heads.count, heads.value]) < longest {
                    value = self.op(ComputeKind::Own, product(&[longest, tokens]), vec![value]);
                }
            }
            let places = self.input(Input::ValuePlaces(windowed));
            let stored = self.cached(0, vec![value, places]);
            self.dag.expand(stored);
            values = Some(stored);
        }
        let stored = Stored { keys, values, block };
        self.stored.insert(k, stored);
        Ok(stored)
    }
}
