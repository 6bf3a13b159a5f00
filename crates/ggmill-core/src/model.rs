//! A model: one file, or the shards of a set as one.

use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use core::fmt;

use crate::error::{Detail, Error, ErrorKind, Result};
use crate::limits::try_reserve;
use crate::tensor::Directory;
use crate::{
    Decoder, Endian, Gguf, Index, Limits, Metadata, RawStr, ReadAt, Split, Tensor, Tensors, keys,
    swap_bytes,
};

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
    pub(crate) parts: Vec<Part>,
    /// The index of the first tensor of each part.
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
        Part::open(Arc::new(source), limits).map(Self::of_part)
    }

    /// Opens the readable part of a file that may be damaged or truncated. [`Part::faults`] has every
    /// reason for which [`Model::open`] would fail.
    ///
    /// If there are faults, tensor data can be outside the file or overlap. Fails if the file cannot be
    /// read or does not begin like a GGUF file.
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

    /// Creates a model from a header that a [`Decoder`] has read, with the faults of
    /// [`Decoder::salvage`]. Tensor data cannot be read unless [`Model::with_source`] sets a source.
    pub fn from_header(header: Gguf<Vec<u8>>, faults: Vec<Error>) -> Self {
        Self::of_part(Part::of_header(header, faults))
    }

    /// Sets the file that tensor data is read from, for a model of one file whose header was read
    /// separately, with a [`Decoder`].
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

    /// Creates a model from at least one part, in order.
    pub(crate) fn of_parts(parts: Vec<Part>) -> Self {
        let parts: Vec<Part> =
            parts.into_iter().enumerate().map(|(number, part)| part.with_number(number)).collect();
        let mut starts = Vec::with_capacity(parts.len());
        let mut tensors = 0usize;
        for part in &parts {
            starts.push(tensors);
            tensors = tensors.saturating_add(part.tensors().len());
        }
        Self { parts, starts, tensors }
    }

    /// Returns the files in the order of the shard numbers. There is at least one. [`Tensor::part`] is
    /// an index of this slice.
    pub fn parts(&self) -> &[Part] {
        &self.parts
    }

    /// Returns the first fault at which parsing a header stopped ([`Part::header_fault`]).
    pub fn header_fault(&self) -> Option<&Error> {
        self.parts.iter().find_map(Part::header_fault)
    }

    #[expect(clippy::indexing_slicing, reason = "a model has at least one part")]
    pub(crate) fn first(&self) -> &Part {
        &self.parts[0]
    }

    /// Returns the parsed header of the first file.
    pub fn index(&self) -> &Index {
        self.first().index()
    }

    /// Returns the metadata of the first file, which is the metadata of the model. Later shards have
    /// little more than their `split.*` keys.
    pub fn metadata(&self) -> Metadata<'_> {
        self.first().metadata()
    }

    /// Returns the byte order, which is the same in all files.
    pub fn endian(&self) -> Endian {
        self.first().endian()
    }

    /// Returns the tensors of all files in order.
    pub fn tensors(&self) -> Tensors<'_> {
        if self.parts.len() == 1 { self.first().tensors() } else { Tensors::of_files(self) }
    }

    /// Returns the tensor with this name. Fails with [`ErrorKind::Missing`] if there is none.
    pub fn tensor(&self, name: impl AsRef<[u8]>) -> Result<Tensor<'_>> {
        let name = name.as_ref();
        self.tensors()
            .get(name)
            .ok_or_else(|| Error::new(ErrorKind::Missing, Detail::TensorMissing).tensor(name))
    }

    /// Returns the total length of all files in bytes, if all lengths are known.
    pub fn file_len(&self) -> Option<u64> {
        self.parts.iter().try_fold(0u64, |sum, part| sum.checked_add(part.file_len()?))
    }

    /// Returns the faults of all files of a model that was opened with [`Model::salvage`].
    pub fn faults(&self) -> impl Iterator<Item = &Error> {
        self.parts.iter().flat_map(Part::faults)
    }

    /// Fails if a file has changed since it was opened, or if an edit of it was interrupted
    /// ([`ReadAt::verify`]). Code that reads much of a model calls this before it uses the result.
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

impl Model {
    /// Returns the data of a tensor of this model as little-endian blocks.
    ///
    /// Fails for an unknown type, for a retired type in a big-endian file whose blocks cannot be
    /// byte-swapped, and if the data cannot be read.
    pub fn read_tensor(&self, tensor: &Tensor<'_>) -> Result<Vec<u8>> {
        let size = tensor.known_size()?;
        if let Some(len) = self.parts().get(tensor.part()).and_then(Part::file_len)
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
        if before == 0 && whole == out.len() as u64 {
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

/// One file of a [`Model`]: its header, the source of its bytes, and its faults.
#[derive(Debug)]
pub struct Part {
    index: Index,
    /// The bytes of the header. `None` if the source is in memory.
    header: Option<Vec<u8>>,
    /// `None` if only the header is available.
    source: Option<Arc<dyn ReadAt>>,
    faults: Vec<Error>,
    number: usize,
}

impl Part {
    fn open(source: Arc<dyn ReadAt>, limits: &Limits) -> Result<Self> {
        if let Some(bytes) = source.as_slice() {
            let index = Index::parse(bytes, limits)?;
            return Ok(Self {
                index,
                header: None,
                source: Some(source),
                faults: Vec::new(),
                number: 0,
            });
        }
        let mut decoder = Decoder::new(Some(source.len()), limits);
        decoder.feed_from(&source)?;
        let (index, header) = decoder.finish()?.into_parts();
        Ok(Self {
            index,
            header: Some(header),
            source: Some(source),
            faults: Vec::new(),
            number: 0,
        })
    }

    fn salvage(source: Arc<dyn ReadAt>, limits: &Limits) -> Result<Self> {
        let mut decoder = Decoder::new(Some(source.len()), limits);
        match decoder.feed_from(&source) {
            // `Decoder::salvage` reports errors of the parser.
            Err(error) if !decoder.has_failed() => return Err(error),
            _ => {}
        }
        let (header, faults) = decoder.salvage()?;
        Ok(Self { source: Some(source), ..Self::of_header(header, faults) })
    }

    fn of_header(header: Gguf<Vec<u8>>, faults: Vec<Error>) -> Self {
        let (index, header) = header.into_parts();
        Self { index, header: Some(header), source: None, faults, number: 0 }
    }

    fn set_source(&mut self, source: Arc<dyn ReadAt>) {
        self.source = Some(source);
    }

    fn with_number(self, number: usize) -> Self {
        Self { number, ..self }
    }

    /// Returns the parsed header.
    pub fn index(&self) -> &Index {
        &self.index
    }

    /// Returns the bytes that the header was parsed from: the whole file if it is in memory, and
    /// otherwise the header.
    pub fn bytes(&self) -> &[u8] {
        let source = || self.source.as_ref()?.as_slice();
        self.header.as_deref().or_else(source).unwrap_or_default()
    }

    /// Returns the metadata of this file.
    pub fn metadata(&self) -> Metadata<'_> {
        self.index.metadata(self.bytes())
    }

    /// Returns the tensors of this file.
    pub fn tensors(&self) -> Tensors<'_> {
        Tensors::new(&self.index, self.bytes(), self.number)
    }

    /// Returns the position in a shard set, from the metadata. `None` for a file that is a whole model.
    pub fn split(&self) -> Result<Option<Split>> {
        Split::of(&self.metadata())
    }

    /// Returns the byte order.
    pub fn endian(&self) -> Endian {
        self.index.endian()
    }

    /// Returns the length of the file in bytes, or `None` if it is unknown, as for a header from a pipe.
    pub fn file_len(&self) -> Option<u64> {
        self.index.file_len()
    }

    /// Returns the source of the bytes, or `None` if the model was opened from a pipe, which provides
    /// only the header.
    pub fn source(&self) -> Option<&Arc<dyn ReadAt>> {
        self.source.as_ref()
    }

    /// Returns the name of the source ([`ReadAt::name`]).
    pub fn name(&self) -> Option<RawStr<'_>> {
        self.source.as_ref()?.name()
    }

    /// Returns the faults of a file that was opened with [`Model::salvage`], in the order of the file.
    pub fn faults(&self) -> &[Error] {
        &self.faults
    }

    /// Returns the fault at which parsing the header stopped. The rest of the header is unknown.
    pub fn header_fault(&self) -> Option<&Error> {
        // The faults of a complete header are those of the alignment and the layout, whose offsets
        // are before its end.
        let end = self.index.header_len();
        self.faults.first().filter(|fault| fault.offset().is_none_or(|offset| offset >= end))
    }

    /// Returns the minimum length in bytes that a truncated file needs, as far as known.
    pub fn needed_len(&self) -> Option<u64> {
        let is_truncated = |fault: &&Error| fault.kind() == ErrorKind::Truncated;
        let needed = self.faults.iter().filter(is_truncated).filter_map(Error::needed_length).max();
        let len = self.file_len()?;
        needed.filter(|&needed| needed > len)
    }

    /// Fails if the file has changed since it was opened, or if an edit of it was interrupted
    /// ([`ReadAt::verify`]).
    pub fn verify(&self) -> Result<()> {
        self.source.as_ref().map_or(Ok(()), ReadAt::verify)
    }

    /// Fills `out` with the bytes of the file from `offset` on.
    pub fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        match &self.source {
            Some(source) => source.read_at(offset, out),
            None if self.bytes().len() as u64 >= offset.saturating_add(out.len() as u64) => {
                self.bytes().read_at(offset, out)
            }
            None => {
                let detail = Detail::NotLoaded {
                    start: offset,
                    end: offset.saturating_add(out.len() as u64),
                    loaded: self.bytes().len() as u64,
                };
                Err(Error::new(ErrorKind::Misuse, detail))
            }
        }
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
