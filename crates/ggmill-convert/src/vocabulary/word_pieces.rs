//! A WordPiece model at work: a word becomes IDs, longest pieces first.

use std::collections::BTreeMap;

use super::tokenizer_json::Algorithm;

/// The most characters of a word, where the model says nothing.
const MAX_CHARACTERS: u64 = 100;

/// A WordPiece model.
pub(crate) struct WordPieces<'a> {
    model: &'a Algorithm,
    ids: BTreeMap<&'a str, u32>,
}

impl<'a> WordPieces<'a> {
    pub(crate) fn new(model: &'a Algorithm) -> Self {
        Self { model, ids: model.vocab.0.iter().map(|(token, id)| (&**token, *id)).collect() }
    }

    /// The IDs of a word; the one of the unknown token where it is not made of tokens.
    pub(crate) fn encode(&self, word: &str) -> Vec<u32> {
        let most = self.model.max_input_chars_per_word.unwrap_or(MAX_CHARACTERS);
        let pieces = if word.chars().count() as u64 > most { None } else { self.pieces(word) };
        let unknown = self.model.unk_token.as_deref().and_then(|token| self.ids.get(token));
        pieces.unwrap_or_else(|| unknown.copied().into_iter().collect())
    }

    fn pieces(&self, word: &str) -> Option<Vec<u32>> {
        let prefix = self.model.continuing_subword_prefix.as_deref().unwrap_or("##");
        let mut pieces = Vec::new();
        let mut rest = word;
        while !rest.is_empty() {
            let ends = rest.char_indices().map(|(start, c)| start.saturating_add(c.len_utf8()));
            let ends: Vec<usize> = ends.collect();
            let (id, end) = ends.into_iter().rev().find_map(|end| {
                let piece = rest.get(..end)?;
                let continued = format!("{prefix}{piece}");
                let piece = if pieces.is_empty() { piece } else { &continued };
                Some((*self.ids.get(piece)?, end))
            })?;
            pieces.push(id);
            rest = rest.get(end..).unwrap_or_default();
        }
        Some(pieces)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_longest_piece_is_taken_first() {
        let model: Algorithm = serde_json::from_value(json!({
            "type": "WordPiece", "unk_token": "[UNK]", "max_input_chars_per_word": 8,
            "vocab": { "[UNK]": 0, "un": 1, "##aff": 2, "##able": 3, "##a": 4, "é": 5 },
        }))
        .unwrap();
        let pieces = WordPieces::new(&model);
        assert_eq!(pieces.encode("unaff"), [1, 2]);
        assert_eq!(pieces.encode("unable"), [1, 3]);
        assert_eq!(pieces.encode("éa"), [5, 4]);
        assert_eq!(pieces.encode("unx"), [0]);
        assert_eq!(pieces.encode("unaffable"), [0], "longer than a word may be");
        assert!(pieces.encode("").is_empty());
    }
}
