//! `ggmill get`: one metadata value, for other programs.

use std::io::Write as _;
use std::path::PathBuf;

use ggmill_core::{Model, RawStr, Value};
use ggmill_edit::{parse_element, value_json};
use ggmill_inspect::{RawValueError, raw_value};

use crate::console::Console;
use crate::outcome::{Failure, Status};
use crate::paths::shown;
use crate::source::open_what_is_there;

/// Print one metadata value in raw form
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  ggmill get model.gguf general.architecture
  ggmill get model.gguf tokenizer.chat_template > template.jinja
  ggmill get model.gguf 'tokenizer.ggml.tokens[5]'

A string is written byte for byte, without a trailing newline, so that it can be redirected to a \
file; on a terminal a newline is added and control characters are escaped. Numbers are printed on \
one line, arrays with one element per line: the format that `ggmill edit --set KEY=@FILE` reads.")]
pub(crate) struct Args {
    /// The model: a file, any shard of a split model, or - for standard input
    file: PathBuf,
    /// The key; KEY[N] is one element of an array, counted from 0
    key: String,
    /// Write the value as JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args, console: Console) -> Result<Status, Failure> {
    let (model, cut) = open_what_is_there(&args.file, false)?;
    let value = match (value(&model, args), cut) {
        (value, None) => value?,
        // What is there of the file has the value: what is missing does not change it.
        (Ok(value), Some(cut)) => {
            if let Failure::Refused { message, .. } = &cut {
                console.warn(message);
            }
            value
        }
        (Err(_), Some(cut)) => return Err(cut),
    };
    if args.json {
        let mut out = console.bytes();
        let json = value_json(&value).map_err(|error| about(args, &error))?;
        ggmill_text::json::write_pretty(&mut out, &json)?;
        out.flush()?;
        return Ok(Status::Fine);
    }
    let bytes = raw_value(&value).map_err(|error| {
        let hint = match error {
            RawValueError::Nested | RawValueError::LineBreak { .. } => {
                Some("--json prints the value as JSON".to_owned())
            }
            _ => None,
        };
        about(args, &error).with_hint(hint)
    })?;
    if console.width().is_some() {
        let mut out = console.text();
        let lines = bytes.strip_suffix(b"\n").unwrap_or(&bytes);
        for line in lines.split(|&byte| byte == b'\n') {
            writeln!(out, "{}", RawStr::new(line))?;
        }
        out.flush()?;
    } else {
        let mut out = console.bytes();
        out.write_all(&bytes)?;
        out.flush()?;
    }
    Ok(Status::Fine)
}

/// A refusal that names the file and the key.
fn about(args: &Args, why: &dyn std::fmt::Display) -> Failure {
    Failure::new(format_args!("{}: key {:?}: {why}", shown(&args.file), RawStr::from(&*args.key)))
}

/// The value that was asked for.
fn value<'a>(model: &'a Model, args: &Args) -> Result<Value<'a>, Failure> {
    let metadata = model.metadata();
    let read = |key: &str| {
        let entry = metadata.get(key)?;
        Some(entry.value().map_err(|error| about(args, &error)))
    };
    if let Some(value) = read(&args.key) {
        return value;
    }
    let absent = || {
        let hint = if args.key.contains(['*', '?']) {
            Some(
                "only one value is printed; `ggmill extract FILE --key GLOB -o -` prints all \
                 matching entries as JSON"
                    .to_owned(),
            )
        } else {
            let list = || Some("`ggmill inspect FILE --metadata` lists the keys".to_owned());
            near(model, &args.key).or_else(list)
        };
        about(args, &"no such key").with_hint(hint)
    };
    let Some((key, index)) = parse_element(&args.key).ok().flatten() else { return Err(absent()) };
    let whole = read(key).ok_or_else(absent)??;
    let array = whole.as_array().ok_or_else(|| about(args, &"is not an array"))?;
    let place = usize::try_from(index).unwrap_or(usize::MAX);
    let element = array.iter().nth(place).ok_or_else(|| {
        about(args, &format_args!("the array has {} elements, counted from 0", array.len()))
    })?;
    element.map_err(|error| about(args, &error))
}

/// The keys that could have been meant.
fn near(model: &Model, key: &str) -> Option<String> {
    const SHOWN: usize = 3;
    let keys: Vec<&str> =
        model.metadata().iter().filter_map(|entry| entry.key().to_str().ok()).collect();
    let shown: Vec<String> = ggmill_check::near_keys(key, &keys)
        .into_iter()
        .take(SHOWN)
        .map(|key| RawStr::from(key).to_string())
        .collect();
    (!shown.is_empty()).then(|| format!("did you mean {}?", shown.join(" or ")))
}
