//! A BPE model at work: a piece of text becomes IDs.

use std::collections::HashMap;

use super::merges::Merge;
use super::tokenizer_json::Algorithm;

/// Why a model cannot be used.
pub(crate) type Fault = String;

/// A BPE model.
pub(crate) struct Merger<'a> {
    model: &'a Algorithm,
    ids: HashMap<&'a str, u32>,
    /// Two IDs, with the rank of their merge and its result.
    merges: HashMap<(u32, u32), (usize, u32)>,
}

impl<'a> Merger<'a> {
    /// Fails where a merge is not one of tokens.
    pub(crate) fn new(model: &'a Algorithm) -> Result<Self, Fault> {
        if model.continuing_subword_prefix.as_deref().is_some_and(|it| !it.is_empty()) {
            return Err("continuing_subword_prefix is not supported".into());
        }
        let ids: HashMap<&str, u32> =
            model.vocab.0.iter().map(|(token, id)| (&**token, *id)).collect();
        let mut merges = HashMap::with_capacity(model.merges().len());
        let mut result = String::new();
        for (rank, merge) in model.merges().iter().enumerate() {
            let parts = match merge {
                Merge::Pair(left, right) => Some((&**left, &**right)),
                Merge::Joined(merge) => {
                    merge.split_once(' ').filter(|(_, right)| !right.contains(' '))
                }
            };
            let (left, right) =
                parts.ok_or_else(|| format!("merge {rank} does not consist of two parts"))?;
            let id = |token: &str| {
                ids.get(token)
                    .copied()
                    .ok_or_else(|| format!("merge {rank}: {token:?} is not in the vocabulary"))
            };
            result.clear();
            result.extend([left, right]);
            let of_result = ids.get(&*result).copied().ok_or_else(|| {
                format!("merge {rank}: the result {result:?} is not in the vocabulary")
            })?;
            merges.insert((id(left)?, id(right)?), (rank, of_result));
        }
        Ok(Self { model, ids, merges })
    }

    /// The IDs of a piece.
    pub(crate) fn encode(&self, piece: &str) -> Vec<u32> {
        if self.model.ignore_merges == Some(true)
            && let Some(&id) = self.ids.get(piece)
        {
            return vec![id];
        }
        let mut word = self.characters(piece);
        // The merge of the lowest rank, the first of them, until there is none.
        while let Some((_, place, id)) = word
            .windows(2)
            .enumerate()
            .filter_map(|(place, pair)| {
                let [left, right] = pair else { return None };
                let &(rank, id) = self.merges.get(&(*left, *right))?;
                Some((rank, place, id))
            })
            .min()
        {
            word.remove(place);
            if let Some(merged) = word.get_mut(place) {
                *merged = id;
            }
        }
        word
    }

    /// The IDs of the characters: of the bytes or of the unknown token, where one has none.
    fn characters(&self, piece: &str) -> Vec<u32> {
        let mut word = Vec::new();
        let mut was_unknown = false;
        let unknown = self.model.unk_token.as_deref().and_then(|token| self.ids.get(token));
        let mut characters = piece.chars().peekable();
        while let Some(c) = characters.next() {
            let mut token = String::from(c);
            if characters.peek().is_none() {
                token.push_str(self.model.end_of_word_suffix.as_deref().unwrap_or_default());
            }
            if let Some(&id) = self.ids.get(&*token) {
                word.push(id);
                was_unknown = false;
                continue;
            }
            if self.model.byte_fallback == Some(true) {
                let of_byte = |byte: u8| self.ids.get(&*format!("<0x{byte:02X}>")).copied();
                if let Some(bytes) = token.bytes().map(of_byte).collect::<Option<Vec<u32>>>() {
                    word.extend(bytes);
                    continue;
                }
            }
            if let Some(&id) = unknown {
                if !(was_unknown && self.model.fuse_unk == Some(true)) {
                    word.push(id);
                }
                was_unknown = true;
            }
        }
        word
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn model(changes: &serde_json::Value) -> Algorithm {
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

    #[test]
    fn merges_are_made_by_rank() {
        let plain = model(&json!({}));
        let merger = Merger::new(&plain).unwrap();
        assert_eq!(merger.encode("abcabc"), [6, 6]);
        assert_eq!(merger.encode("bcab"), [5, 4]);
        assert_eq!(merger.encode("aéxb"), [1, 0, 0, 2]);
        assert!(merger.encode("").is_empty());
        let other =
            model(&json!({ "ignore_merges": true, "byte_fallback": true, "fuse_unk": true }));
        let merger = Merger::new(&other).unwrap();
        assert_eq!(merger.encode("abcabc"), [7]);
        assert_eq!(merger.encode("aéxyb"), [1, 8, 9, 0, 2]);
    }

    #[test]
    fn broken_models_are_refused() {
        for (changes, words) in [
            (json!({ "merges": ["a d"] }), "the result \"ad\" is not in the vocabulary"),
            (json!({ "merges": ["abc"] }), "merge 0 does not consist of two parts"),
            (json!({ "continuing_subword_prefix": "##" }), "continuing_subword_prefix"),
        ] {
            let fault = Merger::new(&model(&changes)).map(drop).unwrap_err();
            assert!(fault.contains(words), "{fault}");
        }
    }
}
