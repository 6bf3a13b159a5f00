//! Variables.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use crate::value::Value;

/// The variables of a loop's turn, a macro's call or the template, and what is around them.
#[derive(Debug)]
pub(crate) struct Scope<'t> {
    variables: RefCell<BTreeMap<&'t str, Value>>,
    around: Option<Rc<Self>>,
}

impl<'t> Scope<'t> {
    pub(crate) fn root() -> Rc<Self> {
        Rc::new(Self { variables: RefCell::default(), around: None })
    }

    pub(crate) fn within(around: &Rc<Self>) -> Rc<Self> {
        Rc::new(Self { variables: RefCell::default(), around: Some(Rc::clone(around)) })
    }

    pub(crate) fn set(&self, name: &'t str, value: Value) {
        self.variables.borrow_mut().insert(name, value);
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
