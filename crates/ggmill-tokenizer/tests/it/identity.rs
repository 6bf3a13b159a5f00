//! Tokens and decoded texts equal those of llama.cpp, whose hashes `python3 conformance/run.py tokenize
//! --record` wrote.

use std::fmt::Write as _;
use std::path::PathBuf;

use ggmill_core::Header;
use ggmill_tokenizer::{EncodeOptions, LoadOptions, Tokenizer};
use sha2::{Digest, Sha256};

#[path = "../../examples/ids/results.rs"]
mod results;

/// The number of texts for each hash.
const CHUNK: usize = 100;

fn directory() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/vocabularies")
}

fn read(name: &str) -> Vec<u8> {
    std::fs::read(directory().join(name)).expect("a committed file")
}

/// The names of the small vocabularies.
pub(crate) const NAMES: [&str; 8] = [
    "small-spm",
    "small-wpm",
    "small-ugm",
    "small-rwkv",
    "small-plamo2",
    "small-bpe",
    "small-hybriddna",
    "small-whitespace",
];

pub(crate) fn tokenizer(name: &str) -> Tokenizer {
    let file = read(&format!("{name}.gguf"));
    let file = Header::parse(&file).expect("a GGUF file");
    Tokenizer::from_metadata(&file.metadata()).expect("a tokenizer")
}

pub(crate) fn sample() -> Vec<Vec<u8>> {
    results::texts(&read("sample.texts")).map(<[u8]>::to_vec).collect()
}

fn hash(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[test]
fn tokens_of_every_model_are_those_of_llama_cpp() {
    let expected = String::from_utf8(read("expected.txt")).expect("text");
    let texts = sample();
    for name in NAMES {
        let tokenizer = tokenizer(name);
        let mut hashes = Vec::new();
        for chunk in texts.chunks(CHUNK) {
            let mut results = Vec::new();
            for text in chunk {
                results::of_text(&tokenizer, text, &mut results).expect("results");
            }
            hashes.push(hash(&results));
        }
        let mut results = Vec::new();
        for id in 0..tokenizer.vocabulary().len() {
            results::of_token(&tokenizer, id, &mut results).expect("results");
        }
        hashes.push(hash(&results));
        let lines = expected.lines().filter_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        let lines: Vec<&str> = lines.collect();
        assert_eq!(lines.len(), hashes.len(), "{name}");
        for (index, (line, hash)) in lines.iter().zip(&hashes).enumerate() {
            assert_eq!(*line, format!("{index} {hash}"), "{name}: texts from {}", index * CHUNK);
        }
    }
}

/// All pre-tokenizers with one vocabulary. `conformance/tokenization_names.py` wrote the hashes of
/// llama.cpp's tokens.
#[test]
fn tokens_of_every_pre_tokenizer_are_those_of_llama_cpp() {
    let texts: Vec<Vec<u8>> = sample().chunks(10).map(<[Vec<u8>]>::concat).collect();
    let file = read("small-bpe.gguf");
    let file = Header::parse(&file).expect("a GGUF file");
    let expected = String::from_utf8(read("names.txt")).expect("text");
    let mut names = Vec::new();
    for line in expected.lines().filter(|line| !line.starts_with('#')) {
        let (name, expected) = line.split_once(' ').expect("a name and a hash");
        let options = LoadOptions::new().pre(name);
        let tokenizer = Tokenizer::with_options(&file.metadata(), &options).expect("a known name");
        let options = EncodeOptions::new().add_special(false);
        let mut results = Vec::new();
        for text in &texts {
            let mut ids = Vec::new();
            tokenizer.encode(text, &options, &mut ids).expect("tokens");
            results.extend(u32::try_from(ids.len()).expect("few").to_le_bytes());
            results.extend(ids.iter().flat_map(|id| id.to_le_bytes()));
        }
        assert_eq!(hash(&results), expected, "{name}");
        names.push(name.to_owned());
    }
    // llama.cpp aborts for the pre-tokenizer `whitespace` with another model.
    names.push("whitespace".to_owned());
    names.sort();
    assert_eq!(names, ggmill_tokenizer::pre_tokenizer_names().collect::<Vec<_>>());
}
