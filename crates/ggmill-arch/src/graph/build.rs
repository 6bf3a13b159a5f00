//! Builds the graph of one model: evaluates steps on values of which only the extent is known.

use core::cell::{Cell, RefCell};
use std::collections::BTreeMap;

use super::arguments::{Argument, Value};
use super::shape::Dimensions;
use super::weights::{Source, Weights};
use super::{Extent, Graph, Node, Operation, Output, Rows, Section};
use crate::error::{Error, Result, quoted};
use crate::language::expression::{Binding, Function, Node as Term, Operator, Outcome, Scope};
use crate::language::steps::{INPUTS, OUTPUTS, is_operation};
use crate::limits::MAX_NODES;
use crate::value::ParameterValue;

/// The branches of conditions that the checked models have taken.
#[derive(Debug, Default)]
pub(super) struct BranchCoverage {
    /// The conditions with their branches.
    pub(super) branches: RefCell<BTreeMap<Condition, Branches>>,
    /// The number of assertions that held in the last model.
    pub(super) held: Cell<usize>,
}

/// A condition: the offset of its function, and its text. The same condition at several places in a
/// function is one.
pub(super) type Condition = (usize, String);

/// The branches of a condition that were taken.
#[derive(Clone, Debug)]
pub(super) struct Branches {
    /// The location and text of the condition.
    pub(super) step: String,
    /// If true, it held in some model.
    pub(super) holds: bool,
    /// If true, it did not hold in some model.
    pub(super) fails: bool,
    /// If true, it depends only on which tensors the model has.
    pub(super) of_tensors: bool,
}

/// Builds the graph of the steps of a file with tensors of these dimensions. It has no sections yet.
pub(super) fn of_bindings(
    steps: &[(&str, Binding)],
    dimensions: &Dimensions<'_>,
    fuel: &Cell<u64>,
) -> Result<Graph> {
    let mut builder = Builder::new(Source::File(dimensions), Scope::new(&[], fuel), None);
    for (text, Binding { names, value }) in steps {
        let is_taken = |name: &str| {
            builder.values.contains_key(name) || INPUTS.contains(&name) || is_operation(name)
        };
        if let Some(name) = names.iter().find(|name| is_taken(name)) {
            return Err(wrong(text, &format!("the name {name} is already in use")));
        }
        builder.step(names, value).map_err(|fault| wrong(text, &fault))?;
    }
    builder.finish(Vec::new())
}

/// Appends a section, or extends the last one if both are outside of loops.
pub(super) fn add(sections: &mut Vec<Section>, block: Option<u64>, nodes: core::ops::Range<usize>) {
    if nodes.is_empty() {
        return;
    }
    match sections.last_mut() {
        Some(last) if last.block.is_none() && block.is_none() => last.nodes.end = nodes.end,
        _ => sections.push(Section { block, nodes }),
    }
}

/// The state of building a graph.
pub(super) struct Builder<'a> {
    scope: Scope<'a>,
    pub(super) weights: Weights<'a>,
    nodes: Vec<Node>,
    values: BTreeMap<Box<str>, Value>,
    coverage: Option<&'a BranchCoverage>,
}

impl<'a> Builder<'a> {
    pub(super) fn new(
        source: Source<'a>,
        scope: Scope<'a>,
        coverage: Option<&'a BranchCoverage>,
    ) -> Self {
        Self {
            scope,
            weights: Weights::new(source),
            nodes: Vec::new(),
            values: BTreeMap::new(),
            coverage,
        }
    }

    /// Returns the graph of the evaluated steps.
    pub(super) fn finish(self, sections: Vec<Section>) -> Result<Graph> {
        let outputs = [(OUTPUTS[0], Output::Logits), (OUTPUTS[1], Output::Embedding)];
        let found = outputs.into_iter().find_map(|(name, kind)| match self.values.get(name) {
            Some(Value::Tensor(node)) => Some((*node, kind)),
            _ => None,
        });
        let Some((output, kind)) = found else {
            return Err(Error::description(
                "no step produces the output for these hyperparameters",
            ));
        };
        if self.nodes.get(output).is_some_and(|node| node.of_source) {
            return Err(Error::description(
                "the output is of the source, expected one of the text",
            ));
        }
        let of_source = self.nodes.iter().filter(|node| node.of_source);
        let mut vectors = of_source.clone();
        if let Some(first) = vectors.find(|node| node.operation == Operation::SourceVectors) {
            let tokens =
                |node: &Node| matches!(node.operation, Operation::Rows { rows: Rows::Tokens, .. });
            if of_source.clone().any(tokens) {
                return Err(Error::description("the source has both tokens and vectors"));
            }
            if vectors.any(|node| {
                node.operation == Operation::SourceVectors && node.extent != first.extent
            }) {
                return Err(Error::description("the vectors of the source have two lengths"));
            }
        }
        let (nodes, weights) = (self.nodes, self.weights.list);
        Ok(Graph { nodes, weights, sections, output, kind }.in_order_of_use())
    }

    fn step(&mut self, names: &[Box<str>], term: &'a Term) -> Outcome<()> {
        let value = self.value(term)?;
        if let [name] = names {
            self.values.insert(name.clone(), value);
            return Ok(());
        }
        let values = value.into_list()?;
        if values.len() != names.len() {
            return Err(format!("produces {} values for {} names", values.len(), names.len()));
        }
        for (name, value) in names.iter().zip(values) {
            self.values.insert(name.clone(), value);
        }
        Ok(())
    }

    /// Returns the number of nodes.
    pub(super) fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Subtracts from the step budget of the model.
    pub(super) fn spend(&self, steps: usize) -> Outcome<()> {
        self.scope.spend(steps)
    }

    /// Returns the value of a hyperparameter.
    pub(super) fn number(&self, name: &str) -> Outcome<ParameterValue> {
        self.scope.value(name)
    }

    /// Applies a function to known values.
    pub(super) fn of_values(
        &self,
        function: Function,
        values: &[ParameterValue],
    ) -> Outcome<ParameterValue> {
        function.of_values(values, &self.scope)
    }

    pub(super) fn set(&mut self, name: &str, value: Value) {
        self.values.insert(name.into(), value);
    }

    /// Returns `true` if the model has the tensor, or the tensor that it is tied to.
    pub(super) fn finds(&mut self, name: &str) -> bool {
        self.weights.find(name).is_some()
    }

    /// Formats a value for messages.
    pub(super) fn shown(&self, value: &Value) -> String {
        match value {
            Value::Known(value) => value.to_string(),
            Value::Tensor(node) | Value::Choice(node) | Value::Picks(node) => {
                format!("{} numbers per token", self.extent(*node))
            }
            Value::Weight(name) => format!("tensor {name}"),
            Value::List(values) => format!("{} values", values.len()),
            Value::Input(_) | Value::Output(..) => value.kind().to_owned(),
        }
    }

    /// Records which branch of a condition was taken.
    pub(super) fn record(
        &self,
        condition: impl FnOnce() -> (Condition, String),
        holds: bool,
        of_tensors: bool,
    ) {
        let Some(coverage) = self.coverage else { return };
        let (condition, step) = condition();
        let mut conditions = coverage.branches.borrow_mut();
        let branches = conditions.entry(condition).or_insert_with(|| Branches {
            step,
            holds: false,
            fails: false,
            of_tensors,
        });
        branches.holds |= holds;
        branches.fails |= !holds;
    }

    /// Counts an assertion that held.
    pub(super) fn count_assertion(&self) {
        if let Some(coverage) = self.coverage {
            coverage.held.set(coverage.held.get().saturating_add(1));
        }
    }

    /// Appends a node.
    pub(super) fn push(
        &mut self,
        operation: Operation,
        inputs: Vec<usize>,
        extent: Extent,
    ) -> Outcome<Value> {
        if self.nodes.len() >= MAX_NODES {
            return Err(format!("exceeds the limit of {MAX_NODES} operations"));
        }
        if extent.elements() > Extent::MAX || extent.elements() == 0 {
            return Err(format!("produces {extent} numbers per token"));
        }
        let of_source = self.is_of_source(&operation, &inputs)?;
        let number = self.nodes.len();
        let value = match operation {
            Operation::Top { .. } | Operation::Choice { .. } => Value::Choice(number),
            Operation::SelectTokens(_) => Value::Picks(number),
            _ => Value::Tensor(number),
        };
        self.nodes.push(Node { operation, inputs, extent, of_source });
        Ok(value)
    }

    /// Returns `true` if a node computes on the tokens of the source, like its operands. Only attention
    /// can combine queries of the text with keys and values of the source.
    fn is_of_source(&self, operation: &Operation, inputs: &[usize]) -> Outcome<bool> {
        let of_source = |&node: &usize| self.nodes.get(node).is_some_and(|node| node.of_source);
        let Some(first) = inputs.first().map(of_source) else { return Ok(false) };
        let others = match (operation, inputs) {
            (Operation::Attention(options), [_, others @ ..]) if !first => {
                let of_other = others.iter().any(of_source);
                if of_other && !options.is_of_pairs() {
                    return Err("attends to the source, expected causal = false and no option \
                                that depends on positions"
                        .into());
                }
                let same = others.first().map(of_source);
                others.iter().all(|node| Some(of_source(node)) == same)
            }
            (_, inputs) => inputs.iter().all(|node| of_source(node) == first),
        };
        if !others {
            return Err("combines values of the text with values of the source".into());
        }
        Ok(first)
    }

    /// Appends a node of the source without operands.
    pub(super) fn push_of_source(
        &mut self,
        operation: Operation,
        extent: Extent,
    ) -> Outcome<Value> {
        let value = self.push(operation, Vec::new(), extent)?;
        if let Some(node) = self.nodes.last_mut() {
            node.of_source = true;
        }
        Ok(value)
    }

    /// Returns the first operand of a node.
    pub(super) fn input(&self, node: usize) -> Option<usize> {
        self.nodes.get(node)?.inputs.first().copied()
    }

    /// Returns the operation of a node.
    pub(super) fn made_by(&self, node: usize) -> Option<&Operation> {
        self.nodes.get(node).map(|node| &node.operation)
    }

    pub(super) fn extent(&self, node: usize) -> Extent {
        self.nodes.get(node).map_or(Extent::run(0), |node| node.extent)
    }

    /// Evaluates a term.
    pub(super) fn value(&mut self, term: &'a Term) -> Outcome<Value> {
        self.scope.spend(1)?;
        Ok(match term {
            // Strings are names of tensors.
            Term::Literal(ParameterValue::Str(name)) => Value::Weight(name.to_string()),
            Term::Literal(value) => Value::Known(value.clone()),
            Term::Name(name) => self.named(name)?,
            Term::Negate(operand) => {
                let zero = Value::Known(ParameterValue::Int(0));
                let operand = self.value(operand)?;
                self.arithmetic(Operator::Subtract, zero, operand)?
            }
            Term::Binary(operator, left, right) => {
                let (left, right) = (self.value(left)?, self.value(right)?);
                self.arithmetic(*operator, left, right)?
            }
            Term::List(terms) => {
                let values = terms.iter().map(|term| self.value(term));
                Value::List(values.collect::<Outcome<Vec<_>>>()?)
            }
            Term::Operation(name, arguments, options) => {
                let mut given = Vec::with_capacity(arguments.len());
                for argument in arguments {
                    given.push(self.value(argument)?);
                }
                let mut with = Vec::with_capacity(options.len());
                for (option, term) in options {
                    with.push((&**option, self.value(term)?));
                }
                self.operation(name, Argument::of(given, with))
                    .map_err(|fault| format!("{name} {fault}"))?
            }
            _ => return Err("is not an operation on names and numbers".into()),
        })
    }

    fn named(&self, name: &str) -> Outcome<Value> {
        if let Some(value) = self.values.get(name) {
            return Ok(value.clone());
        }
        match INPUTS.iter().position(|input| *input == name) {
            Some(input) => Ok(Value::Input(input)),
            None => Err(format!("uses {}, which no earlier step defines", quoted(name))),
        }
    }
}

pub(super) fn wrong(step: &str, fault: &str) -> Error {
    Error::configuration(format!("step {}: {fault}", quoted(step)))
}
