//! The configuration of a checkpoint without its weights.

use std::path::{Path, PathBuf};

use ggmill_io::Directory;
use ggmill_pipeline::{Checkpoint, Error, ErrorKind, Pretrained, Result, SideFiles, SourceTensor};
use serde_json::Value;

use crate::checkpoint::{MAX_CONFIG, read_json};
use crate::json::Unambiguous;

/// The directory of a checkpoint of which only `config.json` and the files beside the weights
/// count: a [`Pretrained`] without tensors, as the base of an adapter is one.
#[derive(Debug)]
pub struct Configuration {
    name: Option<String>,
    config: Value,
    directory: Directory,
}

impl Configuration {
    /// Opens a directory. Fails when there is no `config.json` in it.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        let directory = Directory::open(path)?;
        let Unambiguous(config) = read_json(&directory.file("config.json")?, MAX_CONFIG)?;
        Ok(Self { name: directory.name(), config, directory })
    }

    /// The file it was read from.
    pub fn file(&self) -> PathBuf {
        self.directory.path().join("config.json")
    }
}

impl Checkpoint for Configuration {
    fn tensors(&self) -> &[SourceTensor] {
        &[]
    }

    fn read(&self, _: usize, _: u64, _: &mut [u8]) -> Result<()> {
        Err(Error::new(ErrorKind::Misuse, "no tensor has this number"))
    }
}

impl Pretrained for Configuration {
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
