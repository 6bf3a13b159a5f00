use std::collections::BTreeSet;

use ggmill_core::{RawStr, keys};

use ggmill_pipeline::Plan;
use ggmill_pipeline::Recipe;
use ggmill_pipeline::SPLIT_KEYS;
use ggmill_pipeline::{Checkpoint, GgufCheckpoint};
use ggmill_pipeline::{Error, ErrorKind, Result};

/// Bytes that are compared at once.
const PIECE: usize = 1 << 20;

/// A set of shards becomes one file, without the keys that say which shard it was.
///
/// The metadata is those of the first shard. Keys that only another one has are left out; a note
/// names them.
pub fn merge(checkpoint: &GgufCheckpoint) -> Result<Recipe> {
    let mut recipe = Recipe::copy_of(checkpoint)?;
    for key in SPLIT_KEYS {
        recipe.metadata.remove(key);
    }
    recipe.form.pad_header = false;
    recipe.notes.extend(lost_keys(checkpoint));
    Ok(recipe)
}

/// A model as one file, be it one already or a set of shards: where recipes begin that make one
/// file of whatever there is.
pub(crate) fn whole(checkpoint: &GgufCheckpoint) -> Result<Recipe> {
    if checkpoint.model().parts().len() > 1 {
        merge(checkpoint)
    } else {
        Recipe::copy_of(checkpoint)
    }
}

/// Says which keys are in a later shard and not in the first.
fn lost_keys(checkpoint: &GgufCheckpoint) -> Option<String> {
    const NAMED: usize = 3;
    let shards = checkpoint.model().parts();
    let first: BTreeSet<&[u8]> =
        shards.first()?.metadata().iter().map(|entry| entry.key().as_bytes()).collect();
    let known = |key: &[u8]| {
        first.contains(key)
            || key == keys::GENERAL_ALIGNMENT.as_bytes()
            || SPLIT_KEYS.iter().any(|split| split.as_bytes() == key)
    };
    let later = shards
        .iter()
        .skip(1)
        .flat_map(|file| file.metadata().iter().map(|entry| entry.key().as_bytes()));
    let lost: BTreeSet<&[u8]> = later.filter(|key| !known(key)).collect();
    let names: Vec<String> =
        lost.iter().take(NAMED).map(|key| RawStr::new(key).to_string()).collect();
    let more = lost
        .len()
        .checked_sub(NAMED)
        .filter(|&more| more > 0)
        .map(|more| format!(" and {more} more"))
        .unwrap_or_default();
    (!lost.is_empty()).then(|| {
        format!("keys that the first shard does not have were omitted: {}{more}", names.join(", "))
    })
}

/// Holds a file that was written against its plan and its sources: every key, every tensor, every
/// byte of their data. Fails at the first difference.
///
/// For plans that change no numbers; a program that deletes the sources asks this first.
pub fn verify(written: &GgufCheckpoint, plan: &Plan, checkpoint: &dyn Checkpoint) -> Result<()> {
    let differs = |message: &str| {
        Error::new(ErrorKind::Io, format!("the written file differs from its sources: {message}"))
    };
    let [file] = written.model().parts() else { return Err(differs("several files")) };
    let header = plan.layout().header();
    if file.file_len() != Some(plan.layout().total_len()) {
        return Err(differs("a different length"));
    }
    let mut start = 0;
    for expected in header.chunks(PIECE) {
        let mut found = vec![0; expected.len()];
        file.read_at(start, &mut found)?;
        if found != expected {
            return Err(differs("a different header"));
        }
        start += expected.len() as u64;
    }
    if written.tensors() != checkpoint.tensors() {
        return Err(differs("different tensors"));
    }
    let (mut ours, mut theirs) = (vec![0; PIECE], vec![0; PIECE]);
    for (number, tensor) in written.tensors().iter().enumerate() {
        let size = written.size(number).unwrap_or(0);
        for start in (0..size).step_by(PIECE) {
            let len = usize::try_from(size - start).unwrap_or(usize::MAX).min(PIECE);
            written.read(number, start, &mut ours[..len])?;
            checkpoint.read(number, start, &mut theirs[..len])?;
            if ours[..len] != theirs[..len] {
                return Err(differs("different tensor data").tensor(&tensor.name));
            }
        }
    }
    Ok(())
}
