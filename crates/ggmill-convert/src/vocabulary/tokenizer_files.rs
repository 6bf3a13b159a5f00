//! The files of a tokenizer at a path that a user names.

use std::path::Path;

use ggmill_io::Directory;
use ggmill_pipeline::{Error, ErrorKind, Result, SideFiles};
use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, Visitor};

use super::files::{MAX_VOCABULARY, parse};
use super::ranks;
use super::sources::{SOURCES, has_tokenizer, is_beside, is_only_beside, source_of};

/// The files of a tokenizer: those of a directory, or one file with those that belong to it.
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
    chosen: Option<Chosen>,
}

/// One file of a directory.
#[derive(Clone, Debug)]
struct Chosen {
    /// The name that it is asked for by.
    source: &'static str,
    /// Its own name.
    file: String,
}

/// The bytes at the beginning of a file that tell what it is.
const HEAD: u64 = 4 << 10;

impl TokenizerFiles {
    /// Those at a path: a directory with the files of a tokenizer, or one such file, by whatever
    /// name where its content tells. Other tokenizers beside a file that is named are not read.
    ///
    /// `None` where the path leads to no such file; it may be a GGUF file. Fails for a directory
    /// without a tokenizer ([`ErrorKind::Vocabulary`]), for a JSON file that is none (the same), and
    /// where a file cannot be read.
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
        // One of two files is the tokenizer with the other.
        let file = if is_beside(source, &file) { source.to_owned() } else { file };
        Ok(Some(Self { directory, chosen: Some(Chosen { source, file }) }))
    }

    /// The name of the file that stands for a name.
    fn name<'a>(&'a self, name: &'a str) -> Option<&'a str> {
        match &self.chosen {
            None => Some(name),
            Some(chosen) if chosen.source == name => Some(&chosen.file),
            Some(chosen) => is_beside(chosen.source, name).then_some(name),
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

/// The source that a file is: by its name, and for one that says little, by its content.
fn source(directory: &Directory, name: &str) -> Result<Option<&'static str>> {
    let known = source_of(name);
    if let Some(source) = known.filter(|source| *source != "tokenizer.model") {
        // Half of a pair: the other half is read by its name.
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
        Some("json") if !is_only_beside(name) => {
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

/// Which keys a JSON object has that tell what it is.
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
