//! Recognizes the pre-tokenizer of a tokenizer like the reference: by the hash of the token IDs of
//! a check text.

use std::fmt::Write as _;
use std::sync::LazyLock;

use ggmill_pipeline::{Error, ErrorKind, Result};
use sha2::{Digest as _, Sha256};

use super::fast::Fast;
use super::patterns;
use super::request::Request;

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
/// its expressions.
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
    if let Some(name) = patterns::equal(tokenizer.pre_tokenizer(), ignores_merges) {
        request.notes.push(format!(
            "tokenizer.json: the pre-tokenizer was recognized by its regular expressions, which are \
             those of {name}"
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
