//! Expressions.

use std::rc::Rc;

use minijinja::machinery::Span;
use minijinja::machinery::ast::{
    BinOp, BinOpKind, CompareOpKind, Const, Expr, Filter, List, Map, UnaryOpKind,
};

use super::ops::{self, Sign};
use super::{Run, Scope};
use crate::builtins::{apply_filter, apply_test, function};
use crate::error::{Error, Result};
use crate::literal;
use crate::value::{SeqKind, Value, clipped, hashable};

impl<'t> Run<'t> {
    pub(super) fn eval(&mut self, expr: &'t Expr<'t>, scope: &Rc<Scope<'t>>) -> Result<Value> {
        self.enter()?;
        let value = match expr {
            Expr::Var(variable) => self.variable(variable.id, scope),
            Expr::Const(value) => self.constant(value, value.span()),
            Expr::BinOp(op) => self.binary(op, scope),
            Expr::GetAttr(node) => {
                let object = self.eval(&node.expr, scope)?;
                self.attribute(&object, node.name)
            }
            Expr::GetItem(node) => {
                let object = self.eval(&node.expr, scope)?;
                let key = self.eval(&node.subscript_expr, scope)?;
                self.item(&object, &key)
            }
            Expr::Call(call) => {
                let callee = self.eval(&call.expr, scope)?;
                let args = self.args(&call.args, scope)?;
                self.call(&callee, args)
            }
            Expr::Filter(filter) => self.filter(filter, None, scope),
            Expr::Test(test) => {
                let value = self.eval(&test.expr, scope)?;
                let args = self.args(&test.args, scope)?;
                Ok(Value::Bool(apply_test(test.name, &value, &args, self)?))
            }
            Expr::UnaryOp(op) => {
                let value = self.eval(&op.expr, scope)?;
                match op.op {
                    UnaryOpKind::Not => Ok(Value::Bool(!value.is_true())),
                    UnaryOpKind::Neg => ops::negate(&value),
                }
            }
            Expr::IfExpr(choice) => {
                if self.eval(&choice.test_expr, scope)?.is_true() {
                    self.eval(&choice.true_expr, scope)
                } else if let Some(other) = &choice.false_expr {
                    self.eval(other, scope)
                } else {
                    Value::undefined(
                        "the inline if-expression evaluated to false and no else section was \
                         defined",
                        &self.meter,
                    )
                }
            }
            Expr::Compare(chain) => self.compare(chain, scope),
            Expr::List(list) => self.list(list, list.span(), scope),
            Expr::Map(map) => self.map(map, scope),
            Expr::Slice(slice) => {
                let object = self.eval(&slice.expr, scope)?;
                let mut bounds = [None, None, None];
                for (bound, expr) in bounds.iter_mut().zip([&slice.start, &slice.stop, &slice.step])
                {
                    if let Some(expr) = expr {
                        *bound = ops::index(&self.eval(expr, scope)?)?;
                    }
                }
                self.slice(&object, bounds)
            }
        }?;
        self.leave();
        Ok(value)
    }

    /// An expression that assignments have, outside of the tree's life.
    pub(super) fn eval_plain(&mut self, expr: &Expr<'t>, scope: &Rc<Scope<'t>>) -> Result<Value> {
        match expr {
            Expr::Var(variable) => self.variable(variable.id, scope),
            Expr::GetAttr(node) => {
                self.enter()?;
                let object = self.eval_plain(&node.expr, scope)?;
                self.leave();
                self.attribute(&object, node.name)
            }
            _ => Err(Error::unsupported("cannot assign to this")),
        }
    }

    fn variable(&mut self, name: &str, scope: &Rc<Scope<'t>>) -> Result<Value> {
        if let Some(value) = scope.get(name) {
            return Ok(value);
        }
        if let Some((_, value)) = self.context.iter().find(|(known, _)| known == name) {
            return Ok(value.clone());
        }
        if let Some(function) = function(name) {
            return Ok(Value::Function(function));
        }
        if !self.missing.contains(name) && self.missing.len() < 64 {
            self.missing.insert(name.to_owned());
        }
        Value::undefined(format!("'{}' is undefined", clipped(name)), &self.meter)
    }

    fn constant(&mut self, constant: &Const, span: Span) -> Result<Value> {
        let value = &constant.value;
        if let Some(text) = value.as_str() {
            let range = span.start_offset as usize..span.end_offset as usize;
            let source = self.source.get(range).unwrap_or_default();
            // Python has other escapes than the parser.
            if source.contains('\\')
                && let Some(text) = literal::python_text(source)
            {
                return Ok(Value::Text(self.literal(&text)?));
            }
            return Ok(Value::Text(self.literal(text)?));
        }
        if value.is_none() {
            return Ok(Value::None);
        }
        if value.is_integer() {
            let value = i128::try_from(value.clone());
            return value.map(Value::Int).map_err(|_| Error::value("the integer is too large"));
        }
        if value.is_number() {
            let value = f64::try_from(value.clone());
            return value.map(Value::Float).map_err(|_| Error::value("not a number"));
        }
        Ok(Value::Bool(value.is_true()))
    }

    /// A chain of operators is a tree that is deep on its left, so it is walked there.
    fn binary(&mut self, op: &'t BinOp<'t>, scope: &Rc<Scope<'t>>) -> Result<Value> {
        let mut chain = vec![op];
        let mut left = &op.left;
        while let Expr::BinOp(inner) = left {
            chain.push(inner);
            left = &inner.left;
        }
        let mut value = self.eval(left, scope)?;
        for op in chain.into_iter().rev() {
            self.meter.spend(1)?;
            value = match op.op {
                BinOpKind::ScAnd => {
                    if !value.is_true() {
                        continue;
                    }
                    self.eval(&op.right, scope)?
                }
                BinOpKind::ScOr => {
                    if value.is_true() {
                        continue;
                    }
                    self.eval(&op.right, scope)?
                }
                _ => {
                    let right = self.eval(&op.right, scope)?;
                    self.operate(op.op, &value, &right)?
                }
            };
        }
        Ok(value)
    }

    fn operate(&mut self, op: BinOpKind, left: &Value, right: &Value) -> Result<Value> {
        let meter = &self.meter;
        match op {
            BinOpKind::Eq => Ok(Value::Bool(ops::compare(Sign::Eq, left, right, meter)?)),
            BinOpKind::Ne => Ok(Value::Bool(ops::compare(Sign::Ne, left, right, meter)?)),
            BinOpKind::Lt => Ok(Value::Bool(ops::compare(Sign::Lt, left, right, meter)?)),
            BinOpKind::Lte => Ok(Value::Bool(ops::compare(Sign::Le, left, right, meter)?)),
            BinOpKind::Gt => Ok(Value::Bool(ops::compare(Sign::Gt, left, right, meter)?)),
            BinOpKind::Gte => Ok(Value::Bool(ops::compare(Sign::Ge, left, right, meter)?)),
            BinOpKind::In => Ok(Value::Bool(ops::contains(right, left, meter)?)),
            BinOpKind::Add => ops::add(left, right, meter),
            BinOpKind::Mul => ops::multiply(left, right, meter),
            BinOpKind::Concat => ops::concat(left, right, meter),
            BinOpKind::Rem => match left {
                Value::Text(format) => {
                    Ok(Value::Text(crate::builtins::percent(format, right, meter)?))
                }
                _ => ops::arithmetic(op, left, right),
            },
            _ => ops::arithmetic(op, left, right),
        }
    }

    fn compare(
        &mut self,
        chain: &'t minijinja::machinery::ast::Compare<'t>,
        scope: &Rc<Scope<'t>>,
    ) -> Result<Value> {
        let mut left = self.eval(&chain.expr, scope)?;
        for op in &chain.ops {
            let right = self.eval(&op.expr, scope)?;
            let meter = &self.meter;
            let holds = match op.op {
                CompareOpKind::Eq => ops::compare(Sign::Eq, &left, &right, meter)?,
                CompareOpKind::Ne => ops::compare(Sign::Ne, &left, &right, meter)?,
                CompareOpKind::Lt => ops::compare(Sign::Lt, &left, &right, meter)?,
                CompareOpKind::Lte => ops::compare(Sign::Le, &left, &right, meter)?,
                CompareOpKind::Gt => ops::compare(Sign::Gt, &left, &right, meter)?,
                CompareOpKind::Gte => ops::compare(Sign::Ge, &left, &right, meter)?,
                CompareOpKind::In => ops::contains(&right, &left, meter)?,
                CompareOpKind::NotIn => !ops::contains(&right, &left, meter)?,
            };
            if !holds {
                return Ok(Value::Bool(false));
            }
            left = right;
        }
        Ok(Value::Bool(true))
    }

    fn list(&mut self, list: &'t List<'t>, span: Span, scope: &Rc<Scope<'t>>) -> Result<Value> {
        let mut items = Vec::with_capacity(list.items.len());
        for item in &list.items {
            items.push(self.eval(item, scope)?);
        }
        // The parser does not tell tuples from lists.
        let is_list = self.source.as_bytes().get(span.start_offset as usize) == Some(&b'[');
        let kind = if is_list { SeqKind::List } else { SeqKind::Tuple };
        Value::seq(kind, items, &self.meter)
    }

    fn map(&mut self, map: &'t Map<'t>, scope: &Rc<Scope<'t>>) -> Result<Value> {
        let mut entries: Vec<(Value, Value)> = Vec::with_capacity(map.keys.len());
        for (key, value) in map.keys.iter().zip(&map.values) {
            let key = self.eval(key, scope)?;
            let value = self.eval(value, scope)?;
            hashable(&key)?;
            ops::set_entry(&mut entries, key, value, &self.meter)?;
        }
        Value::dict(entries, &self.meter)
    }

    fn filter(
        &mut self,
        filter: &'t Filter<'t>,
        input: Option<&Value>,
        scope: &Rc<Scope<'t>>,
    ) -> Result<Value> {
        let value = match (&filter.expr, input) {
            (Some(Expr::Filter(inner)), Some(input)) => {
                self.enter()?;
                let value = self.filter(inner, Some(input), scope)?;
                self.leave();
                value
            }
            (None, Some(input)) => input.clone(),
            (Some(expr), _) => self.eval(expr, scope)?,
            (None, None) => return Err(Error::unsupported("a filter without a value")),
        };
        let args = self.args(&filter.args, scope)?;
        apply_filter(filter.name, &value, args, self)
    }

    /// The filters of a block, over its text.
    pub(super) fn filter_block(
        &mut self,
        filter: &'t Expr<'t>,
        text: &Value,
        scope: &Rc<Scope<'t>>,
    ) -> Result<Value> {
        match filter {
            Expr::Filter(filter) => self.filter(filter, Some(text), scope),
            _ => Err(Error::unsupported("expected a filter")),
        }
    }
}
