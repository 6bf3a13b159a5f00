//! The bytes of a pickle, read as far as they are needed.

use std::ops::Range;

use crate::{Error, ErrorKind, Result};
use ggmill_core::ByteSize;
use ggmill_io::RandomAccess;

/// Bytes of a pickle: the most that a header of safetensors may have.
const MAX_PICKLE: u64 = 100_000_000;

/// Bytes that are read at first; each time after that, twice as many.
const FIRST: u64 = 4096;

/// Where a text lies in the bytes of its pickle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Text {
    start: u32,
    len: u32,
}

impl Text {
    /// The bytes of the text among those of its pickle.
    pub(super) fn of(self, bytes: &[u8]) -> &[u8] {
        let start = self.start as usize;
        bytes.get(start..start.saturating_add(self.len as usize)).unwrap_or_default()
    }
}

/// A walk through the bytes of a file from some place on.
pub(super) struct Stream<'a> {
    file: &'a RandomAccess,
    /// Where in the file the bytes begin.
    start: u64,
    /// Where in the file there are no more.
    end: u64,
    bytes: Vec<u8>,
    at: usize,
}

impl<'a> Stream<'a> {
    pub(super) fn new(file: &'a RandomAccess, range: Range<u64>) -> Self {
        Self { file, start: range.start, end: range.end, bytes: Vec::new(), at: 0 }
    }

    /// Where in the file the next byte is.
    pub(super) fn offset(&self) -> u64 {
        self.start.saturating_add(self.at as u64)
    }

    /// All bytes that were read.
    pub(super) fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// All bytes that were read.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// An error about what is at `offset` in the file.
    #[cold]
    pub(super) fn fault(&self, offset: u64, message: impl std::fmt::Display) -> Error {
        let message = format!("offset {offset:#x}: {message}");
        Error::new(ErrorKind::Checkpoint, message).file(self.file.path())
    }

    /// The next bytes. Fails where the pickle ends before, or gets too long.
    pub(super) fn take(&mut self, len: u64) -> Result<Text> {
        let start = self.at as u64;
        let until = start.saturating_add(len);
        self.fill(until)?;
        // What has been read is shorter than the limit.
        self.at = usize::try_from(until).unwrap_or(usize::MAX);
        let [start, len] = [start, len].map(|number| u32::try_from(number).unwrap_or(u32::MAX));
        Ok(Text { start, len })
    }

    /// The next bytes as an array.
    pub(super) fn array<const LEN: usize>(&mut self) -> Result<[u8; LEN]> {
        let text = self.take(LEN as u64)?;
        Ok(text.of(&self.bytes).first_chunk().copied().unwrap_or([0; LEN]))
    }

    /// The bytes up to the end of the line, which is ignored.
    pub(super) fn line(&mut self) -> Result<Text> {
        /// Names of modules and functions are shorter.
        const MAX_LINE: u32 = 1024;
        let offset = self.offset();
        let start = u32::try_from(self.at).unwrap_or(u32::MAX);
        for len in 0..MAX_LINE {
            if self.array()? == *b"\n" {
                return Ok(Text { start, len });
            }
        }
        Err(self.fault(offset, format_args!("a name of more than {MAX_LINE} bytes")))
    }

    /// Reads this many bytes of the pickle.
    fn fill(&mut self, until: u64) -> Result<()> {
        let read = self.bytes.len() as u64;
        if until <= read {
            return Ok(());
        }
        let available = self.end.saturating_sub(self.start);
        if until > available {
            let end = self.end;
            let missing = until - available;
            return Err(self.fault(
                self.offset(),
                format_args!("the pickle ends at {end:#x}, {missing} bytes too early"),
            ));
        }
        if until > MAX_PICKLE {
            let most = ByteSize::from(MAX_PICKLE);
            let message = format_args!("the pickle has more than {most}, which is the limit");
            return Err(self.fault(self.offset(), message));
        }
        let wanted = until.max(FIRST).max(read.saturating_mul(2)).min(available).min(MAX_PICKLE);
        let more = usize::try_from(wanted - read).unwrap_or(usize::MAX);
        if self.bytes.try_reserve_exact(more).is_err() {
            let message =
                format!("not enough memory for the {} of the pickle", ByteSize::from(wanted));
            return Err(Error::new(ErrorKind::Memory, message).file(self.file.path()));
        }
        let filled = self.bytes.len();
        self.bytes.resize(filled.saturating_add(more), 0);
        let rest = self.bytes.get_mut(filled..).unwrap_or_default();
        Ok(self.file.read_at(self.start.saturating_add(read), rest)?)
    }
}
