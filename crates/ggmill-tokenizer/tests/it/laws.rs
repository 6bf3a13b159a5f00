//! Laws that hold for every text and vocabulary.

use std::num::NonZeroUsize;

use ggmill_core::{Builder, Header, MetadataBuf};
use ggmill_tokenizer::{
    DecodeOptions, Decoder, EncodeOptions, LoadOptions, Tokenizer, pre_tokenizer_names,
};
use proptest::prelude::*;

use crate::identity::{NAMES, sample, tokenizer};

fn encoded(tokenizer: &Tokenizer, text: &[u8], options: EncodeOptions) -> Vec<u32> {
    let mut ids = Vec::new();
    tokenizer.encode(text, &options, &mut ids).expect("tokens");
    ids
}

/// Offsets and counts agree with the IDs, and ranges are in ascending order and within the text.
fn check_encoding(tokenizer: &Tokenizer, text: &[u8]) {
    for special in [false, true] {
        let options = EncodeOptions::new().add_special(special).parse_special(special);
        let ids = encoded(tokenizer, text, options);
        let mut pieces = Vec::new();
        tokenizer.encode_with_offsets(text, &options, &mut pieces).expect("pieces");
        assert_eq!(pieces.iter().map(|piece| piece.id).collect::<Vec<_>>(), ids, "{text:?}");
        assert_eq!(tokenizer.count(text, &options).expect("a count"), ids.len());
        let mut last = (0, 0);
        for piece in pieces {
            let (start, end) = (piece.start, piece.end);
            assert!(start <= end && end <= text.len(), "{text:?}: {start}..{end}");
            // Tokens that share a character share its range.
            assert!(start >= last.0 && end >= last.1, "{text:?}: {last:?} {start}..{end}");
            last = (start, end);
        }
        check_decoding(tokenizer, &ids);
    }
}

/// Decoding token by token equals decoding all tokens at once.
fn check_decoding(tokenizer: &Tokenizer, ids: &[u32]) {
    for (remove, unparse) in [(false, false), (false, true), (true, false), (true, true)] {
        let options = DecodeOptions::new().remove_special(remove).unparse_special(unparse);
        let mut whole = Vec::new();
        tokenizer.decode(ids, &options, &mut whole).expect("text");
        let mut decoder = Decoder::new(tokenizer, &options);
        let mut parts = Vec::new();
        let is_text = std::str::from_utf8(&whole).is_ok();
        for &id in ids {
            let before = parts.len();
            decoder.push(id, &mut parts).expect("text");
            assert!(
                !is_text || std::str::from_utf8(&parts[before..]).is_ok(),
                "{ids:?}: {parts:?}"
            );
        }
        decoder.finish(&mut parts);
        assert_eq!(parts, whole, "{ids:?}");
    }
}

#[test]
fn laws_hold_for_the_sample() {
    for name in NAMES {
        let tokenizer = tokenizer(name);
        for text in sample().iter().step_by(3) {
            check_encoding(&tokenizer, text);
        }
    }
}

#[test]
fn laws_hold_for_long_runs() {
    for name in NAMES {
        let tokenizer = tokenizer(name);
        for piece in ["a", " ", "é", "\n", "世界", " the", "<|im_end|>", "\u{FFFD}"] {
            check_encoding(&tokenizer, piece.repeat(300).as_bytes());
        }
    }
}

#[test]
fn cached_words_have_the_same_tokens() {
    for name in NAMES {
        let (warm, options) = (tokenizer(name), EncodeOptions::new());
        for text in sample().iter().take(300) {
            let first = encoded(&warm, text, options);
            assert_eq!(encoded(&warm, text, options), first);
        }
        for text in sample().iter().rev().step_by(150) {
            assert_eq!(encoded(&tokenizer(name), text, options), encoded(&warm, text, options));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn laws_hold_for_any_bytes(text in proptest::collection::vec(any::<u8>(), 0..80)) {
        for name in NAMES {
            check_encoding(cached(name), &text);
        }
    }

    #[test]
    fn laws_hold_for_any_ids(seeds in proptest::collection::vec(any::<u32>(), 0..40)) {
        for name in NAMES {
            let tokenizer = cached(name);
            let ids: Vec<u32> =
                seeds.iter().map(|seed| seed % tokenizer.vocabulary().len()).collect();
            check_decoding(tokenizer, &ids);
        }
    }

    #[test]
    fn laws_hold_for_spaces_and_punctuation(text in "[ .,?!'smreva]{0,60}") {
        for name in NAMES {
            check_encoding(cached(name), text.as_bytes());
        }
    }
}

fn cached(name: &str) -> &'static Tokenizer {
    static ALL: std::sync::OnceLock<Vec<(&str, Tokenizer)>> = std::sync::OnceLock::new();
    let all = ALL.get_or_init(|| NAMES.map(|name| (name, tokenizer(name))).into());
    &all.iter().find(|(known, _)| *known == name).expect("a name").1
}

#[test]
fn a_finished_decoder_is_as_new() {
    let tokenizer = tokenizer("small-spm");
    let ids = encoded(&tokenizer, b" Hello", EncodeOptions::new());
    let mut decoder = Decoder::new(&tokenizer, &DecodeOptions::new());
    let mut texts = [Vec::new(), Vec::new()];
    for text in &mut texts {
        for &id in &ids {
            decoder.push(id, text).expect("text");
        }
        decoder.finish(text);
    }
    let [first, second] = texts;
    assert_eq!(first, second);
    assert!(first.ends_with(b"Hello"), "{first:?}");
}

#[test]
fn text_that_is_not_trusted_has_no_control_tokens() {
    for name in NAMES {
        let tokenizer = tokenizer(name);
        let with = EncodeOptions::new().add_special(false).parse_special(true);
        let pieces = |text: &[u8], trusted: &[std::ops::Range<usize>]| {
            let mut pieces = Vec::new();
            tokenizer.encode_trusting(text, trusted, &with, &mut pieces).expect("tokens");
            pieces.into_iter().map(|piece| piece.id).collect::<Vec<_>>()
        };
        for text in sample().iter().step_by(5) {
            let plain = encoded(&tokenizer, text, with.parse_special(false));
            assert_eq!(pieces(text, &[]), plain, "nothing is trusted: {text:?}");
            let all = encoded(&tokenizer, text, with);
            let whole = 0..text.len();
            assert_eq!(pieces(text, std::slice::from_ref(&whole)), all, "all is trusted: {text:?}");
        }
        // A special token that is half trusted is text.
        let vocabulary = tokenizer.vocabulary();
        for id in (0..vocabulary.len()).filter(|id| {
            vocabulary.attributes(*id).intersects(ggmill_tokenizer::Attributes::CONTROL)
        }) {
            let Some(text) = vocabulary.text(id).filter(|text| text.len() > 2) else { continue };
            if encoded(&tokenizer, text, with) != [id] {
                continue;
            }
            let plain = encoded(&tokenizer, text, with.parse_special(false));
            for cut in [1, text.len() - 1] {
                assert_eq!(pieces(text, std::slice::from_ref(&(0..cut))), plain);
                assert_eq!(pieces(text, std::slice::from_ref(&(cut..text.len()))), plain);
            }
        }
    }
}

/// Returns long texts that can be split at some positions, with special tokens and invalid UTF-8.
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

fn check_batch(tokenizer: &Tokenizer, texts: &[Vec<u8>], name: &str) {
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
fn every_model_gives_the_same_tokens_on_several_threads() {
    let texts = long_texts();
    for name in NAMES {
        check_batch(&tokenizer(name), &texts, name);
    }
}

#[test]
fn every_pre_tokenizer_gives_the_same_tokens_on_several_threads() {
    let mut metadata = MetadataBuf::new();
    let bytes: Vec<String> = (33..127u8).map(|byte| char::from(byte).to_string()).collect();
    let mut tokens: Vec<&str> = bytes.iter().map(String::as_str).collect();
    tokens.extend(["Ġ", "Ċ", "č", "ĠĠ", "ĠĊ", "Ċc", "at", "he", "the"]);
    metadata.set("tokenizer.ggml.model", "gpt2");
    metadata.set("tokenizer.ggml.pre", "gpt-2");
    metadata.set("tokenizer.ggml.tokens", tokens.as_slice());
    metadata.set("tokenizer.ggml.merges", ["Ġ Ġ", "Ġ Ċ", "h e", "t he", "a t"].as_slice());
    let file = Builder::new().metadata(metadata).plan().expect("a file").header().to_vec();
    let model = Header::parse(&file).expect("a file");
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
        check_batch(&tokenizer, &texts[..1], name);
    }
}
