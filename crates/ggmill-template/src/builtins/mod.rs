//! Built-in functions, methods, filters and tests of Jinja.

mod filters;
mod format;
mod sequences;
mod text;

use std::cell::Cell;
use std::rc::Rc;

pub(crate) use format::percent;

use crate::error::{Error, ErrorKind, Result};
use crate::meter::Meter;
use crate::probe::Comparison;
use crate::run::{Namespace, Run, Sign, compare, contains};
use crate::value::{
    Builder, Callable, Cycler, Dict, Joiner, Mark, Method, Seq, SeqKind, Span, Text, Value, equal,
    hashable, show,
};

/// Applies a filter to a value.
pub(crate) fn apply_filter(
    name: &str,
    value: &Value,
    args: Args,
    run: &mut Run<'_>,
) -> Result<Value> {
    if sequences::NAMES.contains(&name) {
        return sequences::apply(name, value, args, run);
    }
    filters::apply(name, value, args, run)
}

/// Returns `true` if Jinja has a filter of this name.
fn is_filter(name: &str) -> bool {
    [filters::NAMES, filters::UNSUPPORTED, sequences::NAMES]
        .iter()
        .any(|names| names.contains(&name))
}

/// Arguments by position and by name.
#[derive(Clone, Debug, Default)]
pub(crate) struct Args {
    pub(crate) positional: Vec<Value>,
    /// Names from `**mapping` can be text of the conversation.
    pub(crate) named: Vec<(Text, Value)>,
}

impl Args {
    /// Binds the arguments to parameters with these names.
    pub(crate) fn bind<const N: usize>(
        self,
        what: &str,
        names: [&str; N],
    ) -> Result<[Option<Value>; N]> {
        let given = self.positional.len();
        if given > N {
            return Err(Error::value(format!(
                "{what}() takes {N} arguments but {given} were given"
            )));
        }
        let mut positional = self.positional.into_iter();
        let mut bound = [const { None }; N];
        for slot in &mut bound {
            *slot = positional.next();
        }
        for (name, value) in self.named {
            let index = names.iter().position(|known| *known == name.clipped());
            let name = name.clipped();
            match index.and_then(|index| bound.get_mut(index)) {
                Some(slot) if slot.is_none() => *slot = Some(value),
                Some(_) => {
                    return Err(Error::value(format!(
                        "{what}() got multiple values for argument '{name}'"
                    )));
                }
                None => {
                    return Err(Error::value(format!(
                        "{what}() got an unexpected keyword argument '{name}'"
                    )));
                }
            }
        }
        Ok(bound)
    }

    /// Returns the only argument.
    pub(crate) fn one(&self, what: &str) -> Result<Value> {
        match (&*self.positional, &*self.named) {
            ([value], []) => Ok(value.clone()),
            _ => Err(Error::value(format!("{what}() takes exactly one argument"))),
        }
    }

    /// Fails if there are arguments.
    pub(crate) fn none(&self, what: &str) -> Result<()> {
        if self.positional.is_empty() && self.named.is_empty() {
            return Ok(());
        }
        Err(Error::value(format!("{what}() takes no arguments")))
    }

    /// Returns the index of the named argument `name`.
    pub(crate) fn place(&self, name: &str, meter: &Meter) -> Result<Option<usize>> {
        meter.spend((self.named.len() / 8) as u64)?;
        for (place, (known, _)) in self.named.iter().enumerate() {
            if known.is(name)? {
                return Ok(Some(place));
            }
        }
        Ok(None)
    }

    pub(crate) fn take_named(&mut self, name: &str, meter: &Meter) -> Result<Option<Value>> {
        let place = self.place(name, meter)?;
        Ok(place.map(|place| self.named.remove(place).1))
    }

    /// Removes and returns the first positional argument.
    pub(crate) fn shift(&mut self) -> Option<Value> {
        (!self.positional.is_empty()).then(|| self.positional.remove(0))
    }
}

/// Fails if a required argument is missing.
pub(crate) fn required(value: Option<Value>, what: &str) -> Result<Value> {
    value.ok_or_else(|| Error::value(format!("{what}() is missing a required argument")))
}

/// Returns an integer argument, or the default.
pub(crate) fn integer(value: Option<&Value>, default: i128) -> Result<i128> {
    match value {
        None => Ok(default),
        Some(Value::Undefined(missing)) => Err(missing.error()),
        Some(value) => value.as_int().ok_or_else(|| {
            Error::value(format!(
                "'{}' object cannot be interpreted as an integer",
                value.type_name()
            ))
        }),
    }
}

/// Returns an argument that is a width or a count.
pub(crate) fn size(value: Option<&Value>, default: i128) -> Result<usize> {
    Ok(usize::try_from(integer(value, default)?.max(0)).unwrap_or(usize::MAX))
}

/// Returns the truth value of an argument.
pub(crate) fn flag(value: Option<&Value>, default: bool) -> bool {
    value.map_or(default, Value::is_true)
}

/// Returns a maximum number of splits; `None` if it is negative (unlimited).
fn splits(value: Option<&Value>) -> Result<Option<usize>> {
    match value.and_then(Value::as_int) {
        Some(count) if count < 0 => Ok(None),
        _ => value.map(|value| size(Some(value), 0)).transpose(),
    }
}

/// The maximum length of `range` in Jinja's sandbox.
const MAX_RANGE: usize = 100_000;

/// Returns the global function of this name.
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
            // Kept until the end of the rendering.
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
            Err(Error::new(ErrorKind::Refused, message.read()?))
        }
        Callable::StrftimeNow => {
            let [format] = args.bind("strftime_now", ["format"])?;
            let Value::Text(format) = required(format, "strftime_now")? else {
                return Err(Error::value("strftime() argument 1 must be str"));
            };
            let now = run.now()?;
            let whole = format.read()?;
            run.meter.walk(whole.len().saturating_mul(16))?;
            let mut out = Builder::new(&run.meter)?;
            let mut written = Ok(());
            now.write_format(whole, &mut |place, part| {
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
        let bound = integer(Some(value), 0)?;
        bounds.push(i128::from(i64::try_from(bound).map_err(|_| too_long())?));
    }
    let (start, stop, stride) = match *bounds {
        [stop] => (0, stop, 1),
        [start, stop] => (start, stop, 1),
        [start, stop, stride] => (start, stop, stride),
        _ => return Err(Error::value("range expected 1 to 3 arguments")),
    };
    let span = Span::new(start, stop, stride)
        .ok_or_else(|| Error::value("range() arg 3 must not be zero"))?;
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

/// Returns the entries from the arguments of `dict` and `namespace`.
fn entries(args: Args, run: &Run<'_>) -> Result<Vec<(Value, Value)>> {
    let mut entries = Vec::new();
    match &*args.positional {
        [] => {}
        [Value::Dict(dict)] => {
            entries.extend_from_slice(dict.read()?);
        }
        [Value::Namespace(_)] => return Err(Error::unsupported("a namespace of a namespace")),
        [pairs] => {
            for pair in pairs.iterate(&run.meter)?.read()? {
                let pair = pair.iterate(&run.meter)?;
                let [key, value] = pair.read()? else {
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

const DICT: &[&str] = &["items", "keys", "values", "get", "copy", "fromkeys"];
const DICT_CHANGES: &[&str] = &["clear", "pop", "popitem", "setdefault", "update"];
const LIST: &[&str] = &["copy", "count", "index"];
const LIST_CHANGES: &[&str] =
    &["append", "clear", "extend", "insert", "pop", "remove", "reverse", "sort"];

/// Returns the method of a value with this name, and whether it modifies the value.
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
            for (index, item) in seq.read()?.iter().enumerate() {
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
            cycler.at.set((at + 1) % cycler.items.len().max(1));
            Ok(cycler.items.get(at).cloned().unwrap_or(Value::None))
        }
        _ => Err(Error::unsupported(format!("the method {} is not supported", method.name))),
    }
}

fn dict_method(dict: &Rc<Dict>, name: &str, args: Args, run: &Run<'_>) -> Result<Value> {
    let meter = &run.meter;
    match name {
        "get" => {
            let [key, default] = args.bind("get", ["key", "default"])?;
            let key = required(key, "get")?;
            crate::value::hashable(&key)?;
            run.probe(Comparison::Contains, &Value::Dict(Rc::clone(dict)), &key)?;
            let found = dict.get(&key)?.cloned();
            Ok(found.or(default).unwrap_or(Value::None))
        }
        "items" => {
            args.none(name)?;
            Value::seq(SeqKind::Items, pairs(dict, run)?, meter)
        }
        "keys" => {
            args.none(name)?;
            Value::seq(SeqKind::Keys, dict.keys()?, meter)
        }
        "values" => {
            args.none(name)?;
            let values = dict.read()?.iter().map(|(_, value)| value.clone()).collect();
            Value::seq(SeqKind::Values, values, meter)
        }
        "copy" => {
            args.none(name)?;
            Ok(Value::Dict(Rc::clone(dict)))
        }
        _ => Err(Error::unsupported(format!("the method {name} is not supported"))),
    }
}

/// Returns the entries of a dictionary as tuples.
pub(super) fn pairs(dict: &Dict, run: &Run<'_>) -> Result<Vec<Value>> {
    let mut pairs = Vec::with_capacity(dict.len());
    for (key, value) in dict.read()? {
        pairs.push(Value::seq(SeqKind::Tuple, vec![key.clone(), value.clone()], &run.meter)?);
    }
    Ok(pairs)
}

/// The names of all tests.
const TESTS: &[&str] = &[
    "!=",
    "<",
    "<=",
    "==",
    ">",
    ">=",
    "boolean",
    "callable",
    "defined",
    "divisibleby",
    "eq",
    "equalto",
    "escaped",
    "even",
    "false",
    "filter",
    "float",
    "ge",
    "greaterthan",
    "gt",
    "in",
    "integer",
    "iterable",
    "le",
    "lessthan",
    "lower",
    "lt",
    "mapping",
    "ne",
    "none",
    "number",
    "odd",
    "sameas",
    "sequence",
    "string",
    "test",
    "true",
    "undefined",
    "upper",
];

pub(crate) fn apply_test(name: &str, value: &Value, args: &Args, run: &Run<'_>) -> Result<bool> {
    let meter = &run.meter;
    let other = || args.one(name);
    match name {
        "eq" | "equalto" | "==" | "ne" | "!=" | "sameas" => {
            run.probe(Comparison::Equals, value, &other()?)?;
        }
        "in" => run.probe(Comparison::Contains, &other()?, value)?,
        _ => {}
    }
    let whole = || {
        value.defined()?;
        value.as_int().ok_or_else(|| {
            Error::value(format!(
                "not all arguments converted: the test {name} takes a number, not {}",
                value.type_name()
            ))
        })
    };
    Ok(match name {
        "defined" => !matches!(value, Value::Undefined(_)),
        "undefined" => matches!(value, Value::Undefined(_)),
        "none" => matches!(value, Value::None),
        "string" => matches!(value, Value::Text(_)),
        "mapping" => matches!(value, Value::Dict(_)),
        "boolean" => matches!(value, Value::Bool(_)),
        "true" => matches!(value, Value::Bool(true)),
        "false" => matches!(value, Value::Bool(false)),
        "integer" => matches!(value, Value::Int(_)),
        "float" => matches!(value, Value::Float(_)),
        "number" => value.is_number(),
        "iterable" => !matches!(
            value,
            Value::None
                | Value::Bool(_)
                | Value::Int(_)
                | Value::Float(_)
                | Value::Function(_)
                | Value::Method(_)
                | Value::Macro(_)
                | Value::Namespace(_)
                | Value::Cycler(_)
                | Value::Joiner(_)
        ),
        "sequence" => match value {
            Value::Seq(seq) => {
                !matches!(seq.kind, SeqKind::Items | SeqKind::Keys | SeqKind::Values)
            }
            Value::Text(_) | Value::Dict(_) | Value::Range(_) | Value::Undefined(_) => true,
            _ => false,
        },
        "callable" => matches!(
            value,
            Value::Function(_)
                | Value::Method(_)
                | Value::Macro(_)
                | Value::Joiner(_)
                | Value::Loop(_)
                | Value::Undefined(_)
        ),
        "escaped" => matches!(value, Value::Text(text) if text.is_safe()),
        "lower" => is_cased(value, char::is_lowercase, char::is_uppercase, run)?,
        "upper" => is_cased(value, char::is_uppercase, char::is_lowercase, run)?,
        "even" => whole()? % 2 == 0,
        "odd" => whole()? % 2 != 0,
        "divisibleby" => {
            let by = integer(Some(&other()?), 0)?;
            whole()?.checked_rem_euclid(by).ok_or_else(|| Error::value("integer modulo by zero"))?
                == 0
        }
        "in" => contains(&other()?, value, meter)?,
        "sameas" => {
            let other = other()?;
            value.type_name() == other.type_name() && compare(Sign::Eq, value, &other, meter)?
        }
        "eq" | "equalto" | "==" => compare(Sign::Eq, value, &other()?, meter)?,
        "ne" | "!=" => compare(Sign::Ne, value, &other()?, meter)?,
        "lt" | "lessthan" | "<" => compare(Sign::Lt, value, &other()?, meter)?,
        "le" | "<=" => compare(Sign::Le, value, &other()?, meter)?,
        "gt" | "greaterthan" | ">" => compare(Sign::Gt, value, &other()?, meter)?,
        "ge" | ">=" => compare(Sign::Ge, value, &other()?, meter)?,
        "filter" => matches!(value, Value::Text(text) if is_filter(text.clipped())),
        "test" => matches!(value, Value::Text(text) if TESTS.contains(&text.clipped())),
        _ => return Err(Error::value(format!("no test named '{name}'"))),
    })
}

/// Returns `true` if a text has letters of one case and none of the other.
fn is_cased(
    value: &Value,
    wanted: fn(char) -> bool,
    other: fn(char) -> bool,
    run: &Run<'_>,
) -> Result<bool> {
    let text = show(value, &run.meter)?;
    Ok(text::is_cased(text.read()?, wanted, other))
}

#[cfg(test)]
mod tests {
    use super::{filters, sequences, text};
    use crate::{Conversation, ErrorKind, Json, Limits, Moment, RenderOptions, Template};

    /// Evaluates an expression with a text `t` of 4 MiB and a list `l` of 200,000 numbers, of which
    /// every complete pass exceeds the limit of steps.
    fn kind(expression: &str) -> Option<ErrorKind> {
        let template = Template::parse(&format!("{{% set y = {expression} %}}")).expect("parses");
        let numbers = Json::Array((0..200_000).map(|_| Json::Int(7)).collect());
        let conversation = Conversation::of([("user", "Hello")])
            .with_variable("t", Json::from(&*"a ".repeat(2 << 20)))
            .with_variable("l", numbers);
        let options = RenderOptions::new()
            .with_limits(Limits::new().with_steps(100_000))
            .with_now(Moment::from_unix(0));
        template.render(&conversation, &options).err().map(|error| error.kind())
    }

    /// Every operation pays for the bytes that it touches; the exceptions touch none.
    #[test]
    fn every_operation_is_metered() {
        // Filters that read no byte of a text, or refuse it.
        const CONSTANT: &[&str] =
            &["d", "default", "string", "abs", "round", "attr", "items", "dictsort"];
        const ARGUMENTS: &[&str] = &["()", "(t)", "('a')", "('a', 'b')", "(3)"];
        let filters = filters::NAMES.iter().chain(sequences::NAMES);
        let filters = filters.filter(|name| !CONSTANT.contains(name)).map(|name| ("t|", name));
        let methods = text::METHODS.iter().map(|name| ("t.", name));
        let mut unmetered = Vec::new();
        for (object, name) in filters.chain(methods) {
            let pays = |arguments| kind(&format!("{object}{name}{arguments}"));
            if !ARGUMENTS.iter().any(|arguments| pays(arguments) == Some(ErrorKind::Limit)) {
                unmetered.push(format!("{object}{name}"));
            }
        }
        for expression in [
            "t ~ ''",
            "t + 'a'",
            "t * 2",
            "'b' in t",
            "t in 'b'",
            "t == t ~ ''",
            "t[::2]",
            "t[::-1]",
            "t[5]",
            "t[-1]",
            "t[1:]",
            "t % 1",
            "'%s' % t",
            "'{}'.format(t)",
            "l ~ ''",
            "l|string",
            "l|sum",
            "l|length ~ l",
            "l + l",
            "l[1:]",
            "9 in l",
            "l == l + []",
            "l.count(7)",
            "l.index(8)",
            "l|join",
            "l|reverse",
            "l|list",
            "l|min",
            "l|max",
            "l|unique|list",
            "l|sort",
            "l|map('string')|list",
            "l|select|list",
            "l|tojson",
            "dict(x=l) ~ ''",
            "1|tojson(indent=t)",
            "1|tojson(separators=(t, t))",
            "[1, 2]|join(t)",
            "{t: 1}[t ~ '']",
            "t is lower",
            "t is upper",
            "t is eq(t ~ '')",
            "'a'.strip(t)",
            "'a'|trim(t)",
            "'a'.startswith(t)",
            "'a'.replace(t, '')",
            "t|map('upper')|list",
            "'%.0s' % t",
            "strftime_now(t)",
            "namespace(a=l).a|sum",
            "range(100000)|sum + range(100000)|sum",
        ] {
            if kind(expression) != Some(ErrorKind::Limit) {
                unmetered.push(expression.to_owned());
            }
        }
        assert!(unmetered.is_empty(), "{unmetered:#?}");
    }

    /// Digits of numbers cost more than their bytes.
    #[test]
    fn formats_of_numbers_are_metered() {
        for format in ["'%.999g' % 1e-300", "'{:.999f}'.format(1e300)", "0.1|round(300)"] {
            let text =
                format!("{{% for i in range(1000) %}}{{% set y = {format} %}}{{% endfor %}}");
            let options = RenderOptions::new().with_limits(Limits::new().with_steps(500_000));
            let rendered = Template::parse(&text)
                .and_then(|template| template.render(&Conversation::of([("user", "")]), &options));
            assert_eq!(
                rendered.err().map(|error| error.kind()),
                Some(ErrorKind::Limit),
                "{format}"
            );
        }
    }
}
