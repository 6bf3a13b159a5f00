use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use ggmill_core::{Endian, RawStr};
use ggmill_io::{Directory, RandomAccess};
use serde_json::Value;

use super::file::SafetensorsFile;
use super::header::MAX_HEADER;
use crate::json::{Unambiguous, json_from_slice, unique};
use ggmill_pipeline::{Checkpoint, FileRange, Pretrained, SideFiles, SourceTensor};
use ggmill_pipeline::{Error, ErrorKind, Result};

/// The file that says which tensor is in which shard.
const INDEX: &str = "model.safetensors.index.json";

/// Bytes of `config.json`, which has a few thousand.
pub(crate) const MAX_CONFIG: u64 = 4 << 20;

/// A Hugging Face directory: `config.json` beside `model.safetensors`, or beside the shards that
/// `model.safetensors.index.json` lists.
///
/// Tensors are in the order of the reference converter: shard by shard in the order of their names,
/// and by name within each.
#[derive(Debug)]
pub struct Safetensors {
    name: Option<String>,
    config: Value,
    directory: Directory,
    /// Every file that is not weights: the configuration, the index, the tokenizer.
    descriptions: Vec<PathBuf>,
    files: Vec<RandomAccess>,
    tensors: Vec<SourceTensor>,
    /// For each tensor its file and where in that file its data begin.
    places: Vec<(usize, u64)>,
}

impl Safetensors {
    /// Opens a directory, or one `.safetensors` file with `config.json` beside it.
    pub fn open(path: &Path) -> Result<Self> {
        let (directory, file) = Directory::open_either(path)?;
        let parts = match file {
            Some(file) => Parts { files: vec![file], index: None },
            None => Parts::of(&directory)?,
        };
        let config_file = directory.file("config.json")?;
        let Unambiguous(config) = read_json(&config_file, MAX_CONFIG)?;
        let descriptions = directory.files()?;
        let descriptions = descriptions
            .into_iter()
            .filter(|name| is_description(name))
            .map(|name| directory.path().join(name))
            .collect();

        let mut this = Self {
            name: directory.name(),
            config,
            directory: directory.clone(),
            descriptions,
            files: Vec::new(),
            tensors: Vec::new(),
            places: Vec::new(),
        };
        for part in &parts.files {
            this.add_part(directory.file(part)?)?;
        }
        this.refuse_duplicates()?;
        if let Some(index) = &parts.index {
            this.hold_against(index)?;
        }
        Ok(this)
    }

    /// The files it was read from: what must not be written over.
    pub fn files(&self) -> impl Iterator<Item = &Path> {
        self.files
            .iter()
            .map(RandomAccess::path)
            .chain(self.descriptions.iter().map(PathBuf::as_path))
    }

    fn add_part(&mut self, file: RandomAccess) -> Result<()> {
        let SafetensorsFile { file, tensors, places } = SafetensorsFile::new(file)?;
        if self.files.len() >= ggmill_io::MAX_OPEN_FILES {
            file.close_idle();
        }
        self.places.extend(places.into_iter().map(|(start, _)| (self.files.len(), start)));
        self.tensors.extend(tensors);
        self.files.push(file);
        Ok(())
    }

    fn refuse_duplicates(&self) -> Result<()> {
        let mut seen = BTreeMap::new();
        for (tensor, place) in self.tensors.iter().zip(&self.places) {
            if let Some(other) = seen.insert(&tensor.name, place.0) {
                let (first, second) = (self.files[other].path(), self.files[place.0].path());
                let message = format!("is in two files: {} and {}", shown(first), shown(second));
                return Err(Error::new(ErrorKind::Checkpoint, message).tensor(&tensor.name));
            }
        }
        Ok(())
    }

    /// The index and the shards must list the same tensors.
    fn hold_against(&self, index: &BTreeMap<String, String>) -> Result<()> {
        let present: BTreeMap<&[u8], &Path> = self
            .tensors
            .iter()
            .zip(&self.places)
            .map(|(tensor, place)| (&*tensor.name, self.files[place.0].path()))
            .collect();
        for (name, file) in index {
            let message = match present.get(name.as_bytes()) {
                Some(path) if path.file_name().is_some_and(|found| found == file.as_str()) => {
                    continue;
                }
                Some(path) => format!(
                    "the index says it is in {:?}, it is in {}",
                    RawStr::from(&**file),
                    shown(path)
                ),
                None => {
                    format!("the index says it is in {:?}, it is not there", RawStr::from(&**file))
                }
            };
            return Err(Error::new(ErrorKind::Checkpoint, message).tensor(name));
        }
        match present
            .keys()
            .find(|name| !std::str::from_utf8(name).is_ok_and(|name| index.contains_key(name)))
        {
            Some(name) => {
                Err(Error::new(ErrorKind::Checkpoint, "is in a shard and not in the index")
                    .tensor(name))
            }
            None => Ok(()),
        }
    }
}

impl Checkpoint for Safetensors {
    fn tensors(&self) -> &[SourceTensor] {
        &self.tensors
    }

    fn read(&self, number: usize, offset: u64, out: &mut [u8]) -> Result<()> {
        let &(file, start) = self
            .places
            .get(number)
            .ok_or_else(|| Error::new(ErrorKind::Misuse, "no tensor has this number"))?;
        Ok(self.files[file].read_at(start.saturating_add(offset), out)?)
    }

    fn sources(&self) -> Vec<&RandomAccess> {
        self.files.iter().collect()
    }

    fn range(&self, number: usize) -> Option<FileRange<'_>> {
        let &(file, start) = self.places.get(number)?;
        Some(FileRange::new(self.files.get(file)?, start, Endian::Little))
    }
}

impl Pretrained for Safetensors {
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
    Path::new(name).extension().is_some_and(|extension| {
        ["json", "jsonl", "jinja", "md", "model", "txt"].iter().any(|&known| extension == known)
    })
}

/// The names of the safetensors files of a directory, and the index where there is one: tensor name
/// to file name.
struct Parts {
    files: Vec<String>,
    index: Option<BTreeMap<String, String>>,
}

impl Parts {
    fn of(directory: &Directory) -> Result<Self> {
        const WHOLE: &str = "model.safetensors";
        if directory.has(INDEX) {
            return Self::listed(&directory.file(INDEX)?);
        }
        if directory.has(WHOLE) {
            return Ok(Self { files: vec![WHOLE.to_owned()], index: None });
        }
        let other = ["pytorch_model.bin", "pytorch_model.bin.index.json", "consolidated.00.pth"]
            .into_iter()
            .find(|file| directory.has(file));
        let message = match other {
            Some(file) => {
                format!("has {file} and no {WHOLE}; only safetensors are converted so far")
            }
            None => format!("has no {WHOLE} and no {INDEX}"),
        };
        Err(Error::new(ErrorKind::Checkpoint, message).file(directory.path()))
    }

    /// The files that an index lists, in the order of their names.
    fn listed(index_file: &RandomAccess) -> Result<Self> {
        /// Other entries of an index are skipped without taking memory.
        #[derive(serde::Deserialize)]
        struct Listing {
            #[serde(deserialize_with = "unique")]
            weight_map: BTreeMap<String, String>,
        }
        let Listing { weight_map: index } = read_json(index_file, MAX_HEADER)?;
        let mut files: Vec<String> = index.values().cloned().collect();
        files.sort_unstable();
        files.dedup();
        Ok(Self { files, index: Some(index) })
    }
}

pub(crate) fn read_json<T: serde::de::DeserializeOwned>(
    file: &RandomAccess,
    limit: u64,
) -> Result<T> {
    let bytes = file.read_whole(limit)?;
    json_from_slice(&bytes).map_err(|error| {
        let what = if error.is_data() { "is not as expected" } else { "is not JSON" };
        Error::new(ErrorKind::Checkpoint, format!("{what}: {}", RawStr::from(&*error.to_string())))
            .file(file.path())
    })
}

fn shown(path: &Path) -> String {
    RawStr::new(path.as_os_str().as_encoded_bytes()).to_string()
}
