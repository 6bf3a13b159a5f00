//! Sources of tensors: GGUF files, memory, concatenated and computed sources. Those of other file
//! formats are in [`formats`](crate::formats). Plans and runs use only the [`Checkpoint`] trait.

use std::collections::BTreeMap;
use std::fmt::{self, Debug};
use std::path::Path;
use std::sync::Arc;

use ggmill_core::{ByteSize, Endian, GgmlType, Metadata, Model, RawStr, Shape, Tensor};
use ggmill_io::{Directory, RandomAccess};
use serde_json::Value;

use crate::error::{Error, ErrorKind, Result};
use crate::expression::{Evaluator, Expression, read_by};
use crate::recipe::RecipeTensor;

/// A set of tensors with their bytes.
pub trait Checkpoint: Debug + Sync {
    /// Returns the tensors, in the order in which they are written.
    fn tensors(&self) -> &[SourceTensor];

    /// Fills `out` with the data of tensor `number` from byte `offset` on, in little-endian order.
    /// Must be callable from several threads at once.
    fn read(&self, number: usize, offset: u64, out: &mut [u8]) -> Result<()>;

    /// Returns the name of tensor `number` in the source that recipes are run with. It differs from
    /// the name in [`Checkpoint::tensors`] for a view that renames tensors.
    fn stored_name(&self, number: usize) -> Option<&[u8]> {
        Some(&self.tensors().get(number)?.name)
    }

    /// Announces tensors that will be read soon, so that a remote source can request several at
    /// once.
    fn prefetch(&self, numbers: &[usize]) {
        let _ = numbers;
    }

    /// Returns where an open file contains the data of tensor `number` unchanged, so that the
    /// kernel can copy an unchanged tensor between files.
    fn range(&self, number: usize) -> Option<FileRange<'_>> {
        let _ = number;
        None
    }

    /// Returns the open files of the source.
    fn sources(&self) -> Vec<&RandomAccess> {
        Vec::new()
    }

    /// Fails if a file changed since it was opened, or if an edit of it was interrupted. Code that
    /// reads much of a source calls this before and after, because a change in between mixes old
    /// and new bytes.
    fn verify(&self) -> Result<()> {
        Ok(self.sources().into_iter().try_for_each(RandomAccess::verify)?)
    }
}

/// The location of one tensor's data in a file.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct FileRange<'a> {
    /// The file.
    pub file: &'a RandomAccess,
    /// The offset of the data in the file.
    pub offset: u64,
    /// The byte order in the file. [`Checkpoint::read`] always returns little-endian data.
    pub endian: Endian,
}

impl<'a> FileRange<'a> {
    /// Creates a location.
    pub fn new(file: &'a RandomAccess, offset: u64, endian: Endian) -> Self {
        Self { file, offset, endian }
    }
}

/// A checkpoint of a training framework: weights with a configuration.
pub trait Pretrained: Checkpoint {
    /// Returns the hyperparameters: the content of `config.json`.
    fn config(&self) -> &serde_json::Value;

    /// Returns the name of the checkpoint, usually that of its directory.
    fn name(&self) -> Option<&str>;

    /// Returns the files other than weights: tokenizer, generation configuration, ….
    fn side_files(&self) -> &dyn SideFiles;

    /// Returns notes about how the weights were found, one sentence each.
    fn notes(&self) -> &[String] {
        &[]
    }
}

/// A tensor of a [`Checkpoint`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SourceTensor {
    /// Its name in the checkpoint: bytes, as a name in a GGUF file need not be UTF-8.
    pub name: Vec<u8>,
    /// The type of its elements.
    pub ggml_type: GgmlType,
    /// Its dimensions in stored order, fastest first: the reverse of PyTorch's order.
    pub shape: Shape,
    /// The name of a type that GGML does not have, in the format of the source. Then `ggml_type` is
    /// the integer type of the same size, [`Expression::tensor`] refuses the tensor, and
    /// [`Expression::stored`] gives its bytes to a decoder.
    ///
    /// [`Expression::tensor`]: crate::Expression::tensor
    /// [`Expression::stored`]: crate::Expression::stored
    pub stored_type: Option<&'static str>,
}

impl SourceTensor {
    /// Creates a tensor.
    pub fn new(name: impl Into<Vec<u8>>, ggml_type: GgmlType, shape: Shape) -> Self {
        Self { name: name.into(), ggml_type, shape, stored_type: None }
    }

    /// Sets [`stored_type`](Self::stored_type), for a type that GGML does not have.
    #[must_use]
    pub fn with_stored_type(self, name: &'static str) -> Self {
        Self { stored_type: Some(name), ..self }
    }

    /// Returns the name of its element type in the source.
    pub fn type_name(&self) -> String {
        self.stored_type.map_or_else(|| self.ggml_type.to_string(), str::to_owned)
    }

    /// Returns its name, escaped for display.
    pub fn name(&self) -> RawStr<'_> {
        RawStr::new(&self.name)
    }
}

/// The files of a checkpoint other than weights, by name: `tokenizer.json`,
/// `generation_config.json`, ….
///
/// A name is that of a file, or `DIRECTORY/FILE` for a file in a subdirectory. Implemented for
/// [`Directory`], and for a `BTreeMap` of names and contents for a checkpoint in memory.
///
/// ```
/// use std::collections::BTreeMap;
/// use ggmill_pipeline::SideFiles;
/// let files = BTreeMap::from([("tokenizer.json".to_owned(), b"{}".to_vec())]);
/// assert!(files.has("tokenizer.json"));
/// assert_eq!(files.read("tokenizer.json", 1024)?.as_deref(), Some(&b"{}"[..]));
/// assert_eq!(files.read("vocab.txt", 1024)?, None);
/// assert!(files.read("tokenizer.json", 1).is_err());
/// # Ok::<(), ggmill_pipeline::Error>(())
/// ```
pub trait SideFiles: Debug + Sync {
    /// Returns `true` if there is a file of this name.
    fn has(&self, name: &str) -> bool;

    /// Reads a file; `None` if it does not exist. Fails before allocating if it has more than
    /// `limit` bytes.
    fn read(&self, name: &str, limit: u64) -> Result<Option<Vec<u8>>>;

    /// Returns the names of the files in a subdirectory, sorted; empty if it does not exist.
    fn list(&self, directory: &str) -> Result<Vec<String>>;
}

impl SideFiles for Directory {
    fn has(&self, name: &str) -> bool {
        match name.split_once('/') {
            Some((directory, name)) => self
                .subdirectory(directory)
                .ok()
                .flatten()
                .is_some_and(|directory| Directory::has(&directory, name)),
            None => Directory::has(self, name),
        }
    }

    fn read(&self, name: &str, limit: u64) -> Result<Option<Vec<u8>>> {
        if let Some((directory, name)) = name.split_once('/') {
            return match self.subdirectory(directory)? {
                Some(directory) => SideFiles::read(&directory, name, limit),
                None => Ok(None),
            };
        }
        if !Directory::has(self, name) {
            return Ok(None);
        }
        Ok(Some(self.file(name)?.read_whole(limit)?))
    }

    fn list(&self, directory: &str) -> Result<Vec<String>> {
        Ok(match self.subdirectory(directory)? {
            Some(directory) => directory.files()?,
            None => Vec::new(),
        })
    }
}

impl SideFiles for BTreeMap<String, Vec<u8>> {
    fn has(&self, name: &str) -> bool {
        self.contains_key(name)
    }

    fn read(&self, name: &str, limit: u64) -> Result<Option<Vec<u8>>> {
        let Some(content) = self.get(name) else { return Ok(None) };
        if content.len() as u64 > limit {
            let [len, limit] = ByteSize::both(content.len(), limit);
            let message = format!("{len}, the limit is {limit}");
            return Err(Error::new(ErrorKind::Checkpoint, message).about(name));
        }
        Ok(Some(content.clone()))
    }

    fn list(&self, directory: &str) -> Result<Vec<String>> {
        let name = |name: &String| {
            let (found, file) = name.split_once('/')?;
            (found == directory).then(|| file.to_owned())
        };
        Ok(self.keys().filter_map(name).collect())
    }
}

/// A GGUF file or all shards of a set as a source, for operations that edit or requantize a model.
#[derive(Debug)]
pub struct GgufCheckpoint {
    model: Arc<Model>,
    tensors: Vec<SourceTensor>,
    /// The shard, offset in its file, and size of each tensor.
    places: Vec<(usize, u64, u64)>,
}

impl GgufCheckpoint {
    /// Opens a file, or a set from any of its shards.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        Self::new(ggmill_io::open(path)?)
    }

    /// Wraps an open model. Fails for a tensor whose type has no known size.
    pub fn new(model: impl Into<Arc<Model>>) -> Result<Self> {
        let model = model.into();
        let place = |tensor: Tensor<'_>| {
            let size = tensor.size().ok_or_else(|| {
                let message = format!(
                    "{} is unknown, so the size of its data is unknown too",
                    tensor.ggml_type()
                );
                Error::new(ErrorKind::Unsupported, message).tensor(tensor.name().as_bytes())
            })?;
            Ok((tensor.part(), tensor.offset(), size))
        };
        let places = model.tensors().iter().map(place).collect::<Result<_>>()?;
        let source = |tensor: Tensor<'_>| {
            SourceTensor::new(tensor.name().as_bytes(), tensor.ggml_type(), *tensor.shape())
        };
        let tensors = model.tensors().iter().map(source).collect();
        Ok(Self { model, tensors, places })
    }

    /// Returns the model.
    pub fn model(&self) -> &Model {
        &self.model
    }

    /// Returns the size of tensor `number` in bytes.
    pub fn size(&self, number: usize) -> Option<u64> {
        self.places.get(number).map(|place| place.2)
    }

    /// Returns the shard of tensor `number` and the offset of its data in that file.
    pub fn place(&self, number: usize) -> Option<(usize, u64)> {
        self.places.get(number).map(|&(shard, offset, _)| (shard, offset))
    }

    /// Returns the metadata of the model, which are in the first shard.
    pub fn metadata(&self) -> Metadata<'_> {
        self.model.metadata()
    }
}

impl Checkpoint for GgufCheckpoint {
    fn tensors(&self) -> &[SourceTensor] {
        &self.tensors
    }

    fn read(&self, number: usize, offset: u64, out: &mut [u8]) -> Result<()> {
        let tensor = self
            .model
            .tensors()
            .nth(number)
            .ok_or_else(|| Error::new(ErrorKind::Misuse, "no tensor has this number"))?;
        self.model
            .read(&tensor, offset, out)
            .map_err(|error| Error::from(error).tensor(tensor.name().as_bytes()))
    }

    fn prefetch(&self, numbers: &[usize]) {
        // Not at the top of the file, because `ReadAt::len` shadows `len` of byte containers.
        use ggmill_core::ReadAt as _;
        let mut ranges = vec![Vec::new(); self.model.parts().len()];
        for &(part, start, size) in numbers.iter().filter_map(|&number| self.places.get(number)) {
            if let Some(ranges) = ranges.get_mut(part) {
                ranges.push(start..start.saturating_add(size));
            }
        }
        for (part, ranges) in self.model.parts().iter().zip(&ranges) {
            if let Some(source) = part.source() {
                source.prefetch(ranges);
            }
        }
    }

    fn sources(&self) -> Vec<&RandomAccess> {
        ggmill_io::files(&self.model).collect()
    }

    fn verify(&self) -> Result<()> {
        Ok(self.model.verify()?)
    }

    fn range(&self, number: usize) -> Option<FileRange<'_>> {
        let &(part, start, _) = self.places.get(number)?;
        let part = self.model.parts().get(part)?;
        Some(FileRange::new(ggmill_io::file_of(part)?, start, part.endian()))
    }
}

/// Tensors in memory as a source, for weights that a program computes, and for tests.
///
/// ```
/// use ggmill_core::{GgmlType, Shape};
/// use ggmill_pipeline::{Expression, MemorySource};
/// let mut source = MemorySource::new();
/// source.add("a", GgmlType::I8, Shape::new(&[3])?, vec![1, 2, 3])?;
/// assert_eq!(Expression::named(&source, "a")?.evaluate(&source, 1..3)?, [2, 3]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct MemorySource {
    tensors: Vec<SourceTensor>,
    data: Vec<Arc<[u8]>>,
}

impl MemorySource {
    /// Creates an empty source.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a tensor and returns its number. `bytes` are little-endian in stored order; fails if
    /// their length does not match the shape.
    pub fn add(
        &mut self,
        name: impl Into<Vec<u8>>,
        ggml_type: GgmlType,
        shape: Shape,
        bytes: impl Into<Arc<[u8]>>,
    ) -> Result<usize> {
        let (name, bytes) = (name.into(), bytes.into());
        let expected = ggml_type.layout().and_then(|layout| layout.bytes_for(shape.elements()));
        if expected != Some(bytes.len() as u64) {
            let message =
                format!("{} bytes, which is not the size of {shape} of {ggml_type}", bytes.len());
            return Err(Error::new(ErrorKind::Misuse, message).tensor(&name));
        }
        self.tensors.push(SourceTensor::new(name, ggml_type, shape));
        self.data.push(bytes);
        Ok(self.data.len() - 1)
    }
}

impl Checkpoint for MemorySource {
    fn tensors(&self) -> &[SourceTensor] {
        &self.tensors
    }

    fn read(&self, number: usize, offset: u64, out: &mut [u8]) -> Result<()> {
        let data = self
            .data
            .get(number)
            .ok_or_else(|| Error::new(ErrorKind::Misuse, "no tensor has this number"))?;
        let bytes = usize::try_from(offset)
            .ok()
            .and_then(|start| data.get(start..start.checked_add(out.len())?));
        out.copy_from_slice(bytes.ok_or_else(|| {
            Error::new(ErrorKind::Misuse, "reads beyond the data of the tensor")
                .tensor(&self.tensors[number].name)
        })?);
        Ok(())
    }
}

/// Concatenates several sources: the tensors of the first, then the second and so on.
#[derive(Debug, Default)]
pub struct Joined<'a> {
    sources: Vec<JoinedSource<'a>>,
    tensors: Vec<SourceTensor>,
    /// The source of each tensor and its number there.
    places: Vec<(usize, usize)>,
}

/// A source that is borrowed or shared.
#[derive(Debug)]
enum JoinedSource<'a> {
    Borrowed(&'a dyn Checkpoint),
    Shared(Arc<dyn Checkpoint + Send + Sync>),
}

impl JoinedSource<'_> {
    fn get(&self) -> &dyn Checkpoint {
        match self {
            Self::Borrowed(source) => *source,
            Self::Shared(source) => &**source,
        }
    }
}

impl<'a> Joined<'a> {
    /// Creates an empty source.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a source and returns the number of its first tensor.
    pub fn add(&mut self, source: &'a dyn Checkpoint) -> usize {
        self.push(JoinedSource::Borrowed(source))
    }

    /// Adds a source that is shared, and returns the number of its first tensor.
    pub fn add_shared(&mut self, source: Arc<dyn Checkpoint + Send + Sync>) -> usize {
        self.push(JoinedSource::Shared(source))
    }

    fn push(&mut self, source: JoinedSource<'a>) -> usize {
        let (first, tensors) = (self.tensors.len(), source.get().tensors());
        self.places.extend((0..tensors.len()).map(|number| (self.sources.len(), number)));
        self.tensors.extend_from_slice(tensors);
        self.sources.push(source);
        first
    }

    fn place(&self, number: usize) -> Option<(&dyn Checkpoint, usize)> {
        let &(source, number) = self.places.get(number)?;
        Some((self.sources.get(source)?.get(), number))
    }
}

impl Checkpoint for Joined<'_> {
    fn tensors(&self) -> &[SourceTensor] {
        &self.tensors
    }

    fn read(&self, number: usize, offset: u64, out: &mut [u8]) -> Result<()> {
        let (source, number) = self
            .place(number)
            .ok_or_else(|| Error::new(ErrorKind::Misuse, "no tensor has this number"))?;
        source.read(number, offset, out)
    }

    fn prefetch(&self, numbers: &[usize]) {
        for (place, source) in self.sources.iter().enumerate() {
            let places = numbers.iter().filter_map(|&number| self.places.get(number));
            let own = places.filter(|(source, _)| *source == place).map(|(_, number)| *number);
            source.get().prefetch(&own.collect::<Vec<_>>());
        }
    }

    fn sources(&self) -> Vec<&RandomAccess> {
        self.sources.iter().flat_map(|source| source.get().sources()).collect()
    }

    fn verify(&self) -> Result<()> {
        self.sources.iter().try_for_each(|source| source.get().verify())
    }

    fn range(&self, number: usize) -> Option<FileRange<'_>> {
        let (source, number) = self.place(number)?;
        source.range(number)
    }
}

/// Buffers kept for later reads.
const BUFFERS: usize = 32;

/// The computed tensors of a recipe as a source, so that code that reads a source, such as a writer
/// of another format or a measurement, can read a model that is not written yet.
///
/// ```
/// use ggmill_core::{GgmlType, Shape};
/// use ggmill_pipeline::{Checkpoint as _, Derived, Expression, MemorySource, RecipeTensor};
/// let mut source = MemorySource::new();
/// source.add("a", GgmlType::I8, Shape::new(&[2, 2])?, vec![1, 2, 3, 4])?;
/// let turned = Expression::named(&source, "a")?.transpose()?;
/// let derived = Derived::new(&source, vec![RecipeTensor::new("turned", turned)])?;
/// let mut bytes = [0; 3];
/// derived.read(0, 1, &mut bytes)?;
/// assert_eq!(bytes, [3, 2, 4]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Derived<'a> {
    source: &'a dyn Checkpoint,
    tensors: Vec<SourceTensor>,
    expressions: Vec<Expression>,
    evaluator: Evaluator<'a>,
}

impl<'a> Derived<'a> {
    /// Creates a source of these tensors. Fails if one does not match `source`.
    pub fn new(source: &'a dyn Checkpoint, tensors: Vec<RecipeTensor>) -> Result<Self> {
        let mut derived = Self {
            source,
            tensors: Vec::new(),
            expressions: Vec::new(),
            evaluator: Evaluator::new(source, BUFFERS),
        };
        for tensor in tensors {
            tensor
                .expression
                .check(source.tensors())
                .map_err(|error| error.tensor(&tensor.name))?;
            let (ggml_type, shape) = (tensor.ggml_type(), *tensor.shape());
            derived.tensors.push(SourceTensor::new(tensor.name, ggml_type, shape));
            derived.expressions.push(tensor.expression);
        }
        Ok(derived)
    }
}

impl fmt::Debug for Derived<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Derived").field("tensors", &self.tensors).finish_non_exhaustive()
    }
}

impl Checkpoint for Derived<'_> {
    fn tensors(&self) -> &[SourceTensor] {
        &self.tensors
    }

    fn read(&self, number: usize, offset: u64, out: &mut [u8]) -> Result<()> {
        let no_tensor = || Error::new(ErrorKind::Misuse, "no tensor has this number");
        let expression = self.expressions.get(number).ok_or_else(no_tensor)?;
        let (elements, bytes) = expression.block();
        let bytes = bytes as u64;
        let end = offset.checked_add(out.len() as u64).filter(|&end| end <= expression.size());
        let end = end
            .ok_or_else(|| Error::new(ErrorKind::Misuse, "reads beyond the data of the tensor"))?;
        // Whole blocks are computed, and the first and last can be cut.
        let first = offset / bytes;
        let (start, end) = (first * elements, end.div_ceil(bytes) * elements);
        let computed = self.evaluator.bytes(expression, start, end)?;
        let skipped = usize::try_from(offset - first * bytes).unwrap_or(usize::MAX);
        let wanted = computed.get(skipped..).and_then(|bytes| bytes.get(..out.len()));
        out.copy_from_slice(wanted.ok_or_else(no_tensor)?);
        self.evaluator.buffers.put_back(computed);
        Ok(())
    }

    fn prefetch(&self, numbers: &[usize]) {
        let expressions = numbers.iter().filter_map(|&number| self.expressions.get(number));
        self.source.prefetch(&read_by(expressions));
    }

    fn sources(&self) -> Vec<&RandomAccess> {
        self.source.sources()
    }

    fn verify(&self) -> Result<()> {
        self.source.verify()
    }
}

/// Adds a configuration and side files in memory to a source, so that tensors from anywhere can be
/// converted.
///
/// ```
/// use ggmill_pipeline::{MemorySource, Pretrained as _, WithConfig};
/// let config = serde_json::json!({ "architectures": ["LlamaForCausalLM"] });
/// let checkpoint = WithConfig::new(MemorySource::new(), config).with_name("tiny");
/// assert_eq!(checkpoint.name(), Some("tiny"));
/// ```
#[derive(Clone, Debug)]
pub struct WithConfig<C> {
    checkpoint: C,
    config: Value,
    name: Option<String>,
    files: BTreeMap<String, Vec<u8>>,
}

impl<C: Checkpoint> WithConfig<C> {
    /// Adds the content of `config.json`; no name and no side files.
    pub fn new(checkpoint: C, config: Value) -> Self {
        Self { checkpoint, config, name: None, files: BTreeMap::new() }
    }

    /// Sets the name, which is otherwise that of a directory.
    #[must_use]
    pub fn with_name(self, name: impl Into<String>) -> Self {
        Self { name: Some(name.into()), ..self }
    }

    /// Sets the side files, by name.
    #[must_use]
    pub fn with_files(self, files: BTreeMap<String, Vec<u8>>) -> Self {
        Self { files, ..self }
    }
}

impl<C: Checkpoint> Checkpoint for WithConfig<C> {
    fn tensors(&self) -> &[SourceTensor] {
        self.checkpoint.tensors()
    }

    fn read(&self, number: usize, offset: u64, out: &mut [u8]) -> Result<()> {
        self.checkpoint.read(number, offset, out)
    }

    fn prefetch(&self, numbers: &[usize]) {
        self.checkpoint.prefetch(numbers);
    }

    fn range(&self, number: usize) -> Option<FileRange<'_>> {
        self.checkpoint.range(number)
    }

    fn sources(&self) -> Vec<&RandomAccess> {
        self.checkpoint.sources()
    }

    fn verify(&self) -> Result<()> {
        self.checkpoint.verify()
    }
}

impl<C: Checkpoint> Pretrained for WithConfig<C> {
    fn config(&self) -> &Value {
        &self.config
    }

    fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    fn side_files(&self) -> &dyn SideFiles {
        &self.files
    }
}
