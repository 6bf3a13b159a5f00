use core::fmt;

use crate::error::{Detail, Error, ErrorKind, Result};

/// The alignment of tensor data: a positive multiple of 8 (specification, `general.alignment`), 32
/// when a file does not say.
///
/// The C reader accepts powers of two only; [`Alignment::is_power_of_two`] says whether it would.
///
/// ```
/// use ggmill_core::Alignment;
/// let alignment = Alignment::new(24)?;
/// assert_eq!(alignment.pad(25), Some(23));
/// assert!(!alignment.is_power_of_two());
/// assert!(Alignment::new(12).is_err());
/// # Ok::<(), ggmill_core::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Alignment(u32);

impl Alignment {
    /// The default for a file without `general.alignment`.
    pub const DEFAULT: Self = Self(32);

    /// This alignment, when it is a positive multiple of 8 that fits 32 bits.
    pub fn new(alignment: u64) -> Result<Self> {
        match u32::try_from(alignment) {
            Ok(small) if small > 0 && small.is_multiple_of(8) => Ok(Self(small)),
            _ => {
                Err(Error::new(ErrorKind::Malformed, Detail::Alignment { found: alignment.into() }))
            }
        }
    }

    /// The number of bytes.
    pub const fn get(self) -> u32 {
        self.0
    }

    /// Bytes of padding from `offset` to the next multiple, or `None` when that exceeds `u64`.
    pub fn pad(self, offset: u64) -> Option<u64> {
        offset.checked_next_multiple_of(u64::from(self.0))?.checked_sub(offset)
    }

    /// The next multiple at or after `offset`, or `None` when it exceeds `u64`.
    pub fn align(self, offset: u64) -> Option<u64> {
        offset.checked_next_multiple_of(u64::from(self.0))
    }

    /// Whether the C reader accepts it.
    pub const fn is_power_of_two(self) -> bool {
        self.0.is_power_of_two()
    }
}

impl Default for Alignment {
    fn default() -> Self {
        Self::DEFAULT
    }
}

impl fmt::Display for Alignment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl fmt::Debug for Alignment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}
