//! Explanations of tokenizations, and comparisons of two tokenizers.

use ggmill_core::MetadataBuf;
use ggmill_tokenizer::{
    EncodeOptions, Explained, ExplainedText, MergeOrder, Piece, Tokenizer, compare,
    pre_tokenizer_names,
};

use crate::identity::{NAMES, sample, tokenizer};

/// The tokens are those of encoding, passes cover the whole text, and merges join adjacent symbols.
fn check(tokenizer: &Tokenizer, text: &[u8]) {
    for special in [false, true] {
        let options = EncodeOptions::new().add_special(special).parse_special(special);
        let mut expected = Vec::new();
        tokenizer.encode_with_offsets(text, &options, &mut expected).expect("tokens");
        let mut found: Vec<Piece> = Vec::new();
        for part in tokenizer.explain(text, &options).expect("steps") {
            match part {
                Explained::Added(piece) | Explained::Special(piece) => found.push(piece),
                Explained::Text(part) => {
                    check_text(&part, text);
                    found.extend(part.words.iter().flat_map(|word| &word.pieces));
                }
                _ => unreachable!("there are no other parts"),
            }
        }
        assert_eq!(found, expected, "{:?}", String::from_utf8_lossy(text));
    }
}

fn check_text(part: &ExplainedText, text: &[u8]) {
    let pre_tokenized = part.rewritten.as_deref().unwrap_or(&text[part.range.clone()]);
    for pass in &part.passes {
        let mut done = 0;
        for piece in &pass.pieces {
            assert!(piece.start == done && piece.end > done, "{pass:?}");
            done = piece.end;
        }
        assert_eq!(done, pre_tokenized.len(), "{pass:?}");
    }
    if let Some(last) = part.passes.last() {
        let words = part.words.iter().map(|word| &*word.text);
        assert!(words.eq(last.pieces.iter().map(|piece| &pre_tokenized[piece.clone()])));
    }
    for word in &part.words {
        let mut ends: Vec<usize> = Vec::new();
        for merge in &word.merges {
            assert!(merge.start < merge.middle && merge.middle < merge.end, "{word:?}");
            assert!(merge.end <= word.text.len() && !ends.contains(&merge.middle), "{word:?}");
            ends.push(merge.middle);
        }
    }
}

#[test]
fn steps_of_every_model_agree_with_its_tokens() {
    for name in NAMES {
        let tokenizer = tokenizer(name);
        for text in sample().iter().step_by(7) {
            check(&tokenizer, text);
        }
    }
}

fn byte_pairs(pre: &str) -> Tokenizer {
    let mut metadata = MetadataBuf::new();
    metadata.set("tokenizer.ggml.model", "gpt2");
    metadata.set("tokenizer.ggml.pre", pre);
    let tokens = ["a", "b", "c", "1", "Ġ", "'", "ab", "Ġab", "Ġabc", "11", "<end>"];
    metadata.set("tokenizer.ggml.tokens", tokens.as_slice());
    metadata.set("tokenizer.ggml.token_type", [1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 3].as_slice());
    let merges = ["a b", "Ġ ab", "Ġab c", "1 1"];
    metadata.set("tokenizer.ggml.merges", merges.as_slice());
    Tokenizer::from_entries(metadata).expect("a tokenizer")
}

#[test]
fn steps_of_every_pre_tokenizer_agree_with_its_tokens() {
    for name in pre_tokenizer_names() {
        let tokenizer = byte_pairs(name);
        for text in ["abc ab 1111\n\n<end>'s  c\r\n", "", "\u{a0}ab\u{4e2d}b1", "  \n a"] {
            check(&tokenizer, text.as_bytes());
        }
    }
}

#[test]
fn merges_are_listed_in_order() {
    let tokenizer = byte_pairs("gpt-2");
    let options = EncodeOptions::new().add_special(false).parse_special(true);
    let steps = tokenizer.explain("c abc<end>", &options).expect("steps");
    let [Explained::Text(text), Explained::Special(end)] = &*steps else { panic!("{steps:?}") };
    assert_eq!((end.id, end.start, end.end), (10, 5, 10));
    assert_eq!((&text.range, &text.rewritten, text.passes.len()), (&(0..5), &None, 1));
    assert_eq!(text.passes[0].pieces, [0..1, 1..5]);
    assert!(text.passes[0].rule.starts_with("'s|'t|"), "{}", text.passes[0].rule);
    let word = &text.words[1];
    let merges: Vec<_> =
        word.merges.iter().map(|it| (it.order, it.start, it.middle, it.end)).collect();
    let rank = MergeOrder::Rank;
    assert_eq!(merges, [(rank(0), 1, 2, 3), (rank(1), 0, 1, 3), (rank(2), 0, 3, 4)]);
    assert_eq!((&*word.text, word.pieces[0].id, word.is_whole), (&b" abc"[..], 8, false));
    // With this pre-tokenizer, a word that is a token is not merged.
    let whole = byte_pairs("llama-bpe").explain(" abc", &options).expect("steps");
    let [Explained::Text(text)] = &*whole else { panic!("{whole:?}") };
    assert!(text.words[0].is_whole && text.words[0].merges.is_empty());
}

#[test]
fn a_tokenizer_equals_itself_and_differs_from_others() {
    let options = EncodeOptions::new();
    for name in NAMES {
        let (one, other) = (tokenizer(name), tokenizer(name));
        for text in sample().iter().step_by(40) {
            let found = compare(&one, &other, text, &options).expect("a comparison");
            assert!(found.is_equal() && found.first.is_none(), "{found:?}");
            assert_eq!(found.left, one.count(text, &options).expect("a count"));
        }
    }
    let (one, other) = (tokenizer("small-spm"), tokenizer("small-bpe"));
    for text in sample().iter().step_by(10) {
        let found = compare(&one, &other, text, &options).expect("a comparison");
        let back = compare(&other, &one, text, &options).expect("a comparison");
        assert_eq!((found.left, found.right), (back.right, back.left));
        assert_eq!(found.is_equal(), back.is_equal());
        if let Some(first) = found.first {
            assert!(first.start <= first.end && first.end <= text.len());
            assert!(!first.left.is_empty() || !first.right.is_empty());
            assert_ne!(first.left, first.right);
        }
    }
}

#[test]
fn the_first_difference_is_minimal() {
    let (one, other) = (tokenizer("small-bpe"), tokenizer("small-rwkv"));
    let options = EncodeOptions::new().add_special(false);
    let found = compare(&one, &other, "!!\u{1}Hello!", &options).expect("a comparison");
    let first = found.first.expect("a difference");
    // Single bytes are tokens of both, with different IDs.
    assert_eq!(first.start, 3, "{first:?}");
    assert!(first.end <= 8 && found.renumbered >= 3, "{first:?}");
}
