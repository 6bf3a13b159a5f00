//! Recipes of a whole model: shards merged, another form, and some of its tensors and metadata.

use std::collections::BTreeSet;

use ggmill_arch::near_part;
use ggmill_core::{Alignment, Endian, RawStr, keys};
use ggmill_pipeline::{
    Checkpoint, Error, ErrorKind, GgufCheckpoint, Plan, Recipe, Result, SPLIT_KEYS,
};
use ggmill_text::Glob;

/// Bytes compared at a time.
const PIECE: usize = 1 << 20;

/// Merges a set of shards into one file, without the `split.*` keys.
///
/// The metadata is that of the first shard. Keys that only other shards have are dropped, and a note
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

/// Returns the recipe of a model as one file, whether it is a file or a set of shards.
pub(crate) fn whole(checkpoint: &GgufCheckpoint) -> Result<Recipe> {
    if checkpoint.model().parts().len() > 1 {
        merge(checkpoint)
    } else {
        Recipe::copy_of(checkpoint)
    }
}

/// Returns a note about keys of later shards that the first does not have.
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

/// The form of a file. What is `None` stays as it is.
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct RepackOptions {
    /// The alignment of tensor data.
    pub alignment: Option<Alignment>,
    /// The byte order of the header and of the blocks of tensor data.
    pub endian: Option<Endian>,
    /// The version of the format: 2 or 3.
    pub version: Option<u32>,
}

/// Returns the recipe of a model in another form. A set of shards becomes one file.
///
/// Fails for a version that cannot be written, and for a big-endian file of version 2, because only
/// version 3 defines big-endian files.
pub fn repack(checkpoint: &GgufCheckpoint, options: &RepackOptions) -> Result<Recipe> {
    let mut recipe = whole(checkpoint)?;
    options.apply(&mut recipe)?;
    Ok(recipe)
}

impl RepackOptions {
    /// Sets the form of a recipe.
    pub fn apply(&self, recipe: &mut Recipe) -> Result<()> {
        if let Some(alignment) = self.alignment {
            // The default alignment needs no key, unless the file has one.
            if alignment != Alignment::DEFAULT
                || recipe.metadata.get(keys::GENERAL_ALIGNMENT).is_some()
            {
                recipe.metadata.set(keys::GENERAL_ALIGNMENT, alignment.get());
            }
        }
        recipe.form.endian = self.endian.unwrap_or(recipe.form.endian);
        recipe.form.version_2 = match self.version {
            None => recipe.form.version_2,
            Some(2) => true,
            Some(3) => false,
            Some(other) => {
                return Err(Error::new(
                    ErrorKind::Unsupported,
                    format!("version {other} cannot be written, expected 2 or 3"),
                ));
            }
        };
        if recipe.form.version_2 && recipe.form.endian == Endian::Big {
            return Err(Error::new(
                ErrorKind::Unsupported,
                "version 2 does not support big-endian files, expected version 3",
            ));
        }
        Ok(())
    }
}

/// Returns the recipe of a model with only these tensors, in the order of the file, and the metadata
/// for whose keys `has_key` returns `true`. The alignment is kept. A set of shards becomes one file.
pub fn subset(
    checkpoint: &GgufCheckpoint,
    numbers: &[usize],
    mut has_key: impl FnMut(RawStr<'_>) -> bool,
) -> Result<Recipe> {
    let wanted: BTreeSet<usize> = numbers.iter().copied().collect();
    let mut recipe = whole(checkpoint)?;
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

/// Returns a pattern that is similar to `typed`, which matches none of the names, and matches one:
/// with a `*` added, or with the spelling corrected.
///
/// ```
/// use ggmill_core::RawStr;
/// use ggmill_edit::similar_pattern;
/// let names = || ["blk.0.attn_q.weight", "blk.1.attn_q.weight"].map(RawStr::from).into_iter();
/// let meant = |typed: &str| similar_pattern(&typed.parse().unwrap(), names);
/// assert_eq!(meant("blk.0").as_deref(), Some("blk.0.*"));
/// assert_eq!(meant("attn_q").as_deref(), Some("*.attn_q.*"));
/// assert_eq!(meant("blk.*.atn_q.weight").as_deref(), Some("blk.*.attn_q.weight"));
/// assert_eq!(meant("vision.*"), None);
/// ```
pub fn similar_pattern<'n, I: Iterator<Item = RawStr<'n>>>(
    typed: &Glob,
    names: impl Fn() -> I,
) -> Option<String> {
    let typed = typed.as_str();
    let matches = |pattern: &String| {
        pattern.parse().is_ok_and(|glob: Glob| names().any(|name| glob.matches(name)))
    };
    let stem = typed.trim_end_matches('.');
    let with_stars = [
        format!("{stem}.*"),
        format!("{stem}*"),
        format!("*.{stem}"),
        format!("*.{stem}.*"),
        format!("*{stem}*"),
    ];
    if let Some(pattern) =
        with_stars.into_iter().find(|pattern| !stem.is_empty() && matches(pattern))
    {
        return Some(pattern);
    }
    // Corrects each component without a wildcard.
    let texts: Vec<&str> = names().filter_map(|name| name.to_str().ok()).collect();
    let is_wild = |part: &str| part.contains(['*', '?', '[']);
    let corrected: Vec<String> = typed
        .split('.')
        .map(|part| {
            let is_there = || texts.iter().any(|name| name.split('.').any(|other| other == part));
            if is_wild(part) || is_there() {
                return part.to_owned();
            }
            near_part(part, texts.iter().copied()).unwrap_or_else(|| part.to_owned())
        })
        .collect();
    Some(corrected.join(".")).filter(|pattern| pattern != typed && matches(pattern)).or_else(|| {
        near_part(typed, texts.iter().copied()).filter(|part| texts.iter().any(|name| name == part))
    })
}
