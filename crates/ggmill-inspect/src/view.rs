//! What is looked at: one file, or the shards of a model as one.

use ggmill_core::{Gguf, Index, Metadata, RawStr, Tensor, Tensors};
use ggmill_text::Glob;

/// One file of a model: its parsed header, and what the caller knows of the file.
///
/// ```
/// use ggmill_core::{Builder, Gguf};
/// use ggmill_inspect::Part;
/// let model = Gguf::parse(Builder::new().plan()?.header().to_vec())?;
/// let part = Part::new(&model).named("empty.gguf");
/// assert_eq!((part.name(), part.file_len()), (Some("empty.gguf"), Some(24)));
/// # Ok::<(), ggmill_core::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Part<'a> {
    index: &'a Index,
    bytes: &'a [u8],
    name: Option<String>,
}

impl<'a> Part<'a> {
    /// A file that is open. Its length is the one its index knows.
    pub fn new<B: AsRef<[u8]>>(file: &'a Gguf<B>) -> Self {
        Self { index: file.index(), bytes: file.bytes(), name: None }
    }

    /// The name to show for the file, without folders.
    #[must_use]
    pub fn named(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// The name to show, where the caller gave one.
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// The parsed header.
    pub fn index(&self) -> &'a Index {
        self.index
    }

    /// The length of the file in bytes, where it is known.
    pub fn file_len(&self) -> Option<u64> {
        self.index.file_len()
    }

    /// The metadata of this file.
    pub fn metadata(&self) -> Metadata<'a> {
        self.index.metadata(self.bytes)
    }

    /// The tensors of this file.
    pub fn tensors(&self) -> Tensors<'a> {
        self.index.tensors(self.bytes)
    }
}

/// A model to look at: the file it is, or its shards in their order. Never without a file.
///
/// ```
/// use ggmill_core::{Builder, Gguf};
/// use ggmill_inspect::{Part, View};
/// let file = Gguf::parse(Builder::new().plan()?.header().to_vec())?;
/// let view = View::new(Part::new(&file));
/// assert_eq!((view.parts().len(), view.tensors().count()), (1, 0));
/// # Ok::<(), ggmill_core::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct View<'a> {
    parts: Vec<Part<'a>>,
    metadata: Metadata<'a>,
    index: &'a Index,
}

impl<'a> View<'a> {
    /// A model of one file, or the first shard of one.
    pub fn new(first: Part<'a>) -> Self {
        Self { metadata: first.metadata(), index: first.index(), parts: vec![first] }
    }

    /// Adds the next shard.
    #[must_use]
    pub fn with_shard(mut self, shard: Part<'a>) -> Self {
        self.parts.push(shard);
        self
    }

    /// The files, in order.
    pub fn parts(&self) -> &[Part<'a>] {
        &self.parts
    }

    /// The parsed header of the first file.
    pub fn index(&self) -> &'a Index {
        self.index
    }

    /// The metadata of the model: that of the first file. Later shards repeat `split.*` only.
    pub fn metadata(&self) -> Metadata<'a> {
        self.metadata
    }

    /// The tensors of all files with the number of the shard each lies in, from 0.
    pub fn tensors(&self) -> impl Iterator<Item = (usize, Tensor<'a>)> + Clone {
        self.parts.iter().enumerate().flat_map(|(shard, part)| part.tensors().iter().map(move |tensor| (shard, tensor)))
    }

    /// Number of tensors in all files.
    pub fn tensor_count(&self) -> usize {
        self.parts.iter().map(|part| part.tensors().len()).sum()
    }

    /// Bytes of all files, where all lengths are known.
    pub fn file_size(&self) -> Option<u128> {
        self.parts.iter().map(|part| part.file_len().map(u128::from)).sum()
    }
}

/// Which parts of a model to show.
///
/// ```
/// use ggmill_core::RawStr;
/// use ggmill_inspect::Selection;
/// let tokenizer = Selection { summary: false, tensors: false, keys: vec!["tokenizer.*".parse()?], ..Selection::default() };
/// assert!(tokenizer.has_key(RawStr::from("tokenizer.ggml.model")));
/// assert!(!tokenizer.has_key(RawStr::from("general.name")));
/// # Ok::<(), ggmill_text::GlobError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "built with `..Selection::default()`")]
pub struct Selection {
    /// The summary. JSON has it always.
    pub summary: bool,
    /// The metadata pairs that `keys` admits.
    pub metadata: bool,
    /// The tensors that `names` admits.
    pub tensors: bool,
    /// Keys to show: those that fit any pattern, or all when there is none.
    pub keys: Vec<Glob>,
    /// Tensors to show, in the same way.
    pub names: Vec<Glob>,
}

impl Default for Selection {
    /// Everything.
    fn default() -> Self {
        Self { summary: true, metadata: true, tensors: true, keys: Vec::new(), names: Vec::new() }
    }
}

impl Selection {
    /// Whether the patterns admit this key.
    pub fn has_key(&self, key: RawStr<'_>) -> bool {
        self.keys.is_empty() || self.keys.iter().any(|glob| glob.matches(key))
    }

    /// Whether the patterns admit this tensor name.
    pub fn has_name(&self, name: RawStr<'_>) -> bool {
        self.names.is_empty() || self.names.iter().any(|glob| glob.matches(name))
    }
}
