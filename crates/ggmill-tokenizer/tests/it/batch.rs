//! Several threads give what one gives.

use std::num::NonZeroUsize;

use ggmill_core::{Builder, Gguf, MetadataBuf};
use ggmill_tokenizer::{EncodeOptions, LoadOptions, Tokenizer, pre_tokenizer_names};

use crate::identity::{NAMES, sample, tokenizer};

/// Long texts that can be cut in some places, with special tokens and bytes that are not text.
fn long_texts() -> Vec<Vec<u8>> {
    let words = sample().concat();
    let mut english = Vec::new();
    while english.len() < 200_000 {
        english.extend_from_slice(
            b"the quick  brown\nfox's 12345 (it was <|im_end|> \xFF) it 's.\r\n",
        );
        let from = english.len() % words.len().saturating_sub(50);
        english.extend_from_slice(&words[from..from + 50]);
        english.extend_from_slice(b"abc   \n  def\n\n ");
    }
    vec![english, b"short".to_vec(), Vec::new(), b"x".repeat(140_000)]
}

fn check(tokenizer: &Tokenizer, texts: &[Vec<u8>], name: &str) {
    for flag in [false, true] {
        let options = EncodeOptions::new().add_special(flag).parse_special(flag);
        let expected: Vec<Vec<u32>> = texts
            .iter()
            .map(|text| {
                let mut ids = Vec::new();
                tokenizer.encode(text, &options, &mut ids).expect("tokens");
                ids
            })
            .collect();
        for threads in [1, 3] {
            let threads = NonZeroUsize::new(threads).expect("threads");
            let found = tokenizer.encode_batch(texts, &options, threads).expect("tokens");
            assert!(found == expected, "{name}");
            let counts = tokenizer.count_batch(texts, &options, threads).expect("counts");
            assert!(counts.iter().zip(&expected).all(|(count, ids)| *count == ids.len()), "{name}");
        }
    }
}

#[test]
fn every_model_gives_the_same_on_several_threads() {
    let texts = long_texts();
    for name in NAMES {
        check(&tokenizer(name), &texts, name);
    }
}

#[test]
fn every_pre_tokenizer_gives_the_same_on_several_threads() {
    let mut metadata = MetadataBuf::new();
    let bytes: Vec<String> = (33..127u8).map(|byte| char::from(byte).to_string()).collect();
    let mut tokens: Vec<&str> = bytes.iter().map(String::as_str).collect();
    tokens.extend(["Ġ", "Ċ", "č", "ĠĠ", "ĠĊ", "Ċc", "at", "he", "the"]);
    metadata.set("tokenizer.ggml.model", "gpt2");
    metadata.set("tokenizer.ggml.pre", "gpt-2");
    metadata.set("tokenizer.ggml.tokens", tokens.as_slice());
    metadata.set("tokenizer.ggml.merges", ["Ġ Ġ", "Ġ Ċ", "h e", "t he", "a t"].as_slice());
    let file = Builder::new().metadata(metadata).plan().expect("a file").header().to_vec();
    let model = Gguf::parse(&file).expect("a file");
    let texts = long_texts();
    let mut seen = Vec::new();
    for name in pre_tokenizer_names() {
        let rules = ggmill_tokenizer::pre_tokenizer_rules(name);
        if seen.contains(&rules) {
            continue;
        }
        seen.push(rules);
        let options = LoadOptions::new().pre(name);
        let tokenizer = Tokenizer::with_options(&model.metadata(), &options).expect("a tokenizer");
        check(&tokenizer, &texts[..1], name);
    }
}
