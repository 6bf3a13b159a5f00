//! One model as everything that is not the format asks about it: its numbers, and what its tensors
//! do.

use std::collections::BTreeSet;
use std::sync::OnceLock;

use ggmill_core::{FileType, Metadata, MetadataBuf, Value, keys};

use crate::architecture::Architecture;
use crate::compute::{ComputeSpec, Lowering};
use crate::entries::{Entries, WithTensors};
use crate::error::{Error, Result};
use crate::memory::MemorySpec;
use crate::resolve::Resolved;
use crate::role::Role;
use crate::value::ParameterValue;

/// The numbers of one model and the roles of its tensors, whether they come from a checkpoint's
/// configuration or from metadata.
///
/// Numbers are asked for by the names that keys have after the architecture, such as
/// `attention.head_count`. With a description of the architecture its hyperparameters and roles
/// come first; without one the keys that every architecture has, and the names that tensors have in
/// GGUF files, are all there is to go by. Nothing here fails: what is missing, or not of a type
/// that it can have, is absent. [`Resolved`] is the strict counterpart.
///
/// ```
/// use ggmill_arch::{ModelView, Role};
/// use ggmill_core::MetadataBuf;
/// let mut metadata = MetadataBuf::new();
/// metadata.set("general.architecture", "no-one-knows");
/// metadata.set("no-one-knows.block_count", 12u32);
/// metadata.set("no-one-knows.attention.head_count", 8u32);
/// let model = ModelView::of_metadata_to_write(&metadata);
/// assert_eq!((model.block_count(), model.head_count_kv()), (Some(12), 8));
/// assert_eq!(model.role("blk.3.attn_v.weight"), Role::ATTENTION_V);
/// ```
#[derive(Clone, Debug)]
pub struct ModelView<'a> {
    architecture: String,
    entries: Entries<'a>,
    description: Option<&'a Architecture>,
    /// The names of its tensors, where they are known.
    tensors: Option<BTreeSet<String>>,
    /// Of the description, as far as there are values; read when the first is asked for.
    parameters: OnceLock<Vec<(Box<str>, ParameterValue)>>,
}

impl<'a> ModelView<'a> {
    /// Bytes of the longest name of an architecture that keys are made of.
    const MAX_NAME: usize = 256;
    /// Elements of the longest array that is treated as one value per block.
    const MAX_BLOCKS: u64 = 1 << 16;

    /// The model that a finished file's metadata is of.
    pub fn of_metadata(metadata: Metadata<'a>) -> Self {
        Self::of(Entries::Read(metadata))
    }

    /// The model that metadata which are to be written are of.
    pub fn of_metadata_to_write(metadata: &'a MetadataBuf) -> Self {
        Self::of(Entries::ToWrite(metadata))
    }

    /// The model of a checkpoint, from the description that was applied to its configuration.
    pub fn of_checkpoint(model: &Resolved<'a>) -> Self {
        let mut metadata = MetadataBuf::new();
        metadata.set(keys::GENERAL_ARCHITECTURE, model.architecture().name());
        model.write_keys(FileType::F32, &mut metadata);
        // The one who writes the file says it.
        metadata.remove(keys::GENERAL_FILE_TYPE);
        let parameters: Vec<_> =
            model.parameters().map(|(name, value)| (name.into(), value.clone())).collect();
        Self {
            description: Some(model.architecture()),
            parameters: parameters.into(),
            ..Self::of(Entries::Made(metadata))
        }
    }

    fn of(entries: Entries<'a>) -> Self {
        let text = |value: Value<'_>| {
            value.as_str().filter(|name| name.len() <= Self::MAX_NAME).map(str::to_owned)
        };
        let architecture = entries
            .get(keys::GENERAL_ARCHITECTURE)
            .and_then(Result::ok)
            .and_then(text)
            .unwrap_or_default();
        let parameters = OnceLock::new();
        Self { architecture, entries, description: None, tensors: None, parameters }
    }

    /// The same model by a description of its architecture, where there is one.
    #[must_use]
    pub fn described_by(mut self, description: Option<&'a Architecture>) -> Self {
        (self.description, self.parameters) = (description, OnceLock::new());
        self
    }

    /// The same model with the names of its tensors, which decide how some architectures are
    /// computed.
    #[must_use]
    pub fn with_tensors(mut self, names: impl IntoIterator<Item = String>) -> Self {
        self.tensors = Some(names.into_iter().collect());
        self
    }

    /// The name of the architecture; empty where there is none.
    pub fn architecture(&self) -> &str {
        &self.architecture
    }

    /// The description that it goes by.
    pub fn description(&self) -> Option<&'a Architecture> {
        self.description
    }

    /// Every number and tensor by the description, where there is one. Fails as
    /// [`Architecture::resolve_file`] does.
    pub fn resolve(&self) -> Option<Result<Resolved<'a>>> {
        self.description.map(|description| description.resolve_entries(&self.entries))
    }

    /// The state that the model keeps between tokens according to the description; `None` without a
    /// description or if it does not define this. Fails for metadata without a key that this takes.
    pub fn memory(&self) -> Option<Result<MemorySpec>> {
        let description = self.description?;
        let template = description.memory.as_ref()?;
        let memory = match &self.tensors {
            Some(tensors) => {
                let blocks = self.block_count().unwrap_or(0);
                template.resolve(&WithTensors { entries: &self.entries, tensors, blocks })
            }
            None => template.resolve(&self.entries),
        };
        let memory = memory.map(|mut memory| {
            if memory.compute.is_err() && description.has_graph() {
                memory.compute = self.lowered(&memory).map_err(|error| error.to_string());
            }
            memory
        });
        Some(memory.map_err(|error| error.within(description.name())))
    }

    /// What is computed, from the computation graph.
    fn lowered(&self, memory: &MemorySpec) -> Result<ComputeSpec> {
        let missing = || Error::configuration("the tensors are not known");
        let tensors = self.tensors.as_ref().ok_or_else(missing)?;
        let resolved = self.resolve().ok_or_else(missing)??;
        let graph = resolved.graph(&|name| tensors.contains(name))?;
        Ok(ComputeSpec::lowered(Lowering {
            graph,
            caches: memory.caches.clone(),
            build: memory.build.clone(),
        }))
    }

    /// The whole key of a number: `llama.block_count` of `block_count`.
    pub fn key(&self, name: &str) -> String {
        format!("{}.{name}", self.architecture)
    }

    /// The value that the metadata has for a number, of whatever type.
    pub fn value(&self, name: &str) -> Option<Value<'_>> {
        self.entries.get(&self.key(name))?.ok()
    }

    /// A single integer that is not negative.
    pub fn integer(&self, name: &str) -> Option<u64> {
        self.value(name)?.as_u64()
    }

    /// An integer that is not negative, or the first of an array with one for each block.
    pub fn first_integer(&self, name: &str) -> Option<u64> {
        let value = self.value(name)?;
        match value.as_array() {
            Some(array) => array.iter().next()?.ok()?.as_u64(),
            None => value.as_u64(),
        }
    }

    /// The integers of an array with one for each block, or the single one; `None` where one is
    /// negative or the array is too long for a model.
    pub fn integers(&self, name: &str) -> Option<Vec<u64>> {
        let value = self.value(name)?;
        match value.as_array() {
            Some(array) if array.len() > Self::MAX_BLOCKS => None,
            // One that cannot be a size makes the others worth nothing.
            Some(array) => array.integers()?.map(|number| u64::try_from(number).ok()).collect(),
            None => value.as_u64().map(|number| vec![number]),
        }
    }

    /// The elements that an array has.
    pub fn len_of(&self, name: &str) -> Option<u64> {
        self.value(name)?.as_array().map(|array| array.len())
    }

    /// Whether there is such a key.
    pub fn has(&self, name: &str) -> bool {
        self.entries.get(&self.key(name)).is_some()
    }

    /// The value of a hyperparameter of the description; `None` without a description, and where it
    /// has no value.
    pub fn parameter(&self, name: &str) -> Option<&ParameterValue> {
        let parameters = self.parameters.get_or_init(|| {
            self.description
                .map(|description| description.parameters_of(&self.entries, &[], [None; 3]))
                .unwrap_or_default()
        });
        parameters
            .iter()
            .find(|(known, value)| &**known == name && value.is_some())
            .map(|(_, value)| value)
    }

    /// A size, or that of the first block: by the description's hyperparameter, else by the key
    /// that every architecture has for it.
    fn size(&self, parameter: &str, key: &str) -> Option<u64> {
        let described = self
            .parameter(parameter)
            .and_then(|value| value.as_list().map_or(Some(value), |list| list.first())?.as_u64());
        described.or_else(|| self.first_integer(key))
    }

    /// How many blocks the model has, as far as it says so.
    pub fn block_count(&self) -> Option<u64> {
        self.size("block_count", "block_count")
    }

    /// How many of the blocks only draft the tokens to come.
    pub fn draft_block_count(&self) -> u64 {
        self.size("nextn_predict_layers", "nextn_predict_layers").unwrap_or(0)
    }

    /// How many heads ask, in the first block; 0 where it is not said.
    pub fn head_count(&self) -> u64 {
        self.size("head_count", "attention.head_count").unwrap_or(0)
    }

    /// How many heads have keys and values, in the first block: as many as ask where it is not
    /// said.
    pub fn head_count_kv(&self) -> u64 {
        self.size("head_count_kv", "attention.head_count_kv").unwrap_or_else(|| self.head_count())
    }

    /// How many experts a block has; 0 where there are none.
    pub fn expert_count(&self) -> u64 {
        self.size("expert_count", "expert_count").unwrap_or(0)
    }

    /// The role of a tensor: by the description where it has the tensor, else by its name.
    pub fn role(&self, tensor: &str) -> Role {
        self.description
            .and_then(|description| description.role_of(tensor))
            .unwrap_or_else(|| Role::of_standard_name(tensor))
    }
}
