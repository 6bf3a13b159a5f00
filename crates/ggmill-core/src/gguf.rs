//! The parsed header of a file, alone and together with the bytes it describes.

use alloc::vec::Vec;
use core::ops::Range;

use crate::bytes::Encoding;
use crate::error::{Detail, Error, ErrorKind, Result};
use crate::{Alignment, Endian, GgmlType, Limits, Metadata, Shape, Tensor, Tensors, ValueType};

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

/// The parsed and checked header: version, byte order, alignment, metadata entries and tensor infos.
///
/// It has ranges of the bytes that it was parsed from, not copies, so opening a file copies no
/// strings. [`Index::metadata`] and [`Index::tensors`] take these bytes and check again what they
/// read, because a mapped file can change: that results in wrong values or an error, but never in an
/// access outside the bytes.
///
/// Most programs use a [`Model`](crate::Model) or a [`Gguf`], which contain an index with its bytes.
///
/// ```
/// use ggmill_core::{Index, Limits};
/// let bytes = b"GGUF\x03\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0";
/// let index = Index::parse(bytes, &Limits::default())?;
/// assert_eq!((index.version(), index.header_len()), (3, 24));
/// # Ok::<(), ggmill_core::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Index {
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

impl Index {
    /// Returns the version of the format: 1, 2 or 3.
    pub fn version(&self) -> u32 {
        self.version
    }

    /// Returns the byte order, which the version field reveals.
    pub fn endian(&self) -> Endian {
        self.encoding.endian
    }

    /// Returns `true` if the file begins with `FUGG`, which some writers of big-endian files write.
    pub fn has_swapped_magic(&self) -> bool {
        self.swapped_magic
    }

    /// Returns the alignment of tensor data.
    pub fn alignment(&self) -> Alignment {
        self.alignment
    }

    /// Returns the length of the header in bytes, to the end of the last tensor info, without padding.
    pub fn header_len(&self) -> u64 {
        self.header_len
    }

    /// Returns the offset of the tensor data: the length of the header with padding. A file without
    /// tensors need not have the padding, and can then be shorter.
    pub fn data_offset(&self) -> u64 {
        self.data_offset
    }

    /// Returns the length of the file in bytes, if it was known when the header was parsed.
    pub fn file_len(&self) -> Option<u64> {
        self.file_len
    }

    /// Returns the length that a file with these tensors needs: to the end of the last tensor's data
    /// and padding, or of the header. `None` if a tensor has an unknown size, or if the length exceeds
    /// 64 bits.
    pub fn data_end(&self) -> Option<u64> {
        let mut ends = self.tensors.iter().map(|tensor| tensor.start.checked_add(tensor.size?));
        let end = ends.try_fold(self.header_len, |last, end| Some(last.max(end?)))?;
        self.alignment.align(end)
    }

    /// Returns a view of the metadata in `bytes`, from which the index was parsed. The first
    /// [`Index::header_len`] bytes are sufficient.
    pub fn metadata<'a>(&'a self, bytes: &'a [u8]) -> Metadata<'a> {
        Metadata::new(self, bytes)
    }

    /// Returns a view of the tensors in `bytes`, from which the index was parsed. The first
    /// [`Index::header_len`] bytes are sufficient for everything but tensor data.
    pub fn tensors<'a>(&'a self, bytes: &'a [u8]) -> Tensors<'a> {
        Tensors::new(self, bytes, 0)
    }
}

/// A GGUF file in memory, or the header of one: an [`Index`] and the bytes it was parsed from, which
/// can be a slice, a `Vec<u8>` or a memory map.
///
/// ```
/// # use ggmill_core::{Builder, Gguf, GgmlType, MetadataBuf, Shape};
/// # let mut metadata = MetadataBuf::new();
/// # metadata.set("general.architecture", "llama");
/// # let plan = Builder::new().metadata(metadata).tensor("token_embd.weight", GgmlType::F32, Shape::new(&[2, 3])?).plan()?;
/// # let mut file = plan.header().to_vec();
/// # file.extend([0; 24]);
/// let model = Gguf::parse(file)?;
/// println!("{}", model.metadata().str("general.architecture")?);
/// for tensor in model.tensors() {
///     println!("{:<40} {:<8} {}", tensor.name(), tensor.ggml_type(), tensor.shape());
/// }
/// assert_eq!(model.tensor("token_embd.weight")?.row(2)?.len(), 8);
/// # Ok::<(), ggmill_core::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Gguf<B> {
    index: Index,
    bytes: B,
}

impl<B: AsRef<[u8]>> Gguf<B> {
    /// Parses a whole file with the default [`Limits`].
    pub fn parse(bytes: B) -> Result<Self> {
        Self::parse_with(bytes, &Limits::default())
    }

    /// Parses a whole file.
    pub fn parse_with(bytes: B, limits: &Limits) -> Result<Self> {
        let index = Index::parse(bytes.as_ref(), limits)?;
        Ok(Self { index, bytes })
    }

    /// Combines an index with the bytes that it describes: the header that a
    /// [`Decoder`](crate::Decoder) has read, or a memory map of the file.
    pub fn from_parts(index: Index, bytes: B) -> Self {
        Self { index, bytes }
    }

    /// Returns the parsed header.
    pub fn index(&self) -> &Index {
        &self.index
    }

    /// Returns the bytes of the file or of the header.
    pub fn bytes(&self) -> &[u8] {
        self.bytes.as_ref()
    }

    /// Returns the metadata.
    pub fn metadata(&self) -> Metadata<'_> {
        self.index.metadata(self.bytes())
    }

    /// Returns the tensors in the order of the file.
    pub fn tensors(&self) -> Tensors<'_> {
        self.index.tensors(self.bytes())
    }

    /// Returns the tensor with this name. Fails with [`ErrorKind::Missing`] if there is none.
    pub fn tensor(&self, name: impl AsRef<[u8]>) -> Result<Tensor<'_>> {
        let name = name.as_ref();
        self.tensors()
            .get(name)
            .ok_or_else(|| Error::new(ErrorKind::Missing, Detail::TensorMissing).tensor(name))
    }

    /// Returns the index and the bytes separately.
    pub fn into_parts(self) -> (Index, B) {
        (self.index, self.bytes)
    }
}
