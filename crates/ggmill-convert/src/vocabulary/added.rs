//! The tokens beside a model's own, and where they are in a text.

use std::collections::{BTreeMap, BTreeSet};

use super::tokenizer_json::AddedToken;

/// Added tokens by ID. IDs are given as the `tokenizers` library gives them: a token that is known
/// keeps its own, another one takes the next that is free.
#[derive(Debug, Default)]
pub(crate) struct AddedVocabulary {
    by_id: BTreeMap<u32, AddedToken>,
    ids: BTreeMap<String, u32>,
}

impl AddedVocabulary {
    /// Adds tokens to those of a model, in which `known` looks one up and which has `size` tokens.
    pub(crate) fn add(
        &mut self,
        tokens: &[AddedToken],
        size: u32,
        known: &dyn Fn(&str) -> Option<u32>,
    ) {
        let mut existing: BTreeSet<AddedToken> = self.by_id.values().cloned().collect();
        let mut next =
            self.by_id.last_key_value().map_or(size, |(&last, _)| last.saturating_add(1).max(size));
        for token in tokens {
            if token.content.is_empty() || existing.contains(token) {
                continue;
            }
            let id = self.ids.get(&token.content).copied().or_else(|| known(&token.content));
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

    /// The tokens by ID.
    pub(crate) fn by_id(&self) -> &BTreeMap<u32, AddedToken> {
        &self.by_id
    }

    /// The ID of a token.
    pub(crate) fn id(&self, content: &str) -> Option<u32> {
        self.ids.get(content).copied()
    }

    /// Cuts a text where tokens are that are matched before normalization, or after it.
    pub(crate) fn cut<'a>(&self, text: &'a str, normalized: bool) -> Vec<Cut<'a>> {
        let mut by_first: BTreeMap<u8, Vec<(&AddedToken, u32)>> = BTreeMap::new();
        for (&id, token) in self.by_id.iter().filter(|(_, token)| token.normalized == normalized) {
            if let Some(&first) = token.content.as_bytes().first() {
                by_first.entry(first).or_default().push((token, id));
            }
        }
        let mut cuts = Vec::new();
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
                cuts.push(Cut::Text(between));
            }
            cuts.push(Cut::Token(*id));
            begin = to;
        }
        if let Some(rest) = text.get(begin..).filter(|rest| !rest.is_empty()) {
            cuts.push(Cut::Text(rest));
        }
        cuts
    }
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// A part of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cut<'a> {
    Text(&'a str),
    Token(u32),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_token_at_the_first_place_is_taken() {
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
            added.cut("xabcab  <s> known it bit", false),
            [
                Cut::Text("x"),
                Cut::Token(11),
                Cut::Token(10),
                Cut::Token(12),
                Cut::Text("known "),
                Cut::Token(13),
                Cut::Text(" bit")
            ]
        );
        assert_eq!(added.cut("known", true), [Cut::Token(3)]);
        assert_eq!(added.cut("", true), []);
    }
}
