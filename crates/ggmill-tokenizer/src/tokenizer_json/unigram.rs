//! Unigram models of `tokenizer.json`: of all segmentations of a piece into tokens, the one with the
//! highest sum of scores.

use std::collections::HashMap;

use super::expression::Budget;
use super::file::Model;
use super::malformed;
use super::model::ids;
use crate::error::{Error, ErrorKind};
use crate::trie::Trie;

/// The difference between the lowest score of a token and the score of an unknown character.
const PENALTY: f64 = 10.0;

/// A unigram model.
pub(super) struct Unigram<'a> {
    model: &'a Model,
    ids: HashMap<&'a str, u32>,
    tokens: Trie,
    unknown: Option<u32>,
    unknown_score: f64,
}

/// The best segmentation up to a position: the start of its last token, that token, and the sum.
#[derive(Clone, Copy, Debug)]
struct Best {
    from: usize,
    id: Option<u32>,
    sum: f64,
}

impl<'a> Unigram<'a> {
    pub(super) fn new(model: &'a Model) -> Result<Self, Error> {
        let lowest = model.vocab.scores.iter().copied().fold(f64::INFINITY, f64::min);
        let ids = ids(model);
        let texts = ids.iter().map(|(token, &id)| (token.as_bytes(), id));
        let tokens = Trie::new(texts)
            .ok_or_else(|| Error::new(ErrorKind::Limit, "not enough memory for the tokens"))?;
        if model.unk_id.is_some_and(|id| id as usize >= model.vocab.tokens.len()) {
            return Err(malformed("unk_id is not the ID of a token"));
        }
        Ok(Self { model, ids, tokens, unknown: model.unk_id, unknown_score: lowest - PENALTY })
    }

    /// Appends the token IDs of a piece. Fails if the budget is spent, or if a character is unknown
    /// and the model has no unknown token.
    pub(super) fn encode(
        &self,
        piece: &str,
        ids: &mut Vec<u32>,
        budget: &mut Budget,
    ) -> Result<(), Error> {
        let mut texts = self.segments(piece, budget)?;
        texts.reverse();
        for text in texts {
            if let Some(&id) = self.ids.get(text) {
                ids.push(id);
                continue;
            }
            if self.model.byte_fallback == Some(true) {
                let byte_id = |byte: u8| self.ids.get(&*format!("<0x{byte:02X}>")).copied();
                if let Some(bytes) = text.bytes().map(byte_id).collect::<Option<Vec<u32>>>() {
                    ids.extend(bytes);
                    continue;
                }
            }
            ids.push(self.unknown.ok_or_else(no_unknown)?);
        }
        Ok(())
    }

    /// Returns the texts of the best segmentation, the last first. Consecutive unknown characters
    /// are one text.
    fn segments<'t>(&self, piece: &'t str, budget: &mut Budget) -> Result<Vec<&'t str>, Error> {
        let mut best: Vec<Option<Best>> = vec![None; piece.len().saturating_add(1)];
        let improve = |best: &mut Vec<Option<Best>>, end: usize, candidate: Best| {
            if let Some(known) = best.get_mut(end)
                && known.is_none_or(|known| candidate.sum > known.sum)
            {
                *known = Some(candidate);
            }
        };
        for (from, c) in piece.char_indices() {
            let sum = best.get(from).copied().flatten().map_or(0.0, |best| best.sum);
            let mut has_character = false;
            let rest = piece.as_bytes().get(from..).unwrap_or_default();
            let steps = self.tokens.prefixes(rest, |length, id| {
                let score = self.model.vocab.scores.get(id as usize).copied().unwrap_or_default();
                let candidate = Best { from, id: Some(id), sum: score + sum };
                improve(&mut best, from.saturating_add(length), candidate);
                has_character |= length == c.len_utf8();
            });
            budget.spend(steps)?;
            if !has_character {
                let unknown = self.unknown.ok_or_else(no_unknown)?;
                let candidate = Best { from, id: Some(unknown), sum: self.unknown_score + sum };
                improve(&mut best, from.saturating_add(c.len_utf8()), candidate);
            }
        }
        let mut texts = Vec::new();
        let mut end = piece.len();
        // The end of the unknown characters that begin here.
        let mut unknown_end = None;
        while end > 0 {
            let Some(Some(found)) = best.get(end).copied() else { break };
            if self.unknown.is_some() && found.id == self.unknown {
                unknown_end = unknown_end.or(Some(end));
            } else {
                texts.extend(unknown_end.take().and_then(|last| piece.get(end..last)));
                texts.extend(piece.get(found.from..end));
            }
            end = found.from;
        }
        texts.extend(unknown_end.and_then(|last| piece.get(..last)));
        Ok(texts)
    }
}

fn no_unknown() -> Error {
    malformed("the text has a character without a token, and the model has no unk_id")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn encode(model: serde_json::Value, piece: &str) -> Result<Vec<u32>, String> {
        let model: Model = serde_json::from_value(model).unwrap();
        let mut ids = Vec::new();
        let unigram = Unigram::new(&model).map_err(|error| error.to_string())?;
        let done = unigram.encode(piece, &mut ids, &mut Budget::new(piece));
        done.map(|()| ids).map_err(|error| error.to_string())
    }

    #[test]
    fn the_highest_sum_of_scores_is_taken() {
        let mut model = json!({ "type": "Unigram", "unk_id": 0, "vocab": [
            ["<unk>", 0.0], ["a", -1.0], ["b", -1.5], ["ab", -2.0], ["abab", -5.0], ["<0x78>", -9.0]] });
        assert_eq!(encode(model.clone(), "abab").unwrap(), [3, 3]);
        assert_eq!(encode(model.clone(), "axyb").unwrap(), [1, 0, 2]);
        assert!(encode(model.clone(), "").unwrap().is_empty());
        model["byte_fallback"] = json!(true);
        assert_eq!(encode(model.clone(), "axb").unwrap(), [1, 5, 2]);
        assert_eq!(encode(model.clone(), "axyb").unwrap(), [1, 0, 2]);
        model["unk_id"] = json!(9);
        assert!(encode(model.clone(), "a").unwrap_err().contains("unk_id"));
        model["unk_id"] = json!(null);
        assert!(encode(model, "z").unwrap_err().contains("no unk_id"));
    }
}
