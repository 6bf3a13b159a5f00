//! Reads the files of a tokenizer within size limits, and finds them by name or by content.

use std::path::Path;

use ggmill_core::RawStr;
use ggmill_io::Directory;
use ggmill_pipeline::formats::{Unambiguous, json_from_slice};
use ggmill_pipeline::{Error, ErrorKind, Result, SideFiles};
use serde::Deserialize;
use serde::de::{DeserializeOwned, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::Value;

use super::ranks;

/// Maximum size in bytes of a configuration or a list of added tokens. Real files have up to a few
/// megabytes.
const MAX_CONFIG: u64 = 16 << 20;
/// Maximum size of a vocabulary in bytes. Those of 262,144 tokens have about 33 million.
pub(crate) const MAX_VOCABULARY: u64 = 128 << 20;
/// Maximum size of a chat template in bytes.
const MAX_TEMPLATE: u64 = 4 << 20;

/// Returns an error about a file.
pub(crate) fn fault(name: &str, message: impl Into<String>) -> Error {
    Error::new(ErrorKind::Checkpoint, message).about(name)
}

/// Reads a JSON file; `None` if it is absent.
pub(crate) fn json(files: &dyn SideFiles, name: &str) -> Result<Option<Value>> {
    json_within(files, name, MAX_CONFIG)
}

/// Reads a JSON file that can be as large as a vocabulary; `None` if it is absent.
pub(crate) fn document(files: &dyn SideFiles, name: &str) -> Result<Option<Value>> {
    json_within(files, name, MAX_VOCABULARY)
}

fn json_within(files: &dyn SideFiles, name: &str, limit: u64) -> Result<Option<Value>> {
    let Some(bytes) = files.read(name, limit)? else { return Ok(None) };
    let Unambiguous(value) = parse(name, &bytes)?;
    Ok(Some(value))
}

/// Reads a vocabulary; `None` if it is absent.
pub(crate) fn vocabulary(files: &dyn SideFiles, name: &str) -> Result<Option<Vec<u8>>> {
    files.read(name, MAX_VOCABULARY)
}

/// Reads a chat template; `None` if it is absent.
pub(crate) fn template(files: &dyn SideFiles, name: &str) -> Result<Option<String>> {
    let Some(bytes) = files.read(name, MAX_TEMPLATE)? else { return Ok(None) };
    match String::from_utf8(bytes) {
        // Python's universal newlines.
        Ok(text) => Ok(Some(text.replace("\r\n", "\n").replace('\r', "\n"))),
        Err(_) => Err(fault(name, "is not valid UTF-8")),
    }
}

/// Parses the content of a JSON file.
pub(crate) fn parse<T: DeserializeOwned>(name: &str, bytes: &[u8]) -> Result<T> {
    json_from_slice(bytes).map_err(|error| {
        let what = if error.is_data() { "has unexpected content" } else { "is not valid JSON" };
        fault(name, format!("{what}: {}", RawStr::from(&*error.to_string())))
    })
}

/// The files that can contain a vocabulary.
pub(crate) const SOURCES: [&str; 17] = [
    "tokenizer.json",
    "tokenizer.model",
    "tekken.json",
    "vocab.json",
    "vocab.txt",
    "sentencepiece.bpe.model",
    "spiece.model",
    "tokenizer.jsonl",
    "tiktoken.model",
    "tokenizer.model.v1",
    "tokenizer.model.v2",
    "tokenizer.model.v3",
    "tokenizer.model.v3m1",
    "tokenizer.model.v7",
    "tokenizer.model.v7m1",
    "tokenizer.model.v11",
    "rwkv_vocab_v20230424.txt",
];

/// Files that are read in addition to any of these.
const CONFIGURATION_FILES: [&str; 4] =
    ["tokenizer_config.json", "special_tokens_map.json", "added_tokens.json", "config.json"];

/// Pairs of a source and the other half of its vocabulary.
const PAIRS: [(&str, &str); 1] = [("vocab.json", "merges.txt")];

/// Returns the names of the sources that exist.
pub(crate) fn sources(files: &dyn SideFiles) -> impl Iterator<Item = &'static str> {
    SOURCES.into_iter().filter(|name| files.has(name))
}

/// Returns the source with this file name, or the source of which it is the other half.
pub(crate) fn source_of(name: &str) -> Option<&'static str> {
    let of_pair = PAIRS.iter().find(|(_, other)| *other == name).map(|(source, _)| *source);
    SOURCES.into_iter().find(|source| *source == name).or(of_pair)
}

/// Returns `true` if a file of this name is read together with a source.
pub(crate) fn belongs_to(source: &str, name: &str) -> bool {
    CONFIGURATION_FILES.contains(&name) || PAIRS.contains(&(source, name))
}

/// Returns `true` if a file of this name configures a tokenizer but is not one.
pub(crate) fn is_configuration(name: &str) -> bool {
    CONFIGURATION_FILES.contains(&name)
}

/// Returns `true` if the files of a tokenizer are among these files.
///
/// ```
/// use std::collections::BTreeMap;
/// let mut files = BTreeMap::new();
/// assert!(!ggmill_convert::has_tokenizer(&files));
/// files.insert("tokenizer.json".to_owned(), b"{}".to_vec());
/// assert!(ggmill_convert::has_tokenizer(&files));
/// ```
pub fn has_tokenizer(files: &dyn SideFiles) -> bool {
    sources(files).next().is_some()
}

/// The files of a tokenizer: those of a directory, or one file with the files that belong to it.
///
/// ```
/// # let temporary = tempfile::tempdir()?;
/// # let path = temporary.path().join("my-tokenizer.json");
/// # std::fs::write(&path, r#"{"model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2},
/// #     "merges": ["a b"]}, "added_tokens": []}"#)?;
/// use ggmill_convert::{TokenizerFiles, convert_tokenizer};
/// let files = TokenizerFiles::open(&path)?.expect("a tokenizer.json by another name");
/// let (metadata, remarks) = convert_tokenizer(&files, Some("gpt-2"))?;
/// assert!(metadata.get("tokenizer.ggml.tokens").is_some() && remarks.is_empty());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct TokenizerFiles {
    directory: Directory,
    chosen: Option<ChosenFile>,
}

/// The chosen file of a directory.
#[derive(Clone, Debug)]
struct ChosenFile {
    /// The standard name by which the file is requested.
    source: &'static str,
    /// Its actual name.
    file: String,
}

/// Number of bytes at the beginning of a file by which its format is recognized.
const HEAD: u64 = 4 << 10;

impl TokenizerFiles {
    /// Opens a directory with the files of a tokenizer, or one file of any name if its content
    /// identifies it. Other tokenizers in the directory of a named file are not read.
    ///
    /// Returns `None` if the path is not such a file; it can be a GGUF file.
    ///
    /// # Errors
    ///
    /// Fails for a directory without a tokenizer and for a JSON file that is not one
    /// ([`ErrorKind::Vocabulary`]), and if a file cannot be read.
    pub fn open(path: impl AsRef<Path>) -> Result<Option<Self>> {
        let path = path.as_ref();
        if path.is_dir() {
            let directory = Directory::open(path)?;
            if has_tokenizer(&directory) {
                return Ok(Some(Self { directory, chosen: None }));
            }
            let message =
                format!("the directory has no tokenizer, expected one of {}", SOURCES.join(", "));
            return Err(Error::new(ErrorKind::Vocabulary, message));
        }
        let is_named = path.file_name().is_some_and(|name| name.to_str().is_some());
        if !is_named || !path.is_file() {
            return Ok(None);
        }
        let (directory, Some(file)) = Directory::open_either(path)? else { return Ok(None) };
        let Some(source) = source(&directory, &file)? else { return Ok(None) };
        // A configuration or the second half of a pair stands for its source.
        let file = if belongs_to(source, &file) { source.to_owned() } else { file };
        Ok(Some(Self { directory, chosen: Some(ChosenFile { source, file }) }))
    }

    /// Returns the actual name of a file that is requested by its standard name.
    fn name<'a>(&'a self, name: &'a str) -> Option<&'a str> {
        match &self.chosen {
            None => Some(name),
            Some(chosen) if chosen.source == name => Some(&chosen.file),
            Some(chosen) => belongs_to(chosen.source, name).then_some(name),
        }
    }
}

impl SideFiles for TokenizerFiles {
    fn has(&self, name: &str) -> bool {
        self.name(name).is_some_and(|name| SideFiles::has(&self.directory, name))
    }

    fn read(&self, name: &str, limit: u64) -> Result<Option<Vec<u8>>> {
        match self.name(name) {
            Some(name) => SideFiles::read(&self.directory, name, limit),
            None => Ok(None),
        }
    }

    fn list(&self, directory: &str) -> Result<Vec<String>> {
        match self.chosen {
            Some(_) => Ok(Vec::new()),
            None => SideFiles::list(&self.directory, directory),
        }
    }
}

/// Returns the standard name of a file, by its name or, if the name is ambiguous, by its content.
fn source(directory: &Directory, name: &str) -> Result<Option<&'static str>> {
    let known = source_of(name);
    if let Some(source) = known.filter(|source| *source != "tokenizer.model") {
        // The other half of a pair is read by its name.
        return Ok(Some(source));
    }
    let extension = Path::new(name).extension().and_then(|extension| extension.to_str());
    if known.is_none() && !matches!(extension, Some("json" | "model" | "tiktoken")) {
        return Ok(None);
    }
    let file = directory.file(name)?;
    let mut head = vec![0; usize::try_from(file.len().min(HEAD)).unwrap_or_default()];
    file.read_at(0, &mut head)?;
    if head.starts_with(b"GGUF") || head.starts_with(b"FUGG") {
        return Ok(None);
    }
    if ranks::are_ranks(&head) {
        return Ok(Some("tiktoken.model"));
    }
    match extension {
        Some("json") if !is_configuration(name) => {
            let Keys { model, config, vocab } = parse(name, &file.read_whole(MAX_VOCABULARY)?)?;
            if model {
                return Ok(Some("tokenizer.json"));
            }
            if config && vocab {
                return Ok(Some("tekken.json"));
            }
        }
        Some("json") => {}
        _ => return Ok(Some("tokenizer.model")),
    }
    let message = "is not a tokenizer: expected the keys of tokenizer.json or tekken.json, or a \
                   vocab.json with merges.txt next to it";
    Err(Error::new(ErrorKind::Vocabulary, message).about(name))
}

/// The keys of a JSON object that identify its format.
#[derive(Default)]
struct Keys {
    model: bool,
    config: bool,
    vocab: bool,
}

impl<'de> Deserialize<'de> for Keys {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Any;
        impl<'de> Visitor<'de> for Any {
            type Value = Keys;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Keys, A::Error> {
                let mut keys = Keys::default();
                while let Some((key, _)) = entries.next_entry::<String, IgnoredAny>()? {
                    match &*key {
                        "model" => keys.model = true,
                        "config" => keys.config = true,
                        "vocab" => keys.vocab = true,
                        _ => {}
                    }
                }
                Ok(keys)
            }
        }
        deserializer.deserialize_map(Any)
    }
}
