//! The parsed header of a file.

use alloc::borrow::Cow;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ops::Range;

use crate::bytes::Encoding;
use crate::error::{Detail, Error, ErrorKind, Result};
use crate::{
    Alignment, Decoder, Endian, GgmlType, Limits, Metadata, RawStr, ReadAt, Shape, Split, Tensor,
    Tensors, ValueType,
};

/// A range of header bytes that the parser has checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) start: u64,
    pub(crate) len: u64,
}

impl Span {
    pub(crate) fn new(range: Range<u64>) -> Self {
        Self { start: range.start, len: range.end.saturating_sub(range.start) }
    }

    /// Returns the bytes in the range, or no bytes if `bytes` has changed since it was parsed and is
    /// too short.
    pub(crate) fn of(self, bytes: &[u8]) -> &[u8] {
        let found = || {
            bytes.get(usize::try_from(self.start).ok()?..)?.get(..usize::try_from(self.len).ok()?)
        };
        found().unwrap_or_default()
    }
}

/// The ranges of a metadata entry.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct MetadataEntry {
    pub(crate) key: Span,
    pub(crate) value_type: ValueType,
    pub(crate) value: Span,
}

/// A tensor info, with the position and size of the data.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct TensorEntry {
    pub(crate) name: Span,
    pub(crate) shape: Shape,
    pub(crate) ggml_type: GgmlType,
    /// The offset of the tensor info in the file, for messages.
    pub(crate) info: u64,
    /// The offset of the data in the file.
    pub(crate) start: u64,
    /// The size of the data in bytes; `None` for an unknown type.
    pub(crate) size: Option<u64>,
}

/// The parsed and checked header without its bytes: entries and tensors as ranges, so parsing copies no
/// strings.
///
/// What is read through a range is checked again, because a mapped file can change: that results in
/// wrong values or an error, but never in an access outside the bytes.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Index {
    pub(crate) version: u32,
    pub(crate) encoding: Encoding,
    pub(crate) swapped_magic: bool,
    pub(crate) alignment: Alignment,
    pub(crate) entries: Vec<MetadataEntry>,
    /// Indices of `entries`, sorted by key and then by index.
    pub(crate) entries_by_key: Vec<u32>,
    pub(crate) tensors: Vec<TensorEntry>,
    /// Indices of `tensors`, sorted by name and then by index.
    pub(crate) tensors_by_name: Vec<u32>,
    pub(crate) header_len: u64,
    pub(crate) data_offset: u64,
    pub(crate) file_len: Option<u64>,
}

/// The parsed header of one file, with the source of its tensor data if there is one.
///
/// Its bytes can be borrowed, owned, or those of a source that is in memory. They can be the whole file
/// or only the header. A [`Model`](crate::Model) has a header for each of its files.
///
/// ```
/// # use ggmill_core::{Builder, GgmlType, Header, MetadataBuf, Shape};
/// # let mut metadata = MetadataBuf::new();
/// # metadata.set("general.architecture", "llama");
/// # let plan = Builder::new().metadata(metadata).tensor("token_embd.weight", GgmlType::F32, Shape::new(&[2, 3])?).plan()?;
/// # let mut file = plan.header().to_vec();
/// # file.extend([0; 24]);
/// let header = Header::parse(file)?;
/// println!("version {}, {}", header.version(), header.metadata().str("general.architecture")?);
/// for tensor in header.tensors() {
///     println!("{:<40} {:<8} {}", tensor.name(), tensor.ggml_type(), tensor.shape());
/// }
/// assert_eq!(header.tensor("token_embd.weight")?.row(2)?.len(), 8);
/// # Ok::<(), ggmill_core::Error>(())
/// ```
#[derive(Debug)]
pub struct Header<'a> {
    index: Index,
    /// `None` for the bytes of a source that is in memory.
    bytes: Option<Cow<'a, [u8]>>,
    source: Option<Arc<dyn ReadAt>>,
    faults: Vec<Error>,
    /// The index of the file in its model.
    pub(crate) number: usize,
}

impl<'a> Header<'a> {
    /// Parses a whole file with the default [`Limits`].
    pub fn parse(bytes: impl Into<Cow<'a, [u8]>>) -> Result<Self> {
        Self::parse_with(bytes, &Limits::default())
    }

    /// Parses a whole file.
    pub fn parse_with(bytes: impl Into<Cow<'a, [u8]>>, limits: &Limits) -> Result<Self> {
        let bytes = bytes.into();
        let index = Index::parse(&bytes, limits)?;
        Ok(Self::new(index, bytes, Vec::new()))
    }

    pub(crate) fn new(index: Index, bytes: Cow<'a, [u8]>, faults: Vec<Error>) -> Self {
        Self { index, bytes: Some(bytes), source: None, faults, number: 0 }
    }

    /// Sets the bytes that the header describes: the header, the whole file, or a memory map of it.
    pub fn with_bytes<'b>(self, bytes: impl Into<Cow<'b, [u8]>>) -> Header<'b> {
        Header { bytes: Some(bytes.into()), ..self }
    }

    /// Sets the file that tensor data is read from, for a header that was read separately, with a
    /// [`Decoder`].
    ///
    /// ```
    /// # use ggmill_core::{Builder, Decoder, GgmlType, Limits, Model, Shape};
    /// # let mut file = Builder::new().tensor("w", GgmlType::F32, Shape::new(&[2])?).plan()?.header().to_vec();
    /// # file.extend([7; 32]);
    /// let mut decoder = Decoder::new(Some(file.len() as u64), &Limits::default());
    /// decoder.feed(&file)?;
    /// let model = Model::from_header(decoder.finish()?.with_source(file));
    /// assert_eq!(model.read_tensor(&model.tensor("w")?)?, [7; 8]);
    /// # Ok::<(), ggmill_core::Error>(())
    /// ```
    #[must_use]
    pub fn with_source(self, source: impl ReadAt + 'static) -> Self {
        Self { source: Some(Arc::new(source)), ..self }
    }

    /// Returns the version of the format: 1, 2 or 3.
    pub fn version(&self) -> u32 {
        self.index.version
    }

    /// Returns the byte order, which the version field reveals.
    pub fn endian(&self) -> Endian {
        self.index.encoding.endian
    }

    /// Returns `true` if the file begins with `FUGG`, which some writers of big-endian files write.
    pub fn has_swapped_magic(&self) -> bool {
        self.index.swapped_magic
    }

    /// Returns the alignment of tensor data.
    pub fn alignment(&self) -> Alignment {
        self.index.alignment
    }

    /// Returns the length of the header in bytes, to the end of the last tensor info, without padding.
    pub fn header_len(&self) -> u64 {
        self.index.header_len
    }

    /// Returns the offset of the tensor data: the length of the header with padding. A file without
    /// tensors need not have the padding, and can then be shorter.
    pub fn data_offset(&self) -> u64 {
        self.index.data_offset
    }

    /// Returns the length of the file in bytes, or `None` if it was unknown when the header was parsed,
    /// as for a header from a pipe.
    pub fn file_len(&self) -> Option<u64> {
        self.index.file_len
    }

    /// Returns the length that a file with these tensors needs: to the end of the last tensor's data
    /// and padding, or of the header. `None` if a tensor has an unknown size, or if the length exceeds
    /// 64 bits.
    pub fn data_end(&self) -> Option<u64> {
        let mut ends =
            self.index.tensors.iter().map(|tensor| tensor.start.checked_add(tensor.size?));
        let end = ends.try_fold(self.index.header_len, |last, end| Some(last.max(end?)))?;
        self.index.alignment.align(end)
    }

    /// Returns the bytes that the header describes: the whole file if it is in memory, and otherwise
    /// the header.
    pub fn bytes(&self) -> &[u8] {
        let source = || self.source.as_ref()?.as_slice();
        self.bytes.as_deref().or_else(source).unwrap_or_default()
    }

    /// Returns the metadata.
    pub fn metadata(&self) -> Metadata<'_> {
        Metadata::new(&self.index, self.bytes())
    }

    /// Returns the tensors in the order of the file.
    pub fn tensors(&self) -> Tensors<'_> {
        Tensors::new(&self.index, self.bytes(), self.number)
    }

    /// Returns the tensor with this name. Fails with [`ErrorKind::Missing`] if there is none.
    pub fn tensor(&self, name: impl AsRef<[u8]>) -> Result<Tensor<'_>> {
        self.tensors().require(name.as_ref())
    }

    /// Returns the position in a shard set, from the metadata. `None` for a file that is a whole model.
    pub fn split(&self) -> Result<Option<Split>> {
        Split::of(&self.metadata())
    }

    /// Returns the source of tensor data, or `None` if only the bytes of the header are available.
    pub fn source(&self) -> Option<&Arc<dyn ReadAt>> {
        self.source.as_ref()
    }

    /// Returns the name of the source ([`ReadAt::name`]).
    pub fn name(&self) -> Option<RawStr<'_>> {
        self.source.as_ref()?.name()
    }

    /// Returns the faults of a damaged file ([`Model::open_damaged`](crate::Model::open_damaged)), in the
    /// order of the file.
    pub fn faults(&self) -> &[Error] {
        &self.faults
    }

    /// Removes the faults and returns them.
    pub fn take_faults(&mut self) -> Vec<Error> {
        core::mem::take(&mut self.faults)
    }

    /// Returns the fault at which parsing the header stopped. The rest of the header is unknown.
    pub fn header_fault(&self) -> Option<&Error> {
        // The faults of a complete header are those of the alignment and the layout, whose offsets
        // are before its end.
        let end = self.header_len();
        self.faults.first().filter(|fault| fault.offset().is_none_or(|offset| offset >= end))
    }

    /// Returns the minimum length in bytes that a truncated file needs, as far as known.
    pub fn needed_len(&self) -> Option<u64> {
        // The maximum: the first fault is that of the first missing tensor, not of the last.
        self.faults.iter().filter_map(Error::needed_length).max()
    }

    /// Fails if the file has changed since it was opened, or if an edit of it was interrupted
    /// ([`ReadAt::verify`]).
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

impl Header<'static> {
    /// Reads the header of a file.
    pub(crate) fn open(source: Arc<dyn ReadAt>, limits: &Limits) -> Result<Self> {
        if let Some(bytes) = source.as_slice() {
            let index = Index::parse(bytes, limits)?;
            return Ok(Self {
                index,
                bytes: None,
                source: Some(source),
                faults: Vec::new(),
                number: 0,
            });
        }
        let mut decoder = Decoder::new(Some(source.len()), limits);
        decoder.feed_from(&source)?;
        Ok(Self { source: Some(source), ..decoder.finish()? })
    }

    /// Reads the readable part of the header of a file that may be damaged.
    pub(crate) fn open_damaged(source: Arc<dyn ReadAt>, limits: &Limits) -> Result<Self> {
        let mut decoder = Decoder::new(Some(source.len()), limits);
        match decoder.feed_from(&source) {
            // `Decoder::finish_damaged` reports errors of the parser.
            Err(error) if !decoder.has_failed() => return Err(error),
            _ => {}
        }
        Ok(Self { source: Some(source), ..decoder.finish_damaged()? })
    }
}

impl PartialEq for Header<'_> {
    /// Compares the headers, not the tensor data, the sources or the faults.
    fn eq(&self, other: &Self) -> bool {
        let header = Span::new(0..self.index.header_len);
        self.index == other.index && header.of(self.bytes()) == header.of(other.bytes())
    }
}
