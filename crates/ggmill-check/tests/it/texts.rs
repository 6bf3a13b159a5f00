//! Arrays of strings are validated many at a time, with the result of validating each string.

use ggmill_testdata::bytes::Value;

use crate::support::{Model, codes, report};

/// Returns the index of the first string that is not UTF-8 and the number of others, from the finding.
fn expected(texts: &[Vec<u8>]) -> Option<(usize, usize)> {
    let broken: Vec<_> =
        (0..texts.len()).filter(|&at| std::str::from_utf8(&texts[at]).is_err()).collect();
    Some((*broken.first()?, broken.len() - 1))
}

fn assert_told(texts: &[Vec<u8>]) {
    let array = Value::Array(8, texts.iter().map(|text| Value::Str(text.clone())).collect());
    let found = report(&Model::llama().set("community.texts", array).bytes());
    let told = found
        .diagnostics()
        .iter()
        .find(|diagnostic| diagnostic.rule.code == "GG1105")
        .map(|diagnostic| diagnostic.message.clone());
    let lengths: Vec<_> = texts.iter().map(Vec::len).collect();
    match expected(texts) {
        None => assert_eq!(told, None, "{lengths:?}"),
        Some((first, more)) => {
            let told = told.unwrap_or_else(|| panic!("{lengths:?}: nothing told"));
            assert!(
                told.starts_with(&format!("element {first} is not UTF-8")),
                "{lengths:?}: {told}"
            );
            assert_eq!(
                told.ends_with(&format!(", and so are {more} more")),
                more > 0,
                "{lengths:?}: {told}"
            );
        }
    }
}

/// A character cut at the end of a string does not continue in the length of the next.
#[test]
fn a_character_is_not_joined_across_strings() {
    for second in [0, 1, 127, 128, 0xa9, 0xbf, 0xc0, 255, 0xa9a9, 0x8080] {
        for first in [&b"\xc3"[..], b"plain \xe2\x82", b"\xf0\x9f\x98", b"fine"] {
            assert_told(&[first.to_vec(), vec![b'x'; second]]);
            assert_told(&[vec![b'x'; second], first.to_vec(), vec![b'y'; second]]);
            // The rest of the character begins the next string.
            assert_told(&[first.to_vec(), [&[0xa9][..], &vec![b'x'; second]].concat()]);
        }
    }
}

/// A broken string is found at any position of a long array.
#[test]
fn one_broken_string_among_many_is_found() {
    let good: Vec<Vec<u8>> = (0..12_000u32)
        .map(|number| format!("ein schönes Wörtchen, Nummer {number}").into_bytes())
        .collect();
    assert_told(&good);
    for at in [0, 1, 1500, 1501, 1502, 6000, 11_998, 11_999] {
        let mut texts = good.clone();
        texts[at].push(0xe2);
        assert_told(&texts);
    }
}

/// Missing byte tokens are named, if there are any byte tokens.
#[test]
fn missing_byte_tokens_are_named() {
    let vocabulary = |model: &str, missing: &[u8]| {
        let tokens = (0..=255u8)
            .filter(|byte| !missing.contains(byte))
            .map(|byte| Value::from(&*format!("<0x{byte:02X}>")));
        let tokens = tokens.chain(["A", "\u{e9}"].map(Value::from)).collect();
        report(
            &Model::llama()
                .set("tokenizer.ggml.model", model)
                .set("tokenizer.ggml.tokens", Value::Array(8, tokens))
                .bytes(),
        )
    };
    let told = |model: &str, missing: &[u8]| {
        let found = vocabulary(model, missing);
        found
            .diagnostics()
            .iter()
            .find(|diagnostic| diagnostic.rule.code == "GG1618")
            .map(|diagnostic| diagnostic.message.clone())
    };
    assert_eq!(told("llama", &[]), None);
    assert_eq!(told("llama", &[0x0a]).as_deref(), Some("missing: <0x0A>"));
    assert_eq!(told("llama", &[0x0a, 0xe9, 0xff]).as_deref(), Some("missing: <0x0A>, and 2 more"));
    // A token that is the byte itself suffices, except for PLaMo-2.
    assert_eq!(told("llama", b"A"), None);
    assert_eq!(told("plamo2", b"A").as_deref(), Some("missing: <0x41>"));
    // These tokenizers drop bytes without a token.
    assert_eq!((told("gemma4", &[0x0a]), told("t5", &[0x0a])), (None, None));
    assert!(codes(&vocabulary("llama", &[7])).contains(&"GG1618"));
}

/// Duplicates are detected by hash and then identified by token.
#[test]
fn every_duplicate_token_is_reported() {
    let told = |tokens: &[&str]| {
        let array = Value::Array(8, tokens.iter().map(|token| Value::from(*token)).collect());
        let found = report(
            &Model::llama()
                .set("tokenizer.ggml.model", "llama")
                .set("tokenizer.ggml.tokens", array)
                .bytes(),
        );
        found
            .diagnostics()
            .iter()
            .filter(|diagnostic| diagnostic.rule.code == "GG1611")
            .map(|diagnostic| diagnostic.message.clone())
            .collect::<Vec<_>>()
    };
    assert_eq!(told(&["a", "b", "", "", "ab"]), Vec::<String>::new());
    assert_eq!(
        told(&["a", "b", "a", "", "b", "a"]),
        [2, 4, 5]
            .map(|at| format!("token {at} is a duplicate: {:?}", if at == 4 { "b" } else { "a" }))
    );
}
