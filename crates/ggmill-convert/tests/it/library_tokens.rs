//! Tokenizers as transformers 5 saves them, `tokenizer.json` alone: the tokens of the converted
//! vocabulary, compared with the `tokenizers` library on 500 texts for each kind.

use std::collections::BTreeMap;

use ggmill_arch::Catalogue;
use ggmill_convert::{ConvertOptions, convert};
use ggmill_core::FileType;
use ggmill_pipeline::{MemorySource, Pretrained as _, Recipe, Result, WithConfig};
use ggmill_testdata::tokenizers::{RecordedTokenizer, ids_checksum, recorded_tokenizers};
use ggmill_tokenizer::tokenizer_json::{AddedToken, verification_texts};
use ggmill_tokenizer::{EncodeOptions, Tokenizer};
use serde_json::{Value, json};

fn recorded(name: &str) -> RecordedTokenizer {
    recorded_tokenizers().into_iter().find(|recorded| recorded.name == name).unwrap()
}

/// Converts the vocabulary of a checkpoint without weights.
fn converted(files: &BTreeMap<String, Value>, no_verify: bool) -> Result<Recipe> {
    let checkpoint = WithConfig::new(MemorySource::new(), files["config.json"].clone());
    let contents = files.iter().map(|(name, it)| (name.clone(), it.to_string().into_bytes()));
    let checkpoint = checkpoint.with_name("case").with_files(contents.collect());
    let mut options = ConvertOptions::new(FileType::F16);
    options.vocab_only = true;
    options.no_verify = no_verify;
    let catalogue = Catalogue::new();
    let architecture = catalogue.for_checkpoint(checkpoint.config()).expect("a known class");
    convert(&checkpoint, architecture, &options)
}

/// Returns the number of texts whose tokens differ from those of the library, and the notes.
fn differing(recorded: &RecordedTokenizer) -> Result<(usize, Vec<String>)> {
    let recipe = converted(&recorded.files, false)?;
    let tokenizer = Tokenizer::from_entries(recipe.metadata)
        .unwrap_or_else(|error| panic!("{}: {error}", recorded.name));
    let file = &recorded.files["tokenizer.json"];
    let tokens = file["added_tokens"].as_array().unwrap().iter();
    let added: BTreeMap<u32, AddedToken> = tokens
        .map(|token| {
            let id = u32::try_from(token["id"].as_u64().unwrap()).unwrap();
            (id, serde_json::from_value(token.clone()).unwrap())
        })
        .collect();
    let options = EncodeOptions::new().parse_special(true);
    let texts = verification_texts(&added);
    let count = texts.iter().zip(&recorded.ids).filter(|(text, expected)| {
        let mut ids = Vec::new();
        tokenizer.encode(text, &options, &mut ids).unwrap();
        ids_checksum(&ids) != **expected
    });
    Ok((count.count(), recipe.notes))
}

/// The number of texts that differ, by the name of the tokenizer. Each is explained by a note about
/// what llama.cpp has no equivalent of.
const DIFFERING: [(&str, usize); 20] = [
    ("bert", 13),
    ("bert-cased", 3),
    ("bert-flags", 18),
    ("gemma-flags", 26),
    ("gpt-2-flags", 25),
    ("gpt-4o", 21),
    ("llama", 123),
    ("llama-eos", 123),
    ("llama-flags", 140),
    ("llama-no-bos", 123),
    ("llama-prepend-flags", 66),
    ("nfd", 270),
    ("nfkc", 152),
    ("nfkd", 426),
    ("qwen2", 1),
    ("qwen2-flags", 26),
    ("t5", 16),
    ("t5-flags", 36),
    ("xlm-roberta", 16),
    ("xlm-roberta-flags", 36),
];

/// Tokenizers of which GGUF has no kind.
const REFUSED: [&str; 2] = ["parts", "words"];

#[test]
fn tokens_equal_the_library() {
    let mut faults = Vec::new();
    for case in recorded_tokenizers() {
        let expected = DIFFERING.iter().find(|(name, _)| *name == case.name);
        let expected = expected.map_or(0, |(_, count)| *count);
        match differing(&case) {
            Ok((count, notes)) => {
                let note = notes.iter().find(|note| note.contains("of 500 texts differ"));
                if count != expected || note.is_some() != (count > 0) {
                    faults.push(format!("{}: {count} of {expected}: {notes:#?}", case.name));
                }
            }
            Err(_) if REFUSED.contains(&&*case.name) => {}
            Err(error) => faults.push(format!("{}: {error}", case.name)),
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// Classes whose tokenizers were a SentencePiece model before version 5 of the library.
#[test]
fn tokenizer_json_alone_is_enough_for_every_class() {
    let llama = recorded("llama");
    let gemma = recorded("gemma");
    let t5 = recorded("t5");
    for (case, class, model_type) in [
        (&gemma, "GemmaForCausalLM", "gemma"),
        (&gemma, "Gemma2ForCausalLM", "gemma2"),
        (&llama, "Phi3ForCausalLM", "phi3"),
        (&llama, "InternLM2ForCausalLM", "internlm2"),
        (&llama, "MiniCPMForCausalLM", "minicpm"),
        (&llama, "NemotronForCausalLM", "nemotron"),
        (&t5, "T5ForConditionalGeneration", "t5"),
    ] {
        let mut case = case.clone();
        let config = case.files.get_mut("config.json").unwrap();
        config["architectures"] = json!([class]);
        config["model_type"] = json!(model_type);
        let found = converted(&case.files, true);
        let message = found.err().map(|error| error.to_string()).unwrap_or_default();
        assert!(!message.contains("tokenizer"), "{class}: {message}");
    }
}

#[test]
fn the_comparison_can_be_omitted() {
    let case = recorded("gpt-2-flags");
    let has_note = |no_verify| {
        let notes = converted(&case.files, no_verify).unwrap().notes;
        notes.iter().any(|note| note.contains("texts differ"))
    };
    assert!(has_note(false) && !has_note(true));
}
