/// How much a header may ask for before it is refused with
/// [`ErrorKind::Limit`](crate::ErrorKind::Limit).
///
/// The defaults are on everywhere and far above any file seen in the world. They bound time and
/// memory beyond what the length of the file already bounds; "too big for me" is its own error
/// kind, so that it is never mistaken for "malformed".
///
/// ```
/// use ggmill_core::{Gguf, Limits};
/// let limits = Limits::default().with_dimensions(6);
/// let empty = b"GGUF\x03\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0";
/// assert_eq!(Gguf::parse_with(&empty[..], &limits)?.tensors().len(), 0);
/// # Ok::<(), ggmill_core::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// Metadata entries in one file.
    pub entries: u64,
    /// Tensors in one file.
    pub tensors: u64,
    /// Bytes of one string: keys, names, values, array elements. The C reader's limit is the same
    /// 1 GiB.
    pub string_bytes: u64,
    /// Elements of one array. The C reader's limit is the same 2³⁰.
    pub array_elements: u64,
    /// Arrays within arrays: 1 allows plain arrays only.
    pub array_depth: u32,
    /// Dimensions of one tensor, at most [`Shape::MAX_DIMENSIONS`](crate::Shape::MAX_DIMENSIONS).
    pub dimensions: u32,
    /// The alignment of tensor data: a file of a few bytes can ask for any, and a program that
    /// rewrites it pads to that.
    pub alignment: u32,
    /// Bytes before the tensor data. The largest known vocabularies take under 20 MiB; a reader
    /// that is not a memory map keeps so much in memory at most.
    pub header_bytes: u64,
}

impl Limits {
    /// Those of [`Default`].
    pub const DEFAULT: Self = Self {
        entries: 1 << 20,
        tensors: 1 << 20,
        string_bytes: 1 << 30,
        array_elements: 1 << 30,
        array_depth: 8,
        dimensions: 4,
        alignment: 1 << 24,
        header_bytes: 256 << 20,
    };

    /// With at most this many metadata entries.
    #[must_use]
    pub const fn with_entries(mut self, limit: u64) -> Self {
        self.entries = limit;
        self
    }

    /// With at most this many tensors.
    #[must_use]
    pub const fn with_tensors(mut self, limit: u64) -> Self {
        self.tensors = limit;
        self
    }

    /// With at most this many bytes of a string.
    #[must_use]
    pub const fn with_string_bytes(mut self, limit: u64) -> Self {
        self.string_bytes = limit;
        self
    }

    /// With at most this many elements of an array.
    #[must_use]
    pub const fn with_array_elements(mut self, limit: u64) -> Self {
        self.array_elements = limit;
        self
    }

    /// With at most this many levels of arrays within arrays.
    #[must_use]
    pub const fn with_array_depth(mut self, limit: u32) -> Self {
        self.array_depth = limit;
        self
    }

    /// With at most this many dimensions of a tensor.
    #[must_use]
    pub const fn with_dimensions(mut self, limit: u32) -> Self {
        self.dimensions = limit;
        self
    }

    /// With at most this alignment.
    #[must_use]
    pub const fn with_alignment(mut self, limit: u32) -> Self {
        self.alignment = limit;
        self
    }

    /// With at most this many bytes of a header.
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
