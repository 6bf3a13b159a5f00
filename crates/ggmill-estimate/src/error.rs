//! Options that no program runs a model with.

use core::fmt;

use ggmill_core::{ByteSize, GgmlType, NoTensors, RawStr};

use crate::cache_types::CACHE_TYPES;
use crate::device::device_name;

/// Why there is no estimate.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The model does not say how long its context is, and the options do not either.
    NoContext,
    /// A number of the options is 0, or larger than any program takes.
    OutOfRange {
        /// What the number is of.
        what: &'static str,
        /// The number.
        found: u64,
        /// The largest.
        limit: u64,
    },
    /// The cache cannot have this type: a row of it is not a multiple of the block size.
    CacheType {
        /// The type.
        found: GgmlType,
        /// Elements of a row.
        elements: u64,
        /// Elements of a block.
        block: u64,
    },
    /// The cache cannot have this type: programs offer [`CACHE_TYPES`] alone.
    NoCacheType(GgmlType),
    /// Values of a quantized type need flash attention, which is switched off or which the
    /// architecture has not.
    NeedsFlashAttention(GgmlType),
    /// The architecture keeps keys and values in one, so that they cannot have different types.
    DifferentTypes {
        /// The type of keys.
        keys: GgmlType,
        /// The type of values.
        values: GgmlType,
    },
    /// Tensors are placed on a device that there is none of.
    NoDevice {
        /// The pattern of the tensors, or the name of one.
        what: Box<str>,
        /// The number of the device; 0 is the host.
        found: usize,
        /// How many there are beside the host.
        devices: usize,
    },
    /// The model has no tensors, so that anything would hold it.
    NoTensors(NoTensors),
    /// There are shares for another number of devices than there are sizes.
    SharesOfSizes {
        /// How many shares there are.
        shares: usize,
        /// How many sizes.
        sizes: usize,
    },
    /// A device has no room for what is on it without any layer.
    NothingFits {
        /// The number of the device, from 1.
        device: usize,
        /// The bytes that are needed.
        needed: u64,
        /// The bytes that there are.
        size: u64,
    },
    /// A word for how attention is computed that is none.
    FlashAttention(Box<str>),
    /// The text of an override is none.
    Override {
        /// The text.
        found: Box<str>,
        /// What is wrong with it.
        why: Box<str>,
    },
    /// The shares of the devices are not numbers from 0 that add up to more than 0.
    Shares,
    /// More bytes than 64 bits count.
    TooLarge,
}

/// Options that a model cannot be run with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error(ErrorKind);

pub(crate) type Result<T, E = Error> = core::result::Result<T, E>;

impl Error {
    /// The kind of error.
    pub fn kind(&self) -> &ErrorKind {
        &self.0
    }
}

impl From<ErrorKind> for Error {
    #[cold]
    fn from(kind: ErrorKind) -> Self {
        Self(kind)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            ErrorKind::NoContext => {
                f.write_str("the model has no context length, and none was given")
            }
            ErrorKind::OutOfRange { what, found, limit } => {
                write!(f, "{what}: found {found}, expected a number from 1 to {limit}")
            }
            ErrorKind::CacheType { found, elements, block } => write!(
                f,
                "a cache of type {found}: the row length {elements} is not a multiple of the block \
                 size {block}"
            ),
            ErrorKind::NeedsFlashAttention(found) => {
                write!(f, "a V cache of type {found} requires flash attention")
            }
            ErrorKind::DifferentTypes { keys, values } => write!(
                f,
                "K cache of type {keys} and V cache of type {values}: the architecture stores keys \
                 and values in one cache, so both must have the same type"
            ),
            ErrorKind::NoDevice { what, found, devices } => {
                let (what, found) = (RawStr::from(&**what), device_name(*found));
                write!(f, "{what:?} on {found}: expected CPU")?;
                match devices {
                    0 => Ok(()),
                    1 => write!(f, " or {}", device_name(1)),
                    2 => write!(f, ", {} or {}", device_name(1), device_name(2)),
                    _ => write!(f, " or one of {} to {}", device_name(1), device_name(*devices)),
                }
            }
            ErrorKind::NoCacheType(found) => {
                write!(f, "a cache of type {found}: expected one of ")?;
                for (number, known) in CACHE_TYPES.iter().enumerate() {
                    write!(f, "{}{known}", if number == 0 { "" } else { ", " })?;
                }
                Ok(())
            }
            ErrorKind::NoTensors(found) => {
                write!(f, "{found}: there is nothing to fit on devices")
            }
            ErrorKind::SharesOfSizes { shares, sizes } => {
                write!(f, "shares for {shares} devices, but sizes for {sizes}")
            }
            ErrorKind::NothingFits { device, needed, size } => {
                let [needed, size] = ByteSize::both(*needed, *size);
                let device = device_name(*device);
                write!(
                    f,
                    "{device} has {size} available, but {needed} are needed even without any layer"
                )
            }
            ErrorKind::FlashAttention(found) => {
                write!(f, "flash attention {:?}: expected auto, on or off", RawStr::from(&**found))
            }
            ErrorKind::Override { found, why } => {
                write!(f, "override {:?}: {why}", RawStr::from(&**found))
            }
            ErrorKind::Shares => f.write_str(
                "expected shares of the devices that are at least 0 and add up to more than 0",
            ),
            ErrorKind::TooLarge => f.write_str("the estimate exceeds 64 bits"),
        }
    }
}

impl core::error::Error for Error {}
