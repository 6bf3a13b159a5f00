//! `--html`: the tokens of a text as an HTML page.

use std::io;

use ggmill_text::html::Escaped;
use ggmill_tokenizer::{Attributes, Piece, Tokenizer};

use super::shown_tokens::{BACKGROUNDS, text};
use crate::counted::counted;

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

/// Writes the tokens with alternating backgrounds; the title of each has its ID and offsets.
pub(super) fn write(
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
