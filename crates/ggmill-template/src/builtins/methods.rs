//! The methods of values, and those that the sandbox refuses.

use std::rc::Rc;

use super::args::required;
use super::{Args, text};
use crate::error::{Error, Result};
use crate::run::Run;
use crate::value::{Dict, Method, SeqKind, Value, equal};

const DICT: &[&str] = &["items", "keys", "values", "get", "copy", "fromkeys"];
const DICT_CHANGES: &[&str] = &["clear", "pop", "popitem", "setdefault", "update"];
const LIST: &[&str] = &["copy", "count", "index"];
const LIST_CHANGES: &[&str] =
    &["append", "clear", "extend", "insert", "pop", "remove", "reverse", "sort"];

/// The method of a value with this name, and whether it changes the value.
pub(crate) fn method_name(object: &Value, name: &str) -> Option<(&'static str, bool)> {
    let (methods, changes): (&[&'static str], &[&'static str]) = match object {
        Value::Text(_) => (text::METHODS, &[]),
        Value::Dict(_) => (DICT, DICT_CHANGES),
        Value::Seq(seq) => match seq.kind {
            SeqKind::List => (LIST, LIST_CHANGES),
            SeqKind::Tuple | SeqKind::Group => (&["count", "index"], &[]),
            _ => return None,
        },
        Value::Loop(_) => (&["cycle", "changed"], &[]),
        Value::Cycler(_) => (&["next", "reset"], &[]),
        _ => return None,
    };
    let among = |names: &[&'static str]| names.iter().find(|known| **known == name).copied();
    among(methods).map(|name| (name, false)).or_else(|| among(changes).map(|name| (name, true)))
}

pub(crate) fn call_method(method: &Method, args: Args, run: &mut Run<'_>) -> Result<Value> {
    match &method.object {
        Value::Text(object) => text::call(object, method.name, args, run),
        Value::Dict(dict) => dict_method(dict, method.name, args, run),
        Value::Seq(seq) => {
            let value = match method.name {
                "copy" => {
                    args.none("copy")?;
                    return Ok(method.object.clone());
                }
                "count" => args.one("count")?,
                _ => {
                    let [value, ..] = args.bind("index", ["value", "start", "stop"])?;
                    required(value, "index")?
                }
            };
            let mut found = Vec::new();
            for (index, item) in seq.items.iter().enumerate() {
                if equal(item, &value, &run.meter)? {
                    found.push(index);
                }
            }
            if method.name == "count" {
                return Ok(Value::int(found.len()));
            }
            found
                .first()
                .map(|index| Value::int(*index))
                .ok_or_else(|| Error::value("the value is not in the list"))
        }
        Value::Cycler(cycler) => {
            args.none(method.name)?;
            let at = cycler.at.get();
            if method.name == "reset" {
                cycler.at.set(0);
                return Ok(Value::None);
            }
            cycler.at.set((at + 1) % cycler.items.items.len().max(1));
            Ok(cycler.items.items.get(at).cloned().unwrap_or(Value::None))
        }
        _ => Err(Error::unsupported(format!("the method {} is not supported", method.name))),
    }
}

fn dict_method(dict: &Rc<Dict>, name: &str, args: Args, run: &Run<'_>) -> Result<Value> {
    let meter = &run.meter;
    let keys = || dict.entries.iter().map(|(key, _)| key.clone()).collect();
    match name {
        "get" => {
            let [key, default] = args.bind("get", ["key", "default"])?;
            let key = required(key, "get")?;
            crate::value::hashable(&key)?;
            let found = dict.get(&key, meter)?.cloned();
            Ok(found.or(default).unwrap_or(Value::None))
        }
        "items" => {
            args.none(name)?;
            Value::seq(SeqKind::Items, pairs(dict, run)?, meter)
        }
        "keys" => {
            args.none(name)?;
            Value::seq(SeqKind::Keys, keys(), meter)
        }
        "values" => {
            args.none(name)?;
            let values = dict.entries.iter().map(|(_, value)| value.clone()).collect();
            Value::seq(SeqKind::Values, values, meter)
        }
        "copy" => {
            args.none(name)?;
            Ok(Value::Dict(Rc::clone(dict)))
        }
        _ => Err(Error::unsupported(format!("the method {name} is not supported"))),
    }
}

/// The entries of a dictionary as tuples.
pub(super) fn pairs(dict: &Dict, run: &Run<'_>) -> Result<Vec<Value>> {
    let mut pairs = Vec::with_capacity(dict.entries.len());
    for (key, value) in &dict.entries {
        run.meter.spend(1)?;
        pairs.push(Value::seq(SeqKind::Tuple, vec![key.clone(), value.clone()], &run.meter)?);
    }
    Ok(pairs)
}
