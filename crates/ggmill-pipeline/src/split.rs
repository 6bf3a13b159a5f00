use ggmill_core::{Alignment, ByteSize, MetadataBuf, RawStr, keys};

use crate::error::{Error, ErrorKind, Result};
use crate::recipe::{Form, Recipe, RecipeTensor};
use crate::source::GgufCheckpoint;

/// The keys that say which shard a file is.
pub const SPLIT_KEYS: [&str; 3] = [keys::SPLIT_NO, keys::SPLIT_COUNT, keys::SPLIT_TENSORS_COUNT];

/// When a shard is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ShardLimit {
    /// When it has this many tensors.
    Tensors(u64),
    /// When the next tensor would make its data, padding included, more bytes than this. A tensor
    /// that has more by itself gets a shard of its own.
    Bytes(u64),
}

/// How a model is cut into shards.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct SplitOptions {
    /// When a shard is full.
    pub limit: ShardLimit,
    /// Whether the first shard holds the metadata only: small, and enough to know the model by.
    pub no_tensor_first: bool,
}

impl SplitOptions {
    /// Shards up to this limit, tensors in the first one too.
    pub fn new(limit: ShardLimit) -> Self {
        Self { limit, no_tensor_first: false }
    }
}

/// A model becomes a set of shards: one recipe for each, in order.
///
/// All metadata is in the first, as `llama-gguf-split` has it; the others say which shard they are,
/// and the alignment where it is not the usual one (the reference loses it and then writes files
/// that cannot be read). Fails when a limit is 0, and when there are more shards or tensors than
/// the keys can count.
pub fn split(checkpoint: &GgufCheckpoint, options: &SplitOptions) -> Result<Vec<Recipe>> {
    Recipe::copy_of(checkpoint)?.split(options)
}

impl Recipe {
    /// The recipes of a set of shards instead of that of one file; as [`split`](crate::split) does
    /// it.
    pub fn split(self, options: &SplitOptions) -> Result<Vec<Self>> {
        let (groups, note) = groups(&self, options, alignment(&self.metadata)?)?;
        let mut shards = self
            .into_shards(&groups, [keys::SPLIT_NO, keys::SPLIT_TENSORS_COUNT, keys::SPLIT_COUNT])?;
        if let Some(first) = shards.first_mut() {
            first.notes.extend(note);
        }
        Ok(shards)
    }

    /// Shards of this many tensors each, with their keys in this order. The notes stay with the
    /// first.
    pub fn into_shards(self, groups: &[usize], order: [&str; 3]) -> Result<Vec<Self>> {
        let too_many = |what: &str, most: u64| {
            Error::new(
                ErrorKind::Misuse,
                format!("more than {most} {what}; larger shards would reduce their number"),
            )
        };
        let tensors = i32::try_from(self.tensors.len())
            .map_err(|_| too_many("tensors", i32::MAX.unsigned_abs().into()))?;
        let count = u16::try_from(groups.len()).map_err(|_| too_many("shards", u16::MAX.into()))?;
        let alignment = alignment(&self.metadata)?;
        let form = Form { pad_header: true, ..self.form };
        let mut rest: Vec<RecipeTensor> = self.tensors;
        let mut first = Some((self.metadata, self.notes));
        let mut shards = Vec::with_capacity(groups.len());
        for (number, &len) in (0u16..).zip(groups) {
            let (mut metadata, notes) =
                first.take().unwrap_or_else(|| (aligned(alignment), Vec::new()));
            for key in SPLIT_KEYS {
                metadata.remove(key);
            }
            for key in order {
                match key {
                    keys::SPLIT_NO => metadata.set(key, number),
                    keys::SPLIT_COUNT => metadata.set(key, count),
                    _ => metadata.set(key, tensors),
                }
            }
            let behind = rest.split_off(len.min(rest.len()));
            let tensors = std::mem::replace(&mut rest, behind);
            shards.push(Self { metadata, tensors, notes, form });
        }
        Ok(shards)
    }
}

/// The alignment that the metadata state. Fails if it is not valid.
fn alignment(metadata: &MetadataBuf) -> Result<Alignment> {
    let Some(stated) = metadata.get(keys::GENERAL_ALIGNMENT) else { return Ok(Alignment::DEFAULT) };
    Alignment::new(stated.as_u64().unwrap_or(0))
        .map_err(|error| Error::caused(ErrorKind::Misuse, error).key(keys::GENERAL_ALIGNMENT))
}

/// Metadata that say nothing but an unusual alignment.
fn aligned(alignment: Alignment) -> MetadataBuf {
    let mut metadata = MetadataBuf::new();
    if alignment != Alignment::DEFAULT {
        metadata.set(keys::GENERAL_ALIGNMENT, alignment.get());
    }
    metadata
}

/// How many tensors each shard has, and what is to be said of that.
fn groups(
    recipe: &Recipe,
    options: &SplitOptions,
    alignment: Alignment,
) -> Result<(Vec<usize>, Option<String>)> {
    if matches!(options.limit, ShardLimit::Tensors(0) | ShardLimit::Bytes(0)) {
        return Err(Error::new(ErrorKind::Misuse, "shards of size 0, expected at least 1"));
    }
    let mut groups = if options.no_tensor_first { vec![0, 0] } else { vec![0] };
    let (mut too_large, mut others) = (None, 0u64);
    let mut bytes = 0u64;
    for tensor in &recipe.tensors {
        let size = alignment.align(tensor.expression.size()).unwrap_or(u64::MAX);
        let last = groups.last().copied().unwrap_or(0);
        let full = match options.limit {
            ShardLimit::Tensors(most) => last as u64 >= most,
            ShardLimit::Bytes(most) => last > 0 && bytes.saturating_add(size) > most,
        };
        if full {
            groups.push(0);
            bytes = 0;
        }
        bytes = bytes.saturating_add(size);
        let Some(group) = groups.last_mut() else { continue };
        *group += 1;
        if let ShardLimit::Bytes(most) = options.limit
            && size > most
        {
            others += u64::from(too_large.is_some());
            too_large.get_or_insert_with(|| {
                let [size, most] = ByteSize::both(size, most);
                let name = RawStr::new(&tensor.name);
                format!("tensor {name:?} by itself has {size}, the limit is {most}")
            });
        }
    }
    // Metadata alone need no shard for the tensors that are not there.
    if groups.len() > 1 && groups.last() == Some(&0) {
        groups.pop();
    }
    let note = too_large.map(|note| {
        if others > 0 { format!("{note}; {others} others are also too large") } else { note }
    });
    Ok((groups, note))
}
