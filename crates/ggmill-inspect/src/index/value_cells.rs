//! The cells of a metadata value.

use std::fmt::Write as _;

use ggmill_core::{Array, RawStr, Value};

use crate::index::table::Cell;
use crate::index::text::{MAX_TEXT, text_of};

/// Elements of an array that the metadata table has, at most.
pub const MAX_ELEMENTS: usize = 8;

/// The cells `element_type`, `length`, `value`, `integer` and `float`.
pub(crate) fn value_cells(value: &Value<'_>) -> [Cell; 5] {
    let (mut element_type, mut length) = (Cell::Null, Cell::Null);
    let text = match value {
        Value::Str(text) => {
            length = Cell::integer(Some(text.len()));
            text_of(*text)
        }
        Value::Array(array) => {
            element_type = Cell::Text(array.element_type().name().unwrap_or("unknown").to_owned());
            length = Cell::integer(Some(array.len()));
            let mut text = String::new();
            push_array(&mut text, *array);
            text
        }
        Value::F32(float) if !float.is_finite() => non_finite(f64::from(*float)).to_owned(),
        Value::F64(float) if !float.is_finite() => non_finite(*float).to_owned(),
        _ => {
            let mut text = String::new();
            push_json(&mut text, value);
            text
        }
    };
    let integer = Cell::integer(value.as_i64());
    let float = value.as_f64().map_or(Cell::Null, Cell::Float);
    [element_type, length, Cell::Text(text), integer, float]
}

/// The name of a float that is not a number, or of an infinite one.
fn non_finite(float: f64) -> &'static str {
    match float {
        f64::INFINITY => "Infinity",
        f64::NEG_INFINITY => "-Infinity",
        _ => "NaN",
    }
}

/// The first elements as JSON, as many as there is space for.
fn push_array(out: &mut String, array: Array<'_>) {
    out.push('[');
    for (number, element) in array.iter().take(MAX_ELEMENTS).enumerate() {
        let Ok(element) = element else { break };
        if out.len() > MAX_TEXT {
            break;
        }
        if number > 0 {
            out.push(',');
        }
        push_json(out, &element);
    }
    out.push(']');
}

/// A value as JSON.
fn push_json(out: &mut String, value: &Value<'_>) {
    let mut push = |value: &dyn std::fmt::Display| {
        // A string can be written to.
        let _ = write!(out, "{value}");
    };
    match value {
        Value::Str(text) => out.push_str(&json_text(*text)),
        Value::Array(array) => push_array(out, *array),
        Value::F32(float) if float.is_finite() => push(float),
        Value::F64(float) if float.is_finite() => push(float),
        Value::F32(float) => push(&format_args!("\"{}\"", non_finite(f64::from(*float)))),
        Value::F64(float) => push(&format_args!("\"{}\"", non_finite(*float))),
        Value::Bool(value) => push(value),
        _ => match value.as_i128() {
            Some(integer) => push(&integer),
            None => push(&"null"),
        },
    }
}

fn json_text(text: RawStr<'_>) -> String {
    // Text can always be serialized.
    ggmill_text::json::to_string(&text_of(text)).unwrap_or_else(|_| "null".to_owned())
}
