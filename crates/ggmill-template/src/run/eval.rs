//! Evaluates expressions, attributes, items and slices.

use std::rc::Rc;

use minijinja::machinery::Span;
use minijinja::machinery::ast::{
    BinOp, BinOpKind, CompareOpKind, Const, Expr, Filter, List, Map, UnaryOpKind,
};

use super::ops::{self, Sign};
use super::{Run, Scope};
use crate::builtins::{apply_filter, apply_test, function, method_name};
use crate::error::{Error, ErrorKind, Result};
use crate::probe::Comparison;
use crate::value::{Method, SeqKind, Value, clipped, hashable};

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

    /// Evaluates the object of an assignment target, which has a shorter lifetime than the tree.
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
        if let Some(value) = scope.get(name)? {
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
            self.meter.walk(source.len())?;
            if source.contains('\\')
                && let Some(text) = crate::source::python_text(source)
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

    /// Iterates over the left operands, because a chain of operators is nested on the left.
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
        match op {
            BinOpKind::Eq | BinOpKind::Ne => self.probe(Comparison::Equals, left, right)?,
            BinOpKind::In => self.probe(Comparison::Contains, right, left)?,
            _ => {}
        }
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
            match op.op {
                CompareOpKind::Eq | CompareOpKind::Ne => {
                    self.probe(Comparison::Equals, &left, &right)?;
                }
                CompareOpKind::In | CompareOpKind::NotIn => {
                    self.probe(Comparison::Contains, &right, &left)?;
                }
                _ => {}
            }
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
        // The parser does not distinguish tuples from lists.
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

    /// Applies the filters of a block to its text.
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

impl Run<'_> {
    /// Evaluates `object.name`: Python's attribute, otherwise the item.
    pub(crate) fn attribute(&self, object: &Value, name: &str) -> Result<Value> {
        object.defined()?;
        self.meter.walk(name.len())?;
        if let Some(value) = self.python_attribute(object, name)? {
            return Ok(value);
        }
        if let Value::Dict(dict) = object
            && let Some(value) = dict.get_str(name)?
        {
            return Ok(value.clone());
        }
        self.no_attribute(object, name)
    }

    /// Evaluates `object[key]`: the item, otherwise Python's attribute.
    pub(crate) fn item(&self, object: &Value, key: &Value) -> Result<Value> {
        object.defined()?;
        self.probe(Comparison::Contains, object, key)?;
        let found = match object {
            Value::Dict(dict) => dict.get(key)?.cloned(),
            Value::Seq(seq)
                if matches!(seq.kind, SeqKind::List | SeqKind::Tuple | SeqKind::Group) =>
            {
                position(key, seq.len()).and_then(|index| seq.get(index).cloned())
            }
            Value::Range(span) => position(key, span.len()).map(|index| span.get(index)),
            Value::Text(text) if key.as_int().is_some() => {
                let whole = text.read()?;
                match position(key, whole.chars().count()) {
                    Some(index) => {
                        let mut places = whole.char_indices().skip(index);
                        let Some((start, c)) = places.next() else { return Ok(Value::None) };
                        Some(Value::Text(text.slice(start..start + c.len_utf8())?))
                    }
                    None => None,
                }
            }
            _ => None,
        };
        if let Some(value) = found {
            return Ok(value);
        }
        let Value::Text(name) = key else {
            let shown = crate::value::show(key, &self.meter)?;
            let (object, key) = (type_of(object), shown.clipped());
            return Value::undefined(format!("{object} object has no element {key}"), &self.meter);
        };
        let name = name.read()?;
        match self.python_attribute(object, name)? {
            Some(found) => Ok(found),
            None => self.no_attribute(object, name),
        }
    }

    fn no_attribute(&self, object: &Value, name: &str) -> Result<Value> {
        let (object, name) = (type_of(object), clipped(name));
        Value::undefined(format!("'{object} object' has no attribute '{name}'"), &self.meter)
    }

    /// Returns the value of an attribute that the sandbox hides.
    fn hidden(&self, object: &Value, name: &str) -> Result<Value> {
        let (object, name) = (object.type_name(), clipped(name));
        let message = format!("access to attribute '{name}' of '{object}' object is unsafe.");
        Value::unsafe_undefined(message, &self.meter)
    }

    fn python_attribute(&self, object: &Value, name: &str) -> Result<Option<Value>> {
        if name.starts_with("__") && name.ends_with("__") {
            return self.hidden(object, name).map(Some);
        }
        match object {
            Value::Namespace(number) => {
                let Some(namespace) = self.namespaces.get(*number) else { return Ok(None) };
                return Ok(namespace.get(name)?.cloned());
            }
            Value::Loop(each) => {
                if let Some(value) = each.attribute(name, &self.meter)? {
                    return Ok(Some(value));
                }
            }
            Value::Cycler(cycler) if name == "current" => {
                return Ok(cycler.items.get(cycler.at.get()).cloned());
            }
            Value::Seq(seq) if seq.kind == SeqKind::Group => {
                let index = ["grouper", "list"].iter().position(|known| *known == name);
                if let Some(index) = index {
                    return Ok(seq.get(index).cloned());
                }
            }
            _ => {}
        }
        let Some((name, changes)) = method_name(object, name) else { return Ok(None) };
        let found = if changes {
            self.hidden(object, name)?
        } else {
            Method::value(object, name, &self.meter)?
        };
        Ok(Some(found))
    }

    pub(crate) fn slice(&self, object: &Value, bounds: [Option<i128>; 3]) -> Result<Value> {
        object.defined()?;
        let [start, stop, stride] = bounds;
        let stride = stride.unwrap_or(1);
        if stride == 0 {
            return Err(Error::value("slice step cannot be zero"));
        }
        match object {
            Value::Text(text) => {
                let whole = text.read()?;
                let length = whole.chars().count();
                if stride == 1 {
                    let (from, to) = range(start, stop, length);
                    let mut places = whole.char_indices().map(|(at, _)| at).skip(from);
                    let from_byte = places.next().unwrap_or(whole.len());
                    let to_byte = match to.checked_sub(from + 1) {
                        None => from_byte,
                        Some(more) => places.nth(more).unwrap_or(whole.len()),
                    };
                    return Ok(Value::Text(text.slice(from_byte..to_byte)?));
                }
                let mut out = crate::value::Builder::new(&self.meter)?;
                let mut wanted = indices(start, stop, stride, length).peekable();
                let mut push = |index: usize, (at, c): (usize, char)| {
                    if wanted.next_if_eq(&index).is_some() {
                        out.push_slice(text, at..at + c.len_utf8())?;
                    }
                    Ok(())
                };
                // In the direction of the stride, so that no list of positions is needed.
                if stride > 0 {
                    for (index, place) in whole.char_indices().enumerate() {
                        push(index, place)?;
                    }
                } else {
                    for (index, place) in whole.char_indices().rev().enumerate() {
                        push(length - 1 - index, place)?;
                    }
                }
                Ok(Value::Text(out.finish_like(text)))
            }
            Value::Seq(seq)
                if matches!(seq.kind, SeqKind::List | SeqKind::Tuple | SeqKind::Group) =>
            {
                let kind = if seq.kind == SeqKind::List { SeqKind::List } else { SeqKind::Tuple };
                let mut items = Vec::new();
                for index in indices(start, stop, stride, seq.len()) {
                    self.meter.spend(1)?;
                    items.extend(seq.get(index).cloned());
                }
                Value::seq(kind, items, &self.meter)
            }
            Value::Range(span) => {
                let (first, end) = slice_bounds(start, stop, stride, span.len());
                let span = span.slice(first, end, stride).ok_or_else(|| {
                    Error::new(ErrorKind::Limit, "a slice of a range exceeds 120 bits")
                })?;
                Ok(Value::Range(Rc::new(span)))
            }
            _ => Err(Error::value(format!("'{}' object is not subscriptable", object.type_name()))),
        }
    }
}

/// Returns the name of a type in Jinja's messages.
fn type_of(object: &Value) -> &'static str {
    match object {
        Value::None => "None",
        _ => object.type_name(),
    }
}

/// Converts an index, which counts from the end if it is negative.
fn position(key: &Value, length: usize) -> Option<usize> {
    let index = key.as_int()?;
    let index = if index < 0 { index.checked_add(length as i128)? } else { index };
    usize::try_from(index).ok().filter(|index| *index < length)
}

/// Returns the bounds of a slice with stride 1; equal if it is empty.
fn range(start: Option<i128>, stop: Option<i128>, length: usize) -> (usize, usize) {
    let (first, stop) = slice_bounds(start, stop, 1, length);
    let index = |at: i128| usize::try_from(at).unwrap_or(0);
    (index(first), index(stop.max(first)))
}

/// Returns the first index of a Python slice and the index at which it ends.
fn slice_bounds(
    start: Option<i128>,
    stop: Option<i128>,
    stride: i128,
    length: usize,
) -> (i128, i128) {
    let size = length as i128;
    let clamp = |index: i128, low: i128, high: i128| {
        let index = if index < 0 { index.saturating_add(size) } else { index };
        index.clamp(low, high)
    };
    if stride > 0 {
        (
            start.map_or(0, |start| clamp(start, 0, size)),
            stop.map_or(size, |stop| clamp(stop, 0, size)),
        )
    } else {
        (
            start.map_or(size - 1, |start| clamp(start, -1, size - 1)),
            stop.map_or(-1, |stop| clamp(stop, -1, size - 1)),
        )
    }
}

/// Returns the indices of a Python slice.
fn indices(
    start: Option<i128>,
    stop: Option<i128>,
    stride: i128,
    length: usize,
) -> impl Iterator<Item = usize> {
    let (mut at, stop) = slice_bounds(start, stop, stride, length);
    std::iter::from_fn(move || {
        let more = if stride > 0 { at < stop } else { at > stop };
        let found = more.then(|| usize::try_from(at).ok()).flatten()?;
        at = at.saturating_add(stride);
        Some(found)
    })
}
