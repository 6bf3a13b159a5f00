//! Python's `str` and `repr`.

use super::{Builder, Mark, SeqKind, Text, Value};
use crate::error::Result;
use crate::meter::Meter;
use std::rc::Rc;

/// Python's `str`.
pub(crate) fn show(value: &Value, meter: &Rc<Meter>) -> Result<Text> {
    if let Value::Text(text) = value {
        return Ok(text.clone());
    }
    let mut out = Builder::new(meter)?;
    show_into(value, &mut out)?;
    Ok(out.finish())
}

/// Appends Python's `str`.
pub(crate) fn show_into(value: &Value, out: &mut Builder) -> Result<()> {
    match value {
        Value::Undefined(_) => Ok(()),
        Value::Text(text) => out.push_text(text),
        _ => repr(value, out),
    }
}

/// Appends Python's `repr`.
fn repr(value: &Value, out: &mut Builder) -> Result<()> {
    out.meter().spend(1)?;
    let mut plain = |text: &str| out.push(text, Mark::TEMPLATE);
    match value {
        Value::Undefined(_) => plain("Undefined"),
        Value::None => plain("None"),
        Value::Bool(true) => plain("True"),
        Value::Bool(false) => plain("False"),
        Value::Int(value) => plain(&value.to_string()),
        Value::Float(value) => plain(&float_text(*value)),
        Value::Text(text) => quoted(text, out),
        Value::Seq(seq) => {
            let (open, close) = match seq.kind {
                SeqKind::List => ("[", "]"),
                SeqKind::Tuple | SeqKind::Group => ("(", ")"),
                SeqKind::Items => ("dict_items([", "])"),
                SeqKind::Keys => ("dict_keys([", "])"),
                SeqKind::Values => ("dict_values([", "])"),
            };
            plain(open)?;
            for (number, item) in seq.items.iter().enumerate() {
                if number > 0 {
                    out.push(", ", Mark::TEMPLATE)?;
                }
                repr(item, out)?;
            }
            let alone = matches!(seq.kind, SeqKind::Tuple) && seq.items.len() == 1;
            out.push(if alone { ",)" } else { close }, Mark::TEMPLATE)
        }
        Value::Dict(dict) => {
            plain("{")?;
            for (number, (key, value)) in dict.entries.iter().enumerate() {
                if number > 0 {
                    out.push(", ", Mark::TEMPLATE)?;
                }
                repr(key, out)?;
                out.push(": ", Mark::TEMPLATE)?;
                repr(value, out)?;
            }
            out.push("}", Mark::TEMPLATE)
        }
        Value::Range(span) if span.stride == 1 => {
            plain(&format!("range({}, {})", span.start, span.stop))
        }
        Value::Range(span) => {
            plain(&format!("range({}, {}, {})", span.start, span.stop, span.stride))
        }
        Value::Loop(each) => plain(&each.repr()),
        _ => plain(&format!("<{} object>", value.type_name())),
    }
}

/// A text in Python's quotes.
fn quoted(text: &Text, out: &mut Builder) -> Result<()> {
    let whole = text.as_str();
    let quote = if whole.contains('\'') && !whole.contains('"') { '"' } else { '\'' };
    let mark = if quote == '"' { "\"" } else { "'" };
    if text.is_safe() {
        out.push("Markup(", Mark::TEMPLATE)?;
    }
    out.push(mark, Mark::TEMPLATE)?;
    let mut bytes = [0; 4];
    for (piece, origin) in text.pieces(0..whole.len()) {
        for c in piece.chars() {
            let escape = match c {
                '\\' => "\\\\".to_owned(),
                '\n' => "\\n".to_owned(),
                '\r' => "\\r".to_owned(),
                '\t' => "\\t".to_owned(),
                _ if c == quote => format!("\\{c}"),
                _ if is_printable(c) => c.encode_utf8(&mut bytes).to_owned(),
                _ => match u32::from(c) {
                    code @ 0..=0xff => format!("\\x{code:02x}"),
                    code @ 0x100..=0xffff => format!("\\u{code:04x}"),
                    code => format!("\\U{code:08x}"),
                },
            };
            out.push(&escape, origin)?;
        }
    }
    out.push(mark, Mark::TEMPLATE)?;
    if text.is_safe() {
        out.push(")", Mark::TEMPLATE)?;
    }
    Ok(())
}

/// Python's `str.isprintable`, but for code points that no version of Unicode has assigned.
fn is_printable(c: char) -> bool {
    let separator = c != ' ' && c.is_whitespace();
    let format = matches!(
        c,
        '\u{ad}' | '\u{600}'..='\u{605}' | '\u{61c}' | '\u{6dd}' | '\u{70f}' | '\u{180e}'
        | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
        | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e000}'..='\u{f8ff}'
        | '\u{e0000}'..='\u{e007f}' | '\u{f0000}'..='\u{10ffff}'
    );
    !(c.is_control() || separator || format)
}

/// Python's `repr` of a float.
pub(crate) fn float_text(value: f64) -> String {
    if value.is_nan() {
        return "nan".to_owned();
    }
    if value.is_infinite() {
        return if value > 0.0 { "inf" } else { "-inf" }.to_owned();
    }
    // The shortest digits that are read again as the same.
    let shortest = format!("{value:e}");
    let (digits, exponent) = shortest.split_once('e').unwrap_or((&shortest, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-4..16).contains(&exponent) {
        return format!("{value:?}");
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{digits}e{sign}{:02}", exponent.abs())
}
