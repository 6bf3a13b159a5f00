//! Assembles the files of a restored checkpoint and writes them to a directory.

use std::collections::BTreeMap;
use std::ops::Range;

use ggmill_core::{GgmlType, RawStr};
use ggmill_io::{FileSink, NewDirectory};
use ggmill_pipeline::formats::extract_safetensors;
use ggmill_pipeline::{
    Checkpoint as _, Derived, GgufCheckpoint, RecipeTensor, Report, Result, RunOptions, ShardLimit,
};
use serde_json::{Map, Value as Json, json};

use super::tensors::{main_type, typed};
use super::{Attempt, KnownTensors, RestoreOptions, RestoredCheckpoint, vocabulary};
use crate::general::sampling;
use crate::vocabulary::as_vocabulary_error;

impl RestoredCheckpoint {
    /// The default limit of a shard in bytes of tensor data, as in the `transformers` library.
    pub const SHARD_BYTES: u64 = 5_000_000_000;

    /// Returns the names of the tensor files and the range of tensors in each: one file, several if
    /// the limit is exceeded, or none without tensors.
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

    /// Writes every file, then renames the temporary directory to its final name.
    ///
    /// Tensors are computed in parallel and written in order, in bounded memory. Fails as
    /// [`extract_safetensors`] does; then nothing remains on disk.
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

/// Returns `model.safetensors.index.json`, which maps each tensor to its file.
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

pub(super) fn assemble(
    checkpoint: &GgufCheckpoint,
    attempt: Attempt,
    options: &RestoreOptions,
) -> Result<RestoredCheckpoint> {
    let Attempt { reversed, known: KnownTensors { tensors, .. }, names, differing, .. } = attempt;
    let main = options.ggml_type.unwrap_or_else(|| main_type(checkpoint));
    let mut made = Vec::with_capacity(tensors.len());
    let mut modules: BTreeMap<String, Vec<RecipeTensor>> = BTreeMap::new();
    for (name, tensor) in names.into_iter().zip(tensors.values()) {
        let expression = typed(checkpoint, tensor, main, options.ggml_type)
            .map_err(|error| error.tensor(&name))?;
        match name.split_once('/') {
            Some((directory, name)) => {
                let module = modules.entry(directory.to_owned()).or_default();
                module.push(RecipeTensor::new(name, expression));
            }
            None => made.push(RecipeTensor::new(name, expression)),
        }
    }
    made.sort_by(|a, b| a.name.cmp(&b.name));
    let mut config = reversed.config;
    if let Some(members) = config.as_object_mut() {
        complete_config(members, checkpoint, main);
    }
    let mut notes = Vec::new();
    if !differing.is_empty() {
        notes.push(format!(
            "converting config.json again would not reproduce the values of {}",
            differing
                .iter()
                .map(|key| RawStr::from(&**key).to_string())
                .collect::<Vec<_>>()
                .join(", ")
        ));
    }
    let mut files: BTreeMap<String, Vec<u8>> =
        reversed.documents.into_iter().map(|(name, document)| (name, pretty(&document))).collect();
    files.insert("config.json".to_owned(), pretty(&config));
    let mut generation = sampling::restored(checkpoint.metadata());
    special_ids(&mut generation, checkpoint);
    if !generation.is_empty() {
        files.insert("generation_config.json".to_owned(), pretty(&Json::Object(generation)));
    }
    if !options.no_vocab {
        files.extend(vocabulary::files(checkpoint.metadata()).map_err(as_vocabulary_error)?);
    }
    Ok(RestoredCheckpoint { class: reversed.class, tensors: made, modules, config, files, notes })
}

/// Adds the members that no key of the description determines: the type of the weights, and the
/// special tokens for generation.
fn complete_config(config: &mut Map<String, Json>, checkpoint: &GgufCheckpoint, main: GgmlType) {
    let name = match main {
        GgmlType::F16 => "float16",
        GgmlType::BF16 => "bfloat16",
        _ => "float32",
    };
    config.insert("torch_dtype".to_owned(), name.into());
    special_ids(config, checkpoint);
}

/// Adds the IDs of the special tokens for generation.
fn special_ids(members: &mut Map<String, Json>, checkpoint: &GgufCheckpoint) {
    for (member, key) in [
        ("bos_token_id", "tokenizer.ggml.bos_token_id"),
        ("eos_token_id", "tokenizer.ggml.eos_token_id"),
        ("pad_token_id", "tokenizer.ggml.padding_token_id"),
    ] {
        let value = checkpoint.metadata().get(key).and_then(|entry| entry.value().ok()?.as_u32());
        if let Some(value) = value {
            members.entry(member).or_insert(value.into());
        }
    }
}

/// Formats JSON with indentation and a final line break.
pub(super) fn pretty(document: &Json) -> Vec<u8> {
    let mut text = serde_json::to_vec_pretty(document).unwrap_or_default();
    text.push(b'\n');
    text
}
