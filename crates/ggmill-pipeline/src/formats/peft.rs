//! Adapters saved by the PEFT library.

use std::path::{Component, Path, PathBuf};

use ggmill_core::RawStr;
use ggmill_io::{Directory, RandomAccess};
use serde_json::Value;

use crate::formats::checkpoint::{
    CheckpointDirectory, MAX_CONFIG, Part, has_weights, is_description, read_json,
};
use crate::formats::json::Unambiguous;
use crate::{Checkpoint, Error, ErrorKind, FileRange, Pretrained, Result, SideFiles, SourceTensor};

/// The file that identifies an adapter.
const CONFIG: &str = "adapter_config.json";
/// The names of its weights, in order of precedence.
const WEIGHTS: [&str; 2] = ["adapter_model.safetensors", "adapter_model.bin"];

/// A directory of the PEFT library: the configuration `adapter_config.json` with
/// `adapter_model.safetensors` or `adapter_model.bin`.
///
/// Tensors are in the order of the reference converter: by offset (safetensors) or in dictionary
/// order (PyTorch).
#[derive(Debug)]
pub struct PeftAdapter {
    name: Option<String>,
    config: Value,
    directory: Directory,
    descriptions: Vec<PathBuf>,
    weights: Part,
    tensors: Vec<SourceTensor>,
    /// The number of each tensor in the file.
    places: Vec<usize>,
}

impl PeftAdapter {
    /// Returns `true` if the path is a directory with `adapter_config.json` and without model
    /// weights.
    pub fn is_at(path: impl AsRef<Path>) -> bool {
        Directory::open(path)
            .is_ok_and(|directory| directory.has(CONFIG) && !has_weights(&directory))
    }

    /// Opens a directory. Fails if the configuration or the weights are missing or cannot be read.
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

    /// Returns the path or name of the base model it was trained with.
    pub fn base(&self) -> Option<&str> {
        self.config.get("base_model_name_or_path")?.as_str().filter(|path| !path.is_empty())
    }

    /// Opens the base model: the directory `path`, or the one that the adapter names. It may lack
    /// weights; if it has them, they help to distinguish architectures.
    ///
    /// The adapter comes from a stranger, so its name of the base is followed only to a directory below
    /// the adapter's. Fails if there is none, and like [`CheckpointDirectory::open_described`].
    pub fn open_base(&self, path: Option<&Path>) -> Result<CheckpointDirectory> {
        let missing = |message: String| {
            Err(Error::new(ErrorKind::Checkpoint, message).file(self.directory.path()))
        };
        let path = match (path, self.base()) {
            (Some(path), _) => path.to_owned(),
            (None, Some(named)) => match self.below(named) {
                Some(path) => path,
                None => {
                    return missing(format!(
                        "the base of the adapter is {:?}, which is not a directory below the adapter's",
                        RawStr::from(named)
                    ));
                }
            },
            (None, None) => return missing("the adapter does not specify its base".to_owned()),
        };
        if path.is_file() {
            let message = "is a file, expected a directory";
            return Err(Error::new(ErrorKind::Checkpoint, message).file(&path));
        }
        CheckpointDirectory::open_described(&path)
    }

    /// Returns the directory of this name below the adapter's; `None` if it is absent or elsewhere, also
    /// by a link.
    fn below(&self, named: &str) -> Option<PathBuf> {
        let is_plain = |part| matches!(part, Component::Normal(_) | Component::CurDir);
        let named = Path::new(named);
        let parent = self.directory.path().canonicalize().ok()?;
        let path = parent.join(named).canonicalize().ok()?;
        let is_below = named.components().all(is_plain) && path != parent;
        (is_below && path.starts_with(&parent) && path.is_dir()).then_some(path)
    }

    /// Returns the files it was read from, which an output must not overwrite.
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
