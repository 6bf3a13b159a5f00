//! Tokens as IDs, lines, colored text and JSON.

use std::io::{self, Write as _};

use anstyle::{Color, Effects, RgbColor, Style};
use ggmill_core::RawStr;
use ggmill_tokenizer::{Attributes, Piece, Tokenizer};

use crate::console::Console;

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

/// Prints the IDs as a list.
pub(super) fn ids(pieces: &[Piece], console: Console) -> io::Result<()> {
    let mut out = console.bytes();
    out.write_all(b"[")?;
    for (number, piece) in pieces.iter().enumerate() {
        write!(out, "{}{}", if number > 0 { ", " } else { "" }, piece.id)?;
    }
    out.write_all(b"]\n")?;
    out.flush()
}

/// Prints a line for each token.
pub(super) fn lines(
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

/// The text, each token on a background of its own, and the number of tokens.
pub(super) fn coloured(
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

/// The tokens as a document.
pub(super) fn json(tokenizer: &Tokenizer, pieces: &[Piece], console: Console) -> io::Result<()> {
    let mut out = console.bytes();
    tokenizer.write_json(pieces, &mut out)?;
    out.flush()
}
