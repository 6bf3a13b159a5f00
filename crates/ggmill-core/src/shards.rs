//! Several files as one model: the names of shards, their `split.*` keys, and what the files of a
//! set must agree in.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use crate::error::{Error, Optional as _, Result, ShardFault};
use crate::{Header, Metadata, Model, RawStr, keys};

/// A parsed file name of a shard: `<prefix>-<number>-of-<count>.gguf`, with five digits each and numbers
/// from 1.
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
    /// Parses a file name without directories. Returns `None` if it is not the name of a shard.
    pub fn parse(file_name: &'a str) -> Option<Self> {
        let stem = file_name.strip_suffix(".gguf")?;
        let (rest, count) = stem.rsplit_once("-of-")?;
        let (prefix, number) = rest.rsplit_once('-')?;
        let (number, count) = (five_digits(number)?, five_digits(count)?);
        (1..=count).contains(&number).then_some(Self { prefix, number, count })
    }

    /// Returns the part before the numbers, which is the same for every shard of a set.
    pub fn prefix(&self) -> &'a str {
        self.prefix
    }

    /// Returns the number of this shard, from 1.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// Returns the number of shards in the set.
    pub fn count(&self) -> u32 {
        self.count
    }

    /// Returns the file name of shard `number`, from 1, of the set.
    pub fn sibling(&self, number: u32) -> String {
        shard_file_name(self.prefix, number, self.count)
    }
}

/// Returns the file name of shard `number`, from 1, of `count`.
pub fn shard_file_name(prefix: &str, number: u32, count: u32) -> String {
    format!("{prefix}-{number:05}-of-{count:05}.gguf")
}

fn five_digits(digits: &str) -> Option<u32> {
    (digits.len() == 5 && crate::is_digits(digits)).then(|| digits.parse().ok())?
}

/// The position of a file in a shard set, from its `split.*` keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Split {
    /// The number of this shard, from 0.
    pub number: u64,
    /// The number of shards in the set. Files merged by llama.cpp's tool have 0.
    pub count: u64,
    /// The total number of tensors in the set, if the file has the key.
    pub tensors: Option<u64>,
}

impl Split {
    /// Reads the `split.*` keys of a file, which can have any integer type. Returns `None` if there are
    /// none. Fails if they are not integers or negative.
    pub fn of(metadata: &Metadata<'_>) -> Result<Option<Self>> {
        let Some(count) = metadata.u64(keys::SPLIT_COUNT).optional()? else { return Ok(None) };
        let number = metadata.u64(keys::SPLIT_NO).optional()?.unwrap_or(0);
        let tensors = metadata.u64(keys::SPLIT_TENSORS_COUNT).optional()?;
        Ok(Some(Self { number, count, tensors }))
    }

    /// Returns `true` if the set has several files. A file with a count of 0 or 1 is a whole model.
    pub fn is_part(&self) -> bool {
        self.count > 1
    }
}

/// A file of a set, with its `split.*` keys and its index among the files passed by the caller.
struct Shard {
    split: Split,
    part: Header<'static>,
    argument: usize,
}

impl Shard {
    fn fail(&self, fault: ShardFault) -> Error {
        Error::shards(Some(self.argument), self.part.name(), fault)
    }

    /// Returns the name of this file in messages about other files.
    fn display_name(&self) -> Box<[u8]> {
        self.part.name().map_or_else(
            || format!("file {}", self.argument.saturating_add(1)).into_bytes().into(),
            |name| name.as_bytes().into(),
        )
    }
}

impl Model {
    /// Combines all shards of one model, in any order. The files of every argument are used, and their
    /// `split.*` keys have the order.
    ///
    /// Fails with an error of kind [`Shards`](crate::ErrorKind::Shards) if a file is not a shard, is a
    /// duplicate or belongs to another set, or if a shard is missing. [`Error::shard`] is the index of
    /// the file.
    ///
    /// ```
    /// # use ggmill_core::{Builder, GgmlType, MetadataBuf, Shape};
    /// # let shard = |number: u16| {
    /// #     let mut metadata = MetadataBuf::new();
    /// #     metadata.set("split.no", number);
    /// #     metadata.set("split.count", 2u16);
    /// #     let plan = Builder::new().metadata(metadata).tensor(format!("blk.{number}"), GgmlType::F32, Shape::new(&[8])?).plan()?;
    /// #     Ok::<_, ggmill_core::Error>([plan.header(), &[0; 32]].concat())
    /// # };
    /// # let (first, second) = (shard(0)?, shard(1)?);
    /// use ggmill_core::Model;
    /// let model = Model::from_shards(vec![Model::open(second)?, Model::open(first)?])?;
    /// let tensor = model.tensor("blk.1")?;
    /// assert_eq!((tensor.part(), model.read_tensor(&tensor)?.len()), (1, 32));
    /// # Ok::<(), ggmill_core::Error>(())
    /// ```
    pub fn from_shards(shards: Vec<Self>) -> Result<Self> {
        let mut found = Vec::with_capacity(shards.len());
        for (argument, part) in shards.into_iter().flat_map(|model| model.parts).enumerate() {
            match part.split()? {
                Some(split) => found.push(Shard { split, part, argument }),
                None => {
                    return Err(Error::shards(Some(argument), part.name(), ShardFault::NoShard));
                }
            }
        }
        found.sort_by_key(|shard| shard.split.number);
        check_complete(&found)?;
        check_agreement(&found)?;
        check_tensors(&found)?;
        Ok(Self::of_parts(found.into_iter().map(|shard| shard.part).collect()))
    }

    /// Fails unless the `split.*` keys of the file are those of shard `number`, from 1, of `count`, as
    /// its name says.
    pub fn expect_shard(&self, number: u32, count: u32) -> Result<()> {
        let part = self.header();
        let fault = match part.split()? {
            None => ShardFault::NoKeys { number, count },
            Some(split) if split.count != u64::from(count) => {
                ShardFault::Count { found: split.count, named: count }
            }
            Some(split) if split.number.checked_add(1) != Some(u64::from(number)) => {
                ShardFault::Number { found: split.number, named: number, count }
            }
            Some(_) => return Ok(()),
        };
        Err(Error::shards(Some(0), part.name(), fault))
    }

    /// Creates the error for shards whose files do not exist. Numbers count from 1; `name` is the file
    /// name of the first of them.
    #[cold]
    pub fn missing_shards(name: RawStr<'_>, numbers: Vec<u32>, count: u32) -> Error {
        Error::shards(None, Some(name), ShardFault::Missing { numbers, count })
    }
}

/// Checks that the files, sorted by their numbers, are all shards of one set.
fn check_complete(shards: &[Shard]) -> Result<()> {
    let Some(first) = shards.first() else {
        return Err(Error::shards(None, None, ShardFault::NoShard));
    };
    let mut before: Option<&Shard> = None;
    for shard in shards {
        let split = shard.split;
        if split.count != first.split.count {
            return Err(shard.fail(ShardFault::OtherCount {
                found: split.count,
                expected: first.split.count,
                other: first.display_name(),
            }));
        }
        if let Some(other) = before.filter(|before| before.split.number == split.number) {
            return Err(shard.fail(ShardFault::Duplicate {
                number: split.number.saturating_add(1),
                other: other.display_name(),
            }));
        }
        if split.number >= split.count {
            return Err(shard.fail(ShardFault::Beyond {
                number: split.number.saturating_add(1),
                count: split.count,
            }));
        }
        before = Some(shard);
    }
    // A file can declare any count, but names have five digits.
    let count = u32::try_from(first.split.count).unwrap_or(u32::MAX).min(99_999);
    let is_missing = |number: &u32| {
        shards
            .binary_search_by_key(&u64::from(number.saturating_sub(1)), |shard| shard.split.number)
            .is_err()
    };
    let numbers: Vec<u32> = (1..=count).filter(is_missing).collect();
    if numbers.is_empty() {
        Ok(())
    } else {
        Err(first.fail(ShardFault::NotGiven { numbers, count }))
    }
}

/// Checks that all shards have the same byte order, and the same architecture if they have the key.
fn check_agreement(shards: &[Shard]) -> Result<()> {
    let mut first_endian = None;
    let mut first_architecture = None;
    for shard in shards {
        let (endian, other) = *first_endian.get_or_insert((shard.part.endian(), shard));
        if shard.part.endian() != endian {
            return Err(shard.fail(ShardFault::Endian {
                found: shard.part.endian(),
                other: other.display_name(),
            }));
        }
        let Some(found) = shard.part.metadata().raw_str(keys::GENERAL_ARCHITECTURE).optional()?
        else {
            continue;
        };
        let (expected, other) = *first_architecture.get_or_insert((found, shard));
        if found != expected {
            let fault = ShardFault::Architecture {
                found: found.as_bytes().into(),
                expected: expected.as_bytes().into(),
                other: other.display_name(),
            };
            return Err(shard.fail(fault));
        }
    }
    Ok(())
}

/// Checks that no tensor is in two shards, and that the number of tensors is `split.tensors.count`.
fn check_tensors(shards: &[Shard]) -> Result<()> {
    let mut names = Vec::new();
    for (place, shard) in shards.iter().enumerate() {
        names.extend(shard.part.tensors().iter().map(|tensor| (tensor.name(), place)));
    }
    let found = names.len() as u64;
    names.sort_unstable();
    for pair in names.windows(2) {
        if let &[(first, a), (second, b)] = pair
            && first == second
            && a != b
            && let (Some(a), Some(b)) = (shards.get(a), shards.get(b))
        {
            return Err(b.fail(ShardFault::DuplicateTensor {
                name: second.as_bytes().into(),
                other: a.display_name(),
            }));
        }
    }
    for shard in shards {
        if let Some(expected) = shard.split.tensors.filter(|&expected| expected != found) {
            return Err(shard.fail(ShardFault::Tensors { found, expected }));
        }
    }
    Ok(())
}
