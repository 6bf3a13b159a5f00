//! Expressions over hyperparameters: what descriptions say about sizes, conditions and values.
//!
//! Integers stay exact: a division that does not come out even is an error, and so is every
//! overflow. Parsing is bounded in length and depth, evaluation by what was parsed; neither can
//! panic.

mod evaluate;
mod functions;
mod lexer;
mod normal;
mod parser;
mod require;
mod rope_factors;
mod sinusoids;

pub(crate) use evaluate::{Outcome, Purpose, Scope, binary, element};
pub(crate) use functions::Function;
pub(crate) use lexer::number;
pub(crate) use require::{Parameters, Unknowns};

use crate::data::schema::is_name;
use crate::error::{Error, Result, quoted};
use crate::value::ParameterValue;

/// The longest text of an expression, in bytes. Also bounds the depth of what an operator chain
/// builds.
const MAX_LEN: usize = 4096;

/// A parsed expression, with its text for messages.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Expression {
    text: Box<str>,
    node: Node,
}

/// A part of an expression.
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
    /// A list of as many elements as the first says, each with the number of its place as a
    /// variable.
    Each(Box<str>, Box<Node>, Box<Node>),
    /// An operation on tensors: its name, its arguments, and its options by name. In graphs alone.
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

    /// An expression that is always true or always false.
    pub(crate) fn bool(value: bool) -> Self {
        Self {
            text: if value { "true" } else { "false" }.into(),
            node: Node::Literal(ParameterValue::Bool(value)),
        }
    }

    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// The hyperparameter that the whole expression is, when it is one and nothing else.
    pub(crate) fn as_name(&self) -> Option<&str> {
        match &self.node {
            Node::Name(name) => Some(name),
            _ => None,
        }
    }

    /// Fails for a name that `known` does not know, so that a slip in a description shows when it
    /// is loaded.
    pub(crate) fn check_names(&self, known: &dyn Fn(&str) -> bool) -> Result<()> {
        match self.names().into_iter().find(|name| !known(name)) {
            Some(name) => {
                let (text, unknown) = (quoted(&self.text), quoted(name));
                let message = format!("expression {text}: {unknown} is not a hyperparameter");
                Err(Error::unknown_name(name, message))
            }
            None => Ok(()),
        }
    }

    /// The names in the expression.
    pub(crate) fn names(&self) -> Vec<&str> {
        self.node.names()
    }

    /// The value in a scope. What fails is the configuration's doing: the names were checked when
    /// the description was loaded.
    /// The value, where it is written out.
    pub(crate) fn literal(&self) -> Option<&ParameterValue> {
        match &self.node {
            Node::Literal(value) => Some(value),
            _ => None,
        }
    }

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

    pub(crate) fn wrong(&self, value: &ParameterValue, expected: &str) -> Error {
        Error::configuration(format!("{} is {value}, expected {expected}", &self.text))
    }
}

impl Node {
    /// Passes each of the nodes that it is directly made of.
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

    /// The names in it.
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
                let mut place = 0usize;
                names.retain(|name| {
                    place = place.saturating_add(1);
                    place <= before || *name != &**variable
                });
            }
        }
    }
}

/// A named operation with arguments: `permute(head_count)`, `stack`.
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

/// The names that a step of a graph binds, and what they are: `q, k = …`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Binding {
    pub(crate) names: Vec<Box<str>>,
    pub(crate) value: Node,
}

impl Binding {
    /// The longest text of a step, in bytes.
    const MAX_LEN: usize = 2048;

    /// Reads a step; `is_operation` says which names are operations on tensors.
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

    pub(crate) fn check_names(&self, known: &dyn Fn(&str) -> bool) -> Result<()> {
        self.start.check_names(known)?;
        self.end.check_names(known)
    }

    /// The range of the variable, at most `limit` long.
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

#[cfg(test)]
mod tests;
