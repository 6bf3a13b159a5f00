//! Vocabularies: attributes, special tokens and errors.

use ggmill_core::{Builder, Header, MetadataBuf};
use ggmill_tokenizer::{Attributes, EncodeOptions, ErrorKind, Kind, Piece, Tokenizer, Vocabulary};

fn with<T>(metadata: MetadataBuf, then: impl FnOnce(&ggmill_core::Metadata<'_>) -> T) -> T {
    let plan = Builder::new().metadata(metadata).plan().expect("a plan");
    let file = plan.header().to_vec();
    let model = Header::parse(&file).expect("a file");
    then(&model.metadata())
}

fn bpe(tokens: &[&str], types: &[i32]) -> MetadataBuf {
    let mut metadata = MetadataBuf::new();
    metadata.set("general.architecture", "gpt2");
    metadata.set("tokenizer.ggml.model", "gpt2");
    metadata.set("tokenizer.ggml.pre", "gpt-2");
    metadata.set("tokenizer.ggml.tokens", tokens);
    metadata.set("tokenizer.ggml.token_type", types);
    metadata.set("tokenizer.ggml.merges", [" "; 0].as_slice());
    metadata
}

fn error(metadata: MetadataBuf) -> (ErrorKind, String) {
    with(metadata, |metadata| {
        let error = Tokenizer::from_metadata(metadata).expect_err("refused");
        (error.kind(), error.to_string())
    })
}

#[test]
fn attributes_are_corrected_by_text() {
    let tokens = ["a", "</s>", "<|im_end|>", "<unused1>", "<|message|>", "<|endoftext|>"];
    with(bpe(&tokens, &[1, 1, 1, 3, 3, 1]), |metadata| {
        let found = Vocabulary::from_metadata(metadata).expect("a vocabulary");
        assert_eq!(found.kind(), Kind::Bpe);
        assert_eq!(found.attributes(0), Attributes::NORMAL);
        assert_eq!(found.attributes(1), Attributes::NORMAL | Attributes::CONTROL);
        assert_eq!(found.attributes(3), Attributes::CONTROL | Attributes::UNUSED);
        assert_eq!(found.attributes(4), Attributes::USER_DEFINED);
        assert_eq!(found.special_ids().eot, Some(2));
        assert_eq!(found.end_of_generation(), [1, 2, 5]);
        assert_eq!(found.attributes_in_file(1), Attributes::NORMAL);
        // The default begin token 11 is out of range.
        assert_eq!(found.special_ids().bos, None);
    });
}

#[test]
fn special_tokens_are_taken_by_length_then_position() {
    let tokens = ["a", "b", "<x>", "<x><x>", "c", "x"];
    with(bpe(&tokens, &[1, 1, 4, 4, 1, 1]), |metadata| {
        let tokenizer = Tokenizer::from_metadata(metadata).expect("a tokenizer");
        let mut pieces = Vec::new();
        let options = EncodeOptions::new();
        tokenizer.encode_with_offsets("a<x><x><x>b", &options, &mut pieces).expect("tokens");
        let expected = [(0, 0, 1), (3, 1, 7), (2, 7, 10), (1, 10, 11)];
        assert_eq!(pieces, expected.map(|(id, start, end)| Piece { id, start, end }));
        assert_eq!(tokenizer.count("a<x><x><x>b", &options).expect("a count"), 4);
    });
}

#[test]
fn errors_name_the_key_and_the_values() {
    let mut metadata = bpe(&["a"], &[1]);
    metadata.set("tokenizer.ggml.model", "nonsense");
    assert_eq!(error(metadata).0, ErrorKind::UnknownModel);

    let mut metadata = bpe(&["a"], &[1]);
    metadata.set("tokenizer.ggml.pre", "lama-bpe");
    let (kind, message) = error(metadata);
    assert_eq!(kind, ErrorKind::UnknownPreTokenizer);
    assert!(message.contains("\"llama-bpe\""), "{message}");

    let (kind, message) = error(bpe(&["a", "b"], &[1]));
    assert_eq!(kind, ErrorKind::WrongLength);
    assert!(message.contains("token_type") && message.contains("at least 2"), "{message}");

    let (kind, message) = error(bpe(&["a", "b", "a"], &[1, 1, 1]));
    assert_eq!(kind, ErrorKind::DuplicateToken);
    assert!(message.contains("tokens 0 and 2"), "{message}");
}
