//! Bytes that go from file to file without passing through here.

use ggmill_core::Sink;

use crate::error::Result;
use crate::random_access::RandomAccess;

/// A sink that may take bytes from an open file by itself.
///
/// [`FileSink`](crate::FileSink) hands both files to the operating system, which shares the blocks
/// or copies them without showing them to this program. Other sinks say that they cannot, and are
/// given the bytes.
///
/// ```
/// # let directory = tempfile::tempdir()?;
/// # let (path, copy) = (directory.path().join("model.gguf"), directory.path().join("copy.gguf"));
/// # std::fs::write(&path, b"0123456789")?;
/// use ggmill_io::{FileSink, Overwrite, RandomAccess, RangeSink as _};
/// let file = RandomAccess::open(&path)?;
/// let mut sink = FileSink::create(&copy, Overwrite::Refuse)?;
/// assert!(sink.append_range(&file, 2, 5)?);
/// sink.commit()?;
/// assert_eq!(std::fs::read(&copy)?, b"23456");
///
/// assert!(!Vec::new().append_range(&file, 2, 5).unwrap());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait RangeSink: Sink {
    /// Appends `len` bytes of the file from `offset` on, all of them, and says so; or does nothing
    /// and says that.
    fn append_range(
        &mut self,
        file: &RandomAccess,
        offset: u64,
        len: u64,
    ) -> Result<bool, Self::Error> {
        let _ = (file, offset, len);
        Ok(false)
    }
}

impl RangeSink for Vec<u8> {}

impl<S: RangeSink + ?Sized> RangeSink for &mut S {
    fn append_range(
        &mut self,
        file: &RandomAccess,
        offset: u64,
        len: u64,
    ) -> Result<bool, S::Error> {
        (**self).append_range(file, offset, len)
    }
}

/// Bytes that the system has copied from one file to the other, at the current positions of both.
#[cfg(target_os = "linux")]
pub(crate) mod system {
    use std::fs::File;
    use std::io;

    use rustix::fs::copy_file_range;
    use rustix::io::Errno;

    /// The most that is asked for at once: the call cannot be interrupted while it shares blocks.
    const MAX_COPY: u64 = 1 << 30;

    /// Copies up to `len` bytes from `offset` of one file to the current position of the other.
    /// Blocks are shared where the file system can do that and both places are at the start of one;
    /// where it cannot, they are copied within the kernel. `None` when it does not do either, which
    /// may turn out in the middle.
    pub(crate) fn copy(
        from: &File,
        offset: &mut u64,
        to: &File,
        len: u64,
    ) -> io::Result<Option<u64>> {
        loop {
            match copy_file_range(
                from,
                Some(offset),
                to,
                None,
                usize::try_from(len.min(MAX_COPY)).unwrap_or(usize::MAX),
            ) {
                Ok(copied) => return Ok(Some(copied as u64)),
                Err(Errno::INTR) => {}
                // Two file systems that do not know each other, or one that has no such thing.
                Err(
                    Errno::XDEV
                    | Errno::INVAL
                    | Errno::NOSYS
                    | Errno::OPNOTSUPP
                    | Errno::PERM
                    | Errno::BADF,
                ) => return Ok(None),
                Err(error) => return Err(error.into()),
            }
        }
    }
}

#[cfg(not(target_os = "linux"))]
pub(crate) mod system {
    use std::fs::File;
    use std::io;

    #[expect(clippy::unnecessary_wraps, reason = "as on Linux")]
    pub(crate) fn copy(_: &File, _: &mut u64, _: &File, _: u64) -> io::Result<Option<u64>> {
        Ok(None)
    }
}
