//! The arguments of a call.

use crate::error::{Error, Result};
use crate::value::{Text, Value};

/// Arguments by position and by name.
#[derive(Clone, Debug, Default)]
pub(crate) struct Args {
    pub(crate) positional: Vec<Value>,
    /// The names of `**mapping` can be text of the conversation.
    pub(crate) named: Vec<(Text, Value)>,
}

impl Args {
    /// The arguments of a function with these parameters.
    pub(crate) fn bind<const N: usize>(
        self,
        what: &str,
        names: [&str; N],
    ) -> Result<[Option<Value>; N]> {
        let given = self.positional.len();
        if given > N {
            return Err(Error::value(format!(
                "{what}() takes {N} arguments but {given} were given"
            )));
        }
        let mut positional = self.positional.into_iter();
        let mut bound = [const { None }; N];
        for slot in &mut bound {
            *slot = positional.next();
        }
        for (name, value) in self.named {
            let name = name.as_str();
            let place = names.iter().position(|known| *known == name);
            match place.and_then(|place| bound.get_mut(place)) {
                Some(slot) if slot.is_none() => *slot = Some(value),
                Some(_) => {
                    return Err(Error::value(format!(
                        "{what}() got multiple values for argument '{name}'"
                    )));
                }
                None => {
                    return Err(Error::value(format!(
                        "{what}() got an unexpected keyword argument '{name}'"
                    )));
                }
            }
        }
        Ok(bound)
    }

    /// The only argument.
    pub(crate) fn one(&self, what: &str) -> Result<Value> {
        match (&*self.positional, &*self.named) {
            ([value], []) => Ok(value.clone()),
            _ => Err(Error::value(format!("{what}() takes exactly one argument"))),
        }
    }

    /// No argument.
    pub(crate) fn none(&self, what: &str) -> Result<()> {
        if self.positional.is_empty() && self.named.is_empty() {
            return Ok(());
        }
        Err(Error::value(format!("{what}() takes no arguments")))
    }

    pub(crate) fn take_named(&mut self, name: &str) -> Option<Value> {
        let place = self.named.iter().position(|(known, _)| known.as_str() == name)?;
        Some(self.named.remove(place).1)
    }

    /// Without the first positional argument, and that.
    pub(crate) fn shift(&mut self) -> Option<Value> {
        (!self.positional.is_empty()).then(|| self.positional.remove(0))
    }
}

/// A parameter that must be given.
pub(crate) fn required(value: Option<Value>, what: &str) -> Result<Value> {
    value.ok_or_else(|| Error::value(format!("{what}() is missing a required argument")))
}

/// A whole number, or the default where none is given.
pub(crate) fn integer(value: Option<&Value>, default: i128) -> Result<i128> {
    match value {
        None => Ok(default),
        Some(Value::Undefined(missing)) => Err(missing.error()),
        Some(value) => value.as_int().ok_or_else(|| {
            Error::value(format!(
                "'{}' object cannot be interpreted as an integer",
                value.type_name()
            ))
        }),
    }
}

/// A width or a count.
pub(crate) fn size(value: Option<&Value>, default: i128) -> Result<usize> {
    Ok(usize::try_from(integer(value, default)?.max(0)).unwrap_or(usize::MAX))
}

/// Whether an argument is true.
pub(crate) fn flag(value: Option<&Value>, default: bool) -> bool {
    value.map_or(default, Value::is_true)
}

/// A number of splits: none where it is negative.
pub(super) fn splits(value: Option<&Value>) -> Result<Option<usize>> {
    match value.and_then(Value::as_int) {
        Some(count) if count < 0 => Ok(None),
        _ => value.map(|value| size(Some(value), 0)).transpose(),
    }
}
