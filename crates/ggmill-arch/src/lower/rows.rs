//! Which nodes are computed only for the tokens that give scores.

use std::collections::BTreeSet;

use super::{Late, Lowering, Sums};
use crate::graph::{Graph, Operation};

/// Returns `true` if an operation takes several tokens.
fn mixes(operation: &Operation) -> bool {
    matches!(
        operation,
        Operation::Attention(_)
            | Operation::Convolution { .. }
            | Operation::Recurrence(_)
            | Operation::Shift { .. }
            | Operation::Pool { .. }
            | Operation::SelectTokens(_)
    )
}

/// For each node whether it is computed only for the tokens that give scores.
pub(super) fn of_outputs(lowering: &Lowering, users: &[Vec<usize>]) -> Vec<bool> {
    let graph = &lowering.graph;
    let count = graph.nodes().len();
    let mut last = None;
    for section in graph.sections().iter().filter(|section| section.block.is_some()) {
        last = Some(section.nodes.clone());
    }
    let last = last.unwrap_or(0..0);
    match lowering.build.late {
        Late::Block => {
            let whole = of_all(graph, last.clone(), users);
            let is_whole_norm = |number: usize| {
                lowering.build.sums == Sums::LayerFirst
                    && graph.nodes().get(number).is_some_and(|node| {
                        matches!(node.operation, Operation::LayerNorm { .. })
                            && node.inputs.first().is_some_and(|&input| input < last.start)
                    })
            };
            let is_whole = |node: usize| whole.contains(&node) || is_whole_norm(node);
            (0..count).map(|node| node >= last.start && !is_whole(node)).collect()
        }
        Late::Blocks => (0..count).map(|node| node >= last.end).collect(),
        Late::Norm => {
            let is_norm = |node: &usize| {
                let operation = graph.nodes().get(*node).map(|node| &node.operation);
                matches!(operation, Some(Operation::RmsNorm { .. } | Operation::LayerNorm { .. }))
            };
            let norm = (last.end..count).rev().find(is_norm);
            (0..count).map(|node| norm.is_some_and(|norm| node > norm)).collect()
        }
    }
}

/// The nodes of the last block that are computed for all tokens: the product with weights behind each
/// operation on several tokens, and what these take.
fn of_all(graph: &Graph, last: core::ops::Range<usize>, users: &[Vec<usize>]) -> BTreeSet<usize> {
    let nodes = graph.nodes();
    let embedding = nodes.first().map_or(0, |node| node.extent.elements());
    let mut whole = BTreeSet::new();
    let mut open: Vec<usize> = Vec::new();
    let is_end = |number: usize| {
        nodes.get(number).is_some_and(|node| {
            matches!(node.operation, Operation::Linear { .. })
                && node.extent.parts.is_none()
                && node.extent.length == embedding
        })
    };
    for number in last.clone() {
        if !nodes.get(number).is_some_and(|node| mixes(&node.operation)) {
            continue;
        }
        // Down to the first product with weights that is as long as an embedding.
        let below = core::iter::successors(Some(number), |&below| {
            let next = users.get(below).and_then(|users| users.iter().max()).copied();
            next.filter(|next| last.contains(next) && !is_end(below))
        });
        let end = below.last().filter(|&below| is_end(below));
        open.push(end.unwrap_or(number));
    }
    while let Some(number) = open.pop() {
        if whole.insert(number) {
            open.extend(nodes.get(number).into_iter().flat_map(|node| &node.inputs).copied());
        }
    }
    whole
}
