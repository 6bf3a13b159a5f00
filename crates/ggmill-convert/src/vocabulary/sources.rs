//! The files that vocabularies are made from, by name.

use ggmill_pipeline::SideFiles;

/// The files a vocabulary can be made from.
pub(crate) const SOURCES: [&str; 17] = [
    "tokenizer.json",
    "tokenizer.model",
    "tekken.json",
    "vocab.json",
    "vocab.txt",
    "sentencepiece.bpe.model",
    "spiece.model",
    "tokenizer.jsonl",
    "tiktoken.model",
    "tokenizer.model.v1",
    "tokenizer.model.v2",
    "tokenizer.model.v3",
    "tokenizer.model.v3m1",
    "tokenizer.model.v7",
    "tokenizer.model.v7m1",
    "tokenizer.model.v11",
    "rwkv_vocab_v20230424.txt",
];

/// What is read besides, whichever of them there is.
const BESIDE: [&str; 4] =
    ["tokenizer_config.json", "special_tokens_map.json", "added_tokens.json", "config.json"];

/// What is read beside one of them, besides that.
const PAIRS: [(&str, &str); 1] = [("vocab.json", "merges.txt")];

/// Those that exist.
pub(crate) fn sources(files: &dyn SideFiles) -> impl Iterator<Item = &'static str> {
    SOURCES.into_iter().filter(|name| files.has(name))
}

/// The source that a file of this name is, or a part of one.
pub(crate) fn source_of(name: &str) -> Option<&'static str> {
    let of_pair = PAIRS.iter().find(|(_, other)| *other == name).map(|(source, _)| *source);
    SOURCES.into_iter().find(|source| *source == name).or(of_pair)
}

/// Whether a file of this name is read with a source.
pub(crate) fn is_beside(source: &str, name: &str) -> bool {
    BESIDE.contains(&name) || PAIRS.contains(&(source, name))
}

/// Whether a file of this name says something about a tokenizer, and is none.
pub(crate) fn is_only_beside(name: &str) -> bool {
    BESIDE.contains(&name)
}

/// Whether files of a tokenizer are among these.
///
/// ```
/// use std::collections::BTreeMap;
/// let mut files = BTreeMap::new();
/// assert!(!ggmill_convert::has_tokenizer(&files));
/// files.insert("tokenizer.json".to_owned(), b"{}".to_vec());
/// assert!(ggmill_convert::has_tokenizer(&files));
/// ```
pub fn has_tokenizer(files: &dyn SideFiles) -> bool {
    sources(files).next().is_some()
}
