//! Computes the result of each node of a graph from its operands.

use std::sync::Arc;

use ggmill_arch::graph::{
    Arithmetic, Attention, HashedRows, Node, Operation, Recurrence, Rope, Rows,
};

use super::{Data, Run, Sequence};
use crate::attention::{Indexer, Operands, OptionalOperands, Picks, attention, pick, run_length};
use crate::elementwise as each;
use crate::error::{Error, ErrorKind, Result};
use crate::program::{MAX_ROPE_TABLES, Program};
use crate::sequence::{self, RopeTable, hashed_row_numbers, pool};

impl Run<'_, '_> {
    /// Shows the inputs of a matrix of a node to the observer.
    fn observe(
        &mut self,
        node: &Node,
        matrix: usize,
        values: &[f32],
        experts: Option<&[u32]>,
    ) -> Result<()> {
        let (program, operand) = (self.program, node.inputs[0]);
        self.observer
            .as_mut()
            .map_or(Ok(()), |observer| observer.observe(program, matrix, operand, values, experts))
    }

    /// Like [`observe`](Self::observe), for operations with a matrix for each part.
    fn observe_by_part(&mut self, node: &Node, matrix: usize, values: &[f32]) -> Result<()> {
        if self.observer.is_none() {
            return Ok(());
        }
        let columns = self.program.row_len(matrix).max(1);
        let heads = self.program.dimension(matrix, 2);
        if heads == 1 {
            return self.observe(node, matrix, values, None);
        }
        let indices: Vec<u32> =
            (0..values.len() / columns).map(|row| (row % heads) as u32).collect();
        self.observe(node, matrix, values, Some(&indices))
    }

    /// Drops the result of a node and reuses its buffer.
    pub(super) fn drop_value(&mut self, number: usize) {
        if let Some(Data::Numbers(data)) = self.values[number].take() {
            self.arena.put(data);
        }
    }

    /// Returns the elements of an operand.
    pub(crate) fn numbers(&self, node: &Node, input: usize) -> Result<Arc<Vec<f32>>> {
        match node.inputs.get(input).and_then(|&number| self.values[number].as_ref()) {
            Some(Data::Numbers(data)) => Ok(Arc::clone(data)),
            _ => Err(Error::new(ErrorKind::Graph, "an operand is missing")),
        }
    }

    /// Returns the indices of an operand.
    pub(crate) fn indices(&self, node: &Node, input: usize) -> Result<Arc<Vec<u32>>> {
        match node.inputs.get(input).and_then(|&number| self.values[number].as_ref()) {
            Some(Data::Indices(data)) => Ok(Arc::clone(data)),
            _ => Err(Error::new(ErrorKind::Graph, "an operand is missing")),
        }
    }

    /// Returns the elements of the first operand for an in-place operation: the buffer itself if this is its
    /// last use, else a copy.
    fn take_first_operand(&mut self, node: &Node, number: usize) -> Result<Vec<f32>> {
        self.take_operand(node, 0, number)
    }

    /// Like [`take_first_operand`](Self::take_first_operand), for operand `input`.
    fn take_operand(&mut self, node: &Node, input: usize, number: usize) -> Result<Vec<f32>> {
        let data = self.numbers(node, input)?;
        let input = node.inputs[input];
        if self.program.last_use[input] == number {
            self.values[input] = None;
        }
        match Arc::try_unwrap(data) {
            Ok(values) => Ok(values),
            Err(shared) => {
                let mut values = self.arena.take(shared.len())?;
                values.copy_from_slice(&shared);
                self.arena.put(shared);
                Ok(values)
            }
        }
    }

    /// Returns a buffer for the result of a node, for as many tokens as the first operand has.
    fn result_buffer(&mut self, node: &Node) -> Result<Vec<f32>> {
        let nodes = self.program.graph().nodes();
        let first = nodes[node.inputs[0]].extent.elements() as usize;
        let tokens = self.numbers(node, 0)?.len() / first.max(1);
        self.arena.take(tokens * node.extent.elements() as usize)
    }

    /// Combines two operands elementwise. The smaller one is broadcast.
    fn arithmetic(&mut self, with: Arithmetic, node: &Node, number: usize) -> Result<Vec<f32>> {
        let nodes = self.program.graph().nodes();
        let sizes = [0, 1].map(|input| nodes[node.inputs[input]].extent.elements());
        let size = node.extent.elements();
        let is_free = |input: usize| self.program.last_use[node.inputs[input]] == number;
        // The operand that is modified in place: the one with the size of the result.
        let base = usize::from(sizes[0] != size || sizes[1] == size && !is_free(0) && is_free(1));
        if sizes[base] != size {
            return Err(Error::new(ErrorKind::Graph, "no operand has the size of the result"));
        }
        let other = self.numbers(node, 1 - base)?;
        let mut values = self.take_operand(node, base, number)?;
        let repeat = (size / sizes[1 - base].max(1)) as usize;
        each::arithmetic(with, &mut values, &other, repeat, base == 1);
        Ok(values)
    }

    /// Returns the rotation table of a rotary embedding.
    fn rope_table(&mut self, rope: &Rope, factors: Option<&[f32]>) -> Result<Arc<RopeTable>> {
        // One table serves both directions.
        let mut rope = rope.clone();
        rope.back = false;
        if let Some((_, table)) = self.rope_tables.iter().find(|(known, _)| *known == rope) {
            return Ok(Arc::clone(table));
        }
        if self.rope_tables.len() >= MAX_ROPE_TABLES {
            self.rope_tables.remove(0);
        }
        let longest = self.sequences.iter().map(Sequence::longest).max().unwrap_or(0);
        let table = Arc::new(RopeTable::of(&rope, factors, longest)?);
        self.rope_tables.push((rope, Arc::clone(&table)));
        Ok(table)
    }

    /// Computes the result of a node.
    pub(super) fn node(
        &mut self,
        program: &Program<'_>,
        node: &Node,
        number: usize,
    ) -> Result<Data> {
        let nodes = program.graph().nodes();
        let extent = node.extent;
        let of = |input: usize| nodes[node.inputs[input]].extent;
        let decoded =
            |weight: Option<usize>| weight.map(|weight| program.decode_weight(weight)).transpose();
        let isa = self.tiles.isa;
        let values = match node.operation {
            Operation::Rows { table, rows } => self.rows(node, table, rows)?,
            Operation::Linear { matrix, scale, bias } => {
                let values = self.numbers(node, 0)?;
                self.observe(node, matrix, &values, None)?;
                let mut out = self.result_buffer(node)?;
                program.linear(&mut self.tiles, &values, matrix, scale, bias, &mut out)?;
                out
            }
            Operation::ExpertLinear { matrix, scale, bias } => {
                let (values, indices) = (self.numbers(node, 0)?, self.indices(node, 1)?);
                self.observe(node, matrix, &values, Some(&indices))?;
                let used = of(1).length as usize;
                let mut out =
                    self.arena.take(indices.len() / used.max(1) * extent.elements() as usize)?;
                let weights = [Some(matrix), scale, bias];
                program.expert_linear(
                    &mut self.tiles,
                    &values,
                    &indices,
                    used,
                    weights,
                    &mut out,
                )?;
                out
            }
            Operation::HeadLinear { matrix } => {
                let values = self.numbers(node, 0)?;
                self.observe_by_part(node, matrix, &values)?;
                let mut out = self.result_buffer(node)?;
                let heads = extent.parts.unwrap_or(1) as usize;
                program.head_linear(&mut self.tiles, &values, matrix, heads, &mut out)?;
                out
            }
            Operation::RmsNorm { weight, epsilon } => {
                let mut values = self.take_first_operand(node, number)?;
                each::rms_norm(&mut values, extent, decoded(weight)?.as_deref(), epsilon);
                values
            }
            Operation::LayerNorm { weight, bias, epsilon } => {
                let mut values = self.take_first_operand(node, number)?;
                let (weight, bias) = (decoded(weight)?, decoded(bias)?);
                each::layer_norm(&mut values, extent, weight.as_deref(), bias.as_deref(), epsilon);
                values
            }
            Operation::Rope(ref rope) => {
                let table = self.rope_table(rope, decoded(rope.factors)?.as_deref())?;
                let mut values = self.take_first_operand(node, number)?;
                table.rotate(&mut values, extent, rope, &self.sequence(node).positions);
                values
            }
            Operation::Attention(ref options) => self.attention(node, options)?,
            Operation::View => return self.numbers(node, 0).map(Data::Numbers),
            Operation::Slice { .. }
            | Operation::Concat
            | Operation::Repeat { .. }
            | Operation::Sum
            | Operation::WeightedSum => self.rearrange(node)?,
            Operation::Apply(function) => {
                let mut values = self.take_first_operand(node, number)?;
                each::apply(isa, function, &mut values);
                values
            }
            Operation::Clamp { low, high } => {
                let mut values = self.take_first_operand(node, number)?;
                each::clamp(&mut values, low, high);
                values
            }
            Operation::Softmax => {
                let mut values = self.take_first_operand(node, number)?;
                each::softmax(isa, &mut values, extent);
                values
            }
            Operation::Top { .. } | Operation::Choice { .. } | Operation::SelectTokens(_) => {
                return Ok(Data::Indices(Arc::new(self.choose_indices(node)?)));
            }
            Operation::Constant(ref numbers) => {
                let mut out =
                    self.arena.take(numbers.len() * self.sequence(node).positions.len())?;
                out.chunks_exact_mut(numbers.len()).for_each(|row| row.copy_from_slice(numbers));
                out
            }
            Operation::Gather => {
                let (values, indices) = (self.numbers(node, 0)?, self.indices(node, 1)?);
                let (width, count) = (of(0).length as usize, extent.length as usize);
                let mut out = self.result_buffer(node)?;
                each::gather(&values, width, &indices, count, &mut out);
                out
            }
            Operation::Normalize => {
                let mut values = self.take_first_operand(node, number)?;
                each::normalize(&mut values, extent);
                values
            }
            Operation::Sinkhorn { count, epsilon } => {
                let mut values = self.take_first_operand(node, number)?;
                each::sinkhorn(&mut values, extent, count, epsilon);
                values
            }
            Operation::L2Norm { epsilon } => {
                let mut values = self.take_first_operand(node, number)?;
                each::l2_norm(&mut values, extent, epsilon);
                values
            }
            Operation::TapsLinear { kernel, bias } => {
                let values = self.numbers(node, 0)?;
                let mut out = self.result_buffer(node)?;
                program.taps_linear(&mut self.tiles, &values, kernel, bias, &mut out)?;
                out
            }
            Operation::SourceVectors
            | Operation::IsToken { .. }
            | Operation::HashedRows(_)
            | Operation::ByPosition(_)
            | Operation::Shift { .. }
            | Operation::Pool { .. }
            | Operation::Convolution { .. }
            | Operation::Recurrence(_) => self.sequence_operation(node, number)?,
            Operation::SwigluOai => {
                let other = self.numbers(node, 1)?;
                let mut values = self.take_first_operand(node, number)?;
                each::swiglu_oai(&mut values, &other);
                values
            }
            Operation::Arithmetic(with) => self.arithmetic(with, node, number)?,
            Operation::WithNumber { with, number: by, left } => {
                let mut values = self.take_first_operand(node, number)?;
                each::with_number(with, &mut values, by, left);
                values
            }
            Operation::WithWeight { with, weight, left } => {
                let mut values = self.take_first_operand(node, number)?;
                let dimensions = &program.graph().weights()[weight].dimensions;
                let weight = (&*program.decode_weight(weight)?, &**dimensions);
                each::with_weight(with, &mut values, extent, weight, left);
                values
            }
            ref other => {
                let message = format!("unknown operation {other:?}");
                return Err(Error::new(ErrorKind::Graph, message));
            }
        };
        Ok(Data::Numbers(Arc::new(values)))
    }

    /// Computes an operation that slices, concatenates, repeats or sums parts.
    fn rearrange(&mut self, node: &Node) -> Result<Vec<f32>> {
        let (nodes, extent) = (self.program.graph().nodes(), node.extent);
        let of = |input: usize| nodes[node.inputs[input]].extent;
        Ok(match node.operation {
            Operation::Slice { start } => {
                let mut out = self.result_buffer(node)?;
                each::slice_parts(&self.numbers(node, 0)?, of(0), start as usize, extent, &mut out);
                out
            }
            Operation::Concat => {
                let mut out = self.result_buffer(node)?;
                let (left, right) = (self.numbers(node, 0)?, self.numbers(node, 1)?);
                each::concat_parts(&left, of(0), &right, of(1), &mut out);
                out
            }
            Operation::Sum => {
                let mut out = self.result_buffer(node)?;
                each::total(&self.numbers(node, 0)?, of(0), &mut out);
                out
            }
            Operation::Repeat { count, each } => {
                let mut out = self.result_buffer(node)?;
                let runs = if each { of(0).length } else { of(0).elements() } as usize;
                each::repeat(&self.numbers(node, 0)?, runs, count as usize, &mut out);
                out
            }
            Operation::WeightedSum => {
                let mut out = self.result_buffer(node)?;
                each::weighted_sum(
                    &self.numbers(node, 0)?,
                    of(0),
                    &self.numbers(node, 1)?,
                    &mut out,
                );
                out
            }
            ref other => {
                let message = format!("{other:?} does not rearrange parts");
                return Err(Error::new(ErrorKind::Graph, message));
            }
        })
    }

    /// Computes an operation whose results are indices: experts, or tokens with the greatest scores.
    fn choose_indices(&self, node: &Node) -> Result<Vec<u32>> {
        let nodes = self.program.graph().nodes();
        let of = |input: usize| nodes[node.inputs[input]].extent;
        match node.operation {
            Operation::Top { count, groups, shared } => {
                let width = of(0).length as usize;
                let mut indices = each::top(&self.numbers(node, 0)?, width, count as usize, groups);
                let shared = u32::try_from(shared).unwrap_or(u32::MAX).max(1);
                for place in &mut indices {
                    *place /= shared;
                }
                Ok(indices)
            }
            Operation::Choice { range } => each::expert_indices(&self.numbers(node, 0)?, range),
            Operation::SelectTokens(options) => {
                let (queries, keys) = (self.numbers(node, 0)?, self.numbers(node, 1)?);
                let weights = options.weighted.then(|| self.numbers(node, 2)).transpose()?;
                let weights = weights.as_deref().map(Vec::as_slice);
                let operands =
                    Indexer { queries: (&queries, of(0)), keys: (&keys, of(1)), weights };
                pick(self.tiles.isa, options, &operands, &self.sequence(node).texts)
            }
            ref other => {
                let message = format!("{other:?} has no indices as result");
                Err(Error::new(ErrorKind::Graph, message))
            }
        }
    }

    fn attention(&mut self, node: &Node, options: &Attention) -> Result<Vec<f32>> {
        let program = self.program;
        let nodes = program.graph().nodes();
        let of = |input: usize| nodes[node.inputs[input]].extent;
        let decoded =
            |weight: Option<usize>| weight.map(|weight| program.decode_weight(weight)).transpose();
        let mut out = self.result_buffer(node)?;
        let [queries, keys, values] = [0, 1, 2].map(|input| self.numbers(node, input));
        let (queries, keys, values) = (queries?, keys?, values?);
        let sinks = decoded(options.sinks)?;
        let buckets = decoded(options.buckets.map(|buckets| buckets.weight))?;
        let indices = options.picks.then(|| self.indices(node, 3)).transpose()?;
        let first = 3 + usize::from(options.picks);
        let runs = [first, first + 1]
            .map(|input| (options.run > 0).then(|| self.numbers(node, input)).transpose());
        let [run_keys, run_values] = runs;
        let (run_keys, run_values) = (run_keys?, run_values?);
        let picks = indices.as_deref().map(|indices| {
            let run_length = match nodes[node.inputs[3]].operation {
                Operation::SelectTokens(options) => run_length(options),
                _ => 1,
            };
            Picks { runs: indices, heads: of(3).parts.unwrap_or(1) as usize, run_length }
        });
        let runs = run_keys.as_deref().zip(run_values.as_deref());
        let operands = Operands {
            queries: (&queries, of(0)),
            keys: (&keys, of(1)),
            values: (&values, of(2)),
            runs: runs.map(|(keys, values)| [keys.as_slice(), values.as_slice()]),
        };
        let optional =
            OptionalOperands { sinks: sinks.as_deref(), buckets: buckets.as_deref(), picks };
        let others = &self.sequence(&nodes[node.inputs[1]]).texts;
        let texts = self.sequence(node).texts.iter().cloned().zip(others.iter().cloned());
        let texts: Vec<_> = texts.collect();
        attention(self.tiles.isa, options, &operands, &optional, &texts, &mut out)?;
        Ok(out)
    }

    /// Computes an operation whose result depends on other tokens of the text or on positions.
    fn sequence_operation(&mut self, node: &Node, number: usize) -> Result<Vec<f32>> {
        let width = node.extent.elements() as usize;
        Ok(match node.operation {
            Operation::ByPosition(growth) => {
                let mut values = self.take_first_operand(node, number)?;
                let positions = &self.sequence(node).positions;
                sequence::scale_by_position(&mut values, width, growth, positions);
                values
            }
            Operation::SourceVectors => {
                let mut out = self.arena.take(self.sequence(node).vectors.len())?;
                out.copy_from_slice(&self.sequence(node).vectors);
                out
            }
            Operation::IsToken { token } => {
                let mut out = self.arena.take(self.sequence(node).tokens.len())?;
                for (value, &found) in out.iter_mut().zip(&self.sequence(node).tokens) {
                    *value = f32::from(u8::from(u64::from(found) == token));
                }
                out
            }
            Operation::HashedRows(ref hashed) => self.hashed_rows(node, hashed)?,
            Operation::Shift { ahead } => {
                let mut out = self.result_buffer(node)?;
                let texts = &self.sequence(node).texts;
                sequence::shift(&self.numbers(node, 0)?, width, ahead, texts, &mut out);
                out
            }
            Operation::Pool { run } => {
                let mut out = self.result_buffer(node)?;
                let (values, scores) = (self.numbers(node, 0)?, self.numbers(node, 1)?);
                let isa = self.tiles.isa;
                let texts = &self.sequence(node).texts;
                let run = usize::try_from(run).unwrap_or(usize::MAX);
                pool(isa, [&values, &scores], width, run, texts, &mut out);
                out
            }
            Operation::Convolution { kernel, bias, dilation } => {
                let taps = self.program.decode_weight(kernel)?;
                let bias = bias.map(|bias| self.program.decode_weight(bias)).transpose()?;
                let mut out = self.result_buffer(node)?;
                let (values, bias) = (self.numbers(node, 0)?, bias.as_deref());
                let positions = &self.sequence(node).positions;
                let dilation = usize::try_from(dilation).unwrap_or(usize::MAX).max(1);
                let taps = (&*taps, dilation);
                sequence::convolution(&values, width, taps, bias, positions, &mut out);
                out
            }
            Operation::Recurrence(options) => self.recurrence(node, options)?,
            ref other => {
                let message = format!("{other:?} is not an operation along the sequence");
                return Err(Error::new(ErrorKind::Graph, message));
            }
        })
    }

    fn recurrence(&mut self, node: &Node, options: Recurrence) -> Result<Vec<f32>> {
        let nodes = self.program.graph().nodes();
        let rates = options.rates.map(|rates| self.program.decode_weight(rates)).transpose()?;
        let (mut by_head, mut out) = (self.result_buffer(node)?, self.result_buffer(node)?);
        let operands = (0..node.inputs.len()).map(|input| self.numbers(node, input));
        let operands = operands.collect::<Result<Vec<_>>>()?;
        let of = |input: usize| (operands[input].as_slice(), nodes[node.inputs[input]].extent);
        let operands = sequence::Operands {
            queries: of(0),
            keys: of(1),
            values: of(2),
            decays: of(3),
            delta: options.delta_rule.then(|| [of(4), of(5)]),
            rates: rates.as_deref(),
        };
        let texts = &self.sequence(node).texts;
        sequence::recurrence(options, &operands, texts, &mut by_head, &mut out)?;
        self.arena.put(Arc::new(by_head));
        Ok(out)
    }

    /// Looks up a row of a table for each token.
    fn rows(&mut self, node: &Node, table: usize, rows: Rows) -> Result<Vec<f32>> {
        let count = self.sequence(node).positions.len();
        let Sequence { tokens, positions, .. } = self.sequence(node);
        let wanted: Vec<u64> = match rows {
            Rows::Tokens => tokens.iter().map(|&token| u64::from(token)).collect(),
            Rows::Positions => positions.iter().map(|&place| u64::from(place)).collect(),
            Rows::Cyclic => {
                let rows = self.program.dimension(table, 1) as u64;
                positions.iter().map(|&place| u64::from(place) % rows.max(1)).collect()
            }
            Rows::Fixed(row) => vec![row; count],
            _ => return Err(Error::new(ErrorKind::Graph, "unknown kind of rows")),
        };
        self.rows_of(table, &wanted)
    }

    /// Looks up the table rows that n-gram hashes of the tokens select.
    fn hashed_rows(&mut self, node: &Node, hashed: &HashedRows) -> Result<Vec<f32>> {
        let Sequence { tokens, texts, .. } = self.sequence(node);
        let wanted = hashed_row_numbers(hashed, tokens, texts)?;
        self.rows_of(hashed.table, &wanted)
    }

    /// Returns these rows of a table. Each distinct row is decoded once.
    fn rows_of(&mut self, table: usize, wanted: &[u64]) -> Result<Vec<f32>> {
        let length = self.program.row_len(table);
        let mut out = self.arena.take(wanted.len() * length)?;
        let mut order: Vec<usize> = (0..wanted.len()).collect();
        order.sort_by_key(|&token| wanted[token]);
        let mut last: Option<(u64, Vec<f32>)> = None;
        for token in order {
            let row = wanted[token];
            if last.as_ref().is_none_or(|(known, _)| *known != row) {
                last = Some((row, self.program.rows(table, row as usize, 1)?));
            }
            if let Some((_, values)) = &last {
                out[token * length..][..length].copy_from_slice(values);
            }
        }
        Ok(out)
    }
}
