//! The texts with which a converted vocabulary is compared with its `tokenizer.json`.

use std::collections::{BTreeMap, BTreeSet};

use super::file::AddedToken;

/// 500 texts, one a line, written by `conformance/tokenizer_texts.py`.
const TEXTS: &str = include_str!("../../data/verification.txt");
/// The number of added tokens that occur in the texts.
const ADDED: usize = 10;

/// Returns 500 texts of many scripts and kinds that show how a tokenizer treats letters, numbers,
/// punctuation, spaces and its added tokens.
pub fn verification_texts(added: &BTreeMap<u32, AddedToken>) -> Vec<String> {
    let added = chosen(added);
    TEXTS.lines().map(|line| text(line, &added)).collect()
}

/// Returns ten added tokens: the first of each combination of flags, then others, by ID.
fn chosen(added: &BTreeMap<u32, AddedToken>) -> Vec<String> {
    let mut seen = BTreeSet::new();
    let (first, rest): (Vec<&AddedToken>, Vec<&AddedToken>) = added.values().partition(|token| {
        let AddedToken { single_word, lstrip, rstrip, normalized, special, .. } = **token;
        seen.insert([single_word, lstrip, rstrip, normalized, special])
    });
    let found: Vec<&str> =
        first.into_iter().chain(rest).map(|token| &*token.content).take(ADDED).collect();
    match found.len() {
        0 => (0..ADDED).map(|number| format!("<|{number}|>")).collect(),
        count => found.into_iter().cycle().take(ADDED.max(count)).map(str::to_owned).collect(),
    }
}

/// Returns the text of a line: `\n`, `\r`, `\t`, `\\` and `\u{...}` are escapes, and `\0` to `\9`
/// stand for added tokens.
fn text(line: &str, added: &[String]) -> String {
    let mut found = String::with_capacity(line.len());
    let mut rest = line;
    while let Some((before, after)) = rest.split_once('\\') {
        found.push_str(before);
        let mut characters = after.chars();
        match characters.next() {
            Some('n') => found.push('\n'),
            Some('r') => found.push('\r'),
            Some('t') => found.push('\t'),
            Some('u') => {
                let code = after.get(2..).and_then(|after| after.split_once('}'));
                if let Some((digits, after)) = code {
                    found.extend(u32::from_str_radix(digits, 16).ok().and_then(char::from_u32));
                    characters = after.chars();
                }
            }
            Some(c) => match c.to_digit(10) {
                Some(number) => {
                    found.push_str(added.get(number as usize).map_or("", String::as_str));
                }
                None => found.push(c),
            },
            None => {}
        }
        rest = characters.as_str();
    }
    found.push_str(rest);
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_have_escapes_and_added_tokens() {
        let added = BTreeMap::from([
            (5, AddedToken::new("<a>", true)),
            (6, AddedToken::new("<b>", true)),
            (7, AddedToken::new("c", false)),
        ]);
        assert_eq!(chosen(&added)[..4], ["<a>", "c", "<b>", "<a>"]);
        assert_eq!(text(r"a\n\\\u{e9}\1.\3", &chosen(&added)), "a\n\\éc.<a>");
        let texts = verification_texts(&added);
        assert_eq!(texts.len(), 500);
        assert!(texts.iter().all(|text| !text.is_empty()));
        assert_eq!(verification_texts(&BTreeMap::new()).len(), 500);
    }
}
