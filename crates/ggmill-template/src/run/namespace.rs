//! Namespaces, whose attributes a template can set.

use std::rc::Rc;

use crate::error::Result;
use crate::meter::{Held, Meter};
use crate::value::{Text, Value};

/// The attributes of a namespace, in order.
#[derive(Debug)]
pub(crate) struct Namespace {
    pub(crate) entries: Vec<(Text, Value)>,
    held: Held,
}

impl Namespace {
    pub(crate) fn new(entries: Vec<(Text, Value)>, meter: &Rc<Meter>) -> Result<Self> {
        let bytes = size_of::<Self>() + entries.capacity() * size_of::<(Text, Value)>();
        meter.walk(bytes)?;
        Ok(Self { entries, held: Held::new(meter, bytes)? })
    }

    /// Adds an attribute that does not exist.
    pub(crate) fn push(&mut self, name: Text, value: Value) -> Result<()> {
        self.held.hold(2 * size_of::<(Text, Value)>())?;
        self.entries.push((name, value));
        Ok(())
    }
}
