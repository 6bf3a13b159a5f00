//! Values while a graph is built, and the arguments of operations.

use super::{Arithmetic, Output, Rows};
use crate::language::expression::{Operator, Outcome};
use crate::value::ParameterValue;

/// A value while a graph is built.
#[derive(Clone, Debug)]
pub(super) enum Value {
    /// A number, text or list that is known before the model runs.
    Known(ParameterValue),
    /// The result of a node.
    Tensor(usize),
    /// The result of a node that is expert indices.
    Choice(usize),
    /// The result of a node that is selected tokens.
    Picks(usize),
    /// The tensors of the model whose names have this prefix.
    Weight(String),
    /// An input of the graph, by index.
    Input(usize),
    List(Vec<Self>),
    /// The output of a graph.
    Output(usize, Output),
}

impl Value {
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Self::Known(value) => value.type_name(),
            Self::Tensor(_) => "a per-token value",
            Self::Choice(_) => "a selection of experts",
            Self::Picks(_) => "a selection of tokens",
            Self::Weight(_) => "a tensor",
            Self::Input(_) => "an input",
            Self::List(_) => "a list",
            Self::Output(..) => "the output",
        }
    }

    /// Returns the known value. Fails for the result of a node and for a tensor.
    pub(super) fn known(self) -> Outcome<ParameterValue> {
        match self {
            Self::Known(value) => Ok(value),
            Self::List(values) => {
                let values = values.into_iter().map(Self::known);
                Ok(ParameterValue::List(values.collect::<Outcome<Vec<_>>>()?.into()))
            }
            Self::Weight(name) => Err(format!("needs a number, but {name} is a tensor")),
            other => Err(format!("needs a number, found {}", other.kind())),
        }
    }

    pub(super) fn into_list(self) -> Outcome<Vec<Self>> {
        match self {
            Self::List(values) => Ok(values),
            other => Err(format!("needs a list, found {}", other.kind())),
        }
    }
}

/// The maximum nesting depth of lists.
const MAX_LISTS: usize = 8;
/// The maximum number of values of a list, including nested ones.
const MAX_VALUES: usize = 1 << 16;

/// Returns the number of values of a list, including nested ones, or of bytes of a text; and its depth.
pub(super) fn measure(value: &Value) -> (usize, usize) {
    fn known(value: &ParameterValue) -> (usize, usize) {
        match value {
            ParameterValue::List(values) => sum(values.len(), values.iter().map(known)),
            ParameterValue::Str(text) => (text.len(), 0),
            _ => (0, 0),
        }
    }
    fn sum(count: usize, inner: impl Iterator<Item = (usize, usize)>) -> (usize, usize) {
        let add = |all: (usize, usize), one: (usize, usize)| {
            (all.0.saturating_add(one.0), all.1.max(one.1))
        };
        let (all, depth) = inner.fold((count, 0), add);
        (all, depth.saturating_add(1))
    }
    match value {
        Value::Known(value) => known(value),
        Value::List(values) => sum(values.len(), values.iter().map(measure)),
        _ => (0, 0),
    }
}

/// Returns the number of values of a list. Fails if it is too large or too deep, or if a text is too
/// long: concatenation could double them with every statement.
pub(super) fn bounded(value: &Value) -> Outcome<usize> {
    let (all, depth) = measure(value);
    if all > MAX_VALUES || depth > MAX_LISTS {
        return Err(format!(
            "has {all} values in {depth} levels, the limit is {MAX_VALUES} in {MAX_LISTS}"
        ));
    }
    Ok(all)
}

/// The remaining arguments and options of an operation.
pub(super) struct Argument<'a> {
    given: std::vec::IntoIter<Value>,
    options: Vec<(&'a str, Value)>,
}

impl<'a> Argument<'a> {
    pub(super) fn of(given: Vec<Value>, options: Vec<(&'a str, Value)>) -> Self {
        Self { given: given.into_iter(), options }
    }

    /// Takes the next argument.
    pub(super) fn next(&mut self) -> Outcome<Value> {
        self.given.next().ok_or_else(|| "takes more arguments".into())
    }

    /// Takes the result of a node.
    pub(super) fn tensor(&mut self) -> Outcome<usize> {
        match self.next()? {
            Value::Tensor(node) => Ok(node),
            Value::Weight(name) => Err(format!("takes a per-token value, but {name} is a tensor")),
            other => Err(format!("takes a per-token value, found {}", other.kind())),
        }
    }

    /// Takes expert indices, the result of `top` or `choice`.
    pub(super) fn choice(&mut self) -> Outcome<usize> {
        match self.next()? {
            Value::Choice(node) => Ok(node),
            other => Err(format!("takes a selection of experts, found {}", other.kind())),
        }
    }

    /// Takes the result of a node, or `none`.
    pub(super) fn optional_tensor(&mut self) -> Outcome<Option<usize>> {
        match self.next()? {
            Value::Tensor(node) => Ok(Some(node)),
            Value::Known(ParameterValue::None) => Ok(None),
            other => Err(format!("takes a per-token value or none, found {}", other.kind())),
        }
    }

    fn list(&mut self) -> Outcome<Vec<Value>> {
        match self.next()? {
            Value::Known(ParameterValue::List(values)) => {
                Ok(values.iter().cloned().map(Value::Known).collect())
            }
            other => other.into_list(),
        }
    }

    /// Takes a list of numbers.
    pub(super) fn numbers(&mut self) -> Outcome<Vec<f32>> {
        self.list()?.into_iter().map(|value| number(&value.known()?)).collect()
    }

    /// Takes a list of integers.
    pub(super) fn wholes(&mut self) -> Outcome<Vec<u64>> {
        self.list()?.into_iter().map(|value| whole(&value.known()?)).collect()
    }

    /// Takes selected tokens, the result of `pick`, if the option is given.
    pub(super) fn picks_option(&mut self, name: &str) -> Outcome<Option<usize>> {
        match self.option(name) {
            None => Ok(None),
            Some(Value::Picks(node)) => Ok(Some(node)),
            Some(other) => Err(format!("has {name} = {}, expected a result of pick", other.kind())),
        }
    }

    /// Takes the prefix of tensor names.
    pub(super) fn weight(&mut self) -> Outcome<String> {
        match self.next()? {
            Value::Weight(name) => Ok(name),
            other => Err(format!("takes a tensor, found {}", other.kind())),
        }
    }

    /// Takes the prefix of tensor names, or `none`.
    pub(super) fn optional_weight(&mut self) -> Outcome<Option<String>> {
        optional_weight(self.next()?)
    }

    /// Takes the row selection of a table.
    pub(super) fn rows(&mut self) -> Outcome<Rows> {
        match self.next()? {
            Value::Input(0) => Ok(Rows::Tokens),
            Value::Input(_) => Ok(Rows::Positions),
            other => other.known().and_then(|value| whole(&value)).map(Rows::Fixed),
        }
    }

    pub(super) fn whole(&mut self) -> Outcome<u64> {
        whole(&self.next()?.known()?)
    }

    pub(super) fn number(&mut self) -> Outcome<f32> {
        number(&self.next()?.known()?)
    }

    pub(super) fn text(&mut self) -> Outcome<ParameterValue> {
        match self.next()? {
            // In a file, every text is parsed as a tensor name.
            Value::Weight(text) => Ok(ParameterValue::Str(text.into())),
            other => other.known(),
        }
    }

    fn option(&mut self, name: &str) -> Option<Value> {
        let index = self.options.iter().position(|(option, _)| *option == name)?;
        let (_, value) = self.options.swap_remove(index);
        (!matches!(value, Value::Known(ParameterValue::None))).then_some(value)
    }

    pub(super) fn number_option(&mut self, name: &str, default: f32) -> Outcome<f32> {
        self.option(name).map_or(Ok(default), |value| number(&value.known()?))
    }

    pub(super) fn whole_option(&mut self, name: &str) -> Outcome<u64> {
        self.option(name).map_or(Ok(0), |value| whole(&value.known()?))
    }

    /// Takes an integer, if the option is given; 0 differs from no option.
    pub(super) fn optional_whole(&mut self, name: &str) -> Outcome<Option<u64>> {
        self.option(name).map(|value| whole(&value.known()?)).transpose()
    }

    /// Takes the result of a node, if the option is given.
    pub(super) fn tensor_option(&mut self, name: &str) -> Outcome<Option<usize>> {
        match self.option(name) {
            None => Ok(None),
            Some(Value::Tensor(node)) => Ok(Some(node)),
            Some(other) => {
                Err(format!("has {name} = {}, expected a per-token value", other.kind()))
            }
        }
    }

    pub(super) fn bool_option(&mut self, name: &str, default: bool) -> Outcome<bool> {
        let Some(value) = self.option(name) else { return Ok(default) };
        let value = value.known()?;
        value.as_bool().ok_or_else(|| format!("has {name} = {value}, expected true or false"))
    }

    pub(super) fn weight_option(&mut self, name: &str) -> Outcome<Option<String>> {
        self.option(name).map_or(Ok(None), optional_weight)
    }

    /// Takes a list of `N` numbers, if the option is given.
    pub(super) fn numbers_option<const N: usize>(
        &mut self,
        name: &str,
    ) -> Outcome<Option<[f32; N]>> {
        let Some(value) = self.option(name) else { return Ok(None) };
        let values = value.into_list()?;
        let numbers = values.into_iter().map(|value| number(&value.known()?));
        let numbers: Vec<f32> = numbers.collect::<Outcome<_>>()?;
        let count = numbers.len();
        let numbers = numbers.try_into();
        numbers.map(Some).map_err(|_| format!("has {name} of {count} numbers, expected {N}"))
    }
}

fn optional_weight(value: Value) -> Outcome<Option<String>> {
    match value {
        Value::Weight(name) => Ok(Some(name)),
        Value::Known(ParameterValue::None) => Ok(None),
        other => Err(format!("takes a tensor or none, found {}", other.kind())),
    }
}

fn whole(value: &ParameterValue) -> Outcome<u64> {
    value.as_u64().ok_or_else(|| format!("takes an integer of at least 0, found {value}"))
}

/// Converts a value to a single-precision number. Fails if it is not finite.
pub(super) fn number(value: &ParameterValue) -> Outcome<f32> {
    #[expect(clippy::cast_possible_truncation, reason = "graphs compute in single precision")]
    let single = value.as_f64().map(|number| number as f32);
    single
        .filter(|number| number.is_finite())
        .ok_or_else(|| format!("takes a single-precision number, found {value}"))
}

/// Converts an operator to one between tensors.
pub(super) fn arithmetic(operator: Operator) -> Outcome<Arithmetic> {
    match operator {
        Operator::Add => Ok(Arithmetic::Add),
        Operator::Subtract => Ok(Arithmetic::Subtract),
        Operator::Multiply => Ok(Arithmetic::Multiply),
        Operator::Divide => Ok(Arithmetic::Divide),
        _ => Err("has an operator that cannot be applied to tensors".into()),
    }
}
