use alloc::vec::Vec;

use crate::bytes::Stop;
use crate::error::{Detail, Error, ErrorKind, Result};
use crate::read::{parser::Parser, truncated};
use crate::read_at::ReadAt;
use crate::{Gguf, Limits, memory};

/// The first piece of a header that is read. Most headers without a vocabulary fit.
const FIRST_CHUNK: u64 = 64 << 10;

/// The largest piece of a header that is read at once: it stays in the processor's cache on its way
/// to the decoder, and touches few pages.
const LARGEST_CHUNK: u64 = 256 << 10;

/// The header parser for those who do the reading themselves: positioned reads, a browser's `Blob`,
/// HTTP ranges.
///
/// Feed it the file from its start in pieces of any size; it says how many bytes it needs next, or
/// that the header is complete. It reads nothing by itself and asks for no tensor data. Whatever
/// the pieces, the answer is that of [`Gguf::parse`] on the whole.
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

/// How far a [`Decoder`] has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "there is no third")]
pub enum Progress {
    /// The header goes on: the first this many bytes of the file are needed before anything more
    /// can be said. Feeding more than that is welcome.
    Needs(u64),
    /// The header is complete; [`Decoder::finish`] has it.
    Complete,
}

impl Decoder {
    /// A decoder for a file of `file_len` bytes, or of a length not yet known.
    ///
    /// With a length, counts and tensor ranges are checked against it; without one they are not, and
    /// [`Gguf::index`] has no `file_len`.
    pub fn new(file_len: Option<u64>, limits: &Limits) -> Self {
        Self { parser: Parser::new(limits, file_len), header: Vec::new(), state: State::Reading }
    }

    /// Takes the next bytes of the file. What lies after the header is dropped. An error is the
    /// end: feeding more after it is [`ErrorKind::Misuse`].
    pub fn feed(&mut self, bytes: &[u8]) -> Result<Progress> {
        match self.state {
            State::Reading => {}
            State::Complete => return Ok(Progress::Complete),
            State::Failed => return Err(failed()),
        }
        // Only so much of it can ever be looked at.
        let room = self.parser.most_bytes().saturating_sub(self.position());
        let bytes = bytes.get(..usize::try_from(room).unwrap_or(usize::MAX)).unwrap_or(bytes);
        if let Err(error) = memory::reserve(&mut self.header, bytes.len()) {
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

    /// Feeds the header from a source, in growing pieces that it reads by position and never more
    /// than it has. Memory grows as bytes arrive, not as lengths in them promise. Fails as
    /// [`feed`](Self::feed) does, and when the source cannot be read.
    ///
    /// ```
    /// use ggmill_core::{Decoder, Limits, ReadAt as _};
    /// let file = b"GGUF\x03\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0".to_vec();
    /// let mut decoder = Decoder::new(Some(file.len() as u64), &Limits::default());
    /// decoder.feed_from(&file)?;
    /// assert_eq!(decoder.finish()?.index().version(), 3);
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
            memory::reserve(&mut piece, more)?;
            piece.resize(wanted, 0);
            source.read_at(self.position(), &mut piece)?;
            match self.feed(&piece)? {
                Progress::Needs(end) if end <= source.len() => needs = end,
                // Either it has all it needs, or what it needs is not there and `finish` says so.
                _ => break,
            }
            chunk = chunk.saturating_mul(2);
        }
        Ok(())
    }

    /// Whether it has refused what it was fed, rather than not been fed all of it.
    pub(crate) fn has_refused(&self) -> bool {
        self.state == State::Failed
    }

    /// Bytes of the file taken so far: the next piece to feed begins there.
    pub fn position(&self) -> u64 {
        self.header.len() as u64
    }

    /// The parsed header with its bytes. Fails when the file ended before its header did, and when
    /// its layout is bad.
    pub fn finish(mut self) -> Result<Gguf<Vec<u8>>> {
        match self.state {
            State::Complete => {}
            State::Failed => return Err(failed()),
            State::Reading => {
                self.parser.ends_at(self.position());
                return Err(match self.parser.advance(&self.header) {
                    Err(Stop::Fail(error)) => error,
                    Err(Stop::Need(end)) => truncated(end, self.header.len() as u64),
                    Ok(()) => Error::new(ErrorKind::Misuse, Detail::Changed),
                });
            }
        }
        let index = self.parser.finish(&self.header, &mut Err)?;
        self.header.shrink_to_fit();
        Ok(Gguf::from_parts(index, self.header))
    }

    /// The readable part of a file that is refused, with all its faults: for programs that examine
    /// damaged files.
    ///
    /// The metadata entries and tensors before the place where reading stopped are included. A
    /// tensor whose data lies outside the file or in another tensor is included too, so the file
    /// must not be considered valid if there are faults. Fails when the bytes are not those of a
    /// GGUF file at all. Without faults the answer is that of [`finish`](Self::finish).
    ///
    /// ```
    /// use ggmill_core::{Decoder, ErrorKind, Limits};
    /// let cut = b"GGUF\x03\0\0\0\0\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0k\x08\0\0\0\x05\0\0\0\0\0\0\0";
    /// let mut decoder = Decoder::new(Some(cut.len() as u64), &Limits::default());
    /// let _ = decoder.feed(cut);
    /// let (header, faults) = decoder.salvage()?;
    /// assert_eq!((header.index().version(), header.metadata().len()), (3, 0));
    /// assert_eq!(faults[0].kind(), ErrorKind::Truncated);
    /// # Ok::<(), ggmill_core::Error>(())
    /// ```
    pub fn salvage(mut self) -> Result<(Gguf<Vec<u8>>, Vec<Error>)> {
        let mut faults = Vec::new();
        if self.state == State::Reading {
            self.parser.ends_at(self.position());
        }
        // A parser that has stopped keeps its place, so it stops there again and says the same.
        match self.parser.advance(&self.header) {
            Ok(()) => {}
            Err(Stop::Fail(error)) => faults.push(error),
            Err(Stop::Need(end)) => faults.push(truncated(end, self.header.len() as u64)),
        }
        if !self.parser.knows_version() {
            return Err(faults.pop().unwrap_or_else(failed));
        }
        self.header.truncate(usize::try_from(self.parser.position()).unwrap_or(usize::MAX));
        let whole = faults.is_empty();
        let index = self.parser.finish(&self.header, &mut |error| {
            // Of a header that breaks off it is not known where its data begin.
            if whole {
                faults.push(error);
            }
            Ok(())
        })?;
        Ok((Gguf::from_parts(index, self.header), faults))
    }
}

#[cold]
fn failed() -> Error {
    Error::new(ErrorKind::Misuse, Detail::Other("the decoder has already returned an error"))
}
