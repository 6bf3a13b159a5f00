//! Evaluates expressions.

use core::cell::Cell;
use core::cmp::Ordering;

use super::{Node, Operator};
use crate::language::facts::CheckpointFacts;
use crate::limits::MAX_TENSORS;
use crate::value::ParameterValue as Value;

/// The names that an expression can use: hyperparameters and the variables of enclosing loops; and the
/// step budget.
#[derive(Clone, Copy)]
pub(crate) struct Scope<'a> {
    parameters: &'a [(Box<str>, Value)],
    variables: &'a [(&'a str, u64)],
    /// The remaining step budget, shared by all expressions of one model.
    fuel: &'a Cell<u64>,
    purpose: Purpose<'a>,
}

/// The purpose of an evaluation.
#[derive(Clone, Copy)]
pub(crate) enum Purpose<'a> {
    /// Reading an existing file.
    File,
    /// Converting a checkpoint, with its tensors if they are known.
    Checkpoint(Option<&'a dyn CheckpointFacts>),
}

impl<'a> Scope<'a> {
    /// The step budget per model. Real models need a hundredth of it; all of it takes about a second.
    pub(crate) const FUEL: u64 = 1 << 26;

    pub(crate) fn new(parameters: &'a [(Box<str>, Value)], fuel: &'a Cell<u64>) -> Self {
        Self { parameters, variables: &[], fuel, purpose: Purpose::File }
    }

    /// Returns the scope with another purpose.
    pub(crate) fn for_purpose(self, purpose: Purpose<'a>) -> Self {
        Self { purpose, ..self }
    }

    /// Returns `true` if a checkpoint is converted, `false` if an existing file is read.
    pub(crate) fn converts(&self) -> bool {
        matches!(self.purpose, Purpose::Checkpoint(_))
    }

    /// Returns the facts about the checkpoint. Fails if they are not known.
    pub(super) fn facts(&self) -> Outcome<&'a dyn CheckpointFacts> {
        match self.purpose {
            Purpose::Checkpoint(Some(facts)) => Ok(facts),
            _ => Err("needs a tensor, but there is no checkpoint here".into()),
        }
    }

    /// Returns the scope with these loop variables.
    pub(crate) fn with<'b>(&self, variables: &'b [(&'b str, u64)]) -> Scope<'b>
    where
        'a: 'b,
    {
        Scope { variables, ..*self }
    }

    /// Returns the loop variables with their values.
    pub(crate) fn variables(&self) -> &'a [(&'a str, u64)] {
        self.variables
    }

    /// Subtracts from the step budget. Fails if it is exhausted.
    pub(crate) fn spend(&self, steps: usize) -> Outcome<()> {
        let left = u64::try_from(steps).ok().and_then(|steps| self.fuel.get().checked_sub(steps));
        self.fuel.set(left.unwrap_or(0));
        left.map(|_| ()).ok_or_else(|| "takes too many steps".into())
    }

    pub(crate) fn value(&self, name: &str) -> Outcome<Value> {
        if let Some(&(_, value)) =
            self.variables.iter().rev().find(|(variable, _)| *variable == name)
        {
            return i64::try_from(value).map(Value::Int).map_err(|_| overflow());
        }
        let found = self.parameters.iter().position(|(parameter, _)| &**parameter == name);
        self.spend(found.unwrap_or(self.parameters.len()))?;
        let value =
            found.and_then(|place| self.parameters.get(place)).map(|(_, value)| value.clone());
        value.ok_or_else(|| format!("needs {name}, which is not known here"))
    }
}

/// A result whose error is a message that follows the text of the expression.
pub(crate) type Outcome<T> = Result<T, String>;

impl Node {
    pub(crate) fn evaluate(&self, scope: &Scope<'_>) -> Outcome<Value> {
        scope.spend(1)?;
        match self {
            Self::Literal(value) => Ok(value.clone()),
            Self::Name(name) => scope.value(name),
            Self::Not(operand) => Ok(Value::Bool(!operand.bool(scope)?)),
            Self::Negate(operand) => match operand.evaluate(scope)? {
                Value::Int(value) => value.checked_neg().map(Value::Int).ok_or_else(overflow),
                Value::Float(value) => Ok(Value::Float(-value)),
                other => Err(not_a_number(&other)),
            },
            Self::Binary(Operator::And, left, right) => {
                Ok(Value::Bool(left.bool(scope)? && right.bool(scope)?))
            }
            Self::Binary(Operator::Or, left, right) => {
                Ok(Value::Bool(left.bool(scope)? || right.bool(scope)?))
            }
            Self::Binary(operator, left, right) => {
                let (left, right) = (left.evaluate(scope)?, right.evaluate(scope)?);
                let weights = weight(&left).saturating_add(weight(&right));
                let is_joined = *operator == Operator::Add;
                scope.spend(weights.saturating_mul(if is_joined { ELEMENT } else { 1 }))?;
                binary(*operator, &left, &right)
            }
            Self::Call(function, arguments) => function.call(arguments, scope),
            Self::Each(variable, count, element) => each(variable, count, element, scope),
            Self::Operation(name, ..) => Err(format!("{name} is an operation on tensors")),
            Self::Element(list, index) => element(list.evaluate(scope)?, &index.evaluate(scope)?),
            Self::List(nodes) => Ok(Value::List(
                nodes.iter().map(|node| node.evaluate(scope)).collect::<Outcome<Vec<_>>>()?.into(),
            )),
        }
    }

    pub(crate) fn bool(&self, scope: &Scope<'_>) -> Outcome<bool> {
        let value = self.evaluate(scope)?;
        value.as_bool().ok_or_else(|| format!("needs true or false, found {}", value.type_name()))
    }
}

/// Evaluates a list comprehension; the number of elements is limited to that of tensors in a model.
fn each(variable: &str, count: &Node, element: &Node, scope: &Scope<'_>) -> Outcome<Value> {
    let count = count.evaluate(scope)?;
    let limit = usize::try_from(MAX_TENSORS).unwrap_or(usize::MAX);
    let elements = count
        .as_u64()
        .and_then(|count| usize::try_from(count).ok())
        .filter(|&count| count <= limit)
        .ok_or_else(|| format!("needs a number of elements of at most {limit}, found {count}"))?;
    // The cost of an element is its memory, so that the step budget bounds memory too.
    scope.spend(elements.saturating_mul(ELEMENT))?;
    let mut variables = scope.variables().to_vec();
    variables.push((variable, 0));
    let mut values = Vec::with_capacity(elements);
    for place in (0u64..).take(elements) {
        if let Some(last) = variables.last_mut() {
            last.1 = place;
        }
        values.push(element.evaluate(&scope.with(&variables))?);
    }
    Ok(Value::List(values.into()))
}

/// Returns an element of a list. A value that is not a list is returned for every index:
/// hyperparameters that differ by block in some checkpoints are single numbers in others.
pub(crate) fn element(list: Value, index: &Value) -> Outcome<Value> {
    let Value::List(elements) = &list else { return Ok(list) };
    let number = index.as_u64().and_then(|index| usize::try_from(index).ok());
    let found = number.and_then(|number| elements.get(number));
    found.cloned().ok_or_else(|| format!("needs element {index}, but there are {}", elements.len()))
}

/// Applies an operator to two values.
pub(crate) fn binary(operator: Operator, left: &Value, right: &Value) -> Outcome<Value> {
    match operator {
        Operator::Equal => return Ok(Value::Bool(equal(left, right))),
        Operator::NotEqual => return Ok(Value::Bool(!equal(left, right))),
        Operator::In if right.as_str().is_some() => {
            let (Some(part), Some(text)) = (left.as_str(), right.as_str()) else {
                return Err(format!("needs a string before \"in\", found {}", left.type_name()));
            };
            return Ok(Value::Bool(text.contains(part)));
        }
        Operator::In => {
            let elements = right
                .as_list()
                .ok_or_else(|| format!("needs a list after \"in\", found {}", right.type_name()))?;
            return Ok(Value::Bool(elements.iter().any(|element| equal(left, element))));
        }
        Operator::Less => return Ok(Value::Bool(compare(left, right)?.is_lt())),
        Operator::LessEqual => return Ok(Value::Bool(compare(left, right)?.is_le())),
        Operator::Greater => return Ok(Value::Bool(compare(left, right)?.is_gt())),
        Operator::GreaterEqual => return Ok(Value::Bool(compare(left, right)?.is_ge())),
        _ => {}
    }
    match (operator, left, right) {
        (Operator::Add, Value::List(left), Value::List(right)) => {
            return Ok(Value::List(left.iter().chain(right.iter()).cloned().collect()));
        }
        (Operator::Add, Value::Str(left), Value::Str(right)) => {
            return Ok(Value::Str([&**left, &**right].concat().into()));
        }
        _ => {}
    }
    if let (Value::Int(left), Value::Int(right)) = (left, right) {
        return integers(operator, *left, *right).map(Value::Int);
    }
    let left = left.as_f64().ok_or_else(|| not_a_number(left))?;
    let right = right.as_f64().ok_or_else(|| not_a_number(right))?;
    let value = match operator {
        Operator::Add => left + right,
        Operator::Subtract => left - right,
        Operator::Multiply => left * right,
        Operator::Remainder => left % right,
        _ => left / right,
    };
    if value.is_finite() {
        Ok(Value::Float(value))
    } else {
        Err(format!("is {value}, expected a finite number"))
    }
}

/// The step cost of an element of a new list: about its size in bytes.
const ELEMENT: usize = 16;

/// Returns the maximum cost of comparing a value: the number of its elements or bytes.
pub(super) fn weight(value: &Value) -> usize {
    match value {
        Value::Str(text) => text.len(),
        Value::List(elements) => {
            elements.iter().fold(elements.len(), |sum, element| sum.saturating_add(weight(element)))
        }
        _ => 0,
    }
}

fn integers(operator: Operator, left: i64, right: i64) -> Outcome<i64> {
    let value = match operator {
        Operator::Add => left.checked_add(right),
        Operator::Subtract => left.checked_sub(right),
        Operator::Multiply => left.checked_mul(right),
        Operator::Remainder => return left.checked_rem(right).ok_or_else(|| divided(right)),
        _ => {
            if left.checked_rem(right).is_some_and(|remainder| remainder != 0) {
                return Err(format!("divides {left} by {right}, which leaves a remainder"));
            }
            return left.checked_div(right).ok_or_else(|| divided(right));
        }
    };
    value.ok_or_else(overflow)
}

pub(super) fn equal(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Int(_) | Value::Float(_), Value::Int(_) | Value::Float(_)) => {
            compare(left, right).is_ok_and(Ordering::is_eq)
        }
        _ => left == right,
    }
}

pub(super) fn compare(left: &Value, right: &Value) -> Outcome<Ordering> {
    if let (Value::Int(left), Value::Int(right)) = (left, right) {
        return Ok(left.cmp(right));
    }
    let left = left.as_f64().ok_or_else(|| not_a_number(left))?;
    let right = right.as_f64().ok_or_else(|| not_a_number(right))?;
    left.partial_cmp(&right).ok_or_else(|| "compares a value that is not a number".into())
}

#[cold]
pub(super) fn not_a_number(value: &Value) -> String {
    format!("needs a number, found {}", value.type_name())
}

#[cold]
pub(super) fn overflow() -> String {
    "exceeds 64 bits".into()
}

#[cold]
pub(super) fn divided(right: i64) -> String {
    if right == 0 { "divides by zero".into() } else { overflow() }
}
