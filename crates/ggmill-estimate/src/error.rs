//! Errors of an estimate.

use core::fmt;

use ggmill_core::{ByteSize, GgmlType, NoTensors, RawStr};

use crate::options::{CACHE_TYPES, device_name};

/// The kind of an [`Error`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// Neither the model nor the options have a context length.
    NoContext,
    /// A number in the options is 0 or too large.
    OutOfRange {
        /// The name of the number.
        what: &'static str,
        /// The number.
        found: u64,
        /// The maximum.
        limit: u64,
    },
    /// The row length of the cache is not a multiple of the block size of this type.
    CacheType {
        /// The type.
        found: GgmlType,
        /// The row length in elements.
        elements: u64,
        /// The block size in elements.
        block: u64,
    },
    /// The type is not one of [`CACHE_TYPES`].
    NoCacheType(GgmlType),
    /// A V cache of a quantized type requires flash attention, which is switched off or not supported by
    /// the architecture.
    NeedsFlashAttention(GgmlType),
    /// The architecture stores keys and values in one cache, so they must have the same type.
    DifferentTypes {
        /// The type of keys.
        keys: GgmlType,
        /// The type of values.
        values: GgmlType,
    },
    /// Tensors are placed on a device that does not exist.
    NoDevice {
        /// The pattern of the tensors, or the name of one.
        what: Box<str>,
        /// The number of the device; 0 is the host.
        found: usize,
        /// The number of devices besides the host.
        devices: usize,
    },
    /// The model has no tensors, so there is nothing to fit on devices.
    NoTensors(NoTensors),
    /// The numbers of shares and sizes of devices differ.
    SharesOfSizes {
        /// The number of shares.
        shares: usize,
        /// The number of sizes.
        sizes: usize,
    },
    /// A device is too small even without layers.
    NothingFits {
        /// The number of the device, from 1.
        device: usize,
        /// The bytes that are needed.
        needed: u64,
        /// The bytes that the device has.
        size: u64,
    },
    /// The text is not a mode of flash attention.
    FlashAttention(Box<str>),
    /// The text is not an override.
    Override {
        /// The text.
        found: Box<str>,
        /// The reason.
        why: Box<str>,
    },
    /// The shares of the devices are not finite numbers of at least 0 with a positive sum.
    Shares,
    /// The estimate exceeds 64 bits.
    TooLarge,
}

/// The error of an estimate: options that the model cannot be run with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error(ErrorKind);

pub(crate) type Result<T, E = Error> = core::result::Result<T, E>;

impl Error {
    /// Returns the kind of error.
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
