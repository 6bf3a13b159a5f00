//! The attributes and templates that a template accesses, by its syntax tree: nothing is run.

mod assignments;
mod fold;
mod walk;

use std::collections::BTreeMap;

use assignments::{assignments, gather_macros};
use fold::{Constant, Constants};
use minijinja::machinery::Token;
use minijinja::machinery::ast::{BinOpKind, CallArg, Expr, Filter, Stmt};
use walk::{Node, range_of, turns_of, walk};

use crate::error::ErrorKind;
use crate::source;

/// Findings reported for one template.
const MAX_FINDINGS: usize = 32;
/// The limit of `range` in a sandboxed Jinja.
const MAX_RANGE: i64 = 100_000;
/// Turns of nested loops beyond any chat, and bytes of a text beyond any prompt.
const MAX_ITERATIONS: u64 = 10_000_000;
/// Passes in which variables are followed from one to the next.
const PASSES: usize = 4;

/// Something that a template accesses or does, and that no chat format needs.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Access {
    /// An attribute that leads from a value to the internals of the interpreter, by its name.
    Internal(String),
    /// An attribute whose name is computed from values that are not known.
    Computed,
    /// Another template, by the tag that loads it: `include`, `import` or `extends`.
    OtherTemplate(&'static str),
    /// A loop or a value of excessive size, in a few words; or so many constants that what names
    /// are made of them is not known.
    Excessive(String),
}

/// Attributes of Python's functions, frames and modules that are not words of a chat.
const INSIDES: &[&str] = &[
    "mro",
    "f_globals",
    "f_builtins",
    "f_locals",
    "f_back",
    "f_code",
    "gi_frame",
    "gi_code",
    "gi_yieldfrom",
    "cr_frame",
    "cr_code",
    "cr_await",
    "ag_frame",
    "ag_code",
    "tb_frame",
    "tb_next",
    "func_globals",
    "func_code",
    "im_func",
    "im_self",
];
/// Functions of these modules that run programs.
const MODULES: &[&str] = &["os", "subprocess", "posix"];
const RUNNERS: &[&str] =
    &["system", "popen", "Popen", "getoutput", "check_output", "call", "run", "spawnl"];
/// The functions that Jinja and its programs give every template.
const GLOBALS: &[&str] = &[
    "self",
    "cycler",
    "joiner",
    "lipsum",
    "namespace",
    "range",
    "dict",
    "caller",
    "request",
    "config",
    "url_for",
    "get_flashed_messages",
];

fn is_inside(name: &str) -> bool {
    let dunder = name.len() > 4 && name.starts_with("__") && name.ends_with("__");
    dunder || INSIDES.contains(&name) || name.starts_with("_TemplateReference")
}

/// The accesses in a template, each listed once, determined without running it: expressions of
/// constants are folded. In a text that does not parse, names are looked for; another parser may
/// read it.
///
/// ```
/// use ggmill_template::{Access, accesses};
/// let found = accesses("{{ messages['__cl' ~ 'ass__'] }}");
/// assert_eq!(found, [Access::Internal("__class__".to_owned())]);
/// assert!(accesses("{{ messages[0].content }}").is_empty());
/// ```
///
/// A text that is too long to be parsed, or too deep, gives nothing;
/// [`Template::parse`](crate::Template::parse) reports it.
pub fn accesses(text: &str) -> Vec<Access> {
    match source::prepare(text) {
        Ok(plain) => {
            source::parsed(&plain).map_or_else(|_| names_in(&plain), |tree| examine(&tree))
        }
        Err(error) if error.kind() == ErrorKind::Limit => Vec::new(),
        Err(_) => names_in(text),
    }
}

/// The accesses of a template that parses.
fn examine(template: &Stmt<'_>) -> Vec<Access> {
    let mut constants = Constants::default();
    let mut macros = BTreeMap::new();
    for _ in 0..PASSES {
        let mut changed = false;
        walk(template, &constants, |node, _| gather_macros(node, &mut macros));
        let mut assigned = Vec::new();
        walk(template, &constants, |node, _| assignments(node, &constants, &macros, &mut assigned));
        for (variable, values) in assigned {
            changed |= constants.assign(variable, values);
        }
        if !changed {
            break;
        }
    }
    let mut found = Vec::new();
    walk(template, &constants, |node, turns| {
        if found.len() >= MAX_FINDINGS {
            return;
        }
        let mut add = |access: Access| {
            if !found.contains(&access) {
                found.push(access);
            }
        };
        match node {
            Node::Statement(statement) => {
                statement_accesses(statement, turns, &constants, &mut add);
            }
            Node::Expression(expression) => expression_accesses(expression, &constants, &mut add),
        }
    });
    if constants.is_exhausted() && found.len() < MAX_FINDINGS {
        found.push(Access::Excessive("too many constants to analyze".to_owned()));
    }
    found
}

fn statement_accesses(
    statement: &Stmt<'_>,
    turns: u64,
    constants: &Constants,
    add: &mut impl FnMut(Access),
) {
    match statement {
        Stmt::Include(_) => add(Access::OtherTemplate("include")),
        Stmt::Import(_) | Stmt::FromImport(_) => add(Access::OtherTemplate("import")),
        Stmt::Extends(_) => add(Access::OtherTemplate("extends")),
        Stmt::ForLoop(each) => {
            let all = turns.saturating_mul(turns_of(each, constants));
            if all > MAX_ITERATIONS {
                add(Access::Excessive(format!("loops with {all} iterations")));
            }
        }
        _ => {}
    }
}

fn expression_accesses(expression: &Expr<'_>, constants: &Constants, add: &mut impl FnMut(Access)) {
    match expression {
        Expr::Var(variable) if is_inside(variable.id) => {
            add(Access::Internal(variable.id.to_owned()));
        }
        Expr::GetAttr(access) if is_inside(access.name) => {
            add(Access::Internal(access.name.to_owned()));
        }
        Expr::GetAttr(access) if RUNNERS.contains(&access.name) => {
            if let Some(module) =
                last_name(&access.expr, constants).filter(|name| MODULES.contains(&name.as_str()))
            {
                add(Access::Internal(format!("{module}.{}", access.name)));
            }
        }
        Expr::GetItem(access) => {
            let names = constants.values(&access.subscript_expr);
            names
                .iter()
                .filter_map(Constant::text)
                .filter(|name| is_inside(name))
                .for_each(|name| add(Access::Internal(name.to_owned())));
            if names.is_empty() && is_built(&access.subscript_expr) && !is_data(&access.expr) {
                add(Access::Computed);
            }
        }
        Expr::Filter(filter) => filter_accesses(filter, constants, add),
        Expr::Call(call) => {
            if let Some(count) = range_of(expression, constants).filter(|&count| count > MAX_RANGE)
            {
                add(Access::Excessive(format!("a range of {count} numbers")));
            }
            // Fields of a text that is filled in can have attributes of their own.
            if let Expr::GetAttr(method) = &call.expr
                && matches!(method.name, "format" | "format_map")
            {
                for text in constants.values(&method.expr).iter().filter_map(Constant::text) {
                    let fields = text.split('{').skip(1).filter_map(|part| part.split('}').next());
                    let names =
                        fields.flat_map(|field| field.split(['.', '[', ']', '!', ':']).skip(1));
                    names
                        .filter(|name| is_inside(name))
                        .for_each(|name| add(Access::Internal(name.to_owned())));
                }
            }
        }
        Expr::BinOp(operation) if matches!(operation.op, BinOpKind::Mul) => {
            let (left, right) =
                (constants.values(&operation.left), constants.values(&operation.right));
            let texts = left
                .iter()
                .chain(&right)
                .filter_map(|value| {
                    value.text().map(str::len).or(if let Constant::List(list) = value {
                        Some(list.len())
                    } else {
                        None
                    })
                })
                .max();
            let times = left
                .iter()
                .chain(&right)
                .filter_map(Constant::number)
                .max()
                .and_then(|times| u64::try_from(times).ok());
            if let Some(len) = texts
                .zip(times)
                .map(|(len, times)| (len as u64).saturating_mul(times))
                .filter(|&len| len > MAX_ITERATIONS)
            {
                add(Access::Excessive(format!("a value repeated to {len} parts")));
            }
        }
        _ => {}
    }
}

fn filter_accesses(filter: &Filter<'_>, constants: &Constants, add: &mut impl FnMut(Access)) {
    if !matches!(
        filter.name,
        "attr"
            | "map"
            | "selectattr"
            | "rejectattr"
            | "groupby"
            | "sort"
            | "unique"
            | "sum"
            | "min"
            | "max"
    ) {
        return;
    }
    for argument in &filter.args {
        let (CallArg::Pos(value) | CallArg::Kwarg(_, value)) = argument else { continue };
        let values = constants.values(value);
        for path in values.iter().filter_map(Constant::text) {
            path.split('.')
                .filter(|name| is_inside(name))
                .for_each(|name| add(Access::Internal(name.to_owned())));
        }
        if filter.name == "attr" && values.is_empty() {
            add(Access::Computed);
        }
    }
}

/// The name of the variable, attribute or item that an expression ends in.
fn last_name(expression: &Expr<'_>, constants: &Constants) -> Option<String> {
    match expression {
        Expr::Var(variable) => Some(variable.id.to_owned()),
        Expr::GetAttr(access) => Some(access.name.to_owned()),
        Expr::GetItem(access) => {
            constants.values(&access.subscript_expr).first()?.text().map(str::to_owned)
        }
        _ => None,
    }
}

/// Whether a text is put together.
fn is_built(expression: &Expr<'_>) -> bool {
    match expression {
        Expr::BinOp(operation) => matches!(operation.op, BinOpKind::Concat),
        Expr::Filter(filter) => matches!(filter.name, "join" | "reverse" | "replace" | "format"),
        _ => false,
    }
}

/// Whether a value comes from the messages and tools that a template is given.
fn is_data(mut expression: &Expr<'_>) -> bool {
    loop {
        expression = match expression {
            Expr::GetAttr(access) => &access.expr,
            Expr::GetItem(access) => &access.expr,
            Expr::Call(call) => &call.expr,
            Expr::Slice(slice) => &slice.expr,
            Expr::Filter(filter) => match &filter.expr {
                Some(value) => value,
                None => return false,
            },
            Expr::Var(variable) => return !GLOBALS.contains(&variable.id),
            _ => return false,
        }
    }
}

/// The names in a template that does not parse, as far as they can be found in its text:
/// another parser may read it.
fn names_in(template: &str) -> Vec<Access> {
    let mut found = Vec::new();
    let mut add = |name: &str| {
        let access = Access::Internal(name.to_owned());
        if is_inside(name) && found.len() < MAX_FINDINGS && !found.contains(&access) {
            found.push(access);
        }
    };
    let mut literal = String::new();
    for (token, _) in source::tokens(template) {
        match token {
            Token::Ident(name) => add(name),
            // Pieces side by side are one text.
            Token::Str(text) => literal.push_str(text),
            Token::String(text) => literal.push_str(&text),
            Token::Plus | Token::Tilde => {}
            Token::BracketClose | Token::ParenClose => {
                add(&literal);
                literal.clear();
            }
            _ => literal.clear(),
        }
    }
    found
}
