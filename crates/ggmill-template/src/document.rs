//! A rendered text as JSON.

use serde_json::{Value, json};

use crate::template::Rendered;
use crate::tokens::Tokens;

impl Rendered {
    /// The text as a JSON document: `text`, and `segments`, each with its bytes from `start` to
    /// `end` of the text, `from` (`template`, or the path of a field such as `messages[0].content`),
    /// and `generated`. With tokens also their `ids`, their `offsets` (pairs of start and end),
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
