//! The pipeline of `tokenizer.json`, compared with the `tokenizers` library on 500 texts for each
//! kind of tokenizer.

use std::time::{Duration, Instant};

use ggmill_testdata::tokenizers::{
    RecordedTokenizer, ids_checksum, recorded_tokenizers, text_checksum,
};
use ggmill_tokenizer::tokenizer_json::{
    AddedToken, AddedVocabulary, Pipeline, TokenizerJson, decode_tokens, post_process,
    verification_texts,
};
use serde_json::json;

fn file_of(recorded: &RecordedTokenizer) -> TokenizerJson {
    serde_json::from_value(recorded.files["tokenizer.json"].clone()).expect("a tokenizer")
}

fn added_of(file: &TokenizerJson) -> AddedVocabulary {
    let model_id = |content: &str| {
        let found = file.model.vocab.tokens.iter().find(|(token, _)| token == content);
        found.map(|(_, id)| *id)
    };
    let tokens: Vec<AddedToken> =
        file.added_tokens.iter().map(|listed| listed.token.clone()).collect();
    let mut added = AddedVocabulary::default();
    added.add(&tokens, u32::try_from(file.model.vocab.tokens.len()).expect("a count"), &model_id);
    added
}

#[test]
fn tokens_and_texts_equal_the_library() {
    let cases = recorded_tokenizers();
    let mut faults = Vec::new();
    for case in &cases {
        let file = file_of(case);
        let added = added_of(&file);
        let pipeline = Pipeline::new(&file.model, &added, &file.normalizer, &file.pre_tokenizer)
            .unwrap_or_else(|error| panic!("{}: {error}", case.name));
        let texts = verification_texts(added.by_id());
        assert_eq!(texts.len(), case.ids.len());
        let token = |id: u32| {
            let mut tokens = file.model.vocab.tokens.iter();
            let own = || tokens.find(|(_, known)| *known == id).map(|(text, _)| text.clone());
            pipeline.added_text(id).map(str::to_owned).or_else(own).unwrap_or_default()
        };
        let mut differences = Vec::new();
        for (number, text) in texts.iter().enumerate() {
            let ids = post_process(&file.post_processor, pipeline.encode(text).unwrap());
            if number == 0 {
                assert_eq!(ids, case.first, "{}", case.name);
            }
            if ids_checksum(&ids) != case.ids[number] {
                let tokens: Vec<String> = ids.iter().map(|id| token(*id)).collect();
                differences.push(format!("{number}: {text:?} {tokens:?}"));
                continue;
            }
            let decoded = ids.iter().map(|id| token(*id)).collect();
            let decoded = decode_tokens(&file.decoder, decoded).unwrap();
            if text_checksum(&decoded) != case.decoded[number] {
                differences.push(format!("{number}: decoded {decoded:?}"));
            }
        }
        if let [first, ..] = &*differences {
            let last = differences.last();
            faults.push(format!("{}: {} texts: {first} {last:?}", case.name, differences.len()));
        }
    }
    assert!(faults.is_empty(), "{faults:#?}");
    assert!(cases.len() >= 29, "{}", cases.len());
}

/// Components that were chosen so that a text grows, or is searched again and again.
#[test]
fn hostile_files_take_bounded_time() {
    let step = |name: &str| json!({ "type": name });
    let sequence = |part: &serde_json::Value, member: &str| json!({ "type": "Sequence", member: vec![part.clone(); 60] });
    let long_token = "a".repeat(1 << 12);
    let bpe = json!({ "type": "BPE", "vocab": { "a": 0 }, "merges": [] });
    let word_piece = json!({ "type": "WordPiece", "unk_token": "a", "continuing_subword_prefix": "",
        "max_input_chars_per_word": u64::MAX, "vocab": { "a": 0, format!("{long_token}b"): 1 } });
    let unigram = json!({ "type": "Unigram", "unk_id": 0, "vocab": [["a", 0.0], [format!("{long_token}b"), 0.0]] });
    let added = json!([{ "id": 9, "content": format!("{long_token}b"), "special": true }]);
    for (model, normalizer, pre_tokenizer, added) in [
        (&bpe, sequence(&step("ByteLevel"), "normalizers"), json!(null), json!([])),
        (&bpe, json!(null), sequence(&step("ByteLevel"), "pretokenizers"), json!([])),
        (&bpe, sequence(&step("NFKD"), "normalizers"), json!(null), json!([])),
        (&bpe, json!(null), json!(null), added),
        (&word_piece, json!(null), json!(null), json!([])),
        (&unigram, json!(null), json!(null), json!([])),
    ] {
        let file: TokenizerJson = serde_json::from_value(json!({ "model": model,
            "normalizer": normalizer, "pre_tokenizer": pre_tokenizer, "added_tokens": added }))
        .unwrap();
        let added = added_of(&file);
        let pipeline =
            Pipeline::new(&file.model, &added, &file.normalizer, &file.pre_tokenizer).unwrap();
        let begun = Instant::now();
        let text = format!("{}\u{fdfa}é", long_token.repeat(2));
        let found = pipeline.encode(&text).map(|ids| ids.len()).map_err(|error| error.to_string());
        let took = begun.elapsed();
        assert!(took < Duration::from_secs(20), "{took:?} {found:?}");
        assert!(found.is_ok() || found.clone().unwrap_err().contains("steps"), "{found:?}");
    }
}
