//! Checkpoints in the publishers' own layouts (Mistral, Meta, llama2.c), written by
//! `conformance/own_layouts.py` and converted by the reference.

use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use ggmill_arch::Catalogue;
use ggmill_convert::{AutoType, ConvertOptions, convert};
use ggmill_core::{FileType, Header};
use ggmill_pipeline::formats::CheckpointDirectory;
use ggmill_pipeline::{Pretrained as _, Result, RunOptions, run};
use ggmill_testdata::sha256;
use serde_json::Value;

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/own-layouts")
}

fn expected() -> Value {
    serde_json::from_slice(&fs::read(fixtures().join("expected.json")).unwrap()).unwrap()
}

fn converted(path: &Path, file_type: Option<FileType>) -> Result<Vec<u8>> {
    converted_part(path, file_type, false)
}

fn converted_part(path: &Path, file_type: Option<FileType>, is_projector: bool) -> Result<Vec<u8>> {
    let checkpoint = CheckpointDirectory::open(path)?;
    let catalogue = Catalogue::new();
    let found = if is_projector {
        catalogue.for_projector(checkpoint.config())
    } else {
        catalogue.for_checkpoint(checkpoint.config())
    };
    let architecture = found.expect("a known architecture");
    let options =
        ConvertOptions::new(file_type.unwrap_or_else(|| AutoType::of(&checkpoint).file_type));
    let plan = convert(&checkpoint, architecture, &options)?.plan(&checkpoint)?;
    run(&plan, &checkpoint, Vec::new(), &RunOptions::default(), &mut |_| ControlFlow::Continue(()))
}

/// Compared with the reference's `--mistral-format`.
#[test]
fn mistral_checkpoints_equal_the_reference() {
    for (name, types) in expected().as_object().unwrap() {
        for (file_type, hash) in
            types.as_object().unwrap().iter().filter(|_| !name.starts_with("meta"))
        {
            let directory = name.strip_suffix(" --mmproj");
            let path = fixtures().join(directory.unwrap_or(name));
            let file = converted_part(&path, file_type.parse().ok(), directory.is_some()).unwrap();
            assert_eq!(sha256(&file), *hash, "{name} to {file_type}");
            // Any file of the layout can be named instead of the directory.
            if name == "mistral" {
                let file = path.join("consolidated.safetensors");
                let given = converted(&file, file_type.parse().ok()).unwrap();
                assert_eq!(sha256(&given), *hash);
            }
        }
    }
}

/// For any number of shards, split along any dimension.
#[test]
fn meta_checkpoints_have_the_reference_tensors() {
    let expected = expected();
    let expected = expected["meta"].as_object().unwrap();
    for (name, context, heads) in [("meta", 4096, 4), ("meta-2", 4096, 4), ("meta-4-rows", 8192, 4)]
    {
        let file = converted(&fixtures().join(name), Some(FileType::F16)).unwrap();
        let model = Header::parse(&file).unwrap();
        let metadata = model.metadata();
        for (key, value) in [
            ("llama.context_length", context),
            ("llama.embedding_length", 32),
            ("llama.block_count", 1),
            ("llama.feed_forward_length", 64),
            ("llama.rope.dimension_count", 8),
            ("llama.attention.head_count", heads),
            ("llama.attention.head_count_kv", heads),
            ("llama.vocab_size", 24),
        ] {
            assert_eq!(metadata.u32(key).unwrap(), value, "{name}: {key}");
        }
        assert_eq!(model.tensors().len(), expected.len(), "{name}");
        for tensor in model.tensors() {
            let found = sha256(tensor.raw_data().unwrap());
            assert_eq!(found, expected[&tensor.name().to_string()], "{name}: {}", tensor.name());
        }
    }
}

/// LLaMA 3.2 as published, with its rank file: the metadata and the tensors are those of the same
/// model in Hugging Face's layout, byte for byte.
#[test]
fn meta_llama_3_checkpoints_equal_the_reference() {
    let expected = expected();
    for (file_type, expected) in expected["meta-3.2"].as_object().unwrap() {
        let file = converted(&fixtures().join("meta-3.2"), file_type.parse().ok()).unwrap();
        let model = Header::parse(&file).unwrap();
        // After magic, version and counts, up to the first tensor info.
        let first = model.tensors().iter().next().unwrap().name().to_string();
        let info = [&(first.len() as u64).to_le_bytes(), first.as_bytes()].concat();
        let end = file.windows(info.len()).position(|bytes| bytes == info).unwrap();
        assert_eq!(sha256(&file[24..end]), expected["metadata"], "{file_type}");
        let tensors = expected["tensors"].as_object().unwrap();
        assert_eq!(model.tensors().len(), tensors.len());
        for tensor in model.tensors() {
            let found = sha256(tensor.raw_data().unwrap());
            assert_eq!(found, tensors[&tensor.name().to_string()], "{}", tensor.name());
        }
    }
}

/// A llama2.c file has the tensors and the tokens of the original model.
#[test]
fn llama2c_files_have_the_original_tensors_and_tokens() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("stories.bin");
    let real = ggmill_testdata::real("tinystories260K");
    fs::copy(ggmill_testdata::real("tinystories260K.llama2c.bin"), &file).unwrap();
    let theirs = converted(&real, Some(FileType::F32)).unwrap();
    let theirs = Header::parse(&theirs).unwrap();
    let bare = converted(&file, Some(FileType::F32)).unwrap();
    let bare = Header::parse(&bare).unwrap();
    let name = bare.metadata().str("general.name").unwrap();
    assert_eq!(name.to_lowercase(), "stories");
    assert_eq!(bare.metadata().str("tokenizer.ggml.model").unwrap(), "none");
    assert_eq!(bare.tensors().len(), theirs.tensors().len());
    for tensor in theirs.tensors() {
        let found = bare.tensor(tensor.name().to_string()).unwrap();
        assert!(found.raw_data().unwrap() == tensor.raw_data().unwrap(), "{}", tensor.name());
    }
    // The tokens of the SentencePiece model, as llama2.c writes them.
    let tokens = theirs.metadata().array("tokenizer.ggml.tokens").unwrap();
    let scores = theirs.metadata().array("tokenizer.ggml.scores").unwrap();
    let mut bytes = 7u32.to_le_bytes().to_vec();
    for (token, score) in tokens.strings().unwrap().zip(scores.floats().unwrap()) {
        let text = match &*token.unwrap().to_string_lossy() {
            "<s>" => "\n<s>\n".to_owned(),
            "</s>" => "\n</s>\n".to_owned(),
            text => text.replace('\u{2581}', " "),
        };
        bytes.extend((score as f32).to_le_bytes());
        bytes.extend(u32::try_from(text.len()).unwrap().to_le_bytes());
        bytes.extend(text.as_bytes());
    }
    let vocabulary = directory.path().join("tokenizer.bin");
    fs::write(&vocabulary, &bytes).unwrap();
    let made = converted(&file, Some(FileType::F32)).unwrap();
    let made = Header::parse(&made).unwrap();
    for key in ["model", "pre", "tokens", "scores", "token_type", "bos_token_id", "eos_token_id"] {
        let key = format!("tokenizer.ggml.{key}");
        let value = |model: &Header<'_>| {
            model.metadata().get(&key).map(|entry| entry.value_bytes().to_vec())
        };
        assert_eq!(value(&made), value(&theirs), "{key}");
    }
    for broken in [&bytes[..bytes.len() - 1], &[&*bytes, b"more"].concat()] {
        fs::write(&vocabulary, broken).unwrap();
        let error = converted(&file, Some(FileType::F32)).unwrap_err().to_string();
        assert!(error.starts_with("tokenizer.bin: "), "{error}");
    }
    // A truncated file is not recognized.
    let bytes = fs::read(&file).unwrap();
    fs::write(&file, &bytes[..bytes.len() - 1]).unwrap();
    assert!(converted(&file, Some(FileType::F32)).is_err());
}

/// A missing shard is an error.
#[test]
fn a_missing_meta_shard_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    for entry in fs::read_dir(fixtures().join("meta-2")).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), at(entry.file_name().to_str().unwrap())).unwrap();
    }
    let failure = || converted(directory.path(), Some(FileType::F16)).unwrap_err().to_string();
    fs::rename(at("consolidated.00.pth"), at("other")).unwrap();
    let message = "contains \"consolidated.01.pth\", but consolidated.00.pth";
    assert!(failure().contains(message), "{}", failure());
    fs::rename(at("consolidated.01.pth"), at("consolidated.00.pth")).unwrap();
    let message =
        "\"0/tok_embeddings.weight\" results in shape 16 × 24, but the configuration requires";
    assert!(failure().contains(message), "{}", failure());
    fs::remove_file(at("params.json")).unwrap();
    let message = "contains \"consolidated.00.pth\" without params.json, and contains neither \
                   model.safetensors";
    assert!(failure().contains(message), "{}", failure());
}
