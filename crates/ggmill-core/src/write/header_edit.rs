//! A new header for a file whose metadata changes while its tensors keep their offsets.

use alloc::vec;
use alloc::vec::Vec;

use crate::error::{Detail, Error, ErrorKind, Result};
use crate::write::{Builder, MetadataBuf, ToValue};
use crate::{Alignment, Decoder, Header, Limits, keys};

/// The key whose value fills the space between a header and the data: the reserved space.
const FILLER: &str = keys::GGMILL_PADDING;
/// Bytes of an entry with that key without its value: key length, key, type.
const ENTRY: u64 = 8 + FILLER.len() as u64 + 4;
/// Bytes of an entry whose value is an empty array of bytes.
const FILLER_ARRAY: u64 = ENTRY + 4 + 8;
/// Bytes of an entry whose value is a single byte, for which less space is needed.
const FILLER_BYTE: u64 = ENTRY + 1;

/// Creates new headers for a file whose metadata changes while its tensors keep their offsets relative
/// to the data: the new header, followed by everything after the old one.
///
/// ```
/// # use ggmill_core::{Builder, GgmlType, Shape};
/// # let mut metadata = MetadataBuf::new();
/// # metadata.set("general.architecture", "llama");
/// # let plan = Builder::new().metadata(metadata).tensor("w", GgmlType::F32, Shape::new(&[2])?).plan()?;
/// # let mut file = plan.header().to_vec();
/// # file.extend([7; 32]);
/// use ggmill_core::{HeaderEdit, MetadataBuf, Model};
/// let model = Model::open(file.clone())?;
/// let edit = HeaderEdit::of(&model.parts()[0]);
/// let mut metadata = MetadataBuf::copy_of(&model.metadata())?;
/// metadata.set("general.name", "Tiny");
/// let mut edited = edit.padded(&metadata)?;
/// edited.extend(&file[edit.replaced_len() as usize..]);
/// let edited = Model::open(edited)?;
/// assert_eq!(edited.metadata().str("general.name")?, "Tiny");
/// assert_eq!(edited.read_tensor(&edited.tensor("w")?)?, [7; 8]);
/// # Ok::<(), ggmill_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct HeaderEdit<'a> {
    file: &'a Header<'a>,
    bytes: &'a [u8],
    /// The offset of the tensor infos, which are copied byte for byte.
    infos: usize,
    replaced_len: u64,
    unit: u64,
}

/// A header of a requested length.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FilledHeader {
    /// The header, padding included.
    pub bytes: Vec<u8>,
    /// The number of zeros in `ggmill.padding`; `None` if the header does not have the key.
    pub filler: Option<u64>,
}

impl<'a> HeaderEdit<'a> {
    /// Starts an edit of the header of a file.
    pub fn of(file: &'a Header<'a>) -> Self {
        let header_len = usize::try_from(file.header_len()).unwrap_or(usize::MAX);
        let bytes = file.bytes();
        let wide = if file.version() == 1 { 16 } else { 24 };
        let infos = file.metadata().iter().next_back().map_or(wide, |entry| {
            entry.value_offset().saturating_add(entry.value_bytes().len() as u64)
        });
        // A file without tensors needs no padding, and often does not have it.
        let padded = !file.tensors().is_empty()
            || file.file_len().is_some_and(|len| len >= file.data_offset());
        let (replaced_len, unit) = if padded {
            (file.data_offset(), u64::from(file.alignment().get()))
        } else {
            (file.header_len(), 1)
        };
        Self {
            file,
            bytes: bytes.get(..header_len).unwrap_or(bytes),
            infos: usize::try_from(infos).unwrap_or(usize::MAX),
            replaced_len,
            unit,
        }
    }

    /// Returns the bytes of the current header without padding.
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Returns the number of bytes at the beginning of the file that a new header replaces: the header
    /// and its padding.
    pub fn replaced_len(&self) -> u64 {
        self.replaced_len
    }

    /// Returns the offset of the tensor infos.
    pub fn tensor_infos_offset(&self) -> u64 {
        self.infos as u64
    }

    /// Returns the number of which the length of a new header must be a multiple.
    pub fn unit(&self) -> u64 {
        self.unit
    }

    /// Returns the reason why the tensors cannot keep their offsets with this metadata, or `None` if
    /// they can. Fails if the alignment in the metadata is invalid.
    pub fn obstacle(&self, metadata: &MetadataBuf) -> Result<Option<&'static str>> {
        if self.file.version() == 1 {
            return Ok(Some("version 1 is written as version 3"));
        }
        let alignment = match metadata.get(keys::GENERAL_ALIGNMENT) {
            None => Alignment::DEFAULT,
            Some(value) => Alignment::new(value.as_u64().unwrap_or(0))?,
        };
        let moved = alignment != self.file.alignment() && !self.file.tensors().is_empty();
        Ok(moved.then_some("the alignment changes"))
    }

    /// Returns the header with new metadata and unchanged tensor infos, without padding.
    pub fn compose(&self, metadata: &MetadataBuf) -> Result<Vec<u8>> {
        let builder =
            if self.file.version() == 2 { Builder::new().version_2() } else { Builder::new() };
        let plan = builder.endian(self.file.endian()).metadata(metadata.clone()).plan()?;
        let mut header = plan.header().to_vec();
        // Magic, version and the number of tensors, which was not declared to the builder.
        if let (Some(beginning), Some(kept)) = (header.get_mut(..16), self.bytes.get(..16)) {
            beginning.copy_from_slice(kept);
        }
        header.extend_from_slice(self.bytes.get(self.infos..).unwrap_or_default());
        Ok(header)
    }

    /// Returns the header with the minimum padding.
    pub fn padded(&self, metadata: &MetadataBuf) -> Result<Vec<u8>> {
        let mut header = self.compose(metadata)?;
        let too_large =
            || Error::new(ErrorKind::Misuse, Detail::Other("the header would exceed 64 bits"));
        let len =
            (header.len() as u64).checked_next_multiple_of(self.unit).ok_or_else(too_large)?;
        header.resize(usize::try_from(len).map_err(|_| too_large())?, 0);
        Ok(header)
    }

    /// Returns a header of exactly `target` bytes, extended by padding or by the key `ggmill.padding`.
    /// Returns `None` if the header is longer, or if the difference is too large for padding and too
    /// small for the key. `len` is the length of [`HeaderEdit::compose`]'s result.
    pub fn filled(
        &self,
        metadata: &MetadataBuf,
        len: u64,
        target: u64,
    ) -> Result<Option<FilledHeader>> {
        let Some(slack) = target.checked_sub(len) else { return Ok(None) };
        let zeros = slack.checked_sub(FILLER_ARRAY).filter(|&zeros| zeros > 0);
        let (mut bytes, filler) = if slack < self.unit {
            (self.compose(metadata)?, None)
        } else if let Some(zeros) = zeros {
            let value = vec![0u8; usize::try_from(zeros).unwrap_or(usize::MAX)];
            (self.compose(&with_filler(metadata, value))?, Some(zeros))
        } else if (FILLER_BYTE..FILLER_BYTE.saturating_add(self.unit)).contains(&slack) {
            (self.compose(&with_filler(metadata, 0u8))?, Some(1))
        } else {
            return Ok(None);
        };
        bytes.resize(usize::try_from(target).unwrap_or(usize::MAX), 0);
        Ok(Some(FilledHeader { bytes, filler }))
    }

    /// Returns the length that [`HeaderEdit::filled`] needs for an array of `zeros` zeros in
    /// `ggmill.padding`.
    pub fn len_with_room(len: u64, zeros: u64) -> Option<u64> {
        len.checked_add(FILLER_ARRAY)?.checked_add(zeros)
    }

    /// Returns `true` if `header`, in a file of `new_len` bytes, keeps every tensor at its offset
    /// relative to the data. Fails if `header` does not parse.
    pub fn preserves_tensor_offsets(&self, header: &[u8], new_len: u64) -> Result<bool> {
        let mut decoder = Decoder::new(Some(new_len), &Limits::default());
        decoder.feed(header)?;
        let new = decoder.finish()?;
        let old_start = self.file.data_offset();
        let same = new.tensors().len() == self.file.tensors().len()
            && new.tensors().iter().zip(self.file.tensors()).all(|(new_tensor, old)| {
                new_tensor.name().as_bytes() == old.name().as_bytes()
                    && new_tensor.ggml_type() == old.ggml_type()
                    && new_tensor.shape() == old.shape()
                    && new_tensor.offset().checked_sub(new.data_offset())
                        == old.offset().checked_sub(old_start)
            });
        let placed = self.file.tensors().is_empty() || new.data_offset() == header.len() as u64;
        Ok(same && placed && new.endian() == self.file.endian())
    }
}

fn with_filler(metadata: &MetadataBuf, value: impl ToValue) -> MetadataBuf {
    let mut filled = metadata.clone();
    filled.set(FILLER, value);
    filled
}
