//! The values that variables of a template are given, where they are known.

use std::collections::BTreeMap;

use minijinja::machinery::ast::{CallArg, Expr, Macro, Stmt};

use super::fold::{Constant, Constants};
use super::walk::Node;

pub(super) type Macros<'t> = BTreeMap<&'t str, Vec<&'t str>>;

/// The macros with the names of their arguments.
pub(super) fn gather_macros<'t>(node: Node<'t, '_>, macros: &mut Macros<'t>) {
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
pub(super) fn assignments(
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
