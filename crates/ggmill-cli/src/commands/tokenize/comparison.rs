//! `--compare`: the tokens of a text in two vocabularies.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;

use ggmill_core::RawStr;
use ggmill_tokenizer::{
    Advice, EncodeOptions, Piece, Reason, Tokenizer, compare, fitting_pre_tokenizers,
};

use super::shown_tokens::text as text_of;
use crate::console::Console;
use crate::outcome::{Failure, Status};
use crate::paths::shown;
use crate::source::open;

/// The maximum number of tokens that are shown for a difference.
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
        let tokens = if count == 1 { "token " } else { "tokens" };
        writeln!(out, "{count:>12} {tokens}  {}", shown(path))?;
    }
    if found.is_equal() {
        writeln!(out, "the tokens are identical")?;
    }
    if found.renumbered > 0 {
        let tokens = if found.renumbered == 1 {
            "token has a different ID"
        } else {
            "tokens have different IDs"
        };
        writeln!(out, "{} {tokens} for the same text", found.renumbered)?;
    }
    if let Some(difference) = &found.first {
        let parts = if found.differences == 1 { "part" } else { "parts" };
        writeln!(
            out,
            "{} {parts} of the text tokenized differently; the first:",
            found.differences
        )?;
        let part = text.get(difference.start..difference.end).unwrap_or_default();
        writeln!(out, "  bytes {}..{}: {:?}", difference.start, difference.end, RawStr::new(part))?;
        for (path, tokenizer, pieces) in
            [(first, left, &difference.left), (second, right, &difference.right)]
        {
            writeln!(out, "  {}:{}", shown(path), segmentation(tokenizer, pieces))?;
        }
        for reason in difference.reasons(left, right, text) {
            writeln!(out, "  because {reason}{}", names(reason, left, right))?;
        }
    }
    out.flush()?;
    Ok(if found.is_equal() { Status::Fine } else { Status::Findings })
}

/// Returns the names of the pre-tokenizers, if they are the reason.
fn names(reason: Reason, left: &Tokenizer, right: &Tokenizer) -> String {
    let name = |tokenizer: &Tokenizer| tokenizer.vocabulary().pre_tokenizer().unwrap_or("none");
    match reason {
        Reason::PreTokenizer => format!(": {} and {}", name(left), name(right)),
        _ => String::new(),
    }
}

/// Prints the pre-tokenizers by how well the tokens match those of another vocabulary.
pub(super) fn fitting(
    path: &Path,
    reference: &Tokenizer,
    text: &[u8],
    options: EncodeOptions,
    console: Console,
) -> Result<Status, Failure> {
    let model = open(path, false)?;
    let metadata = model.metadata();
    let found =
        fitting_pre_tokenizers(&metadata, reference, text, &options).map_err(Failure::new)?;
    if found.fits.is_empty() {
        return Err(Failure::new(format_args!(
            "{}: the tokenizer does not use a pre-tokenizer",
            shown(path)
        )));
    }
    let mut out = console.text();
    for fit in &found.fits {
        let differences = if fit.differences == 1 { "difference " } else { "differences" };
        writeln!(out, "{:>8} {differences}  {}", fit.differences, fit.names.join(" "))?;
    }
    out.flush()?;
    let in_file = metadata.str("tokenizer.ggml.pre").unwrap_or("default");
    let begin = format!("{}: tokenizer.ggml.pre is {in_file:?}", shown(path));
    match found.advice {
        Advice::Keep => return Ok(Status::Fine),
        Advice::Replace(name) => console.warn(format_args!(
            "{begin}, but {name:?} matches; `ggmill edit FILE --set tokenizer.ggml.pre={name}` \
             sets it"
        )),
        Advice::Undecided(names) => console.warn(format_args!(
            "{begin}, but names with different rules match: {}; a longer text can distinguish them",
            names.join(", ")
        )),
        _ => console.warn(format_args!(
            "{begin}, but no name results in the same tokens as the other vocabulary: the \
             vocabularies differ in more than the pre-tokenizer"
        )),
    }
    Ok(Status::Findings)
}

/// Returns tokens in a row, with their IDs.
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
