//! Two tokenizations of one text.

use crate::error::Error;
use crate::options::EncodeOptions;
use crate::sink::Piece;
use crate::tokenizer::Tokenizer;

/// The tokens of two tokenizers for the same text.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Comparison {
    /// Tokens of the first.
    pub left: usize,
    /// Tokens of the second.
    pub right: usize,
    /// Tokens of the same text at the same place whose IDs differ.
    pub renumbered: usize,
    /// The parts of the text that are cut differently.
    pub differences: usize,
    /// The first of these parts.
    pub first: Option<Difference>,
}

impl Comparison {
    /// Whether the tokens are the same, IDs included.
    pub fn is_equal(&self) -> bool {
        self.differences == 0 && self.renumbered == 0
    }
}

/// A part of a text that two tokenizers cut differently.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Difference {
    /// Where it begins in the text.
    pub start: usize,
    /// Where it ends.
    pub end: usize,
    /// The tokens of the first; there may be none.
    pub left: Vec<Piece>,
    /// The tokens of the second.
    pub right: Vec<Piece>,
}

/// Compares what two tokenizers make of a text: two tokens are the same if they stand for the same
/// part of it and have the same text.
///
/// Fails where [`Tokenizer::encode`] does.
pub fn compare(
    left: &Tokenizer,
    right: &Tokenizer,
    text: impl AsRef<[u8]>,
    options: &EncodeOptions,
) -> Result<Comparison, Error> {
    let text = text.as_ref();
    let (mut one, mut other) = (Vec::new(), Vec::new());
    left.encode_with_offsets(text, options, &mut one)?;
    right.encode_with_offsets(text, options, &mut other)?;
    let mut found = Comparison {
        left: one.len(),
        right: other.len(),
        renumbered: 0,
        differences: 0,
        first: None,
    };
    let same = |a: &Piece, b: &Piece| {
        (a.start, a.end) == (b.start, b.end) && left.piece(a.id) == right.piece(b.id)
    };
    let (mut a, mut b) = (0, 0);
    while a < one.len() || b < other.len() {
        if let (Some(x), Some(y)) = (one.get(a), other.get(b))
            && same(x, y)
        {
            found.renumbered += usize::from(x.id != y.id);
            (a, b) = (a + 1, b + 1);
            continue;
        }
        let from = (a, b);
        // To the next place that both come to.
        loop {
            let ends = (place(&one, a, text.len()), place(&other, b, text.len()));
            if a < one.len() && (ends.0 <= ends.1 || b == other.len()) {
                a += 1;
            } else if b < other.len() {
                b += 1;
            }
            let met = place(&one, a, text.len()) == place(&other, b, text.len());
            let at_end = a == one.len() && b == other.len();
            let again = one.get(a).zip(other.get(b)).is_some_and(|(x, y)| same(x, y));
            if at_end || met && again {
                break;
            }
        }
        found.differences += 1;
        if found.first.is_none() {
            let (left, right) = (&one[from.0..a], &other[from.1..b]);
            let both = || left.iter().chain(right);
            found.first = Some(Difference {
                start: both().map(|piece| piece.start).min().unwrap_or_default(),
                end: both().map(|piece| piece.end).max().unwrap_or_default(),
                left: left.to_vec(),
                right: right.to_vec(),
            });
        }
    }
    Ok(found)
}

/// Where a token begins, or the end of the text.
fn place(pieces: &[Piece], number: usize, end: usize) -> usize {
    pieces.get(number).map_or(end, |piece| piece.start)
}
