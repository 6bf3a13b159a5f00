//! A metadata value on one line.

use std::io::{self, Write};

use ggmill_core::{Array, RawStr, Value};

use super::layout::{Styles, quoted_beginning, width};
use crate::human;

/// Returns the type of a value: `u32`, or `string[32000]`.
pub(crate) fn type_of(value: &Value<'_>) -> String {
    match value {
        Value::Array(array) => format!("{}[{}]", array.element_type(), array.len()),
        other => other.value_type().to_string(),
    }
}

/// Writes a value in full.
pub(crate) fn write_full(
    out: &mut dyn Write,
    value: &Value<'_>,
    styles: &Styles,
) -> io::Result<()> {
    let Styles { string, number, .. } = *styles;
    match value {
        Value::Str(text) => write!(out, "{string}{text:?}{string:#}"),
        Value::Array(array) => {
            out.write_all(b"[")?;
            for (i, element) in array.iter().enumerate() {
                out.write_all(if i == 0 { b"" } else { b", " })?;
                write_full(out, &element.map_err(io::Error::other)?, styles)?;
            }
            out.write_all(b"]")
        }
        other => write!(out, "{number}{}{number:#}", scalar(other)),
    }
}

/// Writes a value in about `columns`: long strings are cut and followed by their length, arrays have
/// only their first elements.
pub(crate) fn write_short(
    out: &mut dyn Write,
    value: &Value<'_>,
    columns: usize,
    styles: &Styles,
) -> io::Result<()> {
    let Styles { string, number, faint, .. } = *styles;
    match value {
        Value::Str(text) => {
            let (shown, length) = short_string(*text, columns);
            write!(out, "{string}\"{shown}\"{string:#}")?;
            if let Some(length) = length {
                write!(out, " {faint}({length}){faint:#}")
            } else {
                Ok(())
            }
        }
        Value::Array(array) => {
            let shown = short_array(array, columns)?;
            let style = if array.element_type() == ggmill_core::ValueType::STRING {
                string
            } else {
                number
            };
            write!(out, "{style}{shown}{style:#}")
        }
        other => write!(out, "{number}{}{number:#}", scalar(other)),
    }
}

/// Returns the part of a string that fits between quotes, and its length if it is cut.
fn short_string(text: RawStr<'_>, columns: usize) -> (String, Option<String>) {
    let (shown, whole) = quoted_beginning(text, columns.saturating_sub(2));
    if whole {
        return (shown, None);
    }
    let length = human::counted(text.len() as u64, "byte");
    let room = columns.saturating_sub(5 + width(&length)).max(8);
    (quoted_beginning(text, room).0, Some(length))
}

/// Formats the first elements of an array that fit, in brackets.
fn short_array(array: &Array<'_>, columns: usize) -> io::Result<String> {
    const MAX_ELEMENT_LEN: usize = 24;
    // The brackets, and `, …` for the rest.
    let room = columns.saturating_sub(5);
    let mut shown = String::from("[");
    for (i, element) in array.iter().enumerate() {
        let mut piece = Vec::new();
        write_short(
            &mut piece,
            &element.map_err(io::Error::other)?,
            MAX_ELEMENT_LEN,
            &Styles::default(),
        )?;
        let piece = String::from_utf8_lossy(&piece);
        if i > 0 {
            if width(&shown) + 2 + width(&piece) > room {
                shown.push_str(", …");
                break;
            }
            shown.push_str(", ");
        }
        shown.push_str(&piece);
    }
    shown.push(']');
    Ok(shown)
}

/// Formats a number or bool.
fn scalar(value: &Value<'_>) -> String {
    match value {
        Value::F32(number) => format!("{number:?}"),
        Value::F64(number) => format!("{number:?}"),
        Value::Bool(flag) => flag.to_string(),
        other => other.as_i128().map_or_else(|| "?".to_owned(), |number| number.to_string()),
    }
}
