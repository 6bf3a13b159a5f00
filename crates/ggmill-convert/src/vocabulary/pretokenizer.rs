//! Recognizes the pre-tokenizer of a tokenizer like the reference: by the hash of the token IDs of
//! a check text.

use std::fmt::Write as _;
use std::sync::LazyLock;

use ggmill_core::{MetadataBuf, keys};
use ggmill_pipeline::{Error, ErrorKind, Result};
use ggmill_tokenizer::tokenizer_json::{AddedVocabulary, to_byte_level, verification_texts};
use ggmill_tokenizer::{Tokenizer, pre_tokenizer_names, pre_tokenizer_rules};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use super::fast::Fast;
use super::llama_hf::has_type;
use super::patterns;
use super::request::Request;
use super::tokens::{BYTE_LEVEL, TokenType};

/// The check text, and the known hashes, each with the pre-tokenizer's name and the checkpoint in
/// which it was first seen.
struct Known {
    text: String,
    hashes: Vec<[&'static str; 3]>,
}

static KNOWN: LazyLock<Known> = LazyLock::new(|| {
    let mut lines = include_str!("../../data/pretokenizers.txt").lines().skip(1);
    let text = lines.next().and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default();
    let parts = |line: &'static str| {
        let mut parts = line.split(' ');
        Some([parts.next()?, parts.next()?, parts.next()?])
    };
    Known { text, hashes: lines.filter_map(parts).collect() }
});

/// Returns the requested or recognized name of the pre-tokenizer. Fails if it is not recognized.
///
/// The hash depends on whether BOS and EOS are added, and the known hashes are those of the settings
/// that the checkpoints had when they were published. So the hashes of all settings are looked up. A
/// pre-tokenizer that is not known by a hash, because the vocabulary is another one, is recognized by
/// how it splits texts.
pub(crate) fn name(request: &mut Request<'_>, tokenizer: &Fast) -> Result<String> {
    if let Some(name) = request.pre {
        return Ok(name.to_owned());
    }
    let hashes: Vec<String> =
        tokenizer.encode_variants(&KNOWN.text)?.iter().map(|ids| hash(ids)).collect();
    let known = |hash: &String| {
        // Two hashes have two names each; the reference uses the last.
        let known = KNOWN.hashes.iter().rev().find(|known| known[0] == *hash);
        known.map(|[_, name, _]| *name)
    };
    let ignores_merges = tokenizer.file().model.ignore_merges == Some(true);
    let mut names = hashes.iter().filter_map(known);
    let own = hashes.first().and_then(known);
    let fitting = names.clone().find(|name| patterns::ignores_merges(name) == ignores_merges);
    if let Some(name) = own.or(fitting).or(names.next()) {
        return Ok(name.to_owned());
    }
    if let Some(name) = by_splitting(tokenizer, ignores_merges)? {
        request.notes.push(format!(
            "tokenizer.json: the vocabulary is unknown; {name} was used, whose pre-tokenizer has the \
             same rules (the hash of the token IDs of the check text is {})",
            hashes.first().map_or("", String::as_str)
        ));
        return Ok(name.to_owned());
    }
    let nearest = patterns::nearest(tokenizer.pre_tokenizer())
        .unwrap_or_else(|| "it has nothing in common with the known ones".to_owned());
    let message = format!(
        "the pre-tokenizer is not recognized: {nearest} (the hash of the token IDs of the check \
         text is {})",
        hashes.first().map_or("", String::as_str)
    );
    Err(Error::new(ErrorKind::PreTokenizer, message).about("tokenizer.json"))
}

/// Returns the name of a pre-tokenizer that splits 500 texts as the library does, or that has the same
/// regular expressions, preferably one with the same treatment of words that are tokens. Returns
/// `None` if there is none, or if the vocabulary is not byte-level.
fn by_splitting(tokenizer: &Fast, ignores_merges: bool) -> Result<Option<&'static str>> {
    if !has_type(tokenizer.pre_tokenizer(), "ByteLevel") {
        return Ok(None);
    }
    let failed = |error: ggmill_tokenizer::Error| {
        Error::caused(ErrorKind::Checkpoint, error).about("tokenizer.json")
    };
    // The files have no key for a space before the text.
    let pre_tokenizer = without_prefix_space(tokenizer.pre_tokenizer());
    let none = AddedVocabulary::default();
    let library = tokenizer.pipeline()?.altered(&none, &Value::Null, &pre_tokenizer);
    let library = library.map_err(failed)?;
    let texts = verification_texts(none.by_id());
    let mut expected = Vec::with_capacity(texts.len());
    for text in &texts {
        expected
            .push(ends(library.split(text).map_err(failed)?.iter().map(|it| it.chars().count())));
    }
    let mut tried: Vec<(&str, bool)> = Vec::new();
    let mut names = Vec::new();
    for name in pre_tokenizer_names() {
        let rules = pre_tokenizer_rules(name).unwrap_or(name);
        let known = tried.iter().find(|(known, _)| *known == rules);
        let fits = if let Some(&(_, fits)) = known {
            fits
        } else {
            let words = words_by(name).map_err(failed)?;
            let equal = |(text, expected): (&String, &Vec<usize>)| {
                let words = words.words(text);
                ends(words.into_iter().map(|(from, to)| to.saturating_sub(from))) == *expected
            };
            let fits = texts.iter().zip(&expected).all(equal);
            tried.push((rules, fits));
            fits
        };
        if fits {
            names.push(name);
        }
    }
    if names.is_empty() {
        // llama.cpp's expressions are not exactly those of the library.
        names.extend(patterns::equal(tokenizer.pre_tokenizer()).iter().map(String::as_str));
    }
    Ok(names.into_iter().min_by_key(|name| {
        (patterns::ignores_merges(name) != ignores_merges, patterns::preference(name))
    }))
}

/// Returns the ends of words of these lengths.
fn ends(lengths: impl Iterator<Item = usize>) -> Vec<usize> {
    lengths
        .scan(0usize, |end, length| {
            *end = end.saturating_add(length);
            Some(*end)
        })
        .collect()
}

/// Returns a pre-tokenizer that adds no space before a text.
fn without_prefix_space(pre_tokenizer: &Value) -> Value {
    let mut changed = pre_tokenizer.clone();
    match &mut changed {
        Value::Object(members) => {
            for (name, member) in members {
                if name == "add_prefix_space" {
                    *member = Value::Bool(false);
                } else {
                    *member = without_prefix_space(member);
                }
            }
        }
        Value::Array(parts) => {
            for part in parts {
                *part = without_prefix_space(part);
            }
        }
        _ => {}
    }
    changed
}

/// Returns a tokenizer with a small vocabulary and this pre-tokenizer.
fn words_by(name: &str) -> Result<Tokenizer, ggmill_tokenizer::Error> {
    let tokens: Vec<String> = (0..=u8::MAX).map(|byte| to_byte_level(&[byte])).collect();
    let mut metadata = MetadataBuf::new();
    metadata.set(keys::TOKENIZER_MODEL, BYTE_LEVEL);
    metadata.set(keys::TOKENIZER_PRE, name);
    metadata.set(keys::TOKENIZER_TOKENS, &tokens);
    metadata.set(keys::TOKENIZER_TOKEN_TYPE, vec![TokenType::Normal as i32; tokens.len()]);
    metadata.set(keys::TOKENIZER_MERGES, [" "].as_slice());
    Tokenizer::from_entries(metadata)
}

/// Returns the SHA-256 of Python's `str` of a list of IDs.
fn hash(ids: &[u32]) -> String {
    let mut text = String::from("[");
    for (place, id) in ids.iter().enumerate() {
        // Writing to a String cannot fail.
        let _ = write!(text, "{}{id}", if place > 0 { ", " } else { "" });
    }
    text.push(']');
    Sha256::digest(text.as_bytes()).iter().fold(String::new(), |mut hex, byte| {
        let _ = write!(hex, "{byte:02x}");
        hex
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_hashes_are_complete() {
        assert_eq!(KNOWN.hashes.len(), 97);
        assert!(KNOWN.text.starts_with("\n \n\n") && KNOWN.text.ends_with("We'Ve a'lL"));
        for [hash, name, place] in &KNOWN.hashes {
            assert!(hash.len() == 64 && !name.is_empty() && place.contains('/'), "{hash}");
        }
        assert_eq!(
            hash(&[1, 22, 333]),
            "276d8737d9d5a80805e0731e8d5ae18972a8e3ba721f4988f67151c6e9159068".to_owned(),
        );
    }
}
