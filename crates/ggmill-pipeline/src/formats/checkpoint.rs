//! Checkpoint directories: weights in one or more files, with a configuration and side files.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use ggmill_core::RawStr;
use ggmill_io::{Directory, RandomAccess};
use serde_json::Value;

use crate::formats::json::{Unambiguous, json_from_slice, unique};
use crate::formats::llama2c::Llama2c;
use crate::formats::safetensors::SafetensorsFile;
use crate::formats::torch::TorchFile;
use crate::formats::wrappers::unwrap_names;
use crate::{Checkpoint, Error, ErrorKind, FileRange, Pretrained, Result, SideFiles, SourceTensor};

/// Limit for `config.json`, which usually has a few thousand bytes.
pub(crate) const MAX_CONFIG: u64 = 4 << 20;

/// A checkpoint directory. Supported layouts:
///
/// - Hugging Face: `config.json` with weights in safetensors (`model*.safetensors`) or PyTorch
///   files (`pytorch_model*.bin`), or in the files that an index (`model.safetensors.index.json`,
///   `pytorch_model.bin.index.json`) lists. Safetensors take precedence. As in transformers, a single
///   file (`model.safetensors`) takes precedence over shards and an index that does not list it.
/// - Mistral: `params.json` with `consolidated*.safetensors`.
/// - Meta: `params.json` with `consolidated.00.pth`, `consolidated.01.pth` and so on, each with a
///   slice of every tensor. A tensor's name begins with the number of its file
///   (`1/layers.0.attention.wq.weight`), and the configuration has the number of files as `shards`.
/// - llama2.c: one file (`model.bin`, version 0) that contains its configuration, and
///   `tokenizer.bin`.
///
/// Hugging Face's layout takes precedence over the others, unless a weight file of another is
/// given.
///
/// The weights of dense layers listed by `modules.json` of sentence-transformers are included:
/// `1_Dense/linear.weight` is a tensor of `1_Dense/model.safetensors`. So are those of an audio
/// encoder in the directory `audio_tokenizer`.
///
/// Components that wrappers added to the names of tensors (`_orig_mod.`, `module.`) are removed.
/// [`notes`](Pretrained::notes) says so, and which of several sources was used.
///
/// Tensors are in the order of the reference converter: files by name, and within a file by name
/// (safetensors) or in dictionary order (PyTorch); those of `audio_tokenizer` in the order of their
/// data.
#[derive(Debug)]
pub struct CheckpointDirectory {
    name: Option<String>,
    config: Value,
    directory: Directory,
    /// The files other than weights: configuration, index, tokenizer.
    descriptions: Vec<PathBuf>,
    parts: Vec<Part>,
    tensors: Vec<SourceTensor>,
    /// The part of each tensor and its number there.
    places: Vec<(usize, usize)>,
    notes: Vec<String>,
}

impl CheckpointDirectory {
    /// Opens a directory, or a weight file with its configuration in the file or in the same
    /// directory.
    pub fn open(path: &Path) -> Result<Self> {
        let (directory, file) = Directory::open_either(path)?;
        Self::open_in(directory, file)
    }

    /// [`open`](Self::open) for a directory that can be remote, and optionally the name of a weight
    /// file in it.
    pub fn open_in(directory: Directory, file: Option<String>) -> Result<Self> {
        if let Some(file) = &file {
            if let Some((part, config)) = Part::with_configuration(directory.file(file)?)? {
                let name = Path::new(file).file_stem().and_then(|name| name.to_str());
                let mut this = Self::empty(directory, config)?;
                this.name = name.map(str::to_owned);
                this.add_part(part, "");
                return Ok(this);
            }
            // Opened first, so that a file of another format is refused as such and not for a missing
            // configuration.
            Part::open(directory.file(file)?)?;
        }
        let layout = Layout::find(&directory, file)?;
        let config_file = directory.file(layout.config)?;
        let Unambiguous(mut config) = read_json(&config_file, MAX_CONFIG)?;
        if layout.is_split {
            complete_params(&mut config, layout.files.len());
        }
        let mut this = Self::empty(directory, config)?;
        for (number, file) in layout.files.iter().enumerate() {
            let prefix = if layout.is_split { format!("{number}/") } else { String::new() };
            this.add_part(Part::open(this.directory.file(file)?)?, &prefix);
        }
        this.refuse_duplicates()?;
        this.notes.extend(layout.note);
        if let Some(index) = &layout.index {
            this.check_index(index)?;
        }
        if !layout.is_split
            && let Some(note) = unwrap_names(&mut this.tensors)
        {
            this.notes.push(note);
            this.refuse_duplicates()?;
        }
        for (name, file) in dense_modules(&this.directory)? {
            this.add_part(Part::open(file)?, &format!("{name}/"));
        }
        if let Some((name, file)) = audio_tokenizer(&this.directory)? {
            this.add_sorted(Part::open(file)?, &format!("{name}/"), |part, number| {
                part.range(number).map(|range| range.offset)
            });
        }
        this.refuse_duplicates()?;
        Ok(this)
    }

    /// Like [`open`](Self::open), but a directory without weights gives a checkpoint without
    /// tensors, which is sufficient for a vocabulary and for the base of an adapter.
    pub fn open_described(path: &Path) -> Result<Self> {
        Self::open_described_in(Directory::open(path)?)
    }

    /// [`open_described`](Self::open_described) for a directory that can be remote.
    pub fn open_described_in(directory: Directory) -> Result<Self> {
        if has_parts(&directory)? {
            return Self::open_in(directory, None);
        }
        let config = directory.file(configuration(&directory))?;
        let Unambiguous(config) = read_json(&config, MAX_CONFIG)?;
        Self::empty(directory, config)
    }

    /// Creates a checkpoint without weights.
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
            notes: Vec::new(),
        })
    }

    /// Returns the files it was read from, which an output must not overwrite.
    pub fn files(&self) -> impl Iterator<Item = &Path> {
        let parts = self.parts.iter().map(Part::path);
        parts.chain(self.descriptions.iter().map(PathBuf::as_path))
    }

    /// Adds a file, and prefixes the names of its tensors.
    fn add_part(&mut self, part: Part, prefix: &str) {
        self.add_sorted(part, prefix, |_, number| number);
    }

    /// [`add_part`](Self::add_part) with the tensors sorted by a key.
    fn add_sorted<K: Ord>(
        &mut self,
        part: Part,
        prefix: &str,
        key: impl Fn(&dyn Checkpoint, usize) -> K,
    ) {
        if self.parts.len() >= ggmill_io::MAX_OPEN_FILES {
            part.file().close_idle();
        }
        let tensors = part.checkpoint().tensors();
        let mut numbers: Vec<usize> = (0..tensors.len()).collect();
        numbers.sort_by_key(|&number| key(part.checkpoint(), number));
        self.places.extend(numbers.iter().map(|&number| (self.parts.len(), number)));
        self.tensors.extend(numbers.iter().map(|&number| {
            let mut tensor = tensors[number].clone();
            tensor.name = [prefix.as_bytes(), &tensor.name].concat();
            tensor
        }));
        self.parts.push(part);
    }

    /// Returns the name and file of each tensor.
    fn names_and_files(&self) -> impl Iterator<Item = (&[u8], &Path)> {
        let paths = self.places.iter().map(|&(part, _)| self.parts[part].path());
        self.tensors.iter().map(|tensor| &*tensor.name).zip(paths)
    }

    fn refuse_duplicates(&self) -> Result<()> {
        let mut seen = BTreeMap::new();
        for (name, path) in self.names_and_files() {
            if let Some(other) = seen.insert(name, path) {
                let message = format!("is in two files: {} and {}", shown(other), shown(path));
                return Err(Error::new(ErrorKind::Checkpoint, message).tensor(name));
            }
        }
        Ok(())
    }

    /// Compares the index with its shards. Fails if it lists a tensor that they lack. Adds a note if it
    /// lists another shard for a tensor or lacks one: transformers reads all tensors of the shards.
    fn check_index(&mut self, index: &Index) -> Result<()> {
        let present: BTreeMap<&[u8], &Path> = self.names_and_files().collect();
        let mut differences = Vec::new();
        for (name, file) in &index.files {
            match present.get(name.as_bytes()) {
                Some(path) if path.file_name().is_some_and(|found| found == file.as_str()) => {}
                Some(_) => differences.push(RawStr::from(&**name)),
                None => {
                    let message = format!(
                        "according to the index it is in {:?}, but it is missing there; if the \
                         index is out of date, remove it",
                        RawStr::from(&**file)
                    );
                    return Err(Error::new(ErrorKind::Checkpoint, message).tensor(name));
                }
            }
        }
        let is_listed = |name: &[u8]| {
            std::str::from_utf8(name).is_ok_and(|name| index.files.contains_key(name))
        };
        differences
            .extend(present.keys().filter(|name| !is_listed(name)).map(|name| RawStr::new(name)));
        if let Some(first) = differences.first() {
            let note = format!(
                "the index does not match its shards for {} of {} tensors, for example {first}; the \
                 shards were used",
                differences.len(),
                present.len()
            );
            self.notes.push(note);
        }
        Ok(())
    }

    /// Returns the part of a tensor and its number there.
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
        let mut by_part = vec![Vec::new(); self.parts.len()];
        for &(part, number) in numbers.iter().filter_map(|&number| self.places.get(number)) {
            by_part[part].push(number);
        }
        for (part, numbers) in self.parts.iter().zip(&by_part) {
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

    fn notes(&self) -> &[String] {
        &self.notes
    }
}

/// Returns `true` for a file of a checkpoint other than weights.
pub(crate) fn is_description(name: &str) -> bool {
    // Mistral appends a version (`tokenizer.model.v3`); llama2.c's tokenizer is binary.
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

/// A weight file.
#[derive(Debug)]
pub(crate) enum Part {
    Safetensors(SafetensorsFile),
    Torch(TorchFile),
    Llama2c(Llama2c),
}

impl Part {
    /// Opens a file as PyTorch or safetensors, by its first bytes.
    pub(crate) fn open(file: RandomAccess) -> Result<Self> {
        if TorchFile::begins(&file) {
            return Ok(Self::Torch(TorchFile::new(file)?));
        }
        Ok(Self::Safetensors(SafetensorsFile::new(file)?))
    }

    /// Opens a file that contains its configuration (llama2.c); `None` for other formats.
    fn with_configuration(file: RandomAccess) -> Result<Option<(Self, Value)>> {
        if !Llama2c::matches(&file) {
            return Ok(None);
        }
        let (file, config) = Llama2c::new(file)?;
        Ok(Some((Self::Llama2c(file), config)))
    }

    pub(crate) fn checkpoint(&self) -> &dyn Checkpoint {
        match self {
            Self::Safetensors(file) => file,
            Self::Torch(file) => file,
            Self::Llama2c(file) => file,
        }
    }

    pub(crate) fn file(&self) -> &RandomAccess {
        match self {
            Self::Safetensors(part) => part.file(),
            Self::Torch(part) => part.file(),
            Self::Llama2c(part) => part.file(),
        }
    }

    pub(crate) fn path(&self) -> &Path {
        self.file().path()
    }
}

/// Prefix and suffix of the names of weight files in Hugging Face's layout, in order of precedence.
const FORMATS: [(&str, &str); 2] = [("model", ".safetensors"), ("pytorch_model", ".bin")];
/// Prefix of the names of weight files in Mistral's and Meta's layout.
const CONSOLIDATED: &str = "consolidated";
/// Their suffix if each file has a slice of every tensor.
const SPLIT: &str = ".pth";
/// The configuration in Hugging Face's layout.
const CONFIG: &str = "config.json";
/// The configuration in Mistral's and Meta's layout.
const PARAMS: &str = "params.json";

/// The files of a checkpoint.
struct Layout {
    files: Vec<String>,
    index: Option<Index>,
    /// The name of the configuration.
    config: &'static str,
    /// If true, each file has a slice of every tensor.
    is_split: bool,
    /// Says which of several sources of the weights was used.
    note: Option<String>,
}

/// Returns `true` if a directory has weight files or an index of them.
pub(crate) fn has_weights(directory: &Directory) -> bool {
    let is_index = |name: &String| {
        FORMATS.iter().any(|(prefix, suffix)| *name == format!("{prefix}{suffix}.index.json"))
    };
    directory.files().is_ok_and(|names| names.iter().any(|name| is_part(name) || is_index(name)))
}

/// Returns `true` if a directory has weight files.
fn has_parts(directory: &Directory) -> Result<bool> {
    Ok(directory.files()?.iter().any(|name| is_part(name)))
}

fn is_part(name: &str) -> bool {
    let matches =
        |&(prefix, suffix): &(&str, &str)| name.starts_with(prefix) && name.ends_with(suffix);
    FORMATS.iter().any(matches) || name.starts_with(CONSOLIDATED)
}

/// Returns the name of the configuration of a directory without weights.
fn configuration(directory: &Directory) -> &'static str {
    if directory.has(PARAMS) && !directory.has(CONFIG) { PARAMS } else { CONFIG }
}

/// Opens the weights of the dense layers that sentence-transformers applies after a model, and
/// returns them with the names of their directories. Ignores an invalid list.
fn dense_modules(directory: &Directory) -> Result<Vec<(String, RandomAccess)>> {
    const LIST: &str = "modules.json";
    const WEIGHTS: &str = "model.safetensors";
    /// A list has only a few modules.
    const MAX_MODULES: usize = 16;
    if !directory.has(LIST) {
        return Ok(Vec::new());
    }
    let Ok(Unambiguous(list)) = read_json(&directory.file(LIST)?, MAX_CONFIG) else {
        return Ok(Vec::new());
    };
    let mut modules = Vec::new();
    for module in list.as_array().into_iter().flatten().take(MAX_MODULES) {
        let text = |name: &str| module.get(name).and_then(Value::as_str);
        let (Some(path), Some(kind)) = (text("path"), text("type")) else { continue };
        if !kind.ends_with("Dense") || modules.iter().any(|(known, _)| known == path) {
            continue;
        }
        if let Ok(Some(inner)) = directory.subdirectory(path)
            && inner.has(WEIGHTS)
        {
            modules.push((path.to_owned(), inner.file(WEIGHTS)?));
        }
    }
    Ok(modules)
}

/// Opens the weights of an audio encoder in its subdirectory, and returns them with its name.
fn audio_tokenizer(directory: &Directory) -> Result<Option<(&'static str, RandomAccess)>> {
    const NAME: &str = "audio_tokenizer";
    const WEIGHTS: &str = "model.safetensors";
    match directory.subdirectory(NAME)? {
        Some(inner) if inner.has(WEIGHTS) => Ok(Some((NAME, inner.file(WEIGHTS)?))),
        _ => Ok(None),
    }
}

impl Layout {
    /// Finds the layout of a directory, or of the checkpoint that `file` belongs to.
    fn find(directory: &Directory, file: Option<String>) -> Result<Self> {
        let is_consolidated = |name: &str| name.starts_with(CONSOLIDATED) && directory.has(PARAMS);
        if let Some(file) = file {
            if is_consolidated(&file) {
                return Self::consolidated(directory, &[extension(&file)]);
            }
            return Ok(Self::hugging_face(vec![file], None));
        }
        let names = directory.files()?;
        for (prefix, suffix) in FORMATS {
            let is_part = |name: &&String| name.starts_with(prefix) && name.ends_with(suffix);
            let files: Vec<String> = names.iter().filter(is_part).cloned().collect();
            let index = format!("{prefix}{suffix}.index.json");
            let single = format!("{prefix}{suffix}");
            let has_single = directory.has(&single);
            let mut ignored: Vec<&str> = Vec::new();
            if directory.has(&index) {
                let found = Index::read(&directory.file(&index)?)?;
                let listed = found.file_names();
                if !has_single || listed.contains(&single) {
                    return Ok(Self::hugging_face(listed, Some(found)));
                }
                ignored.push(&index);
            }
            if has_single {
                ignored
                    .extend(files.iter().filter(|name| shard(name).is_some()).map(|name| &**name));
            }
            if let Some(&first) = ignored.first() {
                let more = match ignored.len() {
                    1 => String::new(),
                    count => format!(" and {} more", count - 1),
                };
                let note = format!(
                    "{single} was used, as in transformers; ignored: {}{more}",
                    RawStr::from(first)
                );
                let layout = Self::hugging_face(vec![single], None);
                return Ok(Self { note: Some(note), ..layout });
            }
            if !files.is_empty() {
                refuse_incomplete(directory, &files)?;
                return Ok(Self::hugging_face(files, None));
            }
        }
        if names.iter().any(|name| is_consolidated(name)) {
            return Self::consolidated(directory, &[".safetensors", SPLIT]);
        }
        let other = names.iter().find(|name| name.starts_with(CONSOLIDATED));
        let found = other
            .map(|name| format!("contains {:?} without {PARAMS}, and ", RawStr::from(&**name)));
        let [safetensors, torch] = FORMATS.map(|(prefix, suffix)| format!("{prefix}{suffix}"));
        let message = format!(
            "{}contains neither {safetensors} nor {torch} nor shards of them",
            found.unwrap_or_default()
        );
        Err(Error::new(ErrorKind::Checkpoint, message).file(directory.path()))
    }

    fn hugging_face(files: Vec<String>, index: Option<Index>) -> Self {
        Self { files, index, config: CONFIG, is_split: false, note: None }
    }

    /// Returns the consolidated weights with the first suffix that the directory has.
    fn consolidated(directory: &Directory, suffixes: &[&str]) -> Result<Self> {
        let names = directory.files()?;
        let is_part =
            |name: &&String, suffix: &str| name.starts_with(CONSOLIDATED) && name.ends_with(suffix);
        let with = |suffix: &str| -> Vec<String> {
            names.iter().filter(|name| is_part(name, suffix)).cloned().collect()
        };
        let mut found = suffixes.iter().map(|&suffix| (suffix, with(suffix)));
        let Some((suffix, files)) = found.find(|(_, files)| !files.is_empty()) else {
            let message = format!(
                "contains {PARAMS}, but no weights in {CONSOLIDATED}*{}",
                suffixes.join(" or *")
            );
            return Err(Error::new(ErrorKind::Checkpoint, message).file(directory.path()));
        };
        let is_split = suffix == SPLIT;
        if is_split {
            for (number, name) in files.iter().enumerate() {
                let expected = format!("{CONSOLIDATED}.{number:02}{SPLIT}");
                if *name != expected {
                    let message = format!(
                        "contains {:?}, but {expected} before it is missing",
                        RawStr::from(&**name)
                    );
                    return Err(Error::new(ErrorKind::Checkpoint, message).file(directory.path()));
                }
            }
        }
        Ok(Self { files, index: None, config: PARAMS, is_split, note: None })
    }
}

/// Fails if the names of the shards (`model-00001-of-00002.safetensors`) state a count above the
/// number of files.
fn refuse_incomplete(directory: &Directory, files: &[String]) -> Result<()> {
    for name in files {
        let Some((_, total)) = shard(name) else { continue };
        let shards = files.iter().filter_map(|other| shard(other));
        let found: BTreeSet<u64> =
            shards.filter(|(_, count)| *count == total).map(|(number, _)| number).collect();
        if found.len() as u64 >= total {
            continue;
        }
        let missing = (1..=total).find(|number| !found.contains(number)).unwrap_or(total);
        let message = format!(
            "shard {missing} of {total} is missing: found {} of {total}, for example {:?}",
            found.len(),
            RawStr::from(&**name)
        );
        return Err(Error::new(ErrorKind::Checkpoint, message).file(directory.path()));
    }
    Ok(())
}

/// Parses the number and the count of shards from a file name.
fn shard(name: &str) -> Option<(u64, u64)> {
    let (prefix, after) = name.split_once("-of-")?;
    let number = prefix.rsplit('-').next()?.parse().ok()?;
    let end = after.find(|c: char| !c.is_ascii_digit()).unwrap_or(after.len());
    Some((number, after.get(..end)?.parse().ok()?))
}

/// Returns the extension of a name with its dot.
fn extension(name: &str) -> &str {
    name.rfind('.').and_then(|at| name.get(at..)).unwrap_or_default()
}

/// Adds the number of files to `params.json`, and removes entries with the value -1, which means
/// unknown.
fn complete_params(config: &mut Value, files: usize) {
    let Some(entries) = config.as_object_mut() else { return };
    entries.retain(|_, value| *value != -1);
    entries.insert("shards".to_owned(), files.into());
}

/// Limit for an index in bytes, equal to that of a safetensors header.
const MAX_INDEX: u64 = 100_000_000;

/// The index of a sharded checkpoint. Other entries are skipped without allocating.
#[derive(Debug, serde::Deserialize)]
struct Index {
    /// The file name of each tensor.
    #[serde(rename = "weight_map", deserialize_with = "unique")]
    files: BTreeMap<String, String>,
}

impl Index {
    fn read(file: &RandomAccess) -> Result<Self> {
        read_json(file, MAX_INDEX)
    }

    /// Returns the names of the files, sorted.
    fn file_names(&self) -> Vec<String> {
        let mut files: Vec<String> = self.files.values().cloned().collect();
        files.sort_unstable();
        files.dedup();
        files
    }
}

/// Depth to which [`CheckpointDirectory::below`] searches: the cache of the Hub has a checkpoint in
/// `snapshots/REVISION`.
const LEVELS: u32 = 2;
/// Number of subdirectories to search in each directory.
const DIRECTORIES: usize = 100;

impl CheckpointDirectory {
    /// Finds the first checkpoint (configuration and weights) in the subdirectories of a directory
    /// without configuration, such as a model in the cache of the Hugging Face Hub. `None` also if
    /// a directory cannot be listed or has more than [`Directory::MAX_LISTED`] entries; searches a
    /// hundred subdirectories of each.
    ///
    /// ```
    /// # let temporary = tempfile::tempdir()?;
    /// # let path = temporary.path();
    /// # std::fs::create_dir(path.join("final"))?;
    /// # std::fs::write(path.join("final/config.json"), "{}")?;
    /// # std::fs::write(path.join("final/model.safetensors"), "")?;
    /// use ggmill_pipeline::formats::CheckpointDirectory;
    /// let directory = ggmill_io::Directory::open(path)?;
    /// let found = CheckpointDirectory::below(&directory).ok_or("one")?;
    /// assert_eq!(found.path(), path.join("final"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn below(directory: &Directory) -> Option<Directory> {
        below(directory, LEVELS)
    }
}

fn below(directory: &Directory, levels: u32) -> Option<Directory> {
    let rest = levels.checked_sub(1)?;
    if directory.has(CONFIG) {
        return None;
    }
    let names = directory.subdirectories().ok()?.into_iter().take(DIRECTORIES);
    let inner = |name: String| directory.subdirectory(&name).ok().flatten();
    let inner: Vec<Directory> = names.filter_map(inner).collect();
    let is_one = |inner: &&Directory| inner.has(CONFIG) && has_weights(inner);
    let found = inner.iter().find(is_one).cloned();
    found.or_else(|| inner.iter().find_map(|inner| below(inner, rest)))
}
