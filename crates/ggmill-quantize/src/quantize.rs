//! Quantization: a model becomes one with smaller tensors.

use std::collections::BTreeMap;

use ggmill_arch::{ModelView, TensorNames};
use ggmill_core::{FileType, GgmlType, MetadataBuf, keys};
use ggmill_pipeline::{
    Checkpoint as _, GgufCheckpoint, Recipe, RecipeTensor, Result, SPLIT_KEYS, SourceTensor,
};
use ggmill_quant::QUANTIZATION_VERSION;

use crate::choice::{Choice, without_trailing_ones};
use crate::hyper::Hyper;
use crate::layers::{self, Remaining, remaining};
use crate::options::{Importance, QuantizeOptions};
use crate::sensitivity::Weighing;
use crate::types;
use crate::without_effect::without_effect;

/// A model becomes one whose tensors have smaller types: which ones is decided by the target's
/// mixture, from names, places and hyperparameters.
///
/// Any architecture will do, and a set of shards becomes one file. Metadata, order and types are
/// those of `llama-quantize`; `docs/exactness.md` lists what differs. A model whose architecture
/// that does not know keeps the order and the shapes of its tensors. Fails when a type needs
/// importance weights that do not exist, when weights do not fit their tensor, and when a tensor is
/// quantized already.
pub fn quantize(checkpoint: &GgufCheckpoint, options: &QuantizeOptions) -> Result<Recipe> {
    quantize_recipe(&Recipe::copy_of(checkpoint)?, options)
}

/// The same for a model that is a recipe yet, so that making it and quantizing it are one pass:
/// what comes out is what quantizing the finished file would give.
pub fn quantize_recipe(before: &Recipe, options: &QuantizeOptions) -> Result<Recipe> {
    let sources = before.source_tensors();
    if is_known(&before.metadata, options) {
        return Ok(recipe(before, &sources, options, layers::by_layer(&sources), true)?.0);
    }
    let (mut recipe, tensors) =
        recipe(before, &sources, options, layers::by_layer_alone(&sources), false)?;
    // Places count by layer, and the file stays in its order.
    let mut numbered: Vec<_> =
        tensors.iter().map(|tensor| tensor.number).zip(recipe.tensors).collect();
    numbered.sort_by_key(|&(number, _)| number);
    recipe.tensors = numbered.into_iter().map(|(_, tensor)| tensor).collect();
    Ok(recipe)
}

/// Whether the reference loads models of this architecture, so that there is something to be equal
/// to.
pub(crate) fn is_known(metadata: &MetadataBuf, options: &QuantizeOptions) -> bool {
    let asked =
        options.overrides.iter().rev().find_map(|entry| entry.text_for(keys::GENERAL_ARCHITECTURE));
    let stated = || metadata.get(keys::GENERAL_ARCHITECTURE).and_then(|value| value.as_str());
    asked.or_else(stated).is_some_and(|architecture| TensorNames::of(architecture).is_some())
}

/// The same with the shards of the model: one recipe for each, with the tensors it has, in its
/// order. A model in one file gives one recipe, of no shard.
///
/// Mixtures count the tensors of a role in this order, as those of the reference do, so a type can
/// be another than in one file. Shards after the last that has a tensor left are left out.
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

/// The recipe for one file of the tensors with these numbers, in this order, and which of them
/// remain. `is_known` says whether the reference makes such a file.
fn recipe(
    before: &Recipe,
    sources: &[SourceTensor],
    options: &QuantizeOptions,
    numbers: Vec<usize>,
    is_known: bool,
) -> Result<(Recipe, Vec<Remaining>)> {
    let mut notes = Vec::new();
    layers::check(sources, &options.prune_layers)?;
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
    for tensor in &tensors {
        let source = &sources[tensor.number];
        let to = choice.type_of(tensor, source).map_err(|error| error.tensor(&tensor.name))?;
        let encoding =
            choice.encoding(tensor, source, to).map_err(|error| error.tensor(&tensor.name))?;
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
    notes.extend(choice.remarks.notes());
    notes.extend(without_effect(&choice, options, &tensors, sources));
    let mut recipe = Recipe::new(metadata, made);
    recipe.notes = before.notes.iter().cloned().chain(notes).collect();
    Ok((recipe, tensors))
}

/// Sets a entry after all others, as the reference also does for existing keys.
fn set_last(metadata: &mut MetadataBuf, key: &str, value: u32) {
    metadata.remove(key);
    metadata.set(key, value);
}

/// The file type according to the file, else what most of its tensors are, marked as a guess.
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

fn guess(types: impl Iterator<Item = GgmlType>) -> FileType {
    // Of those that are equally many, the one that was complete first.
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
