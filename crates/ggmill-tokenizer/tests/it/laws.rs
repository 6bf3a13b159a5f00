//! What holds for every text and every vocabulary.

use ggmill_tokenizer::{DecodeOptions, Decoder, EncodeOptions, Tokenizer};
use proptest::prelude::*;

use crate::identity::{NAMES, sample, tokenizer};

fn encoded(tokenizer: &Tokenizer, text: &[u8], options: EncodeOptions) -> Vec<u32> {
    let mut ids = Vec::new();
    tokenizer.encode(text, &options, &mut ids).expect("tokens");
    ids
}

/// Offsets and counts agree with the IDs, and ranges are in order and in the text.
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

/// What the decoder gives piece by piece is what all tokens give at once.
fn check_decoding(tokenizer: &Tokenizer, ids: &[u32]) {
    for (remove, unparse) in [(false, false), (false, true), (true, false), (true, true)] {
        let options = DecodeOptions::new().remove_special(remove).unparse_special(unparse);
        let mut whole = Vec::new();
        tokenizer.decode(ids, &options, &mut whole).expect("text");
        let mut decoder = Decoder::new(tokenizer, &options);
        let mut parts = Vec::new();
        let is_text = std::str::from_utf8(&whole).is_ok();
        for &id in ids {
            let given = parts.len();
            decoder.push(id, &mut parts).expect("text");
            assert!(!is_text || std::str::from_utf8(&parts[given..]).is_ok(), "{ids:?}: {parts:?}");
        }
        decoder.finish(&mut parts);
        assert_eq!(parts, whole, "{ids:?}");
    }
}

#[test]
fn the_sample_agrees_with_itself() {
    for name in NAMES {
        let tokenizer = tokenizer(name);
        for text in sample().iter().step_by(3) {
            check_encoding(&tokenizer, text);
        }
    }
}

#[test]
fn long_runs_are_like_short_ones() {
    for name in NAMES {
        let tokenizer = tokenizer(name);
        for piece in ["a", " ", "é", "\n", "世界", " the", "<|im_end|>", "\u{FFFD}"] {
            check_encoding(&tokenizer, piece.repeat(300).as_bytes());
        }
    }
}

#[test]
fn what_was_in_the_cache_makes_no_difference() {
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
    fn any_bytes_agree(text in proptest::collection::vec(any::<u8>(), 0..80)) {
        for name in NAMES {
            check_encoding(cached(name), &text);
        }
    }

    #[test]
    fn any_ids_agree(seeds in proptest::collection::vec(any::<u32>(), 0..40)) {
        for name in NAMES {
            let tokenizer = cached(name);
            let ids: Vec<u32> =
                seeds.iter().map(|seed| seed % tokenizer.vocabulary().len()).collect();
            check_decoding(tokenizer, &ids);
        }
    }

    #[test]
    fn spaces_and_marks_agree(text in "[ .,?!'smreva]{0,60}") {
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
