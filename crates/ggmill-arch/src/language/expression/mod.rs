//! Expressions over hyperparameters: sizes, conditions and values in descriptions.
//!
//! Integer arithmetic is exact: an inexact division and an overflow are errors. Parsing is bounded in
//! length and depth, and evaluation by a step budget. Neither can panic.

mod evaluate;
mod functions;
mod lexer;
mod numeric;
mod parser;
mod require;

pub(crate) use evaluate::{Outcome, Purpose, Scope, binary, element};
pub(crate) use functions::Function;
pub(crate) use lexer::number;
pub(crate) use require::{Parameters, Unknowns};

use crate::data::schema::{RawExpression, is_name};
use crate::error::{Error, Result, quoted};
use crate::value::ParameterValue;

/// The maximum length of an expression, in bytes. It also bounds the depth of operator chains.
const MAX_LEN: usize = 4096;

/// A parsed expression with its text.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Expression {
    text: Box<str>,
    node: Node,
}

/// A node of the syntax tree.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Node {
    Literal(ParameterValue),
    Name(Box<str>),
    Not(Box<Node>),
    Negate(Box<Node>),
    Binary(Operator, Box<Node>, Box<Node>),
    Call(Function, Vec<Node>),
    Element(Box<Node>, Box<Node>),
    List(Vec<Node>),
    /// A list comprehension: the index variable, the number of elements, and the element.
    Each(Box<str>, Box<Node>, Box<Node>),
    /// An operation on tensors: its name, arguments and named options. Only in graphs.
    Operation(Box<str>, Vec<Node>, Vec<(Box<str>, Node)>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operator {
    Or,
    And,
    Equal,
    NotEqual,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
    In,
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
}

impl Expression {
    pub(crate) fn parse(text: &str) -> Result<Self> {
        let node = parser::parse(text, MAX_LEN)
            .map_err(|fault| Error::description(format!("expression {}: {fault}", quoted(text))))?;
        Ok(Self { text: text.into(), node })
    }

    /// Returns the literal `true` or `false`.
    pub(crate) fn bool(value: bool) -> Self {
        Self {
            text: if value { "true" } else { "false" }.into(),
            node: Node::Literal(ParameterValue::Bool(value)),
        }
    }

    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// Returns the name if the whole expression is one name.
    pub(crate) fn as_name(&self) -> Option<&str> {
        match &self.node {
            Node::Name(name) => Some(name),
            _ => None,
        }
    }

    /// Fails for a name that `known` rejects, so that misspelled names are found when a description is
    /// loaded.
    pub(crate) fn check_names(&self, is_declared: &dyn Fn(&str) -> bool) -> Result<()> {
        match self.names().into_iter().find(|name| !is_declared(name)) {
            Some(name) => {
                let (text, unknown) = (quoted(&self.text), quoted(name));
                let message = format!("expression {text}: {unknown} is not a hyperparameter");
                Err(Error::unknown_name(name, message))
            }
            None => Ok(()),
        }
    }

    /// Returns the names in the expression.
    pub(crate) fn names(&self) -> Vec<&str> {
        self.node.names()
    }

    /// Returns the value if the expression is a literal.
    pub(crate) fn literal(&self) -> Option<&ParameterValue> {
        match &self.node {
            Node::Literal(value) => Some(value),
            _ => None,
        }
    }

    /// Evaluates the expression. Errors are of kind `Configuration`, because names were checked when
    /// the description was loaded.
    pub(crate) fn evaluate(&self, scope: &Scope<'_>) -> Result<ParameterValue> {
        self.node
            .evaluate(scope)
            .map_err(|fault| Error::configuration(format!("{} {fault}", &self.text)))
    }

    pub(crate) fn evaluate_bool(&self, scope: &Scope<'_>) -> Result<bool> {
        let value = self.evaluate(scope)?;
        value.as_bool().ok_or_else(|| self.wrong(&value, "true or false"))
    }

    pub(crate) fn evaluate_u64(&self, scope: &Scope<'_>) -> Result<u64> {
        let value = self.evaluate(scope)?;
        value.as_u64().ok_or_else(|| self.wrong(&value, "an integer of at least 0"))
    }

    /// Returns an error about a value of the wrong type.
    pub(crate) fn wrong(&self, value: &ParameterValue, expected: &str) -> Error {
        Error::configuration(format!("{} is {value}, expected {expected}", &self.text))
    }
}

impl Node {
    /// Calls `take` for each direct child.
    pub(crate) fn each_part<'n>(&'n self, take: &mut dyn FnMut(&'n Self)) {
        match self {
            Self::Literal(_) | Self::Name(_) => {}
            Self::Not(operand) | Self::Negate(operand) => take(operand),
            Self::Binary(_, left, right)
            | Self::Element(left, right)
            | Self::Each(_, left, right) => {
                take(left);
                take(right);
            }
            Self::Call(_, nodes) | Self::List(nodes) => nodes.iter().for_each(take),
            Self::Operation(_, nodes, options) => {
                nodes.iter().chain(options.iter().map(|(_, node)| node)).for_each(take);
            }
        }
    }

    /// Returns the free names in the tree.
    pub(crate) fn names(&self) -> Vec<&str> {
        let mut names = Vec::new();
        self.visit(&mut names);
        names
    }

    fn visit<'n>(&'n self, names: &mut Vec<&'n str>) {
        match self {
            Self::Literal(_) => {}
            Self::Name(name) => names.push(name),
            Self::Not(operand) | Self::Negate(operand) => operand.visit(names),
            Self::Binary(_, left, right) | Self::Element(left, right) => {
                left.visit(names);
                right.visit(names);
            }
            Self::Call(_, nodes) | Self::List(nodes) => {
                for node in nodes {
                    node.visit(names);
                }
            }
            Self::Operation(_, nodes, options) => {
                for node in nodes.iter().chain(options.iter().map(|(_, node)| node)) {
                    node.visit(names);
                }
            }
            Self::Each(variable, count, element) => {
                count.visit(names);
                let before = names.len();
                element.visit(names);
                let mut position = 0usize;
                names.retain(|name| {
                    position = position.saturating_add(1);
                    position <= before || *name != &**variable
                });
            }
        }
    }
}

/// A tensor operation with arguments: `permute(head_count)`, `stack`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Invocation {
    pub(crate) name: Box<str>,
    pub(crate) arguments: Vec<Expression>,
}

impl Invocation {
    pub(crate) fn parse(text: &str) -> Result<Self> {
        let (name, arguments) = parser::parse_invocation(text, MAX_LEN)
            .map_err(|fault| Error::description(format!("operation {}: {fault}", quoted(text))))?;
        let arguments =
            arguments.into_iter().map(|(text, node)| Expression { text, node }).collect();
        Ok(Self { name, arguments })
    }
}

/// A step of a graph: the names that it binds, and their value, as in `q, k = …`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Binding {
    pub(crate) names: Vec<Box<str>>,
    pub(crate) value: Node,
}

impl Binding {
    /// The maximum length of a step, in bytes.
    const MAX_LEN: usize = 2048;

    /// Parses a step. `is_operation` returns `true` for names of tensor operations.
    pub(crate) fn parse(text: &str, is_operation: fn(&str) -> bool) -> Result<Self> {
        parser::parse_binding(text, Self::MAX_LEN, is_operation)
            .map(|(names, value)| Self { names, value })
            .map_err(|fault| Error::description(format!("step {}: {fault}", quoted(text))))
    }
}

/// A loop variable with its range: `bid in 0..block_count`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Loop {
    pub(crate) variable: Box<str>,
    pub(crate) start: Expression,
    pub(crate) end: Expression,
}

impl Loop {
    pub(crate) fn parse(text: &str) -> Result<Self> {
        let fault = || {
            Error::description(format!("loop {}: expected \"NAME in START..END\"", quoted(text)))
        };
        let (variable, range) = text.split_once(" in ").ok_or_else(fault)?;
        let (start, end) = range.split_once("..").ok_or_else(fault)?;
        let variable = variable.trim();
        if !is_name(variable) {
            return Err(fault());
        }
        Ok(Self {
            variable: variable.into(),
            start: Expression::parse(start.trim())?,
            end: Expression::parse(end.trim())?,
        })
    }

    pub(crate) fn check_names(&self, is_declared: &dyn Fn(&str) -> bool) -> Result<()> {
        self.start.check_names(is_declared)?;
        self.end.check_names(is_declared)
    }

    /// Returns the range of the variable. Fails if it is longer than `limit`.
    pub(crate) fn range(&self, scope: &Scope<'_>, limit: u64) -> Result<core::ops::Range<u64>> {
        let (start, end) = (self.start.evaluate_u64(scope)?, self.end.evaluate_u64(scope)?);
        let count = end.saturating_sub(start);
        if count > limit {
            let message = format!(
                "{} from {start} to {end}: {count} repetitions, the limit is {limit}",
                self.variable
            );
            return Err(Error::new(crate::ErrorKind::Limit, message));
        }
        Ok(start..end.max(start))
    }
}

/// Parses an expression. Fails for a name that `known` rejects.
pub(crate) fn expression(
    raw: &RawExpression,
    is_declared: &dyn Fn(&str) -> bool,
) -> Result<Expression> {
    let expression = Expression::parse(&raw.text())?;
    expression.check_names(is_declared)?;
    Ok(expression)
}

/// Parses an optional expression; `place` is its field name, for errors.
pub(crate) fn optional(
    raw: Option<&RawExpression>,
    place: &str,
    is_declared: &dyn Fn(&str) -> bool,
) -> Result<Option<Expression>> {
    raw.map(|raw| expression(raw, is_declared)).transpose().map_err(|error| error.at(place))
}

/// Parses a condition, which is true by default.
pub(crate) fn condition(
    raw: Option<&RawExpression>,
    is_declared: &dyn Fn(&str) -> bool,
) -> Result<Expression> {
    let written = optional(raw, "when", is_declared)?;
    Ok(written.unwrap_or_else(|| Expression::bool(true)))
}

#[cfg(test)]
mod tests;
