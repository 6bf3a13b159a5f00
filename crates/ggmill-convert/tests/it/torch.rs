//! Checkpoints in PyTorch files, which `xtask/peers/torch_checkpoints.py` made and the reference
//! converted.

use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use ggmill_arch::Catalogue;
use ggmill_convert::{AutoType, ConvertOptions, convert};
use ggmill_core::FileType;
use ggmill_pipeline::formats::{CheckpointDirectory, TorchFile, extract_safetensors};
use ggmill_pipeline::{Checkpoint as _, Pretrained as _, Result, RunOptions, run};
use ggmill_testdata::sha256;
use serde_json::Value;

use crate::support::made;

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/torch")
}

fn converted(path: &Path, file_type: Option<FileType>) -> Result<Vec<u8>> {
    let checkpoint = CheckpointDirectory::open(path)?;
    let catalogue = Catalogue::new();
    let architecture = catalogue.for_checkpoint(checkpoint.config()).expect("a known architecture");
    let options =
        ConvertOptions::new(file_type.unwrap_or_else(|| AutoType::of(&checkpoint).file_type));
    Ok(made(convert(&checkpoint, architecture, &options)?, &checkpoint))
}

fn copy(from: &Path, to: &Path) {
    fs::copy(from, to).unwrap();
}

#[test]
fn the_bytes_are_those_of_the_reference_converter() {
    let expected: Value =
        serde_json::from_slice(&fs::read(fixtures().join("expected.json")).unwrap()).unwrap();
    for (name, types) in expected.as_object().unwrap() {
        for (file_type, hash) in types.as_object().unwrap() {
            let file = converted(&fixtures().join(name), file_type.parse().ok()).unwrap();
            assert_eq!(sha256(&file), *hash, "{name} to {file_type}");
        }
    }
}

/// The form from before PyTorch 1.6, safetensors with the same tensors, and one file given instead
/// of its directory, are the same checkpoint.
#[test]
fn the_container_does_not_matter() {
    let plain = fixtures().join("plain");
    let whole = converted(&plain, Some(FileType::F16)).unwrap();
    assert!(converted(&plain.join("pytorch_model.bin"), Some(FileType::F16)).unwrap() == whole);
    assert!(converted(&plain.join("legacy.bin"), Some(FileType::F16)).unwrap() == whole);

    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path().join("plain");
    fs::create_dir(&directory).unwrap();
    copy(&plain.join("config.json"), &directory.join("config.json"));
    copy(&plain.join("legacy.bin"), &directory.join("pytorch_model.bin"));
    assert!(converted(&directory, Some(FileType::F16)).unwrap() == whole);

    // Where there are safetensors too, they count.
    fs::write(directory.join("pytorch_model.bin"), b"not looked at").unwrap();
    let torch = TorchFile::open(plain.join("pytorch_model.bin")).unwrap();
    let numbers: Vec<usize> = (0..torch.tensors().len()).collect();
    let options = RunOptions::default();
    let bytes = extract_safetensors(&torch, &numbers, false, Vec::new(), &options, &mut |_| {
        ControlFlow::Continue(())
    })
    .unwrap();
    fs::write(directory.join("model.safetensors"), bytes).unwrap();
    assert!(converted(&directory, Some(FileType::F16)).unwrap() == whole);
}

#[test]
fn shards_and_their_index_agree() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    for entry in fs::read_dir(fixtures().join("index")).unwrap() {
        let entry = entry.unwrap();
        copy(&entry.path(), &at(entry.file_name().to_str().unwrap()));
    }
    let failure = || converted(directory.path(), Some(FileType::F16)).unwrap_err().to_string();
    let second = at("pytorch_model-00002-of-00002.bin");
    fs::rename(&second, at("other")).unwrap();
    assert!(failure().contains("pytorch_model-00002-of-00002.bin: cannot open"), "{}", failure());
    copy(&at("pytorch_model-00001-of-00002.bin"), &second);
    assert!(failure().contains("is in two files: "), "{}", failure());
    fs::rename(at("other"), &second).unwrap();
    fs::write(at("pytorch_model.bin.index.json"), br#"{"weight_map": {}}"#).unwrap();
    assert!(converted(directory.path(), Some(FileType::F16)).is_err());
    fs::remove_file(at("pytorch_model.bin.index.json")).unwrap();
    converted(directory.path(), Some(FileType::F16)).unwrap();
    // More than one file is read, so a foreign one among them is an error.
    fs::write(at("pytorch_model.other.bin"), b"text").unwrap();
    assert!(failure().contains("pytorch_model.other.bin"), "{}", failure());
}

/// A run reads what it needs, whatever the views.
#[test]
fn threads_read_the_same() {
    let checkpoint = CheckpointDirectory::open(&fixtures().join("views")).unwrap();
    let catalogue = Catalogue::new();
    let architecture = catalogue.for_checkpoint(checkpoint.config()).unwrap();
    let options = ConvertOptions::new(FileType::F32);
    let plan = convert(&checkpoint, architecture, &options).unwrap().plan(&checkpoint).unwrap();
    let on = |threads| {
        let options = RunOptions::on(threads);
        run(&plan, &checkpoint, Vec::new(), &options, &mut |_| ControlFlow::Continue(())).unwrap()
    };
    assert!(on(1) == on(3));
}
