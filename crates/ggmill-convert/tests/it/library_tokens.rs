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
    let contents = files.iter().map(|(name, it)| (name.clone(), it.to_string().into_bytes()));
    converted_bytes(files["config.json"].clone(), contents.collect(), no_verify)
}

/// Converts the vocabulary of a checkpoint without weights from the contents of its files.
fn converted_bytes(
    config: Value,
    files: BTreeMap<String, Vec<u8>>,
    no_verify: bool,
) -> Result<Recipe> {
    let checkpoint =
        WithConfig::new(MemorySource::new(), config).with_name("case").with_files(files);
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

/// Tokenizers that transformers 5 saved, with 512 pieces of tinystories260K: of LLaMA with three added
/// tokens, and of Gemma 2, whose vocabulary and merges are those of the first.
fn saved(name: &str) -> BTreeMap<String, Value> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/saved-tokenizers.json");
    let mut all: BTreeMap<String, BTreeMap<String, Value>> =
        serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    let model = all["llama-added"]["tokenizer.json"]["model"].clone();
    let mut files = all.remove(name).unwrap();
    let own = files.get_mut("tokenizer.json").unwrap();
    for member in ["vocab", "merges"] {
        own["model"][member] = model[member].clone();
    }
    files
}

/// The token IDs of a text in a converted vocabulary.
fn ids(recipe: &Recipe, text: &str) -> Vec<u32> {
    let tokenizer = Tokenizer::from_entries(recipe.metadata.clone()).unwrap();
    let mut ids = Vec::new();
    tokenizer.encode(text, &EncodeOptions::new().parse_special(true), &mut ids).unwrap();
    ids
}

/// The IDs are those of `AutoTokenizer` of transformers 5.24 for the same files.
#[test]
fn saved_tokenizers_give_the_ids_of_the_library() {
    let llama = converted(&saved("llama-added"), false).unwrap();
    assert_eq!(ids(&llama, "little girl"), [1, 376, 298, 315, 421]);
    // The library adds no prefix to a text that begins with a space; llama.cpp always does.
    assert_eq!(ids(&llama, " little girl"), [1, 410, 376, 298, 315, 421]);
    let is_named = |note: &String| note.contains("a space prefix that depends on the text");
    assert!(llama.notes.iter().any(is_named), "{:?}", llama.notes);
    let text = "Once upon a time, there was a lily_tok";
    assert_eq!(ids(&llama, text), [1, 403, 407, 261, 378, 432, 383, 286, 261, 410, 514]);
    let gemma = converted(&saved("gemma-2"), false).unwrap();
    let text = "Once upon a time, there was a little girl";
    let expected = [1, 441, 416, 331, 407, 261, 378, 432, 383, 286, 261, 376, 298, 315, 421];
    assert_eq!(ids(&gemma, text), expected);
    assert_eq!(ids(&gemma, "a  <|x|> b<mask>"), [1, 412, 410, 410, 514, 268, 513]);
}

/// Added tokens that match only whole words: llama.cpp has no such flag.
#[test]
fn flags_of_added_tokens_are_noted() {
    let mut case = recorded("gpt-2");
    let id = case.files["config.json"]["vocab_size"].as_u64().unwrap();
    case.files.get_mut("config.json").unwrap()["vocab_size"] = json!(id + 1);
    let file = case.files.get_mut("tokenizer.json").unwrap();
    let token = json!({ "id": id, "content": "cat", "single_word": true, "lstrip": false,
        "rstrip": false, "normalized": false, "special": false });
    file["added_tokens"].as_array_mut().unwrap().push(token);
    let recipe = converted(&case.files, false).unwrap();
    let found = recipe.notes.iter().find(|note| note.contains("texts differ")).unwrap();
    assert!(found.contains("the flags single_word of added tokens"), "{found}");
}

/// A SentencePiece model as bytes: pieces with their type, all with the score 0.
fn sentencepiece(pieces: impl Iterator<Item = (String, u8)>) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (text, kind) in pieces {
        let length = u8::try_from(text.len()).unwrap();
        let piece = [&[0x0a, length], text.as_bytes(), &[0x15, 0, 0, 0, 0, 0x18, kind]].concat();
        bytes.extend([0x0a, u8::try_from(piece.len()).unwrap()]);
        bytes.extend(piece);
    }
    bytes
}

/// Chat markers as user-defined pieces of `tokenizer.model`, beside a `tokenizer.json` that has no
/// vocabulary: each is one token.
#[test]
fn user_defined_pieces_are_one_token() {
    let named =
        [("<unk>", 2), ("<s>", 3), ("</s>", 3), ("<start_of_turn>", 4), ("<end_of_turn>", 4)];
    let named = named.map(|(text, kind)| (text.to_owned(), kind));
    let bytes = (0..=255).map(|byte| (format!("<0x{byte:02X}>"), 6));
    let pieces = named.into_iter().chain(bytes).chain([("\u{2581}".to_owned(), 1)]);
    let markers = [(3, "<start_of_turn>"), (4, "<end_of_turn>")].map(|(id, content)| {
        json!({ "id": id, "content": content, "special": true, "single_word": false,
            "lstrip": false, "rstrip": false, "normalized": false })
    });
    let file = json!({ "version": "1.0", "added_tokens": markers,
        "model": { "type": "BPE", "vocab": {}, "merges": [] } });
    let config = json!({ "tokenizer_class": "LlamaTokenizer",
        "extra_special_tokens": ["<start_of_turn>", "<end_of_turn>"] });
    let files = BTreeMap::from([
        ("tokenizer.model".to_owned(), sentencepiece(pieces)),
        ("tokenizer.json".to_owned(), file.to_string().into_bytes()),
        ("tokenizer_config.json".to_owned(), config.to_string().into_bytes()),
    ]);
    let mut config = saved("llama-added")["config.json"].clone();
    config["vocab_size"] = json!(262);
    let recipe = converted_bytes(config, files, false).unwrap();
    let space = 261;
    let byte = |byte: u8| 5 + u32::from(byte);
    let expected = [1, 3, space, byte(b'a'), byte(b'b'), 4];
    assert_eq!(ids(&recipe, "<start_of_turn>ab<end_of_turn>"), expected);
}
