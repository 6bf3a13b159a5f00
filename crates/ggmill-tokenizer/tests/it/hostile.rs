//! Vocabularies that are chosen so that tokens begin alike take no more than linear time.

use std::time::{Duration, Instant};

use ggmill_core::{Builder, Header, MetadataBuf};
use ggmill_tokenizer::{EncodeOptions, ErrorKind, Tokenizer};

fn tokenizer(model: &str, tokens: &[String], types: &[i32], scores: &[f32]) -> Tokenizer {
    let tokens: Vec<&str> = tokens.iter().map(|token| &**token).collect();
    let mut metadata = MetadataBuf::new();
    metadata.set("tokenizer.ggml.model", model);
    metadata.set("tokenizer.ggml.tokens", &*tokens);
    metadata.set("tokenizer.ggml.token_type", types);
    metadata.set("tokenizer.ggml.scores", scores);
    let plan = Builder::new().metadata(metadata).plan().expect("a plan");
    let file = plan.header().to_vec();
    let header = Header::parse(&file).expect("a file");
    Tokenizer::from_metadata(&header.metadata()).expect("a tokenizer")
}

/// Encodes a text within a time that quadratic work exceeds many times, in test builds too.
fn encode(tokenizer: &Tokenizer, text: &str) -> Result<Vec<u32>, ErrorKind> {
    let begun = Instant::now();
    let mut ids = Vec::new();
    let options = EncodeOptions::new().parse_special(true);
    let done = tokenizer.encode(text, &options, &mut ids);
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
    done.map(|()| ids).map_err(|error| error.kind())
}

/// 200,000 special tokens, of which most are prefixes of others.
#[test]
fn special_tokens_that_are_prefixes_of_others() {
    for kind in [3, 4] {
        let mut tokens: Vec<String> = (0..200_000).map(|number| format!("<{number}")).collect();
        tokens.push("a".to_owned());
        let mut types = vec![kind; 200_000];
        types.push(1);
        let begun = Instant::now();
        let tokenizer = tokenizer("llama", &tokens, &types, &vec![0.0; tokens.len()]);
        assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
        let ids = encode(&tokenizer, "<1<123456<12345x").expect("tokens");
        assert!(ids.starts_with(&[1]), "{ids:?}");
        assert!(ids.contains(&123_456) && ids.contains(&12_345), "{ids:?}");
    }
}

/// A long token of which the text has all but the end, at every position, and nested tokens.
#[test]
fn text_times_longest_token() {
    for model in ["t5", "rwkv", "bert", "plamo2", "llama"] {
        let mut tokens: Vec<String> = (0..=255).map(|byte| format!("<0x{byte:02X}>")).collect();
        let mut types = vec![6; 256];
        tokens.insert(0, "<unk>".to_owned());
        types.insert(0, 2);
        let plain = |tokens: &mut Vec<String>, types: &mut Vec<i32>, text: String| {
            tokens.push(text);
            types.push(1);
        };
        for letter in ["a", "b", "\u{2581}a", "\u{2581}"] {
            plain(&mut tokens, &mut types, letter.to_owned());
        }
        let text = "a".repeat(300_000);
        for suffix in ["b", ""] {
            let mut tokens = tokens.clone();
            let mut types = types.clone();
            let long = [100_000, 50_000];
            let nested = if suffix.is_empty() { 2..4000 } else { 2..3 };
            for length in nested.chain(long) {
                plain(&mut tokens, &mut types, format!("{}{suffix}", "a".repeat(length)));
            }
            #[expect(clippy::cast_precision_loss, reason = "a score")]
            let scores: Vec<f32> = (0..tokens.len()).map(|index| index as f32).collect();
            let tokenizer = tokenizer(model, &tokens, &types, &scores);
            match encode(&tokenizer, &text) {
                Ok(ids) => assert!(!ids.is_empty(), "{model}"),
                Err(kind) => assert_eq!(kind, ErrorKind::Limit, "{model}"),
            }
            // Shorter texts have tokens.
            assert!(encode(&tokenizer, "aab").is_ok(), "{model}");
        }
    }
}
