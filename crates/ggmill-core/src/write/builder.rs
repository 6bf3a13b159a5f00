//! Laying out a file: from declared metadata and tensors to the header and every offset.

use alloc::vec::Vec;

use super::metadata::{MetadataBuf, put_length, put_string};
use crate::bytes::Encoding;
use crate::error::{Detail, Error, ErrorKind, Result};
use crate::{Alignment, Endian, GgmlType, RawStr, Shape, keys};

/// The declaration of a file: metadata and tensors in the order of the file. [`Builder::plan`] computes
/// the layout.
///
/// The alignment is `general.alignment` of the metadata, 32 by default.
///
/// ```
/// use ggmill_core::{Builder, GgmlType, MetadataBuf, Shape};
/// let mut metadata = MetadataBuf::new();
/// metadata.set("general.architecture", "llama");
/// let plan = Builder::new()
///     .metadata(metadata)
///     .tensor("token_embd.weight", GgmlType::F16, Shape::new(&[64, 512])?)
///     .plan()?;
/// assert_eq!(plan.total_len(), plan.data_offset() + 64 * 512 * 2);
/// # Ok::<(), ggmill_core::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Builder {
    version: Version,
    endian: Endian,
    metadata: MetadataBuf,
    tensors: Vec<(Vec<u8>, GgmlType, Shape)>,
    pad_header: bool,
}

/// The versions that can be written.
#[derive(Clone, Copy, Debug, Default)]
enum Version {
    Two,
    #[default]
    Three,
}

impl Builder {
    /// Creates a declaration of an empty little-endian file of version 3.
    pub fn new() -> Self {
        Self::default()
    }

    /// Writes version 2 instead of 3, for readers from before October 2023.
    #[must_use]
    pub fn version_2(mut self) -> Self {
        self.version = Version::Two;
        self
    }

    /// Sets the byte order of the header. The caller writes tensor data in the same byte order.
    #[must_use]
    pub fn endian(mut self, endian: Endian) -> Self {
        self.endian = endian;
        self
    }

    /// Sets the metadata.
    #[must_use]
    pub fn metadata(mut self, metadata: MetadataBuf) -> Self {
        self.metadata = metadata;
        self
    }

    /// Pads the header to the alignment even if there are no tensors, as the C library does but gguf-py
    /// does not.
    #[must_use]
    pub fn pad_header(mut self) -> Self {
        self.pad_header = true;
        self
    }

    /// Declares the next tensor. Its data follows that of the previous tensor.
    #[must_use]
    pub fn tensor(mut self, name: impl AsRef<[u8]>, ggml_type: GgmlType, shape: Shape) -> Self {
        self.tensors.push((name.as_ref().to_vec(), ggml_type, shape));
        self
    }

    /// Computes the layout. Fails if `general.alignment` is invalid, if a tensor's row length is not a
    /// multiple of the block size, if a tensor type is unknown, if two tensors have the same name, or if
    /// a size exceeds 64 bits.
    pub fn plan(self) -> Result<Plan> {
        let encoding = Encoding { endian: self.endian, wide: true };
        let alignment = self.alignment()?;
        self.reject_duplicates()?;

        let mut header = Vec::new();
        header.extend_from_slice(b"GGUF");
        let version = match self.version {
            Version::Two => 2,
            Version::Three => 3,
        };
        self.endian.put_u32(version, &mut header);
        put_length(self.tensors.len() as u64, encoding, &mut header);
        put_length(self.metadata.len() as u64, encoding, &mut header);
        self.metadata.encode(encoding, &mut header);

        let too_large =
            || Error::new(ErrorKind::Misuse, Detail::Other("the file would exceed 64 bits"));
        let mut tensors = Vec::with_capacity(self.tensors.len());
        let mut offset = 0u64;
        for (name, ggml_type, shape) in self.tensors {
            let size = data_size(ggml_type, &shape).map_err(|error| error.tensor(&name))?;
            put_string(&name, encoding, &mut header);
            self.endian
                .put_u32(u32::try_from(shape.dimensions().len()).unwrap_or(u32::MAX), &mut header);
            for &dimension in shape.dimensions() {
                self.endian.put_u64(dimension, &mut header);
            }
            self.endian.put_u32(ggml_type.0, &mut header);
            self.endian.put_u64(offset, &mut header);
            let end = offset
                .checked_add(size)
                .and_then(|end| alignment.align(end))
                .ok_or_else(too_large)?;
            tensors.push(PlannedTensor { name, ggml_type, shape, offset, size });
            offset = end;
        }

        let data_offset = if tensors.is_empty() && !self.pad_header {
            header.len() as u64
        } else {
            alignment.align(header.len() as u64).ok_or_else(too_large)?
        };
        header.resize(usize::try_from(data_offset).map_err(|_| too_large())?, 0);
        for tensor in &mut tensors {
            tensor.offset = tensor.offset.checked_add(data_offset).ok_or_else(too_large)?;
        }
        let total_len = data_offset.checked_add(offset).ok_or_else(too_large)?;
        Ok(Plan { header, tensors, alignment, total_len })
    }

    fn alignment(&self) -> Result<Alignment> {
        let Some(value) = self.metadata.get(keys::GENERAL_ALIGNMENT) else {
            return Ok(Alignment::DEFAULT);
        };
        let found = value.as_u64().ok_or_else(|| {
            Error::new(ErrorKind::WrongType, Detail::AlignmentType { found: value.value_type() })
        });
        found
            .and_then(Alignment::new)
            .map_err(|error| error.key(keys::GENERAL_ALIGNMENT.as_bytes()))
    }

    fn reject_duplicates(&self) -> Result<()> {
        let mut names: Vec<&[u8]> = self.tensors.iter().map(|tensor| tensor.0.as_slice()).collect();
        names.sort_unstable();
        for pair in names.windows(2) {
            if let [first, second] = pair
                && first == second
            {
                return Err(Error::new(
                    ErrorKind::Misuse,
                    Detail::Other("two tensors have this name"),
                )
                .tensor(second));
            }
        }
        Ok(())
    }
}

/// Returns the size of a tensor's data in bytes.
fn data_size(ggml_type: GgmlType, shape: &Shape) -> Result<u64> {
    let layout = ggml_type.layout().ok_or_else(|| {
        Error::new(ErrorKind::Unsupported, Detail::UnknownTensorType { found: ggml_type })
    })?;
    let row = shape.row_len();
    if shape.elements() > 0 && !row.is_multiple_of(u64::from(layout.elements)) {
        return Err(Error::new(
            ErrorKind::Malformed,
            Detail::RowNotBlocks { row, ggml_type, block: layout.elements },
        ));
    }
    layout
        .bytes_for(shape.elements())
        .ok_or_else(|| Error::new(ErrorKind::Malformed, Detail::Bytes { ggml_type }))
}

/// The layout of a file before any tensor data is written: the header, every offset, the length.
///
/// ```
/// use ggmill_core::{Builder, GgmlType, Shape};
/// let plan = Builder::new().tensor("a", GgmlType::F32, Shape::new(&[3])?).tensor("b", GgmlType::F32, Shape::new(&[3])?).plan()?;
/// let offsets: Vec<u64> = plan.tensors().iter().map(|tensor| tensor.offset() - plan.data_offset()).collect();
/// assert_eq!(offsets, [0, 32]);
/// assert_eq!(plan.total_len(), plan.data_offset() + 64);
/// # Ok::<(), ggmill_core::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Plan {
    pub(crate) header: Vec<u8>,
    pub(crate) tensors: Vec<PlannedTensor>,
    pub(crate) alignment: Alignment,
    pub(crate) total_len: u64,
}

impl Plan {
    /// Returns the header, including the padding before the first tensor.
    pub fn header(&self) -> &[u8] {
        &self.header
    }

    /// Returns the tensors with their offsets, in order.
    pub fn tensors(&self) -> &[PlannedTensor] {
        &self.tensors
    }

    /// Returns the offset of the tensor data.
    pub fn data_offset(&self) -> u64 {
        self.header.len() as u64
    }

    /// Returns the alignment of tensor data.
    pub fn alignment(&self) -> Alignment {
        self.alignment
    }

    /// Returns the length of the file in bytes.
    pub fn total_len(&self) -> u64 {
        self.total_len
    }
}

/// A tensor with its offset in a [`Plan`].
#[derive(Clone, Debug)]
pub struct PlannedTensor {
    pub(crate) name: Vec<u8>,
    pub(crate) ggml_type: GgmlType,
    pub(crate) shape: Shape,
    pub(crate) offset: u64,
    pub(crate) size: u64,
}

impl PlannedTensor {
    /// Returns the name.
    pub fn name(&self) -> RawStr<'_> {
        RawStr::new(&self.name)
    }

    /// Returns the tensor type.
    pub fn ggml_type(&self) -> GgmlType {
        self.ggml_type
    }

    /// Returns the dimensions in stored order.
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// Returns the offset of the data in the file.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Returns the size of the data in bytes, without padding.
    pub fn size(&self) -> u64 {
        self.size
    }
}
