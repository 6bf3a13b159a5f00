//! Parses sources by recursive descent with a depth limit.

use ggmill_core::is_digits;

use super::lexer::{Fault, Span, Token, tokens};
use super::names::{FLOOR_DIVIDE, POWER};
use super::{Expr, Function, Kind, Statement, StatementKind};
use crate::data::schema::is_name;
use crate::language::expression::Operator;
use crate::value::ParameterValue;

/// The maximum nesting depth of brackets and operators.
const MAX_DEPTH: u32 = 32;
/// The maximum number of functions of a source.
const MAX_FUNCTIONS: usize = 256;
/// The maximum number of `from … import` lines of a source, and of names in one.
const MAX_IMPORTS: usize = 16;
/// The maximum number of parameters of a function.
const MAX_PARAMETERS: usize = 48;
/// The maximum number of operators in a statement, each of which can make the tree deeper.
const MAX_OPERATORS: usize = 128;

const KEYWORDS: [&str; 35] = [
    "False", "None", "True", "and", "as", "assert", "async", "await", "break", "class", "continue",
    "def", "del", "elif", "else", "except", "finally", "for", "from", "global", "if", "import",
    "in", "is", "lambda", "nonlocal", "not", "or", "pass", "raise", "return", "try", "while",
    "with", "yield",
];

/// A parsed source.
pub(super) struct Parsed {
    pub(super) imports: Vec<Import>,
    pub(super) functions: Vec<Function>,
}

/// A line `from MODULE import NAME, NAME`.
pub(super) struct Import {
    pub(super) module: Box<str>,
    pub(super) names: Vec<(Box<str>, Span)>,
    pub(super) span: Span,
}

/// Parses a source. `source` is its index, which the functions get.
pub(super) fn parse(text: &str, source: usize) -> Result<Parsed, Fault> {
    let tokens = tokens(text)?;
    let mut parser = Parser { tokens, next: 0, depth: 0, operators: 0, len: text.len(), source };
    let (mut imports, mut functions) = (Vec::new(), Vec::<Function>::new());
    // A string at the beginning is a docstring.
    if matches!(parser.peek(), Some(Token::Literal(ParameterValue::Str(_)))) {
        parser.next = parser.next.saturating_add(1);
        parser.newline()?;
    }
    while parser.is_word("from") {
        if imports.len() >= MAX_IMPORTS {
            return parser.fault(format!("more than {MAX_IMPORTS} imports"));
        }
        imports.push(parser.import()?);
    }
    while parser.peek().is_some() {
        if functions.len() >= MAX_FUNCTIONS {
            return parser.fault(format!("more than {MAX_FUNCTIONS} functions"));
        }
        let function = parser.function()?;
        if functions.iter().any(|known| known.name == function.name) {
            return Err((function.span, format!("{} is defined twice", function.name)));
        }
        functions.push(function);
    }
    Ok(Parsed { imports, functions })
}

struct Parser<'a> {
    tokens: Vec<(Span, Token<'a>)>,
    next: usize,
    depth: u32,
    /// The number of operators in the statement so far.
    operators: usize,
    len: usize,
    /// The index of the source.
    source: usize,
}

impl<'a> Parser<'a> {
    fn peek(&self) -> Option<&Token<'a>> {
        self.tokens.get(self.next).map(|(_, token)| token)
    }

    fn take(&mut self) -> Option<Token<'a>> {
        let token = self.peek().cloned();
        self.next = self.next.saturating_add(1);
        token
    }

    /// Returns the span of the next token, or the end of the source.
    fn span(&self) -> Span {
        let end = Span { start: self.len, end: self.len };
        self.tokens.get(self.next).map_or(end, |(span, _)| *span)
    }

    /// Returns the end of the last token.
    fn end(&self) -> usize {
        self.tokens.get(self.next.saturating_sub(1)).map_or(self.len, |(span, _)| span.end)
    }

    fn since(&self, start: usize) -> Span {
        Span { start, end: self.end() }
    }

    fn fault<T>(&self, message: impl Into<String>) -> Result<T, Fault> {
        Err((self.span(), message.into()))
    }

    fn is_word(&self, word: &str) -> bool {
        matches!(self.peek(), Some(Token::Name(name)) if *name == word)
    }

    fn accept_word(&mut self, word: &str) -> bool {
        let found = self.is_word(word);
        self.next = self.next.saturating_add(usize::from(found));
        found
    }

    fn is_symbol(&self, symbol: &str) -> bool {
        matches!(self.peek(), Some(Token::Symbol(next)) if *next == symbol)
    }

    fn accept(&mut self, symbol: &str) -> bool {
        let found = self.is_symbol(symbol);
        self.next = self.next.saturating_add(usize::from(found));
        found
    }

    fn expect(&mut self, symbol: &str) -> Result<(), Fault> {
        if self.accept(symbol) { Ok(()) } else { self.fault(format!("expected {symbol:?}")) }
    }

    fn newline(&mut self) -> Result<(), Fault> {
        if matches!(self.peek(), Some(Token::Newline)) {
            self.next = self.next.saturating_add(1);
            return Ok(());
        }
        self.fault("expected the end of the line")
    }

    fn name(&mut self) -> Result<Box<str>, Fault> {
        match self.peek() {
            Some(Token::Name(name)) if is_name(name) && !KEYWORDS.contains(name) => {
                let name = (*name).into();
                self.next = self.next.saturating_add(1);
                Ok(name)
            }
            _ => self.fault("expected a name"),
        }
    }

    /// Calls `inner` one level deeper. Fails at the depth limit.
    fn deeper<T>(&mut self, inner: impl FnOnce(&mut Self) -> Result<T, Fault>) -> Result<T, Fault> {
        if self.depth >= MAX_DEPTH {
            return self.fault(format!("nested deeper than {MAX_DEPTH} levels"));
        }
        self.depth = self.depth.saturating_add(1);
        let found = inner(self);
        self.depth = self.depth.saturating_sub(1);
        found
    }

    fn import(&mut self) -> Result<Import, Fault> {
        let start = self.span().start;
        self.accept_word("from");
        let module = self.name()?;
        if !self.accept_word("import") {
            return self.fault("expected \"import\"");
        }
        let mut names = Vec::new();
        loop {
            let span = self.span();
            names.push((self.name()?, span));
            if !self.accept(",") {
                break;
            }
            if names.len() >= MAX_IMPORTS {
                return self.fault(format!("more than {MAX_IMPORTS} names"));
            }
        }
        let span = self.since(start);
        self.newline()?;
        Ok(Import { module, names, span })
    }

    fn function(&mut self) -> Result<Function, Fault> {
        let start = self.span().start;
        if !self.accept_word("def") {
            return self.fault("expected a function: def NAME(…):");
        }
        let name = self.name()?;
        self.expect("(")?;
        let mut parameters: Vec<(Box<str>, Option<Expr>)> = Vec::new();
        while !self.accept(")") {
            if !parameters.is_empty() {
                self.expect(",")?;
                if self.accept(")") {
                    break;
                }
            }
            if parameters.len() >= MAX_PARAMETERS {
                return self.fault(format!("more than {MAX_PARAMETERS} parameters"));
            }
            let parameter = self.name()?;
            if parameters.iter().any(|(known, _)| *known == parameter) {
                return self.fault(format!("the parameter {parameter} occurs twice"));
            }
            let default = if self.accept("=") { Some(self.expression()?) } else { None };
            if default.is_none() && parameters.last().is_some_and(|(_, last)| last.is_some()) {
                return self.fault("parameters without a default must precede the others");
            }
            parameters.push((parameter, default));
        }
        let span = self.since(start);
        let body = self.block()?;
        let before = self.tokens.get(..self.next).unwrap_or_default();
        let is_blank = |token: &_| matches!(token, Token::Newline | Token::Dedent);
        let last = before.iter().rev().find(|(_, token)| !is_blank(token));
        let whole = Span { start, end: last.map_or(span.end, |(span, _)| span.end) };
        Ok(Function { name, parameters, body, span, whole, source: self.source })
    }

    /// Parses `:` and the statements after it, on the same line or indented.
    fn block(&mut self) -> Result<Vec<Statement>, Fault> {
        self.expect(":")?;
        let mut statements = Vec::new();
        if !matches!(self.peek(), Some(Token::Newline)) {
            statements.extend(self.simple_statement()?);
            return Ok(statements);
        }
        self.newline()?;
        if !matches!(self.peek(), Some(Token::Indent)) {
            return self.fault("expected an indented block");
        }
        self.next = self.next.saturating_add(1);
        self.deeper(|parser| {
            while !matches!(parser.peek(), None | Some(Token::Dedent)) {
                statements.extend(parser.statement()?);
            }
            Ok(())
        })?;
        self.next = self.next.saturating_add(1);
        Ok(statements)
    }

    fn statement(&mut self) -> Result<Option<Statement>, Fault> {
        self.operators = 0;
        let start = self.span().start;
        if self.accept_word("if") {
            let mut branches = Vec::new();
            let mut otherwise = Vec::new();
            let condition = self.expression()?;
            let span = self.since(start);
            branches.push((condition, self.block()?));
            loop {
                if self.accept_word("elif") {
                    let condition = self.expression()?;
                    branches.push((condition, self.block()?));
                } else if self.accept_word("else") {
                    otherwise = self.block()?;
                    break;
                } else {
                    break;
                }
            }
            return Ok(Some(Statement { span, kind: StatementKind::If(branches, otherwise) }));
        }
        if self.accept_word("for") {
            let variable = self.name()?;
            if !self.accept_word("in") {
                return self.fault("expected \"in\"");
            }
            let over = self.expression()?;
            let span = self.since(start);
            let body = self.block()?;
            return Ok(Some(Statement { span, kind: StatementKind::For(variable, over, body) }));
        }
        self.simple_statement()
    }

    /// Parses a statement of one line. Returns `None` for a docstring.
    fn simple_statement(&mut self) -> Result<Option<Statement>, Fault> {
        let start = self.span().start;
        if let Some(Token::Literal(ParameterValue::Str(_))) = self.peek() {
            self.next = self.next.saturating_add(1);
            self.newline()?;
            return Ok(None);
        }
        let kind = if self.accept_word("return") {
            StatementKind::Return(self.values()?)
        } else if self.accept_word("assert") {
            let condition = self.expression()?;
            self.expect(",")?;
            match self.take() {
                Some(Token::Literal(ParameterValue::Str(because))) if !because.is_empty() => {
                    StatementKind::Assert(condition, because)
                }
                _ => return self.fault("expected a reason in quotes"),
            }
        } else {
            self.assignment()?
        };
        let span = self.since(start);
        self.newline()?;
        Ok(Some(Statement { span, kind }))
    }

    fn assignment(&mut self) -> Result<StatementKind, Fault> {
        let at = self.span();
        for word in ["while", "import", "from", "class", "lambda", "pass"] {
            if self.is_word(word) {
                return self.fault(format!("{word} is not part of the language of graphs"));
            }
        }
        if self.is_word("def") {
            return self.fault("a function within a function");
        }
        let after = self.next.saturating_add(1);
        if matches!(self.tokens.get(after), Some((_, Token::Symbol("(")))) {
            return Ok(StatementKind::Call(self.expression()?));
        }
        let mut names = vec![self.name()?];
        while self.accept(",") {
            let name = self.name()?;
            if names.contains(&name) {
                return self.fault(format!("{name} is assigned twice"));
            }
            names.push(name);
        }
        if let [name] = &names[..]
            && self.accept("+=")
        {
            let left = Expr { span: at, kind: Kind::Name(name.clone()) };
            let right = self.expression()?;
            let kind = Kind::Binary(Operator::Add, Box::new([left, right]));
            let sum = Expr { span: self.since(at.start), kind };
            return Ok(StatementKind::Assign(names, sum));
        }
        if !self.is_symbol("=") {
            return Err((at, "expected NAME = VALUE, if, for, assert or return".into()));
        }
        self.expect("=")?;
        Ok(StatementKind::Assign(names, self.values()?))
    }

    /// Parses one value, or several as a list.
    fn values(&mut self) -> Result<Expr, Fault> {
        let start = self.span().start;
        let first = self.expression()?;
        if !self.is_symbol(",") {
            return Ok(first);
        }
        let mut values = vec![first];
        while self.accept(",") {
            values.push(self.expression()?);
        }
        Ok(Expr { span: self.since(start), kind: Kind::List(values) })
    }

    /// Parses `a if condition else b`, or an expression that binds tighter.
    fn expression(&mut self) -> Result<Expr, Fault> {
        self.deeper(|parser| {
            let start = parser.span().start;
            let yes = parser.disjunction()?;
            if !parser.accept_word("if") {
                return Ok(yes);
            }
            let condition = parser.disjunction()?;
            if !parser.accept_word("else") {
                return parser.fault("expected \"else\"");
            }
            let no = parser.expression()?;
            let kind = Kind::Conditional(Box::new([condition, yes, no]));
            Ok(Expr { span: parser.since(start), kind })
        })
    }

    /// Parses a left-associative chain of operators of one precedence.
    fn chain(
        &mut self,
        operand: fn(&mut Self) -> Result<Expr, Fault>,
        operator: fn(&mut Self) -> Option<Infix>,
    ) -> Result<Expr, Fault> {
        let start = self.span().start;
        let mut left = operand(self)?;
        while let Some(infix) = operator(self) {
            self.operators = self.operators.saturating_add(1);
            if self.operators > MAX_OPERATORS {
                return self.fault(format!("more than {MAX_OPERATORS} operators"));
            }
            let right = operand(self)?;
            let kind = infix.of(left, right);
            left = Expr { span: self.since(start), kind };
        }
        Ok(left)
    }

    fn disjunction(&mut self) -> Result<Expr, Fault> {
        self.chain(Self::conjunction, |parser| {
            parser.accept_word("or").then_some(Infix::Operator(Operator::Or))
        })
    }

    fn conjunction(&mut self) -> Result<Expr, Fault> {
        self.chain(Self::negation, |parser| {
            parser.accept_word("and").then_some(Infix::Operator(Operator::And))
        })
    }

    fn negation(&mut self) -> Result<Expr, Fault> {
        let start = self.span().start;
        if !self.accept_word("not") {
            return self.comparison();
        }
        let operand = self.deeper(Self::negation)?;
        Ok(Expr { span: self.since(start), kind: Kind::Not(Box::new(operand)) })
    }

    fn comparison(&mut self) -> Result<Expr, Fault> {
        let start = self.span().start;
        let left = self.sum()?;
        let operator = if self.accept_word("is") {
            let negated = self.accept_word("not");
            if !self.accept_word("None") {
                return self.fault("expected None after \"is\"");
            }
            let is_none = Kind::IsNone(Box::new(left));
            let kind = if negated {
                Kind::Not(Box::new(Expr { span: self.since(start), kind: is_none }))
            } else {
                is_none
            };
            return Ok(Expr { span: self.since(start), kind });
        } else if self.accept_word("in") {
            (Operator::In, false)
        } else if self.is_word("not") {
            self.next = self.next.saturating_add(1);
            if !self.accept_word("in") {
                return self.fault("expected \"in\"");
            }
            (Operator::In, true)
        } else {
            let operators = [
                ("==", Operator::Equal),
                ("!=", Operator::NotEqual),
                ("<=", Operator::LessEqual),
                (">=", Operator::GreaterEqual),
                ("<", Operator::Less),
                (">", Operator::Greater),
            ];
            match operators.into_iter().find(|(symbol, _)| self.accept(symbol)) {
                Some((_, operator)) => (operator, false),
                None => return Ok(left),
            }
        };
        let right = self.sum()?;
        let kind = Kind::Binary(operator.0, Box::new([left, right]));
        let compared = Expr { span: self.since(start), kind };
        if ["==", "!=", "<=", ">=", "<", ">"].iter().any(|symbol| self.is_symbol(symbol)) {
            return self.fault("comparisons cannot be chained");
        }
        if operator.1 {
            return Ok(Expr { span: compared.span, kind: Kind::Not(Box::new(compared)) });
        }
        Ok(compared)
    }

    fn sum(&mut self) -> Result<Expr, Fault> {
        self.chain(Self::product, |parser| {
            let operators = [("+", Operator::Add), ("-", Operator::Subtract)];
            let found = operators.into_iter().find(|(symbol, _)| parser.accept(symbol));
            found.map(|(_, operator)| Infix::Operator(operator))
        })
    }

    fn product(&mut self) -> Result<Expr, Fault> {
        self.chain(Self::unary, |parser| {
            if parser.accept("//") {
                return Some(Infix::Function(FLOOR_DIVIDE));
            }
            let operators =
                [("*", Operator::Multiply), ("/", Operator::Divide), ("%", Operator::Remainder)];
            let found = operators.into_iter().find(|(symbol, _)| parser.accept(symbol));
            found.map(|(_, operator)| Infix::Operator(operator))
        })
    }

    fn unary(&mut self) -> Result<Expr, Fault> {
        let start = self.span().start;
        if !self.accept("-") {
            return self.power();
        }
        let operand = self.deeper(Self::unary)?;
        let kind = match operand.kind {
            // A negative number is a number.
            Kind::Literal(ParameterValue::Int(value)) => {
                Kind::Literal(ParameterValue::Int(value.saturating_neg()))
            }
            Kind::Literal(ParameterValue::Float(value)) => {
                Kind::Literal(ParameterValue::Float(-value))
            }
            _ => Kind::Negate(Box::new(operand)),
        };
        Ok(Expr { span: self.since(start), kind })
    }

    fn power(&mut self) -> Result<Expr, Fault> {
        let start = self.span().start;
        let base = self.postfix()?;
        if !self.accept("**") {
            return Ok(base);
        }
        let exponent = self.deeper(Self::unary)?;
        let kind = Infix::Function(POWER).of(base, exponent);
        Ok(Expr { span: self.since(start), kind })
    }

    /// Parses a primary expression with indices and `.NAME` suffixes.
    fn postfix(&mut self) -> Result<Expr, Fault> {
        let start = self.span().start;
        let mut value = self.primary()?;
        let mut count = 0usize;
        loop {
            count = count.saturating_add(1);
            if count > 8 {
                return self.fault("more than 8 indices in a row");
            }
            let kind = if self.accept("[") {
                let index = self.expression()?;
                self.expect("]")?;
                Kind::Index(Box::new([value, index]))
            } else if self.accept(".") {
                let name = match self.take() {
                    // Numbers can be components of tensor names: `mlp._2` is `mlp.2`.
                    Some(Token::Name(name)) => {
                        name.strip_prefix('_').filter(|rest| is_digits(rest)).unwrap_or(name)
                    }
                    _ => return self.fault("expected a name after \".\""),
                };
                match value.kind {
                    Kind::Name(first) => Kind::Name(format!("{first}.{name}").into()),
                    _ => Kind::Suffix(Box::new(value), name.into()),
                }
            } else {
                return Ok(value);
            };
            value = Expr { span: self.since(start), kind };
        }
    }

    fn primary(&mut self) -> Result<Expr, Fault> {
        let start = self.span().start;
        let literal = |value| Kind::Literal(value);
        let kind = match self.peek() {
            Some(Token::Literal(value)) => {
                let kind = literal(value.clone());
                self.next = self.next.saturating_add(1);
                kind
            }
            Some(Token::Name("None")) => {
                self.next = self.next.saturating_add(1);
                literal(ParameterValue::None)
            }
            Some(Token::Name(word @ ("True" | "False"))) => {
                let value = *word == "True";
                self.next = self.next.saturating_add(1);
                literal(ParameterValue::Bool(value))
            }
            Some(Token::Symbol("(")) => {
                self.next = self.next.saturating_add(1);
                let value = self.deeper(Self::values)?;
                self.expect(")")?;
                return Ok(Expr { span: self.since(start), kind: value.kind });
            }
            Some(Token::Symbol("[")) => {
                self.next = self.next.saturating_add(1);
                self.list()?
            }
            _ => {
                let name = match self.name() {
                    Ok(name) => name,
                    Err((span, _)) => return Err((span, "expected a value".into())),
                };
                if self.accept("(") { self.call(name)? } else { Kind::Name(name) }
            }
        };
        Ok(Expr { span: self.since(start), kind })
    }

    /// Parses elements, or `ELEMENT for NAME in range(…)`, and the closing bracket.
    fn list(&mut self) -> Result<Kind, Fault> {
        let mut elements = Vec::new();
        while !self.accept("]") {
            if !elements.is_empty() {
                self.expect(",")?;
                if self.accept("]") {
                    break;
                }
            }
            let element = self.expression()?;
            if elements.is_empty() && self.accept_word("for") {
                let variable = self.name()?;
                if !self.accept_word("in") {
                    return self.fault("expected \"in\"");
                }
                let over = self.disjunction()?;
                self.expect("]")?;
                return Ok(Kind::Comprehension(variable, Box::new([over, element])));
            }
            elements.push(element);
        }
        Ok(Kind::List(elements))
    }

    /// Parses arguments, then named arguments, and the closing bracket.
    fn call(&mut self, name: Box<str>) -> Result<Kind, Fault> {
        let (mut arguments, mut named) = (Vec::new(), Vec::<(Box<str>, Expr)>::new());
        while !self.accept(")") {
            if !(arguments.is_empty() && named.is_empty()) {
                self.expect(",")?;
                if self.accept(")") {
                    break;
                }
            }
            let after = self.next.saturating_add(1);
            let is_named = matches!(self.tokens.get(after), Some((_, Token::Symbol("="))));
            if is_named && matches!(self.peek(), Some(Token::Name(_))) {
                let Some(Token::Name(option)) = self.take() else {
                    return self.fault("expected a name");
                };
                if named.iter().any(|(known, _)| **known == *option) {
                    return self.fault(format!("the argument {option} occurs twice"));
                }
                self.expect("=")?;
                named.push((option.into(), self.expression()?));
            } else if named.is_empty() {
                arguments.push(self.expression()?);
            } else {
                return self.fault("arguments without a name must precede the others");
            }
            if arguments.len().saturating_add(named.len()) > MAX_PARAMETERS {
                return self.fault(format!("more than {MAX_PARAMETERS} arguments"));
            }
        }
        Ok(Kind::Call(name, arguments, named))
    }
}

/// An operator between two operands.
enum Infix {
    Operator(Operator),
    /// An operator that is parsed as a function call.
    Function(&'static str),
}

impl Infix {
    fn of(self, left: Expr, right: Expr) -> Kind {
        match self {
            Self::Operator(operator) => Kind::Binary(operator, Box::new([left, right])),
            Self::Function(name) => Kind::Call(name.into(), vec![left, right], Vec::new()),
        }
    }
}
