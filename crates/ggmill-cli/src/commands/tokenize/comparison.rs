//! `--compare`: what two vocabularies make of a text.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;

use ggmill_core::RawStr;
use ggmill_tokenizer::{EncodeOptions, Piece, Tokenizer, compare};

use super::shown_tokens::text as text_of;
use crate::console::Console;
use crate::outcome::{Failure, Status};
use crate::paths::shown;

/// Tokens of a difference that are shown.
const SHOWN: usize = 40;

pub(super) fn print(
    models: [(&Path, &Tokenizer); 2],
    text: &[u8],
    options: EncodeOptions,
    console: Console,
) -> Result<Status, Failure> {
    let [(first, left), (second, right)] = models;
    let found = compare(left, right, text, &options).map_err(Failure::new)?;
    let mut out = console.text();
    for (path, count) in [(first, found.left), (second, found.right)] {
        writeln!(out, "{count:>12} tokens  {}", shown(path))?;
    }
    if found.is_equal() {
        writeln!(out, "the same tokens")?;
    }
    if found.renumbered > 0 {
        writeln!(out, "{} tokens have other IDs for the same text", found.renumbered)?;
    }
    if let Some(difference) = &found.first {
        let parts = if found.differences == 1 { "part" } else { "parts" };
        writeln!(out, "{} {parts} of the text cut differently; the first:", found.differences)?;
        let part = text.get(difference.start..difference.end).unwrap_or_default();
        writeln!(out, "  bytes {}..{}: {:?}", difference.start, difference.end, RawStr::new(part))?;
        for (path, tokenizer, pieces) in
            [(first, left, &difference.left), (second, right, &difference.right)]
        {
            writeln!(out, "  {}:{}", shown(path), segmentation(tokenizer, pieces))?;
        }
        if left.vocabulary().pre_tokenizer() != right.vocabulary().pre_tokenizer() {
            let name = |tokenizer: &Tokenizer| tokenizer.vocabulary().pre_tokenizer();
            let (left, right) = (name(left).unwrap_or("none"), name(right).unwrap_or("none"));
            writeln!(out, "the pre-tokenizers differ: {left} and {right}")?;
        }
    }
    out.flush()?;
    Ok(if found.is_equal() { Status::Fine } else { Status::Findings })
}

/// Tokens side by side, with their IDs.
fn segmentation(tokenizer: &Tokenizer, pieces: &[Piece]) -> String {
    let mut shown = String::new();
    for piece in pieces.iter().take(SHOWN) {
        let _ = write!(shown, " {:?} ({})", text_of(tokenizer, piece.id), piece.id);
    }
    if pieces.len() > SHOWN {
        shown.push_str(" …");
    }
    if pieces.is_empty() {
        shown.push_str(" no tokens");
    }
    shown
}
