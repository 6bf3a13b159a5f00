use crate::error::{Detail, Error, ErrorKind, Result};
use crate::{Index, Limits, Metadata, Tensor, Tensors};

/// A GGUF file in memory: an [`Index`] and the bytes it describes, which may be a slice, a
/// `Vec<u8>` or a memory map.
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

    /// Joins an index to bytes it describes: a header that a [`Decoder`](crate::Decoder) has read,
    /// or a map of the file.
    pub fn from_parts(index: Index, bytes: B) -> Self {
        Self { index, bytes }
    }

    /// The parsed header.
    pub fn index(&self) -> &Index {
        &self.index
    }

    /// The bytes the file was opened from.
    pub fn bytes(&self) -> &[u8] {
        self.bytes.as_ref()
    }

    /// The metadata.
    pub fn metadata(&self) -> Metadata<'_> {
        self.index.metadata(self.bytes())
    }

    /// The tensors, in the order of the file.
    pub fn tensors(&self) -> Tensors<'_> {
        self.index.tensors(self.bytes())
    }

    /// The tensor with this name.
    pub fn tensor(&self, name: &str) -> Result<Tensor<'_>> {
        self.tensors().get(name).ok_or_else(|| {
            Error::new(ErrorKind::Missing, Detail::TensorMissing).tensor(name.as_bytes())
        })
    }

    /// The index and the bytes, apart.
    pub fn into_parts(self) -> (Index, B) {
        (self.index, self.bytes)
    }
}
