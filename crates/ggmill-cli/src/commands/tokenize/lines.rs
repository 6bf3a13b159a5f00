//! `--jsonl`: a JSON string per line, and its tokens per line.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read as _, Write};
use std::path::Path;

use ggmill_tokenizer::{EncodeOptions, Tokenizer};

use super::MAX_TEXT;
use crate::console::Console;
use crate::outcome::{Failure, Status};
use crate::paths::shown;

pub(super) fn tokenize(
    tokenizer: &Tokenizer,
    options: EncodeOptions,
    from: Option<&Path>,
    console: Console,
) -> Result<Status, Failure> {
    let mut ids = Vec::new();
    each(from, console, |line, out| {
        let text: String = serde_json::from_str(line)
            .map_err(|error| Failure::new(format_args!("expected a JSON string: {error}")))?;
        ids.clear();
        tokenizer.encode(&text, &options, &mut ids).map_err(Failure::new)?;
        out.write_all(b"[")?;
        for (number, id) in ids.iter().enumerate() {
            write!(out, "{}{id}", if number > 0 { "," } else { "" })?;
        }
        Ok(out.write_all(b"]\n")?)
    })
}

/// Calls `work` for each line of a file or of standard input, except empty ones. The output is flushed
/// whenever no further line is buffered, so that another program can send line by line.
pub(crate) fn each(
    from: Option<&Path>,
    console: Console,
    mut work: impl FnMut(&str, &mut dyn Write) -> Result<(), Failure>,
) -> Result<Status, Failure> {
    let mut input: Box<dyn io::Read> = match from.filter(|path| path.as_os_str() != "-") {
        None => Box::new(io::stdin().lock()),
        Some(path) => Box::new(
            File::open(path)
                .map_err(|error| Failure::new(format_args!("{}: {error}", shown(path))))?,
        ),
    };
    let mut input = BufReader::with_capacity(64 << 10, &mut input);
    let mut out = console.bytes();
    let mut line = Vec::new();
    let mut number = 0u64;
    let name = from.map_or_else(|| "standard input".to_owned(), |path| shown(path).to_string());
    let refused = |number: u64, why: &dyn std::fmt::Display| {
        Failure::new(format_args!("{name}: line {number}: {why}"))
    };
    loop {
        line.clear();
        number += 1;
        // JSON escapes a byte with at most six.
        let limit = MAX_TEXT * 6;
        let read = (&mut input).take(limit).read_until(b'\n', &mut line);
        if read.map_err(|error| refused(number, &error))? == 0 {
            break;
        }
        let text = std::str::from_utf8(&line).map_err(|error| refused(number, &error))?;
        if !text.trim().is_empty() {
            work(text, &mut out).map_err(|failure| match failure {
                Failure::Refused { message, .. } => refused(number, &message),
                Failure::Closed => Failure::Closed,
            })?;
        }
        if input.buffer().is_empty() {
            out.flush()?;
        }
    }
    out.flush()?;
    Ok(Status::Fine)
}
