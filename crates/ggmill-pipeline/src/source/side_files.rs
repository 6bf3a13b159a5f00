//! The files of a checkpoint besides its weights.

use std::collections::BTreeMap;
use std::fmt::Debug;

use ggmill_core::ByteSize;
use ggmill_io::Directory;

use crate::error::{Error, ErrorKind, Result};

/// The files beside the weights of a checkpoint, by name: `tokenizer.json`,
/// `generation_config.json`, ….
///
/// A name is that of a file, or `DIRECTORY/FILE` for a file one directory below. A
/// [`Directory`] is one; for a checkpoint in memory, so is a `BTreeMap` of names and contents.
///
/// ```
/// use std::collections::BTreeMap;
/// use ggmill_pipeline::SideFiles;
/// let files = BTreeMap::from([("tokenizer.json".to_owned(), b"{}".to_vec())]);
/// assert!(files.has("tokenizer.json"));
/// assert_eq!(files.read("tokenizer.json", 1024)?.as_deref(), Some(&b"{}"[..]));
/// assert_eq!(files.read("vocab.txt", 1024)?, None);
/// assert!(files.read("tokenizer.json", 1).is_err());
/// # Ok::<(), ggmill_pipeline::Error>(())
/// ```
pub trait SideFiles: Debug + Sync {
    /// Whether there is a file of this name.
    fn has(&self, name: &str) -> bool;

    /// The content of a file; `None` where there is none of this name. Fails when the file is
    /// longer than `limit` bytes, which is seen before memory is taken.
    fn read(&self, name: &str, limit: u64) -> Result<Option<Vec<u8>>>;

    /// The names of the files in a directory one below, sorted; none where there is no such
    /// directory.
    fn list(&self, directory: &str) -> Result<Vec<String>>;
}

impl SideFiles for Directory {
    fn has(&self, name: &str) -> bool {
        match name.split_once('/') {
            Some((directory, name)) => self
                .subdirectory(directory)
                .ok()
                .flatten()
                .is_some_and(|directory| Directory::has(&directory, name)),
            None => Directory::has(self, name),
        }
    }

    fn read(&self, name: &str, limit: u64) -> Result<Option<Vec<u8>>> {
        if let Some((directory, name)) = name.split_once('/') {
            return match self.subdirectory(directory)? {
                Some(directory) => SideFiles::read(&directory, name, limit),
                None => Ok(None),
            };
        }
        if !Directory::has(self, name) {
            return Ok(None);
        }
        Ok(Some(self.file(name)?.read_whole(limit)?))
    }

    fn list(&self, directory: &str) -> Result<Vec<String>> {
        Ok(match self.subdirectory(directory)? {
            Some(directory) => directory.files()?,
            None => Vec::new(),
        })
    }
}

impl SideFiles for BTreeMap<String, Vec<u8>> {
    fn has(&self, name: &str) -> bool {
        self.contains_key(name)
    }

    fn read(&self, name: &str, limit: u64) -> Result<Option<Vec<u8>>> {
        let Some(content) = self.get(name) else { return Ok(None) };
        if content.len() as u64 > limit {
            let [len, limit] = ByteSize::both(content.len(), limit);
            let message = format!("{len}, the limit is {limit}");
            return Err(Error::new(ErrorKind::Checkpoint, message).about(name));
        }
        Ok(Some(content.clone()))
    }

    fn list(&self, directory: &str) -> Result<Vec<String>> {
        let name = |name: &String| {
            let (found, file) = name.split_once('/')?;
            (found == directory).then(|| file.to_owned())
        };
        Ok(self.keys().filter_map(name).collect())
    }
}
