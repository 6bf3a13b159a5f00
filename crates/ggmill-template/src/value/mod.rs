//! The values of a rendering: Python's, as far as chat templates see them.

mod callable;
mod compare;
mod json;
mod show;
mod text;

use std::cell::Cell;
use std::cmp::Ordering;
use std::rc::Rc;

pub(crate) use callable::{Callable, Loop, Method};
pub(crate) use compare::{equal, less, sorted};
pub(crate) use json::{JsonStyle, to_json};
pub(crate) use show::{float_text, show, show_into};
pub(crate) use text::{Builder, Mark, Text};

use crate::error::{Error, ErrorKind, Result};
use crate::meter::{Held, Meter};

/// The deepest list in lists.
const MAX_DEPTH: u16 = 100;

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
    /// The number of a namespace of the rendering.
    Namespace(usize),
    /// The number of a macro of the rendering.
    Macro(usize),
    Loop(Rc<Loop>),
    Cycler(Rc<Cycler>),
    Joiner(Rc<Joiner>),
    Function(Callable),
    Method(Rc<Method>),
}

/// What does not exist.
#[derive(Debug)]
pub(crate) struct Missing {
    message: String,
    kind: ErrorKind,
    _held: Held,
}

/// A kind of sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SeqKind {
    List,
    Tuple,
    /// The result of `groupby`: a tuple with the names `grouper` and `list`.
    Group,
    Items,
    Keys,
    Values,
}

/// Values in order.
#[derive(Debug)]
pub(crate) struct Seq {
    pub(crate) kind: SeqKind,
    pub(crate) items: Vec<Value>,
    depth: u16,
    _held: Held,
}

/// Keys and their values, in order.
#[derive(Debug)]
pub(crate) struct Dict {
    pub(crate) entries: Vec<(Value, Value)>,
    depth: u16,
    _held: Held,
}

/// Numbers from one to another.
#[derive(Debug)]
pub(crate) struct Span {
    pub(crate) start: i64,
    pub(crate) stop: i64,
    pub(crate) stride: i64,
}

impl Span {
    pub(crate) fn len(&self) -> usize {
        let (start, stop, stride) =
            (i128::from(self.start), i128::from(self.stop), i128::from(self.stride));
        let count = match stride.cmp(&0) {
            Ordering::Greater => (stop - start + stride - 1) / stride,
            Ordering::Less => (start - stop - stride - 1) / -stride,
            Ordering::Equal => 0,
        };
        usize::try_from(count).unwrap_or(0)
    }

    pub(crate) fn get(&self, index: usize) -> Value {
        Value::Int(i128::from(self.start) + i128::from(self.stride) * index as i128)
    }
}

/// Values that are handed out once.
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

    /// What the sandbox hides: it is treated as undefined, and cannot be used.
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
        let depth = deeper(entries.iter().flat_map(|(key, value)| [key.depth(), value.depth()]))?;
        let bytes = 64 + entries.capacity() * size_of::<(Self, Self)>();
        meter.walk(bytes)?;
        let held = Held::new(meter, bytes)?;
        Ok(Self::Dict(Rc::new(Dict { entries, depth, _held: held })))
    }

    fn depth(&self) -> u16 {
        match self {
            Self::Seq(seq) => seq.depth,
            Self::Dict(dict) => dict.depth,
            Self::Generator(generator) => generator.items.depth,
            Self::Cycler(cycler) => cycler.items.depth,
            // A method holds its object, a loop the values it walks over.
            Self::Method(method) => method.object.depth() + 1,
            Self::Loop(each) => each.items.depth,
            _ => 0,
        }
    }

    /// Python's truth.
    pub(crate) fn is_true(&self) -> bool {
        match self {
            Self::Undefined(_) | Self::None => false,
            Self::Bool(value) => *value,
            Self::Int(value) => *value != 0,
            Self::Float(value) => *value != 0.0,
            Self::Text(text) => !text.as_str().is_empty(),
            Self::Seq(seq) => !seq.items.is_empty(),
            Self::Dict(dict) => !dict.entries.is_empty(),
            Self::Range(span) => span.len() > 0,
            _ => true,
        }
    }

    /// Python's name of the type.
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

    /// Refuses what does not exist.
    pub(crate) fn defined(&self) -> Result<()> {
        match self {
            Self::Undefined(missing) => Err(missing.error()),
            _ => Ok(()),
        }
    }

    pub(crate) fn is_number(&self) -> bool {
        matches!(self, Self::Bool(_) | Self::Int(_) | Self::Float(_))
    }

    /// An integer, of which a boolean is one.
    pub(crate) fn as_int(&self) -> Option<i128> {
        match self {
            Self::Int(value) => Some(*value),
            Self::Bool(value) => Some(i128::from(*value)),
            _ => None,
        }
    }

    /// A number as a float.
    #[expect(clippy::cast_precision_loss, reason = "Python rounds too")]
    pub(crate) fn as_float(&self) -> Option<f64> {
        match self {
            Self::Float(value) => Some(*value),
            _ => self.as_int().map(|value| value as f64),
        }
    }

    /// The number of its items, where it has one.
    pub(crate) fn len(&self) -> Option<usize> {
        Some(match self {
            Self::Undefined(_) => 0,
            Self::Text(text) => text.as_str().chars().count(),
            Self::Seq(seq) => seq.items.len(),
            Self::Dict(dict) => dict.entries.len(),
            Self::Range(span) => span.len(),
            Self::Loop(each) => each.items.items.len(),
            _ => return None,
        })
    }

    /// The items that a loop over it sees.
    pub(crate) fn iterate(&self, meter: &Rc<Meter>) -> Result<Rc<Seq>> {
        let items = match self {
            Self::Seq(seq) => return Ok(Rc::clone(seq)),
            Self::Undefined(_) => Vec::new(),
            Self::Text(text) => {
                let mut items = Vec::new();
                for (start, c) in text.as_str().char_indices() {
                    items.push(Self::Text(text.slice(start..start + c.len_utf8())?));
                }
                items
            }
            Self::Dict(dict) => dict.entries.iter().map(|(key, _)| key.clone()).collect(),
            Self::Range(span) => (0..span.len()).map(|index| span.get(index)).collect(),
            Self::Generator(generator) => {
                let next = generator.next.replace(generator.items.items.len());
                if next == 0 {
                    return Ok(Rc::clone(&generator.items));
                }
                generator.items.items.get(next..).unwrap_or_default().to_vec()
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

impl Seq {
    pub(crate) fn new(kind: SeqKind, items: Vec<Value>, meter: &Rc<Meter>) -> Result<Rc<Self>> {
        let depth = deeper(items.iter().map(Value::depth))?;
        let bytes = 64 + items.capacity() * size_of::<Value>();
        meter.walk(bytes)?;
        let held = Held::new(meter, bytes)?;
        Ok(Rc::new(Self { kind, items, depth, _held: held }))
    }
}

fn deeper(depths: impl Iterator<Item = u16>) -> Result<u16> {
    let depth = depths.max().unwrap_or(0) + 1;
    if depth > MAX_DEPTH {
        return Err(Error::new(
            ErrorKind::Limit,
            format!("lists or dictionaries are nested more than {MAX_DEPTH} levels deep"),
        ));
    }
    Ok(depth)
}

impl Dict {
    pub(crate) fn get(&self, key: &Value, meter: &Meter) -> Result<Option<&Value>> {
        meter.spend((self.entries.len() / 8) as u64)?;
        for (known, value) in &self.entries {
            if equal(known, key, meter)? {
                return Ok(Some(value));
            }
        }
        Ok(None)
    }

    pub(crate) fn get_str(&self, key: &str) -> Option<&Value> {
        self.entries.iter().find_map(|(known, value)| match known {
            Value::Text(text) if text.as_str() == key => Some(value),
            _ => None,
        })
    }
}

/// The beginning of a name, for a message that can be kept many times.
pub(crate) fn clipped(name: &str) -> &str {
    let end = name.char_indices().nth(80).map_or(name.len(), |(end, _)| end);
    name.get(..end).unwrap_or_default()
}

/// A key that Python could hash.
pub(crate) fn hashable(key: &Value) -> Result<()> {
    match key {
        Value::Dict(_) => Err(Error::value("unhashable type: 'dict'")),
        Value::Seq(seq) if seq.kind == SeqKind::List => {
            Err(Error::value("unhashable type: 'list'"))
        }
        _ => Ok(()),
    }
}
