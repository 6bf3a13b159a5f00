//! The trait that a source of bytes implements: positioned reads.

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::any::Any;
use core::fmt::Debug;
use core::ops::Range;

use crate::RawStr;
use crate::error::{Detail, Error, ErrorKind, Result};

/// A source of bytes with positioned reads: a slice, a `Vec`, a memory map, a file, an HTTP resource,
/// a browser's `Blob`.
///
/// There is no cursor, so several threads can read at the same time. Only [`len`](Self::len) and
/// [`read_at`](Self::read_at) are required; the other methods are optional capabilities. A source that
/// can fail creates its errors with [`Error::caused`].
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
    /// Returns the length in bytes.
    fn len(&self) -> u64;

    /// Returns `true` if the length is 0.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Fills `out` with the bytes from `offset` on. Fails with [`ErrorKind::Truncated`] if there are
    /// fewer.
    fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<()>;

    /// Returns all bytes if they are in memory, so that they need not be copied.
    fn as_slice(&self) -> Option<&[u8]> {
        None
    }

    /// Announces ranges that will be read soon. A source can ignore it.
    fn prefetch(&self, ranges: &[Range<u64>]) {
        let _ = ranges;
    }

    /// Fails if the content has changed since it was opened, or if an edit of it was interrupted. Code
    /// that reads much of a file calls this at the end, since earlier reads can be a mixture of old and
    /// new content.
    fn verify(&self) -> Result<()> {
        Ok(())
    }

    /// Returns a name for messages, such as a path or a URL.
    fn name(&self) -> Option<RawStr<'_>> {
        None
    }

    /// Returns the source for downcasting, for code that has a better way for some types: sharing
    /// blocks between files, for example.
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

/// Implements the trait for pointers by forwarding every method.
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
