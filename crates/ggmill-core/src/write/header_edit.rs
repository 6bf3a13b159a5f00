//! The header of a file with other metadata, and its tensors where they are.

use alloc::vec;
use alloc::vec::Vec;

use crate::error::{Detail, Error, ErrorKind, Result};
use crate::write::{Builder, MetadataBuf, ToValue};
use crate::{Alignment, Decoder, Limits, Part, keys};

/// The key that fills the room between a header and the data: edits in place write it.
const FILLER: &str = keys::GGMILL_PADDING;
/// Bytes of an entry with that key besides its value: the lengths of the key and the type.
const PAIR: u64 = 8 + FILLER.len() as u64 + 4;
/// The filler as an array of bytes, without its elements.
const FILLER_ARRAY: u64 = PAIR + 4 + 8;
/// The filler as a single byte, where an array has no room.
const FILLER_BYTE: u64 = PAIR + 1;

/// The header of a file whose metadata is to change while its tensors keep their places: an edit
/// is a new header, and everything after the old one as it is.
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
    file: &'a Part,
    bytes: &'a [u8],
    /// Where the tensor infos begin, byte for byte kept.
    infos: usize,
    replaced_len: u64,
    unit: u64,
}

/// A header of a wanted length.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FilledHeader {
    /// The header, padding included.
    pub bytes: Vec<u8>,
    /// Bytes of zeros that the filler (`ggmill.padding`) holds; `None` without one.
    pub filler: Option<u64>,
}

impl<'a> HeaderEdit<'a> {
    /// The header of this file.
    pub fn of(file: &'a Part) -> Self {
        let index = file.index();
        let header_len = usize::try_from(index.header_len()).unwrap_or(usize::MAX);
        let bytes = file.bytes();
        let wide = if index.version() == 1 { 16 } else { 24 };
        let infos = file.metadata().iter().next_back().map_or(wide, |entry| {
            entry.value_offset().saturating_add(entry.value_bytes().len() as u64)
        });
        // A file without tensors needs no padding, and often has none.
        let padded = !file.tensors().is_empty()
            || file.file_len().is_some_and(|len| len >= index.data_offset());
        let (replaced_len, unit) = if padded {
            (index.data_offset(), u64::from(index.alignment().get()))
        } else {
            (index.header_len(), 1)
        };
        Self {
            file,
            bytes: bytes.get(..header_len).unwrap_or(bytes),
            infos: usize::try_from(infos).unwrap_or(usize::MAX),
            replaced_len,
            unit,
        }
    }

    /// The bytes of the header without its padding.
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Bytes at the beginning of the file that the new header takes the place of: the header and
    /// its padding.
    pub fn replaced_len(&self) -> u64 {
        self.replaced_len
    }

    /// Where the tensor infos begin.
    pub fn tensor_infos_offset(&self) -> u64 {
        self.infos as u64
    }

    /// The length of a new header is a multiple of this.
    pub fn unit(&self) -> u64 {
        self.unit
    }

    /// Why the tensors cannot keep their places with these metadata; `None` where they can. Fails
    /// when the alignment in them is not one.
    pub fn obstacle(&self, metadata: &MetadataBuf) -> Result<Option<&'static str>> {
        if self.file.index().version() == 1 {
            return Ok(Some("version 1 is written as version 3"));
        }
        let alignment = match metadata.get(keys::GENERAL_ALIGNMENT) {
            None => Alignment::DEFAULT,
            Some(value) => Alignment::new(value.as_u64().unwrap_or(0))?,
        };
        let moved = alignment != self.file.index().alignment() && !self.file.tensors().is_empty();
        Ok(moved.then_some("the alignment changes"))
    }

    /// The header without its padding: the beginning and the tensor infos as they are, the metadata
    /// as given.
    pub fn compose(&self, metadata: &MetadataBuf) -> Result<Vec<u8>> {
        let index = self.file.index();
        let builder =
            if index.version() == 2 { Builder::new().version_2() } else { Builder::new() };
        let plan = builder.endian(index.endian()).metadata(metadata.clone()).plan()?;
        let mut header = plan.header().to_vec();
        // Magic, version and the number of tensors: what the builder was not told.
        if let (Some(beginning), Some(kept)) = (header.get_mut(..16), self.bytes.get(..16)) {
            beginning.copy_from_slice(kept);
        }
        header.extend_from_slice(self.bytes.get(self.infos..).unwrap_or_default());
        Ok(header)
    }

    /// The header with the padding that it needs and no more.
    pub fn padded(&self, metadata: &MetadataBuf) -> Result<Vec<u8>> {
        let mut header = self.compose(metadata)?;
        let too_large =
            || Error::new(ErrorKind::Misuse, Detail::Other("the header would exceed 64 bits"));
        let len =
            (header.len() as u64).checked_next_multiple_of(self.unit).ok_or_else(too_large)?;
        header.resize(usize::try_from(len).map_err(|_| too_large())?, 0);
        Ok(header)
    }

    /// The header with exactly `target` bytes, by padding or with the filler; `None` when it is
    /// longer, or shorter by too little for the filler. `len` is that of [`HeaderEdit::compose`].
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

    /// The least target that [`HeaderEdit::filled`] reaches with an array of so many zeros.
    pub fn len_with_room(len: u64, zeros: u64) -> Option<u64> {
        len.checked_add(FILLER_ARRAY)?.checked_add(zeros)
    }

    /// Whether a new header, in a file of this length, reads, and places every tensor where it is.
    /// Fails when it does not read.
    pub fn leads_to_the_tensors(&self, header: &[u8], new_len: u64) -> Result<bool> {
        let mut decoder = Decoder::new(Some(new_len), &Limits::default());
        decoder.feed(header)?;
        let new = decoder.finish()?;
        let old_start = self.file.index().data_offset();
        let same = new.tensors().len() == self.file.tensors().len()
            && new.tensors().iter().zip(self.file.tensors()).all(|(new_tensor, old)| {
                new_tensor.name().as_bytes() == old.name().as_bytes()
                    && new_tensor.ggml_type() == old.ggml_type()
                    && new_tensor.shape() == old.shape()
                    && new_tensor.offset().checked_sub(new.index().data_offset())
                        == old.offset().checked_sub(old_start)
            });
        let placed =
            self.file.tensors().is_empty() || new.index().data_offset() == header.len() as u64;
        Ok(same && placed && new.index().endian() == self.file.index().endian())
    }
}

fn with_filler(metadata: &MetadataBuf, value: impl ToValue) -> MetadataBuf {
    let mut filled = metadata.clone();
    filled.set(FILLER, value);
    filled
}
