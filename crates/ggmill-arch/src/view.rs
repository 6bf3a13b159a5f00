//! A lenient view of the hyperparameters and tensor roles of a model.

use std::collections::BTreeSet;
use std::sync::OnceLock;

use ggmill_core::{FileType, Metadata, MetadataBuf, Value, keys};

use crate::description::architecture::Architecture;
use crate::error::{Error, Result};
use crate::lower::Lowering;
use crate::memory::MemorySpec;
use crate::memory::compute::ComputeSpec;
use crate::parameters::entries::{MetadataSource, WithTensors};
use crate::reference::role::Role;
use crate::resolve::Resolved;
use crate::value::ParameterValue;

/// The hyperparameters of one model and the roles of its tensors, from a checkpoint's configuration or
/// from metadata.
///
/// Hyperparameters are named like metadata keys without the architecture prefix, such as
/// `attention.head_count`. With a description, its hyperparameters and roles take precedence; without
/// one, the standard keys and tensor names are used. Nothing fails: missing and invalid values are
/// `None`. [`Resolved`] is the strict counterpart.
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
    entries: MetadataSource<'a>,
    description: Option<&'a Architecture>,
    /// The tensor names, if they are known.
    tensors: Option<BTreeSet<String>>,
    /// The hyperparameters of the description, evaluated on first use.
    parameters: OnceLock<Vec<(Box<str>, ParameterValue)>>,
}

impl<'a> ModelView<'a> {
    /// The maximum length of an architecture name, in bytes.
    const MAX_NAME: usize = 256;
    /// The maximum length of an array with a value per block.
    const MAX_BLOCKS: u64 = 1 << 16;

    /// Returns the view of a file with this metadata.
    pub fn of_metadata(metadata: Metadata<'a>) -> Self {
        Self::of(MetadataSource::File(metadata))
    }

    /// Returns the view of a file to be written with this metadata.
    pub fn of_metadata_to_write(metadata: &'a MetadataBuf) -> Self {
        Self::of(MetadataSource::Buffer(metadata))
    }

    /// Returns the view of a checkpoint, from the description applied to its configuration.
    pub fn of_checkpoint(model: &Resolved<'a>) -> Self {
        let mut metadata = MetadataBuf::new();
        metadata.set(keys::GENERAL_ARCHITECTURE, model.architecture().name());
        model.write_keys(FileType::F32, &mut metadata);
        // The writer of the file determines it.
        metadata.remove(keys::GENERAL_FILE_TYPE);
        let parameters: Vec<_> =
            model.parameters().map(|(name, value)| (name.into(), value.clone())).collect();
        Self {
            description: Some(model.architecture()),
            parameters: parameters.into(),
            ..Self::of(MetadataSource::Generated(metadata))
        }
    }

    fn of(entries: MetadataSource<'a>) -> Self {
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

    /// Sets the description of the architecture.
    #[must_use]
    pub fn described_by(mut self, description: Option<&'a Architecture>) -> Self {
        (self.description, self.parameters) = (description, OnceLock::new());
        self
    }

    /// Sets the tensor names, which affect the computation of some architectures.
    #[must_use]
    pub fn with_tensors(mut self, names: impl IntoIterator<Item = String>) -> Self {
        self.tensors = Some(names.into_iter().collect());
        self
    }

    /// Returns the name of the architecture; empty if there is none.
    pub fn architecture(&self) -> &str {
        &self.architecture
    }

    /// Returns the description.
    pub fn description(&self) -> Option<&'a Architecture> {
        self.description
    }

    /// Applies the description, if there is one. Fails like [`Architecture::resolve_file`].
    pub fn resolve(&self) -> Option<Result<Resolved<'a>>> {
        self.description.map(|description| description.resolve_entries(&self.entries))
    }

    /// Returns the state that the model keeps between tokens; `None` without a description, or if it
    /// does not define the state. Fails if a required metadata key is missing.
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

    /// Returns the compute results, lowered from the computation graph.
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

    /// Returns the full key of a hyperparameter: `llama.block_count` for `block_count`.
    pub fn key(&self, name: &str) -> String {
        format!("{}.{name}", self.architecture)
    }

    /// Returns the metadata value of a hyperparameter, of any type.
    pub fn value(&self, name: &str) -> Option<Value<'_>> {
        self.entries.get(&self.key(name))?.ok()
    }

    /// Returns the value if it is a non-negative integer.
    pub fn integer(&self, name: &str) -> Option<u64> {
        self.value(name)?.as_u64()
    }

    /// Returns the value if it is a non-negative integer, or the first element of an array.
    pub fn first_integer(&self, name: &str) -> Option<u64> {
        let value = self.value(name)?;
        match value.as_array() {
            Some(array) => array.iter().next()?.ok()?.as_u64(),
            None => value.as_u64(),
        }
    }

    /// Returns the elements of an array with a value per block, or a single integer; `None` if an
    /// element is negative or the array is too long.
    pub fn integers(&self, name: &str) -> Option<Vec<u64>> {
        let value = self.value(name)?;
        match value.as_array() {
            Some(array) if array.len() > Self::MAX_BLOCKS => None,
            // A negative element invalidates the whole array.
            Some(array) => array.integers()?.map(|number| u64::try_from(number).ok()).collect(),
            None => value.as_u64().map(|number| vec![number]),
        }
    }

    /// Returns the number of elements of an array.
    pub fn len_of(&self, name: &str) -> Option<u64> {
        self.value(name)?.as_array().map(|array| array.len())
    }

    /// Returns `true` if the metadata has the key.
    pub fn has(&self, name: &str) -> bool {
        self.entries.get(&self.key(name)).is_some()
    }

    /// Returns the value of a hyperparameter of the description; `None` without a description or a
    /// value.
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

    /// Returns a size, or that of the first block: from the description, or else from the standard key.
    fn size(&self, parameter: &str, key: &str) -> Option<u64> {
        let described = self
            .parameter(parameter)
            .and_then(|value| value.as_list().map_or(Some(value), |list| list.first())?.as_u64());
        described.or_else(|| self.first_integer(key))
    }

    /// Returns the number of blocks, if it is known.
    pub fn block_count(&self) -> Option<u64> {
        self.size("block_count", "block_count")
    }

    /// Returns the number of blocks for multi-token prediction.
    pub fn draft_block_count(&self) -> u64 {
        self.size("nextn_predict_layers", "nextn_predict_layers").unwrap_or(0)
    }

    /// Returns the number of query heads of the first block; 0 if it is unknown.
    pub fn head_count(&self) -> u64 {
        self.size("head_count", "attention.head_count").unwrap_or(0)
    }

    /// Returns the number of key-value heads of the first block; by default the number of query heads.
    pub fn head_count_kv(&self) -> u64 {
        self.size("head_count_kv", "attention.head_count_kv").unwrap_or_else(|| self.head_count())
    }

    /// Returns the number of experts per block; 0 without experts.
    pub fn expert_count(&self) -> u64 {
        self.size("expert_count", "expert_count").unwrap_or(0)
    }

    /// Returns the role of a tensor: from the description if it has the tensor, or else from its name.
    pub fn role(&self, tensor: &str) -> Role {
        self.description
            .and_then(|description| description.role_of(tensor))
            .unwrap_or_else(|| Role::of_standard_name(tensor))
    }
}
