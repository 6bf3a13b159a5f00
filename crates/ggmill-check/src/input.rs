//! What is checked.

use std::fmt;
use std::io;

use ggmill_arch::Catalogue;
use ggmill_core::{Error, Gguf, Metadata, Tensor, Tensors, Value};

use crate::DataFacts;

/// The bytes of the file behind its header, read where they are needed: the padding.
pub trait ReadAt {
    /// Fills `out` from `offset` on, counted from the start of the file.
    fn read_at(&self, offset: u64, out: &mut [u8]) -> io::Result<()>;
}

impl ReadAt for [u8] {
    fn read_at(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let found = usize::try_from(offset).ok().and_then(|start| self.get(start..)?.get(..out.len()));
        out.copy_from_slice(found.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }
}

impl ReadAt for Vec<u8> {
    fn read_at(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.as_slice().read_at(offset, out)
    }
}

/// A file to check: its header, the faults met when that was read, and what else is at hand.
#[derive(Clone, Copy)]
pub struct Input<'a> {
    pub(crate) header: &'a Gguf<Vec<u8>>,
    pub(crate) faults: &'a [Error],
    pub(crate) name: Option<&'a str>,
    pub(crate) bytes: Option<&'a dyn ReadAt>,
    pub(crate) catalogue: Option<&'a Catalogue>,
    pub(crate) data: Option<&'a DataFacts>,
    pub(crate) set_fault: Option<&'a str>,
    pub(crate) shards: &'a [Tensors<'a>],
}

impl fmt::Debug for Input<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Input").field("name", &self.name).field("faults", &self.faults).finish_non_exhaustive()
    }
}

impl<'a> Input<'a> {
    /// A header and its faults, as [`Decoder::salvage`](ggmill_core::Decoder::salvage) gives them.
    pub fn new(header: &'a Gguf<Vec<u8>>, faults: &'a [Error]) -> Self {
        Self { header, faults, name: None, bytes: None, catalogue: None, data: None, set_fault: None, shards: &[] }
    }

    /// The name of the file, without folders: for the rules about names.
    #[must_use]
    pub fn named(mut self, name: &'a str) -> Self {
        self.name = Some(name);
        self
    }

    /// The file itself: for the rules about what stands between the tensors.
    #[must_use]
    pub fn with_bytes(mut self, bytes: &'a dyn ReadAt) -> Self {
        self.bytes = Some(bytes);
        self
    }

    /// What was found in the tensor data: for the rules about weights.
    #[must_use]
    pub fn with_data(mut self, data: &'a DataFacts) -> Self {
        self.data = Some(data);
        self
    }

    /// What is wrong with the set of shards that the file is one of, in one line without control characters.
    #[must_use]
    pub fn with_set_fault(mut self, fault: &'a str) -> Self {
        self.set_fault = Some(fault);
        self
    }

    /// The tensors of the other shards, where the file is the first of a set that is whole: the architecture demands things of the model, not of each file.
    #[must_use]
    pub fn with_shards(mut self, shards: &'a [Tensors<'a>]) -> Self {
        self.shards = shards;
        self
    }

    /// The architectures to know; those that are built in otherwise.
    #[must_use]
    pub fn with_catalogue(mut self, catalogue: &'a Catalogue) -> Self {
        self.catalogue = Some(catalogue);
        self
    }

    pub(crate) fn metadata(&self) -> Metadata<'a> {
        self.header.metadata()
    }

    pub(crate) fn tensors(&self) -> Tensors<'a> {
        self.header.tensors()
    }

    /// The tensor directories of the model: the file's own, then those of the other shards.
    pub(crate) fn model(&self) -> Vec<Tensors<'a>> {
        std::iter::once(self.tensors()).chain(self.shards.iter().copied()).collect()
    }

    /// The tensors of the model, those of the other shards included.
    pub(crate) fn model_tensors(&self) -> impl Iterator<Item = Tensor<'a>> + use<'a> {
        self.tensors().iter().chain(self.shards.iter().flat_map(Tensors::iter))
    }

    /// Whether the whole header was read: when not, what is missing is no finding.
    pub(crate) fn is_whole(&self) -> bool {
        self.header_fault().is_none()
    }

    /// The fault at which reading the header stopped.
    pub(crate) fn header_fault(&self) -> Option<&'a Error> {
        // A header that was read whole has faults of alignment and layout only, and those lie before its end.
        let end = self.header.index().header_len();
        self.faults.first().filter(|fault| fault.offset().is_none_or(|offset| offset >= end))
    }

    /// The value of a key, when it is there.
    pub(crate) fn value(&self, key: &str) -> Option<Value<'a>> {
        self.metadata().get(key)?.value().ok()
    }

    /// The text of a key, when it is there and text.
    pub(crate) fn text(&self, key: &str) -> Option<&'a str> {
        self.value(key)?.as_str()
    }

    /// The integer of a key, when it is there and one that is not negative.
    pub(crate) fn number(&self, key: &str) -> Option<u64> {
        self.value(key)?.as_u64()
    }

    pub(crate) fn architecture(&self) -> Option<&'a str> {
        self.text(ggmill_core::keys::GENERAL_ARCHITECTURE)
    }

    /// What kind of file it is: `general.type`, and `model` for the files from before that key.
    pub(crate) fn kind(&self) -> &'a str {
        match (self.text(ggmill_core::keys::GENERAL_TYPE), self.architecture()) {
            (Some(kind), _) => kind,
            (None, Some("controlvector")) => "controlvector",
            (None, Some("clip")) => "mmproj",
            _ if self.tensors().is_empty() => "vocab",
            _ => "model",
        }
    }
}
