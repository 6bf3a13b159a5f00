//! The directories that hold a checkpoint: weights in one or more files, and what describes them.

mod below;
mod index;
mod layout;
mod part;

pub(crate) use self::layout::has_weights;
pub(crate) use self::part::Part;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use ggmill_core::RawStr;
use ggmill_io::{Directory, RandomAccess};
use serde_json::Value;

use self::index::Index;
use self::layout::Layout;
use crate::formats::json::{Unambiguous, json_from_slice};
use crate::{Checkpoint, FileRange, Pretrained, SideFiles, SourceTensor};
use crate::{Error, ErrorKind, Result};

/// Bytes of `config.json`, which has a few thousand.
pub(crate) const MAX_CONFIG: u64 = 4 << 20;

/// A checkpoint as Hugging Face has them: `config.json` beside weights in safetensors
/// (`model*.safetensors`) or PyTorch files (`pytorch_model*.bin`), or beside those that an index
/// (`model.safetensors.index.json`, `pytorch_model.bin.index.json`) lists. Where there are both,
/// safetensors count.
///
/// Or one as those have them who trained it: `params.json` beside `consolidated*.safetensors`
/// (Mistral), or beside `consolidated.00.pth`, `consolidated.01.pth` and so on (Meta), each with a
/// share of every tensor. The names of tensors in the latter begin with the number of their file:
/// `1/layers.0.attention.wq.weight`; the configuration has the number of files as `shards`. A
/// directory that has both layouts is read as Hugging Face's, unless a file of the other is given.
///
/// Or one file of llama2.c (`model.bin`, version 0), which has its configuration itself, with
/// `tokenizer.bin` beside it.
///
/// The weights of dense layers behind the model that `modules.json` of sentence-transformers lists
/// belong to it too: `1_Dense/linear.weight` is a tensor of `1_Dense/model.safetensors`. So do those
/// of an encoder of sound in a directory `audio_tokenizer`.
///
/// Tensors are in the order of the reference converter: file by file in the order of their names,
/// and within each by name (safetensors) or in the order of the dictionary (PyTorch); those of
/// `audio_tokenizer` in the order of their file.
#[derive(Debug)]
pub struct CheckpointDirectory {
    name: Option<String>,
    config: Value,
    directory: Directory,
    /// Every file that is not weights: the configuration, the index, the tokenizer.
    descriptions: Vec<PathBuf>,
    parts: Vec<Part>,
    tensors: Vec<SourceTensor>,
    /// For each tensor its part and its number there.
    places: Vec<(usize, usize)>,
}

impl CheckpointDirectory {
    /// Opens a directory, or one file of weights with its configuration in it or beside it.
    pub fn open(path: &Path) -> Result<Self> {
        let (directory, file) = Directory::open_either(path)?;
        Self::open_in(directory, file)
    }

    /// Opens a directory that need not be on this machine, or the file of it with this name, as
    /// [`open`](Self::open) does.
    pub fn open_in(directory: Directory, file: Option<String>) -> Result<Self> {
        if let Some(file) = &file {
            if let Some((part, config)) = Part::with_configuration(directory.file(file)?)? {
                let name = Path::new(file).file_stem().and_then(|name| name.to_str());
                let mut this = Self::empty(directory, config)?;
                this.name = name.map(str::to_owned);
                this.add_part(part, "");
                return Ok(this);
            }
            // A file of another sort is refused for what it is, not for what is not beside it.
            Part::open(directory.file(file)?)?;
        }
        let layout = Layout::of(&directory, file)?;
        let config_file = directory.file(layout.config)?;
        let Unambiguous(mut config) = read_json(&config_file, MAX_CONFIG)?;
        if layout.is_split {
            layout::complete(&mut config, layout.files.len());
        }
        let mut this = Self::empty(directory, config)?;
        for (number, file) in layout.files.iter().enumerate() {
            let prefix = if layout.is_split { format!("{number}/") } else { String::new() };
            this.add_part(Part::open(this.directory.file(file)?)?, &prefix);
        }
        this.refuse_duplicates()?;
        if let Some(index) = &layout.index {
            this.hold_against(index)?;
        }
        for (name, file) in layout::dense_modules(&this.directory)? {
            this.add_part(Part::open(file)?, &format!("{name}/"));
        }
        if let Some((name, file)) = layout::audio_tokenizer(&this.directory)? {
            this.add_in_order(Part::open(file)?, &format!("{name}/"), |part, number| {
                part.range(number).map(|range| range.offset)
            });
        }
        this.refuse_duplicates()?;
        Ok(this)
    }

    /// Opens a directory as [`open`](Self::open) does, or, where no file in it has weights, what
    /// describes the model alone: a checkpoint without tensors. That is enough for a vocabulary, and
    /// for the base of an adapter.
    pub fn open_described(path: &Path) -> Result<Self> {
        Self::open_described_in(Directory::open(path)?)
    }

    /// Opens a directory that need not be on this machine, as
    /// [`open_described`](Self::open_described) does.
    pub fn open_described_in(directory: Directory) -> Result<Self> {
        if layout::has_parts(&directory)? {
            return Self::open_in(directory, None);
        }
        let config = directory.file(layout::configuration(&directory))?;
        let Unambiguous(config) = read_json(&config, MAX_CONFIG)?;
        Self::empty(directory, config)
    }

    /// A checkpoint without weights yet.
    fn empty(directory: Directory, config: Value) -> Result<Self> {
        let descriptions = directory.files()?;
        let descriptions = descriptions.into_iter().filter(|name| is_description(name));
        Ok(Self {
            name: directory.name(),
            config,
            descriptions: descriptions.map(|name| directory.path().join(name)).collect(),
            directory,
            parts: Vec::new(),
            tensors: Vec::new(),
            places: Vec::new(),
        })
    }

    /// The files it was read from: what must not be written over.
    pub fn files(&self) -> impl Iterator<Item = &Path> {
        let parts = self.parts.iter().map(Part::path);
        parts.chain(self.descriptions.iter().map(PathBuf::as_path))
    }

    /// Adds a file, before the names of whose tensors a prefix is put.
    fn add_part(&mut self, part: Part, prefix: &str) {
        self.add_in_order(part, prefix, |_, number| number);
    }

    /// The same with its tensors in another order.
    fn add_in_order<K: Ord>(
        &mut self,
        part: Part,
        prefix: &str,
        place: impl Fn(&dyn Checkpoint, usize) -> K,
    ) {
        if self.parts.len() >= ggmill_io::MAX_OPEN_FILES {
            part.file().close_idle();
        }
        let tensors = part.checkpoint().tensors();
        let mut numbers: Vec<usize> = (0..tensors.len()).collect();
        numbers.sort_by_key(|&number| place(part.checkpoint(), number));
        self.places.extend(numbers.iter().map(|&number| (self.parts.len(), number)));
        self.tensors.extend(numbers.iter().map(|&number| {
            let mut tensor = tensors[number].clone();
            tensor.name = [prefix.as_bytes(), &tensor.name].concat();
            tensor
        }));
        self.parts.push(part);
    }

    /// Where each tensor is, by name.
    fn present(&self) -> impl Iterator<Item = (&[u8], &Path)> {
        let paths = self.places.iter().map(|&(part, _)| self.parts[part].path());
        self.tensors.iter().map(|tensor| &*tensor.name).zip(paths)
    }

    fn refuse_duplicates(&self) -> Result<()> {
        let mut seen = BTreeMap::new();
        for (name, path) in self.present() {
            if let Some(other) = seen.insert(name, path) {
                let message = format!("is in two files: {} and {}", shown(other), shown(path));
                return Err(Error::new(ErrorKind::Checkpoint, message).tensor(name));
            }
        }
        Ok(())
    }

    /// The index and the shards must list the same tensors.
    fn hold_against(&self, index: &Index) -> Result<()> {
        let present: BTreeMap<&[u8], &Path> = self.present().collect();
        for (name, file) in &index.files {
            let message = match present.get(name.as_bytes()) {
                Some(path) if path.file_name().is_some_and(|found| found == file.as_str()) => {
                    continue;
                }
                Some(path) => format!(
                    "according to the index it is in {:?}, but it is in {}",
                    RawStr::from(&**file),
                    shown(path)
                ),
                None => {
                    format!(
                        "according to the index it is in {:?}, but it is missing there",
                        RawStr::from(&**file)
                    )
                }
            };
            return Err(Error::new(ErrorKind::Checkpoint, message).tensor(name));
        }
        let is_listed = |name: &[u8]| {
            std::str::from_utf8(name).is_ok_and(|name| index.files.contains_key(name))
        };
        match present.keys().find(|name| !is_listed(name)) {
            Some(name) => {
                Err(Error::new(ErrorKind::Checkpoint, "is in a shard, but not in the index")
                    .tensor(name))
            }
            None => Ok(()),
        }
    }

    /// The part that has a tensor, and the tensor's number there.
    fn place(&self, number: usize) -> Option<(&dyn Checkpoint, usize)> {
        let &(part, number) = self.places.get(number)?;
        Some((self.parts.get(part)?.checkpoint(), number))
    }
}

impl Checkpoint for CheckpointDirectory {
    fn tensors(&self) -> &[SourceTensor] {
        &self.tensors
    }

    fn read(&self, number: usize, offset: u64, out: &mut [u8]) -> Result<()> {
        let misuse = || Error::new(ErrorKind::Misuse, "no tensor has this number");
        let (part, number) = self.place(number).ok_or_else(misuse)?;
        part.read(number, offset, out)
    }

    fn prefetch(&self, numbers: &[usize]) {
        let mut of_parts = vec![Vec::new(); self.parts.len()];
        for &(part, number) in numbers.iter().filter_map(|&number| self.places.get(number)) {
            of_parts[part].push(number);
        }
        for (part, numbers) in self.parts.iter().zip(&of_parts) {
            part.checkpoint().prefetch(numbers);
        }
    }

    fn sources(&self) -> Vec<&RandomAccess> {
        self.parts.iter().map(Part::file).collect()
    }

    fn range(&self, number: usize) -> Option<FileRange<'_>> {
        let (part, number) = self.place(number)?;
        part.range(number)
    }
}

impl Pretrained for CheckpointDirectory {
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

/// Whether a file of a checkpoint's directory describes the model: everything but weights.
pub(crate) fn is_description(name: &str) -> bool {
    // Mistral's have a version at their end; llama2.c's is not text.
    name.starts_with("tokenizer.model")
        || name == "tokenizer.bin"
        || Path::new(name).extension().is_some_and(|extension| {
            ["json", "jsonl", "jinja", "md", "model", "txt"].iter().any(|&known| extension == known)
        })
}

pub(crate) fn read_json<T: serde::de::DeserializeOwned>(
    file: &RandomAccess,
    limit: u64,
) -> Result<T> {
    let bytes = file.read_whole(limit)?;
    json_from_slice(&bytes).map_err(|error| {
        let what = if error.is_data() { "has unexpected content" } else { "is not valid JSON" };
        Error::new(ErrorKind::Checkpoint, format!("{what}: {}", RawStr::from(&*error.to_string())))
            .file(file.path())
    })
}

fn shown(path: &Path) -> String {
    RawStr::new(path.as_os_str().as_encoded_bytes()).to_string()
}
