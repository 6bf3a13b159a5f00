//! The files of the inspector page.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::Path;
use std::{fs, io};

/// Files that a page may have, and their bytes together. The page has about ten, of 4 MB.
const MOST_FILES: usize = 256;
const MOST_BYTES: u64 = 64 << 20;
/// Directories within directories.
const DEEPEST: usize = 4;

/// The media type of scripts.
pub(super) const SCRIPT: &str = "text/javascript; charset=utf-8";

/// The files that were named when the command was built.
static BUILT_IN: &[(&str, &[u8])] = include!(concat!(env!("OUT_DIR"), "/page.rs"));

/// The page: its files by their paths in it.
#[derive(Debug)]
pub(crate) struct Page {
    files: BTreeMap<String, Cow<'static, [u8]>>,
}

impl Page {
    /// The page that the command was built with, if it was.
    pub(crate) fn built_in() -> Option<Self> {
        let files = BUILT_IN.iter().map(|&(name, bytes)| (name.to_owned(), Cow::Borrowed(bytes)));
        let files: BTreeMap<_, _> = files.collect();
        (!files.is_empty()).then_some(Self { files })
    }

    /// Reads a page that is built into a directory. Fails where that has no `index.html`.
    pub(crate) fn read(directory: &Path) -> io::Result<Self> {
        let mut page = Self { files: BTreeMap::new() };
        page.add(directory, "", 0, &mut 0)?;
        if !page.files.contains_key("index.html") {
            return Err(io::Error::new(io::ErrorKind::NotFound, "there is no index.html"));
        }
        Ok(page)
    }

    fn add(
        &mut self,
        directory: &Path,
        prefix: &str,
        depth: usize,
        total: &mut u64,
    ) -> io::Result<()> {
        let too_much = || io::Error::other("more files than an inspector page has");
        if depth > DEEPEST {
            return Err(too_much());
        }
        for entry in fs::read_dir(directory)? {
            let entry = entry?;
            let Ok(name) = entry.file_name().into_string() else { continue };
            let (name, kind) = (format!("{prefix}{name}"), entry.file_type()?);
            if kind.is_dir() {
                self.add(&entry.path(), &format!("{name}/"), depth + 1, total)?;
            } else if kind.is_file() {
                *total = total.saturating_add(entry.metadata()?.len());
                if *total > MOST_BYTES || self.files.len() >= MOST_FILES {
                    return Err(too_much());
                }
                self.files.insert(name, Cow::Owned(fs::read(entry.path())?));
            }
        }
        Ok(())
    }

    /// A file by its path in the page, with its media type.
    pub(super) fn file(&self, path: &str) -> Option<(&[u8], &'static str)> {
        let path = if path.is_empty() { "index.html" } else { path };
        self.files.get(path).map(|bytes| (&**bytes, media_type(path)))
    }
}

fn media_type(path: &str) -> &'static str {
    match path.rsplit_once('.').map_or("", |(_, ending)| ending) {
        "html" => "text/html; charset=utf-8",
        "js" => SCRIPT,
        "css" => "text/css; charset=utf-8",
        "wasm" => "application/wasm",
        "svg" => "image/svg+xml",
        _ => "application/octet-stream",
    }
}
