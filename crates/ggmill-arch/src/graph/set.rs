//! The operation set of operations and graphs.

use super::{Function, Graph, Node, Operation, Rope, Rows};

impl Operation {
    /// Returns the first operation set that contains this operation with these options, for a text.
    /// Nodes of the source need at least set 3.
    pub fn set(&self) -> u32 {
        let is_new = match self {
            Self::Apply(Function::Nearest)
            | Self::IsToken { .. }
            | Self::HashedRows(_)
            | Self::Convolution { dilation: 2.., .. } => return 6,
            Self::HeadLinear { .. }
            | Self::Repeat { .. }
            | Self::Apply(Function::Exp | Function::Softplus)
            | Self::L2Norm { .. }
            | Self::Sum
            | Self::ByPosition(_)
            | Self::Shift { ahead: false }
            | Self::Constant(_)
            | Self::Convolution { .. }
            | Self::Recurrence(_) => true,
            Self::Apply(Function::Root)
            | Self::Sinkhorn { .. }
            | Self::Choice { .. }
            | Self::Pool { .. }
            | Self::Rows { rows: Rows::Cyclic, .. } => return 5,
            Self::Attention(attention) if attention.run > 0 => return 5,
            Self::Rope(rope) if rope.back => return 5,
            Self::SourceVectors | Self::TapsLinear { .. } | Self::Shift { ahead: true } => {
                return 4;
            }
            Self::SelectTokens(pick) => return if pick.whole { 5 } else { 2 },
            Self::Top { groups, shared, .. } => groups.is_some() || *shared != 1,
            Self::Attention(attention) => {
                attention.ahead.is_some()
                    || attention.chunk > 0
                    || attention.buckets.is_some()
                    || attention.picks
            }
            _ => false,
        };
        if is_new { 2 } else { 1 }
    }

    /// Returns `true` if the result for a token depends on its position, on other tokens, or directly
    /// on the input.
    pub fn is_of_text(&self) -> bool {
        matches!(
            self,
            Self::Rows { .. }
                | Self::HashedRows(_)
                | Self::Rope(_)
                | Self::Attention(_)
                | Self::ByPosition(_)
                | Self::Constant(_)
                | Self::IsToken { .. }
                | Self::SelectTokens(_)
                | Self::Pool { .. }
                | Self::Shift { .. }
                | Self::SourceVectors
                | Self::Convolution { .. }
                | Self::Recurrence(_)
        )
    }
}

impl Graph {
    /// Returns the lowest operation set that contains all operations of the graph.
    ///
    /// ```
    /// use ggmill_arch::graph::Graph;
    /// let dimensions = |name: &str| name.ends_with(".weight").then(|| vec![8, 100]);
    /// let mut steps = vec!["v0 = rows('token_embd', tokens)", "logits = linear('output', v0)"];
    /// assert_eq!(Graph::of_steps(&steps, &dimensions)?.operation_set(), 1);
    /// steps = vec!["v0 = rows('token_embd', tokens)", "v1 = shift(v0)", "logits = linear('output', v1)"];
    /// assert_eq!(Graph::of_steps(&steps, &dimensions)?.operation_set(), 2);
    /// steps = vec!["v0 = rows('token_embd', tokens, source = true)", "v1 = rows('token_embd', tokens)", "v2 = attention(v1, v0, v0, 1.0, causal = false)", "logits = linear('output', v2)"];
    /// assert_eq!(Graph::of_steps(&steps, &dimensions)?.operation_set(), 3);
    /// # Ok::<(), ggmill_arch::Error>(())
    /// ```
    pub fn operation_set(&self) -> u32 {
        let of = |node: &Node| match &node.operation {
            Operation::HeadLinear { matrix } if self.is_undivided(*matrix, node) => 5,
            Operation::Rope(rope) if !rope.back && self.has_longer_factors(rope) => 2,
            other => other.set(),
        };
        let of = |node: &Node| of(node).max(if node.of_source { 3 } else { 1 });
        self.nodes.iter().map(of).max().unwrap_or(1)
    }

    /// Returns `true` if the matrices of all parts are one matrix, which set 2 does not support.
    fn is_undivided(&self, matrix: usize, node: &Node) -> bool {
        let dimensions = self.weights.get(matrix).map_or(0, |matrix| matrix.dimensions.len());
        dimensions < 3 && node.extent.parts.unwrap_or(1) > 1
    }

    /// Returns `true` if there are more factors than rotated pairs, which set 1 does not support.
    fn has_longer_factors(&self, rope: &Rope) -> bool {
        let factors = rope.factors.and_then(|factors| self.weights.get(factors));
        factors.is_some_and(|factors| factors.dimensions != [rope.length >> 1])
    }
}
