//! The tokenizer in a file.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use ggmill_convert::{convert_tokenizer, has_tokenizer};
use ggmill_core::{Builder, Gguf};
use ggmill_io::Directory;
use ggmill_pipeline::SideFiles;
use ggmill_tokenizer::{ErrorKind, LoadOptions, Tokenizer};

use crate::outcome::Failure;
use crate::paths::shown;
use crate::source::open;

/// The tokenizer of a file, or any shard of a set, or of the files of a checkpoint, with this
/// pre-tokenizer if there is one.
pub(crate) fn open_tokenizer(path: &Path, pre: Option<&str>) -> Result<Tokenizer, Failure> {
    if let Some(files) = TokenizerFiles::at(path)? {
        return files.tokenizer(path, pre);
    }
    let model = open(path, false)?;
    let options = pre.map_or_else(LoadOptions::new, |name| LoadOptions::new().pre(name));
    Tokenizer::with_options(&model.metadata(), &options).map_err(|error| {
        let hint = match error.kind() {
            ErrorKind::Missing => Some("the file has no vocabulary, or not all of it".to_owned()),
            ErrorKind::UnknownPreTokenizer => {
                Some("--pre NAME tokenizes with the rules of another name".to_owned())
            }
            _ => None,
        };
        Failure::new(format_args!("{}: {error}", shown(path))).with_hint(hint)
    })
}

/// The files of a tokenizer: those of a directory, or one file and what goes with it.
#[derive(Debug)]
struct TokenizerFiles {
    directory: Directory,
    /// The name that is asked for, and the name of the file that is read then.
    chosen: Option<(&'static str, String)>,
}

/// What is read beside a file that was named.
const BESIDE: [&str; 3] = ["tokenizer_config.json", "special_tokens_map.json", "added_tokens.json"];
/// Files that are read by their names, whatever others there are.
const NAMES: [&str; 7] = [
    "tokenizer.json",
    "tokenizer.model",
    "tekken.json",
    "vocab.txt",
    "spiece.model",
    "tokenizer.jsonl",
    "rwkv_vocab_v20230424.txt",
];

impl TokenizerFiles {
    /// Those at a path, if it is a directory with a tokenizer or looks like a tokenizer's file.
    fn at(path: &Path) -> Result<Option<Self>, Failure> {
        let failed =
            |error: &dyn std::fmt::Display| Failure::new(format_args!("{}: {error}", shown(path)));
        if path.is_dir() {
            let directory = Directory::open(path).map_err(|error| failed(&error))?;
            let files = Self { directory, chosen: None };
            if has_tokenizer(&files.directory) {
                return Ok(Some(files));
            }
            return Err(failed(&"the directory has no tokenizer"));
        }
        let Some(name) = path.file_name().and_then(OsStr::to_str) else { return Ok(None) };
        let asked = match NAMES.iter().find(|known| **known == name) {
            Some(known) => known,
            None => match path.extension().and_then(OsStr::to_str) {
                Some("json") if name.contains("tekken") => "tekken.json",
                Some("json") => "tokenizer.json",
                Some("model") => "tokenizer.model",
                _ => return Ok(None),
            },
        };
        if !path.is_file() {
            return Ok(None);
        }
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        let parent = parent.map_or_else(|| PathBuf::from("."), Path::to_owned);
        let directory = Directory::open(&parent).map_err(|error| failed(&error))?;
        Ok(Some(Self { directory, chosen: Some((asked, name.to_owned())) }))
    }

    fn tokenizer(&self, path: &Path, pre: Option<&str>) -> Result<Tokenizer, Failure> {
        let failed =
            |error: &dyn std::fmt::Display| Failure::new(format_args!("{}: {error}", shown(path)));
        let files: &dyn SideFiles = if self.chosen.is_some() { self } else { &self.directory };
        let (metadata, _) = convert_tokenizer(files, pre).map_err(|error| {
            let hint = (error.kind() == ggmill_pipeline::ErrorKind::PreTokenizer)
                .then(|| "--pre NAME tokenizes with the rules of a name".to_owned());
            failed(&error).with_hint(hint)
        })?;
        let plan = Builder::new().metadata(metadata).plan().map_err(|error| failed(&error))?;
        let model = Gguf::parse(plan.header()).map_err(|error| failed(&error))?;
        Tokenizer::from_metadata(&model.metadata()).map_err(|error| failed(&error))
    }

    /// The file for a name.
    fn name<'a>(&'a self, name: &'a str) -> Option<&'a str> {
        match &self.chosen {
            Some((asked, file)) if *asked == name => Some(file),
            Some(_) => BESIDE.contains(&name).then_some(name),
            None => Some(name),
        }
    }
}

impl SideFiles for TokenizerFiles {
    fn has(&self, name: &str) -> bool {
        self.name(name).is_some_and(|name| SideFiles::has(&self.directory, name))
    }

    fn read(&self, name: &str, limit: u64) -> ggmill_pipeline::Result<Option<Vec<u8>>> {
        match self.name(name) {
            Some(name) => SideFiles::read(&self.directory, name, limit),
            None => Ok(None),
        }
    }

    fn list(&self, _: &str) -> ggmill_pipeline::Result<Vec<String>> {
        Ok(Vec::new())
    }
}
