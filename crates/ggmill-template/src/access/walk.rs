//! The walk through a syntax tree, and how often its loops turn.

use minijinja::machinery::ast::{Call, CallArg, Expr, ForLoop, Stmt};

use super::fold::{Constant, Constants};

/// A part of the tree.
#[derive(Clone, Copy)]
pub(super) enum Node<'t, 's> {
    Statement(&'t Stmt<'s>),
    Expression(&'t Expr<'s>),
}

/// Visits every part, parents first; the tree can be deep, so nothing here calls itself.
pub(super) fn walk<'t, 's>(
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
pub(super) fn range_of(expression: &Expr<'_>, constants: &Constants) -> Option<i64> {
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

pub(super) fn turns_of(each: &ForLoop<'_>, constants: &Constants) -> u64 {
    range_of(&each.iter, constants).map_or(1, |turns| turns.unsigned_abs().max(1))
}
