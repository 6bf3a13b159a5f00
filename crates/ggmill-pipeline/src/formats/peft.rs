//! Adapters as the PEFT library saves them.

use std::path::{Path, PathBuf};

use crate::{Checkpoint, Error, ErrorKind, FileRange, Pretrained, Result};
use crate::{SideFiles, SourceTensor};
use ggmill_core::RawStr;
use ggmill_io::{Directory, RandomAccess};
use serde_json::Value;

use crate::formats::checkpoint::{
    CheckpointDirectory, MAX_CONFIG, Part, has_weights, is_description, read_json,
};
use crate::formats::json::Unambiguous;

/// The file that makes a directory an adapter.
const CONFIG: &str = "adapter_config.json";
/// Its weights: the first of these that exists.
const WEIGHTS: [&str; 2] = ["adapter_model.safetensors", "adapter_model.bin"];

/// A directory of the PEFT library: `adapter_config.json`, which is its configuration, beside
/// `adapter_model.safetensors` or `adapter_model.bin`.
///
/// Tensors are in the order of the reference converter: that of their data (safetensors) or of the
/// dictionary (PyTorch).
#[derive(Debug)]
pub struct PeftAdapter {
    name: Option<String>,
    config: Value,
    directory: Directory,
    descriptions: Vec<PathBuf>,
    weights: Part,
    tensors: Vec<SourceTensor>,
    /// For each tensor its number in the file.
    places: Vec<usize>,
}

impl PeftAdapter {
    /// Whether a path leads to an adapter: a directory with `adapter_config.json` and without the
    /// weights of a model.
    pub fn is_at(path: impl AsRef<Path>) -> bool {
        Directory::open(path)
            .is_ok_and(|directory| directory.has(CONFIG) && !has_weights(&directory))
    }

    /// Opens a directory. Fails when one of the two files is missing or cannot be read.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        let directory = Directory::open(path)?;
        let Unambiguous(config) = read_json(&directory.file(CONFIG)?, MAX_CONFIG)?;
        let Some(file) = WEIGHTS.into_iter().find(|name| directory.has(name)) else {
            let message = format!("contains neither {}", WEIGHTS.join(" nor "));
            return Err(Error::new(ErrorKind::Checkpoint, message).file(directory.path()));
        };
        let weights = Part::open(directory.file(file)?)?;
        let stored = weights.checkpoint();
        let mut places: Vec<usize> = (0..stored.tensors().len()).collect();
        if let Part::Safetensors(file) = &weights {
            places.sort_by_key(|&number| file.range(number).map(|range| range.offset));
        }
        let tensors = places.iter().filter_map(|&place| stored.tensors().get(place));
        let tensors = tensors.cloned().collect();
        let descriptions = directory.files()?.into_iter().filter(|name| is_description(name));
        let descriptions = descriptions.map(|name| directory.path().join(name)).collect();
        Ok(Self {
            name: directory.name(),
            config,
            directory,
            descriptions,
            weights,
            tensors,
            places,
        })
    }

    /// The path or the name of its base, as the adapter was trained with it.
    pub fn base(&self) -> Option<&str> {
        self.config.get("base_model_name_or_path")?.as_str().filter(|path| !path.is_empty())
    }

    /// Opens the model that the adapter changes: the directory that was given, or else the one that
    /// the adapter names. Its configuration is enough; its weights count where it has some, since
    /// some architectures are told apart by them.
    ///
    /// Fails when neither is a directory, and as [`CheckpointDirectory::open_described`] does.
    pub fn open_base(&self, given: Option<&Path>) -> Result<CheckpointDirectory> {
        let missing = |message: String| {
            Err(Error::new(ErrorKind::Checkpoint, message).file(self.directory.path()))
        };
        let path = match (given, self.base()) {
            (Some(given), _) => given,
            (None, Some(named)) if Path::new(named).is_dir() => Path::new(named),
            (None, Some(named)) => {
                return missing(format!(
                    "the base of the adapter is {:?}, which is not a local directory",
                    RawStr::from(named)
                ));
            }
            (None, None) => return missing("the adapter does not specify its base".to_owned()),
        };
        if path.is_file() {
            let message = "is a file, expected a directory";
            return Err(Error::new(ErrorKind::Checkpoint, message).file(path));
        }
        CheckpointDirectory::open_described(path)
    }

    /// The files it was read from: what must not be written over.
    pub fn files(&self) -> impl Iterator<Item = &Path> {
        std::iter::once(self.weights.path()).chain(self.descriptions.iter().map(PathBuf::as_path))
    }
}

impl Checkpoint for PeftAdapter {
    fn tensors(&self) -> &[SourceTensor] {
        &self.tensors
    }

    fn read(&self, number: usize, offset: u64, out: &mut [u8]) -> Result<()> {
        let misuse = || Error::new(ErrorKind::Misuse, "no tensor has this number");
        let &place = self.places.get(number).ok_or_else(misuse)?;
        self.weights.checkpoint().read(place, offset, out)
    }

    fn sources(&self) -> Vec<&RandomAccess> {
        self.weights.checkpoint().sources()
    }

    fn range(&self, number: usize) -> Option<FileRange<'_>> {
        self.weights.checkpoint().range(*self.places.get(number)?)
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
