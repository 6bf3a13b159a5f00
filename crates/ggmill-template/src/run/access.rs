//! Attributes, items and slices.

use super::Run;
use crate::builtins::method_name;
use crate::error::{Error, Result};
use crate::value::{Method, SeqKind, Value, clipped};

impl Run<'_> {
    /// `object.name`: Python's attribute, else the item.
    pub(crate) fn attribute(&self, object: &Value, name: &str) -> Result<Value> {
        object.defined()?;
        self.look_up(object)?;
        if let Some(value) = self.python_attribute(object, name)? {
            return Ok(value);
        }
        if let Value::Dict(dict) = object {
            self.meter.spend((dict.entries.len() / 8) as u64)?;
            if let Some(value) = dict.get_str(name) {
                return Ok(value.clone());
            }
        }
        self.no_attribute(object, name)
    }

    /// `object[key]`: the item, else Python's attribute.
    pub(crate) fn item(&self, object: &Value, key: &Value) -> Result<Value> {
        object.defined()?;
        let found = match object {
            Value::Dict(dict) => dict.get(key, &self.meter)?.cloned(),
            Value::Seq(seq)
                if matches!(seq.kind, SeqKind::List | SeqKind::Tuple | SeqKind::Group) =>
            {
                position(key, seq.items.len()).and_then(|index| seq.items.get(index).cloned())
            }
            Value::Range(span) => position(key, span.len()).map(|index| span.get(index)),
            Value::Text(text) if key.as_int().is_some() => {
                let length = text.as_str().chars().count();
                self.meter.walk(text.as_str().len())?;
                match position(key, length) {
                    Some(index) => {
                        let mut places = text.as_str().char_indices().skip(index);
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
            let (object, key) = (type_of(object), clipped(shown.as_str()));
            return Value::undefined(format!("{object} object has no element {key}"), &self.meter);
        };
        let name = name.as_str();
        self.look_up(object)?;
        match self.python_attribute(object, name)? {
            Some(found) => Ok(found),
            None => self.no_attribute(object, name),
        }
    }

    /// The steps of finding a name in a namespace.
    fn look_up(&self, object: &Value) -> Result<()> {
        let Value::Namespace(number) = object else { return Ok(()) };
        let count = self.namespaces.get(*number).map_or(0, |it| it.entries.len());
        self.meter.spend((count / 8) as u64)
    }

    fn no_attribute(&self, object: &Value, name: &str) -> Result<Value> {
        let (object, name) = (type_of(object), clipped(name));
        Value::undefined(format!("'{object} object' has no attribute '{name}'"), &self.meter)
    }

    /// An attribute that the sandbox hides.
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
                let mut entries = namespace.entries.iter();
                let found = entries.find(|(known, _)| known.as_str() == name);
                return Ok(found.map(|(_, value)| value.clone()));
            }
            Value::Loop(each) => {
                if let Some(value) = each.attribute(name, &self.meter)? {
                    return Ok(Some(value));
                }
            }
            Value::Cycler(cycler) if name == "current" => {
                return Ok(cycler.items.items.get(cycler.at.get()).cloned());
            }
            Value::Seq(seq) if seq.kind == SeqKind::Group => {
                let index = ["grouper", "list"].iter().position(|known| *known == name);
                if let Some(index) = index {
                    return Ok(seq.items.get(index).cloned());
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
                let whole = text.as_str();
                self.meter.walk(whole.len())?;
                let places: Vec<usize> =
                    whole.char_indices().map(|(at, _)| at).chain([whole.len()]).collect();
                let at = |index: usize| places.get(index).copied().unwrap_or(whole.len());
                let (from, to) = range(start, stop, stride, places.len() - 1);
                if stride == 1 {
                    return Ok(Value::Text(text.slice(at(from)..at(to.max(from)))?));
                }
                let mut out = crate::value::Builder::new(&self.meter)?;
                for index in indices(start, stop, stride, places.len() - 1) {
                    self.meter.spend(1)?;
                    out.push_slice(text, at(index)..at(index + 1))?;
                }
                Ok(Value::Text(out.finish_like(text)))
            }
            Value::Seq(seq)
                if matches!(seq.kind, SeqKind::List | SeqKind::Tuple | SeqKind::Group) =>
            {
                let kind = if seq.kind == SeqKind::List { SeqKind::List } else { SeqKind::Tuple };
                let mut items = Vec::new();
                for index in indices(start, stop, stride, seq.items.len()) {
                    self.meter.spend(1)?;
                    items.extend(seq.items.get(index).cloned());
                }
                Value::seq(kind, items, &self.meter)
            }
            Value::Range(span) => {
                let items = indices(start, stop, stride, span.len()).map(|index| span.get(index));
                Value::list(items.collect(), &self.meter)
            }
            _ => Err(Error::value(format!("'{}' object is not subscriptable", object.type_name()))),
        }
    }
}

/// The name of a type as Jinja writes it.
fn type_of(object: &Value) -> &'static str {
    match object {
        Value::None => "None",
        _ => object.type_name(),
    }
}

/// The place that an index means, from the end where it is negative.
fn position(key: &Value, length: usize) -> Option<usize> {
    let index = key.as_int()?;
    let index = if index < 0 { index.checked_add(length as i128)? } else { index };
    usize::try_from(index).ok().filter(|index| *index < length)
}

/// The bounds of a slice with a positive stride.
fn range(start: Option<i128>, stop: Option<i128>, stride: i128, length: usize) -> (usize, usize) {
    let mut places = indices(start, stop, stride.max(1), length);
    match places.next() {
        Some(first) => (first, places.last().unwrap_or(first) + 1),
        None => (0, 0),
    }
}

/// The places that a slice takes, as Python has them.
fn indices(
    start: Option<i128>,
    stop: Option<i128>,
    stride: i128,
    length: usize,
) -> impl Iterator<Item = usize> {
    let size = length as i128;
    let clamp = |index: i128, low: i128, high: i128| {
        let index = if index < 0 { index.saturating_add(size) } else { index };
        index.clamp(low, high)
    };
    let (mut at, stop) = if stride > 0 {
        (
            start.map_or(0, |start| clamp(start, 0, size)),
            stop.map_or(size, |stop| clamp(stop, 0, size)),
        )
    } else {
        (
            start.map_or(size - 1, |start| clamp(start, -1, size - 1)),
            stop.map_or(-1, |stop| clamp(stop, -1, size - 1)),
        )
    };
    std::iter::from_fn(move || {
        let more = if stride > 0 { at < stop } else { at > stop };
        let found = more.then(|| usize::try_from(at).ok()).flatten()?;
        at = at.saturating_add(stride);
        Some(found)
    })
}
