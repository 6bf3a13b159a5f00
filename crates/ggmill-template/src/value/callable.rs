//! Callable values: functions, methods, and loops.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use super::{Seq, SeqKind, Value, equal};
use crate::error::{Error, Result};
use crate::meter::{Held, Meter};

/// A function that every template has.
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

/// The state of a `for` loop, as the variable `loop` shows it.
#[derive(Debug)]
pub(crate) struct Loop {
    pub(crate) items: Rc<Seq>,
    pub(crate) index: Cell<usize>,
    pub(crate) depth: usize,
    changed: RefCell<Option<Rc<Seq>>>,
    /// The number of the statement, where it is recursive.
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

    /// Forgets what `loop.changed` was called with, which may hold the loop.
    pub(crate) fn end(&self) {
        *self.changed.borrow_mut() = None;
    }

    pub(crate) fn repr(&self) -> String {
        format!("<LoopContext {}/{}>", self.index.get() + 1, self.items.items.len())
    }

    pub(crate) fn attribute(&self, name: &str, meter: &Rc<Meter>) -> Result<Option<Value>> {
        let (index, length) = (self.index.get(), self.items.items.len());
        let at = |index: Option<usize>, what: &str| match index
            .and_then(|index| self.items.items.get(index))
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

    /// `loop.cycle(…)` and `loop.changed(…)`.
    pub(crate) fn call(&self, name: &str, values: &[Value], meter: &Rc<Meter>) -> Result<Value> {
        if name == "cycle" {
            let index = self.index.get().checked_rem(values.len());
            let value = index.and_then(|index| values.get(index));
            return value.cloned().ok_or_else(|| Error::value("no items for cycling given"));
        }
        let mut last = self.changed.borrow_mut();
        let same = match &*last {
            Some(last) if last.items.len() == values.len() => {
                let mut same = true;
                for (left, right) in last.items.iter().zip(values) {
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
