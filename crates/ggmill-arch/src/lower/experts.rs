//! Experts: which of them each token takes, and the sum of what they give.

use super::{ComputeKind, Lower, Op, product, unknown};
use crate::error::{Error, ErrorKind, Result};
use crate::graph::{Node, Operation};
use crate::limits::MAX_PARTS;

impl Lower<'_> {
    /// Numbers that become shares: those of a few experts are reshaped before.
    pub(super) fn shares(&mut self, number: usize, node: &Node, elements: u64) -> Result<Op> {
        let input = self.operand(number, 0)?;
        let of = node.inputs.first().copied().unwrap_or_default();
        let is_taken = matches!(self.node(of)?.operation, Operation::Gather);
        if node.operation == Operation::Softmax {
            if !is_taken {
                return Ok(self.op(ComputeKind::InPlace, elements, vec![input]));
            }
            let view = self.reshaped(input);
            let shares = self.op(ComputeKind::InPlace, elements, vec![view]);
            return Ok(self.reshaped(shares));
        }
        let view = self.reshaped(input);
        let sums = self.count(self.rows_of(number));
        let sum = self.op(ComputeKind::Own, sums, vec![view]);
        let sum = self.op(ComputeKind::InPlace, sums, vec![sum]);
        let shares = self.op(ComputeKind::InPlace, elements, vec![view, sum]);
        Ok(self.reshaped(shares))
    }

    pub(super) fn experts(&mut self, number: usize, node: &Node, elements: u64) -> Result<Op> {
        let rows = self.rows_of(number);
        let count = self.count(rows);
        match node.operation {
            Operation::Top { groups, count: used, shared } => {
                let of = node.inputs.first().copied().unwrap_or_default();
                let mut scores = self.operand(number, 0)?;
                let all = product(&[self.node(of)?.extent.elements(), count]);
                if let Some(groups) = groups {
                    scores = self.best_groups(scores, all, groups, count);
                }
                let sorted = self.op(ComputeKind::Own, all, vec![scores]);
                let skipped = product(&[self.node(of)?.extent.elements(), count.saturating_sub(1)]);
                let top = self.op(ComputeKind::View, skipped.saturating_add(used), vec![sorted]);
                if shared == 1 {
                    return Ok(top);
                }
                let numbers = self.op(ComputeKind::Own, elements, vec![top]);
                let numbers = self.op(ComputeKind::InPlace, elements, vec![numbers]);
                Ok(self.op(ComputeKind::Own, elements, vec![numbers]))
            }
            Operation::Gather => {
                let (scores, choice) = (self.operand(number, 0)?, self.operand(number, 1)?);
                let scores = self.reshaped(scores);
                Ok(self.op(ComputeKind::Own, elements, vec![scores, choice]))
            }
            Operation::WeightedSum => self.mix(number, node, elements),
            _ => Err(unknown("an operation of experts")),
        }
    }

    /// The scores without those of the groups that are not the best.
    fn best_groups(
        &mut self,
        scores: Op,
        all: u64,
        groups: crate::graph::Groups,
        count: u64,
    ) -> Op {
        let view = self.reshaped(scores);
        let sorted = self.op(ComputeKind::Own, all, vec![view]);
        let pair = self.op(ComputeKind::View, all, vec![sorted]);
        let pairs = self.reshaped(view);
        let two = product(&[2, groups.count, count]);
        let best = self.op(ComputeKind::Own, two, vec![pairs, pair]);
        let best = self.reshaped(best);
        let sums = product(&[groups.count, count]);
        let sum = self.op(ComputeKind::Own, sums, vec![best]);
        let sum = self.reshaped(sum);
        let sorted = self.op(ComputeKind::Own, sums, vec![sum]);
        let top = self.op(ComputeKind::View, sums, vec![sorted]);
        let used = all.checked_div(groups.count).unwrap_or(0).saturating_mul(groups.used);
        let chosen = self.op(ComputeKind::Own, used, vec![view, top]);
        let filled = self.op(ComputeKind::InPlace, all, vec![view]);
        let set = self.op(ComputeKind::Own, 0, vec![filled, chosen, top]);
        let masked = self.op(ComputeKind::View, all, vec![filled, set]);
        self.reshaped(masked)
    }

    /// The sum of the parts of an operand, each multiplied by a number.
    fn mix(&mut self, number: usize, node: &Node, elements: u64) -> Result<Op> {
        let [of, by] = node.inputs[..] else { return Err(unknown("a sum of parts")) };
        let parts = self.node(of)?.extent.parts.unwrap_or(1);
        if parts > MAX_PARTS {
            let message = format!("{parts} parts, the limit is {MAX_PARTS}");
            return Err(Error::new(ErrorKind::Limit, message));
        }
        let all = product(&[parts, elements]);
        let mut whole = self.value(of, number)?;
        // Weights of 1 for all are not multiplied with: the operands of experts were.
        let is_one = matches!(self.node(by)?.operation, Operation::WithNumber { .. })
            && self.is_made_of_zero(by);
        if !is_one {
            let shares = self.value(by, number)?;
            self.dag.expand(shares);
            whole = self.op(ComputeKind::InPlace, all, vec![whole, shares]);
        }
        self.dag.expand(whole);
        let rows = self.count(self.rows_of(number));
        let width = elements.checked_div(rows).unwrap_or(0);
        let span = all.saturating_sub(width.saturating_mul(parts.saturating_sub(1)));
        let mut views = Vec::new();
        for _ in 0..parts {
            let view = self.op(ComputeKind::View, span, vec![whole]);
            self.dag.expand(view);
            views.push(view);
        }
        let mut views = views.into_iter();
        let first = views.next().unwrap_or(whole);
        let mut sum = first;
        if parts == 1 {
            sum = self.op(ComputeKind::Own, elements, vec![first]);
        }
        for view in views {
            sum = self.op(ComputeKind::InPlace, elements, vec![sum, view]);
            self.dag.expand(sum);
        }
        Ok(sum)
    }

    fn is_made_of_zero(&self, number: usize) -> bool {
        let input = self.node(number).ok().and_then(|node| node.inputs.first().copied());
        let of = input.and_then(|input| self.node(input).ok());
        of.is_some_and(|of| matches!(of.inputs[..], [one, other] if one == other))
    }
}
