use std::collections::BTreeMap;

use ggmill_io::RandomAccess;
use serde_json::Value;

use crate::error::Result;
use crate::source::{Checkpoint, FileRange, Pretrained, SideFiles, SourceTensor};

/// A checkpoint whose configuration and side files are in memory: tensors from anywhere become
/// something that can be converted.
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
    /// These tensors with the content of `config.json`, without a name and without side files.
    pub fn new(checkpoint: C, config: Value) -> Self {
        Self { checkpoint, config, name: None, files: BTreeMap::new() }
    }

    /// With a name, as that of a directory.
    #[must_use]
    pub fn with_name(self, name: impl Into<String>) -> Self {
        Self { name: Some(name.into()), ..self }
    }

    /// With these side files, by their names.
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
