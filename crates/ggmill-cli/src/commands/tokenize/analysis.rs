//! Analyses of a tokenization: `--explain`, `--compare` with another vocabulary, and `--pre auto`.

use std::fmt::Write as _;
use std::io::{self, Write};
use std::ops::Range;
use std::path::Path;

use ggmill::convert::LibraryTokenizer;
use ggmill_core::RawStr;
use ggmill_tokenizer::{
    Advice, EncodeOptions, Explained, ExplainedText, ExplainedWord, MergeOrder, Piece, Reason,
    Tokenizer, compare, compare_ids, fitting_pre_tokenizers,
};

use super::output::text as text_of;
use crate::console::Console;
use crate::files::{open, shown};
use crate::outcome::{Failure, Status};

/// The maximum number of tokens that are shown for a difference.
const SHOWN: usize = 40;

/// Prints the differences between the tokens of a text in two vocabularies (`--compare`).
pub(super) fn print_comparison(
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
            writeln!(out, "  because {reason}{}", pre_tokenizer_names(reason, left, right))?;
        }
    }
    out.flush()?;
    Ok(if found.is_equal() { Status::Fine } else { Status::Findings })
}

/// Prints the differences between the tokens of a text in a vocabulary and those of the library for a
/// `tokenizer.json` (`--compare`).
pub(super) fn print_library_comparison(
    models: ((&Path, &Tokenizer), (&Path, &LibraryTokenizer)),
    text: &[u8],
    options: EncodeOptions,
    console: Console,
) -> Result<Status, Failure> {
    let ((first, tokenizer), (second, library)) = models;
    let text = std::str::from_utf8(text).map_err(|_| {
        Failure::new(format_args!("{}: the library tokenizes only UTF-8", shown(second)))
    })?;
    let failed =
        |error: ggmill_pipeline::Error| Failure::new(format_args!("{}: {error}", shown(second)));
    let mut pieces = Vec::new();
    tokenizer.encode_with_offsets(text, &options, &mut pieces).map_err(Failure::new)?;
    let left: Vec<u32> = pieces.iter().map(|piece| piece.id).collect();
    let right = library.encode(text, &options).map_err(failed)?;
    let differences = compare_ids(&left, &right);
    let mut out = console.text();
    for (path, count) in [(first, left.len()), (second, right.len())] {
        let tokens = if count == 1 { "token " } else { "tokens" };
        writeln!(out, "{count:>12} {tokens}  {}", shown(path))?;
    }
    let Some(difference) = differences.first() else {
        writeln!(out, "the tokens are identical")?;
        out.flush()?;
        return Ok(Status::Fine);
    };
    let parts = if differences.len() == 1 { "part" } else { "parts" };
    writeln!(out, "{} {parts} of the text tokenized differently; the first:", differences.len())?;
    let theirs = right.get(difference.right.clone()).unwrap_or_default();
    let ours = pieces.get(difference.left.clone()).unwrap_or_default();
    writeln!(out, "  {}:{}", shown(first), segmentation(tokenizer, ours))?;
    write!(out, "  {}:", shown(second))?;
    for &id in theirs.iter().take(SHOWN) {
        let token = library.token(id).unwrap_or_default();
        write!(out, " {:?} ({id})", RawStr::from(token))?;
    }
    if theirs.is_empty() {
        write!(out, " no tokens")?;
    }
    writeln!(out, "{}", if theirs.len() > SHOWN { " …" } else { "" })?;
    let kind = tokenizer.vocabulary().kind();
    let is_whole = options.add_special && options.parse_special;
    let cause = if is_whole { library.cause(text, &left, kind).map_err(failed)? } else { None };
    if let Some(cause) = cause {
        writeln!(out, "  llama.cpp does not support {cause}")?;
    }
    out.flush()?;
    Ok(Status::Findings)
}

/// Returns the names of the pre-tokenizers, if they are the reason; otherwise an empty string.
fn pre_tokenizer_names(reason: Reason, left: &Tokenizer, right: &Tokenizer) -> String {
    let name = |tokenizer: &Tokenizer| tokenizer.vocabulary().pre_tokenizer().unwrap_or("none");
    match reason {
        Reason::PreTokenizer => format!(": {} and {}", name(left), name(right)),
        _ => String::new(),
    }
}

/// Prints the pre-tokenizers by the number of differences from the tokens of another vocabulary
/// (`--pre auto`).
pub(super) fn print_fitting(
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

/// Returns the tokens of a part of the text, with their IDs, on one line.
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

/// Prints how each part of the text is tokenized, in order (`--explain`).
pub(super) fn print_explanation(
    tokenizer: &Tokenizer,
    text: &[u8],
    options: EncodeOptions,
    console: Console,
) -> Result<Status, Failure> {
    let parts = tokenizer.explain(text, &options).map_err(Failure::new)?;
    let mut out = console.text();
    for part in &parts {
        match part {
            Explained::Added(piece) => {
                writeln!(out, "added token {}", token(tokenizer, piece))?;
            }
            Explained::Special(piece) => {
                let range = piece.start..piece.end;
                writeln!(out, "special token {}, {}", token(tokenizer, piece), bytes(&range))?;
            }
            Explained::Text(part) => explained(tokenizer, part, text, &mut out)?,
            _ => {}
        }
    }
    out.flush()?;
    Ok(Status::Fine)
}

/// Prints how text between special tokens is tokenized.
fn explained(
    tokenizer: &Tokenizer,
    part: &ExplainedText,
    text: &[u8],
    out: &mut impl Write,
) -> io::Result<()> {
    let original = text.get(part.range.clone()).unwrap_or_default();
    writeln!(out, "text {}: {:?}", bytes(&part.range), RawStr::new(original))?;
    let rewritten = part.rewritten.as_deref().unwrap_or(original);
    if part.rewritten.is_some() {
        writeln!(out, "  becomes {:?}", RawStr::new(rewritten))?;
    }
    for (number, pass) in part.passes.iter().enumerate() {
        writeln!(out, "  pass {} of {}: {}", number + 1, part.passes.len(), pass.rule)?;
        write!(out, "   ")?;
        for piece in &pass.pieces {
            write!(out, " {:?}", RawStr::new(rewritten.get(piece.clone()).unwrap_or_default()))?;
        }
        writeln!(out)?;
    }
    for word in &part.words {
        explained_word(tokenizer, word, out)?;
    }
    Ok(())
}

fn explained_word(
    tokenizer: &Tokenizer,
    word: &ExplainedWord,
    out: &mut impl Write,
) -> io::Result<()> {
    let part = |range: Range<usize>| RawStr::new(word.text.get(range).unwrap_or_default());
    writeln!(out, "  word {:?}", RawStr::new(&word.text))?;
    if word.is_whole {
        writeln!(out, "    is a token, so nothing is merged")?;
    }
    for merge in &word.merges {
        let (left, right) = (part(merge.start..merge.middle), part(merge.middle..merge.end));
        match merge.order {
            MergeOrder::Rank(rank) => write!(out, "    merge of rank {rank}: ")?,
            MergeOrder::Score(score) => write!(out, "    merge of score {score}: ")?,
            _ => write!(out, "    merge: ")?,
        }
        writeln!(out, "{left:?} + {right:?}")?;
    }
    let tokens = if word.pieces.len() == 1 { "token " } else { "tokens" };
    write!(out, "    {tokens}")?;
    for piece in &word.pieces {
        write!(out, " {}", token(tokenizer, piece))?;
    }
    writeln!(out)
}

fn token(tokenizer: &Tokenizer, piece: &Piece) -> String {
    format!("{:?} ({})", text_of(tokenizer, piece.id), piece.id)
}

fn bytes(range: &Range<usize>) -> String {
    format!("bytes {}..{}", range.start, range.end)
}
