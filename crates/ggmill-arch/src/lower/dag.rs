//! Operations as ggml has them, and the order in which it computes them.

use crate::error::{Error, ErrorKind, Result};
use crate::limits::MAX_NODES;
use crate::memory::compute::{ComputeKind, ComputeLayer, ComputeNode};

/// An operation by its place in a [`Dag`].
pub(super) type Op = usize;

/// Operations that are computed when something that is computed needs them, each once.
#[derive(Debug, Default)]
pub(super) struct Dag {
    ops: Vec<ComputeNode>,
    /// If true, the numbers of a result are not one after the other in memory.
    strided: Vec<bool>,
    /// If true, an operation is in the order.
    expanded: Vec<bool>,
    order: Vec<Op>,
}

/// An operation of results alone.
pub(super) fn node(
    kind: ComputeKind,
    elements: u64,
    layer: ComputeLayer,
    sources: Vec<Op>,
) -> ComputeNode {
    ComputeNode { elements, kind, layer, weighted: false, sources, tensor: None }
}

impl Dag {
    pub(super) fn add(&mut self, node: ComputeNode) -> Op {
        let place = self.ops.len();
        self.ops.push(node);
        self.strided.push(false);
        self.expanded.push(false);
        place
    }

    pub(super) fn set_strided(&mut self, op: Op) {
        if let Some(strided) = self.strided.get_mut(op) {
            *strided = true;
        }
    }

    pub(super) fn is_strided(&self, op: Op) -> bool {
        self.strided.get(op).copied().unwrap_or(false)
    }

    /// Names a tensor that an operation takes, wherever it is computed.
    pub(super) fn set_tensor(&mut self, op: Op, name: Option<&str>) {
        if let Some(node) = self.ops.get_mut(op) {
            node.tensor = name.map(Into::into);
        }
    }

    /// The F32 numbers that a result takes.
    pub(super) fn elements(&self, op: Op) -> u64 {
        self.ops.get(op).map_or(0, |node| node.elements)
    }

    /// Puts an operation into the order, behind what it is computed of: depth first, as
    /// `ggml_build_forward_expand` does.
    pub(super) fn expand(&mut self, root: Op) {
        // Each with the source that is next.
        let mut open = vec![(root, 0usize)];
        while let Some((op, next)) = open.last_mut() {
            let (op, source) = (*op, self.ops.get(*op).and_then(|node| node.sources.get(*next)));
            let is_known = self.expanded.get(op).copied().unwrap_or(true);
            if let Some(&source) = source.filter(|_| !is_known) {
                *next = next.saturating_add(1);
                if !self.expanded.get(source).copied().unwrap_or(true) {
                    open.push((source, 0));
                }
                continue;
            }
            open.pop();
            if !is_known {
                if let Some(expanded) = self.expanded.get_mut(op) {
                    *expanded = true;
                }
                self.order.push(op);
            }
        }
    }

    /// Fails for more operations than a graph can have.
    pub(super) fn check(&self) -> Result<()> {
        if self.ops.len() > MAX_NODES {
            let message = format!("more than {MAX_NODES} results, the limit is");
            return Err(Error::new(ErrorKind::Limit, message));
        }
        Ok(())
    }

    /// Returns the operations in order, inputs first.
    pub(super) fn finish(self) -> Vec<ComputeNode> {
        let is_input =
            |op: &Op| self.ops.get(*op).is_some_and(|node| node.kind == ComputeKind::Input);
        let (inputs, others): (Vec<Op>, Vec<Op>) = self.order.iter().partition(|op| is_input(op));
        let mut places = vec![0; self.ops.len()];
        for (place, &op) in inputs.iter().chain(&others).enumerate() {
            if let Some(found) = places.get_mut(op) {
                *found = place;
            }
        }
        let in_order = inputs.into_iter().chain(others);
        let node = |op: Op| {
            let mut node = self.ops.get(op)?.clone();
            for source in &mut node.sources {
                *source = places.get(*source).copied().unwrap_or(0);
            }
            Some(node)
        };
        in_order.filter_map(node).collect()
    }
}
