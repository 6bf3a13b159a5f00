//! Python's operators.

use std::rc::Rc;

use minijinja::machinery::ast::BinOpKind;

use crate::error::{Error, ErrorKind, Result};
use crate::meter::Meter;
use crate::value::{Builder, SeqKind, Value, equal, less, show_into};

/// A comparison.
#[derive(Clone, Copy)]
pub(crate) enum Sign {
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
}

pub(crate) fn compare(sign: Sign, left: &Value, right: &Value, meter: &Meter) -> Result<bool> {
    // Not `!less(second, first)`: both are false for NaN.
    let either = |first: &Value, second: &Value, text: &str| {
        Ok(less(first, second, text, meter)? || equal(first, second, meter)?)
    };
    match sign {
        Sign::Eq => equal(left, right, meter),
        Sign::Ne => Ok(!equal(left, right, meter)?),
        Sign::Lt => less(left, right, "<", meter),
        Sign::Le => either(left, right, "<="),
        Sign::Gt => less(right, left, ">", meter),
        Sign::Ge => either(right, left, ">="),
    }
}

/// Returns `true` if a container has a value.
pub(crate) fn contains(container: &Value, value: &Value, meter: &Rc<Meter>) -> Result<bool> {
    match container {
        Value::Text(text) => match value {
            Value::Text(part) => Ok(text.read()?.contains(part.read()?)),
            Value::Undefined(missing) => Err(missing.error()),
            _ => Err(Error::value(format!(
                "'in <string>' requires string as left operand, not {}",
                value.type_name()
            ))),
        },
        Value::Dict(dict) => Ok(dict.get(value)?.is_some()),
        Value::Range(_) | Value::Seq(_) | Value::Undefined(_) | Value::Generator(_) => {
            for item in container.iterate(meter)?.read()? {
                if equal(item, value, meter)? {
                    return Ok(true);
                }
            }
            Ok(false)
        }
        _ => Err(Error::value(format!(
            "argument of type '{}' is not iterable",
            container.type_name()
        ))),
    }
}

fn refused(sign: &str, left: &Value, right: &Value) -> Error {
    for value in [left, right] {
        if let Value::Undefined(missing) = value {
            return missing.error();
        }
    }
    Error::value(format!(
        "unsupported operand type(s) for {sign}: '{}' and '{}'",
        left.type_name(),
        right.type_name()
    ))
}

pub(crate) fn add(left: &Value, right: &Value, meter: &Rc<Meter>) -> Result<Value> {
    match (left, right) {
        (Value::Text(first), Value::Text(second)) => {
            let mut out = Builder::new(meter)?;
            if first.is_safe() || second.is_safe() {
                out.push_text(&first.escaped()?)?;
                out.push_text(&second.escaped()?)?;
                return Ok(Value::Text(out.finish().safe()?));
            }
            out.push_text(first)?;
            out.push_text(second)?;
            Ok(Value::Text(out.finish()))
        }
        (Value::Text(_), Value::Undefined(missing)) | (Value::Undefined(missing), _) => {
            Err(missing.error())
        }
        (Value::Text(_), _) => Err(Error::value(format!(
            "can only concatenate str (not \"{}\") to str",
            right.type_name()
        ))),
        (Value::Seq(first), Value::Seq(second)) => {
            let tuple = |kind| matches!(kind, SeqKind::Tuple | SeqKind::Group);
            let lists = first.kind == SeqKind::List && second.kind == SeqKind::List;
            if !(lists || tuple(first.kind) && tuple(second.kind)) {
                return Err(refused("+", left, right));
            }
            let kind = if lists { SeqKind::List } else { SeqKind::Tuple };
            let (first, second) = (first.read()?, second.read()?);
            let mut items = Vec::with_capacity(first.len() + second.len());
            items.extend(first.iter().chain(second).cloned());
            Value::seq(kind, items, meter)
        }
        _ => arithmetic(BinOpKind::Add, left, right),
    }
}

pub(crate) fn multiply(left: &Value, right: &Value, meter: &Rc<Meter>) -> Result<Value> {
    let (object, count) = match (left, right) {
        (Value::Text(_) | Value::Seq(_), _) => (left, right),
        (_, Value::Text(_) | Value::Seq(_)) => (right, left),
        _ => return arithmetic(BinOpKind::Mul, left, right),
    };
    let Some(count) = count.as_int() else {
        if let Value::Undefined(missing) = count {
            return Err(missing.error());
        }
        return Err(Error::value(format!(
            "can't multiply sequence by non-int of type '{}'",
            count.type_name()
        )));
    };
    let count = usize::try_from(count.max(0)).unwrap_or(usize::MAX);
    match object {
        Value::Text(text) => {
            let mut out = Builder::new(meter)?;
            if !text.is_empty() {
                for _ in 0..count {
                    meter.spend(1)?;
                    out.push_text(text)?;
                }
            }
            Ok(Value::Text(out.finish_like(text)))
        }
        Value::Seq(seq) if matches!(seq.kind, SeqKind::List | SeqKind::Tuple) => {
            let count = if seq.is_empty() { 0 } else { count };
            let length = seq.len().saturating_mul(count);
            meter.spend(length as u64)?;
            // Check the memory limit before allocating.
            let room = crate::meter::Held::new(meter, length.saturating_mul(size_of::<Value>()))?;
            let one = seq.read()?;
            let items = (0..count).flat_map(|_| one.iter().cloned()).collect();
            drop(room);
            Value::seq(seq.kind, items, meter)
        }
        _ => Err(refused("*", left, right)),
    }
}

pub(crate) fn concat(left: &Value, right: &Value, meter: &Rc<Meter>) -> Result<Value> {
    let mut out = Builder::new(meter)?;
    show_into(left, &mut out)?;
    show_into(right, &mut out)?;
    Ok(Value::Text(out.finish()))
}

pub(crate) fn negate(value: &Value) -> Result<Value> {
    match value {
        Value::Float(value) => Ok(Value::Float(-value)),
        Value::Undefined(missing) => Err(missing.error()),
        _ => match value.as_int() {
            Some(value) => value.checked_neg().map(Value::Int).ok_or_else(overflow),
            None => {
                Err(Error::value(format!("bad operand type for unary -: '{}'", value.type_name())))
            }
        },
    }
}

fn overflow() -> Error {
    Error::new(ErrorKind::Limit, "an integer of more than 128 bits")
}

/// Returns a bound of a slice: an integer or `None`.
pub(crate) fn index(value: &Value) -> Result<Option<i128>> {
    match value {
        Value::None => Ok(None),
        Value::Undefined(missing) => Err(missing.error()),
        _ => value.as_int().map(Some).ok_or_else(|| {
            Error::value("slice indices must be integers or None or have an __index__ method")
        }),
    }
}

/// Evaluates arithmetic on numbers.
pub(crate) fn arithmetic(op: BinOpKind, left: &Value, right: &Value) -> Result<Value> {
    let sign = match op {
        BinOpKind::Add => "+",
        BinOpKind::Sub => "-",
        BinOpKind::Mul => "*",
        BinOpKind::Div => "/",
        BinOpKind::FloorDiv => "//",
        BinOpKind::Rem => "%",
        _ => "** or pow()",
    };
    if let (Some(first), Some(second)) = (left.as_int(), right.as_int()) {
        let by_zero = || Err(Error::value("division by zero"));
        let found = match op {
            BinOpKind::Add => first.checked_add(second),
            BinOpKind::Sub => first.checked_sub(second),
            BinOpKind::Mul => first.checked_mul(second),
            BinOpKind::FloorDiv | BinOpKind::Rem | BinOpKind::Div if second == 0 => {
                return by_zero();
            }
            BinOpKind::Div => return float_arithmetic(op, left, right, sign),
            BinOpKind::FloorDiv => first.checked_div_euclid(second).and_then(|quotient| {
                // Euclid's remainder is never negative; Python's has the sign of the divisor.
                let remainder = first.checked_rem_euclid(second)?;
                if second < 0 && remainder != 0 { quotient.checked_sub(1) } else { Some(quotient) }
            }),
            BinOpKind::Rem => first.checked_rem_euclid(second).and_then(|remainder| {
                if second < 0 && remainder != 0 {
                    remainder.checked_add(second)
                } else {
                    Some(remainder)
                }
            }),
            _ if second < 0 => return float_arithmetic(op, left, right, sign),
            _ => u32::try_from(second).ok().and_then(|power| first.checked_pow(power)),
        };
        return found.map(Value::Int).ok_or_else(overflow);
    }
    float_arithmetic(op, left, right, sign)
}

fn float_arithmetic(op: BinOpKind, left: &Value, right: &Value, sign: &str) -> Result<Value> {
    let (Some(first), Some(second)) = (left.as_float(), right.as_float()) else {
        return Err(refused(sign, left, right));
    };
    let divides = matches!(op, BinOpKind::Div | BinOpKind::FloorDiv | BinOpKind::Rem);
    if divides && second == 0.0 {
        return Err(Error::value("float division by zero"));
    }
    let remainder = |first: f64, second: f64| {
        let rest = first % second;
        if rest != 0.0 && (rest < 0.0) != (second < 0.0) { rest + second } else { rest }
    };
    Ok(Value::Float(match op {
        BinOpKind::Add => first + second,
        BinOpKind::Sub => first - second,
        BinOpKind::Mul => first * second,
        BinOpKind::Div => first / second,
        BinOpKind::FloorDiv => ((first - remainder(first, second)) / second).round(),
        BinOpKind::Rem => remainder(first, second),
        _ => first.powf(second),
    }))
}

/// Sets the value of a key; an existing key keeps its position.
pub(crate) fn set_entry(
    entries: &mut Vec<(Value, Value)>,
    key: Value,
    value: Value,
    meter: &Meter,
) -> Result<()> {
    for (known, old) in entries.iter_mut() {
        if equal(known, &key, meter)? {
            *old = value;
            return Ok(());
        }
    }
    entries.push((key, value));
    Ok(())
}
