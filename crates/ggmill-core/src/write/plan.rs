use alloc::vec::Vec;

use crate::{Alignment, GgmlType, RawStr, Shape};

/// The exact layout of a file before any tensor data exists: the header as it will be written,
/// every offset, the final size.
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
    /// The header as it will be written, padding to the first tensor included.
    pub fn header(&self) -> &[u8] {
        &self.header
    }

    /// The tensors with their places, in order.
    pub fn tensors(&self) -> &[PlannedTensor] {
        &self.tensors
    }

    /// Where tensor data begins.
    pub fn data_offset(&self) -> u64 {
        self.header.len() as u64
    }

    /// The alignment of tensor data.
    pub fn alignment(&self) -> Alignment {
        self.alignment
    }

    /// The exact length of the file.
    pub fn total_len(&self) -> u64 {
        self.total_len
    }
}

/// A tensor with its place in a [`Plan`].
#[derive(Clone, Debug)]
pub struct PlannedTensor {
    pub(crate) name: Vec<u8>,
    pub(crate) ggml_type: GgmlType,
    pub(crate) shape: Shape,
    pub(crate) offset: u64,
    pub(crate) size: u64,
}

impl PlannedTensor {
    /// The name.
    pub fn name(&self) -> RawStr<'_> {
        RawStr::new(&self.name)
    }

    /// The type of the elements.
    pub fn ggml_type(&self) -> GgmlType {
        self.ggml_type
    }

    /// The dimensions in stored order.
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// Where the data will begin, counted from the start of the file.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Bytes of the data, without padding.
    pub fn size(&self) -> u64 {
        self.size
    }
}
