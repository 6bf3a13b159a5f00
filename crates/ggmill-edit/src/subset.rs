use std::collections::BTreeSet;

use ggmill_core::{RawStr, keys};
use ggmill_pipeline::{GgufCheckpoint, Recipe, Result};

/// A model of some of the tensors, in the order of the file, and of the metadata whose keys
/// `has_key` admits. The alignment stays what it is, and a set of shards becomes one file.
pub fn subset(
    checkpoint: &GgufCheckpoint,
    numbers: &[usize],
    mut has_key: impl FnMut(RawStr<'_>) -> bool,
) -> Result<Recipe> {
    let wanted: BTreeSet<usize> = numbers.iter().copied().collect();
    let mut recipe = crate::merge::whole(checkpoint)?;
    recipe
        .tensors
        .retain(|tensor| tensor.expression.origin().is_some_and(|number| wanted.contains(&number)));
    let unwanted: Vec<Vec<u8>> = recipe
        .metadata
        .iter()
        .map(|(key, _)| key.as_bytes().to_vec())
        .filter(|key| !has_key(RawStr::new(key)))
        .collect();
    for key in unwanted.iter().filter(|key| **key != keys::GENERAL_ALIGNMENT.as_bytes()) {
        recipe.metadata.remove(key);
    }
    Ok(recipe)
}
