use alloc::borrow::Cow;
use alloc::vec::Vec;

use crate::bytes::Stop;
use crate::error::{Detail, Error, ErrorKind, Result};
use crate::limits::try_reserve;
use crate::read::{parser::Parser, truncated};
use crate::read_at::ReadAt;
use crate::{Header, Limits};

/// Bytes of the first read. Most headers without a vocabulary fit.
const FIRST_CHUNK: u64 = 64 << 10;

/// The maximum bytes of a read. A piece of this size stays in the processor's cache until it is copied
/// to the decoder, and touches few pages.
const LARGEST_CHUNK: u64 = 256 << 10;

/// A push parser of headers, for callers that read the file themselves, for example with positioned
/// reads, from a browser's `Blob` or over HTTP.
///
/// The caller feeds the file from its start in pieces of any size. The decoder returns how many bytes
/// it needs next, or that the header is complete; it does not need tensor data. The result does not
/// depend on the pieces and equals that of [`Header::parse`].
///
/// ```
/// # use ggmill_core::{Builder, Decoder, Limits, MetadataBuf, Progress};
/// # let mut metadata = MetadataBuf::new();
/// # metadata.set("general.architecture", "llama");
/// # let file = Builder::new().metadata(metadata).plan()?.header().to_vec();
/// let mut decoder = Decoder::new(Some(file.len() as u64), &Limits::default());
/// let mut read = 0;
/// while let Progress::Needs(end) = decoder.feed(&file[read..])? {
///     read = end as usize; // … fetch up to there, or further
/// #   unreachable!();
/// }
/// let header = decoder.finish()?;
/// assert_eq!(header.metadata().str("general.architecture")?, "llama");
/// # Ok::<(), ggmill_core::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Decoder {
    parser: Parser,
    header: Vec<u8>,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum State {
    Reading,
    Complete,
    Failed,
}

/// The progress of a [`Decoder`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "the header is complete or incomplete")]
pub enum Progress {
    /// The decoder needs at least this many bytes from the start of the file to continue. The caller may
    /// feed more.
    Needs(u64),
    /// The header is complete; [`Decoder::finish`] returns it.
    Complete,
}

impl Decoder {
    /// Creates a decoder for a file of `file_len` bytes, or of unknown length.
    ///
    /// Counts and tensor ranges are checked against the length. Without one they are not, and
    /// [`Header::file_len`] is `None`.
    pub fn new(file_len: Option<u64>, limits: &Limits) -> Self {
        Self { parser: Parser::new(limits, file_len), header: Vec::new(), state: State::Reading }
    }

    /// Parses the next bytes of the file and discards bytes after the header. After an error, further
    /// calls fail with [`ErrorKind::Misuse`].
    pub fn feed(&mut self, bytes: &[u8]) -> Result<Progress> {
        match self.state {
            State::Reading => {}
            State::Complete => return Ok(Progress::Complete),
            State::Failed => return Err(failed()),
        }
        // Bytes beyond the limit of the header are never parsed, so they are not copied.
        let room = self.parser.max_bytes().saturating_sub(self.position());
        let bytes = bytes.get(..usize::try_from(room).unwrap_or(usize::MAX)).unwrap_or(bytes);
        if let Err(error) = try_reserve(&mut self.header, bytes.len()) {
            self.state = State::Failed;
            return Err(error);
        }
        self.header.extend_from_slice(bytes);
        match self.parser.advance(&self.header) {
            Ok(()) => {
                self.state = State::Complete;
                self.header.truncate(usize::try_from(self.parser.position()).unwrap_or(usize::MAX));
                Ok(Progress::Complete)
            }
            Err(Stop::Need(end)) => Ok(Progress::Needs(end)),
            Err(Stop::Fail(error)) => {
                self.state = State::Failed;
                Err(error)
            }
        }
    }

    /// Reads the header from a source and feeds it, in pieces of increasing size. Memory grows with the
    /// bytes read, not with lengths that the file declares. Fails as [`feed`](Self::feed) does, and if
    /// the source cannot be read.
    ///
    /// ```
    /// use ggmill_core::{Decoder, Limits, ReadAt as _};
    /// let file = b"GGUF\x03\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0".to_vec();
    /// let mut decoder = Decoder::new(Some(file.len() as u64), &Limits::default());
    /// decoder.feed_from(&file)?;
    /// assert_eq!(decoder.finish()?.version(), 3);
    /// # Ok::<(), ggmill_core::Error>(())
    /// ```
    pub fn feed_from(&mut self, source: &dyn ReadAt) -> Result<()> {
        let (mut chunk, mut needs) = (FIRST_CHUNK, 0);
        let mut piece = Vec::new();
        while self.position() < source.len() {
            let rest = source.len().saturating_sub(self.position());
            let wanted =
                chunk.max(u64::saturating_sub(needs, self.position())).min(LARGEST_CHUNK).min(rest);
            let wanted = usize::try_from(wanted).unwrap_or(usize::MAX);
            let more = wanted.saturating_sub(piece.len());
            try_reserve(&mut piece, more)?;
            piece.resize(wanted, 0);
            source.read_at(self.position(), &mut piece)?;
            match self.feed(&piece)? {
                Progress::Needs(end) if end <= source.len() => needs = end,
                // The header is complete, or truncated, which `finish` reports.
                _ => break,
            }
            chunk = chunk.saturating_mul(2);
        }
        Ok(())
    }

    /// Returns `true` after the parser has failed, as opposed to a failed read.
    pub(crate) fn has_failed(&self) -> bool {
        self.state == State::Failed
    }

    /// Returns the offset in the file at which the next piece to feed begins.
    pub fn position(&self) -> u64 {
        self.header.len() as u64
    }

    /// Returns the parsed header with its bytes. Fails if the file ended within its header, and if the
    /// layout of the tensor data is invalid.
    pub fn finish(mut self) -> Result<Header<'static>> {
        match self.state {
            State::Complete => {}
            State::Failed => return Err(failed()),
            State::Reading => {
                self.parser.set_file_len(self.position());
                return Err(match self.parser.advance(&self.header) {
                    Err(Stop::Fail(error)) => error,
                    Err(Stop::Need(end)) => truncated(end, self.header.len() as u64),
                    Ok(()) => Error::new(ErrorKind::Misuse, Detail::Changed),
                });
            }
        }
        let index = self.parser.finish(&self.header, &mut Err)?;
        self.header.shrink_to_fit();
        Ok(Header::new(index, Cow::Owned(self.header), Vec::new()))
    }

    /// Returns the readable part of a damaged header with all its faults ([`Header::faults`]), for
    /// programs that examine damaged files.
    ///
    /// The header has the metadata entries and tensors before the offset at which parsing stopped. It
    /// also has tensors whose data is outside the file or overlaps other data, so the file is not valid
    /// if there are faults. Without faults the result equals that of [`finish`](Self::finish). Fails if
    /// the file does not begin like a GGUF file.
    ///
    /// ```
    /// use ggmill_core::{Decoder, ErrorKind, Limits};
    /// let cut = b"GGUF\x03\0\0\0\0\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0k\x08\0\0\0\x05\0\0\0\0\0\0\0";
    /// let mut decoder = Decoder::new(Some(cut.len() as u64), &Limits::default());
    /// let _ = decoder.feed(cut);
    /// let header = decoder.finish_damaged()?;
    /// assert_eq!((header.version(), header.metadata().len()), (3, 0));
    /// assert_eq!(header.faults()[0].kind(), ErrorKind::Truncated);
    /// # Ok::<(), ggmill_core::Error>(())
    /// ```
    pub fn finish_damaged(mut self) -> Result<Header<'static>> {
        let mut faults = Vec::new();
        if self.state == State::Reading {
            self.parser.set_file_len(self.position());
        }
        // A parser that has failed resumes at the fault, so it returns the same error again.
        match self.parser.advance(&self.header) {
            Ok(()) => {}
            Err(Stop::Fail(error)) => faults.push(error),
            Err(Stop::Need(end)) => faults.push(truncated(end, self.header.len() as u64)),
        }
        if !self.parser.has_version() {
            return Err(faults.pop().unwrap_or_else(failed));
        }
        self.header.truncate(usize::try_from(self.parser.position()).unwrap_or(usize::MAX));
        let is_complete = faults.is_empty();
        let index = self.parser.finish(&self.header, &mut |error| {
            // The data offset of an incomplete header is unknown, so faults of the layout are wrong.
            if is_complete {
                faults.push(error);
            }
            Ok(())
        })?;
        Ok(Header::new(index, Cow::Owned(self.header), faults))
    }
}

#[cold]
fn failed() -> Error {
    Error::new(ErrorKind::Misuse, Detail::Other("the decoder has already returned an error"))
}
