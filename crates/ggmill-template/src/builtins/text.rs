//! The methods of Python's `str`.

use std::collections::BTreeSet;
use std::ops::Range;
use std::rc::Rc;

use super::{Args, flag, format, required, size, splits};
use crate::error::{Error, Result};
use crate::meter::Held;
use crate::probe::Comparison;
use crate::run::Run;
use crate::value::{Builder, Seq, SeqKind, Text, Value};

/// The methods of `str`. Unsupported ones fail when they are called.
pub(super) const METHODS: &[&str] = &[
    "capitalize",
    "casefold",
    "center",
    "count",
    "encode",
    "endswith",
    "expandtabs",
    "find",
    "format",
    "format_map",
    "index",
    "isalnum",
    "isalpha",
    "isascii",
    "isdecimal",
    "isdigit",
    "isidentifier",
    "islower",
    "isnumeric",
    "isprintable",
    "isspace",
    "istitle",
    "isupper",
    "join",
    "ljust",
    "lower",
    "lstrip",
    "maketrans",
    "partition",
    "removeprefix",
    "removesuffix",
    "replace",
    "rfind",
    "rindex",
    "rjust",
    "rpartition",
    "rsplit",
    "rstrip",
    "split",
    "splitlines",
    "startswith",
    "strip",
    "swapcase",
    "title",
    "translate",
    "upper",
    "zfill",
];

/// The position of the fill characters.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    Left,
    Right,
    Both,
}

/// Returns Python's `str.isspace` of a character.
pub(super) fn is_space(c: char) -> bool {
    c.is_whitespace() || ('\x1c'..='\x1f').contains(&c)
}

/// Returns Python's `str.strip`.
pub(super) fn trim(text: &str) -> &str {
    text.trim_matches(is_space)
}

#[expect(clippy::too_many_lines, reason = "a table of methods")]
pub(super) fn call(text: &Text, name: &str, args: Args, run: &mut Run<'_>) -> Result<Value> {
    let meter = Rc::clone(&run.meter);
    let whole = text.read()?;
    let takes_names = matches!(name, "split" | "rsplit" | "splitlines" | "format");
    if !takes_names && !args.named.is_empty() {
        return Err(Error::value(format!("str.{name}() takes no keyword arguments")));
    }
    let every =
        |holds: fn(char) -> bool| Value::Bool(!whole.is_empty() && whole.chars().all(holds));
    Ok(match name {
        "upper" => plain(&args, name, text.map(str::to_uppercase))?,
        "lower" | "casefold" => plain(&args, name, text.map(str::to_lowercase))?,
        "swapcase" => plain(&args, name, text.map(swapped))?,
        "capitalize" => {
            let mut begins = true;
            plain(
                &args,
                name,
                text.map(|piece| {
                    let mut chars = piece.chars();
                    let first = if std::mem::take(&mut begins) { chars.next() } else { None };
                    let mut out: String = first.into_iter().flat_map(char::to_uppercase).collect();
                    out.push_str(&chars.as_str().to_lowercase());
                    out
                }),
            )?
        }
        "title" => {
            let mut inside = false;
            plain(
                &args,
                name,
                text.map(|piece| {
                    let mut out = String::new();
                    for c in piece.chars() {
                        if inside {
                            out.extend(c.to_lowercase());
                        } else {
                            out.extend(c.to_uppercase());
                        }
                        inside = c.is_alphabetic();
                    }
                    out
                }),
            )?
        }
        "strip" | "lstrip" | "rstrip" => {
            let [chars] = args.bind(name, ["chars"])?;
            Value::Text(strip(text, chars.as_ref(), name != "rstrip", name != "lstrip")?)
        }
        "split" | "rsplit" => {
            let [separator, most] = args.bind(name, ["sep", "maxsplit"])?;
            let most = splits(most.as_ref())?.unwrap_or(usize::MAX);
            let from_right = name == "rsplit";
            let mut items = match &separator {
                None | Some(Value::None) => parts(text, words(whole, most, from_right), run)?,
                Some(separator) => {
                    run.probe(Comparison::Contains, &Value::Text(text.clone()), separator)?;
                    let separator = text_of(separator)?;
                    let separator = separator.read()?;
                    if separator.is_empty() {
                        return Err(Error::value("empty separator"));
                    }
                    if from_right {
                        parts(text, pieces_from_right(whole, separator, most), run)?
                    } else {
                        parts(text, pieces(whole, separator, most), run)?
                    }
                }
            };
            if from_right {
                items.reverse();
            }
            Value::list(items, &meter)?
        }
        "splitlines" => {
            let [keep] = args.bind(name, ["keepends"])?;
            if flag(keep.as_ref(), false) {
                return Err(Error::unsupported("splitlines(keepends) is not supported"));
            }
            Value::list(parts(text, lines(whole), run)?, &meter)?
        }
        "partition" | "rpartition" => {
            let separator = args.one(name)?;
            run.probe(Comparison::Contains, &Value::Text(text.clone()), &separator)?;
            let separator = text_of(&separator)?;
            let separator = separator.read()?;
            if separator.is_empty() {
                return Err(Error::value("empty separator"));
            }
            let last = name == "rpartition";
            let found = if last { whole.rfind(separator) } else { whole.find(separator) };
            let all = whole.len();
            let ranges = match found {
                Some(at) => vec![0..at, at..at + separator.len(), at + separator.len()..all],
                None if last => vec![0..0, 0..0, 0..all],
                None => vec![0..all, all..all, all..all],
            };
            Value::seq(SeqKind::Tuple, parts(text, ranges, run)?, &meter)?
        }
        "startswith" | "endswith" => {
            let [what, start, end] = args.bind(name, ["prefix", "start", "end"])?;
            let part = window(text, start.as_ref(), end.as_ref(), run)?;
            let affixes = match required(what, name)? {
                Value::Seq(seq) if seq.kind == SeqKind::Tuple => seq,
                other => Seq::new(SeqKind::Tuple, vec![other], &meter)?,
            };
            let comparison =
                if name == "startswith" { Comparison::Begins } else { Comparison::Ends };
            let compared = Value::Text(part.clone());
            let part = part.read()?;
            let mut found = false;
            for affix in affixes.read()? {
                run.probe(comparison, &compared, affix)?;
                let affix = text_of(affix)?;
                let affix = affix.read()?;
                found = found
                    || if name == "startswith" {
                        part.starts_with(affix)
                    } else {
                        part.ends_with(affix)
                    };
            }
            Value::Bool(found)
        }
        "find" | "rfind" | "index" | "rindex" | "count" => search(text, name, args, run)?,
        "replace" => {
            let [old, new, count] = args.bind(name, ["old", "new", "count"])?;
            let old = required(old, name)?;
            run.probe(Comparison::Contains, &Value::Text(text.clone()), &old)?;
            let old = text_of(&old)?;
            let new = text_of(&required(new, name)?)?;
            let new = if text.is_safe() { new.escaped()? } else { new };
            Value::Text(replace(text, old.read()?, &new, splits(count.as_ref())?)?)
        }
        "join" => {
            let mut out = Builder::new(&meter)?;
            for (number, item) in args.one(name)?.iterate(&meter)?.read()?.iter().enumerate() {
                meter.spend(1)?;
                if number > 0 {
                    out.push_text(text)?;
                }
                match item {
                    Value::Text(item) => out.push_text(item)?,
                    Value::Undefined(missing) => return Err(missing.error()),
                    other => {
                        return Err(Error::value(format!(
                            "sequence item {number}: expected str instance, {} found",
                            other.type_name()
                        )));
                    }
                }
            }
            Value::Text(out.finish_like(text))
        }
        "removeprefix" | "removesuffix" => {
            let affix = args.one(name)?;
            let comparison =
                if name == "removeprefix" { Comparison::Begins } else { Comparison::Ends };
            run.probe(comparison, &Value::Text(text.clone()), &affix)?;
            let affix = text_of(&affix)?;
            let affix = affix.read()?;
            Value::Text(text.part(|whole| {
                let cut = if name == "removeprefix" {
                    whole.strip_prefix(affix)
                } else {
                    whole.strip_suffix(affix)
                };
                cut.unwrap_or(whole)
            })?)
        }
        "ljust" | "rjust" | "center" => {
            let [width, fill] = args.bind(name, ["width", "fillchar"])?;
            let width = size(Some(&required(width, name)?), 0)?;
            let fill = match &fill {
                None => ' ',
                Some(fill) => {
                    let fill = text_of(fill)?;
                    let mut chars = fill.read()?.chars();
                    match (chars.next(), chars.next()) {
                        (Some(c), None) => c,
                        _ => {
                            return Err(Error::value(
                                "The fill character must be exactly one character long",
                            ));
                        }
                    }
                }
            };
            let side = match name {
                "ljust" => Side::Right,
                "rjust" => Side::Left,
                _ => Side::Both,
            };
            Value::Text(justify(text, width, fill, side)?)
        }
        "zfill" => {
            let width = size(Some(&args.one(name)?), 0)?;
            let sign = usize::from(whole.starts_with(['+', '-']));
            let mut out = Builder::new(&meter)?;
            out.push_slice(text, 0..sign)?;
            out.fill('0', width.saturating_sub(whole.chars().count()))?;
            out.push_slice(text, sign..whole.len())?;
            Value::Text(out.finish())
        }
        "format" => Value::Text(format::braces(text, &args, run)?),
        "isspace" => every(is_space),
        "isalpha" => every(char::is_alphabetic),
        "isalnum" => every(char::is_alphanumeric),
        "isdigit" | "isdecimal" => {
            every(|c| c.is_numeric() && (!c.is_ascii() || c.is_ascii_digit()))
        }
        "isnumeric" => every(char::is_numeric),
        "isascii" => Value::Bool(whole.is_ascii()),
        "islower" => Value::Bool(is_cased(whole, char::is_lowercase, char::is_uppercase)),
        "isupper" => Value::Bool(is_cased(whole, char::is_uppercase, char::is_lowercase)),
        "isidentifier" => Value::Bool(
            whole.chars().all(|c| c.is_alphanumeric() || c == '_')
                && whole.chars().next().is_some_and(|c| !c.is_numeric()),
        ),
        _ => return Err(Error::unsupported(format!("the method {name} of text is not supported"))),
    })
}

fn plain(args: &Args, name: &str, text: Result<Text>) -> Result<Value> {
    args.none(name)?;
    text.map(Value::Text)
}

fn swapped(piece: &str) -> String {
    let mut out = String::new();
    for c in piece.chars() {
        if c.is_uppercase() { out.extend(c.to_lowercase()) } else { out.extend(c.to_uppercase()) }
    }
    out
}

/// Returns `true` if a text has letters of one case and none of the other.
pub(super) fn is_cased(text: &str, wanted: fn(char) -> bool, other: fn(char) -> bool) -> bool {
    text.chars().any(wanted) && !text.chars().any(other)
}

fn text_of(value: &Value) -> Result<Text> {
    match value {
        Value::Text(text) => Ok(text.clone()),
        Value::Undefined(missing) => Err(missing.error()),
        _ => Err(Error::value(format!("must be str, not {}", value.type_name()))),
    }
}

/// Strips whitespace or other characters from the sides.
pub(super) fn strip(text: &Text, chars: Option<&Value>, left: bool, right: bool) -> Result<Text> {
    let set = match chars {
        None | Some(Value::None) => None,
        Some(chars) => {
            let chars = text_of(chars)?;
            text.meter().spend((chars.len() / 4) as u64)?;
            let _room = Held::new(text.meter(), chars.len().saturating_mul(size_of::<char>()))?;
            Some(chars.read()?.chars().collect::<BTreeSet<_>>())
        }
    };
    let drops = |c: char| set.as_ref().map_or_else(|| is_space(c), |set| set.contains(&c));
    text.part(|whole| {
        let whole = if left { whole.trim_start_matches(drops) } else { whole };
        if right { whole.trim_end_matches(drops) } else { whole }
    })
}

/// Returns the ranges of words between whitespace, in reverse order if `from_right`.
fn words(whole: &str, most: usize, from_right: bool) -> impl Iterator<Item = Range<usize>> {
    // With a limit, the rest keeps the whitespace on its other side.
    let mut rest = if most == usize::MAX {
        trim(whole)
    } else if from_right {
        whole.trim_end_matches(is_space)
    } else {
        whole.trim_start_matches(is_space)
    };
    let mut count = 0;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let cut = if from_right { rest.rfind(is_space) } else { rest.find(is_space) };
        let word = match cut.filter(|_| count < most) {
            None => std::mem::take(&mut rest),
            Some(cut) => {
                let (before, after) = rest.split_at(cut);
                if from_right {
                    rest = before.trim_end_matches(is_space);
                    after.trim_start_matches(is_space)
                } else {
                    rest = after.trim_start_matches(is_space);
                    before
                }
            }
        };
        count += 1;
        let start = word.as_ptr() as usize - whole.as_ptr() as usize;
        Some(start..start + word.len())
    })
}

/// Returns the ranges between separators.
fn pieces(whole: &str, separator: &str, most: usize) -> impl Iterator<Item = Range<usize>> {
    let mut start = 0;
    let found = whole.match_indices(separator).take(most).map(|(at, _)| (at, at + separator.len()));
    found.chain([(whole.len(), whole.len())]).map(move |(at, after)| {
        let piece = start..at;
        start = after;
        piece
    })
}

/// Returns the ranges between separators, in reverse order.
fn pieces_from_right(
    whole: &str,
    separator: &str,
    most: usize,
) -> impl Iterator<Item = Range<usize>> {
    let mut end = whole.len();
    let found =
        whole.rmatch_indices(separator).take(most).map(|(at, _)| (at, at + separator.len()));
    found.chain([(0, 0)]).map(move |(at, after)| {
        let piece = after..end;
        end = at;
        piece
    })
}

/// Returns `true` for Python's line breaks.
fn is_break(c: char) -> bool {
    matches!(
        c,
        '\n' | '\r' | '\x0b' | '\x0c' | '\x1c'..='\x1e' | '\u{85}' | '\u{2028}' | '\u{2029}'
    )
}

/// Returns `true` if a line break that follows would begin another line.
pub(super) fn ends_with_break(text: &str) -> bool {
    text.ends_with(is_break) && !text.ends_with('\r')
}

/// Returns the ranges of lines, without line breaks.
pub(super) fn lines(whole: &str) -> impl Iterator<Item = Range<usize>> {
    let mut start = 0;
    std::iter::from_fn(move || {
        let rest = whole.get(start..).filter(|rest| !rest.is_empty())?;
        let Some((length, found)) = rest.char_indices().find(|(_, c)| is_break(*c)) else {
            let line = start..whole.len();
            start = whole.len();
            return Some(line);
        };
        let line = start..start + length;
        start = line.end + found.len_utf8();
        if found == '\r' && whole.get(start..).is_some_and(|rest| rest.starts_with('\n')) {
            start += 1;
        }
        Some(line)
    })
}

/// Returns the parts of a text.
fn parts(
    text: &Text,
    ranges: impl IntoIterator<Item = Range<usize>>,
    run: &Run<'_>,
) -> Result<Vec<Value>> {
    let mut items = Vec::new();
    for range in ranges {
        run.meter.spend(1)?;
        items.push(Value::Text(text.slice(range)?));
    }
    Ok(items)
}

/// Returns the byte range between two positions in characters.
fn window(text: &Text, start: Option<&Value>, end: Option<&Value>, run: &Run<'_>) -> Result<Text> {
    if start.is_none() && end.is_none() {
        return Ok(text.clone());
    }
    let bound = |value: Option<&Value>| match value {
        None => Ok(None),
        Some(value) => crate::run::index(value),
    };
    match run.slice(&Value::Text(text.clone()), [bound(start)?, bound(end)?, None])? {
        Value::Text(part) => Ok(part),
        _ => Ok(text.clone()),
    }
}

fn search(text: &Text, name: &str, args: Args, run: &Run<'_>) -> Result<Value> {
    let [what, start, end] = args.bind(name, ["sub", "start", "end"])?;
    let what = required(what, name)?;
    let part = window(text, start.as_ref(), end.as_ref(), run)?;
    run.probe(Comparison::Contains, &Value::Text(part.clone()), &what)?;
    let what = text_of(&what)?;
    let (part, what) = (part.read()?, what.read()?);
    if name == "count" {
        let count =
            if what.is_empty() { part.chars().count() + 1 } else { part.matches(what).count() };
        return Ok(Value::int(count));
    }
    let found = if name.starts_with('r') { part.rfind(what) } else { part.find(what) };
    let Some(at) = found else {
        if name.ends_with("index") {
            return Err(Error::value("substring not found"));
        }
        return Ok(Value::Int(-1));
    };
    let before = part.get(..at).unwrap_or_default().chars().count();
    let first = match start.as_ref().and_then(Value::as_int) {
        None => 0,
        Some(start) if start < 0 => (text.read()?.chars().count() as i128 + start).max(0),
        Some(start) => start,
    };
    Ok(Value::Int(first + before as i128))
}

/// Returns Python's `str.replace`.
pub(super) fn replace(text: &Text, old: &str, new: &Text, most: Option<usize>) -> Result<Text> {
    let whole = text.read()?;
    let most = most.unwrap_or(usize::MAX);
    let mut out = Builder::new(text.meter())?;
    let mut done = 0;
    for (at, found) in whole.match_indices(old).take(most) {
        text.meter().spend(1)?;
        out.push_slice(text, done..at)?;
        out.push_text(new)?;
        done = at + found.len();
    }
    out.push_slice(text, done..whole.len())?;
    Ok(out.finish_like(text))
}

/// Pads a text to a width.
pub(super) fn justify(text: &Text, width: usize, fill: char, side: Side) -> Result<Text> {
    let more = width.saturating_sub(text.read()?.chars().count());
    let left = match side {
        Side::Left => more,
        Side::Right => 0,
        // Python's rounding.
        Side::Both => more / 2 + (more & width & 1),
    };
    let mut out = Builder::new(text.meter())?;
    out.fill(fill, left)?;
    out.push_text(text)?;
    out.fill(fill, more - left)?;
    Ok(out.finish_like(text))
}
