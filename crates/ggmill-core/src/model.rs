//! A model: one file, or the shards of a set as one.

use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use core::fmt;

use crate::error::{Detail, Error, ErrorKind, Result};
use crate::limits::try_reserve;
use crate::tensor::Directory;
use crate::{Endian, Header, Limits, Metadata, ReadAt, Tensor, Tensors, keys, swap_bytes};

/// A GGUF model from any source of bytes: one file, or all files of a shard set.
///
/// Headers are in memory; tensor data is read on demand. Several threads can share a model. Methods
/// return tensor data as little-endian blocks regardless of the byte order of the file, except those
/// with `raw` in their names, which return the bytes as stored.
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
    /// In the order of the shard numbers. Never empty.
    pub(crate) parts: Vec<Header<'static>>,
    /// The index of the first tensor of each file.
    starts: Vec<usize>,
    tensors: usize,
}

impl Model {
    /// Opens one file with the default [`Limits`]. Fails if it cannot be read or is not valid.
    pub fn open(source: impl ReadAt + 'static) -> Result<Self> {
        Self::open_with(source, &Limits::default())
    }

    /// Opens one file with custom limits.
    pub fn open_with(source: impl ReadAt + 'static, limits: &Limits) -> Result<Self> {
        Header::open(Arc::new(source), limits).map(Self::from_header)
    }

    /// Opens the readable part of a file that may be damaged or truncated. [`Header::faults`] has every
    /// reason for which [`Model::open`] would fail.
    ///
    /// If there are faults, tensor data can be outside the file or overlap. Fails if the file cannot be
    /// read or does not begin like a GGUF file.
    ///
    /// ```
    /// # let file = ggmill_core::Builder::new().tensor("w", ggmill_core::GgmlType::F32, ggmill_core::Shape::new(&[64])?).plan()?.header().to_vec();
    /// use ggmill_core::Model;
    /// let len = file.len() as u64;
    /// let model = Model::open_damaged(file)?;
    /// let part = &model.parts()[0];
    /// assert_eq!((model.tensors().len(), part.faults().len()), (1, 1));
    /// assert_eq!(part.needed_len(), Some(len + 256));
    /// # Ok::<(), ggmill_core::Error>(())
    /// ```
    pub fn open_damaged(source: impl ReadAt + 'static) -> Result<Self> {
        Header::open_damaged(Arc::new(source), &Limits::default()).map(Self::from_header)
    }

    /// Creates a model from the header of its only file. Tensor data can be read if it has a source
    /// ([`Header::with_source`]) or the bytes of the whole file.
    pub fn from_header(header: Header<'static>) -> Self {
        Self::of_parts(vec![header])
    }

    /// Creates a model from at least one part, in order.
    pub(crate) fn of_parts(mut parts: Vec<Header<'static>>) -> Self {
        let mut starts = Vec::with_capacity(parts.len());
        let mut tensors = 0usize;
        for (number, part) in parts.iter_mut().enumerate() {
            part.number = number;
            starts.push(tensors);
            tensors = tensors.saturating_add(part.tensors().len());
        }
        Self { parts, starts, tensors }
    }

    /// Returns the headers of the files in the order of the shard numbers. There is at least one.
    /// [`Tensor::part`] is an index of this slice.
    pub fn parts(&self) -> &[Header<'static>] {
        &self.parts
    }

    /// Returns the first fault at which parsing a header stopped ([`Header::header_fault`]).
    pub fn header_fault(&self) -> Option<&Error> {
        self.parts.iter().find_map(Header::header_fault)
    }

    /// Returns the header of the first file, whose metadata is the metadata of the model.
    #[expect(clippy::indexing_slicing, reason = "a model has at least one file")]
    pub fn header(&self) -> &Header<'static> {
        &self.parts[0]
    }

    /// Returns the metadata of the first file, which is the metadata of the model. Later shards have
    /// little more than their `split.*` keys.
    pub fn metadata(&self) -> Metadata<'_> {
        self.header().metadata()
    }

    /// Returns the byte order, which is the same in all files.
    pub fn endian(&self) -> Endian {
        self.header().endian()
    }

    /// Returns the tensors of all files in order.
    pub fn tensors(&self) -> Tensors<'_> {
        if self.parts.len() == 1 { self.header().tensors() } else { Tensors::of_files(self) }
    }

    /// Returns the tensor with this name. Fails with [`ErrorKind::Missing`] if there is none.
    pub fn tensor(&self, name: impl AsRef<[u8]>) -> Result<Tensor<'_>> {
        self.tensors().require(name.as_ref())
    }

    /// Returns the total length of all files in bytes, if all lengths are known.
    pub fn file_len(&self) -> Option<u64> {
        self.parts.iter().try_fold(0u64, |sum, part| sum.checked_add(part.file_len()?))
    }

    /// Returns the faults of all files of a model that was opened with [`Model::open_damaged`].
    pub fn faults(&self) -> impl Iterator<Item = &Error> {
        self.parts.iter().flat_map(Header::faults)
    }

    /// Fails if a file has changed since it was opened, or if an edit of it was interrupted
    /// ([`ReadAt::verify`]). Code that reads much of a model calls this before it uses the result.
    pub fn verify(&self) -> Result<()> {
        self.parts.iter().try_for_each(Header::verify)
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
        self.parts.get(part).map(Header::tensors)
    }
}

impl Model {
    /// Returns the data of a tensor of this model as little-endian blocks.
    ///
    /// Fails for an unknown type, for a retired type in a big-endian file whose blocks cannot be
    /// byte-swapped, and if the data cannot be read.
    pub fn read_tensor(&self, tensor: &Tensor<'_>) -> Result<Vec<u8>> {
        let size = tensor.known_size()?;
        if let Some(len) = self.parts().get(tensor.part()).and_then(Header::file_len)
            && tensor.offset().saturating_add(size) > len
            && size > 0
        {
            let detail = Detail::DataOutside {
                start: tensor.offset(),
                end: tensor.offset().saturating_add(size),
                file: len,
            };
            return Err(tensor.fail(ErrorKind::Truncated, detail));
        }
        let too_large = || tensor.fail(ErrorKind::Limit, Detail::Memory { bytes: size });
        let len = usize::try_from(size).map_err(|_| too_large())?;
        let mut data = Vec::new();
        data.try_reserve_exact(len).map_err(|_| too_large())?;
        data.resize(len, 0);
        self.read(tensor, 0, &mut data)?;
        Ok(data)
    }

    /// Fills `out` with the data of a tensor from byte `offset` on, as little-endian blocks. Fails as
    /// [`Model::read_tensor`] does, and if there is less data.
    pub fn read(&self, tensor: &Tensor<'_>, offset: u64, out: &mut [u8]) -> Result<()> {
        if tensor.endian() == Endian::Little {
            return self.read_raw(tensor, offset, out);
        }
        let with_tensor = |error: Error| error.at(tensor.offset()).tensor(tensor.name().as_bytes());
        let block = tensor.ggml_type().layout().map_or(1, |layout| u64::from(layout.bytes)).max(1);
        let before = offset.checked_rem(block).unwrap_or(0);
        let whole = before
            .saturating_add(out.len() as u64)
            .checked_next_multiple_of(block)
            .unwrap_or(u64::MAX);
        if whole == out.len() as u64 {
            self.read_raw(tensor, offset, out)?;
            return swap_bytes(tensor.ggml_type(), out).map_err(with_tensor);
        }
        // Swap all blocks that the range overlaps, then copy the range.
        let mut blocks = Vec::new();
        try_reserve(&mut blocks, usize::try_from(whole).unwrap_or(usize::MAX))?;
        blocks.resize(usize::try_from(whole).unwrap_or(usize::MAX), 0);
        check_range(tensor, offset, out.len())?;
        self.read_raw(tensor, offset.saturating_sub(before), &mut blocks)?;
        swap_bytes(tensor.ggml_type(), &mut blocks).map_err(with_tensor)?;
        let before = usize::try_from(before).unwrap_or(usize::MAX);
        let range = blocks.get(before..).and_then(|rest| rest.get(..out.len()));
        out.copy_from_slice(range.ok_or_else(|| tensor.fail(ErrorKind::Misuse, Detail::Changed))?);
        Ok(())
    }

    /// Fills `out` with the data of a tensor from byte `offset` on, in the byte order of the file.
    pub fn read_raw(&self, tensor: &Tensor<'_>, offset: u64, out: &mut [u8]) -> Result<()> {
        check_range(tensor, offset, out.len())?;
        if out.is_empty() {
            // No data is needed, so the offset need not be in the file.
            return Ok(());
        }
        let (part, parts) = (tensor.part(), self.parts().len());
        let part = self
            .parts()
            .get(part)
            .ok_or_else(|| tensor.fail(ErrorKind::Misuse, Detail::NoPart { part, parts }))?;
        part.read_at(tensor.offset().saturating_add(offset), out)
            .map_err(|error| error.tensor(tensor.name().as_bytes()))
    }
}

fn check_range(tensor: &Tensor<'_>, offset: u64, len: usize) -> Result<()> {
    let size = tensor.known_size()?;
    let end = offset.saturating_add(len as u64);
    if end > size {
        Err(tensor.fail(ErrorKind::Misuse, Detail::Place { end, size }))
    } else {
        Ok(())
    }
}

/// The message for a model without tensors, which cannot be loaded or run.
///
/// ```
/// # let mut metadata = ggmill_core::MetadataBuf::new();
/// # metadata.set("tokenizer.ggml.tokens", ["a", "b"].as_slice());
/// # let file = ggmill_core::Builder::new().metadata(metadata).plan()?.header().to_vec();
/// let model = ggmill_core::Model::open(file)?;
/// let found = ggmill_core::NoTensors::of(&model).ok_or("has none")?;
/// assert_eq!(found.to_string(), "the file has no tensors, only a vocabulary");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct NoTensors {
    /// If true, the file has a vocabulary.
    pub has_vocabulary: bool,
}

impl NoTensors {
    /// Returns `None` for a model with tensors.
    pub fn of(model: &Model) -> Option<Self> {
        let has_vocabulary = model.metadata().get(keys::TOKENIZER_TOKENS).is_some();
        model.tensors().is_empty().then_some(Self { has_vocabulary })
    }
}

impl fmt::Display for NoTensors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the file has no tensors")?;
        if self.has_vocabulary { f.write_str(", only a vocabulary") } else { Ok(()) }
    }
}
