//! A remote file as a source of bytes.

use std::any::Any;
use std::fmt;
use std::ops::Range;

use ggmill_core::{RawStr, ReadAt};

use crate::error::{Detail, Error, Result};
use crate::target::Target;
use crate::windows::Windows;

/// A file on a server, read by position.
///
/// Bytes are asked for when they are read, no more than that, unless
/// [`prefetch`](ReadAt::prefetch) has said that what follows will be read too: then several reads
/// have one request.
///
/// Every byte is of one content: requests name the entity tag or the time of the first answer, and
/// an answer that contradicts it is an error of kind [`Changed`](crate::ErrorKind::Changed).
pub struct RemoteFile {
    target: Target,
    /// What came with the header: the bytes behind it, or all of a small file.
    at_hand: Piece,
    windows: Windows,
}

/// Bytes of a file, and where they begin.
#[derive(Default)]
pub(crate) struct Piece {
    pub(crate) start: u64,
    pub(crate) bytes: Vec<u8>,
}

impl Piece {
    /// The available bytes from `offset` on, at most so many.
    fn beginning(&self, offset: u64, most: usize) -> &[u8] {
        let start = offset.checked_sub(self.start).and_then(|start| usize::try_from(start).ok());
        let bytes = start.and_then(|start| self.bytes.get(start..)).unwrap_or_default();
        bytes.get(..most).unwrap_or(bytes)
    }
}

impl RemoteFile {
    pub(crate) fn new(target: Target, at_hand: Piece) -> Self {
        Self { target, at_hand, windows: Windows::default() }
    }

    /// Fills `out` with the bytes from `offset` on; the twin of [`ReadAt::read_at`] with this
    /// crate's error.
    pub fn read(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        let len = self.target.len();
        let end = offset.saturating_add(out.len() as u64);
        if end > len {
            return Err(Error::new(
                self.target.name(),
                Detail::Outside { start: offset, end, len },
            ));
        }
        // What is at hand is not asked for again.
        let there = self.at_hand.beginning(offset, out.len());
        let (known, missing) = out.split_at_mut(there.len());
        known.copy_from_slice(there);
        let offset = offset.saturating_add(known.len() as u64);
        self.windows.read(offset, missing, &|offset, out| self.target.fetch(offset, out))
    }

    pub(crate) fn target(&self) -> &Target {
        &self.target
    }
}

impl ReadAt for RemoteFile {
    fn len(&self) -> u64 {
        self.target.len()
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> ggmill_core::Result<()> {
        self.read(offset, out).map_err(Into::into)
    }

    fn prefetch(&self, ranges: &[Range<u64>]) {
        self.windows.expect(ranges, self.target.len());
    }

    fn name(&self) -> Option<RawStr<'_>> {
        Some(RawStr::from(self.target.name()))
    }

    fn as_any(&self) -> Option<&dyn Any> {
        Some(self)
    }
}

impl fmt::Debug for RemoteFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { target, .. } = self;
        f.debug_struct("RemoteFile")
            .field("name", &target.name())
            .field("len", &target.len())
            .finish_non_exhaustive()
    }
}
