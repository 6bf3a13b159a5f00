//! The filters of Jinja for sequences.

use std::rc::Rc;

use super::{Args, apply_filter, apply_test, flag, pairs, required, size};
use crate::error::{Error, Result};
use crate::meter::Meter;
use crate::run::{Run, add};
use crate::value::{Builder, SeqKind, Value, equal, less, show, show_into, sorted};

/// The names of the filters in this file.
pub(super) const NAMES: &[&str] = &[
    "batch",
    "dictsort",
    "first",
    "groupby",
    "join",
    "last",
    "map",
    "max",
    "min",
    "reject",
    "rejectattr",
    "reverse",
    "select",
    "selectattr",
    "slice",
    "sort",
    "sum",
    "unique",
];

pub(super) fn apply(name: &str, value: &Value, args: Args, run: &mut Run<'_>) -> Result<Value> {
    let meter = Rc::clone(&run.meter);
    match name {
        "join" => join(value, args, run),
        "first" => {
            args.none(name)?;
            let items = value.iterate(&meter)?;
            match items.get(0) {
                Some(first) => Ok(first.clone()),
                None => Value::undefined("No first item, sequence was empty.", &meter),
            }
        }
        "last" => {
            args.none(name)?;
            if let Value::Generator(_) = value {
                return Err(Error::value("'generator' object is not reversible"));
            }
            let items = value.iterate(&meter)?;
            match items.len().checked_sub(1).and_then(|last| items.get(last)) {
                Some(last) => Ok(last.clone()),
                None => Value::undefined("No last item, sequence was empty.", &meter),
            }
        }
        "reverse" => {
            args.none(name)?;
            if let Value::Text(text) = value {
                let mut out = Builder::new(&meter)?;
                for (place, c) in text.read()?.char_indices().rev() {
                    out.push_slice(text, place..place + c.len_utf8())?;
                }
                return Ok(Value::Text(out.finish_like(text)));
            }
            value.defined()?;
            let items = value.iterate(&meter)?.read()?.iter().rev().cloned().collect();
            Value::generator(items, &meter)
        }
        "map" => map(value, args, run),
        "select" | "reject" | "selectattr" | "rejectattr" => choose(name, value, args, run),
        "sort" => {
            let [reverse, case, attribute] =
                args.bind(name, ["reverse", "case_sensitive", "attribute"])?;
            let case = flag(case.as_ref(), false);
            let mut keyed = keyed(value, attribute.as_ref(), case, run)?;
            // Jinja compares lists of attributes, where equal items are skipped.
            for (key, _) in &mut keyed {
                *key = Value::list(vec![key.clone()], &meter)?;
            }
            let keyed = sort(keyed, flag(reverse.as_ref(), false), &meter)?;
            Value::list(keyed.into_iter().map(|(_, item)| item).collect(), &meter)
        }
        "unique" => {
            let [case, attribute] = args.bind(name, ["case_sensitive", "attribute"])?;
            let keyed = keyed(value, attribute.as_ref(), flag(case.as_ref(), false), run)?;
            let mut seen: Vec<Value> = Vec::new();
            let mut kept = Vec::new();
            for (key, item) in keyed {
                crate::value::hashable(&key)?;
                let mut known = false;
                for other in &seen {
                    known = known || equal(other, &key, &meter)?;
                }
                if !known {
                    seen.push(key);
                    kept.push(item);
                }
            }
            Value::generator(kept, &meter)
        }
        "min" | "max" => {
            let [case, attribute] = args.bind(name, ["case_sensitive", "attribute"])?;
            let keyed = keyed(value, attribute.as_ref(), flag(case.as_ref(), false), run)?;
            let mut best: Option<(Value, Value)> = None;
            for (key, item) in keyed {
                let better = match &best {
                    None => true,
                    Some((known, _)) if name == "min" => less(&key, known, "<", &meter)?,
                    Some((known, _)) => less(known, &key, ">", &meter)?,
                };
                if better {
                    best = Some((key, item));
                }
            }
            match best {
                Some((_, item)) => Ok(item),
                None => Value::undefined("No aggregated item, sequence was empty.", &meter),
            }
        }
        "sum" => {
            let [attribute, start] = args.bind(name, ["attribute", "start"])?;
            let mut sum = start.unwrap_or(Value::Int(0));
            for item in value.iterate(&meter)?.read()? {
                let item = by_attribute(item, attribute.as_ref(), None, run)?;
                sum = add(&sum, &item, &meter)?;
            }
            Ok(sum)
        }
        "groupby" => group(value, args, run),
        "dictsort" => dictsort(value, args, run),
        "batch" | "slice" => cut(name, value, args, run),
        _ => Err(Error::value(format!("no filter named '{name}'"))),
    }
}

fn join(value: &Value, args: Args, run: &Run<'_>) -> Result<Value> {
    let [between, attribute] = args.bind("join", ["d", "attribute"])?;
    let between = between.map(|between| show(&between, &run.meter)).transpose()?;
    let mut out = Builder::new(&run.meter)?;
    for (number, item) in value.iterate(&run.meter)?.read()?.iter().enumerate() {
        run.meter.spend(1)?;
        if let Some(between) = between.as_ref().filter(|_| number > 0) {
            out.push_text(between)?;
        }
        show_into(&by_attribute(item, attribute.as_ref(), None, run)?, &mut out)?;
    }
    Ok(Value::Text(out.finish()))
}

/// Returns the value at a path such as `function.name`, or the value itself without a path.
fn by_attribute(
    value: &Value,
    path: Option<&Value>,
    default: Option<&Value>,
    run: &Run<'_>,
) -> Result<Value> {
    let mut found = value.clone();
    let path = match path {
        None | Some(Value::None) => return Ok(found),
        Some(Value::Text(path)) => path,
        Some(index) => return run.item(&found, index),
    };
    for part in path.read()?.split('.') {
        run.meter.spend(1)?;
        let key = match part.parse::<u32>() {
            Ok(index) if part.bytes().all(|byte| byte.is_ascii_digit()) => {
                Value::Int(i128::from(index))
            }
            _ => Value::text(part, &run.meter)?,
        };
        found = run.item(&found, &key)?;
        if let (Value::Undefined(_), Some(default)) = (&found, default) {
            found = default.clone();
        }
    }
    Ok(found)
}

/// Returns items with their sort keys.
fn keyed(
    value: &Value,
    attribute: Option<&Value>,
    case_sensitive: bool,
    run: &Run<'_>,
) -> Result<Vec<(Value, Value)>> {
    let mut keyed = Vec::new();
    let paths = match attribute {
        Some(Value::Text(text)) if text.read()?.contains(',') => text
            .read()?
            .split(',')
            .map(|part| Value::text(part, &run.meter))
            .collect::<Result<Vec<_>>>()?,
        _ => Vec::new(),
    };
    let lower = |key: Value| match key {
        Value::Text(text) if !case_sensitive => Ok(Value::Text(text.map(str::to_lowercase)?)),
        key => Ok(key),
    };
    for item in value.iterate(&run.meter)?.read()? {
        let key = if paths.is_empty() {
            lower(by_attribute(item, attribute, None, run)?)?
        } else {
            let mut parts = Vec::new();
            for path in &paths {
                parts.push(lower(by_attribute(item, Some(path), None, run)?)?);
            }
            Value::seq(SeqKind::Tuple, parts, &run.meter)?
        };
        keyed.push((key, item.clone()));
    }
    Ok(keyed)
}

/// Sorts by keys, stably, also in reverse.
fn sort(keyed: Vec<(Value, Value)>, reverse: bool, meter: &Meter) -> Result<Vec<(Value, Value)>> {
    sorted(keyed, &mut |(first, _), (second, _)| {
        let (first, second) = if reverse { (second, first) } else { (first, second) };
        less(first, second, "<", meter)
    })
}

fn map(value: &Value, mut args: Args, run: &mut Run<'_>) -> Result<Value> {
    let meter = Rc::clone(&run.meter);
    let mut items = Vec::new();
    // Jinja treats every false value, including `none`, as absent.
    if !value.is_true() {
        return Value::generator(items, &meter);
    }
    let source = value.iterate(&meter)?;
    if args.positional.is_empty() && args.place("attribute", &meter)?.is_some() {
        let attribute = args.take_named("attribute", &meter)?;
        let default = args.take_named("default", &meter)?;
        args.none("map")?;
        for item in source.read()? {
            items.push(by_attribute(item, attribute.as_ref(), default.as_ref(), run)?);
        }
        return Value::generator(items, &meter);
    }
    let filter = show(&required(args.shift(), "map")?, &meter)?;
    for item in source.read()? {
        meter.spend((1 + args.positional.len() + args.named.len()) as u64)?;
        items.push(apply_filter(filter.read()?, item, args.clone(), run)?);
    }
    Value::generator(items, &meter)
}

fn choose(name: &str, value: &Value, mut args: Args, run: &mut Run<'_>) -> Result<Value> {
    let meter = Rc::clone(&run.meter);
    if !value.is_true() {
        return Value::generator(Vec::new(), &meter);
    }
    let attribute = name.ends_with("attr").then(|| required(args.shift(), name)).transpose()?;
    let wanted = name.starts_with("select");
    let test = args.shift().map(|test| show(&test, &meter)).transpose()?;
    let mut kept = Vec::new();
    for item in value.iterate(&meter)?.read()? {
        meter.spend(1)?;
        let tested = by_attribute(item, attribute.as_ref(), None, run)?;
        let holds = match &test {
            Some(test) => apply_test(test.read()?, &tested, &args, run)?,
            None => tested.is_true(),
        };
        if holds == wanted {
            kept.push(item.clone());
        }
    }
    Value::generator(kept, &meter)
}

fn group(value: &Value, args: Args, run: &Run<'_>) -> Result<Value> {
    let [attribute, default, case] =
        args.bind("groupby", ["attribute", "default", "case_sensitive"])?;
    let case_sensitive = flag(case.as_ref(), false);
    let attribute = required(attribute, "groupby")?;
    let mut keyed = Vec::new();
    for item in value.iterate(&run.meter)?.read()? {
        let key = by_attribute(item, Some(&attribute), default.as_ref(), run)?;
        let key = match key {
            Value::Text(text) if !case_sensitive => Value::Text(text.map(str::to_lowercase)?),
            key => key,
        };
        keyed.push((key, item.clone()));
    }
    let keyed = sort(keyed, false, &run.meter)?;
    let mut groups: Vec<(Value, Vec<Value>)> = Vec::new();
    for (key, item) in keyed {
        match groups.last_mut() {
            Some((known, items)) if equal(known, &key, &run.meter)? => items.push(item),
            _ => groups.push((key, vec![item])),
        }
    }
    let mut out = Vec::new();
    for (key, items) in groups {
        // The name is that of the first item, in its original case.
        let shown = match items.first() {
            Some(first) if !case_sensitive => {
                by_attribute(first, Some(&attribute), default.as_ref(), run)?
            }
            _ => key,
        };
        let items = Value::list(items, &run.meter)?;
        out.push(Value::seq(SeqKind::Group, vec![shown, items], &run.meter)?);
    }
    Value::list(out, &run.meter)
}

fn dictsort(value: &Value, args: Args, run: &Run<'_>) -> Result<Value> {
    let [case, by, reverse] = args.bind("dictsort", ["case_sensitive", "by", "reverse"])?;
    let case_sensitive = flag(case.as_ref(), false);
    let by_value = match &by {
        None => false,
        Some(Value::Text(text)) if text.is("key")? => false,
        Some(Value::Text(text)) if text.is("value")? => true,
        Some(_) => return Err(Error::value("You can only sort by either \"key\" or \"value\"")),
    };
    let Value::Dict(dict) = value else {
        value.defined()?;
        return Err(Error::value(format!("'{}' object has no items", value.type_name())));
    };
    let mut keyed = Vec::new();
    for (pair, (key, value)) in pairs(dict, run)?.into_iter().zip(dict.read()?) {
        let key = if by_value { value } else { key };
        let key = match key {
            Value::Text(text) if !case_sensitive => Value::Text(text.map(str::to_lowercase)?),
            key => key.clone(),
        };
        keyed.push((key, pair));
    }
    let keyed = sort(keyed, flag(reverse.as_ref(), false), &run.meter)?;
    Value::list(keyed.into_iter().map(|(_, pair)| pair).collect(), &run.meter)
}

/// The filters `batch` and `slice`.
fn cut(name: &str, value: &Value, args: Args, run: &Run<'_>) -> Result<Value> {
    let [count, fill] = args.bind(name, ["count", "fill_with"])?;
    let count = size(count.as_ref(), 0)?;
    if count == 0 {
        return Err(Error::value("integer division or modulo by zero"));
    }
    let fill = fill.filter(|fill| !matches!(fill, Value::None));
    let items = value.iterate(&run.meter)?;
    let items = items.read()?;
    let mut parts = Vec::new();
    if name == "batch" {
        if fill.is_some() {
            run.meter.spend(count as u64)?;
        }
        for part in items.chunks(count) {
            let mut part = part.to_vec();
            if let Some(fill) = &fill {
                let _room =
                    crate::meter::Held::new(&run.meter, count.saturating_mul(size_of::<Value>()))?;
                part.resize(count, fill.clone());
            }
            parts.push(Value::list(part, &run.meter)?);
        }
    } else {
        run.meter.spend(count as u64)?;
        let (each, more) = (items.len() / count, items.len() % count);
        let mut rest = items;
        for number in 0..count {
            let (part, after) =
                rest.split_at_checked(each + usize::from(number < more)).unwrap_or((rest, &[]));
            rest = after;
            let mut part = part.to_vec();
            if let Some(fill) = fill.as_ref().filter(|_| number >= more) {
                part.push(fill.clone());
            }
            parts.push(Value::list(part, &run.meter)?);
        }
    }
    Value::generator(parts, &run.meter)
}
