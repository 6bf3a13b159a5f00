//! The functions of a template.

use std::cell::Cell;
use std::rc::Rc;

use super::Args;
use super::args::required;
use crate::error::{Error, ErrorKind, Result};
use crate::run::{Namespace, Run};
use crate::value::{
    Builder, Callable, Cycler, Joiner, Mark, Seq, SeqKind, Span, Value, hashable, show,
};

/// The longest range of Jinja's sandbox.
const MAX_RANGE: usize = 100_000;

/// The function with this name.
pub(crate) fn function(name: &str) -> Option<Callable> {
    Some(match name {
        "range" => Callable::Range,
        "dict" => Callable::Dict,
        "namespace" => Callable::Namespace,
        "cycler" => Callable::Cycler,
        "joiner" => Callable::Joiner,
        "raise_exception" => Callable::RaiseException,
        "strftime_now" => Callable::StrftimeNow,
        _ => return None,
    })
}

pub(crate) fn call_function(function: Callable, args: Args, run: &mut Run<'_>) -> Result<Value> {
    match function {
        Callable::Range => range(&args),
        Callable::Dict => {
            let entries = entries(args, run)?;
            Value::dict(entries, &run.meter)
        }
        Callable::Namespace => {
            let mut namespace = Vec::new();
            for (key, value) in entries(args, run)? {
                if let Value::Text(key) = key {
                    namespace.push((key, value));
                }
            }
            // As long as the rendering.
            run.meter.spend(8)?;
            run.namespaces.push(Namespace::new(namespace, &run.meter)?);
            if run.namespaces.len() > 10_000 {
                return Err(Error::new(ErrorKind::Limit, "more than 10000 namespaces"));
            }
            Ok(Value::Namespace(run.namespaces.len() - 1))
        }
        Callable::Cycler => {
            if args.positional.is_empty() {
                return Err(Error::value("at least one item has to be provided"));
            }
            let items = Seq::new(SeqKind::Tuple, args.positional, &run.meter)?;
            Ok(Value::Cycler(Rc::new(Cycler { items, at: Cell::new(0) })))
        }
        Callable::Joiner => {
            let [text] = args.bind("joiner", ["sep"])?;
            let text = match text {
                Some(text) => show(&text, &run.meter)?,
                None => show(&Value::text(", ", &run.meter)?, &run.meter)?,
            };
            Ok(Value::Joiner(Rc::new(Joiner { text, used: Cell::new(false) })))
        }
        Callable::RaiseException => {
            let [message] = args.bind("raise_exception", ["message"])?;
            let message = show(&required(message, "raise_exception")?, &run.meter)?;
            Err(Error::new(ErrorKind::Refused, message.as_str()))
        }
        Callable::StrftimeNow => {
            let [format] = args.bind("strftime_now", ["format"])?;
            let Value::Text(format) = required(format, "strftime_now")? else {
                return Err(Error::value("strftime() argument 1 must be str"));
            };
            let now = run.now()?;
            run.meter.walk(format.as_str().len().saturating_mul(16))?;
            let mut out = Builder::new(&run.meter)?;
            let mut written = Ok(());
            now.write_format(format.as_str(), &mut |place, part| {
                let mark = format.pieces(place..place + 1).next();
                let mark = mark.map_or(Mark::TEMPLATE, |(_, mark)| mark);
                if written.is_ok() {
                    written = run.meter.spend(1).and_then(|()| out.push(part, mark));
                }
            });
            written?;
            Ok(Value::Text(out.finish()))
        }
    }
}

fn range(args: &Args) -> Result<Value> {
    if !args.named.is_empty() {
        return Err(Error::value("range() takes no keyword arguments"));
    }
    let mut bounds = Vec::new();
    for value in &args.positional {
        let bound = super::args::integer(Some(value), 0)?;
        bounds.push(i64::try_from(bound).map_err(|_| too_long())?);
    }
    let (start, stop, stride) = match *bounds {
        [stop] => (0, stop, 1),
        [start, stop] => (start, stop, 1),
        [start, stop, stride] => (start, stop, stride),
        _ => return Err(Error::value("range expected 1 to 3 arguments")),
    };
    if stride == 0 {
        return Err(Error::value("range() arg 3 must not be zero"));
    }
    let span = Span { start, stop, stride };
    if span.len() > MAX_RANGE {
        return Err(too_long());
    }
    Ok(Value::Range(Rc::new(span)))
}

fn too_long() -> Error {
    Error::new(
        ErrorKind::Security,
        format!("range too big: the sandbox blocks ranges larger than {MAX_RANGE}"),
    )
}

/// The entries that `dict` and `namespace` take.
fn entries(args: Args, run: &Run<'_>) -> Result<Vec<(Value, Value)>> {
    let mut entries = Vec::new();
    match &*args.positional {
        [] => {}
        [Value::Dict(dict)] => {
            run.meter.spend(dict.entries.len() as u64)?;
            entries.clone_from(&dict.entries);
        }
        [Value::Namespace(_)] => return Err(Error::unsupported("a namespace of a namespace")),
        [pairs] => {
            for pair in &pairs.iterate(&run.meter)?.items {
                let pair = pair.iterate(&run.meter)?;
                let [key, value] = &*pair.items else {
                    return Err(Error::value("dictionary update sequence has no pairs"));
                };
                hashable(key)?;
                crate::run::set_entry(&mut entries, key.clone(), value.clone(), &run.meter)?;
            }
        }
        _ => return Err(Error::value("dict expected at most 1 argument")),
    }
    for (name, value) in args.named {
        crate::run::set_entry(&mut entries, Value::Text(name), value, &run.meter)?;
    }
    Ok(entries)
}
