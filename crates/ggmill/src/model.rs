//! An open model, and its tensors.

use std::fmt;
use std::iter::FusedIterator;
use std::path::{Path, PathBuf};
use std::sync::Arc;

#[cfg(feature = "files")]
use ggmill_core::Value;
use ggmill_core::{GgmlType, Limits, Metadata, RawStr, ReadAt, Shape};
use ggmill_tokenizer::{LoadOptions, Tokenizer};

#[cfg(feature = "files")]
use crate::Hint;
use crate::{Error, Result, content};

/// A GGUF model: a file, or all shards of a set.
///
/// The header is in memory; tensor data is read on request. Clones share the model, and several threads
/// may use it. [`core`](Self::core) gives access to everything in the format.
///
/// ```
/// # #[cfg(feature = "files")] {
/// # let path = ggmill_testdata::real("tinystories260K.gguf");
/// # if !path.exists() { return Ok(()) }
/// let model = ggmill::Model::open(path)?;
/// let name = model.metadata().str("general.name")?;
/// let norm = model.tensor("output_norm.weight")?.to_f32()?;
/// # }
/// # Ok::<(), ggmill::Error>(())
/// ```
#[derive(Clone)]
pub struct Model(Arc<Inner>);

struct Inner {
    core: Arc<ggmill_core::Model>,
    path: Option<PathBuf>,
}

impl Model {
    /// Opens the bytes of a whole file.
    pub fn from_bytes(bytes: impl Into<Vec<u8>>) -> Result<Self> {
        Self::from_source(bytes.into())
    }

    /// Opens one file from a source of its bytes.
    pub fn from_source(source: impl ReadAt + 'static) -> Result<Self> {
        Self::from_source_with(source, &Limits::default())
    }

    /// Opens one file from a source of its bytes, with custom limits.
    pub fn from_source_with(source: impl ReadAt + 'static, limits: &Limits) -> Result<Self> {
        let source = Arc::new(source);
        let opened = ggmill_core::Model::open_with(Arc::clone(&source), limits);
        opened.map(Self::from).map_err(|error| {
            let hint = content::hint_for(&error, &content::beginning(&*source), None);
            Error::from(error).with_hint(hint)
        })
    }

    /// Wraps a model that was opened from a path or an address.
    #[cfg(feature = "files")]
    pub(crate) fn at(core: ggmill_core::Model, path: &Path) -> Self {
        Self::new(core, Some(path.to_owned()))
    }

    fn new(core: ggmill_core::Model, path: Option<PathBuf>) -> Self {
        Self(Arc::new(Inner { core: Arc::new(core), path }))
    }

    /// Returns the metadata: of a set of shards, that of the first shard.
    pub fn metadata(&self) -> Metadata<'_> {
        self.0.core.metadata()
    }

    /// Returns the tensors of all shards, in the order of the files.
    pub fn tensors(&self) -> Tensors<'_> {
        Tensors { model: &self.0.core, range: 0..self.0.core.tensors().len() }
    }

    /// Returns the tensor with this name. Fails if there is none.
    pub fn tensor(&self, name: impl AsRef<[u8]>) -> Result<Tensor<'_>> {
        let tensor = self.0.core.tensor(name).map_err(|error| self.located(error))?;
        Ok(Tensor { model: &self.0.core, tensor })
    }

    /// Returns the path or address that the model was opened with.
    pub fn path(&self) -> Option<&Path> {
        self.0.path.as_deref()
    }

    /// Returns the lower-level model, which gives access to everything in the format.
    pub fn core(&self) -> &ggmill_core::Model {
        &self.0.core
    }

    /// Returns the lower-level model; `None` if a clone shares it.
    #[cfg(feature = "files")]
    pub(crate) fn into_core(self) -> Option<ggmill_core::Model> {
        Arc::into_inner(Arc::into_inner(self.0)?.core)
    }

    /// Converts an error about this model, and adds its path.
    pub(crate) fn located(&self, error: impl Into<Error>) -> Error {
        match self.path() {
            Some(path) => error.into().at(path),
            None => error.into(),
        }
    }
}

impl Model {
    /// Returns the tokenizer of the model. Fails if the model has no vocabulary, or one that this
    /// version does not support.
    ///
    /// ```no_run
    /// let model = ggmill::Model::open("model.gguf")?;
    /// let tokenizer = model.tokenizer()?;
    /// let mut ids = Vec::new();
    /// tokenizer.encode("Hello, world!", &ggmill::tokenizer::EncodeOptions::new(), &mut ids)?;
    /// # Ok::<(), ggmill::Error>(())
    /// ```
    pub fn tokenizer(&self) -> Result<Tokenizer> {
        self.tokenizer_with(&LoadOptions::new())
    }

    /// Returns the tokenizer of the model, loaded with options such as a different pre-tokenizer.
    pub fn tokenizer_with(&self, options: &LoadOptions) -> Result<Tokenizer> {
        Tokenizer::with_options(&self.metadata(), options).map_err(|error| self.located(error))
    }

    /// Returns the value of a metadata key, or one element of an array: `KEY[N]`, counted from 0.
    ///
    /// ```no_run
    /// let model = ggmill::Model::open("model.gguf")?;
    /// let token = model.value("tokenizer.ggml.tokens[5]")?;
    /// # Ok::<(), ggmill::Error>(())
    /// ```
    #[cfg(feature = "files")]
    pub fn value(&self, key: &str) -> Result<Value<'_>> {
        let metadata = self.metadata();
        let about = |error: Error| self.located(error.about_key(key));
        let read = |key: &str| {
            metadata.get(key).map(|entry| entry.value().map_err(|error| about(error.into())))
        };
        if let Some(value) = read(key) {
            return value;
        }
        let missing = || {
            let error = Error::new(crate::error::Kind::NotFound, "missing", "no such key");
            let hint = if key.contains(['*', '?']) {
                Hint::ExtractMatching
            } else {
                Hint::SimilarKeys(self.similar_keys(key))
            };
            about(error).with_hint(hint)
        };
        let Some((array_key, index)) = ggmill_edit::parse_element(key).ok().flatten() else {
            return Err(missing());
        };
        let whole = read(array_key).ok_or_else(missing)??;
        let array = whole.as_array().ok_or_else(|| about(Error::misuse("is not an array")))?;
        let index = usize::try_from(index).unwrap_or(usize::MAX);
        let element = array.iter().nth(index).ok_or_else(|| {
            let message = format_args!("the array has {} elements, counted from 0", array.len());
            about(Error::misuse(message))
        })?;
        element.map_err(|error| about(error.into()))
    }

    /// Returns the keys that are most similar to one that does not exist.
    #[cfg(feature = "files")]
    fn similar_keys(&self, key: &str) -> Vec<String> {
        const MOST: usize = 3;
        let metadata = self.metadata();
        let keys: Vec<&str> =
            metadata.iter().filter_map(|entry| entry.key().to_str().ok()).collect();
        let near = ggmill_check::near_keys(key, &keys).into_iter().take(MOST);
        near.map(|key| RawStr::from(key).to_string()).collect()
    }

    /// Reads only the header from a stream; tensor data of this model cannot be read. `len` is the
    /// length of the whole stream, if it is known. `name` becomes the [`path`](Self::path), with which
    /// messages about the model begin.
    #[cfg(feature = "files")]
    pub fn read_header(
        input: impl std::io::Read,
        len: Option<u64>,
        name: impl AsRef<Path>,
    ) -> Result<Self> {
        let read = ggmill_io::open_stream(input, len)?;
        if read.beginning.is_empty() {
            return Err(Error::malformed("there is no data"));
        }
        read.model.map(|model| Self::at(model, name.as_ref())).map_err(|error| {
            let hint = content::hint_for(&error, &read.beginning, None);
            Error::from(error).with_hint(hint)
        })
    }
}

#[cfg(feature = "files")]
impl Model {
    /// Returns the paths of the files; none for a remote model or a model in memory.
    pub fn files(&self) -> Vec<PathBuf> {
        ggmill_io::files(&self.0.core).map(|file| file.path().to_owned()).collect()
    }

    /// Returns the model as a source of tensors for recipes and plans. It shares the model. Fails for
    /// a tensor whose type has no known size.
    pub fn checkpoint(&self) -> Result<ggmill_pipeline::GgufCheckpoint> {
        Ok(ggmill_pipeline::GgufCheckpoint::new(Arc::clone(&self.0.core))?)
    }
}

impl fmt::Debug for Model {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Model")
            .field("path", &self.0.path)
            .field("tensors", &self.0.core.tensors().len())
            .finish_non_exhaustive()
    }
}

impl From<ggmill_core::Model> for Model {
    fn from(core: ggmill_core::Model) -> Self {
        Self::new(core, None)
    }
}

/// The tensors of a model, in the order of its files.
#[derive(Clone, Debug)]
pub struct Tensors<'a> {
    model: &'a ggmill_core::Model,
    range: std::ops::Range<usize>,
}

impl<'a> Tensors<'a> {
    fn tensor(&self, number: usize) -> Option<Tensor<'a>> {
        let tensor = self.model.tensors().nth(number)?;
        Some(Tensor { model: self.model, tensor })
    }
}

impl<'a> Iterator for Tensors<'a> {
    type Item = Tensor<'a>;

    fn next(&mut self) -> Option<Tensor<'a>> {
        let number = self.range.next()?;
        self.tensor(number)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.range.size_hint()
    }
}

impl DoubleEndedIterator for Tensors<'_> {
    fn next_back(&mut self) -> Option<Self::Item> {
        let number = self.range.next_back()?;
        self.tensor(number)
    }
}

impl ExactSizeIterator for Tensors<'_> {}
impl FusedIterator for Tensors<'_> {}

/// A tensor of a model: its name, type and shape, and its data on request.
#[derive(Clone, Copy, Debug)]
pub struct Tensor<'a> {
    model: &'a ggmill_core::Model,
    tensor: ggmill_core::Tensor<'a>,
}

impl<'a> Tensor<'a> {
    /// Returns the name.
    pub fn name(&self) -> RawStr<'a> {
        self.tensor.name()
    }

    /// Returns the type of the elements.
    pub fn ggml_type(&self) -> GgmlType {
        self.tensor.ggml_type()
    }

    /// Returns the dimensions in stored order, fastest first.
    pub fn shape(&self) -> &'a Shape {
        self.tensor.shape()
    }

    /// Returns the size of the data in bytes; `None` for an unknown type.
    pub fn size(&self) -> Option<u64> {
        self.tensor.size()
    }

    /// Returns the lower-level tensor.
    pub fn core(&self) -> ggmill_core::Tensor<'a> {
        self.tensor
    }

    /// Decodes all elements, in stored order. Fails for a type without a decoder.
    pub fn to_f32(&self) -> Result<Vec<f32>> {
        Ok(ggmill_quant::read_f32(self.model, &self.tensor)?)
    }

    /// Decodes row `row`, counted from 0. Its length is the first dimension.
    pub fn row_f32(&self, row: u64) -> Result<Vec<f32>> {
        let codec = ggmill_quant::codec(self.ggml_type())?;
        let rows = self.shape().rows();
        if row >= rows {
            return Err(Error::misuse(format_args!("row {row} of {rows}")));
        }
        let size = self.size().unwrap_or_default() / rows;
        let too_large = |_| Error::limit("the row does not fit into memory");
        let mut blocks = vec![0; usize::try_from(size).map_err(too_large)?];
        let mut values = vec![0.0; usize::try_from(self.shape().row_len()).map_err(too_large)?];
        self.model.read(&self.tensor, row * size, &mut blocks)?;
        codec.dequantize(&blocks, &mut values)?;
        Ok(values)
    }

    /// Reads the stored data; blocks of a big-endian file are converted to little-endian.
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        Ok(self.model.read_tensor(&self.tensor)?)
    }
}
