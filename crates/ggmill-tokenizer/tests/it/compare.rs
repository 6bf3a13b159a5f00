//! Two tokenizers over one text.

use ggmill_tokenizer::{EncodeOptions, compare};

use crate::identity::{NAMES, sample, tokenizer};

#[test]
fn a_tokenizer_agrees_with_itself_and_others_differ_somewhere() {
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
fn the_first_difference_is_as_short_as_it_can_be() {
    let (one, other) = (tokenizer("small-bpe"), tokenizer("small-rwkv"));
    let options = EncodeOptions::new().add_special(false);
    let found = compare(&one, &other, "!!\u{1}Hello!", &options).expect("a comparison");
    let first = found.first.expect("a difference");
    // Single bytes are the same in both, though their IDs differ.
    assert_eq!(first.start, 3, "{first:?}");
    assert!(first.end <= 8 && found.renumbered >= 3, "{first:?}");
}
