//! Results of this crate where llama.cpp aborts, never returns, or drops text.

use ggmill_core::{Builder, Header, MetadataBuf};
use ggmill_tokenizer::{DecodeOptions, EncodeOptions, ErrorKind, Tokenizer};

use crate::identity::tokenizer;

fn tokenizer_of(metadata: MetadataBuf) -> Result<Tokenizer, ggmill_tokenizer::Error> {
    let plan = Builder::new().metadata(metadata).plan().expect("a plan");
    let file = plan.header().to_vec();
    let model = Header::parse(&file).expect("a file");
    Tokenizer::from_metadata(&model.metadata())
}

fn vocabulary(model: &str, tokens: &[&str], types: &[i32]) -> MetadataBuf {
    let mut metadata = MetadataBuf::new();
    metadata.set("tokenizer.ggml.model", model);
    metadata.set("tokenizer.ggml.tokens", tokens);
    metadata.set("tokenizer.ggml.token_type", types);
    metadata
}

fn ids(tokenizer: &Tokenizer, text: &[u8]) -> Vec<u32> {
    let mut ids = Vec::new();
    let options = EncodeOptions::new().add_special(false);
    tokenizer.encode(text, &options, &mut ids).expect("tokens");
    ids
}

#[test]
fn a_byte_with_only_longer_tokens_is_unknown() {
    // llama.cpp never returns.
    let tokens = ["<s>", "ab", "b"];
    let tokenizer = tokenizer_of(vocabulary("rwkv", &tokens, &[3, 1, 1])).expect("a tokenizer");
    assert_eq!(ids(&tokenizer, b"abacb"), [1, 2]);
    let mut metadata = vocabulary("rwkv", &tokens, &[3, 1, 1]);
    metadata.set("tokenizer.ggml.unknown_token_id", 0u32);
    assert_eq!(ids(&tokenizer_of(metadata).expect("a tokenizer"), b"abacb"), [1, 0, 0, 2]);
}

#[test]
fn a_byte_without_a_token_is_unknown() {
    let tokens = ["<unk>", "<s>", "</s>", "▁a", "▁", "a", "b"];
    let types = [2, 3, 3, 1, 1, 1, 1];
    let tokenizer = tokenizer_of(vocabulary("llama", &tokens, &types)).expect("a tokenizer");
    assert_eq!(ids(&tokenizer, "a é".as_bytes()), [3, 4, 0, 0]);
    assert_eq!(ids(&tokenizer, b"b\0"), [4, 6, 0]);
}

#[test]
fn missing_special_tokens_are_omitted() {
    let tokenizer = tokenizer_of(vocabulary("bert", &["a", "▁b"], &[1, 1])).expect("a tokenizer");
    let mut ids = Vec::new();
    tokenizer.encode("b c ba", &EncodeOptions::new(), &mut ids).expect("tokens");
    assert_eq!(ids, [1, 1, 0]);
    // Two of three letters have no token, and there is no unknown token.
    let tokenizer = tokenizer_of(vocabulary("t5", &["a"], &[1])).expect("a tokenizer");
    let mut ids = Vec::new();
    tokenizer.encode("bab", &EncodeOptions::new(), &mut ids).expect("tokens");
    assert_eq!(ids, [0]);
}

/// With a pre-tokenizer that keeps phrases together, merges join words after some letters only. The
/// expected tokens were computed by hand; the second run finds the words in the cache.
#[test]
fn phrases_are_merged_over_spaces() {
    let tokens = ["a", "b", "c", "Ġ", "Ġb", "aĠb", "Ġc", "ab", "aĠbĠc", "é", "Ã", "©", "©Ġb"];
    let mut metadata = vocabulary("gpt2", &tokens, &[1; 13]);
    metadata.set("tokenizer.ggml.pre", "exaone-moe");
    let merges = ["Ġ b", "a Ġb", "Ġ c", "aĠb Ġc", "a b", "© Ġb"];
    metadata.set("tokenizer.ggml.merges", &merges[..]);
    let tokenizer = tokenizer_of(metadata).expect("a tokenizer");
    for _ in 0..2 {
        assert_eq!(ids(&tokenizer, b"a b"), [5]);
        assert_eq!(ids(&tokenizer, b"b a b c b c c"), [1, 3, 8, 4, 6, 6]);
        assert_eq!(ids(&tokenizer, b"a b c ab b c b a"), [8, 3, 7, 4, 6, 4, 3, 0]);
        assert_eq!(ids(&tokenizer, "cé bé é b c".as_bytes()), [2, 10, 12, 10, 11, 3, 10, 12, 6]);
        assert_eq!(ids(&tokenizer, &b"a b c ".repeat(200)), [&[8, 3][..]; 200].concat()[..]);
    }
    // No merge joins a letter to a space.
    let mut metadata = vocabulary("gpt2", &tokens, &[1; 13]);
    metadata.set("tokenizer.ggml.pre", "exaone-moe");
    metadata.set("tokenizer.ggml.merges", &["Ġ b", "Ġ c", "a b", "ĠÂł ĠÂł"][..]);
    let tokenizer = tokenizer_of(metadata).expect("a tokenizer");
    for _ in 0..2 {
        assert_eq!(ids(&tokenizer, b"a b"), [0, 4]);
        assert_eq!(ids(&tokenizer, b"b a b c ab c "), [1, 3, 0, 4, 6, 3, 7, 6, 3]);
        assert_eq!(
            ids(&tokenizer, "cé bé é b c".as_bytes()),
            [2, 10, 11, 4, 10, 11, 3, 10, 11, 4, 6]
        );
    }
}

#[test]
fn an_unknown_id_is_an_error() {
    let tokenizer = tokenizer("small-spm");
    let last = tokenizer.vocabulary().len();
    let error = tokenizer.decode(&[5, last], &DecodeOptions::new(), &mut Vec::new());
    assert_eq!(error.expect_err("refused").kind(), ErrorKind::NoSuchToken);
    assert!(tokenizer.piece(last).is_none() && tokenizer.piece(u32::MAX).is_none());
}

#[test]
fn a_truncated_character_map_is_refused() {
    let map = |bytes: &[u8]| {
        let mut metadata = vocabulary("t5", &["a", "b", "c"], &[1, 1, 1]);
        metadata.set("tokenizer.ggml.precompiled_charsmap", bytes);
        tokenizer_of(metadata)
    };
    for bytes in [&b"\x01"[..], b"\x04\0\0\0", b"\x04\0\0\0\0\0\0\0", b"\xff\xff\xff\xff\0\0\0\0\0"]
    {
        let error = map(bytes).expect_err("refused");
        assert_eq!(error.kind(), ErrorKind::Malformed);
        assert_eq!(error.key(), Some("tokenizer.ggml.precompiled_charsmap"));
    }
    assert!(map(b"\0\0\0\0\0").is_ok());
}

#[test]
fn every_byte_needs_a_token_in_plamo() {
    let error = tokenizer_of(vocabulary("plamo2", &["<0x00>", "a"], &[6, 1])).expect_err("refused");
    assert_eq!(error.kind(), ErrorKind::Malformed);
    assert!(error.to_string().contains("0x00"), "{error}");
}

#[test]
fn code_points_beyond_the_last_are_invalid_bytes() {
    // llama.cpp throws for models that decode code points.
    let text = b"a\xf4\x90\x80\x80b";
    for name in ["small-wpm", "small-plamo2", "small-bpe", "small-whitespace"] {
        let replaced = "a\u{FFFD}\u{FFFD}\u{FFFD}\u{FFFD}b";
        let tokenizer = tokenizer(name);
        assert_eq!(ids(&tokenizer, text), ids(&tokenizer, replaced.as_bytes()), "{name}");
    }
}

#[test]
fn long_runs_take_linear_time() {
    for name in crate::identity::NAMES {
        let tokenizer = tokenizer(name);
        for piece in ["a", "é", "世", "\n"] {
            assert!(!ids(&tokenizer, piece.repeat(1 << 15).as_bytes()).is_empty() || piece == "\n");
        }
    }
}
