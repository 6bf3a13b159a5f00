//! The input of a check.

use std::fmt;

use ggmill_arch::{Catalogue, ModelView, kind_of_architecture};
use ggmill_core::{Error, Index, Metadata, Part, ReadAt, Tensor, Tensors, Value};

use crate::DataFacts;

/// A file to check: one file of a model, with the faults met when it was opened, and what else is
/// at hand.
#[derive(Clone, Copy)]
pub struct Input<'a> {
    pub(crate) part: &'a Part,
    pub(crate) name: Option<&'a str>,
    pub(crate) catalogue: Option<&'a Catalogue>,
    pub(crate) data: Option<&'a DataFacts>,
    pub(crate) set_fault: Option<&'a str>,
    /// The shards of the set, in order, where all are at hand; none otherwise.
    shards: &'a [Input<'a>],
    /// The place of this one among them.
    shard: usize,
}

impl fmt::Debug for Input<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Input")
            .field("name", &self.name)
            .field("faults", &self.part.faults())
            .finish_non_exhaustive()
    }
}

impl<'a> Input<'a> {
    /// A file, as [`Model::salvage`](ggmill_core::Model::salvage) opens it. Bytes between the
    /// tensors are examined if the file has a source to read from.
    pub fn new(part: &'a Part) -> Self {
        Self {
            part,
            name: None,
            catalogue: None,
            data: None,
            set_fault: None,
            shards: &[],
            shard: 0,
        }
    }

    pub(crate) fn index(&self) -> &'a Index {
        self.part.index()
    }

    pub(crate) fn faults(&self) -> &'a [Error] {
        self.part.faults()
    }

    /// The bytes of the file after its header, where they can be read.
    pub(crate) fn bytes(&self) -> Option<&'a dyn ReadAt> {
        self.part.source().map(|source| &**source)
    }

    /// The name of the file, without directories: for the rules about names.
    #[must_use]
    pub fn named(mut self, name: &'a str) -> Self {
        self.name = Some(name);
        self
    }

    /// The summary of the tensor data, for the rules about weights.
    #[must_use]
    pub fn with_data(mut self, data: &'a DataFacts) -> Self {
        self.data = Some(data);
        self
    }

    /// The fault of the shard set that the file belongs to, in one line without control
    /// characters.
    #[must_use]
    pub fn with_set_fault(mut self, fault: &'a str) -> Self {
        self.set_fault = Some(fault);
        self
    }

    /// The architectures to know; those that are built in otherwise.
    #[must_use]
    pub fn with_catalogue(mut self, catalogue: &'a Catalogue) -> Self {
        self.catalogue = Some(catalogue);
        self
    }

    /// One of all shards of a set.
    pub(crate) fn among(mut self, shards: &'a [Self], shard: usize) -> Self {
        (self.shards, self.shard) = (shards, shard);
        self
    }

    /// Whether the file says that it is one shard of several.
    pub(crate) fn is_shard(&self) -> bool {
        self.number(ggmill_core::keys::SPLIT_COUNT).is_some_and(|count| count > 1)
    }

    /// Whether the file is the one that has the metadata: a whole model, or the first shard of one.
    pub(crate) fn is_first(&self) -> bool {
        !self.is_shard() || self.number(ggmill_core::keys::SPLIT_NO).unwrap_or(0) == 0
    }

    /// Whether all tensors of the model are at hand.
    pub(crate) fn is_complete(&self) -> bool {
        !self.is_shard() || !self.shards.is_empty()
    }

    /// The tensors of all shards at hand, each with the place of its shard.
    pub(crate) fn model_tensors(&self) -> impl Iterator<Item = (usize, Tensor<'a>)> + Clone {
        let alone = self.shards.is_empty().then_some((self.shard, self.tensors()));
        let shards = self.shards.iter().enumerate().map(|(shard, input)| (shard, input.tensors()));
        alone
            .into_iter()
            .chain(shards)
            .flat_map(|(shard, tensors)| tensors.iter().map(move |tensor| (shard, tensor)))
    }

    /// The tensor with this name in any shard at hand, with the place of its shard.
    pub(crate) fn model_tensor(&self, name: &[u8]) -> Option<(usize, Tensor<'a>)> {
        match self.shards {
            [] => Some((self.shard, self.tensors().get(name)?)),
            shards => shards
                .iter()
                .enumerate()
                .find_map(|(shard, input)| Some((shard, input.tensors().get(name)?))),
        }
    }

    pub(crate) fn metadata(&self) -> Metadata<'a> {
        self.part.metadata()
    }

    pub(crate) fn tensors(&self) -> Tensors<'a> {
        self.part.tensors()
    }

    /// Whether the whole header was read: when not, what is missing is not a finding.
    pub fn is_whole(&self) -> bool {
        self.header_fault().is_none()
    }

    /// The fault at which reading the header stopped.
    pub(crate) fn header_fault(&self) -> Option<&'a Error> {
        self.part.header_fault()
    }

    /// The value of a key, if it exists.
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

    /// The numbers of the model and what its tensors do, as the metadata of this file say them.
    pub(crate) fn model(&self) -> ModelView<'a> {
        ModelView::of_metadata(self.metadata())
    }

    /// The architecture, which the first shard of a set names for all.
    pub(crate) fn architecture(&self) -> Option<&'a str> {
        self.shards.first().unwrap_or(self).text(ggmill_core::keys::GENERAL_ARCHITECTURE)
    }

    /// The kind of file: `general.type`, and `model` for the files from before that key. The
    /// first shard of a set says it for all.
    pub(crate) fn kind(&self) -> &'a str {
        let stated = self.shards.first().unwrap_or(self).text(ggmill_core::keys::GENERAL_TYPE);
        let meant = || self.architecture().and_then(kind_of_architecture);
        let is_empty = || self.model_tensors().next().is_none() && self.is_complete();
        stated.or_else(meant).unwrap_or_else(|| if is_empty() { "vocab" } else { "model" })
    }
}
