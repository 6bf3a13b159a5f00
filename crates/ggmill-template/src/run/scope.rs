//! Variables.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use crate::error::Result;
use crate::meter::{Held, Meter};
use crate::value::Value;

/// Bytes of a scope, and of the first of the nodes that hold its variables: one has room for 11.
const SCOPE: usize = 128;
const FIRST: usize = 11 * ENTRY;
/// Bytes of a variable.
const ENTRY: usize = size_of::<(&str, Value)>();

/// The variables of a loop's turn, a macro's call or the template, and what is around them.
#[derive(Debug)]
pub(crate) struct Scope<'t> {
    variables: RefCell<BTreeMap<&'t str, Value>>,
    held: RefCell<Held>,
    around: Option<Rc<Self>>,
}

impl<'t> Scope<'t> {
    pub(crate) fn root(meter: &Rc<Meter>) -> Result<Rc<Self>> {
        Self::new(meter, None)
    }

    pub(crate) fn within(around: &Rc<Self>) -> Result<Rc<Self>> {
        let meter = Rc::clone(around.held.borrow().meter());
        Self::new(&meter, Some(Rc::clone(around)))
    }

    fn new(meter: &Rc<Meter>, around: Option<Rc<Self>>) -> Result<Rc<Self>> {
        let held = RefCell::new(Held::new(meter, SCOPE)?);
        Ok(Rc::new(Self { variables: RefCell::default(), held, around }))
    }

    pub(crate) fn set(&self, name: &'t str, value: Value) -> Result<()> {
        let mut variables = self.variables.borrow_mut();
        if let Some(old) = variables.get_mut(name) {
            *old = value;
            return Ok(());
        }
        // A tree that grows in order has nodes that are half full.
        let bytes = if variables.is_empty() { FIRST } else { 2 * ENTRY };
        self.held.borrow_mut().hold(bytes)?;
        variables.insert(name, value);
        Ok(())
    }

    pub(crate) fn get(&self, name: &str) -> Option<Value> {
        let mut scope = self;
        loop {
            if let Some(value) = scope.variables.borrow().get(name) {
                return Some(value.clone());
            }
            scope = scope.around.as_deref()?;
        }
    }
}
