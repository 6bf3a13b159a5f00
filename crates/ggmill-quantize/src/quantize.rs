//! The recipe of a quantization.

use std::collections::BTreeMap;

use ggmill_arch::{ModelView, TensorNames};
use ggmill_core::{FileType, GgmlType, MetadataBuf, keys};
use ggmill_pipeline::{
    Checkpoint as _, Error, ErrorKind, GgufCheckpoint, Recipe, RecipeTensor, Result, SPLIT_KEYS,
    SourceTensor,
};
use ggmill_quant::QUANTIZATION_VERSION;

use crate::choice::{Choice, without_trailing_ones};
use crate::layers::{self, Remaining, remaining};
use crate::mixture::Hyper;
use crate::options::{Importance, QuantizeOptions};
use crate::remarks::{NameList, without_effect};
use crate::sensitivity::Weighing;
use crate::types;

/// Returns the recipe that quantizes a model. The target's mixture selects the type of each tensor
/// from its name, position and the hyperparameters.
///
/// Supports any architecture, and turns a set of shards into one file. Metadata, order and types
/// equal those of `llama-quantize`, except for the differences in `docs/exactness.md`. A model of
/// an architecture that `llama-quantize` does not support keeps the order and the shapes of its
/// tensors.
///
/// # Errors
///
/// If a type requires importance weights that do not exist, importance weights do not match a
/// tensor, or a tensor is already quantized.
pub fn quantize(checkpoint: &GgufCheckpoint, options: &QuantizeOptions) -> Result<Recipe> {
    quantize_recipe(&Recipe::copy_of(checkpoint)?, options)
}

/// Quantizes a recipe, so that conversion and quantization run in one pass. The result equals that
/// of [`quantize`] for the finished file, and so do the errors.
pub fn quantize_recipe(before: &Recipe, options: &QuantizeOptions) -> Result<Recipe> {
    let sources = before.source_tensors();
    if is_known(&before.metadata, options) {
        return Ok(recipe(before, &sources, options, layers::by_layer(&sources), true)?.0);
    }
    let (mut recipe, tensors) =
        recipe(before, &sources, options, layers::by_layer_stable(&sources), false)?;
    // The mixture counts positions by layer, but the file keeps its order.
    let mut numbered: Vec<_> =
        tensors.iter().map(|tensor| tensor.number).zip(recipe.tensors).collect();
    numbered.sort_by_key(|&(number, _)| number);
    recipe.tensors = numbered.into_iter().map(|(_, tensor)| tensor).collect();
    Ok(recipe)
}

/// Returns `true` if the reference supports the architecture, so that the output must equal its
/// output.
pub(crate) fn is_known(metadata: &MetadataBuf, options: &QuantizeOptions) -> bool {
    let asked =
        options.overrides.iter().rev().find_map(|entry| entry.text_for(keys::GENERAL_ARCHITECTURE));
    let stated = || metadata.get(keys::GENERAL_ARCHITECTURE).and_then(|value| value.as_str());
    asked.or_else(stated).is_some_and(|architecture| TensorNames::of(architecture).is_some())
}

/// Quantizes a model and keeps its shards: returns one recipe for each shard, with the same tensors
/// in the same order. A model in one file gives one recipe without shard keys. Errors as
/// [`quantize`].
///
/// The mixture counts the tensors of a role in this order, as the reference does, so a type can
/// differ from that in one file. Trailing shards without remaining tensors are omitted.
pub fn quantize_shards(
    checkpoint: &GgufCheckpoint,
    options: &QuantizeOptions,
) -> Result<Vec<Recipe>> {
    let mut numbers: Vec<usize> = (0..checkpoint.tensors().len()).collect();
    numbers.sort_by_key(|&number| checkpoint.place(number));
    let before = Recipe::copy_of(checkpoint)?;
    let (recipe, tensors) = recipe(
        &before,
        checkpoint.tensors(),
        options,
        numbers,
        is_known(&before.metadata, options),
    )?;
    let mut groups = vec![0; 1];
    for tensor in &tensors {
        let shard = checkpoint.place(tensor.number).map_or(0, |(shard, _)| shard);
        groups.resize(groups.len().max(shard + 1), 0);
        groups[shard] += 1;
    }
    if groups.len() == 1 {
        return Ok(vec![recipe]);
    }
    recipe.into_shards(&groups, [keys::SPLIT_NO, keys::SPLIT_COUNT, keys::SPLIT_TENSORS_COUNT])
}

/// Returns the recipe for one file with the tensors of these numbers in this order, and the
/// remaining tensors. `is_known` is true if the reference supports the architecture.
fn recipe(
    before: &Recipe,
    sources: &[SourceTensor],
    options: &QuantizeOptions,
    numbers: Vec<usize>,
    is_known: bool,
) -> Result<(Recipe, Vec<Remaining>)> {
    let mut notes = Vec::new();
    layers::check_pruned(sources, &options.prune_layers)?;
    let (tensors, layers) = remaining(sources, numbers, &options.prune_layers);

    let mut metadata = before.metadata.clone();
    for key in SPLIT_KEYS {
        metadata.remove(key);
    }
    if let Some(types) = &options.types {
        types.check(tensors.iter().map(|tensor| &*tensor.name), options.target.is_copy())?;
    }
    let file_type = match (&options.types, options.target.is_copy()) {
        (Some(types), true) => types::mostly(tensors.iter().map(|tensor| {
            let source = &sources[tensor.number];
            (types.get(&tensor.name).unwrap_or(source.ggml_type), source.shape.elements())
        })),
        (None, true) => type_of_file(&metadata, sources, &tensors),
        (_, false) => options.target.file_type(),
    };
    set_last(&mut metadata, keys::GENERAL_QUANTIZATION_VERSION, QUANTIZATION_VERSION);
    set_last(&mut metadata, keys::GENERAL_FILE_TYPE, file_type.0);
    let origin = options.importance.iter().flat_map(Importance::origin);
    for entry in options.overrides.iter().chain(origin) {
        notes.extend(entry.apply(&mut metadata));
    }
    let model = ModelView::of_metadata_to_write(&metadata);
    let block_count = model.key("block_count");
    let hyper = Hyper::of(&model, sources.iter().map(|tensor| &*tensor.name));
    if !options.prune_layers.is_empty() {
        set_last(&mut metadata, &block_count, u32::try_from(layers).unwrap_or(u32::MAX));
        if layers == 0 {
            notes.push("no layer would remain".to_owned());
        }
    }

    let model = ModelView::of_metadata_to_write(&metadata);
    let mut choice = Choice::new(options, &model, &hyper, &tensors, file_type, is_known);
    let mut made = Vec::with_capacity(tensors.len());
    let mut lacking = Vec::new();
    for tensor in &tensors {
        let source = &sources[tensor.number];
        let to = choice.type_of(tensor, source).map_err(|error| error.tensor(&tensor.name))?;
        let encoding = match choice.encoding(tensor, source, to) {
            Err(error) if error.kind() == ErrorKind::ImportanceEntry => {
                lacking.push((&*tensor.name, error));
                continue;
            }
            found => found.map_err(|error| error.tensor(&tensor.name))?,
        };
        let shape = if is_known { without_trailing_ones(&source.shape) } else { source.shape };
        let expression = before.tensors[tensor.number]
            .expression
            .reshape(shape)
            .and_then(|reshaped| reshaped.encode(to, encoding));
        let expression = expression.map_err(|error| error.tensor(&tensor.name))?;
        let mut tensor = RecipeTensor::new(&*tensor.name, expression);
        if let Weighing::Measured(found) = &options.weighing {
            tensor.sensitivity = found.get(&tensor.name);
        }
        made.push(tensor);
    }
    refuse_lacking(lacking)?;
    notes.extend(choice.remarks.notes());
    notes.extend(without_effect(&choice, options, &tensors, sources));
    let mut recipe = Recipe::new(metadata, made);
    recipe.notes = before.notes.iter().cloned().chain(notes).collect();
    Ok((recipe, tensors))
}

/// Fails with the error of the first tensor that the importance matrix lacks, and names the others.
fn refuse_lacking(lacking: Vec<(&[u8], Error)>) -> Result<()> {
    let mut lacking = lacking.into_iter();
    let Some((name, error)) = lacking.next() else { return Ok(()) };
    let mut others = NameList::default();
    lacking.for_each(|(name, _)| others.add(name));
    let others = others.note("; the same applies to").unwrap_or_default();
    Err(Error::new(error.kind(), format!("{error}{others}")).tensor(name))
}

/// Sets an entry at the end, as the reference does even for existing keys.
fn set_last(metadata: &mut MetadataBuf, key: &str, value: u32) {
    metadata.remove(key);
    metadata.set(key, value);
}

/// Returns the file type in the metadata, else a guess from the types of the tensors.
fn type_of_file(
    metadata: &MetadataBuf,
    sources: &[SourceTensor],
    tensors: &[Remaining],
) -> FileType {
    let stated = metadata.get(keys::GENERAL_FILE_TYPE).and_then(|value| value.as_u32());
    stated.map_or_else(
        || guess(tensors.iter().map(|tensor| sources[tensor.number].ggml_type)),
        FileType,
    )
}

/// Returns the file type of the most frequent type, marked as a guess.
fn guess(types: impl Iterator<Item = GgmlType>) -> FileType {
    // Of equally frequent types, the one that reached the count first.
    let mut counts = BTreeMap::new();
    let mut most = (0u64, GgmlType::F32);
    for ggml_type in types {
        let count = counts.entry(ggml_type).or_insert(0);
        *count += 1;
        if *count > most.0 {
            most = (*count, ggml_type);
        }
    }
    FileType(types::file_type_of(most.1).0 | FileType::GUESSED)
}
