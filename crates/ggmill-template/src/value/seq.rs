//! Sequences and dictionaries, whose items are counted where they are read.

use std::rc::Rc;

use super::{Value, equal};
use crate::error::{Error, ErrorKind, Result};
use crate::meter::{Held, Meter};

/// Maximum nesting depth of lists and dictionaries.
const MAX_DEPTH: u16 = 100;

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

/// A sequence of values.
#[derive(Debug)]
pub(crate) struct Seq {
    pub(crate) kind: SeqKind,
    items: Vec<Value>,
    depth: u16,
    held: Held,
}

impl Seq {
    pub(crate) fn new(kind: SeqKind, items: Vec<Value>, meter: &Rc<Meter>) -> Result<Rc<Self>> {
        let depth = deeper(items.iter().map(Value::depth))?;
        let bytes = 64 + items.capacity() * size_of::<Value>();
        meter.walk(bytes)?;
        let held = Held::new(meter, bytes)?;
        Ok(Rc::new(Self { kind, items, depth, held }))
    }

    /// Returns the items, and counts the steps of reading all of them.
    pub(crate) fn read(&self) -> Result<&[Value]> {
        self.held.meter().walk(self.items.len().saturating_mul(size_of::<Value>()))?;
        Ok(&self.items)
    }

    pub(crate) fn get(&self, index: usize) -> Option<&Value> {
        self.items.get(index)
    }

    pub(crate) fn len(&self) -> usize {
        self.items.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    pub(super) fn depth(&self) -> u16 {
        self.depth
    }
}

/// A dictionary in insertion order.
#[derive(Debug)]
pub(crate) struct Dict {
    entries: Vec<(Value, Value)>,
    depth: u16,
    held: Held,
}

impl Dict {
    pub(crate) fn new(entries: Vec<(Value, Value)>, meter: &Rc<Meter>) -> Result<Rc<Self>> {
        let depth = deeper(entries.iter().flat_map(|(key, value)| [key.depth(), value.depth()]))?;
        let bytes = 64 + entries.capacity() * size_of::<(Value, Value)>();
        meter.walk(bytes)?;
        let held = Held::new(meter, bytes)?;
        Ok(Rc::new(Self { entries, depth, held }))
    }

    /// Returns the entries, and counts the steps of reading all of them.
    pub(crate) fn read(&self) -> Result<&[(Value, Value)]> {
        self.held.meter().walk(self.entries.len().saturating_mul(size_of::<(Value, Value)>()))?;
        Ok(&self.entries)
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Returns a copy of the keys.
    pub(crate) fn keys(&self) -> Result<Vec<Value>> {
        Ok(self.read()?.iter().map(|(key, _)| key.clone()).collect())
    }

    pub(crate) fn get(&self, key: &Value) -> Result<Option<&Value>> {
        for (known, value) in &self.entries {
            if equal(known, key, self.held.meter())? {
                return Ok(Some(value));
            }
        }
        Ok(None)
    }

    pub(crate) fn get_str(&self, key: &str) -> Result<Option<&Value>> {
        self.held.meter().spend((self.entries.len() / 8) as u64)?;
        for (known, value) in &self.entries {
            if let Value::Text(text) = known
                && text.is(key)?
            {
                return Ok(Some(value));
            }
        }
        Ok(None)
    }

    pub(super) fn depth(&self) -> u16 {
        self.depth
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
