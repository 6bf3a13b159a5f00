//! Why files are not one set of shards.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;

use crate::RawStr;
use crate::endian::Endian;

/// A fault of a shard set. Shard numbers are from 1, as names have them; `other` is the name of
/// another file.
#[derive(Debug)]
pub(crate) enum ShardFault {
    Missing { numbers: Vec<u32>, count: u32 },
    NotGiven { numbers: Vec<u32>, count: u32 },
    NoShard,
    OtherCount { found: u64, expected: u64, other: Box<[u8]> },
    Duplicate { number: u64, other: Box<[u8]> },
    Beyond { number: u64, count: u64 },
    NoKeys { number: u32, count: u32 },
    Count { found: u64, named: u32 },
    Number { found: u64, named: u32, count: u32 },
    Architecture { found: Box<[u8]>, expected: Box<[u8]>, other: Box<[u8]> },
    Endian { found: Endian, other: Box<[u8]> },
    DuplicateTensor { name: Box<[u8]>, other: Box<[u8]> },
    Tensors { found: u64, expected: u64 },
}

/// `shard 2 of 3`, `shards 2, 4 of 9`, or the first few of more.
fn write_numbers(f: &mut fmt::Formatter<'_>, numbers: &[u32], count: u32) -> fmt::Result {
    const SHOWN: usize = 8;
    f.write_str(if numbers.len() == 1 { "shard " } else { "shards " })?;
    for (place, number) in numbers.iter().take(SHOWN).enumerate() {
        write!(f, "{}{number}", if place == 0 { "" } else { ", " })?;
    }
    match numbers.len() {
        0..=SHOWN => write!(f, " of {count}"),
        more => write!(f, ", … ({more} in all) of {count}"),
    }
}

/// The last part of a path, to name a second file beside the first.
fn short(name: &[u8]) -> RawStr<'_> {
    let separates = |byte: &u8| *byte == b'/' || cfg!(windows) && *byte == b'\\';
    RawStr::new(name.rsplit(separates).next().unwrap_or(name))
}

impl fmt::Display for ShardFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing { numbers, count } => {
                f.write_str("missing: ")?;
                write_numbers(f, numbers, *count)
            }
            Self::NotGiven { numbers, count } => {
                write_numbers(f, numbers, *count)?;
                f.write_str(" not given")
            }
            Self::NoShard => f.write_str("is not a shard: the key \"split.count\" is missing"),
            Self::OtherCount { found, expected, other } => {
                write!(f, "split.count {found}, expected {expected} as in {}", short(other))
            }
            Self::Duplicate { number, other } => {
                write!(f, "is shard {number}, and so is {}", RawStr::new(other))
            }
            Self::Beyond { number, count } => write!(f, "is shard {number} of {count}"),
            Self::NoKeys { number, count } => {
                write!(f, "named shard {number} of {count}, but has no key \"split.count\"")
            }
            Self::Count { found, named } => {
                write!(f, "split.count {found}, expected {named} as in the name")
            }
            Self::Number { found, named, count } => {
                write!(
                    f,
                    "split.no {found}, expected {} for shard {named} of {count}",
                    named.saturating_sub(1)
                )?;
                match found.checked_add(1).filter(|number| number <= &u64::from(*count)) {
                    Some(number) => write!(f, "; this is shard {number} under a different name"),
                    None => Ok(()),
                }
            }
            Self::Architecture { found, expected, other } => {
                write!(
                    f,
                    "architecture {:?}, expected {:?} as in {}",
                    RawStr::new(found),
                    RawStr::new(expected),
                    short(other)
                )
            }
            Self::Endian { found, other } => {
                write!(f, "is {found}-endian, but {} is not", short(other))
            }
            Self::DuplicateTensor { name, other } => {
                write!(f, "tensor {:?} is also in {}", RawStr::new(name), short(other))
            }
            Self::Tensors { found, expected } => {
                write!(
                    f,
                    "split.tensors.count {expected}, but the shards have {found} tensors in total"
                )
            }
        }
    }
}
