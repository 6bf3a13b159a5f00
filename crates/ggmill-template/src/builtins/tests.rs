//! The tests of Jinja: what follows `is`.

use super::{Args, is_filter};
use crate::error::{Error, Result};
use crate::run::{Run, Sign, compare, contains};
use crate::value::{SeqKind, Value, show};

/// The names of all tests.
const NAMES: &[&str] = &[
    "!=",
    "<",
    "<=",
    "==",
    ">",
    ">=",
    "boolean",
    "callable",
    "defined",
    "divisibleby",
    "eq",
    "equalto",
    "escaped",
    "even",
    "false",
    "filter",
    "float",
    "ge",
    "greaterthan",
    "gt",
    "in",
    "integer",
    "iterable",
    "le",
    "lessthan",
    "lower",
    "lt",
    "mapping",
    "ne",
    "none",
    "number",
    "odd",
    "sameas",
    "sequence",
    "string",
    "test",
    "true",
    "undefined",
    "upper",
];

pub(crate) fn apply_test(name: &str, value: &Value, args: &Args, run: &Run<'_>) -> Result<bool> {
    let meter = &run.meter;
    let other = || args.one(name);
    let whole = || {
        value.defined()?;
        value.as_int().ok_or_else(|| {
            Error::value(format!(
                "not all arguments converted: the test {name} takes a number, not {}",
                value.type_name()
            ))
        })
    };
    Ok(match name {
        "defined" => !matches!(value, Value::Undefined(_)),
        "undefined" => matches!(value, Value::Undefined(_)),
        "none" => matches!(value, Value::None),
        "string" => matches!(value, Value::Text(_)),
        "mapping" => matches!(value, Value::Dict(_)),
        "boolean" => matches!(value, Value::Bool(_)),
        "true" => matches!(value, Value::Bool(true)),
        "false" => matches!(value, Value::Bool(false)),
        "integer" => matches!(value, Value::Int(_)),
        "float" => matches!(value, Value::Float(_)),
        "number" => value.is_number(),
        "iterable" => !matches!(
            value,
            Value::None
                | Value::Bool(_)
                | Value::Int(_)
                | Value::Float(_)
                | Value::Function(_)
                | Value::Method(_)
                | Value::Macro(_)
                | Value::Namespace(_)
                | Value::Cycler(_)
                | Value::Joiner(_)
        ),
        "sequence" => match value {
            Value::Seq(seq) => {
                !matches!(seq.kind, SeqKind::Items | SeqKind::Keys | SeqKind::Values)
            }
            Value::Text(_) | Value::Dict(_) | Value::Range(_) | Value::Undefined(_) => true,
            _ => false,
        },
        "callable" => matches!(
            value,
            Value::Function(_)
                | Value::Method(_)
                | Value::Macro(_)
                | Value::Joiner(_)
                | Value::Loop(_)
                | Value::Undefined(_)
        ),
        "escaped" => matches!(value, Value::Text(text) if text.is_safe()),
        "lower" => is_cased(value, char::is_lowercase, char::is_uppercase, run)?,
        "upper" => is_cased(value, char::is_uppercase, char::is_lowercase, run)?,
        "even" => whole()? % 2 == 0,
        "odd" => whole()? % 2 != 0,
        "divisibleby" => {
            let by = super::args::integer(Some(&other()?), 0)?;
            whole()?.checked_rem_euclid(by).ok_or_else(|| Error::value("integer modulo by zero"))?
                == 0
        }
        "in" => contains(&other()?, value, meter)?,
        "sameas" => {
            let other = other()?;
            value.type_name() == other.type_name() && compare(Sign::Eq, value, &other, meter)?
        }
        "eq" | "equalto" | "==" => compare(Sign::Eq, value, &other()?, meter)?,
        "ne" | "!=" => compare(Sign::Ne, value, &other()?, meter)?,
        "lt" | "lessthan" | "<" => compare(Sign::Lt, value, &other()?, meter)?,
        "le" | "<=" => compare(Sign::Le, value, &other()?, meter)?,
        "gt" | "greaterthan" | ">" => compare(Sign::Gt, value, &other()?, meter)?,
        "ge" | ">=" => compare(Sign::Ge, value, &other()?, meter)?,
        "filter" => matches!(value, Value::Text(text) if is_filter(text.as_str())),
        "test" => matches!(value, Value::Text(text) if NAMES.contains(&text.as_str())),
        _ => return Err(Error::value(format!("no test named '{name}'"))),
    })
}

/// Whether a text has letters of one case and none of the other.
fn is_cased(
    value: &Value,
    wanted: fn(char) -> bool,
    other: fn(char) -> bool,
    run: &Run<'_>,
) -> Result<bool> {
    let text = show(value, &run.meter)?;
    run.meter.walk(text.as_str().len())?;
    Ok(super::text::is_cased(text.as_str(), wanted, other))
}
