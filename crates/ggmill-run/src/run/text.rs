//! Operations whose result for a token depends on the text: tables, and what goes through it.

use std::sync::Arc;

use ggmill_arch::graph::{HashedRows, Node, Operation, Recurrence, Rows};

use super::{Run, Sequence};
use crate::error::{Error, ErrorKind, Result};
use crate::hashes::hashes;
use crate::pool::pool;
use crate::sequence;

impl Run<'_> {
    /// Operations that go through each text token by token, or go by the place in it.
    pub(super) fn through_text(&mut self, node: &Node, number: usize) -> Result<Vec<f32>> {
        let width = node.extent.elements() as usize;
        Ok(match node.operation {
            Operation::ByPosition(growth) => {
                let mut values = self.taken(node, number)?;
                let positions = &self.sequence(node).positions;
                sequence::by_position(&mut values, width, growth, positions);
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
                let mut out = self.room(node)?;
                let texts = &self.sequence(node).texts;
                sequence::shift(&self.numbers(node, 0)?, width, ahead, texts, &mut out);
                out
            }
            Operation::Pool { run } => {
                let mut out = self.room(node)?;
                let (values, scores) = (self.numbers(node, 0)?, self.numbers(node, 1)?);
                let isa = self.tiles.isa;
                let texts = &self.sequence(node).texts;
                let run = usize::try_from(run).unwrap_or(usize::MAX);
                pool(isa, [&values, &scores], width, run, texts, &mut out);
                out
            }
            Operation::Convolution { kernel, bias, dilation } => {
                let taps = self.program.whole(kernel)?;
                let bias = bias.map(|bias| self.program.whole(bias)).transpose()?;
                let mut out = self.room(node)?;
                let (values, bias) = (self.numbers(node, 0)?, bias.as_deref());
                let positions = &self.sequence(node).positions;
                let dilation = usize::try_from(dilation).unwrap_or(usize::MAX).max(1);
                let taps = (&*taps, dilation);
                sequence::convolution(&values, width, taps, bias, positions, &mut out);
                out
            }
            Operation::Recurrence(options) => self.recurrence(node, options)?,
            ref other => {
                let message = format!("{other:?} does not go through a text");
                return Err(Error::new(ErrorKind::Graph, message));
            }
        })
    }

    fn recurrence(&mut self, node: &Node, options: Recurrence) -> Result<Vec<f32>> {
        let nodes = self.program.graph().nodes();
        let rates = options.rates.map(|rates| self.program.whole(rates)).transpose()?;
        let (mut by_head, mut out) = (self.room(node)?, self.room(node)?);
        let operands = (0..node.inputs.len()).map(|input| self.numbers(node, input));
        let operands = operands.collect::<Result<Vec<_>>>()?;
        let of = |input: usize| (operands[input].as_slice(), nodes[node.inputs[input]].extent);
        let operands = sequence::Operands {
            queries: of(0),
            keys: of(1),
            values: of(2),
            decays: of(3),
            moves: options.moves.then(|| [of(4), of(5)]),
            rates: rates.as_deref(),
        };
        let texts = &self.sequence(node).texts;
        sequence::recurrence(options, &operands, texts, &mut by_head, &mut out)?;
        self.arena.put(Arc::new(by_head));
        Ok(out)
    }

    /// A row of a table for each token.
    pub(super) fn rows(&mut self, node: &Node, table: usize, rows: Rows) -> Result<Vec<f32>> {
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

    /// The rows of a table by hashes of the last tokens of each text.
    fn hashed_rows(&mut self, node: &Node, hashed: &HashedRows) -> Result<Vec<f32>> {
        let Sequence { tokens, texts, .. } = self.sequence(node);
        let wanted = hashes(hashed, tokens, texts)?;
        self.rows_of(hashed.table, &wanted)
    }

    /// These rows of a table, each of which is read once.
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
