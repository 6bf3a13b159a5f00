//! The attributes and templates that a template accesses, by its syntax tree: nothing is run.

use std::collections::BTreeMap;

use minijinja::machinery::ast::{BinOpKind, Call, CallArg, Expr, Filter, ForLoop, Macro, Stmt};
use minijinja::machinery::{Token, WhitespaceConfig, tokenize};
use minijinja::syntax::SyntaxConfig;

use super::fold::{Constant, Constants};

/// Findings reported for one template.
const MAX_FINDINGS: usize = 32;
/// The limit of `range` in a sandboxed Jinja.
const MAX_RANGE: i64 = 100_000;
/// Turns of nested loops beyond any chat, and bytes of a text beyond any prompt.
const MAX_ITERATIONS: u64 = 10_000_000;
/// Passes in which variables are followed from one to the next.
const PASSES: usize = 4;

/// Something no chat format needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Reach {
    /// An attribute that leads from a value to the interpreter that holds it.
    Inside(String),
    /// An attribute whose name is put together from what is not known.
    Computed,
    /// Another template.
    Other(&'static str),
    /// Work without end.
    Endless(String),
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

/// A part of the tree, and how often the loops around it turn.
#[derive(Clone, Copy)]
enum Node<'t, 's> {
    Statement(&'t Stmt<'s>),
    Expression(&'t Expr<'s>),
}

/// The accesses of a template that parses, each once.
pub(super) fn examine(template: &Stmt<'_>) -> Vec<Reach> {
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
        let mut add = |reach: Reach| {
            if !found.contains(&reach) {
                found.push(reach);
            }
        };
        match node {
            Node::Statement(statement) => statement_reaches(statement, turns, &constants, &mut add),
            Node::Expression(expression) => expression_reaches(expression, &constants, &mut add),
        }
    });
    found
}

/// Visits every part, parents first; the tree can be deep, so nothing here calls itself.
fn walk<'t, 's>(
    template: &'t Stmt<'s>,
    constants: &Constants,
    mut visit: impl FnMut(Node<'t, 's>, u64),
) {
    let mut work = vec![(Node::Statement(template), 1u64)];
    let mut children = Vec::new();
    while let Some((node, turns)) = work.pop() {
        visit(node, turns);
        children.clear();
        children_of(node, &mut children);
        let inner = match node {
            Node::Statement(Stmt::ForLoop(each)) => turns.saturating_mul(turns_of(each, constants)),
            _ => turns,
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
            // What is set is not read: `ns.x` to the left of `=` is a name.
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

/// How many numbers `range(…)` has, where they are known.
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

fn turns_of(each: &ForLoop<'_>, constants: &Constants) -> u64 {
    range_of(&each.iter, constants).map_or(1, |turns| turns.unsigned_abs().max(1))
}

type Macros<'t> = BTreeMap<&'t str, Vec<&'t str>>;

/// The macros with the names of their arguments.
fn gather_macros<'t>(node: Node<'t, '_>, macros: &mut Macros<'t>) {
    if let Node::Statement(Stmt::Macro(declared)) = node {
        macros.insert(declared.name, parameters(declared));
    }
}

fn parameters<'t>(declared: &'t Macro<'_>) -> Vec<&'t str> {
    declared
        .args
        .iter()
        .filter_map(
            |argument| if let Expr::Var(variable) = argument { Some(variable.id) } else { None },
        )
        .collect()
}

/// Every value that a variable is given and that is known, whatever the way to it.
fn assignments(
    node: Node<'_, '_>,
    constants: &Constants,
    macros: &Macros<'_>,
    out: &mut Vec<(String, Vec<Constant>)>,
) {
    let mut assign = |target: &Expr<'_>, value: &Expr<'_>| {
        let variable = match target {
            Expr::Var(variable) => variable.id.to_owned(),
            Expr::GetAttr(access) => match &access.expr {
                Expr::Var(variable) => format!("{}.{}", variable.id, access.name),
                _ => return,
            },
            Expr::List(targets) => {
                if let Expr::List(values) = value {
                    let names = targets.items.iter().zip(&values.items);
                    out.extend(names.filter_map(|(target, value)| {
                        if let Expr::Var(variable) = target {
                            Some((variable.id.to_owned(), constants.values(value)))
                        } else {
                            None
                        }
                    }));
                }
                return;
            }
            _ => return,
        };
        match value {
            // What is read from it as attributes again.
            Expr::Call(call) if matches!(&call.expr, Expr::Var(function) if matches!(function.id, "namespace" | "dict")) =>
            {
                out.extend(call.args.iter().filter_map(|argument| match argument {
                    CallArg::Kwarg(name, value) => {
                        Some((format!("{variable}.{name}"), constants.values(value)))
                    }
                    _ => None,
                }));
            }
            Expr::Map(map) => {
                let pairs = map.keys.iter().zip(&map.values);
                out.extend(pairs.filter_map(|(key, value)| {
                    Some((
                        format!("{variable}.{}", constants.values(key).first()?.text()?),
                        constants.values(value),
                    ))
                }));
            }
            value => out.push((variable, constants.values(value))),
        }
    };
    match node {
        Node::Statement(Stmt::Set(set)) => assign(&set.target, &set.expr),
        Node::Statement(Stmt::WithBlock(with)) => {
            with.assignments.iter().for_each(|(target, value)| assign(target, value));
        }
        Node::Statement(Stmt::SetBlock(set)) => {
            if let (Expr::Var(variable), Some(text)) =
                (&set.target, body_text(&set.body, constants))
            {
                out.push((variable.id.to_owned(), vec![Constant::Text(text)]));
            }
        }
        Node::Statement(Stmt::ForLoop(each)) => {
            if let Expr::Var(variable) = &each.target {
                let lists = constants.values(&each.iter);
                let elements = lists.iter().filter_map(|list| {
                    if let Constant::List(elements) = list { Some(elements.clone()) } else { None }
                });
                out.push((variable.id.to_owned(), elements.flatten().collect()));
            }
        }
        Node::Statement(Stmt::Macro(declared)) => {
            let parameters = parameters(declared);
            let defaulted = parameters.iter().rev().zip(declared.defaults.iter().rev());
            out.extend(
                defaulted.map(|(name, value)| ((*name).to_owned(), constants.values(value))),
            );
        }
        Node::Expression(Expr::Call(call)) => {
            if let Expr::Var(function) = &call.expr
                && let Some(parameters) = macros.get(function.id)
            {
                out.extend(call.args.iter().enumerate().filter_map(|(place, argument)| {
                    match argument {
                        CallArg::Pos(value) => {
                            Some(((*parameters.get(place)?).to_owned(), constants.values(value)))
                        }
                        CallArg::Kwarg(name, value) => {
                            Some(((*name).to_owned(), constants.values(value)))
                        }
                        _ => None,
                    }
                }));
            }
        }
        _ => {}
    }
}

/// The text that a block writes, where all of it is known.
fn body_text(body: &[Stmt<'_>], constants: &Constants) -> Option<String> {
    body.iter().try_fold(String::new(), |text, statement| match statement {
        Stmt::EmitRaw(raw) => Some(text + raw.raw),
        Stmt::EmitExpr(emit) => Some(text + constants.values(&emit.expr).first()?.text()?),
        _ => None,
    })
}

fn statement_reaches(
    statement: &Stmt<'_>,
    turns: u64,
    constants: &Constants,
    add: &mut impl FnMut(Reach),
) {
    match statement {
        Stmt::Include(_) => add(Reach::Other("include")),
        Stmt::Import(_) | Stmt::FromImport(_) => add(Reach::Other("import")),
        Stmt::Extends(_) => add(Reach::Other("extends")),
        Stmt::ForLoop(each) => {
            let all = turns.saturating_mul(turns_of(each, constants));
            if all > MAX_ITERATIONS {
                add(Reach::Endless(format!("loops with {all} iterations")));
            }
        }
        _ => {}
    }
}

fn expression_reaches(expression: &Expr<'_>, constants: &Constants, add: &mut impl FnMut(Reach)) {
    match expression {
        Expr::Var(variable) if is_inside(variable.id) => add(Reach::Inside(variable.id.to_owned())),
        Expr::GetAttr(access) if is_inside(access.name) => {
            add(Reach::Inside(access.name.to_owned()));
        }
        Expr::GetAttr(access) if RUNNERS.contains(&access.name) => {
            if let Some(module) =
                last_name(&access.expr, constants).filter(|name| MODULES.contains(&name.as_str()))
            {
                add(Reach::Inside(format!("{module}.{}", access.name)));
            }
        }
        Expr::GetItem(access) => {
            let names = constants.values(&access.subscript_expr);
            names
                .iter()
                .filter_map(Constant::text)
                .filter(|name| is_inside(name))
                .for_each(|name| add(Reach::Inside(name.to_owned())));
            if names.is_empty() && is_built(&access.subscript_expr) && !is_data(&access.expr) {
                add(Reach::Computed);
            }
        }
        Expr::Filter(filter) => filter_reaches(filter, constants, add),
        Expr::Call(call) => {
            if let Some(count) = range_of(expression, constants).filter(|&count| count > MAX_RANGE)
            {
                add(Reach::Endless(format!("a range of {count} numbers")));
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
                        .for_each(|name| add(Reach::Inside(name.to_owned())));
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
                add(Reach::Endless(format!("a value repeated to {len} parts")));
            }
        }
        _ => {}
    }
}

fn filter_reaches(filter: &Filter<'_>, constants: &Constants, add: &mut impl FnMut(Reach)) {
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
                .for_each(|name| add(Reach::Inside(name.to_owned())));
        }
        if filter.name == "attr" && values.is_empty() {
            add(Reach::Computed);
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

/// Whether a template is simple enough for a parser that calls itself for each part of an
/// expression: no real one comes near.
pub(super) fn is_simple(template: &str) -> bool {
    const MAX_TOKENS: u32 = 1000;
    const MAX_BRANCHES: u32 = 400;
    let (mut tokens, mut branches) = (0, 0);
    for token in tokenize(template, false, SyntaxConfig, WhitespaceConfig::default()) {
        // The parser stops there too.
        let Ok((token, _)) = token else { break };
        match token {
            Token::VariableStart | Token::BlockStart => tokens = 0,
            Token::Ident("elif") => branches += 1,
            _ => tokens += 1,
        }
        if tokens > MAX_TOKENS || branches > MAX_BRANCHES {
            return false;
        }
    }
    true
}

/// The names in a template that does not parse, as far as they can be found in its text:
/// another parser may read it.
pub(super) fn names_in(template: &str) -> Vec<Reach> {
    let mut found = Vec::new();
    let mut add = |name: &str| {
        let reach = Reach::Inside(name.to_owned());
        if is_inside(name) && found.len() < MAX_FINDINGS && !found.contains(&reach) {
            found.push(reach);
        }
    };
    let mut literal = String::new();
    for token in tokenize(template, false, SyntaxConfig, WhitespaceConfig::default()) {
        let Ok((token, _)) = token else { break };
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
