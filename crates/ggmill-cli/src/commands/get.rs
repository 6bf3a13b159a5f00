//! `ggmill get`: prints one metadata value in raw form.

use std::io::Write as _;
use std::path::PathBuf;

use ggmill_core::RawStr;
use ggmill_edit::value_json;
use ggmill_inspect::{RawValueError, raw_value};

use crate::console::Console;
use crate::files::{open_partial, shown};
use crate::outcome::{Failure, Status};

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
    ggmill::refuse_interrupted(&[&args.file])?;
    let (model, truncation) = open_partial(&args.file, false)?;
    let value = match (model.value(&args.key), truncation) {
        (value, None) => value?,
        // The readable part of the file has the value.
        (Ok(value), Some(truncation)) => {
            if let Failure::Refused { message, .. } = &truncation {
                console.warn(message);
            }
            value
        }
        (Err(_), Some(truncation)) => return Err(truncation),
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

/// Returns an error that names the file and the key.
fn about(args: &Args, why: &dyn std::fmt::Display) -> Failure {
    Failure::new(format_args!("{}: key {:?}: {why}", shown(&args.file), RawStr::from(&*args.key)))
}
