//! The operations of a graph that ggml computes token by token.

use super::{Input, Lower, Op, Rows, Scan, Sums, Value, product, unknown};
use crate::error::Result;
use crate::graph::{Arithmetic, Function, Node, Operation};
use crate::memory::compute::ComputeKind;

impl Lower<'_> {
    /// The result of a node; `None` where it is lowered together with a later one.
    pub(super) fn operation(&mut self, number: usize, node: &Node) -> Result<Option<Value>> {
        let rows = self.rows_of(number);
        let elements = product(&[node.extent.elements(), self.count(rows)]);
        let op = match &node.operation {
            Operation::Rows { table, rows } => return Ok(Some(self.rows(*table, *rows, elements))),
            Operation::Linear { matrix, .. } => self.linear(number, node, *matrix, elements)?,
            Operation::HeadLinear { matrix } => {
                let input = self.operand(number, 0)?;
                self.weighted(ComputeKind::Own, elements, vec![input], *matrix)
            }
            Operation::ExpertLinear { matrix, .. } => {
                let (input, choice) = (self.operand(number, 0)?, self.operand(number, 1)?);
                let is_vector = node.inputs.first().is_some_and(|&input| self.is_vector(input));
                let input = if is_vector { self.vector(input) } else { input };
                self.weighted(ComputeKind::Own, elements, vec![input, choice], *matrix)
            }
            Operation::RmsNorm { weight, .. } => {
                let input = self.operand(number, 0)?;
                let normed = self.op(ComputeKind::InPlace, elements, vec![input]);
                self.scaled(normed, elements, *weight)
            }
            Operation::LayerNorm { weight, .. } => {
                let input = self.operand(number, 0)?;
                let normed = self.op(ComputeKind::Own, elements, vec![input]);
                self.scaled(normed, elements, *weight)
            }
            Operation::Rope(_) => {
                let input = self.operand(number, 0)?;
                let positions = self.input(Input::Positions);
                self.op(ComputeKind::InPlace, elements, vec![input, positions])
            }
            Operation::ByPosition(_) => {
                let input = self.operand(number, 0)?;
                let scales = self.input(Input::QueryScales);
                self.op(ComputeKind::InPlace, elements, vec![input, scales])
            }
            Operation::View => {
                let input = self.operand(number, 0)?;
                self.reshaped(input)
            }
            Operation::Slice { start } => {
                let of = node.inputs.first().copied().unwrap_or_default();
                let whole = self.node(of)?.extent;
                let input = self.operand(number, 0)?;
                // From the first number to the last, with those of other parts between them.
                let skipped = product(&[
                    whole.length.saturating_sub(node.extent.length),
                    product(&[whole.parts.unwrap_or(1), self.count(rows)]).saturating_sub(1),
                ]);
                let view =
                    self.op(ComputeKind::View, elements.saturating_add(skipped), vec![input]);
                if *start > 0 || whole.length != node.extent.length {
                    self.dag.set_strided(view);
                }
                view
            }
            Operation::Concat | Operation::SwigluOai => {
                let parts = vec![self.operand(number, 0)?, self.operand(number, 1)?];
                self.op(ComputeKind::Own, elements, parts)
            }
            Operation::Repeat { .. } | Operation::L2Norm { .. } | Operation::Sum => {
                let input = self.operand(number, 0)?;
                self.op(ComputeKind::Own, elements, vec![input])
            }
            Operation::Apply(_) => self.applied(number, node, elements)?,
            Operation::Clamp { .. } => {
                let input = self.operand(number, 0)?;
                self.op(ComputeKind::InPlace, elements, vec![input])
            }
            Operation::Softmax | Operation::Normalize => self.shares(number, node, elements)?,
            Operation::Top { .. } | Operation::Gather | Operation::WeightedSum => {
                self.experts(number, node, elements)?
            }
            Operation::Arithmetic(with) => match self.arithmetic(number, node, *with, elements)? {
                Some(op) => op,
                None => return Ok(None),
            },
            Operation::WithNumber { .. } if self.is_zero(node.inputs.first().copied()) => {
                return Ok(None);
            }
            Operation::WithNumber { with, number: factor, left } => {
                let input = self.operand(number, 0)?;
                let is_one = matches!(with, Arithmetic::Multiply | Arithmetic::Divide)
                    && (*factor - 1.0).abs() < f32::EPSILON
                    && !left;
                if is_one { input } else { self.op(ComputeKind::InPlace, elements, vec![input]) }
            }
            Operation::WithWeight { weight, .. } => {
                if self.is_zero(node.inputs.first().copied()) {
                    return Ok(None);
                }
                let input = self.operand(number, 0)?;
                self.weighted(ComputeKind::InPlace, elements, vec![input], *weight)
            }
            Operation::Attention(attention) => self.attention(number, node, attention)?,
            Operation::Convolution { kernel, .. } => self.convolution(number, node, *kernel)?,
            Operation::Recurrence(recurrence) => self.recurrence(number, node, *recurrence)?,
            _ => return Err(unknown(&format!("the operation {:?}", node.operation))),
        };
        Ok(Some(Value { op, rows }))
    }

    /// A function of each number; what is divided into parts is divided behind it.
    fn applied(&mut self, number: usize, node: &Node, elements: u64) -> Result<Op> {
        let of = node.inputs.first().copied().unwrap_or_default();
        let from = self.node(of)?;
        let is_alone = self.users.get(of).is_some_and(|users| users.len() == 1);
        if from.operation == Operation::View && is_alone && self.scan.is_none() {
            let whole = self.operand(of, 0)?;
            if !self.dag.is_strided(whole) && self.dag.elements(whole) == elements {
                let applied = self.op(ComputeKind::InPlace, elements, vec![whole]);
                return Ok(self.reshaped(applied));
            }
        }
        let input = self.operand(number, 0)?;
        Ok(self.op(ComputeKind::InPlace, elements, vec![input]))
    }

    /// A vector in the shape in which all products with the matrices of experts take it.
    fn vector(&mut self, op: Op) -> Op {
        if let Some(&vector) = self.vectors.get(&op) {
            return vector;
        }
        let vector = self.reshaped(op);
        self.vectors.insert(op, vector);
        vector
    }

    fn linear(&mut self, number: usize, node: &Node, matrix: usize, elements: u64) -> Result<Op> {
        let mut input = self.operand(number, 0)?;
        let scan = self.scan;
        let of = node.inputs.first().copied().unwrap_or_default();
        let from = self.node(of)?;
        let is_multiplied = from.operation == Operation::Arithmetic(Arithmetic::Multiply);
        let copies = match scan {
            Some(Scan::Channels) => self.dag.is_strided(input),
            Some(Scan::DeltaOfThree) => is_multiplied,
            _ => false,
        };
        if copies {
            let elements = product(&[from.extent.elements(), self.numbers.tokens]);
            input = self.contiguous(input, elements);
        }
        let result = self.weighted(ComputeKind::Own, elements, vec![input], matrix);
        // What comes out of states is in sequences before.
        let name = self.lowering.graph.weights().get(matrix).map_or("", |weight| &weight.name);
        let is_out =
            ["ssm_out.weight", "shortconv.out_proj.weight"].iter().any(|it| name.ends_with(it));
        let is_divided = matches!(scan, Some(Scan::Channels | Scan::Delta | Scan::Convolution));
        Ok(if is_out && is_divided { self.reshaped(result) } else { result })
    }

    /// Returns `true` if a node has one vector for each token, not parts.
    fn is_vector(&self, number: usize) -> bool {
        self.node(number).is_ok_and(|node| node.extent.parts.is_none())
    }

    /// The product with a weight, in the memory of what is multiplied.
    fn scaled(&mut self, op: Op, elements: u64, weight: Option<usize>) -> Op {
        match weight {
            Some(weight) => self.weighted(ComputeKind::InPlace, elements, vec![op], weight),
            None => op,
        }
    }

    fn rows(&mut self, table: usize, rows: crate::graph::Rows, elements: u64) -> Value {
        let length = elements.checked_div(self.numbers.tokens).unwrap_or(0);
        let input = match rows {
            crate::graph::Rows::Tokens if self.numbers_of_tokens() => Input::SecondTokens,
            crate::graph::Rows::Tokens => Input::Tokens,
            crate::graph::Rows::Positions | crate::graph::Rows::Cyclic => Input::Positions,
            crate::graph::Rows::Fixed(_) => {
                let table = self.weighted(ComputeKind::Own, 0, Vec::new(), table);
                let op = self.op(ComputeKind::View, length, vec![table]);
                return Value { op, rows: Rows::Once };
            }
        };
        let ids = self.input(input);
        let mut op = self.weighted(ComputeKind::Own, elements, vec![ids], table);
        let deepstack = self.lowering.build.deepstack;
        if deepstack > 0 && input == Input::Tokens {
            // Embeddings with room for those of images.
            let all = product(&[elements, deepstack.saturating_add(1)]);
            let wide = self.op(ComputeKind::Own, all, vec![op]);
            self.wide = Some(wide);
            op = self.op(ComputeKind::View, elements, vec![wide]);
        }
        if input == Input::Tokens {
            self.dag.expand(op);
        }
        Value { op, rows: Rows::Tokens }
    }

    /// Returns `true` if the tokens have an embedding already.
    fn numbers_of_tokens(&self) -> bool {
        self.values.iter().flatten().next().is_some()
    }

    /// Returns `true` if a node is the difference of a node and itself: 0 for each number.
    fn is_zero(&self, number: Option<usize>) -> bool {
        let node = number.and_then(|number| self.node(number).ok());
        node.is_some_and(|node| {
            let same = matches!(node.inputs[..], [one, other] if one == other);
            node.operation == Operation::Arithmetic(Arithmetic::Subtract) && same
        })
    }

    /// The weight that a node is, added to 0 for each token.
    fn weight_alone(&self, number: usize) -> Option<usize> {
        let node = self.node(number).ok()?;
        match node.operation {
            Operation::WithWeight { weight, .. } if self.is_zero(node.inputs.first().copied()) => {
                Some(weight)
            }
            _ => None,
        }
    }

    /// Two operands, number by number.
    fn arithmetic(
        &mut self,
        number: usize,
        node: &Node,
        with: Arithmetic,
        elements: u64,
    ) -> Result<Option<Op>> {
        let [left, right] = node.inputs[..] else { return Err(unknown("an operator")) };
        if self.is_zero(Some(number)) {
            return Ok(None);
        }
        if with == Arithmetic::Multiply {
            if let Some(weight) = self.weight_alone(right) {
                let input = self.value(left, number)?;
                return Ok(Some(self.weighted(
                    ComputeKind::InPlace,
                    elements,
                    vec![input],
                    weight,
                )));
            }
            if left == right {
                let input = self.value(left, number)?;
                return Ok(Some(self.op(ComputeKind::InPlace, elements, vec![input])));
            }
            if let Some(op) = self.gated(number, [left, right], elements)? {
                return Ok(Some(op));
            }
        }
        if with == Arithmetic::Add {
            return self.sum(number, elements);
        }
        let (a, b) = (self.value(left, number)?, self.value(right, number)?);
        // What is as large as the result is first.
        let is_small = self.node(left)?.extent.elements() < node.extent.elements();
        let operands = if is_small { vec![b, a] } else { vec![a, b] };
        Ok(Some(self.op(ComputeKind::InPlace, elements, operands)))
    }

    /// The terms of a sum; those of a sum that nothing else takes are terms of it.
    fn terms(&self, number: usize, of: usize, terms: &mut Vec<usize>) {
        let is_sum = self.node(number).is_ok_and(|node| {
            node.operation == Operation::Arithmetic(Arithmetic::Add)
                && node
                    .inputs
                    .iter()
                    .all(|&input| self.node(input).is_ok_and(|it| it.extent == node.extent))
        });
        let is_alone = self.users.get(number).is_some_and(|users| users.len() == 1);
        if is_sum && (number == of || is_alone) && terms.len() < 8 {
            for &input in self.node(number).map_or(&[][..], |node| &node.inputs) {
                self.terms(input, of, terms);
            }
        } else {
            terms.push(number);
        }
    }

    /// A sum: the input of a block is added last, to what its layers give.
    fn sum(&mut self, number: usize, elements: u64) -> Result<Option<Op>> {
        let is_inner = self.users.get(number).is_some_and(|users| {
            matches!(users[..], [user] if {
                let mut terms = Vec::new();
                self.terms(user, user, &mut terms);
                terms.len() > 2 && !terms.contains(&number)
            })
        });
        if is_inner && self.blocks.get(number).is_some_and(Option::is_some) {
            return Ok(None);
        }
        let mut terms = Vec::new();
        self.terms(number, number, &mut terms);
        if self.blocks.get(number).is_some_and(Option::is_none) {
            terms.clone_from(&self.node(number)?.inputs);
        }
        let input = terms.iter().position(|&term| self.goes_on(term));
        let others = terms.iter().filter(|&&term| self.goes_on(term)).count();
        let ordered = match (input, &terms[..]) {
            (Some(0), &[x, first, layer])
                if others == 1 && self.lowering.build.sums == Sums::InputWithFirst =>
            {
                let [x, first, layer] = [x, first, layer].map(|term| self.value(term, number));
                let inner = self.op(ComputeKind::InPlace, elements, vec![first?, x?]);
                return Ok(Some(self.op(ComputeKind::InPlace, elements, vec![layer?, inner])));
            }
            (Some(0), &[x, attention, layer])
                if others == 1 && self.mixes(attention) && !self.mixes(layer) =>
            {
                match self.lowering.build.sums {
                    Sums::AttentionFirst => vec![attention, layer, x],
                    Sums::LayerFirst => vec![layer, attention, x],
                    _ => vec![layer, x, attention],
                }
            }
            (Some(0), &[x, layer])
                if self.lowering.build.onto_input && self.mixes(layer)
                    || self.lowering.build.onto_sum && !self.mixes(layer) =>
            {
                vec![x, layer]
            }
            (Some(input), _) if others == 1 => {
                let x = terms.remove(input);
                terms.push(x);
                terms
            }
            _ => terms,
        };
        let mut ordered = ordered.into_iter();
        let first = ordered.next().unwrap_or_default();
        let mut sum = self.value(first, number)?;
        for term in ordered {
            let term = self.value(term, number)?;
            let is_small = self.dag.elements(sum) < elements;
            let operands = if is_small { vec![term, sum] } else { vec![sum, term] };
            sum = self.op(ComputeKind::InPlace, elements, operands);
        }
        Ok(Some(sum))
    }

    /// Returns `true` if a node is what attention or a state gives, without a layer behind.
    fn mixes(&self, number: usize) -> bool {
        let mut below = number;
        for _ in 0..8 {
            let Ok(node) = self.node(below) else { return false };
            match node.operation {
                Operation::Attention(_) | Operation::Recurrence(_) => return true,
                Operation::Linear { .. }
                | Operation::View
                | Operation::WithNumber { .. }
                | Operation::RmsNorm { .. }
                | Operation::LayerNorm { .. }
                | Operation::Arithmetic(Arithmetic::Multiply) => {}
                _ => return false,
            }
            below = node.inputs.first().copied().unwrap_or_default();
        }
        false
    }

    /// Returns `true` if several nodes take a node.
    fn goes_on(&self, number: usize) -> bool {
        self.users.get(number).is_some_and(|users| users.len() > 1)
    }

    /// The product of a function of a gate and a value, which is one operation.
    fn gated(&mut self, number: usize, operands: [usize; 2], elements: u64) -> Result<Option<Op>> {
        let [left, right] = operands;
        let is_gate = |node: usize| {
            let is_function = self.node(node).is_ok_and(|node| {
                matches!(
                    node.operation,
                    Operation::Apply(Function::Silu | Function::Gelu | Function::Relu)
                )
            });
            is_function && self.users.get(node).is_some_and(|users| users.len() == 1)
        };
        let (gate, value) = if is_gate(left) {
            (left, right)
        } else if is_gate(right) {
            (right, left)
        } else {
            return Ok(None);
        };
        // A norm is multiplied by a gate in place.
        if matches!(self.node(value)?.operation, Operation::RmsNorm { .. })
            && matches!(self.scan, Some(Scan::Delta | Scan::DeltaOfThree))
        {
            return Ok(None);
        }
        if self.node(gate)?.extent.elements() != self.node(value)?.extent.elements() {
            return Ok(None);
        }
        let inner = self.node(gate)?.inputs.first().copied().unwrap_or_default();
        let mut a = self.value(inner, number)?;
        let b = self.value(value, number)?;
        let parent =
            |node: usize| self.node(node).ok().and_then(|node| node.inputs.first().copied());
        if self.dag.is_strided(a) && parent(inner) != parent(value) {
            a = self.contiguous(a, elements);
        }
        Ok(Some(self.op(ComputeKind::Own, elements, vec![a, b])))
    }
}
