//! The tensors of a model that a graph uses.

use std::collections::BTreeMap;

use super::shape::Dimensions;
use crate::graph::{Graph, HashedRows, Operation, Weight};
use crate::resolve::Resolved;

/// The tensors that a graph uses.
pub(super) struct Weights<'a> {
    source: Source<'a>,
    pub(super) list: Vec<Weight>,
    by_name: BTreeMap<String, usize>,
}

/// The source of tensor shapes.
#[derive(Clone, Copy)]
pub(super) enum Source<'a> {
    /// A description, which has the shapes, and the names of the tensors in the file.
    Description(&'a Resolved<'a>, &'a dyn Fn(&str) -> bool),
    /// The tensors of a file.
    File(&'a Dimensions<'a>),
}

impl Source<'_> {
    fn has(self, name: &str) -> bool {
        match self {
            Self::Description(_, present) => present(name),
            Self::File(dimensions) => dimensions(name).is_some(),
        }
    }

    fn dimensions(self, name: &str) -> Option<Vec<u64>> {
        match self {
            Self::Description(model, _) => {
                model.tensor(name).map(|tensor| tensor.shape.dimensions().to_vec())
            }
            Self::File(dimensions) => dimensions(name),
        }
    }
}

impl<'a> Weights<'a> {
    pub(super) fn new(source: Source<'a>) -> Self {
        Self { source, list: Vec::new(), by_name: BTreeMap::new() }
    }

    /// Returns the tensor with this name, or the one that it is tied to. Trailing dimensions of 1 are
    /// removed.
    pub(super) fn find(&mut self, name: &str) -> Option<usize> {
        let name = match self.source {
            source if source.has(name) => name,
            Source::File(_) => return None,
            Source::Description(model, present) => {
                let tied = model.tensor(name)?.tied.as_deref()?;
                Some(tied).filter(|tied| present(tied))?
            }
        };
        if let Some(&known) = self.by_name.get(name) {
            return Some(known);
        }
        let dimensions = self.source.dimensions(name)?;
        Some(self.add(name, dimensions))
    }

    /// Returns a scale tensor, which quantizers add and no description has. Without a file, its
    /// dimensions are `dimensions`.
    pub(super) fn scale(&mut self, name: &str, dimensions: &[u64]) -> Option<usize> {
        if !self.source.has(name) {
            return None;
        }
        if let Some(&known) = self.by_name.get(name) {
            return Some(known);
        }
        let found = self.source.dimensions(name).unwrap_or_else(|| dimensions.to_vec());
        Some(self.add(name, found))
    }

    fn add(&mut self, name: &str, mut dimensions: Vec<u64>) -> usize {
        let used = dimensions.iter().rposition(|&dimension| dimension != 1);
        let used = used.map_or(1, |last| last.saturating_add(1)).min(dimensions.len());
        dimensions.truncate(used);
        let number = self.list.len();
        self.by_name.insert(name.to_owned(), number);
        self.list.push(Weight { name: name.to_owned(), dimensions });
        number
    }

    pub(super) fn dimensions(&self, weight: usize) -> &[u64] {
        self.list.get(weight).map_or(&[], |weight| &weight.dimensions)
    }

    pub(super) fn name(&self, weight: usize) -> &str {
        self.list.get(weight).map_or("", |weight| &weight.name)
    }
}

impl Graph {
    /// Numbers the tensors in order of first use, and removes unused ones, which only a condition
    /// queried.
    pub(super) fn in_order_of_use(mut self) -> Self {
        let mut numbers = vec![None; self.weights.len()];
        let mut used = Vec::with_capacity(self.weights.len());
        for node in &mut self.nodes {
            node.operation.each_weight(&mut |weight| {
                let Some(number) = numbers.get_mut(*weight) else { return };
                let known = *number.get_or_insert_with(|| {
                    used.push(*weight);
                    used.len().saturating_sub(1)
                });
                *weight = known;
            });
        }
        self.weights = used.iter().filter_map(|&old| self.weights.get(old).cloned()).collect();
        self
    }
}

impl Operation {
    /// Calls `take` for the index of each tensor of the operation.
    fn each_weight(&mut self, take: &mut dyn FnMut(&mut usize)) {
        let some = match self {
            Self::Rows { table: weight, .. }
            | Self::HashedRows(HashedRows { table: weight, .. })
            | Self::WithWeight { weight, .. }
            | Self::HeadLinear { matrix: weight } => {
                return take(weight);
            }
            Self::Linear { matrix, scale, bias } | Self::ExpertLinear { matrix, scale, bias } => {
                take(matrix);
                [scale.as_mut(), bias.as_mut()]
            }
            Self::RmsNorm { weight, .. } => [weight.as_mut(), None],
            Self::LayerNorm { weight, bias, .. } => [weight.as_mut(), bias.as_mut()],
            Self::Rope(rope) => [rope.factors.as_mut(), None],
            Self::Attention(attention) => {
                let buckets = attention.buckets.as_mut().map(|buckets| &mut buckets.weight);
                [attention.sinks.as_mut(), buckets]
            }
            Self::Recurrence(recurrence) => [recurrence.rates.as_mut(), None],
            Self::Convolution { kernel, bias, .. } | Self::TapsLinear { kernel, bias } => {
                take(kernel);
                [bias.as_mut(), None]
            }
            Self::View
            | Self::Slice { .. }
            | Self::Concat
            | Self::Apply(_)
            | Self::Clamp { .. }
            | Self::Softmax
            | Self::Top { .. }
            | Self::Constant(_)
            | Self::IsToken { .. }
            | Self::SelectTokens(_)
            | Self::Gather
            | Self::Normalize
            | Self::L2Norm { .. }
            | Self::Sum
            | Self::Sinkhorn { .. }
            | Self::Choice { .. }
            | Self::Pool { .. }
            | Self::ByPosition(_)
            | Self::Shift { .. }
            | Self::SourceVectors
            | Self::Repeat { .. }
            | Self::WeightedSum
            | Self::SwigluOai
            | Self::Arithmetic(_)
            | Self::WithNumber { .. } => [None, None],
        };
        some.into_iter().flatten().for_each(take);
    }

    /// Returns the tensors of the operation as indices in [`Graph::weights`].
    pub fn weights(&self) -> Vec<usize> {
        let mut found = Vec::new();
        self.clone().each_weight(&mut |weight| found.push(*weight));
        found
    }
}
