//! Python's `json.dumps`, as the filter `tojson` of transformers calls it.

use super::{Builder, Mark, SeqKind, Text, Value, float_text, less, sorted};
use crate::error::{Error, Result};
use crate::meter::Meter;
use std::fmt::Write as _;
use std::rc::Rc;

/// The arguments of `json.dumps`.
#[derive(Clone, Debug)]
pub(crate) struct JsonStyle {
    pub(crate) ascii: bool,
    /// The text of one level; none for one line.
    pub(crate) indent: Option<String>,
    pub(crate) item: String,
    pub(crate) key: String,
    pub(crate) sort: bool,
}

/// The value as JSON.
pub(crate) fn to_json(value: &Value, style: &JsonStyle, meter: &Rc<Meter>) -> Result<Text> {
    let mut out = Builder::new(meter)?;
    write(value, style, 0, &mut out)?;
    Ok(out.finish())
}

fn write(value: &Value, style: &JsonStyle, level: usize, out: &mut Builder) -> Result<()> {
    out.meter().spend(1)?;
    let mut plain = |text: &str| out.push(text, Mark::TEMPLATE);
    match value {
        Value::None => plain("null"),
        Value::Bool(true) => plain("true"),
        Value::Bool(false) => plain("false"),
        Value::Int(value) => plain(&value.to_string()),
        Value::Float(value) => plain(&float_json(*value)),
        Value::Text(text) => quoted(text, style.ascii, out),
        Value::Seq(seq) if matches!(seq.kind, SeqKind::List | SeqKind::Tuple | SeqKind::Group) => {
            if seq.items.is_empty() {
                return plain("[]");
            }
            plain("[")?;
            for (number, item) in seq.items.iter().enumerate() {
                separate(number, style, level + 1, out)?;
                write(item, style, level + 1, out)?;
            }
            line(style, level, out)?;
            out.push("]", Mark::TEMPLATE)
        }
        Value::Dict(dict) => {
            if dict.entries.is_empty() {
                return plain("{}");
            }
            plain("{")?;
            let mut entries: Vec<_> = dict.entries.iter().collect();
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
                write(value, style, level + 1, out)?;
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
        Value::Text(text) => return quoted(text, style.ascii, out),
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
    out.push("\n", Mark::TEMPLATE)?;
    for _ in 0..level {
        out.push(indent, Mark::TEMPLATE)?;
    }
    Ok(())
}

/// A text in JSON's quotes.
fn quoted(text: &Text, ascii: bool, out: &mut Builder) -> Result<()> {
    out.push("\"", Mark::TEMPLATE)?;
    for (piece, mark) in text.pieces(0..text.as_str().len()) {
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
