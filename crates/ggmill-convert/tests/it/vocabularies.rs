//! Vocabularies of every kind, compared byte for byte with the reference.
//!
//! Each case under `tests/vocabularies` has the files of a checkpoint without weights, and the keys
//! and the SHA-256 of the reference converter's file (`--vocab-only`).
//! `conformance/vocabularies.py` records them.

use std::fs;
use std::ops::ControlFlow;
use std::path::Path;

use ggmill_arch::{Architecture, Catalogue};
use ggmill_convert::{ConvertOptions, convert};
use ggmill_core::{FileType, Header};
use ggmill_pipeline::{
    Error, ErrorKind, MemorySource, Pretrained as _, Recipe, Result, RunOptions, WithConfig, run,
};
use ggmill_testdata::{real, sha256};
use serde_json::{Value, json};

/// A checkpoint without weights, in memory.
#[derive(Debug)]
struct Bare {
    checkpoint: WithConfig<MemorySource>,
    /// The requested pre-tokenizer.
    pre: Option<String>,
}

impl Bare {
    /// The files of a case: JSON, text, or a bundled file.
    fn of(name: &str, case: &Value) -> Self {
        let content = |content: &Value| match content.as_str() {
            Some(text) => match text.strip_prefix('@') {
                Some(bundled) => fs::read(real(bundled)).unwrap(),
                None => text.as_bytes().to_vec(),
            },
            None => content.to_string().into_bytes(),
        };
        let files = case.as_object().unwrap();
        let contents = files.iter().map(|(name, it)| match name.split_once(" (") {
            Some((name, "hex)")) => (name.to_owned(), bytes_of(it.as_str().unwrap())),
            Some((name, _)) => (name.to_owned(), lines(it)),
            None => (name.clone(), content(it)),
        });
        let checkpoint = WithConfig::new(MemorySource::new(), files["config.json"].clone());
        let checkpoint = checkpoint.with_name(name).with_files(contents.collect());
        Self { checkpoint, pre: None }
    }

    fn converted(&self) -> Result<Vec<u8>, Error> {
        self.file(self.recipe()?)
    }

    fn recipe(&self) -> Result<Recipe, Error> {
        let catalogue = Catalogue::new();
        self.recipe_of(catalogue.for_checkpoint(self.checkpoint.config()).expect("a known one"))
    }

    /// Converts it with a description that has only this `[vocabulary]` section.
    fn vocabulary(&self, vocabulary: &str) -> Result<Vec<u8>, Error> {
        let mut file = self.file(self.recipe_of(&described(vocabulary))?)?;
        // A key begins with its length in eight bytes.
        let first = file.windows(10).position(|window| window == b"tokenizer.").unwrap() - 8;
        Ok(file.split_off(first))
    }

    fn recipe_of(&self, architecture: &Architecture) -> Result<Recipe, Error> {
        let mut options = ConvertOptions::new(FileType::F16);
        options.vocab_only = true;
        options.pre.clone_from(&self.pre);
        convert(&self.checkpoint, architecture, &options)
    }

    fn file(&self, recipe: Recipe) -> Result<Vec<u8>, Error> {
        let checkpoint = &self.checkpoint;
        let plan = recipe.plan(checkpoint)?;
        run(&plan, checkpoint, Vec::new(), &RunOptions::default(), &mut |_| {
            ControlFlow::Continue(())
        })
    }
}

/// Returns a description that has only this `[vocabulary]` section.
fn described(vocabulary: &str) -> Architecture {
    let vocabulary = vocabulary.replace("\n[", "\n[vocabulary.");
    let text = format!(
        "schema = \"ggmill.architecture/1\"\nname = \"llama\"\ntitle = \"Case\"\n[vocabulary]\n{vocabulary}"
    );
    Architecture::parse(&text).unwrap()
}

/// Decodes hexadecimal digits.
fn bytes_of(digits: &str) -> Vec<u8> {
    let pairs = digits.as_bytes().chunks(2);
    pairs.map(|pair| u8::from_str_radix(str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
}

/// Returns a text with these lines by number, and empty lines between.
fn lines(by_number: &Value) -> Vec<u8> {
    let by_number = by_number.as_object().unwrap();
    let last: usize = by_number.keys().map(|number| number.parse().unwrap()).max().unwrap();
    let line = |number: usize| by_number.get(&number.to_string()).and_then(Value::as_str);
    (0..=last)
        .flat_map(|number| [line(number).unwrap_or_default(), "\n"])
        .collect::<String>()
        .into()
}

/// Parses the keys of a file without header.
fn keys(file: &[u8]) -> Value {
    let parsed = |count: u64| {
        let header = [b"GGUF", &3u32.to_le_bytes()[..], &[0; 8], &count.to_le_bytes()].concat();
        let model = Header::parse([&header, file].concat()).ok()?;
        Some(model.metadata().iter().map(|it| it.key().to_string()).collect::<Vec<_>>())
    };
    // The largest number of keys with which it can be parsed.
    let keys: Vec<String> = (1..64).map_while(parsed).last().unwrap();
    json!(keys)
}

#[test]
fn vocabularies_equal_the_reference() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/vocabularies");
    let mut cases: Vec<_> =
        fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    cases.sort();
    let mut faults = Vec::new();
    for path in &cases {
        let name = path.file_stem().unwrap().to_str().unwrap();
        let case: Value = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
        let mut checkpoint = Bare::of(name, &case["files"]);
        // The reference was patched to return the hash of the check text's IDs as the name.
        if let Some(hash) = case["pre"].as_str() {
            let found = match case["vocabulary"].as_str() {
                Some(vocabulary) => checkpoint.recipe_of(&described(vocabulary)),
                None => checkpoint.recipe(),
            };
            // Some split texts as a pre-tokenizer with a name does.
            let words = match found {
                Ok(recipe) => recipe.notes.join("\n"),
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::PreTokenizer, "{name}: {error}");
                    error.to_string()
                }
            };
            assert!(words.contains(hash), "{name}: {words}");
            checkpoint.pre = Some(hash.to_owned());
        }
        if let Some(vocabulary) = case["vocabulary"].as_str() {
            let file = checkpoint.vocabulary(vocabulary);
            let file = file.unwrap_or_else(|error| panic!("{name}: {error}"));
            let expected = if case["ours"].is_null() { &case } else { &case["ours"] };
            if keys(&file) != expected["keys"] || sha256(&file) != expected["sha256"] {
                faults.push(format!("{name}: {} {}", sha256(&file), keys(&file)));
            }
            continue;
        }
        let file = checkpoint.converted().unwrap_or_else(|error| panic!("{name}: {error}"));
        let model = Header::parse(&file).unwrap();
        let keys: Vec<String> = model.metadata().iter().map(|it| it.key().to_string()).collect();
        let expected = if case["ours"].is_null() { &case } else { &case["ours"] };
        if json!(keys) != expected["keys"] || sha256(&file) != expected["sha256"] {
            faults.push(format!("{name}: {} {keys:?}", sha256(&file)));
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    assert!(cases.len() >= 40, "{}", cases.len());
}

/// Models that SentencePiece cannot load, contradictions, and sizes that would need too much
/// memory.
#[test]
fn broken_vocabularies_are_refused() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/vocabularies");
    let case: Value =
        serde_json::from_slice(&fs::read(directory.join("spm-added.json")).unwrap()).unwrap();
    let with = |name: &str, content: Value| {
        let mut files = case["files"].clone();
        files[name] = content;
        Bare::of("case", &files).converted().map(drop).map_err(|error| error.to_string())
    };
    let mut config = case["files"]["config.json"].clone();
    config["vocab_size"] = json!(1_000_000_000);
    let mut negative = case["files"]["config.json"].clone();
    negative["bos_token_id"] = json!(-2);
    for (name, content, words) in [
        ("config.json", config, "a vocabulary of 1000000000 tokens, the limit is 4194304"),
        ("config.json", negative, "config.json: bos_token_id is -2: special token ID out of range"),
        ("tokenizer.model", json!("<!DOCTYPE html>"), "tokenizer.model: "),
        ("tokenizer.model", json!("version https://git-lfs"), "tokenizer.model: "),
        ("tokenizer.json", json!("{"), "tokenizer.json: is not valid JSON"),
        ("tokenizer_config.json", json!("[]"), "tokenizer_config.json: expected an object"),
        (
            "tokenizer_config.json",
            json!(r#"{"bos_token": "a", "bos_token": "b"}"#),
            "tokenizer_config.json: has unexpected content: key \"bos_token\" has two values",
        ),
        ("added_tokens.json", json!({"a": 5, "b": 5}), "two added tokens have ID 5"),
        ("added_tokens.json", json!({"a": "5"}), "added_tokens.json: \"a\": expected a token ID"),
    ] {
        let error = with(name, content).unwrap_err();
        assert!(error.contains(words), "{name}: {error}, expected {words}");
    }
}

/// Files that the tokenizer class does not accept.
#[test]
fn broken_pairs_are_refused() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/vocabularies");
    let of = |name: &str| -> Value {
        serde_json::from_slice(&fs::read(directory.join(name)).unwrap()).unwrap()
    };
    let (gpt2, roberta) = (of("pairs-gpt2.json"), of("pairs-roberta.json"));
    let class = |name: &str| json!({ "tokenizer_class": name });
    for (case, name, content, words) in [
        (&gpt2, "merges.txt", json!("#version\na b c\n"), "merges.txt: line 2: expected the two"),
        (&gpt2, "merges.txt", json!("#version\n\na b\n"), "merges.txt: line 2: expected the two"),
        (&gpt2, "vocab.json", json!([1]), "vocab.json: has unexpected content"),
        (
            &gpt2,
            "tokenizer_config.json",
            class("GPTNeoXTokenizer"),
            "a tokenizer of class \"GPTNeoXTokenizerFast\" does not consist of vocab.json and \
             merges.txt",
        ),
        (
            &gpt2,
            "tokenizer_config.json",
            json!({}),
            "a tokenizer of class that is not named in any file",
        ),
        (&roberta, "vocab.json", json!({ "<s>": 0 }), "the sep_token \"</s>\" is not in the"),
    ] {
        let mut files = case["files"].clone();
        files[name] = content;
        if let Some(config) = files["config.json"].as_object_mut() {
            config.remove("model_type");
        }
        let error = Bare::of("case", &files).vocabulary("kinds = [\"bpe\"]\n").unwrap_err();
        assert!(error.to_string().contains(words), "{name}: {error}, expected {words}");
    }
}

/// The error names the nearest known pre-tokenizer, and any name can be requested.
#[test]
fn an_unknown_pre_tokenizer_is_compared_and_can_be_requested() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/vocabularies");
    let case = fs::read(directory.join("llama-bpe.json")).unwrap();
    let mut case: Value = serde_json::from_slice(&case).unwrap();
    let split = &mut case["files"]["tokenizer.json"]["pre_tokenizer"]["pretokenizers"][0];
    let pattern = split["pattern"]["Regex"].as_str().unwrap().replace("{1,3}", "{1,2}");
    split["pattern"]["Regex"] = pattern.into();
    let checkpoint = Bare::of("case", &case["files"]);
    let error = checkpoint.converted().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::PreTokenizer);
    let message = error.to_string();
    assert!(message.contains("llama-bpe") || message.contains("dbrx"), "{message}");
    assert!(message.contains(r"{1,2}") && message.contains(r"{1,3}"), "{message}");

    let mut options = ConvertOptions::new(FileType::F16);
    options.vocab_only = true;
    options.pre = Some("llama-bpe".to_owned());
    let architecture = ggmill_arch::Architecture::builtin("llama").unwrap();
    let recipe = convert(&checkpoint.checkpoint, architecture, &options).unwrap();
    let pre = recipe.metadata.get("tokenizer.ggml.pre").unwrap();
    assert_eq!(pre.as_str(), Some("llama-bpe"));
}
