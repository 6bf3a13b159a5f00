//! Layout of text: width, cutting, wrapping, padding and colors.

use std::fmt;
use std::io::{self, Write};

use anstyle::{AnsiColor, Style};
use ggmill_core::RawStr;
use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

/// A style for each role of text; all are plain without colors.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Styles {
    pub(crate) title: Style,
    pub(crate) faint: Style,
    pub(crate) key: Style,
    pub(crate) string: Style,
    pub(crate) number: Style,
    pub(crate) type_name: Style,
    pub(crate) bar: Style,
}

impl Styles {
    pub(crate) fn new(styled: bool) -> Self {
        if !styled {
            return Self::default();
        }
        Self {
            title: Style::new().bold(),
            faint: Style::new().dimmed(),
            key: AnsiColor::Blue.on_default(),
            string: AnsiColor::Green.on_default(),
            number: AnsiColor::Cyan.on_default(),
            type_name: AnsiColor::Yellow.on_default(),
            bar: AnsiColor::Cyan.on_default(),
        }
    }
}

/// Returns the columns that text takes.
pub(crate) fn width(text: &str) -> usize {
    text.width()
}

/// Returns the longest start of `text` that takes at most `columns`.
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

/// Returns the longest end of `text` that takes at most `columns`.
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

/// Cuts `text` to `columns`, with `…` at its end.
pub(crate) fn cut(text: String, columns: usize) -> String {
    if width(&text) <= columns {
        return text;
    }
    let mut short = beginning(&text, columns.saturating_sub(1)).to_owned();
    short.push('…');
    short
}

/// Cuts `text` to `columns`, with `…` in its middle, because keys and names differ at their ends.
pub(crate) fn cut_middle(text: String, columns: usize) -> String {
    if width(&text) <= columns {
        return text;
    }
    let room = columns.saturating_sub(1);
    let head = beginning(&text, room / 3);
    format!("{head}…{}", ending(&text, room.saturating_sub(width(head))))
}

/// On a terminal narrower than this, a name that exceeds its column gets a separate line.
const MIN_COLUMNS_TO_CUT_NAMES: usize = 60;

/// Writes a name into a column after `indent` columns, and two spaces. A name that is too long is cut in
/// its middle; on a narrow terminal (`room`) it is written in full and the text after it continues on
/// the next line.
pub(crate) fn write_name(
    out: &mut dyn Write,
    name: String,
    style: Style,
    (indent, column): (usize, usize),
    room: Option<usize>,
) -> io::Result<()> {
    let name = match room {
        Some(room) if room < MIN_COLUMNS_TO_CUT_NAMES && width(&name) > column => {
            let start = indent + column + 2;
            return write!(out, "{style}{name}{style:#}\n{:start$}", "");
        }
        Some(_) => cut_middle(name, column),
        None => name,
    };
    write!(out, "{style}{}{style:#}  ", Padded(&name, column))
}

/// Wraps text at spaces into lines of at most `columns`; longer words are not broken.
pub fn lines_of(text: &str, columns: usize) -> Vec<String> {
    packed(text.split(' '), " ", columns)
}

/// Wraps pieces of text into lines of at most `columns`, joined by `between`; longer pieces are not
/// broken.
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

/// Text padded with spaces to a number of columns, left-aligned unless formatted with `>`.
pub(crate) struct Padded<'a>(pub(crate) &'a str, pub(crate) usize);

impl fmt::Display for Padded<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Format widths are limited to 65,535 and panic beyond.
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

/// Returns the start of a string as shown, in at most `columns`, and whether that is all of it. Reads
/// only as many bytes as needed.
pub(crate) fn shown_beginning(text: RawStr<'_>, columns: usize) -> (String, bool) {
    some_beginning(text, columns, |text| text.to_string())
}

/// Like [`shown_beginning`] for text between quotes: escapes quotes.
pub(crate) fn quoted_beginning(text: RawStr<'_>, columns: usize) -> (String, bool) {
    some_beginning(text, columns, |text| text.to_string().replace('"', "\\\""))
}

fn some_beginning(
    text: RawStr<'_>,
    columns: usize,
    show: impl Fn(RawStr<'_>) -> String,
) -> (String, bool) {
    // A character has at most four bytes; twice that allows for combining marks without a column.
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
    fn a_long_string_is_cut_between_characters() {
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
