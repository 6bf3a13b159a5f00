//! Bytes read by position: the one interface that a source of bytes implements.

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::any::Any;
use core::fmt::Debug;
use core::ops::Range;

use crate::RawStr;
use crate::error::{Detail, Error, ErrorKind, Result};

/// Bytes that are read by position: a slice, a `Vec`, a memory map, a file, ranges of an HTTP
/// resource, a browser's `Blob`.
///
/// There is no cursor, so several threads may read at once. Only [`len`](Self::len) and
/// [`read_at`](Self::read_at) are required; everything else says what a source can do beyond that.
/// Sources that can fail make their errors with [`Error::caused`].
///
/// ```
/// use ggmill_core::ReadAt;
/// let file: Box<dyn ReadAt> = Box::new(b"0123456789".to_vec());
/// let mut middle = [0; 4];
/// file.read_at(3, &mut middle)?;
/// assert_eq!((&middle, file.len()), (b"3456", 10));
/// assert!(file.read_at(8, &mut middle).is_err());
/// # Ok::<(), ggmill_core::Error>(())
/// ```
pub trait ReadAt: Debug + Send + Sync {
    /// How many bytes there are.
    fn len(&self) -> u64;

    /// Whether there are none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Fills `out` with the bytes from `offset` on. Fails with [`ErrorKind::Truncated`] when they
    /// end before that.
    fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<()>;

    /// All bytes, where they are in memory: then nothing needs to be copied.
    fn as_slice(&self) -> Option<&[u8]> {
        None
    }

    /// Says which ranges will be read soon. A hint: a source that gains nothing from it ignores it.
    fn prefetch(&self, ranges: &[Range<u64>]) {
        let _ = ranges;
    }

    /// Fails when the bytes are no longer those that were opened, or when an edit of them was
    /// interrupted halfway. Code that has read much calls this last: what was read before may
    /// be half of each.
    fn verify(&self) -> Result<()> {
        Ok(())
    }

    /// A name for the source in messages: its path, its address.
    fn name(&self) -> Option<RawStr<'_>> {
        None
    }

    /// The source as what it is, for those who know some kinds of source and can do better with
    /// them: share blocks between files, say.
    fn as_any(&self) -> Option<&dyn Any> {
        None
    }
}

impl ReadAt for [u8] {
    fn len(&self) -> u64 {
        <[u8]>::len(self) as u64
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        let found =
            || usize::try_from(offset).ok().and_then(|start| self.get(start..)?.get(..out.len()));
        out.copy_from_slice(found().ok_or_else(|| outside(offset, out.len(), ReadAt::len(self)))?);
        Ok(())
    }

    fn as_slice(&self) -> Option<&[u8]> {
        Some(self)
    }
}

#[cold]
fn outside(start: u64, len: usize, file: u64) -> Error {
    Error::new(
        ErrorKind::Truncated,
        Detail::DataOutside { start, end: start.saturating_add(len as u64), file },
    )
}

/// The methods that a pointer to a source forwards to it.
macro_rules! forward {
    ($(($($generic:tt)*) $source:ty, $target:ty;)*) => {$(
        impl<$($generic)*> ReadAt for $source {
            fn len(&self) -> u64 {
                <$target as ReadAt>::len(self)
            }

            fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<()> {
                <$target as ReadAt>::read_at(self, offset, out)
            }

            fn as_slice(&self) -> Option<&[u8]> {
                <$target as ReadAt>::as_slice(self)
            }

            fn prefetch(&self, ranges: &[Range<u64>]) {
                <$target as ReadAt>::prefetch(self, ranges);
            }

            fn verify(&self) -> Result<()> {
                <$target as ReadAt>::verify(self)
            }

            fn name(&self) -> Option<RawStr<'_>> {
                <$target as ReadAt>::name(self)
            }

            fn as_any(&self) -> Option<&dyn Any> {
                <$target as ReadAt>::as_any(self)
            }
        }
    )*};
}

forward! {
    () Vec<u8>, [u8];
    (R: ReadAt + ?Sized) &R, R;
    (R: ReadAt + ?Sized) Box<R>, R;
    (R: ReadAt + ?Sized) Arc<R>, R;
}
