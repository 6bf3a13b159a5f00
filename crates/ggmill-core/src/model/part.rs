use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::error::{Detail, Error, ErrorKind, Result};
use crate::read_at::ReadAt;
use crate::{Decoder, Endian, Gguf, Index, Limits, Metadata, RawStr, Split, Tensors};

/// One file of a [`Model`](crate::Model): its header, where its bytes are read from, and what is
/// wrong with it.
#[derive(Debug)]
pub struct Part {
    index: Index,
    /// The bytes of the header. `None` where the source has all of its bytes in memory.
    header: Option<Vec<u8>>,
    /// `None` where only the header is at hand.
    source: Option<Arc<dyn ReadAt>>,
    faults: Vec<Error>,
    number: usize,
}

impl Part {
    pub(super) fn open(source: Arc<dyn ReadAt>, limits: &Limits) -> Result<Self> {
        if let Some(bytes) = source.as_slice() {
            let index = Index::parse(bytes, limits)?;
            return Ok(Self {
                index,
                header: None,
                source: Some(source),
                faults: Vec::new(),
                number: 0,
            });
        }
        let mut decoder = Decoder::new(Some(source.len()), limits);
        decoder.feed_from(&source)?;
        let (index, header) = decoder.finish()?.into_parts();
        Ok(Self {
            index,
            header: Some(header),
            source: Some(source),
            faults: Vec::new(),
            number: 0,
        })
    }

    pub(super) fn salvage(source: Arc<dyn ReadAt>, limits: &Limits) -> Result<Self> {
        let mut decoder = Decoder::new(Some(source.len()), limits);
        match decoder.feed_from(&source) {
            // What is refused the decoder says again.
            Err(error) if !decoder.has_refused() => return Err(error),
            _ => {}
        }
        let (header, faults) = decoder.salvage()?;
        Ok(Self { source: Some(source), ..Self::of_header(header, faults) })
    }

    pub(super) fn of_header(header: Gguf<Vec<u8>>, faults: Vec<Error>) -> Self {
        let (index, header) = header.into_parts();
        Self { index, header: Some(header), source: None, faults, number: 0 }
    }

    pub(super) fn set_source(&mut self, source: Arc<dyn ReadAt>) {
        self.source = Some(source);
    }

    pub(super) fn numbered(self, number: usize) -> Self {
        Self { number, ..self }
    }

    /// The parsed header.
    pub fn index(&self) -> &Index {
        &self.index
    }

    /// The bytes that the header was parsed from: those of the header, or all of the file where
    /// they are in memory.
    pub fn bytes(&self) -> &[u8] {
        let source = || self.source.as_ref()?.as_slice();
        self.header.as_deref().or_else(source).unwrap_or_default()
    }

    /// The metadata of this file.
    pub fn metadata(&self) -> Metadata<'_> {
        self.index.metadata(self.bytes())
    }

    /// The tensors of this file.
    pub fn tensors(&self) -> Tensors<'_> {
        Tensors::new(&self.index, self.bytes(), self.number)
    }

    /// The shard set of the file, by its metadata; `None` for a whole model.
    pub fn split(&self) -> Result<Option<Split>> {
        Split::of(&self.metadata())
    }

    /// The byte order.
    pub fn endian(&self) -> Endian {
        self.index.endian()
    }

    /// Bytes of the file, where they are known: not of one whose header came through a pipe.
    pub fn file_len(&self) -> Option<u64> {
        self.index.file_len()
    }

    /// Where the bytes are read from; `None` where only the header is at hand.
    pub fn source(&self) -> Option<&Arc<dyn ReadAt>> {
        self.source.as_ref()
    }

    /// A name for the file: that of its source.
    pub fn name(&self) -> Option<RawStr<'_>> {
        self.source.as_ref()?.name()
    }

    /// The faults of a file that was opened with [`Model::salvage`](super::Model::salvage), in
    /// the order of the file; none otherwise.
    pub fn faults(&self) -> &[Error] {
        &self.faults
    }

    /// The fault at which reading the header stopped: what comes after it in the header is not
    /// known.
    pub fn header_fault(&self) -> Option<&Error> {
        // A header that was read whole has faults of alignment and layout only, and those lie
        // before its end.
        let end = self.index.header_len();
        self.faults.first().filter(|fault| fault.offset().is_none_or(|offset| offset >= end))
    }

    /// For a file that ends too early: the least length in bytes it would need, as far as is known.
    pub fn needed_len(&self) -> Option<u64> {
        let is_truncated = |fault: &&Error| fault.kind() == ErrorKind::Truncated;
        let told = self.faults.iter().filter(is_truncated).filter_map(Error::needed_length).max();
        let len = self.file_len()?;
        told.filter(|&needed| needed > len)
    }

    /// Fails when the bytes are not those that were opened, or when an edit of the file was
    /// interrupted: [`ReadAt::verify`].
    pub fn verify(&self) -> Result<()> {
        self.source.as_ref().map_or(Ok(()), ReadAt::verify)
    }

    /// Fills `out` with the bytes of the file from `offset` on.
    pub fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        match &self.source {
            Some(source) => source.read_at(offset, out),
            None if self.bytes().len() as u64 >= offset.saturating_add(out.len() as u64) => {
                self.bytes().read_at(offset, out)
            }
            None => {
                let detail = Detail::NotLoaded {
                    start: offset,
                    end: offset.saturating_add(out.len() as u64),
                    loaded: self.bytes().len() as u64,
                };
                Err(Error::new(ErrorKind::Misuse, detail))
            }
        }
    }
}
