//! A model: one file, or the shards of a set as one.

mod part;
mod read;
mod shards;

use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;

use crate::error::{Detail, Error, ErrorKind, Result};
use crate::read_at::ReadAt;
use crate::tensor::Directory;
use crate::{Endian, Gguf, Index, Limits, Metadata, Tensor, Tensors};

pub use part::Part;

/// A GGUF model over any source of bytes: one file, or the files of a set of shards seen as one.
///
/// Headers are in memory, tensor data is read by position when asked for; several threads may share
/// a model. Data come out in canonical form, blocks in little-endian order, regardless of the byte
/// order of the file; only methods with `raw` in their name give the bytes as they lie there.
///
/// ```
/// # use ggmill_core::{Builder, GgmlType, MetadataBuf, Shape};
/// # let mut metadata = MetadataBuf::new();
/// # metadata.set("general.architecture", "llama");
/// # let plan = Builder::new().metadata(metadata).tensor("output_norm.weight", GgmlType::F32, Shape::new(&[2])?).plan()?;
/// # let mut file = plan.header().to_vec();
/// # file.extend([0; 32]);
/// use ggmill_core::Model;
/// let model = Model::open(file)?;
/// println!("{}", model.metadata().str("general.architecture")?);
/// for tensor in model.tensors() {
///     println!("{:<40} {:<8} {}", tensor.name(), tensor.ggml_type(), tensor.shape());
/// }
/// assert_eq!(model.read_tensor(&model.tensor("output_norm.weight")?)?.len(), 8);
/// # Ok::<(), ggmill_core::Error>(())
/// ```
#[derive(Debug)]
pub struct Model {
    /// In the order of their numbers. Never empty.
    parts: Vec<Part>,
    /// For each part how many tensors are in those before it.
    starts: Vec<usize>,
    tensors: usize,
}

impl Model {
    /// Opens one file, with the default [`Limits`]. Fails when it cannot be read, and when its
    /// content is refused.
    pub fn open(source: impl ReadAt + 'static) -> Result<Self> {
        Self::open_with(source, &Limits::default())
    }

    /// [`Model::open`] with custom limits.
    pub fn open_with(source: impl ReadAt + 'static, limits: &Limits) -> Result<Self> {
        Part::open(Arc::new(source), limits).map(Self::of_part)
    }

    /// Opens what can be known of a file that may be broken or cut short, with everything that
    /// [`Model::open`] would refuse it for: [`Part::faults`].
    ///
    /// With faults, tensors can lie outside the file or in each other. Fails when the file cannot
    /// be read, and when it is not GGUF at all.
    ///
    /// ```
    /// # let file = ggmill_core::Builder::new().tensor("w", ggmill_core::GgmlType::F32, ggmill_core::Shape::new(&[64])?).plan()?.header().to_vec();
    /// use ggmill_core::Model;
    /// let len = file.len() as u64;
    /// let model = Model::salvage(file)?;
    /// let part = &model.parts()[0];
    /// assert_eq!((model.tensors().len(), part.faults().len()), (1, 1));
    /// assert_eq!(part.needed_len(), Some(len + 256));
    /// # Ok::<(), ggmill_core::Error>(())
    /// ```
    pub fn salvage(source: impl ReadAt + 'static) -> Result<Self> {
        Part::salvage(Arc::new(source), &Limits::default()).map(Self::of_part)
    }

    /// A header alone, as a [`Decoder`](crate::Decoder) has read it, with its faults where it was
    /// salvaged. Its tensor data cannot be read.
    pub fn from_header(header: Gguf<Vec<u8>>, faults: Vec<Error>) -> Self {
        Self::of_part(Part::of_header(header, faults))
    }

    /// Sets the file that tensor data is read from, for a model of one file whose header was read
    /// separately: with a [`Decoder`](crate::Decoder) that the caller feeds.
    ///
    /// Fails with [`ErrorKind::Misuse`] for a model of several files, each of which needs its own
    /// source: set it before [`Model::from_shards`].
    ///
    /// ```
    /// # use ggmill_core::{Builder, Decoder, GgmlType, Limits, Model, Shape};
    /// # let mut file = Builder::new().tensor("w", GgmlType::F32, Shape::new(&[2])?).plan()?.header().to_vec();
    /// # file.extend([7; 32]);
    /// let mut decoder = Decoder::new(Some(file.len() as u64), &Limits::default());
    /// decoder.feed(&file)?;
    /// let model = Model::from_header(decoder.finish()?, Vec::new()).with_source(file)?;
    /// assert_eq!(model.read_tensor(&model.tensor("w")?)?, [7; 8]);
    /// # Ok::<(), ggmill_core::Error>(())
    /// ```
    pub fn with_source(mut self, source: impl ReadAt + 'static) -> Result<Self> {
        let [part] = &mut *self.parts else {
            let parts = self.parts.len();
            return Err(Error::new(ErrorKind::Misuse, Detail::OneSource { parts }));
        };
        part.set_source(Arc::new(source));
        Ok(self)
    }

    fn of_part(part: Part) -> Self {
        Self::of_parts(vec![part])
    }

    /// Parts in order, of which there is at least one.
    fn of_parts(parts: Vec<Part>) -> Self {
        let parts: Vec<Part> =
            parts.into_iter().enumerate().map(|(number, part)| part.numbered(number)).collect();
        let mut starts = Vec::with_capacity(parts.len());
        let mut tensors = 0usize;
        for part in &parts {
            starts.push(tensors);
            tensors = tensors.saturating_add(part.tensors().len());
        }
        Self { parts, starts, tensors }
    }

    /// The files, in the order of their numbers; never none. [`Tensor::part`] is a place in this
    /// slice.
    pub fn parts(&self) -> &[Part] {
        &self.parts
    }

    /// The first fault at which reading a header stopped, as [`Part::header_fault`] has it.
    pub fn header_fault(&self) -> Option<&Error> {
        self.parts.iter().find_map(Part::header_fault)
    }

    #[expect(clippy::indexing_slicing, reason = "a model is made of at least one part")]
    fn first(&self) -> &Part {
        &self.parts[0]
    }

    /// The parsed header of the first file.
    pub fn index(&self) -> &Index {
        self.first().index()
    }

    /// The metadata of the first file, which is where a model's are. Those of later shards hold
    /// little but their place in the set.
    pub fn metadata(&self) -> Metadata<'_> {
        self.first().metadata()
    }

    /// The byte order, the same in all files.
    pub fn endian(&self) -> Endian {
        self.first().endian()
    }

    /// The tensors of all files, in order.
    pub fn tensors(&self) -> Tensors<'_> {
        if self.parts.len() == 1 { self.first().tensors() } else { Tensors::of_files(self) }
    }

    /// The tensor with this name.
    pub fn tensor(&self, name: impl AsRef<[u8]>) -> Result<Tensor<'_>> {
        let name = name.as_ref();
        self.tensors()
            .get(name)
            .ok_or_else(|| Error::new(ErrorKind::Missing, Detail::TensorMissing).tensor(name))
    }

    /// Bytes of all files together, where all lengths are known.
    pub fn file_len(&self) -> Option<u64> {
        self.parts.iter().try_fold(0u64, |sum, part| sum.checked_add(part.file_len()?))
    }

    /// The faults of a model that was opened with [`Model::salvage`].
    pub fn faults(&self) -> impl Iterator<Item = &Error> {
        self.parts.iter().flat_map(Part::faults)
    }

    /// Fails when the bytes of a file are no longer those that were opened, or when an edit of one
    /// was interrupted: [`ReadAt::verify`]. Code that has read much of a model calls this last,
    /// and before it trusts in what it read.
    pub fn verify(&self) -> Result<()> {
        self.parts.iter().try_for_each(Part::verify)
    }
}

impl Directory for Model {
    fn starts(&self) -> &[usize] {
        &self.starts
    }

    fn count(&self) -> usize {
        self.tensors
    }

    fn part(&self, part: usize) -> Option<Tensors<'_>> {
        self.parts.get(part).map(Part::tensors)
    }
}
