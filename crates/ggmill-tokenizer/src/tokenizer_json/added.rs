//! Added tokens: the tokens of a tokenizer that are not in the vocabulary of its model.

use std::collections::{BTreeMap, BTreeSet};

use super::file::AddedToken;

/// Added tokens by ID, numbered as the `tokenizers` library does: a token of the model keeps its
/// ID, any other takes the next free one.
#[derive(Debug, Default)]
pub struct AddedVocabulary {
    by_id: BTreeMap<u32, AddedToken>,
    ids: BTreeMap<String, u32>,
}

impl AddedVocabulary {
    /// Adds tokens. `model_size` is the number of tokens of the model, and `model_id` looks one of
    /// them up.
    pub fn add(
        &mut self,
        tokens: &[AddedToken],
        model_size: u32,
        model_id: &dyn Fn(&str) -> Option<u32>,
    ) {
        let mut existing: BTreeSet<AddedToken> = self.by_id.values().cloned().collect();
        let last = self.by_id.last_key_value();
        let mut next = last.map_or(model_size, |(&last, _)| last.saturating_add(1).max(model_size));
        for token in tokens {
            if token.content.is_empty() || existing.contains(token) {
                continue;
            }
            let id = self.ids.get(&token.content).copied().or_else(|| model_id(&token.content));
            let id = id.unwrap_or_else(|| {
                let id = next;
                next = next.saturating_add(1);
                id
            });
            self.ids.insert(token.content.clone(), id);
            self.by_id.insert(id, token.clone());
            existing.insert(token.clone());
        }
    }

    /// Returns the tokens by ID.
    pub fn by_id(&self) -> &BTreeMap<u32, AddedToken> {
        &self.by_id
    }

    /// Returns the ID of a token.
    pub fn id(&self, content: &str) -> Option<u32> {
        self.ids.get(content).copied()
    }

    /// Splits a text at the tokens with this `normalized` flag: tokens without it are found in the
    /// original text, tokens with it in the normalized text.
    pub(super) fn split<'a>(&self, text: &'a str, normalized: bool) -> Vec<Part<'a>> {
        let mut by_first: BTreeMap<u8, Vec<(&AddedToken, u32)>> = BTreeMap::new();
        for (&id, token) in self.by_id.iter().filter(|(_, token)| token.normalized == normalized) {
            if let Some(&first) = token.content.as_bytes().first() {
                by_first.entry(first).or_default().push((token, id));
            }
        }
        let mut parts = Vec::new();
        let (mut begin, mut at) = (0, 0);
        while let Some(rest) = text.get(at..).filter(|rest| !rest.is_empty()) {
            let first = rest.as_bytes().first().and_then(|first| by_first.get(first));
            let found = first.into_iter().flatten().filter(|(it, _)| rest.starts_with(&it.content));
            let Some((token, id)) = found.max_by_key(|(it, _)| it.content.len()) else {
                at = at.saturating_add(rest.chars().next().map_or(1, char::len_utf8));
                continue;
            };
            let (mut from, mut to) = (at, at.saturating_add(token.content.len()));
            at = to;
            let (before, after) = (text.get(..from), text.get(to..).unwrap_or_default());
            let before = before.unwrap_or_default();
            let within = before.ends_with(is_word) || after.starts_with(is_word);
            if token.single_word && within {
                continue;
            }
            if token.lstrip {
                from = before.trim_end().len().max(begin);
            }
            if token.rstrip {
                let stripped = after.len().saturating_sub(after.trim_start().len());
                to = to.saturating_add(stripped);
            }
            if let Some(between) = text.get(begin..from).filter(|between| !between.is_empty()) {
                parts.push(Part::Text(between));
            }
            parts.push(Part::Token(*id));
            begin = to;
        }
        if let Some(rest) = text.get(begin..).filter(|rest| !rest.is_empty()) {
            parts.push(Part::Text(rest));
        }
        parts
    }
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// A part of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part<'a> {
    Text(&'a str),
    Token(u32),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_token_at_the_first_position_is_taken() {
        let mut added = AddedVocabulary::default();
        let token = |content, special| AddedToken::new(content, special);
        let stripping = AddedToken { lstrip: true, rstrip: true, ..token("<s>", true) };
        let word = AddedToken { single_word: true, ..token("it", true) };
        let known = |content: &str| (content == "known").then_some(3);
        added.add(&[token("ab", true), token("abc", true), stripping, word], 10, &known);
        added.add(&[token("known", false), token("ab", true), token("last", false)], 10, &known);
        let ids: Vec<_> = added.by_id().iter().map(|(id, it)| (*id, &*it.content)).collect();
        let expected =
            [(3, "known"), (10, "ab"), (11, "abc"), (12, "<s>"), (13, "it"), (14, "last")];
        assert_eq!(ids, expected);
        assert_eq!(
            added.split("xabcab  <s> known it bit", false),
            [
                Part::Text("x"),
                Part::Token(11),
                Part::Token(10),
                Part::Token(12),
                Part::Text("known "),
                Part::Token(13),
                Part::Text(" bit")
            ]
        );
        assert_eq!(added.split("known", true), [Part::Token(3)]);
        assert_eq!(added.split("", true), []);
    }
}
