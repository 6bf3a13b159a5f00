//! The language of computation graphs: a subset of Python. `docs/formats/graph.md` is its reference.
//!
//! A source consists of functions. There is no recursion and there are no unbounded loops, so every
//! program ends; evaluation also has a step budget.

mod check;
mod imports;
mod lexer;
mod names;
mod outline;
mod parser;

use std::sync::{Arc, LazyLock};

use ggmill_core::RawStr;

use crate::error::{Error, Result, line_and_column, shortened};
use crate::language::expression::{Function as Known, Operator};
use crate::language::steps::Output;
use crate::value::ParameterValue;

pub(crate) use lexer::Span;

/// The name of the function that computes a model.
pub(crate) const MAIN: &str = "model";

/// The source of the library: the blocks that all graphs can use.
static LIBRARY_SOURCE: &str = include_str!(concat!(env!("OUT_DIR"), "/library.py"));
static LIBRARY: LazyLock<Library> = LazyLock::new(|| {
    let located = |(span, fault): lexer::Fault| located(LIBRARY_FILE, LIBRARY_SOURCE, span, &fault);
    let parsed = parser::parse(LIBRARY_SOURCE, OF_LIBRARY).map_err(located);
    let mut functions = parsed.expect("a test reads the library").functions;
    check::resolve_library(&mut functions).map_err(located).expect("a test reads the library");
    Library { functions }
});
const LIBRARY_FILE: &str = "library.py";

/// The source index of library functions.
pub(crate) const OF_LIBRARY: usize = usize::MAX;

struct Library {
    functions: Vec<Function>,
}

/// The program that computes the graphs of an architecture.
#[derive(Clone, Debug)]
pub(crate) struct Program {
    /// The source of the description, followed by the sources that it imports from.
    sources: Vec<Source>,
    /// The functions of the description, followed by the imported functions.
    functions: Vec<Function>,
    /// The index of the function that computes a model.
    main: usize,
}

#[derive(Clone, Debug)]
struct Source {
    /// The file name, for messages.
    file: Box<str>,
    text: Arc<str>,
}

#[derive(Clone, Debug)]
pub(crate) struct Function {
    pub(crate) name: Box<str>,
    /// Each parameter with its default, an expression over hyperparameters.
    pub(crate) parameters: Vec<(Box<str>, Option<Expr>)>,
    pub(crate) body: Vec<Statement>,
    /// The line that begins with `def`.
    pub(crate) span: Span,
    /// The function, from `def` to its last statement.
    whole: Span,
    /// The index of its source: 0 for the source of the description.
    pub(crate) source: usize,
}

#[derive(Clone, Debug)]
pub(crate) struct Statement {
    pub(crate) span: Span,
    pub(crate) kind: StatementKind,
}

#[derive(Clone, Debug)]
pub(crate) enum StatementKind {
    Assign(Vec<Box<str>>, Expr),
    If(Vec<(Expr, Vec<Statement>)>, Vec<Statement>),
    For(Box<str>, Expr, Vec<Statement>),
    Return(Expr),
    /// A call of a function that only asserts.
    Call(Expr),
    /// A condition; models for which it is false have no graph, for this reason.
    Assert(Expr, Arc<str>),
}

#[derive(Clone, Debug)]
pub(crate) struct Expr {
    pub(crate) span: Span,
    pub(crate) kind: Kind,
}

#[derive(Clone, Debug)]
pub(crate) enum Kind {
    Literal(ParameterValue),
    /// An unresolved name.
    Name(Box<str>),
    Local(Box<str>),
    Hyperparameter(Box<str>),
    /// The prefix of the names of tensors outside blocks.
    Tensor(Box<str>),
    /// The prefix of the names of tensors in the block with this number.
    BlockTensor(Box<str>, Box<Expr>),
    /// `tokens` or `positions`, by index.
    Input(usize),
    /// A tensor with `.bias`, `.scale` or `.weight` after its name.
    Suffix(Box<Expr>, Box<str>),
    /// A list and an index.
    Index(Box<[Expr; 2]>),
    /// An unresolved call.
    Call(Box<str>, Vec<Expr>, Vec<(Box<str>, Expr)>),
    /// A call of a resolved function, with arguments and named arguments.
    Resolved(Callee, Vec<Expr>, Vec<(Box<str>, Expr)>),
    List(Vec<Expr>),
    /// A list comprehension: the variable, what it iterates over, and the element.
    Comprehension(Box<str>, Box<[Expr; 2]>),
    Not(Box<Expr>),
    Negate(Box<Expr>),
    IsNone(Box<Expr>),
    Binary(Operator, Box<[Expr; 2]>),
    /// A condition, the value if it is true, and the value otherwise.
    Conditional(Box<[Expr; 3]>),
}

/// The target of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Callee {
    /// A function of the program, by index.
    Own(usize),
    /// A function of the library, by index.
    Library(usize),
    /// An operation on tensors, by its name in files.
    Operation(&'static str),
    /// A function of known values.
    Value(Known),
    /// An operation on tensors, or the function of known values with the same name.
    Either(&'static str, Known),
    Has,
    First,
    Range,
    Output(Output),
}

impl Program {
    /// Parses and resolves a source. `known` returns `true` for names of hyperparameters, `similar` are
    /// their names for suggestions. `tensors` are the tensor names of the description, with `{bid}` for
    /// block numbers. `programs` returns the source of a built-in architecture, for imports.
    pub(crate) fn from_raw(
        file: &str,
        text: &str,
        (known, similar): check::Hyperparameters<'_>,
        tensors: &[&str],
        programs: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Self> {
        let mut sources = vec![Source { file: file.into(), text: text.into() }];
        let read = imports::read(&mut sources, programs)
            .and_then(imports::Modules::reached)
            .and_then(|(mut functions, names)| {
                let main = check::resolve(&mut functions, &names, (known, similar), tensors)?;
                Ok((functions, main))
            });
        match read {
            Ok((functions, main)) => Ok(Self { sources, functions, main }),
            Err((number, (span, fault))) => {
                let (file, text) =
                    sources.get(number).map_or((file, text), |source| (&source.file, &source.text));
                Err(located(file, text, span, &fault))
            }
        }
    }

    /// Returns the function that computes a model.
    pub(crate) fn main(&self) -> Option<&Function> {
        self.functions.get(self.main)
    }

    /// Returns the function of a call, if it is a function of the program or the library.
    pub(crate) fn callee(&self, callee: Callee) -> Option<&Function> {
        match callee {
            Callee::Own(number) => self.functions.get(number),
            Callee::Library(number) => LIBRARY.functions.get(number),
            _ => None,
        }
    }

    /// Returns the source of the description, followed by the functions that it imports.
    pub(crate) fn text(&self) -> String {
        let mut text = self.sources.first().map_or("", |own| &own.text).to_owned();
        let mut before = 0;
        for function in self.functions.iter().filter(|function| function.source != 0) {
            if function.source != before
                && let Some(source) = self.sources.get(function.source)
            {
                text.push_str("\n# ");
                text.push_str(&source.file);
                text.push('\n');
                before = function.source;
            }
            text.push('\n');
            text.push_str(self.within(function.whole, function.source));
            text.push('\n');
        }
        text
    }

    /// Returns the file name and the text of a source.
    fn source(&self, number: usize) -> (&str, &str) {
        if number == OF_LIBRARY {
            return (LIBRARY_FILE, LIBRARY_SOURCE);
        }
        self.sources.get(number).map_or(("", ""), |source| (&source.file, &source.text))
    }

    /// Returns the text of a span.
    pub(crate) fn within(&self, span: Span, source: usize) -> &str {
        self.source(source).1.get(span.start..span.end).unwrap_or_default()
    }

    /// Returns `FILE:LINE:COLUMN: TEXT` for a span.
    pub(crate) fn place(&self, span: Span, source: usize) -> String {
        let text: Vec<&str> = self.within(span, source).split_whitespace().collect();
        let text = shortened(&text.join(" "));
        let (file, source) = self.source(source);
        format!("{}: {text}", position(file, source, span))
    }

    /// Calls `take` for each literal of the program and of the library functions that it uses.
    pub(crate) fn each_literal<'p>(&'p self, take: &mut dyn FnMut(&'p ParameterValue)) {
        let mut reached = vec![false; LIBRARY.functions.len()];
        let mut open: Vec<&Function> = self.functions.iter().collect();
        while let Some(function) = open.pop() {
            each_expression(&function.body, &mut |expr| match &expr.kind {
                Kind::Literal(value) => take(value),
                Kind::Resolved(Callee::Library(number), ..) => {
                    if let Some(seen) = reached.get_mut(*number).filter(|seen| !**seen) {
                        *seen = true;
                        open.extend(LIBRARY.functions.get(*number));
                    }
                }
                _ => {}
            });
        }
    }
}

fn position(file: &str, source: &str, span: Span) -> String {
    let (line, column) = line_and_column(source, span.start);
    format!("{file}:{line}:{column}")
}

/// Returns an error with its location and the text of the line.
fn located(file: &str, source: &str, span: Span, fault: &str) -> Error {
    let before = source.get(..span.start).unwrap_or_default();
    let start = before.rfind('\n').map_or(0, |at| at.saturating_add(1));
    let line = source.get(start..).unwrap_or_default().lines().next().unwrap_or_default().trim();
    let line = match line {
        "" => String::new(),
        line => format!(", in: {}", RawStr::from(&*shortened(line))),
    };
    Error::description(format!("{}: {fault}{line}", position(file, source, span)))
}

/// Calls `take` for every expression in the statements, including nested ones.
pub(crate) fn each_expression<'s>(body: &'s [Statement], take: &mut dyn FnMut(&'s Expr)) {
    for statement in body {
        match &statement.kind {
            StatementKind::Assign(_, value)
            | StatementKind::Return(value)
            | StatementKind::Call(value) => value.each(take),
            StatementKind::Assert(condition, _) => condition.each(take),
            StatementKind::If(branches, otherwise) => {
                for (condition, body) in branches {
                    condition.each(take);
                    each_expression(body, take);
                }
                each_expression(otherwise, take);
            }
            StatementKind::For(_, over, body) => {
                over.each(take);
                each_expression(body, take);
            }
        }
    }
}

impl Expr {
    /// Calls `take` for the expression and all nested ones.
    pub(crate) fn each<'e>(&'e self, take: &mut dyn FnMut(&'e Self)) {
        take(self);
        match &self.kind {
            Kind::Literal(_)
            | Kind::Name(_)
            | Kind::Local(_)
            | Kind::Hyperparameter(_)
            | Kind::Tensor(_)
            | Kind::Input(_) => {}
            Kind::BlockTensor(_, inner)
            | Kind::Suffix(inner, _)
            | Kind::Not(inner)
            | Kind::Negate(inner)
            | Kind::IsNone(inner) => inner.each(take),
            Kind::Index(parts) | Kind::Comprehension(_, parts) | Kind::Binary(_, parts) => {
                parts.iter().for_each(|part| part.each(take));
            }
            Kind::Conditional(parts) => parts.iter().for_each(|part| part.each(take)),
            Kind::Call(_, arguments, named) | Kind::Resolved(_, arguments, named) => {
                for part in arguments.iter().chain(named.iter().map(|(_, part)| part)) {
                    part.each(take);
                }
            }
            Kind::List(parts) => parts.iter().for_each(|part| part.each(take)),
        }
    }
}
