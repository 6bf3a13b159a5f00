//! The rules by which several files are one model: their names and the `split.*` keys.

use alloc::format;
use alloc::string::String;

use crate::error::{Optional as _, Result};
use crate::{Metadata, keys};

/// A shard's file name taken apart: `<prefix>-<number>-of-<count>.gguf`, both with five digits, the
/// number from 1.
///
/// ```
/// use ggmill_core::ShardName;
/// let name = ShardName::parse("Grok-100B-v1.0-Q4_0-00003-of-00009.gguf").ok_or("a shard's name")?;
/// assert_eq!((name.prefix(), name.number(), name.count()), ("Grok-100B-v1.0-Q4_0", 3, 9));
/// assert_eq!(name.sibling(1), "Grok-100B-v1.0-Q4_0-00001-of-00009.gguf");
/// assert_eq!(ShardName::parse("Grok-100B.gguf"), None);
/// # Ok::<(), &str>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShardName<'a> {
    prefix: &'a str,
    number: u32,
    count: u32,
}

impl<'a> ShardName<'a> {
    /// Takes a file name (no directories) apart, or `None` when it is not that of a shard.
    pub fn parse(file_name: &'a str) -> Option<Self> {
        let stem = file_name.strip_suffix(".gguf")?;
        let (rest, count) = stem.rsplit_once("-of-")?;
        let (prefix, number) = rest.rsplit_once('-')?;
        let (number, count) = (five_digits(number)?, five_digits(count)?);
        (1..=count).contains(&number).then_some(Self { prefix, number, count })
    }

    /// The part before the numbers, the same for every shard of a set.
    pub fn prefix(&self) -> &'a str {
        self.prefix
    }

    /// The place of this shard, from 1.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// How many shards the set has.
    pub fn count(&self) -> u32 {
        self.count
    }

    /// The file name of shard `number`, from 1, of the same set.
    pub fn sibling(&self, number: u32) -> String {
        shard_file_name(self.prefix, number, self.count)
    }
}

/// The file name of shard `number`, from 1, of `count`.
pub fn shard_file_name(prefix: &str, number: u32, count: u32) -> String {
    format!("{prefix}-{number:05}-of-{count:05}.gguf")
}

fn five_digits(digits: &str) -> Option<u32> {
    (digits.len() == 5 && crate::is_digits(digits)).then(|| digits.parse().ok())?
}

/// The shard set that a file belongs to, by its `split.*` keys of any integer type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Split {
    /// The place of this shard, from 0.
    pub number: u64,
    /// How many shards the set has. Files merged by the reference tool keep a 0 here.
    pub count: u64,
    /// How many tensors all shards have together, where the file says.
    pub tensors: Option<u64>,
}

impl Split {
    /// The `split.*` keys of a file, or `None` when it has none. Fails when they are not integers,
    /// or negative.
    pub fn of(metadata: &Metadata<'_>) -> Result<Option<Self>> {
        let Some(count) = metadata.u64(keys::SPLIT_COUNT).optional()? else { return Ok(None) };
        let number = metadata.u64(keys::SPLIT_NO).optional()?.unwrap_or(0);
        let tensors = metadata.u64(keys::SPLIT_TENSORS_COUNT).optional()?;
        Ok(Some(Self { number, count, tensors }))
    }

    /// Whether the file is one of several: a count of 0 or 1 is a whole model.
    pub fn is_part(&self) -> bool {
        self.count > 1
    }
}
