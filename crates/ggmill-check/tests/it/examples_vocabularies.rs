//! Files that violate the rules that run the tokenizer.

use ggmill_testdata::bytes::Value;

use crate::support::{Model, strings};

pub(crate) fn example(code: &str) -> Option<(&'static str, Vec<u8>)> {
    let llama = Model::llama;
    let model = |model: Model| Some(("Tiny-1K-v1.0.gguf", model.bytes()));
    match code {
        "GG2301" => model(llama().set("tokenizer.ggml.merges", strings(&["b a"]))),
        "GG2302" => model(llama().set("tokenizer.ggml.merges", strings(&["a b", "a bc"]))),
        "GG2303" => model(
            llama()
                .set("tokenizer.ggml.tokens", strings(&["<s>", "a", "b", "ab", "ba"]))
                .set("tokenizer.ggml.eos_token_id", Value::U32(4)),
        ),
        "GG2304" => {
            let digit = |number: u32| (number % 10).to_string();
            let pairs = |space: &'static str| {
                (0..100).map(move |number| [digit(number / 10), digit(number)].join(space))
            };
            model(vocabulary((0..10).map(digit).chain(pairs("")), pairs(" ")))
        }
        "GG2305" => {
            let printable = ('!'..='~').chain('\u{a1}'..='\u{ac}').chain('\u{ae}'..='\u{ff}');
            model(vocabulary(printable.map(String::from), []))
        }
        _ => crate::examples_models::example(code),
    }
}

/// Builds the model with other tokens and merges, for a pre-tokenizer that splits digits.
fn vocabulary(
    tokens: impl IntoIterator<Item = String>,
    merges: impl IntoIterator<Item = String>,
) -> Model {
    let list = |texts: &mut dyn Iterator<Item = String>| {
        Value::Array(8, texts.map(|text| Value::from(&*text)).collect())
    };
    Model::llama()
        .unset("tokenizer.ggml.token_type")
        .unset("tokenizer.ggml.scores")
        .set("tokenizer.ggml.pre", "qwen2")
        .set("tokenizer.ggml.tokens", list(&mut tokens.into_iter()))
        .set("tokenizer.ggml.merges", list(&mut merges.into_iter()))
}
