//! Operations whose results are places, and attention, which may be restricted to some.

use ggmill_arch::graph::{Attention, Node, Operation};

use super::Run;
use crate::attention::{Extra, Operands, Picks, attention};
use crate::elementwise as each;
use crate::error::{Error, ErrorKind, Result};
use crate::pick::{Indexer, pick, run_length};

impl Run<'_> {
    /// The places of the greatest numbers, or the tokens with the greatest scores.
    pub(super) fn chosen(&self, node: &Node) -> Result<Vec<u32>> {
        let nodes = self.program.graph().nodes();
        let of = |input: usize| nodes[node.inputs[input]].extent;
        match node.operation {
            Operation::Top { count, groups, shared } => {
                let width = of(0).length as usize;
                let mut places = each::top(&self.numbers(node, 0)?, width, count as usize, groups);
                let shared = u32::try_from(shared).unwrap_or(u32::MAX).max(1);
                for place in &mut places {
                    *place /= shared;
                }
                Ok(places)
            }
            Operation::Choice { range } => each::choice(&self.numbers(node, 0)?, range),
            Operation::Pick(options) => {
                let (queries, keys) = (self.numbers(node, 0)?, self.numbers(node, 1)?);
                let weights = options.weighted.then(|| self.numbers(node, 2)).transpose()?;
                let weights = weights.as_deref().map(Vec::as_slice);
                let operands =
                    Indexer { queries: (&queries, of(0)), keys: (&keys, of(1)), weights };
                pick(self.tiles.isa, options, &operands, &self.sequence(node).texts)
            }
            ref other => {
                let message = format!("{other:?} does not choose places");
                Err(Error::new(ErrorKind::Graph, message))
            }
        }
    }

    pub(super) fn attention(&mut self, node: &Node, options: &Attention) -> Result<Vec<f32>> {
        let program = self.program;
        let nodes = program.graph().nodes();
        let of = |input: usize| nodes[node.inputs[input]].extent;
        let whole = |weight: Option<usize>| weight.map(|weight| program.whole(weight)).transpose();
        let mut out = self.room(node)?;
        let [queries, keys, values] = [0, 1, 2].map(|input| self.numbers(node, input));
        let (queries, keys, values) = (queries?, keys?, values?);
        let sinks = whole(options.sinks)?;
        let buckets = whole(options.buckets.map(|buckets| buckets.weight))?;
        let places = options.picks.then(|| self.places(node, 3)).transpose()?;
        let first = 3 + usize::from(options.picks);
        let runs = [first, first + 1]
            .map(|input| (options.run > 0).then(|| self.numbers(node, input)).transpose());
        let [run_keys, run_values] = runs;
        let (run_keys, run_values) = (run_keys?, run_values?);
        let picks = places.as_deref().map(|places| {
            let of_run = match nodes[node.inputs[3]].operation {
                Operation::Pick(options) => run_length(options),
                _ => 1,
            };
            Picks { places, heads: of(3).parts.unwrap_or(1) as usize, of_run }
        });
        let runs = run_keys.as_deref().zip(run_values.as_deref());
        let operands = Operands {
            queries: (&queries, of(0)),
            keys: (&keys, of(1)),
            values: (&values, of(2)),
            runs: runs.map(|(keys, values)| [keys.as_slice(), values.as_slice()]),
        };
        let extra = Extra { sinks: sinks.as_deref(), buckets: buckets.as_deref(), picks };
        let others = &self.sequence(&nodes[node.inputs[1]]).texts;
        let texts = self.sequence(node).texts.iter().cloned().zip(others.iter().cloned());
        let texts: Vec<_> = texts.collect();
        attention(self.tiles.isa, options, &operands, &extra, &texts, &mut out)?;
        Ok(out)
    }
}
