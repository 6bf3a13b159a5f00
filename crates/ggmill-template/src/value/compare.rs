//! Python's `==` and `<`.

use std::cmp::Ordering;
use std::rc::Rc;

use super::{SeqKind, Value};
use crate::error::{Error, Result};
use crate::meter::Meter;

/// Whether two values are equal.
pub(crate) fn equal(left: &Value, right: &Value, meter: &Meter) -> Result<bool> {
    meter.spend(1)?;
    Ok(match (left, right) {
        (Value::Undefined(_), Value::Undefined(_)) | (Value::None, Value::None) => true,
        (Value::Text(left), Value::Text(right)) => {
            meter.walk(left.as_str().len().min(right.as_str().len()))?;
            left.as_str() == right.as_str()
        }
        (Value::Seq(left), Value::Seq(right)) => {
            let views = [SeqKind::Items, SeqKind::Values, SeqKind::Keys];
            if Rc::ptr_eq(left, right) {
                return Ok(true);
            }
            if left.items.len() != right.items.len()
                || is_tuple(left.kind) != is_tuple(right.kind)
                || views.contains(&left.kind) != views.contains(&right.kind)
            {
                return Ok(false);
            }
            for (left, right) in left.items.iter().zip(&right.items) {
                if !equal(left, right, meter)? {
                    return Ok(false);
                }
            }
            true
        }
        (Value::Dict(left), Value::Dict(right)) => {
            if Rc::ptr_eq(left, right) {
                return Ok(true);
            }
            if left.entries.len() != right.entries.len() {
                return Ok(false);
            }
            for (key, value) in &left.entries {
                match right.get(key, meter)? {
                    Some(other) if equal(value, other, meter)? => {}
                    _ => return Ok(false),
                }
            }
            true
        }
        (Value::Range(left), Value::Range(right)) => {
            left.len() == right.len()
                && (left.len() == 0 || (left.start, left.stride) == (right.start, right.stride))
        }
        (Value::Namespace(left), Value::Namespace(right))
        | (Value::Macro(left), Value::Macro(right)) => left == right,
        (Value::Generator(left), Value::Generator(right)) => Rc::ptr_eq(left, right),
        (Value::Loop(left), Value::Loop(right)) => Rc::ptr_eq(left, right),
        (Value::Cycler(left), Value::Cycler(right)) => Rc::ptr_eq(left, right),
        (Value::Joiner(left), Value::Joiner(right)) => Rc::ptr_eq(left, right),
        (Value::Function(left), Value::Function(right)) => left == right,
        _ => match (left.as_int(), right.as_int()) {
            (Some(left), Some(right)) => left == right,
            _ => {
                left.is_number()
                    && right.is_number()
                    && number_order(left, right) == Some(Ordering::Equal)
            }
        },
    })
}

fn is_tuple(kind: SeqKind) -> bool {
    matches!(kind, SeqKind::Tuple | SeqKind::Group)
}

/// The order of two numbers.
fn number_order(left: &Value, right: &Value) -> Option<Ordering> {
    match (left.as_int(), right.as_int()) {
        (Some(left), Some(right)) => Some(left.cmp(&right)),
        _ => left.as_float()?.partial_cmp(&right.as_float()?),
    }
}

/// Whether the first is less; refuses what Python does not order.
pub(crate) fn less(left: &Value, right: &Value, sign: &str, meter: &Meter) -> Result<bool> {
    meter.spend(1)?;
    match (left, right) {
        (Value::Undefined(missing), _) | (_, Value::Undefined(missing)) => Err(missing.error()),
        (Value::Text(left), Value::Text(right)) => {
            meter.walk(left.as_str().len().min(right.as_str().len()))?;
            Ok(left.as_str() < right.as_str())
        }
        (Value::Seq(first), Value::Seq(second))
            if is_tuple(first.kind) == is_tuple(second.kind) =>
        {
            for (left, right) in first.items.iter().zip(&second.items) {
                if !equal(left, right, meter)? {
                    return less(left, right, sign, meter);
                }
            }
            Ok(first.items.len() < second.items.len())
        }
        _ if left.is_number() && right.is_number() => {
            Ok(number_order(left, right) == Some(Ordering::Less))
        }
        _ => Err(Error::value(format!(
            "'{sign}' not supported between instances of '{}' and '{}'",
            left.type_name(),
            right.type_name()
        ))),
    }
}

/// Sorted; equal values keep their order. What comes before what need not be an order at all, as
/// with floats that are not numbers: the values are then in some order. As Python does, asks no more
/// after the first failure.
pub(crate) fn sorted<T, F>(mut items: Vec<T>, before: &mut F) -> Result<Vec<T>>
where
    F: FnMut(&T, &T) -> Result<bool>,
{
    let count = items.len();
    if count < 2 {
        return Ok(items);
    }
    let second = items.split_off(count / 2);
    let mut first = sorted(items, before)?.into_iter().peekable();
    let mut second = sorted(second, before)?.into_iter().peekable();
    let mut merged = Vec::with_capacity(count);
    while let (Some(left), Some(right)) = (first.peek(), second.peek()) {
        let next = if before(right, left)? { second.next() } else { first.next() };
        merged.extend(next);
    }
    merged.extend(first);
    merged.extend(second);
    Ok(merged)
}
