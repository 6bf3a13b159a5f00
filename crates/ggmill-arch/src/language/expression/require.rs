//! Solves expressions: finds hyperparameters for which an expression has a given value.
//!
//! Not every expression can be solved, and some have several solutions. The result is a proposal: the
//! caller applies the description to it and compares.

use core::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

use super::evaluate::equal;
use super::functions::{Function, names};
use super::numeric::Llama3RopeFactors;
use super::{Expression, Node, Operator, Purpose, Scope};
use crate::value::ParameterValue as Value;

/// Hyperparameters with their values.
pub(crate) type Parameters = Arc<[(Box<str>, Value)]>;

/// Hyperparameters of which some are known.
pub(crate) trait Unknowns {
    /// Returns the known hyperparameters in the order of the description; with `assume`, unknown ones
    /// have their defaults.
    fn parameters(&mut self, assume: bool) -> Parameters;

    /// Returns the remaining step budget.
    fn steps(&self) -> Rc<Cell<u64>>;

    fn purpose(&self) -> Purpose<'_>;

    /// Sets a hyperparameter, or one element of it, unless it is known.
    fn set(&mut self, name: &str, element: Option<u64>, value: &Value);

    /// Sets the only element of a checkpoint tensor, which is a scalar or has one dimension, unless it
    /// is known.
    fn set_tensor(&mut self, name: String, is_scalar: bool, value: &Value);

    /// Returns `true` if unknown hyperparameters may be assumed to have their defaults.
    fn may_assume(&self) -> bool;

    /// Returns a valid value of a hyperparameter that differs from `than`.
    fn other_word(&self, name: &str, than: &str) -> Value;

    /// Returns a rank for the likelihood that a configuration contains the hyperparameter.
    fn rank(&self, name: &str) -> i32;
}

impl Expression {
    /// Sets unknown hyperparameters so that the expression has this value, if they can be found.
    pub(crate) fn require(
        &self,
        value: &Value,
        variables: &[(&str, u64)],
        unknowns: &mut dyn Unknowns,
    ) {
        require(&self.node, value, variables, unknowns);
    }

    /// Evaluates the expression with the known hyperparameters; with `assume`, unknown ones have their
    /// defaults.
    pub(crate) fn known(
        &self,
        variables: &[(&str, u64)],
        unknowns: &mut dyn Unknowns,
        assume: bool,
    ) -> Option<Value> {
        evaluate(&self.node, variables, unknowns, assume)
    }
}

type Variables<'v> = &'v [(&'v str, u64)];

fn evaluate(
    node: &Node,
    variables: Variables<'_>,
    unknowns: &mut dyn Unknowns,
    assume: bool,
) -> Option<Value> {
    let parameters = unknowns.parameters(assume);
    let steps = unknowns.steps();
    let scope = Scope::new(&parameters, &steps).for_purpose(unknowns.purpose());
    node.evaluate(&scope.with(variables)).ok()
}

/// Evaluates a node with the known hyperparameters, or else with assumed defaults.
fn probable(node: &Node, variables: Variables<'_>, unknowns: &mut dyn Unknowns) -> Option<Value> {
    let known = evaluate(node, variables, unknowns, false);
    known.or_else(|| {
        unknowns.may_assume().then(|| evaluate(node, variables, unknowns, true)).flatten()
    })
}

/// Returns `false` if the expression cannot have this value.
fn can_be(node: &Node, value: &Value) -> bool {
    match node {
        Node::Literal(literal) => equal(literal, value),
        Node::Call(Function::If, arguments) => match &**arguments {
            [_, yes, no] => can_be(yes, value) || can_be(no, value),
            [_, yes] => can_be(yes, value),
            _ => false,
        },
        Node::Call(Function::First, arguments) => {
            arguments.iter().any(|argument| can_be(argument, value))
        }
        _ => true,
    }
}

fn require(node: &Node, value: &Value, variables: Variables<'_>, unknowns: &mut dyn Unknowns) {
    let steps = unknowns.steps();
    let Some(left) = steps.get().checked_sub(1) else { return };
    steps.set(left);
    match node {
        Node::Literal(_) | Node::Operation(..) => {}
        Node::Name(name) => {
            if !variables.iter().any(|(variable, _)| **name == **variable) {
                unknowns.set(name, None, value);
            }
        }
        Node::Not(operand) => {
            if let Value::Bool(value) = value {
                require(operand, &Value::Bool(!value), variables, unknowns);
            }
        }
        Node::Negate(operand) => {
            let negative = match value {
                Value::Int(value) => value.checked_neg().map(Value::Int),
                Value::Float(value) => Some(Value::Float(-value)),
                _ => None,
            };
            if let Some(negative) = negative {
                require(operand, &negative, variables, unknowns);
            }
        }
        Node::Binary(operator, left, right) => {
            binary(*operator, left, right, value, variables, unknowns);
        }
        Node::Call(function, arguments) => call(*function, arguments, value, variables, unknowns),
        Node::Element(list, place) => {
            let place = probable(place, variables, unknowns).and_then(|place| place.as_u64());
            if let (Node::Name(name), Some(place)) = (&**list, place) {
                unknowns.set(name, Some(place), value);
            }
        }
        Node::List(nodes) => {
            for (node, value) in nodes.iter().zip(value.as_list().unwrap_or_default()) {
                require(node, value, variables, unknowns);
            }
        }
        Node::Each(variable, count, element) => {
            let Some(elements) = value.as_list() else { return };
            if let Ok(len) = i64::try_from(elements.len()) {
                require(count, &Value::Int(len), variables, unknowns);
            }
            let mut inner = variables.to_vec();
            inner.push((variable, 0));
            for (place, value) in (0u64..).zip(elements) {
                if let Some(last) = inner.last_mut() {
                    last.1 = place;
                }
                require(element, value, &inner, unknowns);
            }
        }
    }
}

fn binary(
    operator: Operator,
    left: &Node,
    right: &Node,
    value: &Value,
    variables: Variables<'_>,
    unknowns: &mut dyn Unknowns,
) {
    let (yes, no) = (Value::Bool(true), Value::Bool(false));
    let holds = value.as_bool();
    match (operator, holds) {
        (Operator::And, Some(true)) | (Operator::Or, Some(false)) => {
            require(left, value, variables, unknowns);
            require(right, value, variables, unknowns);
        }
        // One operand is enough: the first one that is not known to have the opposite value.
        (Operator::And, Some(false)) | (Operator::Or, Some(true)) => {
            let known = |node, unknowns: &mut dyn Unknowns| {
                evaluate(node, variables, unknowns, false).filter(|known| known.as_bool().is_some())
            };
            let (first, second) = (known(left, unknowns), known(right, unknowns));
            if first.as_ref() == Some(value) || second.as_ref() == Some(value) {
                return;
            }
            // Setting a value cannot solve has(…).
            let has = |node: &Node| matches!(node, Node::Call(Function::Has, _));
            let open = if first.is_none() && !has(left) { left } else { right };
            require(open, value, variables, unknowns);
        }
        (Operator::Equal, Some(true)) | (Operator::NotEqual, Some(false)) => {
            if let Some(other) = evaluate(right, variables, unknowns, false) {
                require(left, &other, variables, unknowns);
            } else if let Some(other) = evaluate(left, variables, unknowns, false) {
                require(right, &other, variables, unknowns);
            }
        }
        (Operator::Equal, Some(false)) | (Operator::NotEqual, Some(true)) => {
            // The other of two values.
            match evaluate(right, variables, unknowns, false) {
                Some(Value::Bool(true)) => require(left, &no, variables, unknowns),
                Some(Value::Bool(false)) => require(left, &yes, variables, unknowns),
                Some(Value::Str(word)) => {
                    if let Some(name) = named(left)
                        && evaluate(left, variables, unknowns, false).is_none()
                    {
                        let other = unknowns.other_word(name, &word);
                        require(left, &other, variables, unknowns);
                    }
                }
                _ => {}
            }
        }
        (Operator::In, Some(true)) => {
            let elements = evaluate(right, variables, unknowns, false);
            let first = elements.as_ref().and_then(Value::as_list).and_then(|list| list.first());
            if evaluate(left, variables, unknowns, false).is_none()
                && let Some(first) = first.cloned()
            {
                require(left, &first, variables, unknowns);
            }
        }
        // Only `x <= 0` determines a size.
        (Operator::Greater, Some(false)) | (Operator::LessEqual, Some(true)) => {
            if let Some(Value::Int(0)) = evaluate(right, variables, unknowns, false) {
                require(left, &Value::Int(0), variables, unknowns);
            }
        }
        (
            Operator::Add
            | Operator::Subtract
            | Operator::Multiply
            | Operator::Divide
            | Operator::Remainder,
            _,
        ) => arithmetic(operator, left, right, value, variables, unknowns),
        _ => {}
    }
}

fn arithmetic(
    operator: Operator,
    left: &Node,
    right: &Node,
    value: &Value,
    variables: Variables<'_>,
    unknowns: &mut dyn Unknowns,
) {
    if let (Operator::Add, Value::List(elements)) = (operator, value) {
        // A repeated literal: the count is the number of its repetitions.
        if let Node::Each(_, count, element) = left
            && let Node::Literal(number) = &**element
            && evaluate(left, variables, unknowns, false).is_none()
        {
            let len = elements.iter().take_while(|element| equal(element, number)).count();
            if let Ok(len) = i64::try_from(len) {
                require(count, &Value::Int(len), variables, unknowns);
            }
            return;
        }
        if let Some(Value::List(end)) = probable(right, variables, unknowns) {
            // The shortest prefix that the known suffix can follow.
            let start = (0..=elements.len())
                .find(|&len| elements.iter().skip(len).zip(&*end).all(|(a, b)| equal(a, b)));
            let start: Arc<[Value]> =
                elements.iter().take(start.unwrap_or(elements.len())).cloned().collect();
            require(left, &Value::List(start), variables, unknowns);
        }
        return;
    }
    let known = |node, unknowns: &mut dyn Unknowns| evaluate(node, variables, unknowns, false);
    let (mut a, mut b) = (known(left, unknowns), known(right, unknowns));
    if a.is_some() && b.is_some() {
        return;
    }
    if a.is_none() && b.is_none() {
        if !unknowns.may_assume() {
            return;
        }
        // Assume a default of one of them.
        b = evaluate(right, variables, unknowns, true).filter(Value::is_some);
        if b.is_none() {
            a = evaluate(left, variables, unknowns, true).filter(Value::is_some);
        }
    }
    if let Some(b) = b {
        if let Some(found) = first_operand(operator, value, &b) {
            require(left, &found, variables, unknowns);
        }
    } else if let Some(a) = a
        && let Some(found) = second_operand(operator, value, &a)
    {
        require(right, &found, variables, unknowns);
    }
}

/// Returns `x` of `x ∘ b = value`.
fn first_operand(operator: Operator, value: &Value, b: &Value) -> Option<Value> {
    if let (Some(value), Some(b)) = (value.as_i64(), b.as_i64()) {
        return match operator {
            Operator::Add => value.checked_sub(b).map(Value::Int),
            Operator::Subtract => value.checked_add(b).map(Value::Int),
            Operator::Multiply => Some(factor(value, b)).filter(|_| b != 0),
            Operator::Divide => value.checked_mul(b).map(Value::Int),
            _ => None,
        };
    }
    let (value, b) = (value.as_f64()?, b.as_f64()?);
    let found = match operator {
        Operator::Add => value - b,
        Operator::Subtract => value + b,
        Operator::Multiply => value / b,
        Operator::Divide => value * b,
        _ => return None,
    };
    found.is_finite().then_some(Value::Float(found))
}

/// Returns `x` of `a ∘ x = value`.
fn second_operand(operator: Operator, value: &Value, a: &Value) -> Option<Value> {
    if let (Some(value), Some(a)) = (value.as_i64(), a.as_i64()) {
        return match operator {
            Operator::Add => value.checked_sub(a).map(Value::Int),
            Operator::Subtract => a.checked_sub(value).map(Value::Int),
            Operator::Multiply => Some(factor(value, a)).filter(|_| a != 0),
            Operator::Divide => quotient(a, value).map(Value::Int),
            _ => None,
        };
    }
    let (value, a) = (value.as_f64()?, a.as_f64()?);
    let found = match operator {
        Operator::Add => value - a,
        Operator::Subtract => a - value,
        Operator::Multiply => value / a,
        Operator::Divide => a / value,
        _ => return None,
    };
    found.is_finite().then_some(Value::Float(found))
}

/// Returns `value / number`: an integer if the division is exact, else a float.
#[expect(clippy::cast_precision_loss, reason = "sizes are far below 2^53")]
fn factor(value: i64, number: i64) -> Value {
    quotient(value, number).map_or_else(|| Value::Float(value as f64 / number as f64), Value::Int)
}

/// Returns `a / b` if the division is exact.
fn quotient(a: i64, b: i64) -> Option<i64> {
    (a.checked_rem(b)? == 0).then(|| a.checked_div(b)).flatten()
}

fn call(
    function: Function,
    arguments: &[Node],
    value: &Value,
    variables: Variables<'_>,
    unknowns: &mut dyn Unknowns,
) {
    let number = value.as_f64();
    let float = |number: f64| Value::Float(number);
    match (function, arguments) {
        (Function::If, [condition, yes, rest @ ..]) => {
            let no = rest.first();
            let can_be_no = match no {
                Some(no) => can_be(no, value),
                None => !value.is_some(),
            };
            let decided = match (can_be(yes, value), can_be_no) {
                (true, false) => Some(true),
                (false, true) => Some(false),
                (false, false) => None,
                (true, true) => {
                    // A branch that is a literal is more likely.
                    let is_written = |node: &Node| matches!(node, Node::Literal(_));
                    match (is_written(yes), no.is_some_and(is_written)) {
                        (true, false) => Some(true),
                        (false, true) => Some(false),
                        _ => probable(condition, variables, unknowns)
                            .and_then(|holds| holds.as_bool()),
                    }
                }
            };
            let Some(holds) = decided else { return };
            if let Some(branch) = if holds { Some(yes) } else { no } {
                require(branch, value, variables, unknowns);
            }
            require(condition, &Value::Bool(holds), variables, unknowns);
        }
        (Function::Value, [name, dimensions @ ..]) => {
            let parameters = unknowns.parameters(true);
            let steps = unknowns.steps();
            let scope = Scope::new(&parameters, &steps).with(variables);
            let text = name.evaluate(&scope);
            // The last name has all of its optional pieces.
            let last =
                text.and_then(|text| names(&text, &scope)).ok().and_then(|mut names| names.pop());
            if let Some(name) = last {
                let count = dimensions.first().and_then(|count| count.evaluate(&scope).ok());
                let is_scalar = count.and_then(|count| count.as_u64()) == Some(0);
                unknowns.set_tensor(name, is_scalar, value);
            }
        }
        (Function::First, arguments) => {
            // An argument that is known to have a value hides the later ones.
            let mut open: Vec<&Node> = Vec::new();
            for argument in arguments {
                match evaluate(argument, variables, unknowns, false) {
                    Some(Value::None) => {}
                    Some(known) if equal(&known, value) => {
                        // Unless an earlier one would have a different value by default.
                        let mut is_hidden = false;
                        for argument in &open {
                            is_hidden |= evaluate(argument, variables, unknowns, true)
                                .is_some_and(|other| other.is_some() && !equal(&other, value));
                        }
                        if !is_hidden {
                            return;
                        }
                        break;
                    }
                    Some(_) => break,
                    None => open.push(argument),
                }
            }
            let best =
                open.iter().filter(|argument| can_be(argument, value)).enumerate().max_by_key(
                    |(place, argument)| (rank(argument, unknowns), core::cmp::Reverse(*place)),
                );
            if let Some((_, argument)) = best {
                require(argument, value, variables, unknowns);
            }
        }
        (
            Function::Single
            | Function::Float
            | Function::Int
            | Function::Lower
            | Function::Round
            | Function::Floor
            | Function::Ceil
            | Function::Abs,
            [operand],
        )
        | (Function::CeilTo, [operand, _])
        | (Function::Slice, [operand, Node::Literal(Value::Int(0)), _]) => {
            require(operand, value, variables, unknowns);
        }
        (Function::DivFloor | Function::DivCeil, [left, right]) => {
            arithmetic(Operator::Divide, left, right, value, variables, unknowns);
        }
        (Function::Sqrt, [operand]) => {
            if let Some(number) = number {
                require(operand, &float(number * number), variables, unknowns);
            }
        }
        (Function::Exp, [operand]) => {
            if let Some(number) = number.filter(|&number| number > 0.0) {
                require(operand, &float(number.ln()), variables, unknowns);
            }
        }
        (Function::Log, [operand]) => {
            if let Some(number) = number {
                require(operand, &float(number.exp()), variables, unknowns);
            }
        }
        (Function::Find, [list, element]) => {
            let list = probable(list, variables, unknowns);
            let place = value.as_u64().and_then(|place| usize::try_from(place).ok());
            let found = list
                .as_ref()
                .and_then(Value::as_list)
                .zip(place)
                .and_then(|(list, place)| list.get(place).cloned());
            if let Some(found) = found {
                require(element, &found, variables, unknowns);
            }
        }
        (Function::Llama3RopeFactors, arguments) => {
            rope_factors(arguments, value, variables, unknowns);
        }
        (Function::Min | Function::Max, arguments) => {
            let mut open = Vec::new();
            for argument in arguments {
                if evaluate(argument, variables, unknowns, false).is_none() {
                    open.push(argument);
                }
            }
            if let [argument] = *open {
                require(argument, value, variables, unknowns);
            }
        }
        _ => {}
    }
}

/// Returns the hyperparameter that a node refers to, possibly to an element of it.
fn named(node: &Node) -> Option<&str> {
    match node {
        Node::Name(name) => Some(name),
        Node::Element(list, _) => named(list),
        _ => None,
    }
}

impl Expression {
    /// Returns the string literals in the expression.
    pub(crate) fn words(&self) -> Vec<&str> {
        let mut words = Vec::new();
        collect_words(&self.node, &mut words);
        words
    }
}

fn collect_words<'n>(node: &'n Node, words: &mut Vec<&'n str>) {
    match node {
        Node::Literal(Value::Str(word)) => words.push(word),
        Node::Literal(_) | Node::Name(_) | Node::Operation(..) => {}
        Node::Not(operand) | Node::Negate(operand) => collect_words(operand, words),
        Node::Binary(_, left, right) | Node::Element(left, right) | Node::Each(_, left, right) => {
            collect_words(left, words);
            collect_words(right, words);
        }
        Node::Call(_, nodes) | Node::List(nodes) => {
            for node in nodes {
                collect_words(node, words);
            }
        }
    }
}

/// Finds the parameters of RoPE frequency factors among the values in use.
fn rope_factors(
    arguments: &[Node],
    value: &Value,
    variables: Variables<'_>,
    unknowns: &mut dyn Unknowns,
) {
    /// Common values of `low_freq_factor` and `high_freq_factor`.
    const BOUNDS: [(f64, f64); 5] = [(1.0, 4.0), (1.0, 2.0), (1.0, 8.0), (1.0, 16.0), (1.0, 32.0)];
    /// Binary logarithms of the original context lengths that are tried.
    const CONTEXTS: core::ops::Range<i32> = 6..21;
    let [dimensions, base, rest @ ..] = arguments else { return };
    let number = |node, unknowns: &mut dyn Unknowns| {
        evaluate(node, variables, unknowns, false)
            .or_else(|| evaluate(node, variables, unknowns, true))
            .and_then(|value| value.as_f64())
    };
    let (Some(dimensions), Some(base)) = (number(dimensions, unknowns), number(base, unknowns))
    else {
        return;
    };
    let factors: Option<Vec<f64>> =
        value.as_list().and_then(|list| list.iter().map(Value::as_f64).collect());
    let Some(factors) = factors else { return };
    let factor = factors.iter().copied().fold(1.0, f64::max);
    for (low, high) in BOUNDS {
        for context in CONTEXTS {
            let context = 2f64.powi(context);
            let numbers = [dimensions, base, factor, low, high, context];
            let Some(known) = Llama3RopeFactors::of(&numbers) else { return };
            let known = known.values();
            let steps = unknowns.steps();
            steps.set(steps.get().saturating_sub(known.len() as u64));
            let is_same = known.len() == factors.len()
                && known.iter().zip(&factors).all(|(known, factor)| {
                    (f64::from(*known) - factor).abs() <= 1e-6 * factor.abs()
                });
            if is_same {
                for (node, number) in rest.iter().zip([factor, low, high, context]) {
                    // The configuration contains it, even if a default is the same.
                    let said = match node {
                        Node::Call(Function::First, arguments) => arguments.first().unwrap_or(node),
                        _ => node,
                    };
                    require(said, &Value::Float(number), variables, unknowns);
                }
                return;
            }
        }
    }
}

/// Returns the highest rank of the names in a node.
fn rank(node: &Node, unknowns: &dyn Unknowns) -> i32 {
    let mut names = Vec::new();
    node.visit(&mut names);
    names.into_iter().map(|name| unknowns.rank(name)).max().unwrap_or(i32::MIN)
}
