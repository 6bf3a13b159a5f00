//! Defects that a tokenizer finds in its vocabulary.

use std::collections::BTreeSet;

use ggmill_core::{Header, MetadataBuf};
use ggmill_testdata::{every_gguf, shared};
use ggmill_tokenizer::{EncodeOptions, Kind, LoadOptions, Tokenizer};
use proptest::prelude::*;

use crate::identity::sample;

fn byte_pairs(tokens: &[&str], merges: &[&str]) -> Tokenizer {
    let mut metadata = MetadataBuf::new();
    metadata.set("tokenizer.ggml.model", "gpt2");
    metadata.set("tokenizer.ggml.pre", "gpt-2");
    metadata.set("tokenizer.ggml.tokens", tokens);
    metadata.set("tokenizer.ggml.merges", merges);
    Tokenizer::from_entries(metadata).expect("a tokenizer")
}

proptest! {
    /// A token is reachable if and only if some text yields it. All texts of a small alphabet are
    /// tried.
    #[test]
    fn reachable_tokens_are_those_that_some_text_yields(
        merges in proptest::collection::vec("[ab]{1,3} [ab]{1,3}", 0..8),
    ) {
        let mut tokens = BTreeSet::from(["a".to_owned(), "b".to_owned()]);
        tokens.extend(merges.iter().map(|merge| merge.replace(' ', "")));
        let tokens: Vec<&str> = tokens.iter().map(String::as_str).collect();
        let texts: Vec<&str> = merges.iter().map(String::as_str).collect();
        let tokenizer = byte_pairs(&tokens, &texts);
        let mut found = BTreeSet::new();
        let (mut ids, options) = (Vec::new(), EncodeOptions::new().add_special(false));
        for length in 1..=8 {
            for number in 0..1u32 << length {
                let bit = |place: u32| if number >> place & 1 == 0 { 'a' } else { 'b' };
                let text: String = (0..length).map(bit).collect();
                ids.clear();
                tokenizer.encode(&text, &options, &mut ids).expect("tokens");
                found.extend(ids.iter().copied());
            }
        }
        let reachable: BTreeSet<u32> = (0..tokenizer.vocabulary().len()).collect();
        let unreachable: BTreeSet<u32> = tokenizer.unreachable_tokens().into_iter().collect();
        let expected: BTreeSet<u32> = reachable.difference(&unreachable).copied().collect();
        prop_assert_eq!(&found, &expected, "{:?} {:?}", tokens, merges);
        // The result of an idle merge is unreachable.
        for merge in tokenizer.idle_merges() {
            let id = tokenizer.vocabulary().id(&merge.product);
            prop_assert!(id.is_some_and(|id| unreachable.contains(&id)), "{:?}", merge);
        }
    }
}

/// No text of the sample yields an unreachable token.
#[test]
fn unreachable_tokens_of_real_vocabularies_do_not_occur() {
    let options = EncodeOptions::new().add_special(false);
    for path in every_gguf() {
        let file = std::fs::read(&path).expect("a file");
        let Ok(model) = Header::parse(&file) else { continue };
        let Ok(tokenizer) = Tokenizer::from_metadata(&model.metadata()) else { continue };
        if tokenizer.vocabulary().kind() == Kind::None {
            continue;
        }
        let unreachable: BTreeSet<u32> = tokenizer.unreachable_tokens().into_iter().collect();
        let mut ids = Vec::new();
        for text in sample() {
            ids.clear();
            tokenizer.encode(&text, &options, &mut ids).expect("tokens");
            let found = ids.iter().find(|id| unreachable.contains(id));
            assert_eq!(found, None, "{}: {text:?}", path.display());
        }
        // Nor does the text of the token itself.
        for &id in &unreachable {
            ids.clear();
            tokenizer
                .encode(tokenizer.piece(id).expect("a piece"), &options, &mut ids)
                .expect("ids");
            assert!(!ids.contains(&id), "{}: {id}", path.display());
        }
    }
}

#[test]
fn bytes_without_a_token_are_found() {
    // All bytes of UTF-8 except the letter.
    assert_eq!(byte_pairs(&["a"], &[]).lost_bytes().len(), 256 - 13 - 1);
    let every: Vec<String> = (0..256u32)
        .map(|byte| match byte {
            0x21..=0x7E | 0xA1..=0xAC | 0xAE..=0xFF => byte,
            0..=0x20 => 0x100 + byte,
            0x7F..=0xA0 => 0x121 + byte - 0x7F,
            _ => 0x143,
        })
        .map(|point| char::from_u32(point).expect("a character").to_string())
        .collect();
    let every: Vec<&str> = every.iter().map(String::as_str).collect();
    assert!(byte_pairs(&every, &[]).lost_bytes().is_empty());
    assert_eq!(byte_pairs(&every[1..], &[]).lost_bytes(), [0]);
}

#[test]
fn the_pre_tokenizer_of_a_vocabulary_fits_its_tokens() {
    let Some(path) = shared("vocab-gguf/ggml-vocab-gpt-2.gguf") else {
        return eprintln!("skipped: there is no shared data");
    };
    let file = std::fs::read(path).expect("a file");
    let model = Header::parse(&file).expect("a model");
    let fit = |pre: &str| {
        let options = LoadOptions::new().pre(pre);
        let tokenizer = Tokenizer::with_options(&model.metadata(), &options).expect("a tokenizer");
        assert!(tokenizer.lost_bytes().is_empty());
        tokenizer.pre_tokenizer_fit().expect("merged in the alphabet of bytes")
    };
    let own = fit("gpt-2");
    assert!(own.better.is_none() && own.own.cut * 1000 < own.tokens, "{own:?}");
    // These split its numbers, or spaces from words.
    for wrong in ["qwen2", "llama-bpe", "default", "deepseek-v3", "starcoder"] {
        let found = fit(wrong);
        let better = found.better.expect("a better one");
        assert!(better.names.contains(&"gpt-2"), "{wrong}: {better:?}");
        assert!(found.own.cut > 8 * better.cut && found.own.first.is_some(), "{wrong}");
    }
}

#[test]
fn tokens_of_digits_contradict_a_pre_tokenizer_that_splits_them() {
    let pairs: Vec<[String; 2]> = (0..100)
        .map(|number| [number / 10, number % 10].map(|digit: u32| digit.to_string()))
        .collect();
    let tokens: Vec<String> = (0..10)
        .map(|digit| digit.to_string())
        .chain(pairs.iter().map(|pair| pair.concat()))
        .collect();
    let merges: Vec<String> = pairs.iter().map(|pair| pair.join(" ")).collect();
    let mut metadata = MetadataBuf::new();
    metadata.set("tokenizer.ggml.model", "gpt2");
    metadata.set("tokenizer.ggml.tokens", &tokens);
    metadata.set("tokenizer.ggml.merges", &merges);
    for (pre, cut) in [("qwen2", 100), ("gpt-2", 0), ("llama-bpe", 0)] {
        metadata.set("tokenizer.ggml.pre", pre);
        let tokenizer = Tokenizer::from_entries(metadata.clone()).expect("a tokenizer");
        let fit = tokenizer.pre_tokenizer_fit().expect("a fit");
        assert_eq!((fit.tokens, fit.own.cut, fit.better.is_some()), (100, cut, cut > 0), "{pre}");
    }
    // Vocabularies that are not byte-level have no fit.
    metadata.set("tokenizer.ggml.pre", "gemma4");
    let tokenizer = Tokenizer::from_entries(metadata).expect("a tokenizer");
    assert_eq!(tokenizer.pre_tokenizer_fit(), None);
}

#[test]
fn long_texts_do_not_change_later_results() {
    // After a long text, scratch memory is freed; later calls must not depend on it.
    for name in crate::identity::NAMES {
        let tokenizer = crate::identity::tokenizer(name);
        let options = EncodeOptions::new();
        let (mut before, mut after) = (Vec::new(), Vec::new());
        tokenizer.encode("one two", &options, &mut before).expect("tokens");
        tokenizer.encode("long ".repeat(1 << 18), &options, &mut Vec::new()).expect("tokens");
        tokenizer.encode("a".repeat(1 << 19), &options, &mut Vec::new()).expect("tokens");
        tokenizer.encode("one two", &options, &mut after).expect("tokens");
        assert_eq!(before, after, "{name}");
    }
}
