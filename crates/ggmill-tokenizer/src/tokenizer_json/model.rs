//! The models of `tokenizer.json`: BPE, WordPiece and `WordLevel`.

use std::collections::HashMap;

use super::expression::Budget;
use super::file::{Merge, Model, ModelKind};
use super::unigram::Unigram;
use super::{malformed, unsupported};
use crate::error::{Error, ErrorKind};
use crate::models::bpe::{Entry, Merges, Work};
use crate::trie::Trie;

/// A model that encodes pieces of a text.
pub(super) enum Encoder<'a> {
    Bpe(Box<Bpe<'a>>),
    WordPiece(WordPiece),
    WordLevel { ids: HashMap<&'a str, u32>, unknown: Option<u32> },
    Unigram(Unigram<'a>),
}

impl<'a> Encoder<'a> {
    /// Fails if a merge does not consist of tokens, or the model is not supported.
    pub(super) fn new(model: &'a Model) -> Result<Self, Error> {
        if model.is_word_piece() {
            return Ok(Self::WordPiece(WordPiece::new(model)?));
        }
        Ok(match model.kind() {
            Ok(ModelKind::Unigram) => Self::Unigram(Unigram::new(model)?),
            Ok(ModelKind::WordLevel) => {
                let ids = ids(model);
                let unknown = model.unk_token.as_deref().and_then(|token| ids.get(token).copied());
                Self::WordLevel { ids, unknown }
            }
            _ => Self::Bpe(Box::new(Bpe::new(model)?)),
        })
    }

    /// Appends the token IDs of a piece. Fails if the budget is spent.
    pub(super) fn encode(
        &self,
        piece: &str,
        ids: &mut Vec<u32>,
        budget: &mut Budget,
    ) -> Result<(), Error> {
        match self {
            Self::Bpe(model) => model.encode(piece, ids),
            Self::WordPiece(model) => model.encode(piece, ids, budget)?,
            Self::WordLevel { ids: known, unknown } => {
                ids.extend(known.get(piece).copied().or(*unknown));
            }
            Self::Unigram(model) => model.encode(piece, ids, budget)?,
        }
        Ok(())
    }
}

/// Returns the IDs of the tokens by their text; the last of equal texts counts.
pub(super) fn ids(model: &Model) -> HashMap<&str, u32> {
    model.vocab.tokens.iter().map(|(token, id)| (&**token, *id)).collect()
}

/// A BPE model.
pub(super) struct Bpe<'a> {
    model: &'a Model,
    ids: HashMap<&'a str, u32>,
    merges: Merges,
}

impl<'a> Bpe<'a> {
    fn new(model: &'a Model) -> Result<Self, Error> {
        if model.dropout.is_some_and(|dropout| dropout > 0.0) {
            return Err(unsupported("dropout, which tokenizes at random, is not supported"));
        }
        let prefix = model.continuing_subword_prefix.as_deref().unwrap_or_default();
        let ids = ids(model);
        let mut entries = Vec::with_capacity(model.merges().len());
        let mut result = String::new();
        for (rank, merge) in (0u32..).zip(model.merges()) {
            let parts = match merge {
                Merge::Pair(left, right) => Some((&**left, &**right)),
                Merge::Joined(merge) => {
                    merge.split_once(' ').filter(|(_, right)| !right.contains(' '))
                }
            };
            let (left, right) = parts
                .ok_or_else(|| malformed(format!("merge {rank} does not consist of two parts")))?;
            let id = |token: &str, what: &str| {
                ids.get(token).copied().ok_or_else(|| {
                    malformed(format!("merge {rank}: {what}{token:?} is not in the vocabulary"))
                })
            };
            result.clear();
            result.extend([left, right.get(prefix.len()..).unwrap_or_default()]);
            let product = id(&result, "the result ")?;
            entries.push(Entry { left: id(left, "")?, right: id(right, "")?, rank, product });
        }
        // The last merge of a pair counts here, unlike in llama.cpp.
        let merges = Merges::from_entries(entries.into_iter().rev());
        let merges = merges
            .ok_or_else(|| Error::new(ErrorKind::Limit, "not enough memory for the merges"))?;
        Ok(Self { model, ids, merges })
    }

    fn encode(&self, piece: &str, ids: &mut Vec<u32>) {
        if self.model.ignore_merges == Some(true)
            && let Some(&id) = self.ids.get(piece)
        {
            ids.push(id);
            return;
        }
        let mut work = Work::new(self.characters(piece));
        self.merges.merge(&mut work);
        ids.extend_from_slice(work.symbols());
    }

    /// Returns the IDs of the characters. A character without a token becomes the tokens of its
    /// bytes, or else the unknown token.
    fn characters(&self, piece: &str) -> Vec<u32> {
        let part = |text: &Option<String>| text.clone().unwrap_or_default();
        let prefix = part(&self.model.continuing_subword_prefix);
        let suffix = part(&self.model.end_of_word_suffix);
        let fuses = self.model.fuse_unk == Some(true);
        let falls_back = self.model.byte_fallback == Some(true);
        let unknown =
            self.model.unk_token.as_deref().and_then(|token| self.ids.get(token).copied());
        let mut word = Vec::new();
        // As in the library, an unknown token is added when the next token is known or unknown, but
        // not when it is a byte.
        let mut pending: Option<u32> = None;
        let mut token = String::new();
        for (at, c) in piece.char_indices() {
            token.clear();
            if at > 0 {
                token.push_str(&prefix);
            }
            token.push(c);
            if at.saturating_add(c.len_utf8()) == piece.len() {
                token.push_str(&suffix);
            }
            if let Some(&id) = self.ids.get(&*token) {
                word.extend(pending.take());
                word.push(id);
                continue;
            }
            if falls_back {
                let byte_id = |byte: u8| self.ids.get(&*format!("<0x{byte:02X}>")).copied();
                if let Some(bytes) = token.bytes().map(byte_id).collect::<Option<Vec<u32>>>() {
                    word.extend(bytes);
                    continue;
                }
            }
            if unknown.is_some() {
                if !fuses {
                    word.extend(pending.take());
                }
                pending = unknown;
            }
        }
        word.extend(pending);
        word
    }
}

/// A WordPiece model: at each position of a word, the longest token.
pub(super) struct WordPiece {
    /// Tokens that begin a word.
    first: Trie,
    /// Tokens that continue a word, without their prefix.
    continuing: Trie,
    unknown: Option<u32>,
    max_characters: u64,
}

impl WordPiece {
    fn new(model: &Model) -> Result<Self, Error> {
        let tokens = || model.vocab.tokens.iter().map(|(token, id)| (&**token, *id));
        let prefix = model.continuing_subword_prefix.as_deref().unwrap_or("##");
        let continuing = tokens().filter_map(|(token, id)| Some((token.strip_prefix(prefix)?, id)));
        let first = Trie::new(tokens().map(|(token, id)| (token.as_bytes(), id)));
        let continuing = Trie::new(continuing.map(|(token, id)| (token.as_bytes(), id)));
        let tries = first.zip(continuing);
        let (first, continuing) = tries
            .ok_or_else(|| Error::new(ErrorKind::Limit, "not enough memory for the tokens"))?;
        let unknown = model.unk_token.as_deref().and_then(|unknown| {
            model.vocab.tokens.iter().rev().find(|(token, _)| token == unknown).map(|(_, id)| *id)
        });
        let max_characters = model.max_input_chars_per_word.unwrap_or(100);
        Ok(Self { first, continuing, unknown, max_characters })
    }

    /// A word that is too long, or that does not consist of tokens, is the unknown token.
    fn encode(&self, word: &str, ids: &mut Vec<u32>, budget: &mut Budget) -> Result<(), Error> {
        let start = ids.len();
        let mut rest = word.as_bytes();
        if word.chars().count() as u64 > self.max_characters {
            ids.extend(self.unknown);
            return Ok(());
        }
        while !rest.is_empty() {
            let trie = if rest.len() == word.len() { &self.first } else { &self.continuing };
            let mut found = None;
            budget.spend(trie.prefixes(rest, |length, id| found = Some((length, id))))?;
            let Some((length, id)) = found else {
                ids.truncate(start);
                ids.extend(self.unknown);
                return Ok(());
            };
            ids.push(id);
            rest = rest.get(length..).unwrap_or_default();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn bpe(changes: &serde_json::Value) -> Model {
        let mut model = json!({
            "type": "BPE", "unk_token": "?", "merges": ["a b", "b c", "ab c"],
            "vocab": { "?": 0, "a": 1, "b": 2, "c": 3, "ab": 4, "bc": 5, "abc": 6, "abcabc": 7,
                "<0xC3>": 8, "<0xA9>": 9 },
        });
        for (name, value) in changes.as_object().unwrap() {
            model[name] = value.clone();
        }
        serde_json::from_value(model).unwrap()
    }

    fn encode(model: &Model, piece: &str) -> Vec<u32> {
        let mut ids = Vec::new();
        Encoder::new(model).unwrap().encode(piece, &mut ids, &mut Budget::new(piece)).unwrap();
        ids
    }

    #[test]
    fn merges_are_applied_by_rank() {
        let plain = bpe(&json!({}));
        assert_eq!(encode(&plain, "abcabc"), [6, 6]);
        assert_eq!(encode(&plain, "bcab"), [5, 4]);
        assert_eq!(encode(&plain, "aéxb"), [1, 0, 0, 2]);
        assert!(encode(&plain, "").is_empty());
        assert_eq!(encode(&plain, &"abc".repeat(100)), [6; 100]);
        let other = bpe(&json!({ "ignore_merges": true, "byte_fallback": true, "fuse_unk": true }));
        assert_eq!(encode(&other, "abcabc"), [7]);
        assert_eq!(encode(&other, "aéxyb"), [1, 8, 9, 0, 2]);
        assert_eq!(encode(&other, "xéb"), [8, 9, 0, 2], "the order of the library");
        let prefixed = bpe(&json!({ "continuing_subword_prefix": "#", "merges": ["a #b"],
            "vocab": { "?": 0, "a": 1, "#b": 2, "ab": 3 } }));
        assert_eq!(encode(&prefixed, "abb"), [3, 2]);
    }

    #[test]
    fn the_last_merge_of_a_pair_counts() {
        let model = bpe(&json!({ "merges": ["b c", "a b", "ab c", "b c"] }));
        assert_eq!(encode(&model, "abc"), [6]);
        let model = bpe(&json!({ "merges": ["b c", "a b"] }));
        assert_eq!(encode(&model, "abc"), [1, 5]);
    }

    #[test]
    fn broken_models_are_refused() {
        for (changes, words) in [
            (json!({ "merges": ["a d"] }), "the result \"ad\" is not in the vocabulary"),
            (json!({ "merges": ["abc"] }), "merge 0 does not consist of two parts"),
            (json!({ "dropout": 0.1 }), "dropout"),
        ] {
            let fault = Encoder::new(&bpe(&changes)).map(drop).unwrap_err().to_string();
            assert!(fault.contains(words), "{fault}");
        }
    }

    #[test]
    fn the_longest_piece_of_a_word_is_taken_first() {
        let model: Model = serde_json::from_value(json!({
            "type": "WordPiece", "unk_token": "[UNK]", "max_input_chars_per_word": 8,
            "vocab": { "[UNK]": 0, "un": 1, "##aff": 2, "##able": 3, "##a": 4, "é": 5 },
        }))
        .unwrap();
        assert_eq!(encode(&model, "unaff"), [1, 2]);
        assert_eq!(encode(&model, "unable"), [1, 3]);
        assert_eq!(encode(&model, "éa"), [5, 4]);
        assert_eq!(encode(&model, "unx"), [0]);
        assert_eq!(encode(&model, "unaffable"), [0], "longer than a word may be");
        assert!(encode(&model, "").is_empty());
    }
}
