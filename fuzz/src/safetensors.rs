//! Any bytes as a file of safetensors, and any JSON as the index of a sharded checkpoint.

use std::ops::ControlFlow;

use ggmill_pipeline::formats::{CheckpointDirectory, SafetensorsFile, extract_safetensors};
use ggmill_pipeline::{Checkpoint as _, RunOptions};

use crate::allocations::bounded;
use crate::scratch::scratch;
use crate::tensors::{read_all, same};

/// Opens the bytes; a file that opens is read completely, and is equal after writing and reading
/// it.
pub fn safetensors(data: &[u8]) {
    let path = scratch("input.safetensors", data);
    let Ok(file) = bounded(data.len(), 1 << 20, 200, || SafetensorsFile::open(&path)) else {
        return;
    };
    read_all(&file);
    let names: Vec<&[u8]> = file.tensors().iter().map(|tensor| &*tensor.name).collect();
    assert!(names.is_sorted_by(|a, b| a < b), "names are unique and in order");
    let numbers: Vec<usize> = (0..names.len()).collect();
    let Ok(written) = extract_safetensors(
        &file,
        &numbers,
        true,
        Vec::new(),
        &RunOptions::with_threads(1),
        &mut |_| ControlFlow::Continue(()),
    ) else {
        return;
    };
    let again = SafetensorsFile::open(scratch("again.safetensors", &written))
        .expect("what is written is read");
    assert!(same(&file, &again), "the same tensors");
}

/// The index of two existing shards.
pub fn safetensors_index(data: &[u8]) {
    let shard = |name: &str| {
        let header = format!(r#"{{"{name}":{{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}}}"#);
        [&(header.len() as u64).to_le_bytes(), header.as_bytes(), &[0; 4]].concat()
    };
    scratch("config.json", b"{}");
    scratch("1.safetensors", &shard("a"));
    scratch("2.safetensors", &shard("b"));
    let index = scratch("model.safetensors.index.json", data);
    let opened = bounded(data.len(), 1 << 20, 200, || {
        CheckpointDirectory::open(index.parent().expect("a directory"))
    });
    if let Ok(checkpoint) = opened {
        read_all(&checkpoint);
        let files: Vec<_> =
            checkpoint.files().filter_map(|path| path.file_name()?.to_str()).collect();
        assert!(
            files.iter().all(|name| [
                "config.json",
                "model.safetensors.index.json",
                "1.safetensors",
                "2.safetensors"
            ]
            .contains(name)),
            "{files:?}"
        );
    }
}
