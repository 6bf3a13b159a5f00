use alloc::vec::Vec;
use core::ops::Range;

use crate::bytes::Encoding;
use crate::endian::Endian;
use crate::{Alignment, GgmlType, Shape, ValueType};

/// A range of the header that the parser has checked against the bytes it saw.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) start: u64,
    pub(crate) len: u64,
}

impl Span {
    pub(crate) fn new(range: Range<u64>) -> Self {
        Self { start: range.start, len: range.end.saturating_sub(range.start) }
    }

    /// These bytes, or none of them when `bytes` are no longer the ones that were parsed.
    pub(crate) fn of(self, bytes: &[u8]) -> &[u8] {
        let found = || {
            bytes.get(usize::try_from(self.start).ok()?..)?.get(..usize::try_from(self.len).ok()?)
        };
        found().unwrap_or_default()
    }
}

/// One metadata entry: where its key and value are.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct MetadataEntry {
    pub(crate) key: Span,
    pub(crate) value_type: ValueType,
    pub(crate) value: Span,
}

/// One tensor: where its name is, what it is, and where its data lie.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct TensorEntry {
    pub(crate) name: Span,
    pub(crate) shape: Shape,
    pub(crate) ggml_type: GgmlType,
    /// Where the tensor info begins in the file, for messages.
    pub(crate) info: u64,
    /// Start of the data, counted from the start of the file.
    pub(crate) start: u64,
    /// Bytes of the data; `None` for an unknown type.
    pub(crate) size: Option<u64>,
}

/// Everything before the tensor data, parsed and checked: version, byte order, alignment, metadata
/// entries and the tensor directory.
///
/// It holds ranges into the bytes it was parsed from, not copies, so opening a file copies no
/// strings. The views it gives ([`Index::metadata`], [`Index::tensors`]) take those bytes and check
/// again what they read, because a mapped file can change; the worst a change can do is a wrong
/// answer or an error, never an access outside the bytes.
///
/// Most programs use [`Gguf`](crate::Gguf), which keeps an index and its bytes together.
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
    /// Numbers of `entries`, ordered by key, then by place.
    pub(crate) entries_by_key: Vec<u32>,
    pub(crate) tensors: Vec<TensorEntry>,
    /// Numbers of `tensors`, ordered by name, then by place.
    pub(crate) tensors_by_name: Vec<u32>,
    pub(crate) header_len: u64,
    pub(crate) data_offset: u64,
    pub(crate) file_len: Option<u64>,
}

impl Index {
    /// The version of the format: 1, 2 or 3.
    pub fn version(&self) -> u32 {
        self.version
    }

    /// The byte order, told by the version field.
    pub fn endian(&self) -> Endian {
        self.encoding.endian
    }

    /// Whether the file begins with `FUGG`, as some writers of big-endian files have it.
    pub fn has_swapped_magic(&self) -> bool {
        self.swapped_magic
    }

    /// The alignment of tensor data.
    pub fn alignment(&self) -> Alignment {
        self.alignment
    }

    /// Bytes of the header: everything up to the end of the last tensor info, without padding.
    pub fn header_len(&self) -> u64 {
        self.header_len
    }

    /// Where tensor data begins: the header, padded. A file without tensors has no such padding, so
    /// this may lie beyond its end.
    pub fn data_offset(&self) -> u64 {
        self.data_offset
    }

    /// The length of the file, where it was known.
    pub fn file_len(&self) -> Option<u64> {
        self.file_len
    }

    /// Where a file with these tensors ends: after the last of their data with its padding, or
    /// after the header. `None` when the size of one is not known, and beyond 64 bits.
    pub fn data_end(&self) -> Option<u64> {
        let mut ends = self.tensors.iter().map(|tensor| tensor.start.checked_add(tensor.size?));
        let end = ends.try_fold(self.header_len, |last, end| Some(last.max(end?)))?;
        self.alignment.align(end)
    }
}
