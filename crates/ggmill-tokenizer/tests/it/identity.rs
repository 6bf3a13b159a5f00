//! Tokens and texts equal those of llama.cpp: `cargo xtask peers tokenize --record` wrote the
//! hashes of what it says.

use std::fmt::Write as _;
use std::path::PathBuf;

use ggmill_core::Gguf;
use ggmill_tokenizer::Tokenizer;
use sha2::{Digest, Sha256};

#[path = "../../examples/ids/results.rs"]
mod results;

/// Texts of one hash.
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
    let file = Gguf::parse(&file).expect("a GGUF file");
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
fn results_of_small_vocabularies_are_llama_cpps() {
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
