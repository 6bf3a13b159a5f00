//! Evaluates programs: every operation on tensors becomes a node.

use core::cell::Cell;
use std::collections::BTreeMap;
use std::sync::Arc;

use super::arguments::{Argument, Value, bounded};
use super::build::{BranchCoverage, Builder, Condition, add};
use super::weights::Source;
use super::{Graph, Section};
use crate::error::{Error, ErrorKind, Result};
use crate::language::block::with_block;
use crate::language::expression::{Function as Known, Operator, Outcome, Scope, element};
use crate::language::program::{
    Callee, Expr, Function, Kind, Program, Span, Statement, StatementKind,
};
use crate::language::steps::OUTPUTS;
use crate::limits::MAX_TENSORS;
use crate::resolve::{Numbers, Resolved};
use crate::value::ParameterValue;

/// The maximum depth of calls.
const MAX_CALLS: usize = 16;
/// The maximum length of a tensor name that gets a suffix, in bytes.
const MAX_NAME: usize = 256;
/// The maximum number of names whose values an error lists.
const MAX_SHOWN: usize = 8;

/// Returns the graph of a model with these tensors.
pub(super) fn graph(
    model: &Resolved<'_>,
    program: &Program,
    present: &dyn Fn(&str) -> bool,
    coverage: Option<&BranchCoverage>,
    fuel: &Cell<u64>,
) -> Result<Graph> {
    let numbers: Numbers =
        model.parameters().map(|(name, value)| (name.into(), value.clone())).collect();
    let source = Source::Description(model, present);
    let builder = Builder::new(source, Scope::new(&numbers, fuel), coverage);
    let mut run = Run { builder, program, sections: Vec::new(), calls: 0, has_tensors: true };
    run.model().map_err(Fault::into_error)?;
    let Run { builder, sections, .. } = run;
    builder.finish(sections)
}

/// Returns the reason why a model with these hyperparameters has no graph, if it is asserted before the
/// first operation, so that its tensors need not be known.
pub(super) fn excluded(
    numbers: &Numbers,
    program: &Program,
    coverage: &BranchCoverage,
    fuel: &Cell<u64>,
) -> Option<String> {
    let builder = Builder::new(Source::File(&|_| None), Scope::new(numbers, fuel), Some(coverage));
    let mut run = Run { builder, program, sections: Vec::new(), calls: 0, has_tensors: false };
    match run.model() {
        Err(Fault::Excluded(because)) => Some(because.to_string()),
        _ => None,
    }
}

/// The reason why a program has no result.
enum Fault {
    /// A failed assertion.
    Excluded(Arc<str>),
    /// A message without location.
    Text(String),
    /// A message with location.
    Located(String),
}

impl From<String> for Fault {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl Fault {
    fn into_error(self) -> Error {
        match self {
            Self::Excluded(because) => Error::new(ErrorKind::Unsupported, &*because),
            Self::Text(text) | Self::Located(text) => Error::configuration(text),
        }
    }
}

/// The stack frame of a function.
struct Frame<'a> {
    values: BTreeMap<&'a str, Value>,
    /// The source index of the function.
    source: usize,
    /// The byte offset of the function.
    start: usize,
}

/// The control flow after a statement.
enum Flow {
    Next,
    Return(Value),
}

/// The state of an evaluation.
struct Run<'a> {
    builder: Builder<'a>,
    program: &'a Program,
    sections: Vec<Section>,
    calls: usize,
    /// If true, the tensors of the model are known.
    has_tensors: bool,
}

impl<'a> Run<'a> {
    /// Evaluates the function of the model. Each iteration of its loops is a section.
    fn model(&mut self) -> Result<(), Fault> {
        let program = self.program;
        let main = program.main().ok_or_else(|| Fault::Text("there is no model".into()))?;
        let start = main.span.start;
        let mut frame = Frame { values: BTreeMap::new(), source: main.source, start };
        let mut result = None;
        for statement in &main.body {
            if let StatementKind::For(variable, over, body) = &statement.kind {
                for number in self.elements(over, &frame)? {
                    let block = match &number {
                        Value::Known(number) => number.as_u64(),
                        _ => None,
                    };
                    frame.values.insert(variable, number);
                    let start = self.builder.len();
                    if let Flow::Return(_) = self.body(body, &mut frame)? {
                        return Err(Fault::Text("model returns within a loop".into()));
                    }
                    add(&mut self.sections, block, start..self.builder.len());
                }
                continue;
            }
            let start = self.builder.len();
            let flow = self.statement(statement, &mut frame)?;
            add(&mut self.sections, None, start..self.builder.len());
            if let Flow::Return(value) = flow {
                result = Some((value, statement.span));
                break;
            }
        }
        match result {
            Some((Value::Output(node, kind), _)) => {
                let [logits, embedding, ..] = OUTPUTS;
                let name = if kind == super::Output::Embedding { embedding } else { logits };
                self.builder.set(name, Value::Tensor(node));
                Ok(())
            }
            Some((_, span)) => {
                let location = program.place(span, main.source);
                Err(Fault::Located(format!("{location}: expected logits(…) or embedding(…)")))
            }
            None => Err(Fault::Text("model returns nothing".into())),
        }
    }

    fn body(&mut self, body: &'a [Statement], frame: &mut Frame<'a>) -> Result<Flow, Fault> {
        for statement in body {
            if let Flow::Return(value) = self.statement(statement, frame)? {
                return Ok(Flow::Return(value));
            }
        }
        Ok(Flow::Next)
    }

    fn statement(
        &mut self,
        statement: &'a Statement,
        frame: &mut Frame<'a>,
    ) -> Result<Flow, Fault> {
        match &statement.kind {
            StatementKind::Assign(names, value) => {
                let value = self.value(value, frame)?;
                if let [name] = &names[..] {
                    frame.values.insert(name, value);
                    return Ok(Flow::Next);
                }
                let values = match value {
                    Value::Known(ParameterValue::List(values)) => {
                        self.builder.spend(values.len())?;
                        Ok(values.iter().cloned().map(Value::Known).collect())
                    }
                    other => other.into_list(),
                };
                let values: Vec<Value> =
                    values.map_err(|fault| self.at(statement.span, None, frame, &fault))?;
                if values.len() != names.len() {
                    let fault = format!("{} values for {} names", values.len(), names.len());
                    return Err(self.at(statement.span, None, frame, &fault));
                }
                frame.values.extend(names.iter().map(|name| &**name).zip(values));
            }
            StatementKind::Return(value) => return Ok(Flow::Return(self.value(value, frame)?)),
            StatementKind::Call(value) => {
                self.value(value, frame)?;
            }
            StatementKind::Assert(condition, because) => {
                if !self.condition(condition, frame, false)? {
                    return Err(Fault::Excluded(because.clone()));
                }
                self.builder.count_assertion();
            }
            StatementKind::If(branches, otherwise) => {
                for (condition, body) in branches {
                    if self.condition(condition, frame, true)? {
                        return self.body(body, frame);
                    }
                }
                return self.body(otherwise, frame);
            }
            StatementKind::For(variable, over, body) => {
                for number in self.elements(over, frame)? {
                    frame.values.insert(variable, number);
                    if let Flow::Return(value) = self.body(body, frame)? {
                        return Ok(Flow::Return(value));
                    }
                }
            }
        }
        Ok(Flow::Next)
    }

    /// Returns the values that a loop iterates over.
    fn elements(&mut self, over: &'a Expr, frame: &Frame<'a>) -> Result<Vec<Value>, Fault> {
        match self.value(over, frame)? {
            Value::List(values) => Ok(values),
            Value::Known(ParameterValue::List(values)) => {
                self.builder.spend(values.len())?;
                Ok(values.iter().cloned().map(Value::Known).collect())
            }
            _ => Err(self.at(over.span, Some(over), frame, "is not a list")),
        }
    }

    /// Evaluates a condition. With `record`, the branch is recorded for the check of the description,
    /// if the condition is in its own source.
    fn condition(
        &mut self,
        condition: &'a Expr,
        frame: &Frame<'a>,
        record: bool,
    ) -> Result<bool, Fault> {
        let value = self.value(condition, frame)?;
        let holds = match &value {
            Value::Known(ParameterValue::Bool(value)) => *value,
            Value::Known(value) => {
                let fault = format!("is {value}, expected True or False");
                return Err(self.at(condition.span, Some(condition), frame, &fault));
            }
            _ => {
                let fault = "is not known before the model runs, expected True or False";
                return Err(self.at(condition.span, Some(condition), frame, fault));
            }
        };
        if record && frame.source == 0 && self.has_tensors {
            let (program, span) = (self.program, condition.span);
            let named = || {
                let condition: Condition = (frame.start, program.within(span, 0).to_owned());
                (condition, program.place(span, 0))
            };
            self.builder.record(named, holds, is_of_tensors(condition));
        }
        Ok(holds)
    }

    /// Evaluates an expression. An error gets the location of the innermost expression.
    fn value(&mut self, expr: &'a Expr, frame: &Frame<'a>) -> Result<Value, Fault> {
        self.builder.spend(1)?;
        self.evaluate(expr, frame).map_err(|fault| match fault {
            Fault::Text(text) => self.at(expr.span, Some(expr), frame, &text),
            other => other,
        })
    }

    fn evaluate(&mut self, expr: &'a Expr, frame: &Frame<'a>) -> Result<Value, Fault> {
        Ok(match &expr.kind {
            Kind::Literal(value) => Value::Known(value.clone()),
            Kind::Local(name) => match frame.values.get(&**name) {
                Some(value) => {
                    // The cost of copying a list is its size.
                    self.builder.spend(size(value))?;
                    value.clone()
                }
                None => return Err(Fault::Text("has no value here".into())),
            },
            Kind::Hyperparameter(name) => Value::Known(self.builder.number(name)?),
            Kind::Tensor(name) => Value::Weight(name.to_string()),
            Kind::BlockTensor(name, block) => {
                let block = self.value(block, frame)?.known()?;
                let number = block.as_u64().ok_or_else(|| format!("has the block {block}"))?;
                Value::Weight(with_block(name, number))
            }
            Kind::Input(number) => Value::Input(*number),
            Kind::Suffix(of, suffix) => match self.value(of, frame)? {
                Value::Weight(name) if name.len() > MAX_NAME => {
                    return Err(Fault::Text(format!("has a name of more than {MAX_NAME} bytes")));
                }
                Value::Weight(name) => Value::Weight(format!("{name}.{suffix}")),
                other => return Err(Fault::Text(format!("is {}, not a tensor", other.kind()))),
            },
            Kind::Index(parts) => {
                let [list, index] = &**parts;
                let list = self.value(list, frame)?;
                let index = self.value(index, frame)?.known()?;
                match list {
                    Value::List(values) => {
                        let place = index.as_u64().and_then(|place| usize::try_from(place).ok());
                        let found = place.and_then(|place| values.into_iter().nth(place));
                        found.ok_or_else(|| {
                            format!("needs element {index} of a list that has fewer elements")
                        })?
                    }
                    other => Value::Known(element(other.known()?, &index)?),
                }
            }
            Kind::List(parts) => {
                let mut values = Vec::with_capacity(parts.len());
                for part in parts {
                    values.push(self.value(part, frame)?);
                }
                self.list(values)?
            }
            Kind::Comprehension(variable, parts) => {
                let [over, element] = &**parts;
                let mut values = Vec::new();
                // The cost of copying the variables is their size.
                for value in frame.values.values() {
                    self.builder.spend(size(value).saturating_add(1))?;
                }
                let mut inner = Frame {
                    values: frame.values.clone(),
                    source: frame.source,
                    start: frame.start,
                };
                for number in self.elements(over, frame)? {
                    inner.values.insert(variable, number);
                    values.push(self.value(element, &inner)?);
                }
                self.list(values)?
            }
            Kind::Not(inner) => bool(!self.condition(inner, frame, false)?),
            Kind::IsNone(inner) => {
                bool(matches!(self.value(inner, frame)?, Value::Known(ParameterValue::None)))
            }
            Kind::Negate(inner) => {
                let zero = Value::Known(ParameterValue::Int(0));
                let inner = self.value(inner, frame)?;
                self.builder.arithmetic(Operator::Subtract, zero, inner)?
            }
            Kind::Binary(operator, parts) => {
                let [left, right] = &**parts;
                match operator {
                    Operator::And => bool(
                        self.condition(left, frame, false)?
                            && self.condition(right, frame, false)?,
                    ),
                    Operator::Or => bool(
                        self.condition(left, frame, false)?
                            || self.condition(right, frame, false)?,
                    ),
                    _ => {
                        let (left, right) = (self.value(left, frame)?, self.value(right, frame)?);
                        self.builder.arithmetic(*operator, left, right)?
                    }
                }
            }
            Kind::Conditional(parts) => {
                let [condition, yes, no] = &**parts;
                let holds = self.condition(condition, frame, true)?;
                self.value(if holds { yes } else { no }, frame)?
            }
            Kind::Resolved(callee, arguments, named) => {
                self.call(*callee, arguments, named, expr.span, frame)?
            }
            Kind::Name(_) | Kind::Call(..) => {
                return Err(Fault::Text("is not resolved".into()));
            }
        })
    }

    fn call(
        &mut self,
        callee: Callee,
        arguments: &'a [Expr],
        named: &'a [(Box<str>, Expr)],
        span: Span,
        frame: &Frame<'a>,
    ) -> Result<Value, Fault> {
        if callee == Callee::First {
            for argument in arguments {
                let value = self.value(argument, frame)?;
                if !matches!(value, Value::Known(ParameterValue::None)) {
                    return Ok(value);
                }
            }
            return Ok(Value::Known(ParameterValue::None));
        }
        let mut given = Vec::with_capacity(arguments.len());
        for argument in arguments {
            given.push(self.value(argument, frame)?);
        }
        let mut options = Vec::with_capacity(named.len());
        for (name, value) in named {
            options.push((&**name, self.value(value, frame)?));
        }
        let program = self.program;
        if let Some(function) = program.callee(callee) {
            return self.function(function, given, options).map_err(|fault| match fault {
                Fault::Located(text) => {
                    let location = program.place(span, frame.source);
                    Fault::Located(format!("{text}; called at {location}"))
                }
                other => other,
            });
        }
        let is_tensor = matches!(given.first(), Some(Value::Tensor(_)));
        Ok(match callee {
            Callee::Operation(name) => {
                self.builder.operation(name, Argument::of(given, options))?
            }
            Callee::Either(name, _) if is_tensor => {
                self.builder.operation(name, Argument::of(given, options))?
            }
            Callee::Value(function) | Callee::Either(_, function) => {
                Value::Known(self.of_numbers(function, given)?)
            }
            Callee::Has => bool(match given.pop() {
                Some(Value::Known(value)) => value.is_some(),
                Some(Value::Weight(name)) => self.has(&name)?,
                _ => true,
            }),
            Callee::Output(kind) => match given.pop() {
                Some(Value::Tensor(node)) => Value::Output(node, kind),
                _ => return Err(Fault::Text("takes a per-token value".into())),
            },
            Callee::Range => {
                let numbers = given.into_iter().map(|value| {
                    let value = value.known()?;
                    let found = value.as_i64();
                    found.ok_or_else(|| format!("takes integers, found {value}"))
                });
                let numbers = numbers.collect::<Outcome<Vec<i64>>>()?;
                let (start, end) = match numbers[..] {
                    [start, end] => (start, end),
                    _ => (0, numbers.first().copied().unwrap_or(0)),
                };
                let count = u64::try_from(end.saturating_sub(start)).unwrap_or(0);
                self.builder.spend(usize::try_from(count).unwrap_or(usize::MAX))?;
                if count > MAX_TENSORS {
                    let fault = format!("has {count} numbers, the limit is {MAX_TENSORS}");
                    return Err(Fault::Text(fault));
                }
                let number = |number| Value::Known(ParameterValue::Int(number));
                Value::List((start..end).map(number).collect())
            }
            Callee::First | Callee::Own(_) | Callee::Library(_) => {
                return Err(Fault::Text("is not a function".into()));
            }
        })
    }

    fn of_numbers(&self, function: Known, given: Vec<Value>) -> Outcome<ParameterValue> {
        let values = given.into_iter().map(Value::known).collect::<Outcome<Vec<_>>>()?;
        self.builder.of_values(function, &values)
    }

    /// Returns a list. Fails if it is too large.
    fn list(&self, values: Vec<Value>) -> Outcome<Value> {
        let value = Value::List(values);
        self.builder.spend(bounded(&value)?)?;
        Ok(value)
    }

    /// Returns `true` if the model has a tensor.
    fn has(&mut self, name: &str) -> Result<bool, Fault> {
        if !self.has_tensors {
            return Err(Fault::Text("depends on tensors".into()));
        }
        Ok(["", ".weight"].iter().any(|ending| self.builder.finds(&format!("{name}{ending}"))))
    }

    fn function(
        &mut self,
        function: &'a Function,
        given: Vec<Value>,
        mut named: Vec<(&str, Value)>,
    ) -> Result<Value, Fault> {
        if self.calls >= MAX_CALLS {
            return Err(Fault::Text(format!("more than {MAX_CALLS} calls within each other")));
        }
        let mut values = BTreeMap::new();
        let mut given = given.into_iter();
        // Only hyperparameters are visible in defaults.
        let start = function.span.start;
        let source = function.source;
        let outside = Frame { values: BTreeMap::new(), source, start };
        for (parameter, default) in &function.parameters {
            let by_name = named.iter().position(|(name, _)| **name == **parameter);
            let value = match (given.next(), by_name, default) {
                (Some(value), ..) => value,
                (None, Some(place), _) => named.swap_remove(place).1,
                (None, None, Some(default)) => self.value(default, &outside)?,
                (None, None, None) => {
                    return Err(Fault::Text(format!("{} needs {parameter}", function.name)));
                }
            };
            values.insert(&**parameter, value);
        }
        self.calls = self.calls.saturating_add(1);
        let mut frame = Frame { values, source, start };
        let flow = self.body(&function.body, &mut frame)?;
        self.calls = self.calls.saturating_sub(1);
        Ok(match flow {
            Flow::Return(value) => value,
            Flow::Next => Value::Known(ParameterValue::None),
        })
    }

    /// Returns a fault with its location and the values of the names in the expression.
    fn at(&self, span: Span, expr: Option<&Expr>, frame: &Frame<'_>, fault: &str) -> Fault {
        let location = self.program.place(span, frame.source);
        let mut shown: Vec<String> = Vec::new();
        if let Some(expr) = expr {
            expr.each(&mut |part| {
                let (name, value) = match &part.kind {
                    Kind::Local(name) => match frame.values.get(&**name) {
                        Some(value) => (name, self.builder.shown(value)),
                        None => return,
                    },
                    Kind::Hyperparameter(name) => match self.builder.number(name) {
                        Ok(value) => (name, value.to_string()),
                        Err(_) => return,
                    },
                    _ => return,
                };
                let value = format!("{name} = {value}");
                if shown.len() < MAX_SHOWN && !shown.contains(&value) {
                    shown.push(value);
                }
            });
        }
        let shown =
            if shown.is_empty() { String::new() } else { format!(", where {}", shown.join(", ")) };
        Fault::Located(format!("{location}: {fault}{shown}"))
    }
}

/// Returns the number of values that cloning copies: known lists are shared.
fn size(value: &Value) -> usize {
    let Value::List(values) = value else { return 0 };
    values.iter().map(size).fold(values.len(), usize::saturating_add)
}

fn bool(value: bool) -> Value {
    Value::Known(ParameterValue::Bool(value))
}

/// Returns `true` for a condition that depends only on whether tensors exist.
fn is_of_tensors(condition: &Expr) -> bool {
    match &condition.kind {
        Kind::Not(inner) => is_of_tensors(inner),
        Kind::Binary(Operator::And | Operator::Or, parts) => parts.iter().all(is_of_tensors),
        Kind::Resolved(Callee::Has, ..) => true,
        _ => false,
    }
}
