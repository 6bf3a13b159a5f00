//! States: convolutions and recurrences, which take what earlier tokens left.

use super::{Input, Lower, Op, node, product, unknown};
use crate::error::Result;
use crate::graph::{Arithmetic, Function, Node, Operation, Recurrence};
use crate::memory::compute::{ComputeKind, ComputeLayer};

/// The states of a block that are read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Kept {
    /// The last inputs of the convolutions.
    inputs: Op,
}

/// How llama.cpp computes a block with states.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scan {
    /// Short convolutions alone.
    Convolution,
    /// A state space: Mamba.
    Channels,
    /// A state space of heads: Mamba 2.
    Heads,
    /// The delta rule, with queries, keys and values of one convolution.
    Delta,
    /// The delta rule, with a convolution each.
    DeltaOfThree,
}

impl Lower<'_> {
    /// The nodes of the block that a node is of.
    fn section(&self, number: usize) -> Option<&[Node]> {
        let graph = &self.lowering.graph;
        let sections = graph.sections();
        let after = sections.partition_point(|section| section.nodes.start <= number);
        let section = sections.get(after.checked_sub(1)?).filter(|it| it.block.is_some())?;
        graph.nodes().get(section.nodes.clone())
    }

    /// How the states of the block of a node are computed, if it has any.
    pub(super) fn scan_of(&self, number: usize) -> Option<Scan> {
        let nodes = self.section(number)?;
        let convolutions =
            nodes.iter().filter(|it| matches!(it.operation, Operation::Convolution { .. })).count();
        let mut recurrences = nodes.iter().filter_map(|node| match node.operation {
            Operation::Recurrence(recurrence) => Some(recurrence),
            _ => None,
        });
        Some(match recurrences.next() {
            Some(Recurrence { delta_rule: true, .. }) if convolutions > 1 => Scan::DeltaOfThree,
            Some(Recurrence { delta_rule: true, .. }) => Scan::Delta,
            Some(Recurrence { rates: Some(_), .. }) => Scan::Channels,
            Some(_) => Scan::Heads,
            None if convolutions > 0 => Scan::Convolution,
            None => return None,
        })
    }

    /// Reads the rows of a state of each sequence, and copies those of other sequences.
    fn read_state(&mut self, elements: u64) -> Op {
        let ids = self.input(Input::StateIds);
        let state = self.cached(elements, vec![ids]);
        self.dag.expand(state);
        let rest = self.rest_ids();
        let empty = self.op(ComputeKind::Empty, 0, vec![rest]);
        let kept = self.cached(0, vec![empty]);
        self.dag.expand(kept);
        state
    }

    fn rest_ids(&mut self) -> Op {
        if let Some(rest) = self.rest_ids {
            return rest;
        }
        let ids = self.input(Input::StateIds);
        let rest = self.dag.add(node(ComputeKind::View, 0, ComputeLayer::Input, vec![ids]));
        self.rest_ids = Some(rest);
        rest
    }

    /// The last inputs of all convolutions of the block.
    fn last_inputs(&mut self, number: usize) -> Result<Op> {
        let ComputeLayer::Block(block) = self.layer else { return Err(unknown("a convolution")) };
        if let Some(kept) = self.kept.get(&block) {
            return Ok(kept.inputs);
        }
        let mut elements = 0u64;
        for node in self.section(number).into_iter().flatten() {
            if let Operation::Convolution { kernel, .. } = node.operation {
                let before = self.taps(kernel).saturating_sub(1);
                elements = elements.saturating_add(product(&[before, node.extent.elements()]));
            }
        }
        if matches!(self.scan, Some(Scan::Delta | Scan::DeltaOfThree)) {
            // The norm of the block is computed before.
            let linear = self.node(number)?.inputs.first().copied().unwrap_or_default();
            let normed = self.node(linear)?.inputs.first().copied();
            if let Some(value) = normed.and_then(|normed| self.whole(normed).ok()) {
                self.dag.expand(value.op);
            }
        }
        let inputs = self.read_state(product(&[elements, self.numbers.sequences]));
        self.kept.insert(block, Kept { inputs });
        Ok(inputs)
    }

    fn taps(&self, kernel: usize) -> u64 {
        let weight = self.lowering.graph.weights().get(kernel);
        weight.and_then(|weight| weight.dimensions.first()).copied().unwrap_or(1)
    }

    pub(super) fn convolution(&mut self, number: usize, node: &Node, kernel: usize) -> Result<Op> {
        let before = self.last_inputs(number)?;
        let input = self.operand(number, 0)?;
        let input = self.reshaped(input);
        let channels = node.extent.elements();
        let (tokens, sequences) = (self.numbers.tokens, self.numbers.sequences);
        let more = product(&[self.taps(kernel).saturating_sub(1), sequences]);
        let length = product(&[channels, tokens.saturating_add(more)]);
        let all = self.op(ComputeKind::Own, length, vec![before, input]);
        let skipped = tokens.checked_div(sequences).unwrap_or(0);
        let last = self.op(ComputeKind::View, length.saturating_sub(skipped), vec![all]);
        let kept = self.cached(0, vec![last]);
        self.dag.expand(kept);
        let elements = product(&[channels, tokens]);
        let result = self.weighted(ComputeKind::Own, elements, vec![all], kernel);
        Ok(if self.scan == Some(Scan::DeltaOfThree) { self.reshaped(result) } else { result })
    }

    pub(super) fn recurrence(
        &mut self,
        number: usize,
        node: &Node,
        recurrence: Recurrence,
    ) -> Result<Op> {
        let &[query, key, value, decay, ..] = &node.inputs[..] else {
            return Err(unknown("a recurrence"));
        };
        if recurrence.output_before_update {
            return Err(unknown("a recurrence that is read before it changes"));
        }
        let multiplied = self.node(value)?;
        let (Operation::Arithmetic(Arithmetic::Multiply), &[value, by]) =
            (&multiplied.operation, &multiplied.inputs[..])
        else {
            return Err(unknown("a recurrence"));
        };
        let state = self.node(key)?.extent.length;
        let inner = node.extent.elements();
        let (tokens, sequences) = (self.numbers.tokens, self.numbers.sequences);
        let states = product(&[inner, state, sequences]);
        let results = product(&[inner, tokens]);
        let all = results.saturating_add(states);
        if recurrence.delta_rule {
            return self.delta(number, [query, key, value, by, decay], states, results);
        }
        // The scan takes the state where it is kept.
        let origin = self.cached(0, Vec::new());
        self.dag.expand(origin);
        let before = self.op(ComputeKind::View, states, vec![origin]);
        let rates = match recurrence.rates {
            Some(rates) => rates,
            None => self.decay(decay).ok_or_else(|| unknown("the decay of a recurrence"))?,
        };
        let [moved, steps, written, read] =
            [value, by, key, query].map(|it| self.value(it, number));
        let ids = self.input(Input::StateIds);
        let sources = vec![before, moved?, steps?, written?, read?, ids];
        let scanned = self.weighted(ComputeKind::Own, all, sources, rates);
        self.dag.expand(scanned);
        let before = self.op(ComputeKind::View, states, vec![origin]);
        let rest = self.rest_ids();
        let empty = self.op(ComputeKind::Empty, 0, vec![before, rest]);
        let kept = self.cached(0, vec![empty]);
        self.dag.expand(kept);
        let last = self.op(ComputeKind::View, states, vec![scanned]);
        let kept = self.cached(0, vec![last]);
        self.dag.expand(kept);
        Ok(self.op(ComputeKind::View, results, vec![scanned]))
    }

    /// The weight in a decay that is `exp(steps · weight)`.
    fn decay(&self, d: usize) -> Option<usize> {
        let exp = self.node(d).ok()?;
        let inner = self.node(*exp.inputs.first()?).ok()?;
        match inner.operation {
            Operation::WithWeight { weight, .. } => Some(weight),
            _ => None,
        }
    }

    /// Linear attention by the delta rule.
    fn delta(
        &mut self,
        number: usize,
        [q, k, v, beta, decay]: [usize; 5],
        states: u64,
        results: u64,
    ) -> Result<Op> {
        let state = self.read_state(states);
        let exp = self.node(decay)?;
        let logarithm = match exp.operation {
            Operation::Apply(Function::Exp) => exp.inputs.first().copied().unwrap_or(decay),
            _ => decay,
        };
        let is_repeated = matches!(self.node(k)?.operation, Operation::Repeat { each: true, .. });
        let mut unit = [q, k].map(|it| self.unit(it, number));
        if is_repeated {
            let length = self.node(k)?.extent.elements();
            let elements = product(&[length, self.numbers.tokens]);
            unit = unit.map(|it| Ok(self.op(ComputeKind::Own, elements, vec![it?])));
        }
        let [q, k] = unit;
        let [v, decay, beta] = [v, logarithm, beta].map(|it| self.value(it, number));
        let sources = vec![q?, k?, v?, decay?, beta?, state];
        let all = results.saturating_add(states);
        let changed = self.op(ComputeKind::Own, all, sources);
        let last = self.op(ComputeKind::View, states, vec![changed]);
        let kept = self.cached(0, vec![last]);
        let read = self.op(ComputeKind::View, results, vec![changed]);
        self.dag.expand(kept);
        Ok(if self.scan == Some(Scan::DeltaOfThree) {
            self.op(ComputeKind::Own, results, vec![read])
        } else {
            read
        })
    }

    /// Queries or keys of unit length, which are divided by their norm at once.
    fn unit(&mut self, number: usize, user: usize) -> Result<Op> {
        let mut below = number;
        loop {
            let node = self.node(below)?;
            let input = node.inputs.first().copied().unwrap_or_default();
            match node.operation {
                Operation::Repeat { .. } | Operation::WithNumber { .. } => below = input,
                Operation::RmsNorm { weight: None, .. } => {
                    let value = self.value(input, user)?;
                    let elements = product(&[node.extent.elements(), self.numbers.tokens]);
                    return Ok(self.op(ComputeKind::Own, elements, vec![value]));
                }
                _ => return self.value(below, user),
            }
        }
    }
}
