//! Limits of a header, and allocation that fails with an error instead of aborting.

use alloc::vec::Vec;

use crate::error::{Detail, Error, ErrorKind, Result};

/// Upper bounds on a header. A header that exceeds one is rejected with [`ErrorKind::Limit`].
///
/// The defaults apply everywhere and are far above any known file. They bound time and memory
/// beyond what the length of the file already bounds. A valid file that is too large has its own
/// error kind, so that it is not reported as malformed.
///
/// ```
/// use ggmill_core::{Header, Limits};
/// let limits = Limits::default().with_dimensions(4);
/// let empty = b"GGUF\x03\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0";
/// assert_eq!(Header::parse_with(&empty[..], &limits)?.tensors().len(), 0);
/// # Ok::<(), ggmill_core::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// Metadata entries in one file.
    pub entries: u64,
    /// Tensors in one file.
    pub tensors: u64,
    /// Bytes of one string: keys, names, values, array elements. The default is the limit of the C
    /// reader, 1 GiB.
    pub string_bytes: u64,
    /// Elements of one array. The default is the limit of the C reader, 2³⁰.
    pub array_elements: u64,
    /// Nesting depth of arrays: 1 allows no arrays of arrays.
    pub array_depth: u32,
    /// Dimensions of one tensor, at most [`Shape::MAX_DIMENSIONS`](crate::Shape::MAX_DIMENSIONS), the default.
    /// Models of images and video have five; llama.cpp accepts four.
    pub dimensions: u32,
    /// The alignment of tensor data. A file of a few bytes can declare any alignment, and a program
    /// that rewrites the file pads to it.
    pub alignment: u32,
    /// Bytes before the tensor data. Also the most that a reader other than a memory map keeps in
    /// memory. The headers with the largest known vocabularies have less than 20 MiB.
    pub header_bytes: u64,
}

impl Limits {
    /// The default limits.
    pub const DEFAULT: Self = Self {
        entries: 1 << 20,
        tensors: 1 << 20,
        string_bytes: 1 << 30,
        array_elements: 1 << 30,
        array_depth: 8,
        dimensions: 8,
        alignment: 1 << 24,
        header_bytes: 256 << 20,
    };

    /// Sets the limit of metadata entries.
    #[must_use]
    pub const fn with_entries(mut self, limit: u64) -> Self {
        self.entries = limit;
        self
    }

    /// Sets the limit of tensors.
    #[must_use]
    pub const fn with_tensors(mut self, limit: u64) -> Self {
        self.tensors = limit;
        self
    }

    /// Sets the limit of bytes in a string.
    #[must_use]
    pub const fn with_string_bytes(mut self, limit: u64) -> Self {
        self.string_bytes = limit;
        self
    }

    /// Sets the limit of elements in an array.
    #[must_use]
    pub const fn with_array_elements(mut self, limit: u64) -> Self {
        self.array_elements = limit;
        self
    }

    /// Sets the limit of the nesting depth of arrays.
    #[must_use]
    pub const fn with_array_depth(mut self, limit: u32) -> Self {
        self.array_depth = limit;
        self
    }

    /// Sets the limit of dimensions of a tensor.
    #[must_use]
    pub const fn with_dimensions(mut self, limit: u32) -> Self {
        self.dimensions = limit;
        self
    }

    /// Sets the limit of the alignment.
    #[must_use]
    pub const fn with_alignment(mut self, limit: u32) -> Self {
        self.alignment = limit;
        self
    }

    /// Sets the limit of bytes in a header.
    #[must_use]
    pub const fn with_header_bytes(mut self, limit: u64) -> Self {
        self.header_bytes = limit;
        self
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// Reserves capacity for `more` elements, with amortized growth. Fails if there is not enough memory.
pub(crate) fn try_reserve<T>(vec: &mut Vec<T>, more: usize) -> Result<()> {
    vec.try_reserve(more).map_err(|_| {
        let bytes = vec.len().saturating_add(more).saturating_mul(size_of::<T>());
        Error::new(ErrorKind::Limit, Detail::Memory { bytes: bytes as u64 })
    })
}

/// Appends an element. Fails if there is not enough memory.
#[inline]
pub(crate) fn try_push<T>(vec: &mut Vec<T>, element: T) -> Result<()> {
    if vec.len() == vec.capacity() {
        try_reserve(vec, 1)?;
    }
    vec.push(element);
    Ok(())
}
