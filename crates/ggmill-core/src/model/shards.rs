//! Several files as one model: what they must agree in.

use alloc::boxed::Box;
use alloc::format;
use alloc::vec::Vec;

use super::{Model, Part};
use crate::error::{Error, Optional as _, Result};
use crate::shard_fault::ShardFault;
use crate::{RawStr, Split, keys};

/// A shard, what it says of its place in the set, and its place among those given.
struct Shard {
    split: Split,
    part: Part,
    given: usize,
}

impl Shard {
    fn fail(&self, fault: ShardFault) -> Error {
        Error::shards(Some(self.given), self.part.name(), fault)
    }

    /// How messages about other files call this one.
    fn called(&self) -> Box<[u8]> {
        self.part.name().map_or_else(
            || format!("file {}", self.given.saturating_add(1)).into_bytes().into(),
            |name| name.as_bytes().into(),
        )
    }
}

impl Model {
    /// All shards of one model, in any order.
    ///
    /// Which shard a file is, its `split.*` keys say. Fails with an error of kind
    /// [`Shards`](crate::ErrorKind::Shards) when one is not a shard, exists more than once, is
    /// missing, or belongs to another set: [`Error::shard`] says which. Of shards that have several
    /// files each, all files count.
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
        for (given, part) in shards.into_iter().flat_map(|model| model.parts).enumerate() {
            match part.split()? {
                Some(split) => found.push(Shard { split, part, given }),
                None => return Err(Error::shards(Some(given), part.name(), ShardFault::NoShard)),
            }
        }
        found.sort_by_key(|shard| shard.split.number);
        check_complete(&found)?;
        check_agreement(&found)?;
        check_tensors(&found)?;
        Ok(Self::of_parts(found.into_iter().map(|shard| shard.part).collect()))
    }

    /// Fails unless the file says of itself that it is shard `number`, from 1, of `count`, as its
    /// name does.
    pub fn expect_shard(&self, number: u32, count: u32) -> Result<()> {
        let part = self.first();
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

    /// The error for shards, numbered from 1, that should be beside the others and are not; `name`
    /// is that of the first of them.
    #[cold]
    pub fn missing_shards(name: RawStr<'_>, numbers: Vec<u32>, count: u32) -> Error {
        Error::shards(None, Some(name), ShardFault::Missing { numbers, count })
    }
}

/// Files ordered by the numbers their keys give are each shard of one set, once.
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
                other: first.called(),
            }));
        }
        if let Some(other) = before.filter(|before| before.split.number == split.number) {
            return Err(shard.fail(ShardFault::Duplicate {
                number: split.number.saturating_add(1),
                other: other.called(),
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
    // Names have five digits for it, so no set has more; a file can say anything.
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

/// Byte order, and the architecture where a shard repeats it: what differs comes from another
/// model.
fn check_agreement(shards: &[Shard]) -> Result<()> {
    let mut first_endian = None;
    let mut first_architecture = None;
    for shard in shards {
        let (endian, other) = *first_endian.get_or_insert((shard.part.endian(), shard));
        if shard.part.endian() != endian {
            return Err(shard
                .fail(ShardFault::Endian { found: shard.part.endian(), other: other.called() }));
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
                other: other.called(),
            };
            return Err(shard.fail(fault));
        }
    }
    Ok(())
}

/// No tensor in two shards, and as many in all as each shard that counts them says.
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
                other: a.called(),
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
