//! Files from before GGUF: comparison with the reference's converter, values of block formats that
//! have changed since, and errors.

use std::fs;
use std::ops::ControlFlow;
use std::path::Path;

use ggmill_convert::{LegacyOptions, convert_legacy};
use ggmill_core::Header;
use ggmill_edit::hash::{HashKind, hash};
use ggmill_pipeline::formats::{Legacy, LegacyFamily};
use ggmill_pipeline::{Checkpoint as _, ErrorKind, RunOptions};
use ggmill_testdata::legacy::{LegacyModel, legacy_models};
use ggmill_testdata::{expected, real, sha256, shared};

use crate::support::made;

fn open(directory: &Path, model: &LegacyModel) -> Legacy {
    let path = directory.join(model.name);
    fs::write(&path, &model.file).unwrap();
    Legacy::open(&path).unwrap()
}

fn converted(legacy: &Legacy) -> Vec<u8> {
    made(convert_legacy(legacy, &LegacyOptions::default()).unwrap(), legacy)
}

#[test]
fn files_equal_the_reference() {
    let directory = tempfile::tempdir().unwrap();
    let expected: serde_json::Value =
        serde_json::from_str(&fs::read_to_string(expected("legacy.json")).unwrap()).unwrap();
    let mut compared = 0;
    for model in legacy_models() {
        let reference = &expected[model.name];
        assert_eq!(reference.is_object(), model.is_taken_by_reference, "{}", model.name);
        if model.is_taken_by_reference {
            assert_eq!(
                sha256(&model.file),
                reference["input"],
                "{}: made again by `python3 conformance/run.py legacy`?",
                model.name
            );
            assert_eq!(
                sha256(&converted(&open(directory.path(), &model))),
                reference["output"],
                "{}",
                model.name
            );
            compared += 1;
        }
    }
    assert_eq!(compared, 7);
}

/// The reference refuses these formats. Converted blocks must have the same values as the legacy
/// ones, at any offset.
#[test]
fn legacy_blocks_are_converted() {
    let directory = tempfile::tempdir().unwrap();
    for model in legacy_models().into_iter().filter(|model| !model.is_taken_by_reference) {
        let legacy = open(directory.path(), &model);
        let recipe = convert_legacy(&legacy, &LegacyOptions::default()).unwrap();
        let lossless = model.name.contains("q5");
        assert!(
            recipe.notes().iter().any(|note| note.contains(if lossless {
                "the conversion is lossless"
            } else {
                "one part in 2048"
            })),
            "{:?}",
            recipe.notes()
        );
        let bytes = made(recipe, &legacy);
        let gguf = Header::parse(&bytes).unwrap();
        for (number, tensor) in gguf.tensors().iter().enumerate() {
            let data = tensor.data().unwrap();
            for (start, end) in
                [(0, data.len()), (7, data.len() - 1), (data.len() / 2, data.len() / 2 + 1)]
            {
                let mut read = vec![0; end - start];
                legacy.read(number, start as u64, &mut read).unwrap();
                assert!(read == data[start..end], "{} {}", model.name, tensor.name());
            }
        }
        // A second way to read the same data.
        let hashes = hash(&legacy, &[HashKind::Xxh64], false, &RunOptions::default(), &mut |_| {
            ControlFlow::Continue(())
        })
        .unwrap();
        fs::write(directory.path().join("new.gguf"), &bytes).unwrap();
        let new = ggmill_pipeline::GgufCheckpoint::open(directory.path().join("new.gguf")).unwrap();
        assert_eq!(
            hashes,
            hash(&new, &[HashKind::Xxh64], false, &RunOptions::default(), &mut |_| {
                ControlFlow::Continue(())
            })
            .unwrap()
        );
    }
}

#[test]
fn real_files_are_listed() {
    let vocabulary = Legacy::open(real("ggml-vocab.ggjt-v1.bin")).unwrap();
    assert_eq!(
        (vocabulary.family(), vocabulary.vocabulary().len(), vocabulary.tensors().len()),
        (LegacyFamily::Llama, 32000, 0)
    );
    let recipe = convert_legacy(&vocabulary, &LegacyOptions::default()).unwrap();
    assert!(recipe.notes().iter().any(|note| note.contains("contains only a vocabulary")));
    let bytes = made(recipe, &vocabulary);
    assert_eq!(
        Header::parse(&bytes).unwrap().metadata().array("tokenizer.ggml.tokens").unwrap().len(),
        32000
    );

    for (name, family, tokens, tensors) in [
        ("rwkv-tiny-rwkv-4v0-660K-FP16.bin", LegacyFamily::Rwkv, 0, 6 + 4 * 18),
        ("rwkv-tiny-rwkv-4v0-660K-Q5_0.bin", LegacyFamily::Rwkv, 0, 6 + 4 * 18),
        ("rwkv-tiny-rwkv-4v0-660K-Q5_1.bin", LegacyFamily::Rwkv, 0, 6 + 4 * 18),
        ("whisper-for-tests-ggml-tiny.bin", LegacyFamily::Whisper, 50257, 0),
        ("whisper-for-tests-ggml-tiny.en.bin", LegacyFamily::Whisper, 50257, 0),
    ] {
        let Some(path) = shared(&format!("legacy/{name}")) else { continue };
        let legacy = Legacy::open(path).unwrap();
        assert_eq!(
            (legacy.family(), legacy.vocabulary().len(), legacy.tensors().len()),
            (family, tokens, tensors),
            "{name}"
        );
        assert_eq!(
            convert_legacy(&legacy, &LegacyOptions::default()).unwrap_err().kind(),
            ErrorKind::Unsupported
        );
    }
}

/// The hyperparameters and tensors contradict each other. The reference and earlier versions wrote
/// a file with the wrong number of blocks.
#[test]
fn contradictions_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("model.bin");
    let models = legacy_models();
    let whole = &models.iter().find(|model| model.name == "ggjt3-q8_0.bin").unwrap().file;
    let convert = |file: &[u8], options: &LegacyOptions| {
        fs::write(&path, file).unwrap();
        let error = convert_legacy(&Legacy::open(&path).unwrap(), options).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Checkpoint, "{error}");
        let text = error.to_string();
        let named = text.strip_prefix(&format!("{}: ", path.display()));
        named.expect("the error names the file").to_owned()
    };
    let with = |parameter: usize, value: u32| {
        let mut file = whole.clone();
        file[8 + 4 * parameter..][..4].copy_from_slice(&value.to_le_bytes());
        convert(&file, &LegacyOptions::default())
    };
    let (embedding, heads, layers) = (1, 3, 4);
    assert_eq!(with(layers, 4_194_304), "n_layer is 4194304, but there are tensors of 2 layers");
    assert_eq!(with(layers, 3), "n_layer is 3, but there are tensors of 2 layers");
    assert_eq!(
        with(layers, 1),
        "tensor \"layers.1.attention.wq.weight\": LLaMA has no such tensor"
    );
    assert!(with(embedding, 128).contains("one of several parts of a model?"));
    assert!(with(heads, 3).contains("llama"), "{}", with(heads, 3));

    let mut options = LegacyOptions::default();
    options.head_count_kv = Some(2);
    assert_eq!(
        convert(whole, &options),
        "tensor \"blk.0.attn_k.weight\": shape 64 × 64, expected 64 × 32 for a model with these \
         hyperparameters"
    );

    let name = b"layers.1.ffn_norm.weight";
    let at = whole.windows(name.len()).position(|window| window == name).unwrap();
    // Two lengths, the type and one dimension precede the name.
    let cut = &whole[..at - 16];
    assert_eq!(
        convert(cut, &LegacyOptions::default()),
        "tensor \"blk.1.ffn_norm.weight\": is missing"
    );
}

/// Truncations at every length and flips of every bit in the first bytes never cause a panic.
#[test]
fn damaged_files_never_panic() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("damaged.bin");
    let models = legacy_models();
    let whole = &models.iter().find(|model| model.name == "ggjt1-q4_1.bin").unwrap().file;
    let mut refused = 0;
    for len in (0..whole.len()).step_by(971) {
        fs::write(&path, &whole[..len]).unwrap();
        refused += usize::from(Legacy::open(&path).is_err());
    }
    assert!(refused > whole.len() / 971 / 2);
    for bit in (0..8 * 400).step_by(11) {
        let mut damaged = whole.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        fs::write(&path, &damaged).unwrap();
        if let Ok(legacy) = Legacy::open(&path) {
            let _ = convert_legacy(&legacy, &LegacyOptions::default())
                .and_then(|recipe| recipe.plan(&legacy));
        }
    }
    for (bytes, expected) in [
        (&b"GGUF\x03\0\0\0"[..], "is not a legacy file (a format before GGUF)"),
        (b"tjgg\x04\0\0\0", "GGJT version 4 is unknown"),
        (b"fmgg\x63\0\0\0", "GGMF version 99 is unknown"),
        (b"tjgg\x03\0\0\0\xff\xff\xff\xff", "4 bytes are needed, but 0 remain"),
    ] {
        fs::write(&path, bytes).unwrap();
        let error = Legacy::open(&path).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
}
