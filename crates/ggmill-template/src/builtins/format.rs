//! Python's `%` formatting and `str.format`.

use std::rc::Rc;

use super::{Args, size};
use crate::error::{Error, Result};
use crate::meter::Meter;
use crate::run::Run;
use crate::value::{Builder, Mark, SeqKind, Text, Value, float_text, show};

/// A format specification.
#[derive(Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "flags of a format")]
struct Spec {
    fill: Option<char>,
    /// `<`, `>`, `^` or `=`.
    align: Option<char>,
    plus: bool,
    space: bool,
    alternate: bool,
    comma: bool,
    width: usize,
    precision: Option<usize>,
    kind: Option<char>,
}

/// Maximum precision. Python's limit is higher, but no value needs it.
const MAX_PRECISION: usize = 1000;

/// Steps of a digit of a number: it takes arithmetic on numbers of 1,100 bits.
pub(super) const STEPS_A_DIGIT: usize = 4;

/// Evaluates `format % value`.
pub(crate) fn percent(format: &Text, value: &Value, meter: &Rc<Meter>) -> Result<Text> {
    let positional = match value {
        Value::Seq(seq) if matches!(seq.kind, SeqKind::Tuple | SeqKind::Group) => seq.read()?,
        value => std::slice::from_ref(value),
    };
    percent_with(format, positional, value, meter)
}

/// Evaluates the filter `format`: `format % arguments`.
pub(super) fn percent_args(format: &Text, args: Args, run: &Run<'_>) -> Result<Text> {
    if args.named.is_empty() {
        return percent_with(format, &args.positional, &Value::None, &run.meter);
    }
    if !args.positional.is_empty() {
        return Err(Error::value("can't handle positional and keyword arguments at the same time"));
    }
    let mut entries = Vec::new();
    for (key, value) in args.named {
        entries.push((Value::Text(key), value));
    }
    let values = Value::dict(entries, &run.meter)?;
    percent_with(format, std::slice::from_ref(&values), &values, &run.meter)
}

fn percent_with(
    format: &Text,
    positional: &[Value],
    mapping: &Value,
    meter: &Rc<Meter>,
) -> Result<Text> {
    let whole = format.read()?;
    let mut out = Builder::new(meter)?;
    let (mut done, mut next, mut by_name) = (0, 0, false);
    let short = || Error::value("not enough arguments for format string");
    while let Some(at) = whole.get(done..).and_then(|rest| rest.find('%')) {
        meter.spend(1)?;
        out.push_slice(format, done..done + at)?;
        let mut rest = whole.get(done + at + 1..).unwrap_or_default();
        let mut spec = Spec::default();
        let mut named = None;
        if let Some(after) = rest.strip_prefix('(') {
            let (name, after) =
                after.split_once(')').ok_or_else(|| Error::value("incomplete format key"))?;
            let Value::Dict(dict) = mapping else {
                return Err(Error::value("format requires a mapping"));
            };
            let found = dict.get_str(name)?.cloned();
            named = Some(found.ok_or_else(|| {
                Error::value(format!("no key '{}'", crate::value::clipped(name)))
            })?);
            by_name = true;
            rest = after;
        }
        let mut zero = false;
        while let Some(c) = rest.chars().next().filter(|c| "#0- +".contains(*c)) {
            match c {
                '#' => spec.alternate = true,
                '0' => zero = true,
                '-' => spec.align = Some('<'),
                ' ' => spec.space = true,
                _ => spec.plus = true,
            }
            rest = rest.get(1..).unwrap_or_default();
        }
        let mut star = |rest: &mut &str| -> Result<Option<usize>> {
            let Some(after) = rest.strip_prefix('*') else { return Ok(digits(rest)) };
            *rest = after;
            let value = positional.get(next).ok_or_else(short)?;
            next += 1;
            Ok(Some(size(Some(value), 0)?))
        };
        spec.width = star(&mut rest)?.unwrap_or(0);
        if let Some(after) = rest.strip_prefix('.') {
            rest = after;
            spec.precision = Some(star(&mut rest)?.unwrap_or(0));
        }
        rest = rest.trim_start_matches(['h', 'l', 'L']);
        let kind = rest.chars().next().ok_or_else(|| Error::value("incomplete format"))?;
        rest = rest.get(kind.len_utf8()..).unwrap_or_default();
        done = whole.len() - rest.len();
        if kind == '%' {
            out.push("%", Mark::TEMPLATE)?;
            continue;
        }
        let value = if let Some(value) = named {
            value
        } else {
            next += 1;
            positional.get(next - 1).cloned().ok_or_else(short)?
        };
        if zero && spec.align.is_none() && !"sracr".contains(kind) {
            spec.fill = Some('0');
            spec.align = Some('=');
        }
        spec.align.get_or_insert('>');
        percent_value(&value, kind, spec, format.is_safe(), &mut out)?;
    }
    out.push_slice(format, done..whole.len())?;
    let is_mapping = matches!(mapping, Value::Dict(_));
    if next < positional.len() && !by_name && !is_mapping {
        return Err(Error::value("not all arguments converted during string formatting"));
    }
    Ok(out.finish_like(format))
}

fn percent_value(
    value: &Value,
    kind: char,
    mut spec: Spec,
    escapes: bool,
    out: &mut Builder,
) -> Result<()> {
    let meter = Rc::clone(out.meter());
    match kind {
        's' | 'r' | 'a' => {
            let text = if kind == 's' {
                show(value, &meter)?
            } else {
                let items = Value::list(vec![value.clone()], &meter)?;
                let shown = show(&items, &meter)?;
                let length = shown.len();
                shown.slice(1..length.saturating_sub(1))?
            };
            let text = if escapes { text.escaped()? } else { text };
            padded(&clipped(&text, spec.precision)?, &spec, out)
        }
        'd' | 'i' | 'u' => {
            value.defined()?;
            let Some(number) = value.as_float().filter(|_| value.is_number()) else {
                return Err(Error::value(format!(
                    "%{kind} format: a real number is required, not {}",
                    value.type_name()
                )));
            };
            #[expect(clippy::cast_possible_truncation, reason = "it is in the range")]
            let whole = value.as_int().unwrap_or(number.clamp(-1e38, 1e38) as i128);
            spec.kind = Some('d');
            number_text(&Value::Int(whole), &spec, out)
        }
        'x' | 'X' | 'o' | 'e' | 'E' | 'f' | 'F' | 'g' | 'G' => {
            value.defined()?;
            spec.kind = Some(kind);
            if matches!(kind, 'e' | 'E' | 'f' | 'F' | 'g' | 'G') {
                let number = value.as_float().ok_or_else(|| {
                    Error::value(format!("must be real number, not {}", value.type_name()))
                })?;
                return number_text(&Value::Float(number), &spec, out);
            }
            number_text(value, &spec, out)
        }
        'c' => {
            let text = match value {
                Value::Text(text) if text.read()?.chars().count() == 1 => text.clone(),
                _ => {
                    let c = value
                        .as_int()
                        .and_then(|code| u32::try_from(code).ok())
                        .and_then(char::from_u32)
                        .ok_or_else(|| Error::value("%c requires int or char"))?;
                    Text::new(c.encode_utf8(&mut [0; 4]), Mark::TEMPLATE, &meter)?
                }
            };
            padded(&text, &spec, out)
        }
        _ => Err(Error::value(format!("unsupported format character '{kind}'"))),
    }
}

fn clipped(text: &Text, precision: Option<usize>) -> Result<Text> {
    let Some(precision) = precision else { return Ok(text.clone()) };
    let end = text.read()?.char_indices().nth(precision);
    text.slice(0..end.map_or(text.len(), |(at, _)| at))
}

/// Removes the digits at the beginning and returns their value, saturated.
fn digits(rest: &mut &str) -> Option<usize> {
    let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    let (digits, after) = rest.split_at_checked(end)?;
    *rest = after;
    (!digits.is_empty()).then(|| digits.parse().unwrap_or(usize::MAX))
}

fn padded(text: &Text, spec: &Spec, out: &mut Builder) -> Result<()> {
    let fill = spec.fill.unwrap_or(' ');
    let more = spec.width.saturating_sub(text.read()?.chars().count());
    let left = match spec.align {
        Some('>' | '=') => more,
        Some('^') => more / 2,
        _ => 0,
    };
    out.fill(fill, left)?;
    out.push_text(text)?;
    out.fill(fill, more - left)
}

/// Formats a number as specified by `spec.kind`.
fn number_text(value: &Value, spec: &Spec, out: &mut Builder) -> Result<()> {
    let meter = Rc::clone(out.meter());
    let precision = spec.precision.unwrap_or(6);
    if precision > MAX_PRECISION {
        return Err(Error::value("precision too big"));
    }
    meter.spend((1 + precision * STEPS_A_DIGIT) as u64)?;
    let unknown = |kind: char| {
        Error::value(format!(
            "Unknown format code '{kind}' for object of type '{}'",
            value.type_name()
        ))
    };
    let kind = spec.kind.unwrap_or(if value.as_int().is_some() { 'd' } else { 'r' });
    let (negative, digits) = match (kind, value.as_int(), value.as_float()) {
        ('d', Some(whole), _) => (whole < 0, whole.unsigned_abs().to_string()),
        ('x' | 'X' | 'o' | 'b', Some(whole), _) => {
            let size = whole.unsigned_abs();
            let (prefix, digits) = match kind {
                'x' => ("0x", format!("{size:x}")),
                'X' => ("0X", format!("{size:X}")),
                'o' => ("0o", format!("{size:o}")),
                _ => ("0b", format!("{size:b}")),
            };
            (whole < 0, if spec.alternate { format!("{prefix}{digits}") } else { digits })
        }
        ('f' | 'F' | '%', _, Some(number)) => {
            let number = if kind == '%' { number * 100.0 } else { number };
            let text = format!("{:.precision$}", number.abs());
            (number < 0.0, if kind == '%' { text + "%" } else { text })
        }
        ('e' | 'E', _, Some(number)) => {
            let text = format!("{:.precision$e}", number.abs());
            let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
            let exponent: i32 = exponent.parse().unwrap_or(0);
            let sign = if exponent < 0 { '-' } else { '+' };
            let text = format!("{digits}{}{sign}{:02}", kind, exponent.abs());
            (number < 0.0, text)
        }
        ('g' | 'G', _, Some(number)) => (number < 0.0, general(number.abs(), precision.max(1))),
        ('r', _, Some(number)) => {
            let text = match spec.precision {
                Some(precision) => general(number.abs(), precision.max(1)),
                None => float_text(number.abs()),
            };
            (number < 0.0, text)
        }
        _ => return Err(unknown(kind)),
    };
    let digits = if spec.comma { grouped(&digits) } else { digits };
    let sign = match (negative, spec.plus, spec.space) {
        (true, ..) => "-",
        (_, true, _) => "+",
        (_, _, true) => " ",
        _ => "",
    };
    let length = sign.len() + digits.len();
    let more = spec.width.saturating_sub(length);
    let fill = spec.fill.unwrap_or(' ');
    let text = |text: &str| Text::new(text, Mark::TEMPLATE, &meter);
    if spec.align == Some('=') {
        out.push_text(&text(sign)?)?;
        out.fill(fill, more)?;
        return out.push_text(&text(&digits)?);
    }
    let left = match spec.align {
        Some('<') => 0,
        Some('^') => more / 2,
        _ => more,
    };
    out.fill(fill, left)?;
    out.push_text(&text(&format!("{sign}{digits}"))?)?;
    out.fill(fill, more - left)
}

/// Formats like C's `%g`.
fn general(number: f64, precision: usize) -> String {
    let text = format!("{number:.*e}", precision - 1);
    let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let short = |text: &str| {
        if text.contains('.') {
            text.trim_end_matches('0').trim_end_matches('.').to_owned()
        } else {
            text.to_owned()
        }
    };
    let most = i32::try_from(precision).unwrap_or(i32::MAX);
    if exponent < -4 || exponent >= most {
        let sign = if exponent < 0 { '-' } else { '+' };
        return format!("{}e{sign}{:02}", short(digits), exponent.abs());
    }
    let decimals = usize::try_from(most - 1 - exponent).unwrap_or(0);
    short(&format!("{number:.decimals$}"))
}

/// Adds thousands separators.
fn grouped(text: &str) -> String {
    let (whole, rest) = text.find('.').map_or((text, ""), |at| text.split_at(at));
    let mut out = String::new();
    for (place, c) in whole.chars().enumerate() {
        if place > 0 && (whole.len() - place) % 3 == 0 {
            out.push(',');
        }
        out.push(c);
    }
    out + rest
}

/// Evaluates `format.format(…)`.
pub(super) fn braces(format: &Text, args: &Args, run: &mut Run<'_>) -> Result<Text> {
    let whole = format.read()?;
    let mut out = Builder::new(&run.meter)?;
    let (mut done, mut next) = (0, 0);
    while let Some(at) = whole.get(done..).and_then(|rest| rest.find(['{', '}'])) {
        run.meter.spend(1)?;
        let at = done + at;
        out.push_slice(format, done..at)?;
        let rest = whole.get(at..).unwrap_or_default();
        if rest.starts_with("{{") || rest.starts_with("}}") {
            out.push_slice(format, at..at + 1)?;
            done = at + 2;
            continue;
        }
        if rest.starts_with('}') {
            return Err(Error::value("Single '}' encountered in format string"));
        }
        let end =
            rest.find('}').ok_or_else(|| Error::value("expected '}' before end of string"))?;
        let field = rest.get(1..end).unwrap_or_default();
        if field.contains('{') {
            return Err(Error::unsupported("a field of a format in a field"));
        }
        done = at + end + 1;
        let (name, spec) = field.split_once(':').unwrap_or((field, ""));
        let (name, conversion) = name.split_once('!').unwrap_or((name, ""));
        let value = field_value(name, args, &mut next, run)?;
        let meter = Rc::clone(&run.meter);
        let mut spec = parse_spec(spec)?;
        let number = conversion.is_empty() && matches!(value, Value::Int(_) | Value::Float(_))
            || matches!(value, Value::Bool(_)) && spec.kind.is_some();
        if number {
            if let (None, Some('=')) = (spec.fill, spec.align) {
                spec.fill = Some('0');
            }
            number_text(&value, &spec, &mut out)?;
            continue;
        }
        if spec.kind.is_some_and(|kind| kind != 's') {
            return Err(Error::value(format!(
                "Unknown format code for object of type '{}'",
                value.type_name()
            )));
        }
        let text = match conversion {
            "" | "s" => show(&value, &meter)?,
            "r" => {
                let shown = show(&Value::list(vec![value], &meter)?, &meter)?;
                let length = shown.len();
                shown.slice(1..length.saturating_sub(1))?
            }
            _ => return Err(Error::value("Unknown conversion specifier")),
        };
        let text = if format.is_safe() { text.escaped()? } else { text };
        padded(&clipped(&text, spec.precision)?, &spec, &mut out)?;
    }
    out.push_slice(format, done..whole.len())?;
    Ok(out.finish_like(format))
}

/// Returns the value of a field such as `0`, `name`, `name.part` or `name[key]`.
fn field_value(name: &str, args: &Args, next: &mut usize, run: &mut Run<'_>) -> Result<Value> {
    let end = name.find(['.', '[']).unwrap_or(name.len());
    let (first, mut path) = name.split_at_checked(end).unwrap_or((name, ""));
    let index = if first.is_empty() {
        *next += 1;
        Some(*next - 1)
    } else {
        first.parse::<usize>().ok()
    };
    let found = if let Some(index) = index {
        args.positional.get(index).cloned()
    } else {
        let place = args.place(first, &run.meter)?;
        place.and_then(|place| args.named.get(place)).map(|(_, value)| value.clone())
    };
    let mut value = found
        .ok_or_else(|| Error::value(format!("the format has no value for the field '{first}'")))?;
    while !path.is_empty() {
        if let Some(rest) = path.strip_prefix('.') {
            let end = rest.find(['.', '[']).unwrap_or(rest.len());
            let (part, after) = rest.split_at_checked(end).unwrap_or((rest, ""));
            value = run.attribute(&value, part)?;
            path = after;
        } else {
            let (part, after) = path
                .strip_prefix('[')
                .and_then(|rest| rest.split_once(']'))
                .ok_or_else(|| Error::value("Missing ']' in format string"))?;
            let key = match part.parse::<u32>() {
                Ok(index) => Value::Int(i128::from(index)),
                Err(_) => Value::text(part, &run.meter)?,
            };
            value = run.item(&value, &key)?;
            path = after;
        }
        value.defined()?;
    }
    Ok(value)
}

fn parse_spec(text: &str) -> Result<Spec> {
    let mut spec = Spec::default();
    let mut rest = text;
    let mut chars = rest.chars();
    let (first, second) = (chars.next(), chars.next());
    let is_align = |c: Option<char>| c.is_some_and(|c| "<>^=".contains(c));
    if is_align(second) {
        spec.fill = first;
        spec.align = second;
        rest = chars.as_str();
    } else if is_align(first) {
        spec.align = first;
        rest = rest.get(1..).unwrap_or_default();
    }
    if let Some(sign) = rest.chars().next().filter(|c| "+- ".contains(*c)) {
        spec.plus = sign == '+';
        spec.space = sign == ' ';
        rest = rest.get(1..).unwrap_or_default();
    }
    if let Some(after) = rest.strip_prefix('#') {
        spec.alternate = true;
        rest = after;
    }
    if rest.starts_with('0') && spec.align.is_none() {
        spec.align = Some('=');
        spec.fill = Some('0');
    }
    spec.width = digits(&mut rest).unwrap_or(0);
    if let Some(after) = rest.strip_prefix(',') {
        spec.comma = true;
        rest = after;
    }
    if let Some(after) = rest.strip_prefix('.') {
        rest = after;
        spec.precision = Some(
            digits(&mut rest).ok_or_else(|| Error::value("Format specifier missing precision"))?,
        );
    }
    let mut chars = rest.chars();
    spec.kind = chars.next();
    if chars.next().is_some() {
        return Err(Error::value("Invalid format specifier"));
    }
    Ok(spec)
}
