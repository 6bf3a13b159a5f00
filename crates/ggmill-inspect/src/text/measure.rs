//! Columns: how wide text is, cutting it and filling it up.

use std::fmt;
use std::io::{self, Write};

use anstyle::Style;
use ggmill_core::RawStr;
use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

/// Columns that text takes.
pub(crate) fn width(text: &str) -> usize {
    text.width()
}

/// The beginning of `text` that takes at most `columns`.
fn beginning(text: &str, columns: usize) -> &str {
    let mut used = 0;
    for (at, c) in text.char_indices() {
        used += c.width().unwrap_or(0);
        if used > columns {
            return text.get(..at).unwrap_or_default();
        }
    }
    text
}

/// The end of `text` that takes at most `columns`.
fn ending(text: &str, columns: usize) -> &str {
    let mut used = 0;
    for (at, c) in text.char_indices().rev() {
        used += c.width().unwrap_or(0);
        if used > columns {
            return text.get(at + c.len_utf8()..).unwrap_or_default();
        }
    }
    text
}

/// `text` in at most `columns`, with `…` for what is missing at its end.
pub(crate) fn cut(text: String, columns: usize) -> String {
    if width(&text) <= columns {
        return text;
    }
    let mut short = beginning(&text, columns.saturating_sub(1)).to_owned();
    short.push('…');
    short
}

/// `text` in at most `columns`, with `…` for what is missing in its middle: the ends of keys and
/// names tell them apart.
pub(crate) fn cut_middle(text: String, columns: usize) -> String {
    if width(&text) <= columns {
        return text;
    }
    let room = columns.saturating_sub(1);
    let head = beginning(&text, room / 3);
    format!("{head}…{}", ending(&text, room.saturating_sub(width(head))))
}

/// Below this width a name that does not fit into its column has a line of its own.
const WHOLE_NAMES: usize = 60;

/// Writes a name into a column after `indent` columns, and two spaces. On a terminal of `room`
/// columns it is cut in its middle, or, on a narrow one, the name is whole and what follows it
/// begins on the next line.
pub(crate) fn write_name(
    out: &mut dyn Write,
    name: String,
    style: Style,
    (indent, column): (usize, usize),
    room: Option<usize>,
) -> io::Result<()> {
    let name = match room {
        Some(room) if room < WHOLE_NAMES && width(&name) > column => {
            let start = indent + column + 2;
            return write!(out, "{style}{name}{style:#}\n{:start$}", "");
        }
        Some(_) => cut_middle(name, column),
        None => name,
    };
    write!(out, "{style}{}{style:#}  ", Padded(&name, column))
}

/// The words of a text in lines of at most `columns` where words allow it.
pub fn lines_of(text: &str, columns: usize) -> Vec<String> {
    packed(text.split(' '), " ", columns)
}

/// Pieces of text in lines of at most `columns` where pieces allow it, with `between` between those
/// of a line.
pub(crate) fn packed<'a>(
    pieces: impl Iterator<Item = &'a str>,
    between: &str,
    columns: usize,
) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for piece in pieces {
        match lines.last_mut() {
            Some(line) if width(line) + width(between) + width(piece.trim_end()) <= columns => {
                line.push_str(between);
                line.push_str(piece);
            }
            _ => lines.push(piece.to_owned()),
        }
    }
    for line in &mut lines {
        line.truncate(line.trim_end().len());
    }
    lines
}

/// Text filled up with spaces to a number of columns, on the right or on the left.
pub(crate) struct Padded<'a>(pub(crate) &'a str, pub(crate) usize);

impl fmt::Display for Padded<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Not by a width in the format: those end at 65,535 and panic beyond.
        let fill =
            |f: &mut fmt::Formatter<'_>| (width(self.0)..self.1).try_for_each(|_| f.write_str(" "));
        if f.align() == Some(fmt::Alignment::Right) {
            fill(f)?;
            f.write_str(self.0)
        } else {
            f.write_str(self.0)?;
            fill(f)
        }
    }
}

/// At most about `columns` columns of a string as it is shown, and whether that is all of it. Looks
/// no further into the string than it must.
pub(crate) fn shown_beginning(text: RawStr<'_>, columns: usize) -> (String, bool) {
    some_beginning(text, columns, |text| text.to_string())
}

/// [`shown_beginning`] for what is between quotes: those within are escaped.
pub(crate) fn quoted_beginning(text: RawStr<'_>, columns: usize) -> (String, bool) {
    some_beginning(text, columns, |text| text.to_string().replace('"', "\\\""))
}

fn some_beginning(
    text: RawStr<'_>,
    columns: usize,
    show: impl Fn(RawStr<'_>) -> String,
) -> (String, bool) {
    // No character takes more than four bytes, and four bytes leave room for marks that take no
    // column.
    let most = columns.saturating_add(1).saturating_mul(8);
    let bytes = text.as_bytes();
    if bytes.len() <= most {
        let shown = show(text);
        let fits = width(&shown) <= columns;
        return (if fits { shown } else { cut(shown, columns) }, fits);
    }
    let mut end = most;
    while end > most - 4 && bytes.get(end).is_some_and(|byte| byte & 0xc0 == 0x80) {
        end -= 1;
    }
    let mut shown = show(RawStr::new(bytes.get(..end).unwrap_or_default()));
    shown.push('…');
    (cut(shown, columns), false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cutting_counts_columns_not_bytes() {
        assert_eq!(cut("абвгд".into(), 4), "абв…");
        assert_eq!(cut("日本語".into(), 4), "日…");
        assert_eq!(cut("日本語".into(), 6), "日本語");
        assert_eq!(cut_middle("tokenizer.ggml.eos_token_id".into(), 16), "token…s_token_id");
        assert_eq!(cut("abc".into(), 0), "…");
    }

    #[test]
    fn the_beginning_of_a_long_string_ends_between_characters() {
        let text = "é".repeat(1000);
        let (shown, whole) = shown_beginning(RawStr::from(text.as_str()), 10);
        assert_eq!((shown.as_str(), whole), ("ééééééééé…", false));
        assert_eq!(shown_beginning(RawStr::from("\x1b"), 10), (r"\u{1b}".to_owned(), true));
    }

    #[test]
    fn padding_counts_columns() {
        assert_eq!(format!("{}|{:>}|", Padded("日", 4), Padded("a", 3)), "日  |  a|");
    }
}
