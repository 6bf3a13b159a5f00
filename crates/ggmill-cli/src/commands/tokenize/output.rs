//! The output formats of `ggmill tokenize`: IDs, lines, colored text, JSON, HTML, and counts.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read as _, Write};
use std::path::{Path, PathBuf};

use anstyle::{Color, Effects, RgbColor, Style};
use ggmill::count_tokens;
use ggmill_core::RawStr;
use ggmill_text::html::Escaped;
use ggmill_tokenizer::{Attributes, EncodeOptions, Piece, Tokenizer};

use super::MAX_TEXT;
use crate::console::{Console, counted};
use crate::files::{shown, text_of};
use crate::outcome::{Failure, Status};
use crate::progress::Bar;

/// Backgrounds of adjacent tokens, on which dark text is readable.
pub(super) const BACKGROUNDS: [RgbColor; 5] = [
    RgbColor(0xC9, 0xE4, 0xFF),
    RgbColor(0xD6, 0xF5, 0xD0),
    RgbColor(0xFF, 0xEB, 0xB8),
    RgbColor(0xFF, 0xD6, 0xD6),
    RgbColor(0xE6, 0xD9, 0xFF),
];

/// Returns the bytes of a token.
pub(super) fn text(tokenizer: &Tokenizer, id: u32) -> RawStr<'_> {
    RawStr::new(tokenizer.piece(id).unwrap_or_default())
}

/// Prints the IDs as a list (`--ids`).
pub(super) fn print_ids(pieces: &[Piece], console: Console) -> io::Result<()> {
    let mut out = console.bytes();
    out.write_all(b"[")?;
    for (number, piece) in pieces.iter().enumerate() {
        write!(out, "{}{}", if number > 0 { ", " } else { "" }, piece.id)?;
    }
    out.write_all(b"]\n")?;
    out.flush()
}

/// Prints one line per token (`--pieces` and `--offsets`).
pub(super) fn print_pieces(
    tokenizer: &Tokenizer,
    pieces: &[Piece],
    with_offsets: bool,
    console: Console,
) -> io::Result<()> {
    let mut out = console.text();
    for piece in pieces {
        if with_offsets {
            write!(out, "{:>8}..{:<8} ", piece.start, piece.end)?;
        }
        writeln!(out, "{:>6}  {:?}", piece.id, text(tokenizer, piece.id))?;
    }
    out.flush()
}

/// Prints the text with alternating background colors for the tokens, and the number of tokens.
pub(super) fn print_colored(
    tokenizer: &Tokenizer,
    pieces: &[Piece],
    console: Console,
) -> io::Result<()> {
    let mut out = console.text();
    let mut ends_line = true;
    for (piece, background) in pieces.iter().zip(BACKGROUNDS.iter().cycle()) {
        let is_control =
            tokenizer.vocabulary().attributes(piece.id).intersects(Attributes::CONTROL);
        let effects = if is_control { Effects::BOLD } else { Effects::new() };
        let style = Style::new()
            .bg_color(Some(Color::Rgb(*background)))
            .fg_color(Some(Color::Rgb(RgbColor(0, 0, 0))))
            .effects(effects);
        let text = text(tokenizer, piece.id);
        write!(out, "{style}{text}{style:#}")?;
        ends_line = text.as_bytes().ends_with(b"\n");
        if ends_line {
            writeln!(out)?;
        }
    }
    if !ends_line {
        writeln!(out)?;
    }
    let faint = Style::new().effects(Effects::DIMMED);
    let tokens = if pieces.len() == 1 { "token" } else { "tokens" };
    writeln!(out, "{faint}{} {tokens}{faint:#}", pieces.len())?;
    out.flush()
}

/// Prints the tokens as JSON (`--json`).
pub(super) fn print_json(
    tokenizer: &Tokenizer,
    pieces: &[Piece],
    console: Console,
) -> io::Result<()> {
    let mut out = console.bytes();
    tokenizer.write_json(pieces, &mut out)?;
    out.flush()
}

/// The head of the page, which is self-contained and has no scripts.
const HEAD: &str = "<!DOCTYPE html>
<html lang=\"en\">
<meta charset=\"utf-8\">
<title>Tokens</title>
<style>
body { font: 16px/1.7 ui-monospace, monospace; margin: 2em; color: #000; background: #fff }
p { white-space: pre-wrap; overflow-wrap: anywhere }
span { border-radius: 3px }
.control { font-weight: bold; outline: 1px solid #000 }
";

/// Writes the tokens as an HTML page (`--html`), with alternating backgrounds. The title of each token
/// has its ID and offsets.
pub(super) fn write_html(
    tokenizer: &Tokenizer,
    pieces: &[Piece],
    out: &mut impl io::Write,
) -> io::Result<()> {
    out.write_all(HEAD.as_bytes())?;
    for (number, color) in BACKGROUNDS.iter().enumerate() {
        writeln!(
            out,
            ".t{number} {{ background: #{:02x}{:02x}{:02x} }}",
            color.0, color.1, color.2
        )?;
    }
    write!(out, "</style>\n<h1>{}</h1>\n<p>", counted(pieces.len(), "token"))?;
    for (number, piece) in pieces.iter().enumerate() {
        let attributes = tokenizer.vocabulary().attributes(piece.id);
        let control = if attributes.intersects(Attributes::CONTROL) { " control" } else { "" };
        let class = number % BACKGROUNDS.len();
        let Piece { id, start, end } = piece;
        write!(out, "<span class=\"t{class}{control}\" title=\"{id}, bytes {start} to {end}\">")?;
        // Escaped as for a terminal, except for line breaks.
        for (line, part) in text(tokenizer, *id).as_bytes().split(|&byte| byte == b'\n').enumerate()
        {
            if line > 0 {
                out.write_all("↵\n".as_bytes())?;
            }
            write!(out, "{}", Escaped(ggmill_core::RawStr::new(part)))?;
        }
        out.write_all(b"</span>")?;
    }
    out.write_all(b"</p>\n</html>\n")?;
    out.flush()
}

/// Prints the number of tokens of each file, and the sum if there are several (`--count`).
pub(super) fn print_counts(
    tokenizer: &Tokenizer,
    options: EncodeOptions,
    paths: &[PathBuf],
    console: Console,
) -> Result<Status, Failure> {
    let is_single = matches!(paths, [path] if !path.is_dir());
    let mut bar = Bar::new(console);
    let mut out = console.text();
    let (mut done, mut sum, mut files) = (0u64, 0u64, 0usize);
    count_tokens(tokenizer, &options, paths, |count| {
        sum += count.tokens as u64;
        done += count.len;
        files += 1;
        if is_single {
            writeln!(out, "{}", count.tokens)?;
        } else {
            writeln!(out, "{:>12}  {}", count.tokens, shown(&count.path))?;
        }
        bar.update(done, count.total_len, &text_of(&count.path));
        Ok::<_, Failure>(())
    })?;
    if !is_single {
        writeln!(out, "{sum:>12}  all {files} files")?;
    }
    drop(bar);
    out.flush()?;
    Ok(Status::Fine)
}

/// Reads one JSON string per line, and prints its token IDs on one line (`--jsonl`).
pub(super) fn tokenize_lines(
    tokenizer: &Tokenizer,
    options: EncodeOptions,
    from: Option<&Path>,
    console: Console,
) -> Result<Status, Failure> {
    let mut ids = Vec::new();
    each_line(from, console, |line, out| {
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
pub(crate) fn each_line(
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
        // JSON escapes a byte as at most six bytes, `\u0000`.
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
