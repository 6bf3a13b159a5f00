use std::ops::ControlFlow;
use std::path::Path;

use ggmill_arch::Catalogue;
use ggmill_convert::{ConvertOptions, convert};
use ggmill_core::FileType;
use ggmill_io::{FileSink, Overwrite};
use ggmill_pipeline::formats::CheckpointDirectory;
use ggmill_pipeline::{Checkpoint, Error, Plan, Pretrained as _, Recipe, RunOptions, run};
use serde_json::{Value, json};

pub(crate) fn plan(
    directory: &Path,
    file_type: FileType,
) -> Result<(CheckpointDirectory, Plan), Error> {
    let checkpoint = CheckpointDirectory::open(directory)?;
    let catalogue = Catalogue::new();
    let architecture = catalogue.for_checkpoint(checkpoint.config()).expect("a known architecture");
    let plan =
        convert(&checkpoint, architecture, &ConvertOptions::new(file_type))?.plan(&checkpoint)?;
    Ok((checkpoint, plan))
}

pub(crate) fn converted(directory: &Path, file_type: FileType) -> Result<Vec<u8>, Error> {
    let (checkpoint, plan) = plan(directory, file_type)?;
    run(&plan, &checkpoint, Vec::new(), &RunOptions::default(), &mut |_| ControlFlow::Continue(()))
}

/// Returns a safetensors file with these tensors: name, dtype, shape, bytes.
pub(crate) fn safetensors(tensors: &[(String, &str, Vec<u64>, Vec<u8>)]) -> Vec<u8> {
    let mut header = serde_json::Map::new();
    let mut data = Vec::new();
    for (name, dtype, shape, bytes) in tensors {
        let start = data.len();
        data.extend_from_slice(bytes);
        header.insert(
            name.clone(),
            json!({ "dtype": dtype, "shape": shape, "data_offsets": [start, data.len()] }),
        );
    }
    let header = Value::Object(header).to_string();
    [&(header.len() as u64).to_le_bytes(), header.as_bytes(), &data].concat()
}

/// Returns the tensors of the bundled checkpoint.
pub(crate) fn stories_tensors() -> Vec<(String, &'static str, Vec<u64>, Vec<u8>)> {
    let bytes = std::fs::read(ggmill_testdata::real("tinystories260K/model.safetensors")).unwrap();
    let header_len = usize::try_from(u64::from_le_bytes(bytes[..8].try_into().unwrap())).unwrap();
    let header: Value = serde_json::from_slice(&bytes[8..8 + header_len]).unwrap();
    let data = &bytes[8 + header_len..];
    let tensors = header.as_object().unwrap().iter().filter(|(name, _)| *name != "__metadata__");
    tensors
        .map(|(name, info)| {
            let number = |value: &Value| usize::try_from(value.as_u64().unwrap()).unwrap();
            let (start, end) = (number(&info["data_offsets"][0]), number(&info["data_offsets"][1]));
            let shape = info["shape"]
                .as_array()
                .unwrap()
                .iter()
                .map(|dimension| dimension.as_u64().unwrap())
                .collect();
            (name.clone(), "F32", shape, data[start..end].to_vec())
        })
        .collect()
}

/// Creates a directory with the bundled configuration and these weights.
pub(crate) fn directory(weights: &[u8]) -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    std::fs::copy(
        ggmill_testdata::real("tinystories260K/config.json"),
        directory.path().join("config.json"),
    )
    .unwrap();
    std::fs::write(directory.path().join("model.safetensors"), weights).unwrap();
    directory
}

/// Runs a recipe in memory and to a file, which can copy ranges of files, and returns the result,
/// which must be the same.
pub(crate) fn made(recipe: Recipe, checkpoint: &dyn Checkpoint) -> Vec<u8> {
    let plan = recipe.plan(checkpoint).unwrap();
    let in_memory = run(&plan, checkpoint, Vec::new(), &RunOptions::default(), &mut |_| {
        ControlFlow::Continue(())
    })
    .unwrap();
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("made.gguf");
    let sink = FileSink::create(&path, Overwrite::Refuse).unwrap();
    run(&plan, checkpoint, sink, &RunOptions::default(), &mut |_| ControlFlow::Continue(()))
        .unwrap()
        .commit()
        .unwrap();
    assert!(std::fs::read(&path).unwrap() == in_memory);
    in_memory
}
