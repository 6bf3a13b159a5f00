//! The tokens of a rendered text.

use std::ops::Range;

use ggmill_tokenizer::{Attributes, EncodeOptions, Error, Piece, Tokenizer};

use crate::template::Rendered;

/// The tokens of a rendered text.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Tokens {
    /// The tokens, with the bytes of the text that they stand for.
    pub pieces: Vec<Piece>,
    /// For each token whether it is the model's own text: what a `generation` block wrote.
    pub generated: Vec<bool>,
    /// Special tokens that an ordinary tokenizer would have found in text of the conversation, and
    /// that are text here.
    pub refused: Vec<Refused>,
}

/// A special token that text of the conversation has, or has a part of.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Refused {
    /// The token.
    pub id: u32,
    /// Its bytes in the rendered text.
    pub range: Range<usize>,
    /// Where the text came from, such as `messages[0].content`.
    pub path: String,
}

impl Tokens {
    /// The IDs.
    pub fn ids(&self) -> impl Iterator<Item = u32> {
        self.pieces.iter().map(|piece| piece.id)
    }
}

impl Rendered {
    /// The tokens of the text.
    ///
    /// Control tokens are recognized only in the template's own text, and in roles of one word
    /// within it: in text of the conversation none is recognized, and it is tokenized as text.
    /// User-defined tokens are recognized everywhere, as llama.cpp does without `parse_special`. No
    /// token is added before or after, as the template writes them. Not ensured: a vocabulary whose
    /// merges of ordinary text make the text of a control token gives the ID of that token.
    ///
    /// Fails as [`Tokenizer::encode`] does.
    pub fn encode(&self, tokenizer: &Tokenizer) -> Result<Tokens, Error> {
        let options = EncodeOptions::new().add_special(false).parse_special(true);
        let trusted = self.trusted();
        let mut tokens = Tokens::default();
        tokenizer.encode_trusting(self.text(), &trusted, &options, &mut tokens.pieces)?;
        let generated = self.generated();
        tokens.generated = tokens
            .pieces
            .iter()
            .map(|piece| covers(&generated, &(piece.start..piece.end.max(piece.start + 1))))
            .collect();
        let mut plain = Vec::new();
        tokenizer.encode_with_offsets(self.text(), &options, &mut plain)?;
        let special = Attributes::CONTROL | Attributes::UNKNOWN;
        for piece in plain {
            let range = piece.start..piece.end;
            let is_special = tokenizer.vocabulary().attributes(piece.id).intersects(special);
            let is_text =
                tokenizer.vocabulary().text(piece.id) == self.text().as_bytes().get(range.clone());
            if !is_special || !is_text || covers(&trusted, &range) {
                continue;
            }
            let place = self.segments().iter().find(|segment| {
                segment.range.start < range.end
                    && range.start < segment.range.end
                    && self.field(segment).is_some_and(|field| !field.is_role)
            });
            let path = place.and_then(|segment| self.field(segment));
            let path = path.map(|field| field.path.clone()).unwrap_or_default();
            tokens.refused.push(Refused { id: piece.id, range, path });
        }
        Ok(tokens)
    }
}

/// Whether one of the ranges, which are in order, has all of a range.
fn covers(ranges: &[Range<usize>], part: &Range<usize>) -> bool {
    let after = ranges.partition_point(|range| range.start <= part.start);
    after
        .checked_sub(1)
        .and_then(|index| ranges.get(index))
        .is_some_and(|range| part.end <= range.end)
}
