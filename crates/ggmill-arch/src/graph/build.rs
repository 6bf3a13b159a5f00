//! The graph of one model: steps carried out on values that are not known yet, but for their extent.

use core::cell::{Cell, RefCell};
use std::collections::BTreeMap;

use super::arguments::{Argument, Value};
use super::shape::Dimensions;
use super::weights::{Source, Weights};
use super::{Extent, Graph, Node, Operation, Output, Rows, Section};
use crate::error::{Error, ErrorKind, Result, quoted};
use crate::expression::{self, Binding, Function, Node as Term, Operator, Outcome, Scope};
use crate::limits::{MAX_NODES, MAX_TENSORS};
use crate::resolve::{Numbers, Resolved};
use crate::steps::{
    BLOCK_VARIABLE, GraphTemplate, INPUTS, OUTPUTS, StepGroup, bodies, is_operation,
};
use crate::value::ParameterValue;

/// Which sides of conditions were taken, by the address of the condition.
#[derive(Debug, Default)]
pub(super) struct Taken(pub(super) RefCell<BTreeMap<usize, Sides>>);

/// A condition, and which of its sides were taken.
#[derive(Clone, Debug)]
pub(super) struct Sides {
    pub(super) step: String,
    pub(super) holds: bool,
    pub(super) fails: bool,
    /// Whether it depends on nothing but which tensors there are.
    pub(super) of_tensors: bool,
}

/// The graph of a model with these tensors.
pub(super) fn graph(
    model: &Resolved<'_>,
    template: &GraphTemplate,
    present: &dyn Fn(&str) -> bool,
    taken: Option<&Taken>,
    fuel: &Cell<u64>,
) -> Result<Graph> {
    let parameters: Vec<(Box<str>, ParameterValue)> =
        model.parameters().map(|(name, value)| (name.into(), value.clone())).collect();
    let source = Source::Description(model, present);
    let mut builder = Builder::new(source, Scope::new(&parameters, fuel), taken);
    let mut sections: Vec<Section> = Vec::new();
    for body in bodies(&template.groups, |group| group.repeat.as_ref()) {
        let Some((_, repeat)) = body.first().and_then(|group| group.repeat.as_ref()) else {
            let start = builder.nodes.len();
            body.iter().try_for_each(|group| builder.group(group))?;
            add(&mut sections, None, start..builder.nodes.len());
            continue;
        };
        for block in repeat.range(&builder.scope, MAX_TENSORS)? {
            builder.block = Some((&*repeat.variable, block));
            // A step may choose another block, for this turn of the loop.
            builder.values.remove(BLOCK_VARIABLE);
            let start = builder.nodes.len();
            for group in body {
                builder.group(group)?;
            }
            add(&mut sections, Some(block), start..builder.nodes.len());
        }
        builder.block = None;
        builder.values.remove(BLOCK_VARIABLE);
    }
    builder.finish(sections)
}

/// Why a model with these numbers has no graph, where that is said before all steps and depends on
/// nothing but numbers: then its tensors need not be known.
pub(super) fn excluded<'t>(
    numbers: &Numbers,
    template: &'t GraphTemplate,
    fuel: &Cell<u64>,
) -> Option<&'t str> {
    let known = |name: &str| numbers.iter().any(|(known, _)| **known == *name);
    let mut builder = Builder::new(Source::File(&|_| None), Scope::new(numbers, fuel), None);
    builder.is_stored = false;
    let first = template.groups.iter().take_while(|group| group.repeat.is_none());
    first.take_while(|group| group.because.is_some()).find_map(|group| {
        let (_, when) = group.when.as_ref()?;
        let of_numbers = when.names().into_iter().all(known);
        let holds = of_numbers && builder.condition(when, false).unwrap_or(false);
        group.because.as_deref().filter(|_| holds)
    })
}

/// The graph of the steps of a file, whose tensors have these dimensions; it has no sections yet.
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
        builder.step = text;
        builder.step(names, value).map_err(|fault| wrong(text, &fault))?;
    }
    builder.finish(Vec::new())
}

/// Adds a section, or lengthens the last where both are outside of loops.
fn add(sections: &mut Vec<Section>, block: Option<u64>, nodes: core::ops::Range<usize>) {
    if nodes.is_empty() {
        return;
    }
    match sections.last_mut() {
        Some(last) if last.block.is_none() && block.is_none() => last.nodes.end = nodes.end,
        _ => sections.push(Section { block, nodes }),
    }
}

pub(super) struct Builder<'a> {
    scope: Scope<'a>,
    pub(super) weights: Weights<'a>,
    nodes: Vec<Node>,
    values: BTreeMap<Box<str>, Value>,
    /// The variable of the loop with its value.
    block: Option<(&'a str, u64)>,
    taken: Option<&'a Taken>,
    /// The text of the step that is being carried out.
    step: &'a str,
    /// Whether the steps are those of a file: texts name tensors, and names values.
    is_stored: bool,
}

impl<'a> Builder<'a> {
    fn new(source: Source<'a>, scope: Scope<'a>, taken: Option<&'a Taken>) -> Self {
        Self {
            scope,
            weights: Weights::new(source),
            nodes: Vec::new(),
            values: BTreeMap::new(),
            block: None,
            taken,
            step: "",
            is_stored: matches!(source, Source::File(_)),
        }
    }

    /// The graph of the steps that were carried out.
    fn finish(self, sections: Vec<Section>) -> Result<Graph> {
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

    fn group(&mut self, group: &'a StepGroup) -> Result<()> {
        if let Some((text, when)) = &group.when {
            self.step = text;
            let record = group.because.is_none();
            let holds = self.condition(when, record).map_err(|fault| wrong(text, &fault))?;
            if let Some(because) = group.because.as_ref().filter(|_| holds) {
                return Err(Error::new(ErrorKind::Unsupported, &**because));
            }
            if !holds {
                return Ok(());
            }
        }
        for step in &group.steps {
            self.step = &step.text;
            self.step(&step.binding.names, &step.binding.value)
                .map_err(|fault| wrong(&step.text, &fault))?;
        }
        Ok(())
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

    /// A node after all others.
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
            Operation::Pick(_) => Value::Picks(number),
            _ => Value::Tensor(number),
        };
        self.nodes.push(Node { operation, inputs, extent, of_source });
        Ok(value)
    }

    /// Whether a result has its numbers for the tokens of the source, as its operands have. Only
    /// attention takes keys and values of another text than its queries.
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

    /// A node of the source without operands.
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

    /// The first operand of a node.
    pub(super) fn input(&self, node: usize) -> Option<usize> {
        self.nodes.get(node)?.inputs.first().copied()
    }

    /// The operation of a node.
    pub(super) fn made_by(&self, node: usize) -> Option<&Operation> {
        self.nodes.get(node).map(|node| &node.operation)
    }

    pub(super) fn extent(&self, node: usize) -> Extent {
        self.nodes.get(node).map_or(Extent::run(0), |node| node.extent)
    }

    /// What a term is.
    pub(super) fn value(&mut self, term: &'a Term) -> Outcome<Value> {
        self.scope.spend(1)?;
        Ok(match term {
            Term::Literal(ParameterValue::Str(name)) if self.is_stored => {
                Value::Weight(name.to_string())
            }
            Term::Literal(value) => Value::Known(value.clone()),
            Term::Name(name) => self.named(name)?,
            Term::Not(_) | Term::Binary(Operator::And | Operator::Or, ..) => {
                Value::Known(ParameterValue::Bool(self.condition(term, false)?))
            }
            Term::Negate(operand) => {
                let zero = Value::Known(ParameterValue::Int(0));
                let operand = self.value(operand)?;
                self.arithmetic(Operator::Subtract, zero, operand)?
            }
            Term::Binary(operator, left, right) => {
                let (left, right) = (self.value(left)?, self.value(right)?);
                self.arithmetic(*operator, left, right)?
            }
            Term::Call(Function::If, arguments) => match &arguments[..] {
                [condition, yes, no @ ..] => match (self.condition(condition, true)?, no) {
                    (true, _) => self.value(yes)?,
                    (false, [no, ..]) => self.value(no)?,
                    (false, []) => Value::Known(ParameterValue::None),
                },
                _ => return Err("if takes a condition and a value".into()),
            },
            Term::Call(Function::First, arguments) => {
                for argument in arguments {
                    let value = self.value(argument)?;
                    if !matches!(value, Value::Known(ParameterValue::None)) {
                        return Ok(value);
                    }
                }
                Value::Known(ParameterValue::None)
            }
            Term::Call(Function::Has, arguments) => match &arguments[..] {
                [Term::Name(name)] => {
                    let has = match self.named(name) {
                        Ok(Value::Known(value)) => value.is_some(),
                        Ok(Value::Weight(name)) => ["", ".weight"]
                            .iter()
                            .any(|ending| self.weights.find(&format!("{name}{ending}")).is_some()),
                        other => other.is_ok(),
                    };
                    Value::Known(ParameterValue::Bool(has))
                }
                _ => return Err("has takes a name".into()),
            },
            Term::Call(function, arguments) => {
                let mut values = Vec::with_capacity(arguments.len());
                for argument in arguments {
                    values.push(self.value(argument)?.known()?);
                }
                Value::Known(function.of_values(&values, &self.scope)?)
            }
            Term::Element(list, index) => {
                let index = self.value(index)?.known()?;
                match self.value(list)? {
                    Value::List(values) => {
                        let place = index.as_u64().and_then(|place| usize::try_from(place).ok());
                        let found = place.and_then(|place| values.into_iter().nth(place));
                        found.ok_or_else(|| {
                            format!("needs element {index} of a list that has fewer elements")
                        })?
                    }
                    other => Value::Known(expression::element(other.known()?, &index)?),
                }
            }
            Term::List(terms) => {
                let values = terms.iter().map(|term| self.value(term));
                Value::List(values.collect::<Outcome<Vec<_>>>()?)
            }
            Term::Each(..) => return Err("each cannot be used in a graph".into()),
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
        })
    }

    fn named(&mut self, name: &str) -> Outcome<Value> {
        if let Some(value) = self.values.get(name) {
            return Ok(value.clone());
        }
        if let Some(input) = INPUTS.iter().position(|input| *input == name) {
            return Ok(Value::Input(input));
        }
        if let Some((_, block)) = self.block.filter(|(variable, _)| *variable == name) {
            let block = i64::try_from(block).map_err(|_| "exceeds 64 bits")?;
            return Ok(Value::Known(ParameterValue::Int(block)));
        }
        if self.is_stored {
            return Err(format!("uses {}, which no earlier step defines", quoted(name)));
        }
        if let Ok(value) = self.scope.value(name) {
            return Ok(Value::Known(value));
        }
        let block = match self.values.get(BLOCK_VARIABLE) {
            Some(Value::Known(block)) => block.as_u64(),
            _ => self.block.map(|(_, block)| block),
        };
        Ok(Value::Weight(self.weights.whole_name(name, block)))
    }

    /// Whether a condition holds; what is not a tensor is decided now.
    fn condition(&mut self, term: &'a Term, record: bool) -> Outcome<bool> {
        let holds = match term {
            Term::Not(operand) => !self.condition(operand, false)?,
            Term::Binary(Operator::And, left, right) => {
                self.condition(left, false)? && self.condition(right, false)?
            }
            Term::Binary(Operator::Or, left, right) => {
                self.condition(left, false)? || self.condition(right, false)?
            }
            _ => {
                let value = self.value(term)?.known()?;
                value.as_bool().ok_or_else(|| format!("is {value}, expected true or false"))?
            }
        };
        if let Some(taken) = self.taken.filter(|_| record) {
            let mut taken = taken.0.borrow_mut();
            let sides = taken.entry(core::ptr::from_ref(term).addr()).or_insert_with(|| Sides {
                step: self.step.to_owned(),
                holds: false,
                fails: false,
                of_tensors: is_of_tensors(term),
            });
            sides.holds |= holds;
            sides.fails |= !holds;
        }
        Ok(holds)
    }
}

/// Whether a condition asks for nothing but whether something is there.
fn is_of_tensors(term: &Term) -> bool {
    match term {
        Term::Not(operand) => is_of_tensors(operand),
        Term::Binary(Operator::And | Operator::Or, left, right) => {
            is_of_tensors(left) && is_of_tensors(right)
        }
        Term::Call(function, _) => *function == Function::Has,
        _ => false,
    }
}

pub(super) fn wrong(step: &str, fault: &str) -> Error {
    Error::configuration(format!("step {}: {fault}", quoted(step)))
}
