//! How texts become tokens, step by step.

use ggmill_core::MetadataBuf;
use ggmill_tokenizer::{
    EncodeOptions, Explained, ExplainedText, MergeOrder, Piece, Tokenizer, pre_tokenizer_names,
};

use crate::identity::{NAMES, sample, tokenizer};

/// The steps lead to the tokens: pieces are those of encoding, passes cut all of the text, and merges
/// join neighbours.
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
    let cut = part.rewritten.as_deref().unwrap_or(&text[part.range.clone()]);
    for pass in &part.passes {
        let mut done = 0;
        for piece in &pass.pieces {
            assert!(piece.start == done && piece.end > done, "{pass:?}");
            done = piece.end;
        }
        assert_eq!(done, cut.len(), "{pass:?}");
    }
    if let Some(last) = part.passes.last() {
        let words = part.words.iter().map(|word| &*word.text);
        assert!(words.eq(last.pieces.iter().map(|piece| &cut[piece.clone()])));
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
fn steps_of_every_model_lead_to_its_tokens() {
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
fn steps_of_every_pre_tokenizer_lead_to_its_tokens() {
    for name in pre_tokenizer_names() {
        let tokenizer = byte_pairs(name);
        for text in ["abc ab 1111\n\n<end>'s  c\r\n", "", "\u{a0}ab\u{4e2d}b1", "  \n a"] {
            check(&tokenizer, text.as_bytes());
        }
    }
}

#[test]
fn merges_are_told_in_their_order() {
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
    // A word that is a token is one where the pre-tokenizer says so.
    let whole = byte_pairs("llama-bpe").explain(" abc", &options).expect("steps");
    let [Explained::Text(text)] = &*whole else { panic!("{whole:?}") };
    assert!(text.words[0].is_whole && text.words[0].merges.is_empty());
}
