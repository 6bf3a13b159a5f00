//! Any vocabulary and any text: tokens are equal with and without ranges.

use ggmill_core::{Builder, Header, Metadata, MetadataBuf};
use ggmill_tokenizer::{EncodeOptions, Tokenizer, pre_tokenizer_names};

use crate::allocations::bounded;

/// Models by number.
const MODELS: [&str; 11] = [
    "gpt2",
    "gemma4",
    "llama",
    "bert",
    "t5",
    "rwkv",
    "plamo2",
    "hybriddna",
    "whitespace",
    "test",
    "none",
];

/// Uses the bytes as a file whose end is the text, or as numbers: a model, a pre-tokenizer,
/// switches, the number of tokens, and each token after its type and length; the rest is the text.
/// Pairs of tokens that form a third are merges.
pub fn tokenizer(data: &[u8]) {
    if let Ok(model) = Header::parse(data) {
        let tail = data.len().saturating_sub(4096);
        holds(&model.metadata(), &data[tail..], data.len());
        return;
    }
    let Some((&[model, pre, switches, count], rest)) = data.split_first_chunk() else { return };
    let mut metadata = MetadataBuf::new();
    let (mut tokens, mut types, mut rest) = (Vec::new(), Vec::new(), rest);
    for _ in 0..count {
        let Some((&[kind, length], tail)) = rest.split_first_chunk() else { break };
        let Some((token, tail)) = tail.split_at_checked(usize::from(length % 32)) else { break };
        tokens.push(String::from_utf8_lossy(token).into_owned());
        types.push(i32::from(kind % 8));
        rest = tail;
    }
    let name = pre_tokenizer_names().nth(usize::from(pre) % 91).unwrap_or_default();
    metadata.set("tokenizer.ggml.model", MODELS[usize::from(model) % MODELS.len()]);
    metadata.set("tokenizer.ggml.pre", name);
    let borrowed: Vec<&str> = tokens.iter().map(String::as_str).collect();
    metadata.set("tokenizer.ggml.tokens", borrowed.as_slice());
    metadata.set("tokenizer.ggml.token_type", types.as_slice());
    let scores: Vec<f32> = tokens.iter().zip(0u8..).map(|(_, number)| -f32::from(number)).collect();
    metadata.set("tokenizer.ggml.scores", scores.as_slice());
    let merges: Vec<String> = tokens.windows(2).map(|pair| pair.join(" ")).collect();
    let borrowed: Vec<&str> = merges.iter().map(String::as_str).collect();
    metadata.set("tokenizer.ggml.merges", borrowed.as_slice());
    for (bit, key) in [
        (1, "tokenizer.ggml.add_bos_token"),
        (2, "tokenizer.ggml.add_eos_token"),
        (4, "tokenizer.ggml.add_space_prefix"),
        (8, "tokenizer.ggml.remove_extra_whitespaces"),
        (16, "tokenizer.ggml.normalizer.lowercase"),
    ] {
        metadata.set(key, switches & bit != 0);
    }
    if switches & 32 != 0 {
        // Special tokens then include adjacent whitespace.
        metadata.set("general.name", "phi3");
    }
    let Ok(plan) = Builder::new().metadata(metadata).plan() else { return };
    let file = plan.header().to_vec();
    let model = Header::parse(&file).expect("what was laid out");
    holds(&model.metadata(), rest, data.len());
}

/// Checks that every way of encoding gives the same tokens.
fn holds(metadata: &Metadata<'_>, text: &[u8], input: usize) {
    // Automata, the word cache, and per byte of text a token with its range, merge state, and a few
    // special tokens.
    bounded(input, 32 << 20, 1 << 14, || {
        let Ok(tokenizer) = Tokenizer::from_metadata(metadata) else { return };
        for flag in [false, true] {
            let options = EncodeOptions::new().add_special(flag).parse_special(flag);
            let (mut ids, mut pieces) = (Vec::new(), Vec::new());
            if tokenizer.encode(text, &options, &mut ids).is_err() {
                continue;
            }
            tokenizer.encode_with_offsets(text, &options, &mut pieces).expect("as before");
            assert!(pieces.iter().map(|piece| piece.id).eq(ids.iter().copied()), "with ranges");
            assert_eq!(tokenizer.count(text, &options).expect("as before"), ids.len());
            // The second time words come from the cache.
            let mut again = Vec::new();
            tokenizer.encode(text, &options, &mut again).expect("as before");
            assert_eq!(again, ids);
            let tokens = tokenizer.vocabulary().len().max(1);
            assert!(ids.iter().all(|&id| id < tokens), "tokens are in the vocabulary");
            let mut done = 0;
            for piece in &pieces {
                assert!(piece.start <= piece.end && piece.end <= text.len(), "{piece:?}");
                assert!(done <= piece.end, "ranges are in order");
                done = piece.end;
            }
        }
    });
}
