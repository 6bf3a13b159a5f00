//! Operations that take numbers of parts from their places, or add parts up.

use ggmill_arch::graph::{Node, Operation};

use super::Run;
use crate::elementwise as each;
use crate::error::{Error, ErrorKind, Result};

impl Run<'_> {
    pub(super) fn rearranged(&mut self, node: &Node) -> Result<Vec<f32>> {
        let (nodes, extent) = (self.program.graph().nodes(), node.extent);
        let of = |input: usize| nodes[node.inputs[input]].extent;
        Ok(match node.operation {
            Operation::Part { start } => {
                let mut out = self.room(node)?;
                each::part(&self.numbers(node, 0)?, of(0), start as usize, extent, &mut out);
                out
            }
            Operation::Concat => {
                let mut out = self.room(node)?;
                let (left, right) = (self.numbers(node, 0)?, self.numbers(node, 1)?);
                each::concat(&left, of(0), &right, of(1), &mut out);
                out
            }
            Operation::Total => {
                let mut out = self.room(node)?;
                each::total(&self.numbers(node, 0)?, of(0), &mut out);
                out
            }
            Operation::Repeat { count, each } => {
                let mut out = self.room(node)?;
                let runs = if each { of(0).length } else { of(0).elements() } as usize;
                each::repeat(&self.numbers(node, 0)?, runs, count as usize, &mut out);
                out
            }
            Operation::Mix => {
                let mut out = self.room(node)?;
                each::mix(&self.numbers(node, 0)?, of(0), &self.numbers(node, 1)?, &mut out);
                out
            }
            ref other => {
                let message = format!("{other:?} does not rearrange parts");
                return Err(Error::new(ErrorKind::Graph, message));
            }
        })
    }
}
