//! `--explain`: how a text becomes tokens.

use std::io::{self, Write};
use std::ops::Range;

use ggmill_core::RawStr;
use ggmill_tokenizer::{
    EncodeOptions, Explained, ExplainedText, ExplainedWord, MergeOrder, Piece, Tokenizer,
};

use super::shown_tokens::text as text_of;
use crate::console::Console;
use crate::outcome::{Failure, Status};

/// Prints how each part of the text is tokenized, in order.
pub(super) fn print(
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
                let place = piece.start..piece.end;
                writeln!(out, "special token {}, {}", token(tokenizer, piece), bytes(&place))?;
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
    let cut = part.rewritten.as_deref().unwrap_or(original);
    if part.rewritten.is_some() {
        writeln!(out, "  becomes {:?}", RawStr::new(cut))?;
    }
    for (number, pass) in part.passes.iter().enumerate() {
        writeln!(out, "  pass {} of {}: {}", number + 1, part.passes.len(), pass.rule)?;
        write!(out, "   ")?;
        for piece in &pass.pieces {
            write!(out, " {:?}", RawStr::new(cut.get(piece.clone()).unwrap_or_default()))?;
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
