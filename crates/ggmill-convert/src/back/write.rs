//! A checkpoint, written into a directory.

use std::ops::Range;

use ggmill_io::{FileSink, NewDirectory};
use ggmill_pipeline::formats::extract_safetensors;
use ggmill_pipeline::{
    Checkpoint as _, Derived, GgufCheckpoint, RecipeTensor, Report, Result, RunOptions, ShardLimit,
};
use serde_json::{Map, Value as Json, json};

use super::{RestoredCheckpoint, pretty};

impl RestoredCheckpoint {
    /// Bytes of tensors in a shard where nothing else is asked for: as many as the `transformers`
    /// library takes.
    pub const SHARD_BYTES: u64 = 5_000_000_000;

    /// The files of tensors, with their names and which tensors each has: one, or several that are
    /// full by this limit; none without tensors.
    pub fn shards(&self, limit: ShardLimit) -> Vec<(String, Range<usize>)> {
        let mut ends = Vec::new();
        let (mut start, mut bytes) = (0, 0u64);
        for (number, tensor) in self.tensors.iter().enumerate() {
            let size = tensor.expression.size();
            let is_full = match limit {
                ShardLimit::Tensors(most) => (number - start) as u64 >= most.max(1),
                ShardLimit::Bytes(most) => number > start && bytes.saturating_add(size) > most,
                _ => false,
            };
            if is_full {
                ends.push(number);
                (start, bytes) = (number, 0);
            }
            bytes = bytes.saturating_add(size);
        }
        if !self.tensors.is_empty() {
            ends.push(self.tensors.len());
        }
        let count = ends.len();
        let mut start = 0;
        let shard = |(number, end): (usize, usize)| {
            let name = match count {
                1 => "model.safetensors".to_owned(),
                _ => format!("model-{:05}-of-{count:05}.safetensors", number + 1),
            };
            let tensors = start..end;
            start = end;
            (name, tensors)
        };
        ends.into_iter().enumerate().map(shard).collect()
    }

    /// Writes every file, and gives the directory its name.
    ///
    /// Tensors are computed in parallel and written in order, in bounded memory. Fails as
    /// [`extract_safetensors`] does; nothing is left behind then.
    pub fn write(
        self,
        checkpoint: &GgufCheckpoint,
        limit: ShardLimit,
        directory: NewDirectory,
        options: &RunOptions,
        progress: &mut Report<'_>,
    ) -> Result<()> {
        let shards = self.shards(limit);
        for (name, content) in &self.files {
            directory.write(name, content)?;
        }
        if shards.len() > 1 {
            directory.write("model.safetensors.index.json", &index(&self.tensors, &shards))?;
        }
        let derived = Derived::new(checkpoint, self.tensors)?;
        for (name, numbers) in shards {
            let numbers: Vec<usize> = numbers.collect();
            let sink: FileSink = directory.file(&name)?;
            extract_safetensors(&derived, &numbers, false, sink, options, progress)?.commit()?;
        }
        derived.verify()?;
        for (name, tensors) in self.modules {
            let numbers: Vec<usize> = (0..tensors.len()).collect();
            let derived = Derived::new(checkpoint, tensors)?;
            let sink = directory.file(&format!("{name}/model.safetensors"))?;
            extract_safetensors(&derived, &numbers, false, sink, options, progress)?.commit()?;
        }
        Ok(directory.commit()?)
    }
}

/// Which file each tensor is in.
fn index(tensors: &[RecipeTensor], shards: &[(String, Range<usize>)]) -> Vec<u8> {
    let mut places = Map::new();
    let mut total = 0u64;
    for (name, numbers) in shards {
        for tensor in tensors.get(numbers.clone()).unwrap_or_default() {
            let tensor_name = String::from_utf8_lossy(&tensor.name).into_owned();
            places.insert(tensor_name, Json::from(&**name));
            total = total.saturating_add(tensor.expression.size());
        }
    }
    pretty(&json!({ "metadata": { "total_size": total }, "weight_map": places }))
}
