//! The tokens of a rendered text.

use std::ops::Range;

use ggmill_tokenizer::{Attributes, EncodeOptions, Error, Piece, Tokenizer};
use serde_json::{Value, json};

use crate::template::Rendered;

/// The tokens of a rendered text.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Tokens {
    /// The tokens, with their byte ranges in the text.
    pub pieces: Vec<Piece>,
    /// For each token, `true` if a `generation` block wrote it, which marks the model's own text.
    pub generated: Vec<bool>,
    /// Special tokens in text of the conversation, which an ordinary tokenizer would recognize and
    /// which are encoded as text here.
    pub refused: Vec<Refused>,
}

/// A special token that text of the conversation contains completely or partly.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Refused {
    /// The token.
    pub id: u32,
    /// Its byte range in the rendered text.
    pub range: Range<usize>,
    /// The path of the text, such as `messages[0].content`.
    pub path: String,
}

impl Tokens {
    /// Returns the IDs.
    pub fn ids(&self) -> impl Iterator<Item = u32> {
        self.pieces.iter().map(|piece| piece.id)
    }
}

impl Rendered {
    /// The tokens of the text.
    ///
    /// Control tokens are recognized only in text of the template and in roles of one word. Text of
    /// the conversation is tokenized as plain text. User-defined tokens are recognized everywhere,
    /// like llama.cpp without `parse_special`. No BOS or EOS is added, as templates write them. Not
    /// covered: if merges of ordinary text result in the text of a control token, the ID of that
    /// token is returned.
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
            let message = self.segments().iter().find(|segment| {
                segment.range.start < range.end
                    && range.start < segment.range.end
                    && self.field(segment).is_some_and(|field| !field.is_role)
            });
            let path = message.and_then(|segment| self.field(segment));
            let path = path.map(|field| field.path.clone()).unwrap_or_default();
            tokens.refused.push(Refused { id: piece.id, range, path });
        }
        Ok(tokens)
    }
}

/// Returns `true` if one of the sorted ranges contains `part`.
fn covers(ranges: &[Range<usize>], part: &Range<usize>) -> bool {
    let after = ranges.partition_point(|range| range.start <= part.start);
    after
        .checked_sub(1)
        .and_then(|index| ranges.get(index))
        .is_some_and(|range| part.end <= range.end)
}

impl Rendered {
    /// Returns the text as a JSON document: `text`, and `segments`, each with its byte range from
    /// `start` to `end`, `from` (`template`, or the path of a field such as `messages[0].content`),
    /// and `generated`. With tokens, also their `ids`, their `offsets` (pairs of start and end),
    /// whether each is `generated`, and the special tokens that were `refused`.
    pub fn document(&self, tokens: Option<&Tokens>) -> Value {
        let segments: Vec<_> = self
            .segments()
            .iter()
            .map(|segment| {
                json!({
                    "start": segment.range.start,
                    "end": segment.range.end,
                    "from": self.field(segment).map_or("template", |field| &*field.path),
                    "generated": segment.is_generated,
                })
            })
            .collect();
        let mut document = json!({ "text": self.text(), "segments": segments });
        if let (Some(tokens), Some(entries)) = (tokens, document.as_object_mut()) {
            let refused: Vec<_> = tokens
                .refused
                .iter()
                .map(|refused| {
                    json!({
                        "id": refused.id,
                        "start": refused.range.start,
                        "end": refused.range.end,
                        "from": refused.path,
                    })
                })
                .collect();
            let offsets = tokens.pieces.iter().map(|piece| json!([piece.start, piece.end]));
            entries.insert("ids".to_owned(), tokens.ids().collect());
            entries.insert("offsets".to_owned(), offsets.collect());
            entries.insert("generated".to_owned(), tokens.generated.iter().copied().collect());
            entries.insert("refused".to_owned(), refused.into());
        }
        document
    }
}
