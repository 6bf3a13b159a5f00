//! Added tokens: the tokens of a tokenizer that are not in the vocabulary of its model.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use fancy_regex::Regex;

use super::expression::Budget;
use super::file::AddedToken;
use crate::error::{Error, ErrorKind};
use crate::trie::Trie;

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

    /// Returns a matcher of the tokens with this `normalized` flag: tokens without it are found in
    /// the original text, tokens with it are normalized, and found in the normalized text.
    pub(super) fn matcher(
        &self,
        normalized: bool,
        normalize: impl Fn(&str) -> Result<String, Error>,
    ) -> Result<Matcher, Error> {
        let mut matcher = Matcher::default();
        for (&id, token) in self.by_id.iter().filter(|(_, token)| token.normalized == normalized) {
            let content =
                if normalized { normalize(&token.content)? } else { token.content.clone() };
            let AddedToken { single_word, lstrip, rstrip, .. } = *token;
            matcher.tokens.push(Found { id, content, single_word, lstrip, rstrip });
        }
        let contents = matcher.tokens.iter().map(|token| token.content.as_bytes());
        let numbered: Vec<(&[u8], u32)> = contents.zip(0u32..).collect();
        // The first of equal texts counts.
        let texts = numbered.into_iter().rev();
        matcher.trie = Trie::new(texts).ok_or_else(|| {
            Error::new(ErrorKind::Limit, "not enough memory for the added tokens")
        })?;
        Ok(matcher)
    }
}

/// Finds added tokens in a text.
#[derive(Debug, Default)]
pub(super) struct Matcher {
    trie: Trie,
    tokens: Vec<Found>,
}

/// An added token with the flags that its matches need.
#[derive(Clone, Debug)]
struct Found {
    id: u32,
    content: String,
    single_word: bool,
    lstrip: bool,
    rstrip: bool,
}

impl Matcher {
    /// Returns the text of a token as it is found.
    pub(super) fn text(&self, id: u32) -> Option<&str> {
        let place = self.tokens.binary_search_by_key(&id, |token| token.id).ok()?;
        self.tokens.get(place).map(|token| &*token.content)
    }

    /// Splits a text at the tokens: the longest at the first position where there is one. Fails if
    /// the budget is spent.
    pub(super) fn split<'a>(
        &self,
        text: &'a str,
        budget: &mut Budget,
    ) -> Result<Vec<Part<'a>>, Error> {
        let mut parts = Vec::new();
        if self.tokens.is_empty() {
            parts.extend(Some(Part::Text(text)).filter(|_| !text.is_empty()));
            return Ok(parts);
        }
        let (mut begin, mut at) = (0, 0);
        while let Some(rest) = text.get(at..).filter(|rest| !rest.is_empty()) {
            let mut found = None;
            let steps =
                self.trie.prefixes(rest.as_bytes(), |len, number| found = Some((len, number)));
            budget.spend(steps)?;
            let token =
                found.and_then(|(len, number)| Some((len, self.tokens.get(number as usize)?)));
            let Some((len, token)) = token else {
                at = at.saturating_add(rest.chars().next().map_or(1, char::len_utf8));
                continue;
            };
            let (mut from, mut to) = (at, at.saturating_add(len));
            at = to;
            let (before, after) = (text.get(..from), text.get(to..).unwrap_or_default());
            let before = before.unwrap_or_default();
            let within = before.ends_with(is_word) || after.starts_with(is_word);
            if token.single_word && within {
                continue;
            }
            if token.lstrip {
                let between = text.get(begin..from).unwrap_or_default();
                from = begin.saturating_add(between.trim_end().len()).min(from);
            }
            if token.rstrip {
                let stripped = after.len().saturating_sub(after.trim_start().len());
                to = to.saturating_add(stripped);
            }
            if let Some(between) = text.get(begin..from).filter(|between| !between.is_empty()) {
                parts.push(Part::Text(between));
            }
            parts.push(Part::Token(token.id));
            begin = to;
        }
        if let Some(rest) = text.get(begin..).filter(|rest| !rest.is_empty()) {
            parts.push(Part::Text(rest));
        }
        Ok(parts)
    }
}

/// The characters of a word (`\w`).
static WORD: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"\w").ok());

fn is_word(c: char) -> bool {
    let matches = |regex: &Regex| regex.is_match(c.encode_utf8(&mut [0; 4])).unwrap_or_default();
    if c.is_ascii() {
        c.is_ascii_alphanumeric() || c == '_'
    } else {
        WORD.as_ref().is_some_and(matches)
    }
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
        let split = |text, normalized| {
            let matcher = added.matcher(normalized, |text| Ok(text.replace("kn", "KN"))).unwrap();
            matcher.split(text, &mut Budget::new(text)).unwrap()
        };
        assert_eq!(
            split("xabcab  <s> known it bit", false),
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
        assert_eq!(split("KNown", true), [Part::Token(3)]);
        assert_eq!(split("known", true), [Part::Text("known")]);
        assert_eq!(split("", true), []);
    }
}
