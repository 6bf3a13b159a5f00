//! Where weights come from: anything that lists tensors and hands out their bytes.
//!
//! GGUF files, joined sources and sources in memory are files of this directory; sources of other
//! formats are in [`formats`](crate::formats). What they have in common is the [`Checkpoint`] trait; a plan
//! and a run know nothing else of them.

mod derived;
mod gguf;
mod joined;
mod memory;
mod side_files;
mod with_config;

use std::fmt::Debug;

use ggmill_core::{Endian, GgmlType, RawStr, Shape};
use ggmill_io::RandomAccess;

use crate::error::Result;

pub use self::derived::Derived;
pub use self::gguf::GgufCheckpoint;
pub use self::joined::Joined;
pub use self::memory::MemorySource;
pub use self::side_files::SideFiles;
pub use self::with_config::WithConfig;

/// A set of tensors with their bytes.
pub trait Checkpoint: Debug + Sync {
    /// The tensors, in the order in which they are written.
    fn tensors(&self) -> &[SourceTensor];

    /// Fills `out` with the bytes of tensor `number` from byte `offset` of its data on, in
    /// little-endian order. May be called from several threads at once.
    fn read(&self, number: usize, offset: u64, out: &mut [u8]) -> Result<()>;

    /// Says which tensors will be read soon. A hint: a source that asks another machine for its
    /// bytes asks for several tensors at once.
    fn prefetch(&self, numbers: &[usize]) {
        let _ = numbers;
    }

    /// Where the bytes of tensor `number` lie in an open file, when they lie there as they are: a
    /// tensor that nothing is done to is then moved by the operating system, unread.
    fn range(&self, number: usize) -> Option<FileRange<'_>> {
        let _ = number;
        None
    }

    /// The open files that the bytes come from.
    fn sources(&self) -> Vec<&RandomAccess> {
        Vec::new()
    }

    /// Fails when the bytes are no longer those that were opened, or when an edit of a file was
    /// interrupted halfway. Code that reads much calls this before and after: what was read
    /// meanwhile may be half of each.
    fn verify(&self) -> Result<()> {
        Ok(self.sources().into_iter().try_for_each(RandomAccess::verify)?)
    }
}

/// The data of one tensor as they lie in a file.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct FileRange<'a> {
    /// The file.
    pub file: &'a RandomAccess,
    /// Where in it the data begins.
    pub offset: u64,
    /// Their byte order there. What [`Checkpoint::read`] gives is always little-endian.
    pub endian: Endian,
}

impl<'a> FileRange<'a> {
    /// Data that begin here, in this byte order.
    pub fn new(file: &'a RandomAccess, offset: u64, endian: Endian) -> Self {
        Self { file, offset, endian }
    }
}

/// A checkpoint as a training framework leaves it: weights beside a configuration.
pub trait Pretrained: Checkpoint {
    /// The hyperparameters: the content of `config.json`.
    fn config(&self) -> &serde_json::Value;

    /// The name people know the checkpoint by, where it has one: that of its directory.
    fn name(&self) -> Option<&str>;

    /// The files beside the weights: those of the tokenizer, the generation configuration, ….
    fn side_files(&self) -> &dyn SideFiles;
}

/// A tensor of a [`Checkpoint`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SourceTensor {
    /// The name the checkpoint gives it: bytes, as a GGUF file may have any.
    pub name: Vec<u8>,
    /// The type of its elements.
    pub ggml_type: GgmlType,
    /// Its dimensions in stored order, fastest first: the reverse of what PyTorch prints.
    pub shape: Shape,
    /// The name of the type in the format of the source, where GGML has no such type. Then
    /// `ggml_type` is the integer type of the same size, [`Expression::tensor`] refuses the tensor,
    /// and [`Expression::stored`] has its bytes for a decoder.
    ///
    /// [`Expression::tensor`]: crate::Expression::tensor
    /// [`Expression::stored`]: crate::Expression::stored
    pub stored_type: Option<&'static str>,
}

impl SourceTensor {
    /// A tensor with this name, element type and shape.
    pub fn new(name: impl Into<Vec<u8>>, ggml_type: GgmlType, shape: Shape) -> Self {
        Self { name: name.into(), ggml_type, shape, stored_type: None }
    }

    /// The same of a type that GGML does not have, with the name that the source's format has for
    /// it. The GGML type is the integer type of the same size.
    #[must_use]
    pub fn of_stored_type(self, name: &'static str) -> Self {
        Self { stored_type: Some(name), ..self }
    }

    /// The name of the type of its elements, as the source has them.
    pub fn type_name(&self) -> String {
        self.stored_type.map_or_else(|| self.ggml_type.to_string(), str::to_owned)
    }

    /// The name, escaped for display.
    pub fn name(&self) -> RawStr<'_> {
        RawStr::new(&self.name)
    }
}
