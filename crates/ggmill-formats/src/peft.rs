//! Adapters as the PEFT library saves them.

use std::path::{Path, PathBuf};

use ggmill_io::{Directory, RandomAccess};
use ggmill_pipeline::{Checkpoint, Error, ErrorKind, FileRange, Pretrained, Result};
use ggmill_pipeline::{SideFiles, SourceTensor};
use serde_json::Value;

use crate::checkpoint::{MAX_CONFIG, is_description, read_json};
use crate::json::Unambiguous;
use crate::safetensors::SafetensorsFile;

/// The file that makes a directory an adapter.
const CONFIG: &str = "adapter_config.json";
const WEIGHTS: &str = "adapter_model.safetensors";
const PICKLED: &str = "adapter_model.bin";

/// A directory of the PEFT library: `adapter_config.json`, which is its configuration, beside
/// `adapter_model.safetensors`.
#[derive(Debug)]
pub struct PeftAdapter {
    name: Option<String>,
    config: Value,
    directory: Directory,
    descriptions: Vec<PathBuf>,
    weights: SafetensorsFile,
}

impl PeftAdapter {
    /// Whether a path leads to an adapter: a directory with `adapter_config.json` and without the
    /// weights of a model.
    pub fn is_at(path: impl AsRef<Path>) -> bool {
        const OF_MODELS: [&str; 2] = ["model.safetensors", "model.safetensors.index.json"];
        Directory::open(path).is_ok_and(|directory| {
            directory.has(CONFIG) && !OF_MODELS.iter().any(|name| directory.has(name))
        })
    }

    /// Opens a directory. Fails when one of the two files is missing or cannot be read.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        let directory = Directory::open(path)?;
        let Unambiguous(config) = read_json(&directory.file(CONFIG)?, MAX_CONFIG)?;
        if !directory.has(WEIGHTS) {
            let message = if directory.has(PICKLED) {
                format!("has {PICKLED} and no {WEIGHTS}; only safetensors are converted so far")
            } else {
                format!("has no {WEIGHTS}")
            };
            return Err(Error::new(ErrorKind::Checkpoint, message).file(directory.path()));
        }
        let weights = SafetensorsFile::open(directory.path().join(WEIGHTS))?;
        let descriptions = directory.files()?.into_iter().filter(|name| is_description(name));
        let descriptions = descriptions.map(|name| directory.path().join(name)).collect();
        Ok(Self { name: directory.name(), config, directory, descriptions, weights })
    }

    /// The path or the name of its base, as the adapter was trained with it.
    pub fn base(&self) -> Option<&str> {
        self.config.get("base_model_name_or_path")?.as_str().filter(|path| !path.is_empty())
    }

    /// The files it was read from: what must not be written over.
    pub fn files(&self) -> impl Iterator<Item = &Path> {
        let weights = self.weights.sources().into_iter().map(RandomAccess::path);
        weights.chain(self.descriptions.iter().map(PathBuf::as_path))
    }
}

impl Checkpoint for PeftAdapter {
    fn tensors(&self) -> &[SourceTensor] {
        self.weights.tensors()
    }

    fn read(&self, number: usize, offset: u64, out: &mut [u8]) -> Result<()> {
        self.weights.read(number, offset, out)
    }

    fn sources(&self) -> Vec<&RandomAccess> {
        self.weights.sources()
    }

    fn range(&self, number: usize) -> Option<FileRange<'_>> {
        self.weights.range(number)
    }
}

impl Pretrained for PeftAdapter {
    fn config(&self) -> &Value {
        &self.config
    }

    fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    fn side_files(&self) -> &dyn SideFiles {
        &self.directory
    }
}
