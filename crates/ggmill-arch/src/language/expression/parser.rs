//! Parses expressions by recursive descent with a depth limit.

use super::lexer::{Spanned, Token, tokens};
use super::{Function, Node, Operator};
use crate::data::schema::is_name;
use crate::error::quoted;

/// The maximum nesting depth of brackets, signs and calls.
const DEEPEST: u32 = 32;

pub(super) fn parse(text: &str, longest: usize) -> Result<Node, String> {
    let mut parser = Parser::new(text, longest)?;
    let node = parser.expression()?;
    parser.end()?;
    Ok(node)
}

/// A name and its arguments, each with its text.
pub(super) type Invoked = (Box<str>, Vec<(Box<str>, Node)>);

pub(super) fn parse_invocation(text: &str, longest: usize) -> Result<Invoked, String> {
    let mut parser = Parser::new(text, longest)?;
    let Some(Token::Name(name)) = parser.take() else { return Err("expected a name".into()) };
    let mut arguments = Vec::new();
    if parser.accept("(") && !parser.accept(")") {
        loop {
            let start = parser.offset();
            let node = parser.expression()?;
            let argument = text.get(start..parser.offset()).unwrap_or_default().trim_end();
            arguments.push((argument.into(), node));
            if parser.accept(")") {
                break;
            }
            parser.expect(",")?;
        }
    }
    parser.end()?;
    Ok((name.into(), arguments))
}

/// Parses a step: the names that it binds, and their value.
pub(super) fn parse_binding(
    text: &str,
    longest: usize,
    is_operation: fn(&str) -> bool,
) -> Result<(Vec<Box<str>>, Node), String> {
    let mut parser = Parser::new(text, longest)?;
    parser.is_operation = Some(is_operation);
    let mut names: Vec<Box<str>> = Vec::new();
    loop {
        match parser.take() {
            Some(Token::Name(name)) if is_name(name) && !names.iter().any(|n| **n == *name) => {
                names.push(name.into());
            }
            _ => {
                return Err(
                    "expected NAME = EXPRESSION, or several names separated by commas".into()
                );
            }
        }
        if parser.accept("=") {
            break;
        }
        parser.expect(",")?;
    }
    let node = parser.expression()?;
    parser.end()?;
    Ok((names, node))
}

struct Parser<'a> {
    text: &'a str,
    tokens: Vec<Spanned<'a>>,
    next: usize,
    depth: u32,
    /// In graphs, returns `true` for names of operations.
    is_operation: Option<fn(&str) -> bool>,
}

impl<'a> Parser<'a> {
    fn new(text: &'a str, longest: usize) -> Result<Self, String> {
        if text.len() > longest {
            return Err(format!("{} bytes, the limit is {longest}", text.len()));
        }
        Ok(Self { text, tokens: tokens(text)?, next: 0, depth: 0, is_operation: None })
    }

    fn peek(&self) -> Option<&Token<'a>> {
        self.tokens.get(self.next).map(|(_, token)| token)
    }

    fn take(&mut self) -> Option<Token<'a>> {
        let (_, token) = self.tokens.get(self.next)?;
        self.next = self.next.saturating_add(1);
        Some(token.clone())
    }

    /// Returns the byte offset of the next token, or of the end of the text.
    fn offset(&self) -> usize {
        self.tokens.get(self.next).map_or(self.text.len(), |(start, _)| *start)
    }

    fn accept(&mut self, symbol: &str) -> bool {
        let found = matches!(self.peek(), Some(Token::Symbol(next)) if *next == symbol);
        self.next = self.next.saturating_add(usize::from(found));
        found
    }

    fn accept_word(&mut self, word: &str) -> bool {
        let found = matches!(self.peek(), Some(Token::Name(next)) if *next == word);
        self.next = self.next.saturating_add(usize::from(found));
        found
    }

    fn expect(&mut self, symbol: &str) -> Result<(), String> {
        if self.accept(symbol) {
            Ok(())
        } else {
            Err(format!("expected {symbol:?} at byte {}", self.offset()))
        }
    }

    fn end(&self) -> Result<(), String> {
        if self.peek().is_none() {
            Ok(())
        } else {
            Err(format!("unexpected text at byte {}", self.offset()))
        }
    }

    /// Calls `inner` one level deeper. Fails at the depth limit.
    fn deeper(
        &mut self,
        inner: impl FnOnce(&mut Self) -> Result<Node, String>,
    ) -> Result<Node, String> {
        if self.depth >= DEEPEST {
            return Err(format!("nested deeper than {DEEPEST} levels"));
        }
        self.depth = self.depth.saturating_add(1);
        let node = inner(self);
        self.depth = self.depth.saturating_sub(1);
        node
    }

    fn expression(&mut self) -> Result<Node, String> {
        self.deeper(|parser| {
            let mut node = parser.conjunction()?;
            while parser.accept_word("or") {
                node = binary(Operator::Or, node, parser.conjunction()?);
            }
            Ok(node)
        })
    }

    fn conjunction(&mut self) -> Result<Node, String> {
        let mut node = self.negation()?;
        while self.accept_word("and") {
            node = binary(Operator::And, node, self.negation()?);
        }
        Ok(node)
    }

    fn negation(&mut self) -> Result<Node, String> {
        if self.accept_word("not") {
            return self.deeper(|parser| Ok(Node::Not(Box::new(parser.negation()?))));
        }
        self.comparison()
    }

    fn comparison(&mut self) -> Result<Node, String> {
        let left = self.sum()?;
        let operator = match self.peek() {
            Some(Token::Symbol("==")) => Operator::Equal,
            Some(Token::Symbol("!=")) => Operator::NotEqual,
            Some(Token::Symbol("<")) => Operator::Less,
            Some(Token::Symbol("<=")) => Operator::LessEqual,
            Some(Token::Symbol(">")) => Operator::Greater,
            Some(Token::Symbol(">=")) => Operator::GreaterEqual,
            Some(Token::Name("in")) => Operator::In,
            _ => return Ok(left),
        };
        self.take();
        Ok(binary(operator, left, self.sum()?))
    }

    fn sum(&mut self) -> Result<Node, String> {
        let mut node = self.product()?;
        loop {
            let operator = match self.peek() {
                Some(Token::Symbol("+")) => Operator::Add,
                Some(Token::Symbol("-")) => Operator::Subtract,
                _ => return Ok(node),
            };
            self.take();
            node = binary(operator, node, self.product()?);
        }
    }

    fn product(&mut self) -> Result<Node, String> {
        let mut node = self.signed()?;
        loop {
            let operator = match self.peek() {
                Some(Token::Symbol("*")) => Operator::Multiply,
                Some(Token::Symbol("/")) => Operator::Divide,
                Some(Token::Symbol("%")) => Operator::Remainder,
                _ => return Ok(node),
            };
            self.take();
            node = binary(operator, node, self.signed()?);
        }
    }

    fn signed(&mut self) -> Result<Node, String> {
        if self.accept("-") {
            return self.deeper(|parser| Ok(Node::Negate(Box::new(parser.signed()?))));
        }
        let mut node = self.primary()?;
        while self.accept("[") {
            node = Node::Element(Box::new(node), Box::new(self.expression()?));
            self.expect("]")?;
        }
        Ok(node)
    }

    /// Returns `true` if a value can have this name. In graphs, names of tensors contain dots.
    fn can_name(&self, name: &str) -> bool {
        let in_graph = self.is_operation.is_some();
        let first = name.split_once('.').filter(|_| in_graph).map(|(first, _)| first);
        is_name(first.unwrap_or(name))
    }

    fn primary(&mut self) -> Result<Node, String> {
        let at = self.offset();
        match self.take() {
            Some(Token::Literal(value)) => Ok(Node::Literal(value)),
            Some(Token::Symbol("(")) => {
                let node = self.expression()?;
                self.expect(")")?;
                Ok(node)
            }
            Some(Token::Symbol("[")) => Ok(Node::List(self.list("]")?)),
            Some(Token::Name("each")) if self.accept("(") => self.each(),
            Some(Token::Name(name))
                if self.is_operation.is_some_and(|is_one| is_one(name)) && self.accept("(") =>
            {
                self.operation(name)
            }
            Some(Token::Name(name)) if self.accept("(") => {
                let function = Function::from_name(name)
                    .ok_or_else(|| format!("there is no function {}", quoted(name)))?;
                let arguments = self.list(")")?;
                let (least, most) = function.arity();
                if arguments.len() < least || arguments.len() > most {
                    let expected = if least == most {
                        least.to_string()
                    } else {
                        format!("{least} to {most}")
                    };
                    return Err(format!(
                        "{name} takes {expected} arguments, found {}",
                        arguments.len()
                    ));
                }
                Ok(Node::Call(function, arguments))
            }
            Some(Token::Name(name)) if self.can_name(name) => Ok(Node::Name(name.into())),
            Some(_) => Err(format!("expected a value at byte {at}")),
            None => Err("ends where a value is expected".into()),
        }
    }

    /// Parses arguments, then options (`NAME = EXPRESSION`), up to the closing bracket.
    fn operation(&mut self, name: &str) -> Result<Node, String> {
        let (mut arguments, mut options) = (Vec::new(), Vec::<(Box<str>, Node)>::new());
        while !self.accept(")") {
            if !(arguments.is_empty() && options.is_empty()) {
                self.expect(",")?;
            }
            let after = self.next.saturating_add(1);
            let is_option = matches!(self.tokens.get(after), Some((_, Token::Symbol("="))));
            match self.peek() {
                Some(&Token::Name(option)) if is_option => {
                    if options.iter().any(|(known, _)| **known == *option) {
                        return Err(format!("{name}: option {} occurs twice", quoted(option)));
                    }
                    self.next = after.saturating_add(1);
                    options.push((option.into(), self.expression()?));
                }
                _ if options.is_empty() => arguments.push(self.expression()?),
                _ => return Err(format!("{name}: arguments must precede options")),
            }
        }
        Ok(Node::Operation(name.into(), arguments, options))
    }

    /// Parses `VARIABLE, COUNT, ELEMENT)`.
    fn each(&mut self) -> Result<Node, String> {
        let Some(Token::Name(variable)) =
            self.take().filter(|token| matches!(token, Token::Name(variable) if is_name(variable)))
        else {
            return Err(
                "the first argument of each must be a name for the index of an element".into()
            );
        };
        self.expect(",")?;
        let count = self.expression()?;
        self.expect(",")?;
        let element = self.expression()?;
        self.expect(")")?;
        Ok(Node::Each(variable.into(), Box::new(count), Box::new(element)))
    }

    /// Parses expressions separated by commas up to the closing bracket.
    fn list(&mut self, close: &str) -> Result<Vec<Node>, String> {
        let mut nodes = Vec::new();
        if self.accept(close) {
            return Ok(nodes);
        }
        loop {
            nodes.push(self.expression()?);
            if self.accept(close) {
                return Ok(nodes);
            }
            self.expect(",")?;
        }
    }
}

fn binary(operator: Operator, left: Node, right: Node) -> Node {
    Node::Binary(operator, Box::new(left), Box::new(right))
}
