//! Python's `str`, `repr` and `json.dumps`.

use std::fmt::Write as _;
use std::rc::Rc;

use super::{Builder, Mark, SeqKind, Text, Value, less, sorted};
use crate::error::{Error, Result};
use crate::meter::Meter;

/// Returns Python's `str` of a value.
pub(crate) fn show(value: &Value, meter: &Rc<Meter>) -> Result<Text> {
    if let Value::Text(text) = value {
        return Ok(text.clone());
    }
    let mut out = Builder::new(meter)?;
    show_into(value, &mut out)?;
    Ok(out.finish())
}

/// Appends Python's `str` of a value.
pub(crate) fn show_into(value: &Value, out: &mut Builder) -> Result<()> {
    match value {
        Value::Undefined(_) => Ok(()),
        Value::Text(text) => out.push_text(text),
        _ => repr(value, out),
    }
}

/// Appends Python's `repr` of a value.
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
            for (number, item) in seq.read()?.iter().enumerate() {
                if number > 0 {
                    out.push(", ", Mark::TEMPLATE)?;
                }
                repr(item, out)?;
            }
            let alone = matches!(seq.kind, SeqKind::Tuple) && seq.len() == 1;
            out.push(if alone { ",)" } else { close }, Mark::TEMPLATE)
        }
        Value::Dict(dict) => {
            plain("{")?;
            for (number, (key, value)) in dict.read()?.iter().enumerate() {
                if number > 0 {
                    out.push(", ", Mark::TEMPLATE)?;
                }
                repr(key, out)?;
                out.push(": ", Mark::TEMPLATE)?;
                repr(value, out)?;
            }
            out.push("}", Mark::TEMPLATE)
        }
        Value::Range(span) => plain(&span.repr()),
        Value::Loop(each) => plain(&each.repr()),
        _ => plain(&format!("<{} object>", value.type_name())),
    }
}

/// Appends Python's `repr` of a text.
fn quoted(text: &Text, out: &mut Builder) -> Result<()> {
    let whole = text.read()?;
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

/// Returns Python's `str.isprintable`, except for unassigned code points.
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

/// Returns Python's `repr` of a float.
pub(crate) fn float_text(value: f64) -> String {
    if value.is_nan() {
        return "nan".to_owned();
    }
    if value.is_infinite() {
        return if value > 0.0 { "inf" } else { "-inf" }.to_owned();
    }
    // The shortest digits that round-trip.
    let shortest = format!("{value:e}");
    let (digits, exponent) = shortest.split_once('e').unwrap_or((&shortest, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-4..16).contains(&exponent) {
        return format!("{value:?}");
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{digits}e{sign}{:02}", exponent.abs())
}

/// The arguments of `json.dumps`.
#[derive(Clone, Debug)]
pub(crate) struct JsonStyle {
    pub(crate) ascii: bool,
    /// The indentation of one level; `None` for a single line.
    pub(crate) indent: Option<String>,
    pub(crate) item: String,
    pub(crate) key: String,
    pub(crate) sort: bool,
}

/// Returns a value as JSON.
pub(crate) fn to_json(value: &Value, style: &JsonStyle, meter: &Rc<Meter>) -> Result<Text> {
    let mut out = Builder::new(meter)?;
    write_json(value, style, 0, &mut out)?;
    Ok(out.finish())
}

fn write_json(value: &Value, style: &JsonStyle, level: usize, out: &mut Builder) -> Result<()> {
    out.meter().spend(1)?;
    let mut plain = |text: &str| out.push(text, Mark::TEMPLATE);
    match value {
        Value::None => plain("null"),
        Value::Bool(true) => plain("true"),
        Value::Bool(false) => plain("false"),
        Value::Int(value) => plain(&value.to_string()),
        Value::Float(value) => plain(&float_json(*value)),
        Value::Text(text) => write_json_text(text, style.ascii, out),
        Value::Seq(seq) if matches!(seq.kind, SeqKind::List | SeqKind::Tuple | SeqKind::Group) => {
            if seq.is_empty() {
                return plain("[]");
            }
            plain("[")?;
            for (number, item) in seq.read()?.iter().enumerate() {
                separate(number, style, level + 1, out)?;
                write_json(item, style, level + 1, out)?;
            }
            line(style, level, out)?;
            out.push("]", Mark::TEMPLATE)
        }
        Value::Dict(dict) => {
            if dict.is_empty() {
                return plain("{}");
            }
            plain("{")?;
            let mut entries: Vec<_> = dict.read()?.iter().collect();
            if style.sort {
                let meter = Rc::clone(out.meter());
                meter.spend((entries.len() as u64).saturating_mul(8))?;
                entries = sorted(entries, &mut |(first, _), (second, _)| {
                    less(first, second, "<", &meter)
                })?;
            }
            for (number, (key, value)) in entries.into_iter().enumerate() {
                separate(number, style, level + 1, out)?;
                write_key(key, style, out)?;
                out.push(&style.key, Mark::TEMPLATE)?;
                write_json(value, style, level + 1, out)?;
            }
            line(style, level, out)?;
            out.push("}", Mark::TEMPLATE)
        }
        Value::Undefined(missing) => Err(Error::new(
            missing.kind,
            format!("Object of type Undefined is not JSON serializable: {}", missing.message),
        )),
        _ => Err(Error::value(format!(
            "Object of type {} is not JSON serializable",
            value.type_name()
        ))),
    }
}

fn write_key(key: &Value, style: &JsonStyle, out: &mut Builder) -> Result<()> {
    let text = match key {
        Value::Text(text) => return write_json_text(text, style.ascii, out),
        Value::None => "null".to_owned(),
        Value::Bool(value) => value.to_string(),
        Value::Int(value) => value.to_string(),
        Value::Float(value) => float_json(*value),
        _ => {
            return Err(Error::value(format!(
                "keys must be str, int, float, bool or None, not {}",
                key.type_name()
            )));
        }
    };
    out.push(&format!("\"{text}\""), Mark::TEMPLATE)
}

fn float_json(value: f64) -> String {
    match value {
        f64::INFINITY => "Infinity".to_owned(),
        f64::NEG_INFINITY => "-Infinity".to_owned(),
        _ if value.is_nan() => "NaN".to_owned(),
        _ => float_text(value),
    }
}

fn separate(number: usize, style: &JsonStyle, level: usize, out: &mut Builder) -> Result<()> {
    if number > 0 {
        out.push(&style.item, Mark::TEMPLATE)?;
    }
    line(style, level, out)
}

fn line(style: &JsonStyle, level: usize, out: &mut Builder) -> Result<()> {
    let Some(indent) = &style.indent else { return Ok(()) };
    out.meter().spend((level / 8) as u64)?;
    out.push("\n", Mark::TEMPLATE)?;
    for _ in 0..level {
        out.push(indent, Mark::TEMPLATE)?;
    }
    Ok(())
}

/// Appends a text as a JSON string.
fn write_json_text(text: &Text, ascii: bool, out: &mut Builder) -> Result<()> {
    out.push("\"", Mark::TEMPLATE)?;
    for (piece, mark) in text.pieces(0..text.len()) {
        let mut done = 0;
        for (start, c) in piece.char_indices() {
            let escape = match c {
                '"' => "\\\"".to_owned(),
                '\\' => "\\\\".to_owned(),
                '\n' => "\\n".to_owned(),
                '\r' => "\\r".to_owned(),
                '\t' => "\\t".to_owned(),
                '\u{8}' => "\\b".to_owned(),
                '\u{c}' => "\\f".to_owned(),
                '\0'..='\u{1f}' => format!("\\u{:04x}", u32::from(c)),
                '\u{7f}'.. if ascii => {
                    let mut units = [0; 2];
                    let mut escape = String::new();
                    for unit in c.encode_utf16(&mut units) {
                        let _ = write!(escape, "\\u{unit:04x}");
                    }
                    escape
                }
                _ => continue,
            };
            out.push(piece.get(done..start).unwrap_or_default(), mark)?;
            out.push(&escape, mark)?;
            done = start + c.len_utf8();
        }
        out.push(piece.get(done..).unwrap_or_default(), mark)?;
    }
    out.push("\"", Mark::TEMPLATE)
}
