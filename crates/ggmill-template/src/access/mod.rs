//! Static analysis of the attributes and templates that a template accesses. Nothing is run.

mod fold;

use std::collections::BTreeMap;

use minijinja::machinery::Token;
use minijinja::machinery::ast::{BinOpKind, Call, CallArg, Expr, Filter, ForLoop, Stmt};

use self::fold::{Constant, Constants, assignments, gather_macros};
use crate::error::ErrorKind;
use crate::source;

/// Maximum number of findings for one template.
const MAX_FINDINGS: usize = 32;
/// The limit of `range` in Jinja's sandbox.
const MAX_RANGE: i64 = 100_000;
/// Maximum iterations of nested loops, and maximum bytes of a text; far more than a chat needs.
const MAX_ITERATIONS: u64 = 10_000_000;
/// Maximum number of passes that propagate values from variable to variable.
const MAX_PASSES: usize = 4;

/// An access or an operation in a template that no chat format needs.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Access {
    /// An attribute that leads to the internals of the Python interpreter, by name.
    Internal(String),
    /// An attribute whose name is computed from unknown values.
    Computed,
    /// Another template, by the tag that loads it: `include`, `import` or `extends`.
    OtherTemplate(&'static str),
    /// A loop or a value of excessive size, described in words; or too many constants to determine
    /// which names they form.
    Excessive(String),
}

/// Attributes of Python's functions, frames and modules that chat templates do not use.
const INTERNAL_NAMES: &[&str] = &[
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
/// Modules with functions that run programs ([`RUNNERS`]).
const MODULES: &[&str] = &["os", "subprocess", "posix"];
const RUNNERS: &[&str] =
    &["system", "popen", "Popen", "getoutput", "check_output", "call", "run", "spawnl"];
/// Functions and objects that Jinja and web frameworks provide to every template.
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

fn is_internal(name: &str) -> bool {
    let dunder = name.len() > 4 && name.starts_with("__") && name.ends_with("__");
    dunder || INTERNAL_NAMES.contains(&name) || name.starts_with("_TemplateReference")
}

/// Returns the distinct accesses in a template, determined without running it: constant expressions
/// are folded. If the text does not parse, names are searched in its tokens, because another parser
/// can accept it.
///
/// ```
/// use ggmill_template::{Access, accesses};
/// let found = accesses("{{ messages['__cl' ~ 'ass__'] }}");
/// assert_eq!(found, [Access::Internal("__class__".to_owned())]);
/// assert!(accesses("{{ messages[0].content }}").is_empty());
/// ```
///
/// Returns nothing for a text that is too long or too deep to be parsed;
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

/// Returns the accesses of a parsed template.
fn examine(template: &Stmt<'_>) -> Vec<Access> {
    let mut constants = Constants::default();
    let mut macros = BTreeMap::new();
    for _ in 0..MAX_PASSES {
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
    walk(template, &constants, |node, iterations| {
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
                statement_accesses(statement, iterations, &constants, &mut add);
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
    iterations: u64,
    constants: &Constants,
    add: &mut impl FnMut(Access),
) {
    match statement {
        Stmt::Include(_) => add(Access::OtherTemplate("include")),
        Stmt::Import(_) | Stmt::FromImport(_) => add(Access::OtherTemplate("import")),
        Stmt::Extends(_) => add(Access::OtherTemplate("extends")),
        Stmt::ForLoop(each) => {
            let all = iterations.saturating_mul(iterations_of(each, constants));
            if all > MAX_ITERATIONS {
                add(Access::Excessive(format!("loops with {all} iterations")));
            }
        }
        _ => {}
    }
}

fn expression_accesses(expression: &Expr<'_>, constants: &Constants, add: &mut impl FnMut(Access)) {
    match expression {
        Expr::Var(variable) if is_internal(variable.id) => {
            add(Access::Internal(variable.id.to_owned()));
        }
        Expr::GetAttr(access) if is_internal(access.name) => {
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
                .filter(|name| is_internal(name))
                .for_each(|name| add(Access::Internal(name.to_owned())));
            if names.is_empty() && is_composed(&access.subscript_expr) && !is_data(&access.expr) {
                add(Access::Computed);
            }
        }
        Expr::Filter(filter) => filter_accesses(filter, constants, add),
        Expr::Call(call) => {
            if let Some(count) = range_of(expression, constants).filter(|&count| count > MAX_RANGE)
            {
                add(Access::Excessive(format!("a range of {count} numbers")));
            }
            // Fields of a format string can access attributes.
            if let Expr::GetAttr(method) = &call.expr
                && matches!(method.name, "format" | "format_map")
            {
                for text in constants.values(&method.expr).iter().filter_map(Constant::text) {
                    let fields = text.split('{').skip(1).filter_map(|part| part.split('}').next());
                    let names =
                        fields.flat_map(|field| field.split(['.', '[', ']', '!', ':']).skip(1));
                    names
                        .filter(|name| is_internal(name))
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
                .filter(|name| is_internal(name))
                .for_each(|name| add(Access::Internal(name.to_owned())));
        }
        if filter.name == "attr" && values.is_empty() {
            add(Access::Computed);
        }
    }
}

/// Returns the last name of an expression: a variable, an attribute or an item.
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

/// Returns `true` if an expression builds a text.
fn is_composed(expression: &Expr<'_>) -> bool {
    match expression {
        Expr::BinOp(operation) => matches!(operation.op, BinOpKind::Concat),
        Expr::Filter(filter) => matches!(filter.name, "join" | "reverse" | "replace" | "format"),
        _ => false,
    }
}

/// Returns `true` if a value comes from the variables of the conversation.
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

/// Returns the internal names in the tokens of a template that does not parse; another parser can
/// accept it.
fn names_in(template: &str) -> Vec<Access> {
    let mut found = Vec::new();
    let mut add = |name: &str| {
        let access = Access::Internal(name.to_owned());
        if is_internal(name) && found.len() < MAX_FINDINGS && !found.contains(&access) {
            found.push(access);
        }
    };
    let mut literal = String::new();
    for (token, _) in source::tokens(template) {
        match token {
            Token::Ident(name) => add(name),
            // Adjacent pieces are one text.
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

/// A node of the syntax tree.
#[derive(Clone, Copy)]
enum Node<'t, 's> {
    Statement(&'t Stmt<'s>),
    Expression(&'t Expr<'s>),
}

/// Visits every node, parents first, with the number of iterations of the loops around it. Not
/// recursive, because the tree can be deep.
fn walk<'t, 's>(
    template: &'t Stmt<'s>,
    constants: &Constants,
    mut visit: impl FnMut(Node<'t, 's>, u64),
) {
    let mut work = vec![(Node::Statement(template), 1u64)];
    let mut children = Vec::new();
    while let Some((node, iterations)) = work.pop() {
        visit(node, iterations);
        children.clear();
        children_of(node, &mut children);
        let inner = match node {
            Node::Statement(Stmt::ForLoop(each)) => {
                iterations.saturating_mul(iterations_of(each, constants))
            }
            _ => iterations,
        };
        work.extend(children.drain(..).map(|child| (child, inner)));
    }
}

fn children_of<'t, 's>(node: Node<'t, 's>, out: &mut Vec<Node<'t, 's>>) {
    use Node::{Expression, Statement};
    let arguments = |arguments: &'t [CallArg<'s>], out: &mut Vec<Node<'t, 's>>| {
        out.extend(arguments.iter().map(|argument| match argument {
            CallArg::Pos(value)
            | CallArg::Kwarg(_, value)
            | CallArg::PosSplat(value)
            | CallArg::KwargSplat(value) => Expression(value),
        }));
    };
    let call = |call: &'t Call<'s>, out: &mut Vec<Node<'t, 's>>| {
        out.push(Expression(&call.expr));
        arguments(&call.args, out);
    };
    match node {
        Statement(statement) => match statement {
            Stmt::Template(template) => out.extend(template.children.iter().map(Statement)),
            Stmt::EmitExpr(emit) => out.push(Expression(&emit.expr)),
            Stmt::ForLoop(each) => {
                out.extend([Expression(&each.target), Expression(&each.iter)]);
                out.extend(each.filter_expr.iter().map(Expression));
                out.extend(each.body.iter().chain(&each.else_body).map(Statement));
            }
            Stmt::IfCond(condition) => {
                out.push(Expression(&condition.expr));
                out.extend(condition.true_body.iter().chain(&condition.false_body).map(Statement));
            }
            Stmt::WithBlock(with) => {
                out.extend(
                    with.assignments
                        .iter()
                        .flat_map(|(target, value)| [Expression(target), Expression(value)]),
                );
                out.extend(with.body.iter().map(Statement));
            }
            // Targets of assignments are not read: `ns.x` to the left of `=` is a name.
            Stmt::Set(set) => out.push(Expression(&set.expr)),
            Stmt::SetBlock(set) => {
                out.extend(set.filter.iter().map(Expression));
                out.extend(set.body.iter().map(Statement));
            }
            Stmt::AutoEscape(escape) => {
                out.push(Expression(&escape.enabled));
                out.extend(escape.body.iter().map(Statement));
            }
            Stmt::FilterBlock(filter) => {
                out.push(Expression(&filter.filter));
                out.extend(filter.body.iter().map(Statement));
            }
            Stmt::Block(block) => out.extend(block.body.iter().map(Statement)),
            Stmt::Import(import) => out.push(Expression(&import.expr)),
            Stmt::FromImport(import) => out.push(Expression(&import.expr)),
            Stmt::Extends(extends) => out.push(Expression(&extends.name)),
            Stmt::Include(include) => out.push(Expression(&include.name)),
            Stmt::Macro(declared) => {
                out.extend(declared.defaults.iter().map(Expression));
                out.extend(declared.body.iter().map(Statement));
            }
            Stmt::CallBlock(block) => {
                call(&block.call, out);
                out.extend(block.macro_decl.body.iter().map(Statement));
            }
            Stmt::Do(perform) => call(&perform.call, out),
            Stmt::EmitRaw(_) | Stmt::Continue(_) | Stmt::Break(_) => {}
        },
        Expression(expression) => match expression {
            Expr::Var(_) | Expr::Const(_) => {}
            Expr::Slice(slice) => {
                out.push(Expression(&slice.expr));
                out.extend(
                    [&slice.start, &slice.stop, &slice.step].into_iter().flatten().map(Expression),
                );
            }
            Expr::UnaryOp(operation) => out.push(Expression(&operation.expr)),
            Expr::BinOp(operation) => {
                out.extend([Expression(&operation.left), Expression(&operation.right)]);
            }
            Expr::Compare(comparison) => {
                out.push(Expression(&comparison.expr));
                out.extend(comparison.ops.iter().map(|operand| Expression(&operand.expr)));
            }
            Expr::IfExpr(choice) => {
                out.extend([Expression(&choice.test_expr), Expression(&choice.true_expr)]);
                out.extend(choice.false_expr.iter().map(Expression));
            }
            Expr::Filter(filter) => {
                out.extend(filter.expr.iter().map(Expression));
                arguments(&filter.args, out);
            }
            Expr::Test(test) => {
                out.push(Expression(&test.expr));
                arguments(&test.args, out);
            }
            Expr::GetAttr(access) => out.push(Expression(&access.expr)),
            Expr::GetItem(access) => {
                out.extend([Expression(&access.expr), Expression(&access.subscript_expr)]);
            }
            Expr::Call(called) => call(called, out),
            Expr::List(list) => out.extend(list.items.iter().map(Expression)),
            Expr::Map(map) => out.extend(map.keys.iter().chain(&map.values).map(Expression)),
        },
    }
}

/// Returns the length of `range(…)`, if it is known.
fn range_of(expression: &Expr<'_>, constants: &Constants) -> Option<i64> {
    let Expr::Call(call) = expression else { return None };
    if !matches!(&call.expr, Expr::Var(function) if function.id == "range") {
        return None;
    }
    let mut bounds = call.args.iter().map(|argument| match argument {
        CallArg::Pos(value) => constants.values(value).iter().filter_map(Constant::number).max(),
        _ => None,
    });
    let (first, second, stride) = (bounds.next()??, bounds.next(), bounds.next());
    let (start, end) = match second {
        Some(end) => (first, end?),
        None => (0, first),
    };
    let stride = stride.map_or(Some(1), |stride| stride.filter(|&stride| stride != 0))?;
    end.checked_sub(start)?.checked_div(stride).map(|count| count.max(0))
}

fn iterations_of(each: &ForLoop<'_>, constants: &Constants) -> u64 {
    range_of(&each.iter, constants).map_or(1, |iterations| iterations.unsigned_abs().max(1))
}
