//! The operations of ggml that a graph is lowered to, and the order in which ggml computes them.

use crate::error::{Error, ErrorKind, Result};
use crate::limits::MAX_NODES;
use crate::memory::compute::{ComputeKind, ComputeLayer, ComputeNode};

/// The index of an operation in a [`Dag`].
pub(super) type Op = usize;

/// Operations and the order of those that are needed. Each is computed once.
#[derive(Debug, Default)]
pub(super) struct Dag {
    ops: Vec<ComputeNode>,
    /// If true, a result is not contiguous in memory.
    strided: Vec<bool>,
    /// If true, an operation is in `order`.
    expanded: Vec<bool>,
    order: Vec<Op>,
}

/// Returns an operation whose operands are results, without a weight.
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
        let op = self.ops.len();
        self.ops.push(node);
        self.strided.push(false);
        self.expanded.push(false);
        op
    }

    pub(super) fn set_strided(&mut self, op: Op) {
        if let Some(strided) = self.strided.get_mut(op) {
            *strided = true;
        }
    }

    pub(super) fn is_strided(&self, op: Op) -> bool {
        self.strided.get(op).copied().unwrap_or(false)
    }

    /// Sets the name of the tensor that an operation reads.
    pub(super) fn set_tensor(&mut self, op: Op, name: Option<&str>) {
        if let Some(node) = self.ops.get_mut(op) {
            node.tensor = name.map(Into::into);
        }
    }

    /// Returns the number of F32 elements of a result.
    pub(super) fn elements(&self, op: Op) -> u64 {
        self.ops.get(op).map_or(0, |node| node.elements)
    }

    /// Appends an operation to the order, after its sources: depth first, as `ggml_build_forward_expand`
    /// does.
    pub(super) fn expand(&mut self, root: Op) {
        // Each operation with the index of the source that is visited next.
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
            let message = format!("{} operations, but the limit is {MAX_NODES}", self.ops.len());
            return Err(Error::new(ErrorKind::Limit, message));
        }
        Ok(())
    }

    /// Returns the operations in order, inputs first.
    pub(super) fn finish(self) -> Vec<ComputeNode> {
        let is_input =
            |op: &Op| self.ops.get(*op).is_some_and(|node| node.kind == ComputeKind::Input);
        let (inputs, others): (Vec<Op>, Vec<Op>) = self.order.iter().partition(|op| is_input(op));
        let mut positions = vec![0; self.ops.len()];
        for (index, &op) in inputs.iter().chain(&others).enumerate() {
            if let Some(position) = positions.get_mut(op) {
                *position = index;
            }
        }
        let in_order = inputs.into_iter().chain(others);
        let node = |op: Op| {
            let mut node = self.ops.get(op)?.clone();
            for source in &mut node.sources {
                *source = positions.get(*source).copied().unwrap_or(0);
            }
            Some(node)
        };
        in_order.filter_map(node).collect()
    }
}
