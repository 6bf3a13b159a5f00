use alloc::vec::Vec;

use crate::bytes::Encoding;
use crate::endian::Endian;
use crate::error::{Detail, Error, ErrorKind, Result};
use crate::write::encode::{put_length, put_string};
use crate::write::{MetadataBuf, Plan, PlannedTensor};
use crate::{Alignment, GgmlType, Shape, keys};

/// A file being declared: metadata and tensors first, in the order they will have.
/// [`Builder::plan`] lays it out.
///
/// The alignment is what `general.alignment` in the metadata says, 32 otherwise: one place for it.
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

/// The versions that are written.
#[derive(Clone, Copy, Debug, Default)]
enum Version {
    Two,
    #[default]
    Three,
}

impl Builder {
    /// An empty little-endian file of version 3.
    pub fn new() -> Self {
        Self::default()
    }

    /// Writes version 2 instead of 3, for readers from before October 2023.
    #[must_use]
    pub fn version_2(mut self) -> Self {
        self.version = Version::Two;
        self
    }

    /// Writes numbers of the header in this order. Tensor data is the caller's to write in the
    /// same.
    #[must_use]
    pub fn endian(mut self, endian: Endian) -> Self {
        self.endian = endian;
        self
    }

    /// The metadata, in order.
    #[must_use]
    pub fn metadata(mut self, metadata: MetadataBuf) -> Self {
        self.metadata = metadata;
        self
    }

    /// Pads the header up to the alignment even when no tensor follows, as the C library does and
    /// gguf's Python writer does not.
    #[must_use]
    pub fn pad_header(mut self) -> Self {
        self.pad_header = true;
        self
    }

    /// Declares the next tensor. Its data follow that of the tensors before it.
    #[must_use]
    pub fn tensor(mut self, name: impl AsRef<[u8]>, ggml_type: GgmlType, shape: Shape) -> Self {
        self.tensors.push((name.as_ref().to_vec(), ggml_type, shape));
        self
    }

    /// Lays the file out. Fails when `general.alignment` is not one, when a tensor's row length is
    /// not a multiple of its block size or the type has no known size, when two tensors share a
    /// name, and when a size exceeds 64 bits.
    pub fn plan(self) -> Result<Plan> {
        let encoding = Encoding { endian: self.endian, wide: true };
        let alignment = self.alignment()?;
        self.refuse_duplicates()?;

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

    fn refuse_duplicates(&self) -> Result<()> {
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

/// Bytes of a tensor's data.
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
