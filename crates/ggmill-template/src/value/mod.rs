//! Python's values, to the extent that chat templates use them; comparison and callables.

mod seq;
mod show;
mod text;

use std::cell::{Cell, RefCell};
use std::cmp::Ordering;
use std::rc::Rc;

pub(crate) use seq::{Dict, Seq, SeqKind};
pub(crate) use show::{JsonStyle, float_text, show, show_into, to_json};
pub(crate) use text::{Builder, Mark, Text};

use crate::error::{Error, ErrorKind, Result};
use crate::meter::{Held, Meter};

/// A value.
#[derive(Clone, Debug)]
pub(crate) enum Value {
    Undefined(Rc<Missing>),
    None,
    Bool(bool),
    Int(i128),
    Float(f64),
    Text(Text),
    Seq(Rc<Seq>),
    Dict(Rc<Dict>),
    Range(Rc<Span>),
    /// The result of filters such as `map`, which can be consumed once.
    Generator(Rc<Generator>),
    /// The index of a namespace in the rendering.
    Namespace(usize),
    /// The index of a macro in the rendering.
    Macro(usize),
    Loop(Rc<Loop>),
    Cycler(Rc<Cycler>),
    Joiner(Rc<Joiner>),
    Function(Callable),
    Method(Rc<Method>),
}

/// An undefined value.
#[derive(Debug)]
pub(crate) struct Missing {
    message: String,
    kind: ErrorKind,
    _held: Held,
}

/// A Python `range`.
#[derive(Debug)]
pub(crate) struct Span {
    start: i128,
    stop: i128,
    stride: i128,
}

impl Span {
    /// The maximum of the start, the stop and the stride, so that arithmetic with them does not
    /// overflow. Slices of ranges can exceed 64 bits.
    const MAX: u128 = 1 << 120;

    /// Creates a range. Returns `None` if a number exceeds 120 bits, or if the stride is 0.
    pub(crate) fn new(start: i128, stop: i128, stride: i128) -> Option<Self> {
        let is_small =
            [start, stop, stride].iter().all(|number| number.unsigned_abs() <= Self::MAX);
        (is_small && stride != 0).then_some(Self { start, stop, stride })
    }

    pub(crate) fn len(&self) -> usize {
        let Self { start, stop, stride } = *self;
        let count = if stride > 0 {
            (stop - start + stride - 1) / stride
        } else {
            (start - stop - stride - 1) / -stride
        };
        usize::try_from(count).unwrap_or(0)
    }

    pub(crate) fn get(&self, index: usize) -> Value {
        Value::Int(self.start + self.stride * index as i128)
    }

    /// Returns the range of the elements from index `first` to before index `end`, in steps of
    /// `stride`; `None` if a number of it exceeds 120 bits.
    pub(crate) fn slice(&self, first: i128, end: i128, stride: i128) -> Option<Self> {
        let element = |index: i128| self.start.checked_add(self.stride.checked_mul(index)?);
        Self::new(element(first)?, element(end)?, self.stride.checked_mul(stride)?)
    }

    /// Returns `true` if both ranges have the same elements.
    fn equals(&self, other: &Self) -> bool {
        let len = self.len();
        len == other.len()
            && (len == 0 || self.start == other.start)
            && (len <= 1 || self.stride == other.stride)
    }

    /// Returns Python's `repr`.
    fn repr(&self) -> String {
        let Self { start, stop, stride } = self;
        match stride {
            1 => format!("range({start}, {stop})"),
            _ => format!("range({start}, {stop}, {stride})"),
        }
    }
}

/// Values that can be consumed once.
#[derive(Debug)]
pub(crate) struct Generator {
    items: Rc<Seq>,
    next: Cell<usize>,
}

/// `cycler(…)`.
#[derive(Debug)]
pub(crate) struct Cycler {
    pub(crate) items: Rc<Seq>,
    pub(crate) at: Cell<usize>,
}

/// `joiner(…)`.
#[derive(Debug)]
pub(crate) struct Joiner {
    pub(crate) text: Text,
    pub(crate) used: Cell<bool>,
}

impl Value {
    pub(crate) fn undefined(message: impl Into<String>, meter: &Rc<Meter>) -> Result<Self> {
        Missing::value(message.into(), ErrorKind::Undefined, meter)
    }

    /// Creates a value for an attribute that the sandbox hides: it is undefined, and using it is an
    /// error.
    pub(crate) fn unsafe_undefined(message: impl Into<String>, meter: &Rc<Meter>) -> Result<Self> {
        Missing::value(message.into(), ErrorKind::Security, meter)
    }

    pub(crate) fn text(text: &str, meter: &Rc<Meter>) -> Result<Self> {
        Ok(Self::Text(Text::new(text, Mark::TEMPLATE, meter)?))
    }

    pub(crate) fn int(value: usize) -> Self {
        Self::Int(value as i128)
    }

    pub(crate) fn seq(kind: SeqKind, items: Vec<Self>, meter: &Rc<Meter>) -> Result<Self> {
        Ok(Self::Seq(Seq::new(kind, items, meter)?))
    }

    pub(crate) fn list(items: Vec<Self>, meter: &Rc<Meter>) -> Result<Self> {
        Self::seq(SeqKind::List, items, meter)
    }

    pub(crate) fn generator(items: Vec<Self>, meter: &Rc<Meter>) -> Result<Self> {
        let items = Seq::new(SeqKind::List, items, meter)?;
        Ok(Self::Generator(Rc::new(Generator { items, next: Cell::new(0) })))
    }

    pub(crate) fn dict(entries: Vec<(Self, Self)>, meter: &Rc<Meter>) -> Result<Self> {
        Ok(Self::Dict(Dict::new(entries, meter)?))
    }

    fn depth(&self) -> u16 {
        match self {
            Self::Seq(seq) => seq.depth(),
            Self::Dict(dict) => dict.depth(),
            Self::Generator(generator) => generator.items.depth(),
            Self::Cycler(cycler) => cycler.items.depth(),
            // A method holds its object, a loop the values that it iterates over.
            Self::Method(method) => method.object.depth() + 1,
            Self::Loop(each) => each.items.depth(),
            _ => 0,
        }
    }

    /// Returns Python's truth value.
    pub(crate) fn is_true(&self) -> bool {
        match self {
            Self::Undefined(_) | Self::None => false,
            Self::Bool(value) => *value,
            Self::Int(value) => *value != 0,
            Self::Float(value) => *value != 0.0,
            Self::Text(text) => !text.is_empty(),
            Self::Seq(seq) => !seq.is_empty(),
            Self::Dict(dict) => !dict.is_empty(),
            Self::Range(span) => span.len() > 0,
            _ => true,
        }
    }

    /// Returns Python's name of the type.
    pub(crate) fn type_name(&self) -> &'static str {
        match self {
            Self::Undefined(_) => "Undefined",
            Self::None => "NoneType",
            Self::Bool(_) => "bool",
            Self::Int(_) => "int",
            Self::Float(_) => "float",
            Self::Text(text) if text.is_safe() => "Markup",
            Self::Text(_) => "str",
            Self::Seq(seq) => match seq.kind {
                SeqKind::List => "list",
                SeqKind::Tuple => "tuple",
                SeqKind::Group => "_GroupTuple",
                SeqKind::Items => "dict_items",
                SeqKind::Keys => "dict_keys",
                SeqKind::Values => "dict_values",
            },
            Self::Dict(_) => "dict",
            Self::Range(_) => "range",
            Self::Generator(_) => "generator",
            Self::Namespace(_) => "Namespace",
            Self::Macro(_) => "Macro",
            Self::Loop(_) => "LoopContext",
            Self::Cycler(_) => "Cycler",
            Self::Joiner(_) => "Joiner",
            Self::Function(_) => "function",
            Self::Method(_) => "builtin_function_or_method",
        }
    }

    /// Fails for an undefined value.
    pub(crate) fn defined(&self) -> Result<()> {
        match self {
            Self::Undefined(missing) => Err(missing.error()),
            _ => Ok(()),
        }
    }

    pub(crate) fn is_number(&self) -> bool {
        matches!(self, Self::Bool(_) | Self::Int(_) | Self::Float(_))
    }

    /// Returns an integer or a boolean as an integer.
    pub(crate) fn as_int(&self) -> Option<i128> {
        match self {
            Self::Int(value) => Some(*value),
            Self::Bool(value) => Some(i128::from(*value)),
            _ => None,
        }
    }

    /// Returns a number as a float.
    #[expect(clippy::cast_precision_loss, reason = "Python rounds too")]
    pub(crate) fn as_float(&self) -> Option<f64> {
        match self {
            Self::Float(value) => Some(*value),
            _ => self.as_int().map(|value| value as f64),
        }
    }

    /// Returns the number of items, if the value has a length.
    pub(crate) fn len(&self) -> Result<Option<usize>> {
        Ok(Some(match self {
            Self::Undefined(_) => 0,
            Self::Text(text) => text.read()?.chars().count(),
            Self::Seq(seq) => seq.len(),
            Self::Dict(dict) => dict.len(),
            Self::Range(span) => span.len(),
            Self::Loop(each) => each.items.len(),
            _ => return Ok(None),
        }))
    }

    /// Returns the items that a loop iterates over.
    pub(crate) fn iterate(&self, meter: &Rc<Meter>) -> Result<Rc<Seq>> {
        let items = match self {
            Self::Seq(seq) => return Ok(Rc::clone(seq)),
            Self::Undefined(_) => Vec::new(),
            Self::Text(text) => {
                let mut items = Vec::new();
                for (start, c) in text.read()?.char_indices() {
                    items.push(Self::Text(text.slice(start..start + c.len_utf8())?));
                }
                items
            }
            Self::Dict(dict) => dict.keys()?,
            Self::Range(span) => {
                // Checks the limit of memory before the list is allocated.
                let _held = Held::new(meter, span.len().saturating_mul(size_of::<Self>()))?;
                (0..span.len()).map(|index| span.get(index)).collect()
            }
            Self::Generator(generator) => {
                let next = generator.next.replace(generator.items.len());
                if next == 0 {
                    return Ok(Rc::clone(&generator.items));
                }
                generator.items.read()?.get(next..).unwrap_or_default().to_vec()
            }
            _ => {
                return Err(Error::value(format!("'{}' object is not iterable", self.type_name())));
            }
        };
        Seq::new(SeqKind::List, items, meter)
    }
}

impl Missing {
    fn value(message: String, kind: ErrorKind, meter: &Rc<Meter>) -> Result<Value> {
        let held = Held::new(meter, size_of::<Self>() + 16 + message.capacity())?;
        Ok(Value::Undefined(Rc::new(Self { message, kind, _held: held })))
    }

    pub(crate) fn error(&self) -> Error {
        Error::new(self.kind, self.message.clone())
    }
}

/// Truncates a name for a message, because a template can keep many of them.
pub(crate) fn clipped(name: &str) -> &str {
    let end = name.char_indices().nth(80).map_or(name.len(), |(end, _)| end);
    name.get(..end).unwrap_or_default()
}

/// Fails for a key that Python cannot hash.
pub(crate) fn hashable(key: &Value) -> Result<()> {
    match key {
        Value::Dict(_) => Err(Error::value("unhashable type: 'dict'")),
        Value::Seq(seq) if seq.kind == SeqKind::List => {
            Err(Error::value("unhashable type: 'list'"))
        }
        _ => Ok(()),
    }
}

/// A global function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Callable {
    Range,
    Dict,
    Namespace,
    Cycler,
    Joiner,
    RaiseException,
    StrftimeNow,
}

/// A method of a value.
#[derive(Debug)]
pub(crate) struct Method {
    pub(crate) object: Value,
    pub(crate) name: &'static str,
    _held: Held,
}

impl Method {
    pub(crate) fn value(object: &Value, name: &'static str, meter: &Rc<Meter>) -> Result<Value> {
        let held = Held::new(meter, size_of::<Self>() + 16)?;
        Ok(Value::Method(Rc::new(Self { object: object.clone(), name, _held: held })))
    }
}

/// The state of a `for` loop, as shown by the variable `loop`.
#[derive(Debug)]
pub(crate) struct Loop {
    pub(crate) items: Rc<Seq>,
    pub(crate) index: Cell<usize>,
    pub(crate) depth: usize,
    changed: RefCell<Option<Rc<Seq>>>,
    /// The index of the statement, if it is recursive.
    pub(crate) recursive: Option<usize>,
}

impl Loop {
    pub(crate) fn new(items: &Rc<Seq>, depth: usize, recursive: Option<usize>) -> Rc<Self> {
        Rc::new(Self {
            items: Rc::clone(items),
            index: Cell::new(0),
            depth,
            changed: RefCell::new(None),
            recursive,
        })
    }

    /// Drops the last arguments of `loop.changed`, which can reference the loop itself.
    pub(crate) fn end(&self) {
        *self.changed.borrow_mut() = None;
    }

    pub(crate) fn repr(&self) -> String {
        format!("<LoopContext {}/{}>", self.index.get() + 1, self.items.len())
    }

    pub(crate) fn attribute(&self, name: &str, meter: &Rc<Meter>) -> Result<Option<Value>> {
        let (index, length) = (self.index.get(), self.items.len());
        let at = |index: Option<usize>, what: &str| match index
            .and_then(|index| self.items.get(index))
        {
            Some(found) => Ok(found.clone()),
            None => Value::undefined(format!("there is no {what} item"), meter),
        };
        Ok(Some(match name {
            "index" => Value::int(index + 1),
            "index0" => Value::int(index),
            "revindex" => Value::int(length.saturating_sub(index)),
            "revindex0" => Value::int(length.saturating_sub(index + 1)),
            "first" => Value::Bool(index == 0),
            "last" => Value::Bool(index + 1 >= length),
            "length" => Value::int(length),
            "depth" => Value::int(self.depth + 1),
            "depth0" => Value::int(self.depth),
            "previtem" => at(index.checked_sub(1), "previous")?,
            "nextitem" => at(Some(index + 1), "next")?,
            _ => return Ok(None),
        }))
    }

    /// Calls `loop.cycle(…)` or `loop.changed(…)`.
    pub(crate) fn call(&self, name: &str, values: &[Value], meter: &Rc<Meter>) -> Result<Value> {
        if name == "cycle" {
            let index = self.index.get().checked_rem(values.len());
            let value = index.and_then(|index| values.get(index));
            return value.cloned().ok_or_else(|| Error::value("no items for cycling given"));
        }
        let mut last = self.changed.borrow_mut();
        let same = match &*last {
            Some(last) if last.len() == values.len() => {
                let mut same = true;
                for (left, right) in last.read()?.iter().zip(values) {
                    same = same && equal(left, right, meter)?;
                }
                same
            }
            _ => false,
        };
        *last = Some(Seq::new(SeqKind::Tuple, values.to_vec(), meter)?);
        Ok(Value::Bool(!same))
    }
}

/// Returns Python's `left == right`.
pub(crate) fn equal(left: &Value, right: &Value, meter: &Meter) -> Result<bool> {
    meter.spend(1)?;
    Ok(match (left, right) {
        (Value::Undefined(_), Value::Undefined(_)) | (Value::None, Value::None) => true,
        (Value::Text(left), Value::Text(right)) => {
            left.len() == right.len() && left.order(right)? == Ordering::Equal
        }
        (Value::Seq(left), Value::Seq(right)) => {
            let views = [SeqKind::Items, SeqKind::Values, SeqKind::Keys];
            if Rc::ptr_eq(left, right) {
                return Ok(true);
            }
            if left.len() != right.len()
                || is_tuple(left.kind) != is_tuple(right.kind)
                || views.contains(&left.kind) != views.contains(&right.kind)
            {
                return Ok(false);
            }
            for (left, right) in left.read()?.iter().zip(right.read()?) {
                if !equal(left, right, meter)? {
                    return Ok(false);
                }
            }
            true
        }
        (Value::Dict(left), Value::Dict(right)) => {
            if Rc::ptr_eq(left, right) {
                return Ok(true);
            }
            if left.len() != right.len() {
                return Ok(false);
            }
            for (key, value) in left.read()? {
                match right.get(key)? {
                    Some(other) if equal(value, other, meter)? => {}
                    _ => return Ok(false),
                }
            }
            true
        }
        (Value::Range(left), Value::Range(right)) => left.equals(right),
        (Value::Namespace(left), Value::Namespace(right))
        | (Value::Macro(left), Value::Macro(right)) => left == right,
        (Value::Generator(left), Value::Generator(right)) => Rc::ptr_eq(left, right),
        (Value::Loop(left), Value::Loop(right)) => Rc::ptr_eq(left, right),
        (Value::Cycler(left), Value::Cycler(right)) => Rc::ptr_eq(left, right),
        (Value::Joiner(left), Value::Joiner(right)) => Rc::ptr_eq(left, right),
        (Value::Function(left), Value::Function(right)) => left == right,
        _ => match (left.as_int(), right.as_int()) {
            (Some(left), Some(right)) => left == right,
            _ => {
                left.is_number()
                    && right.is_number()
                    && number_order(left, right) == Some(Ordering::Equal)
            }
        },
    })
}

fn is_tuple(kind: SeqKind) -> bool {
    matches!(kind, SeqKind::Tuple | SeqKind::Group)
}

/// Compares two numbers.
fn number_order(left: &Value, right: &Value) -> Option<Ordering> {
    match (left.as_int(), right.as_int()) {
        (Some(left), Some(right)) => Some(left.cmp(&right)),
        _ => left.as_float()?.partial_cmp(&right.as_float()?),
    }
}

/// Returns Python's `left < right`. Fails for types that Python does not order; `sign` is the
/// operator in the message.
pub(crate) fn less(left: &Value, right: &Value, sign: &str, meter: &Meter) -> Result<bool> {
    meter.spend(1)?;
    match (left, right) {
        (Value::Undefined(missing), _) | (_, Value::Undefined(missing)) => Err(missing.error()),
        (Value::Text(left), Value::Text(right)) => Ok(left.order(right)? == Ordering::Less),
        (Value::Seq(first), Value::Seq(second))
            if is_tuple(first.kind) == is_tuple(second.kind) =>
        {
            for (left, right) in first.read()?.iter().zip(second.read()?) {
                if !equal(left, right, meter)? {
                    return less(left, right, sign, meter);
                }
            }
            Ok(first.len() < second.len())
        }
        _ if left.is_number() && right.is_number() => {
            Ok(number_order(left, right) == Some(Ordering::Less))
        }
        _ => Err(Error::value(format!(
            "'{sign}' not supported between instances of '{}' and '{}'",
            left.type_name(),
            right.type_name()
        ))),
    }
}

/// Sorts stably. `before` need not be a total order (NaN is not ordered); then the order of the
/// result is unspecified. Stops at the first error, like Python.
pub(crate) fn sorted<T, F>(mut items: Vec<T>, before: &mut F) -> Result<Vec<T>>
where
    F: FnMut(&T, &T) -> Result<bool>,
{
    let count = items.len();
    if count < 2 {
        return Ok(items);
    }
    let second = items.split_off(count / 2);
    let mut first = sorted(items, before)?.into_iter().peekable();
    let mut second = sorted(second, before)?.into_iter().peekable();
    let mut merged = Vec::with_capacity(count);
    while let (Some(left), Some(right)) = (first.peek(), second.peek()) {
        let next = if before(right, left)? { second.next() } else { first.next() };
        merged.extend(next);
    }
    merged.extend(first);
    merged.extend(second);
    Ok(merged)
}
