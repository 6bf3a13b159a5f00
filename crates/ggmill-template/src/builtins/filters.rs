//! The filters of Jinja for single values.

use std::fmt::Write as _;
use std::rc::Rc;

use super::{Args, flag, format, integer, required, size, splits, text};
use crate::error::{Error, ErrorKind, Result};
use crate::meter::Meter;
use crate::probe::Comparison;
use crate::run::Run;
use crate::value::{Builder, JsonStyle, Mark, Text, Value, show, to_json};

/// The names of the filters in this file.
pub(super) const NAMES: &[&str] = &[
    "abs",
    "attr",
    "capitalize",
    "center",
    "count",
    "d",
    "default",
    "e",
    "escape",
    "float",
    "forceescape",
    "format",
    "indent",
    "int",
    "items",
    "length",
    "list",
    "lower",
    "replace",
    "round",
    "safe",
    "string",
    "title",
    "tojson",
    "trim",
    "truncate",
    "upper",
    "urlencode",
    "wordcount",
];

/// Filters of Jinja that chat templates do not use.
pub(super) const UNSUPPORTED: &[&str] =
    &["filesizeformat", "pprint", "random", "striptags", "urlize", "wordwrap", "xmlattr"];

pub(super) fn apply(name: &str, value: &Value, args: Args, run: &mut Run<'_>) -> Result<Value> {
    let meter = Rc::clone(&run.meter);
    let as_text = || show(value, &meter);
    match name {
        "default" | "d" => {
            let [default, boolean] = args.bind(name, ["default_value", "boolean"])?;
            let falls = matches!(value, Value::Undefined(_))
                || (flag(boolean.as_ref(), false) && !value.is_true());
            match default {
                _ if !falls => Ok(value.clone()),
                Some(default) => Ok(default),
                None => Value::text("", &meter),
            }
        }
        "length" | "count" => {
            args.none(name)?;
            value.len()?.map(Value::int).ok_or_else(|| no_length(value))
        }
        "string" => Ok(Value::Text(as_text()?)),
        "upper" | "lower" | "capitalize" => {
            args.none(name)?;
            text::call(&as_text()?, name, args, run)
        }
        "title" => Ok(Value::Text(title(&as_text()?)?)),
        "trim" => {
            let text = as_text()?;
            let [chars] = args.bind(name, ["chars"])?;
            text::strip(&text, chars.as_ref(), true, true).map(Value::Text)
        }
        "replace" => {
            let text = as_text()?;
            let [old, new, count] = args.bind(name, ["old", "new", "count"])?;
            let old = show(&required(old, name)?, &meter)?;
            let (compared, searched) = (Value::Text(text.clone()), Value::Text(old.clone()));
            run.probe(Comparison::Contains, &compared, &searched)?;
            let new = show(&required(new, name)?, &meter)?;
            let count = match count {
                Some(Value::None) | None => None,
                Some(count) => splits(Some(&count))?,
            };
            text::replace(&text, old.read()?, &new, count).map(Value::Text)
        }
        "center" => {
            let text = as_text()?;
            let [width] = args.bind(name, ["width"])?;
            text::justify(&text, size(width.as_ref(), 80)?, ' ', text::Side::Both).map(Value::Text)
        }
        "indent" => indent(value, args, run).map(Value::Text),
        "truncate" => truncate(value, args, run).map(Value::Text),
        "wordcount" => {
            let text = as_text()?;
            let word = |c: char| c.is_alphanumeric() || c == '_';
            let words = text.read()?.split(|c| !word(c)).filter(|word| !word.is_empty()).count();
            Ok(Value::int(words))
        }
        "format" => format::percent_args(&as_text()?, args, run).map(Value::Text),
        "safe" => Ok(Value::Text(as_text()?.safe()?)),
        "escape" | "e" => Ok(Value::Text(as_text()?.escaped()?)),
        "forceescape" => {
            let mut plain = Builder::new(&meter)?;
            plain.push_text(&as_text()?)?;
            Ok(Value::Text(plain.finish().escaped()?))
        }
        "urlencode" => Ok(Value::Text(urlencode(&as_text()?)?)),
        "tojson" => tojson(value, args, run).map(Value::Text),
        "int" => int(value, args),
        "float" => {
            let [default] = args.bind(name, ["default"])?;
            value.defined()?;
            let found = match value {
                Value::Text(text) => python_float(text.read()?),
                _ => value.as_float(),
            };
            Ok(found.map_or(default.unwrap_or(Value::Float(0.0)), Value::Float))
        }
        "abs" => match value {
            Value::Float(value) => Ok(Value::Float(value.abs())),
            Value::Undefined(missing) => Err(missing.error()),
            _ => match value.as_int() {
                Some(value) => Ok(Value::Int(value.saturating_abs())),
                None => Err(Error::value(format!(
                    "bad operand type for abs(): '{}'",
                    value.type_name()
                ))),
            },
        },
        "round" => round(value, args, &meter),
        "attr" => {
            let name = show(&args.one(name)?, &meter)?;
            if method_or_field(value, name.read()?, run) {
                return run.attribute(value, name.read()?);
            }
            value.defined()?;
            let name = name.clipped();
            let message = format!("'{}' has no attribute '{name}'", value.type_name());
            Value::undefined(message, &meter)
        }
        "list" => {
            args.none(name)?;
            Value::list(value.iterate(&meter)?.read()?.to_vec(), &meter)
        }
        "items" => match value {
            Value::Undefined(_) => Value::generator(Vec::new(), &meter),
            Value::Dict(dict) => Value::generator(super::pairs(dict, run)?, &meter),
            _ => Err(Error::value("Can only get item pairs from a mapping.")),
        },
        _ if UNSUPPORTED.contains(&name) => {
            Err(Error::unsupported(format!("the filter {name} is not supported")))
        }
        _ => Err(Error::value(format!("no filter named '{name}'"))),
    }
}

fn no_length(value: &Value) -> Error {
    match value {
        Value::Undefined(missing) => missing.error(),
        _ => Error::value(format!("object of type '{}' has no len()", value.type_name())),
    }
}

/// Returns `true` if Python has an attribute (not an item) of this name.
fn method_or_field(value: &Value, name: &str, run: &Run<'_>) -> bool {
    match value {
        Value::Namespace(_) | Value::Loop(_) => {
            !matches!(run.attribute(value, name), Ok(Value::Undefined(_)))
        }
        _ => name.starts_with("__") || super::method_name(value, name).is_some(),
    }
}

/// Capitalizes each word and lower-cases the rest.
fn title(text: &Text) -> Result<Text> {
    let mut out = Builder::new(text.meter())?;
    let mut begins = true;
    let mut whole = String::new();
    for (piece, mark) in text.pieces(0..text.read()?.len()) {
        whole.clear();
        for c in piece.chars() {
            let cuts = c.is_whitespace() || matches!(c, '-' | '(' | '{' | '[' | '<');
            if cuts || !begins {
                whole.extend(c.to_lowercase());
            } else {
                whole.extend(c.to_uppercase());
            }
            begins = cuts;
        }
        out.push(&whole, mark)?;
    }
    Ok(out.finish_like(text))
}

fn indent(value: &Value, args: Args, run: &Run<'_>) -> Result<Text> {
    let [width, first, blank] = args.bind("indent", ["width", "first", "blank"])?;
    let Value::Text(text) = value else {
        value.defined()?;
        return Err(Error::value(format!(
            "unsupported operand type(s) for +=: '{}' and 'str'",
            value.type_name()
        )));
    };
    let mut out = Builder::new(&run.meter)?;
    let indention = |out: &mut Builder| match &width {
        Some(Value::Text(width)) => out.push_text(width),
        other => out.fill(' ', size(other.as_ref(), 4)?),
    };
    let (first, blank) = (flag(first.as_ref(), false), flag(blank.as_ref(), false));
    // Jinja adds a line break before it splits.
    let whole = text.read()?;
    let ends = whole.is_empty() || text::ends_with_break(whole);
    let last = ends.then_some(whole.len()..whole.len());
    for (number, line) in text::lines(whole).chain(last).enumerate() {
        run.meter.spend(1)?;
        if number > 0 {
            out.push("\n", Mark::TEMPLATE)?;
        }
        if if number == 0 { first } else { blank || !line.is_empty() } {
            indention(&mut out)?;
        }
        out.push_slice(text, line)?;
    }
    Ok(out.finish_like(text))
}

fn truncate(value: &Value, args: Args, run: &Run<'_>) -> Result<Text> {
    let [length, kill, end, leeway] =
        args.bind("truncate", ["length", "killwords", "end", "leeway"])?;
    let Value::Text(text) = value else {
        value.defined()?;
        return Err(Error::value(format!("'{}' object is not a text", value.type_name())));
    };
    let end = match &end {
        Some(end) => show(end, &run.meter)?,
        None => Text::new("...", Mark::TEMPLATE, &run.meter)?,
    };
    let (length, leeway) = (size(length.as_ref(), 255)?, size(leeway.as_ref(), 5)?);
    let whole = text.read()?;
    let end_length = end.read()?.chars().count();
    if length < end_length {
        return Err(Error::value(format!("expected length >= {end_length}, got {length}")));
    }
    if whole.chars().count() <= length.saturating_add(leeway) {
        return Ok(text.clone());
    }
    let mut places = whole.char_indices().map(|(place, _)| place);
    let mut cut = places.nth(length - end_length).unwrap_or(whole.len());
    if !flag(kill.as_ref(), false) {
        let kept = whole.get(..cut).unwrap_or_default();
        cut = kept.rfind(' ').unwrap_or(cut);
    }
    let mut out = Builder::new(&run.meter)?;
    out.push_slice(text, 0..cut)?;
    out.push_text(&end)?;
    Ok(out.finish_like(text))
}

fn urlencode(text: &Text) -> Result<Text> {
    text.map(|piece| {
        let mut out = String::new();
        for byte in piece.bytes() {
            if byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-' | b'~' | b'/') {
                out.push(char::from(byte));
            } else {
                let _ = write!(out, "%{byte:02X}");
            }
        }
        out
    })
}

fn tojson(value: &Value, args: Args, run: &Run<'_>) -> Result<Text> {
    let names = ["ensure_ascii", "indent", "separators", "sort_keys"];
    let [ascii, indent, separators, sort] = args.bind("tojson", names)?;
    let indent = match indent {
        None | Some(Value::None) => None,
        Some(Value::Text(text)) => Some(text.read()?.to_owned()),
        Some(width) => Some(" ".repeat(size(Some(&width), 0)?.min(1024))),
    };
    let mut style = JsonStyle {
        ascii: flag(ascii.as_ref(), false),
        item: if indent.is_some() { "," } else { ", " }.to_owned(),
        indent,
        key: ": ".to_owned(),
        sort: flag(sort.as_ref(), false),
    };
    match separators {
        None | Some(Value::None) => {}
        Some(pair) => {
            let pair = pair.iterate(&run.meter)?;
            let [Value::Text(item), Value::Text(key)] = pair.read()? else {
                return Err(Error::value("separators are two texts"));
            };
            item.read()?.clone_into(&mut style.item);
            key.read()?.clone_into(&mut style.key);
        }
    }
    to_json(value, &style, &run.meter)
}

/// Parses a text like Python's `float`.
fn python_float(text: &str) -> Option<f64> {
    let text = text::trim(text).replace('_', "");
    if text.ends_with(char::is_alphabetic)
        && !matches!(
            &*text.trim_start_matches(['+', '-']).to_ascii_lowercase(),
            "inf" | "infinity" | "nan"
        )
    {
        return None;
    }
    text.parse().ok()
}

fn int(value: &Value, args: Args) -> Result<Value> {
    let [default, base] = args.bind("int", ["default", "base"])?;
    let base = integer(base.as_ref(), 10)?;
    value.defined()?;
    let whole = |value: f64| {
        #[expect(clippy::cast_possible_truncation, reason = "checked to be in the range")]
        (value.is_finite() && value.abs() < 1e38).then_some(Value::Int(value as i128))
    };
    let found = match value {
        Value::Text(text) => {
            let text = text.read()?;
            let digits = text::trim(text).replace('_', "");
            let radix = u32::try_from(base).ok().filter(|base| (2..=36).contains(base));
            let lower = digits.to_ascii_lowercase();
            let prefix = match radix {
                Some(16) => "0x",
                Some(8) => "0o",
                Some(2) => "0b",
                _ => "",
            };
            let plain = lower.strip_prefix(prefix).unwrap_or(&lower);
            let exact = radix.and_then(|radix| i128::from_str_radix(plain, radix).ok());
            exact.map(Value::Int).or_else(|| python_float(text).and_then(whole))
        }
        Value::Float(value) => whole(*value),
        _ => value.as_int().map(Value::Int),
    };
    Ok(found.or(default).unwrap_or(Value::Int(0)))
}

fn round(value: &Value, args: Args, meter: &Meter) -> Result<Value> {
    let [precision, method] = args.bind("round", ["precision", "method"])?;
    let precision = integer(precision.as_ref(), 0)?;
    let method = match &method {
        None => "common",
        Some(Value::Text(text)) if matches!(text.clipped(), "common" | "ceil" | "floor") => {
            text.clipped()
        }
        Some(_) => return Err(Error::value("method must be common, ceil or floor")),
    };
    if method == "common"
        && precision >= 0
        && let Some(whole) = value.as_int()
    {
        return Ok(Value::Int(whole));
    }
    let Some(number) = value.as_float() else {
        value.defined()?;
        return Err(Error::value(format!(
            "type {} doesn't define __round__ method",
            value.type_name()
        )));
    };
    let scale = 10f64.powi(i32::try_from(precision.clamp(-400, 400)).unwrap_or(0));
    Ok(Value::Float(match method {
        "ceil" => (number * scale).ceil() / scale,
        "floor" => (number * scale).floor() / scale,
        _ if precision >= 0 => {
            let digits = usize::try_from(precision.min(300)).unwrap_or(0);
            meter.spend((1 + digits * format::STEPS_A_DIGIT) as u64)?;
            // Rounded from the exact value, half to even, like Python.
            std::format!("{number:.digits$}")
                .parse()
                .map_err(|_| Error::new(ErrorKind::Value, "not a number"))?
        }
        _ => (number * scale).round_ties_even() / scale,
    }))
}
