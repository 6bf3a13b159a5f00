//! Opening models by path or address.

use std::path::Path;
#[cfg(not(feature = "remote"))]
use std::path::PathBuf;

use ggmill_core::{Limits, RawStr, ReadAt};
use ggmill_inspect::{FileKind, SNIFFED, sniff};
use ggmill_io::{Directory, OpenFailure, RandomAccess};

use crate::error::Kind;
use crate::paths::is_remote;
use crate::{Error, Hint, Model, Result, content, display_path};

/// Options for opening a model.
///
/// ```no_run
/// let shard = ggmill::OpenOptions::new().alone(true).open("model-00002-of-00003.gguf")?;
/// # Ok::<(), ggmill::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct OpenOptions {
    limits: Limits,
    alone: bool,
    #[cfg(feature = "remote")]
    client: Option<ggmill_remote::Client>,
    #[cfg(feature = "remote")]
    s3_client: Option<ggmill_remote::Client>,
}

impl Model {
    /// Opens a model by the path of its file, or of any shard of a set.
    ///
    /// With the feature `remote`, an address works too: `https://…`, `hf://OWNER/NAME/FILE`,
    /// `s3://BUCKET/KEY`. If a local file has this name, it is opened. Fails if the file does not
    /// exist, is not GGUF, is damaged, or if a shard is missing.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        OpenOptions::new().open(path)
    }

    /// Opens the readable part of one file that is damaged or truncated. Fails if the file cannot be
    /// read or is not GGUF. The data of tensors can be outside the file.
    pub fn open_damaged(path: impl AsRef<Path>) -> Result<Self> {
        OpenOptions::new().open_damaged(path)
    }
}

impl OpenOptions {
    /// Returns the default options: whole sets of shards, default limits, no credentials for servers.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the limits for headers on this machine: see [`Limits`].
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Opens only the file itself, not the other shards of its set.
    #[must_use]
    pub fn alone(mut self, alone: bool) -> Self {
        self.alone = alone;
        self
    }

    /// Sets the client for addresses, which has credentials, proxies and the cache of headers.
    #[cfg(feature = "remote")]
    #[must_use]
    pub fn client(mut self, client: ggmill_remote::Client) -> Self {
        self.client = Some(client);
        self
    }

    /// Sets a separate client for S3 addresses.
    #[cfg(feature = "remote")]
    #[must_use]
    pub fn s3_client(mut self, client: ggmill_remote::Client) -> Self {
        self.s3_client = Some(client);
        self
    }

    /// Opens a model: see [`Model::open`].
    pub fn open(&self, path: impl AsRef<Path>) -> Result<Model> {
        let path = path.as_ref();
        if is_remote(path) {
            return self.open_remote(path);
        }
        let opened = self.open_local(path)?;
        refuse_interrupted(&opened.files())?;
        Ok(opened)
    }

    fn open_local(&self, path: &Path) -> Result<Model> {
        let opened = if self.alone {
            ggmill_io::open_alone_with(path, &self.limits)
        } else {
            ggmill_io::open_with(path, &self.limits)
        };
        opened.map(|model| Model::at(model, path)).map_err(with_path_kind)
    }

    /// Opens a model, also if an edit of the file was interrupted. For a truncated file, returns the
    /// readable part, and the error that reports the truncation.
    pub fn open_partial(&self, path: impl AsRef<Path>) -> Result<(Model, Option<Error>)> {
        let path = path.as_ref();
        let opened = if is_remote(path) { self.open_remote(path) } else { self.open_local(path) };
        opened.map(|model| (model, None)).or_else(|error| {
            // If another shard of the set is truncated, opening only this one would hide that.
            let is_this_file = error.is_truncated()
                && error.path().is_some_and(|truncated| {
                    display_path(truncated).to_string() == display_path(path).to_string()
                });
            match is_this_file.then(|| self.open_damaged(path)) {
                Some(Ok(model)) => Ok((model, Some(error))),
                _ => Err(error),
            }
        })
    }

    /// Opens a model to read only its header: the tensor data may be incomplete.
    pub fn open_header(&self, path: impl AsRef<Path>) -> Result<Model> {
        let path = path.as_ref();
        refuse_interrupted(&[path])?;
        match self.open_partial(path)? {
            (model, Some(error)) if model.core().header_fault().is_some() => Err(error),
            (model, _) => Ok(model),
        }
    }

    /// Opens the readable part of one file: see [`Model::open_damaged`].
    pub fn open_damaged(&self, path: impl AsRef<Path>) -> Result<Model> {
        let path = path.as_ref();
        self.open_damaged_core(path).map(|model| Model::at(model, path))
    }

    pub(crate) fn open_damaged_core(&self, path: &Path) -> Result<ggmill_core::Model> {
        if is_remote(path) {
            return self.open_damaged_remote(path);
        }
        ggmill_io::open_damaged(path).map_err(with_path_kind)
    }

    /// Opens the readable part of one file. If it is not GGUF, returns `not_gguf(error, first_bytes)`.
    pub(crate) fn open_damaged_or<T>(
        &self,
        path: &Path,
        not_gguf: impl FnOnce(&ggmill_core::Error, &[u8]) -> T,
    ) -> Result<Result<ggmill_core::Model, T>> {
        if is_remote(path) {
            return self.open_damaged_remote_or(path, not_gguf);
        }
        match ggmill_io::open_damaged(path) {
            Ok(model) => Ok(Ok(model)),
            Err(error) => match error.format_error() {
                Some(format) => Ok(Err(not_gguf(format, &beginning(path).unwrap_or_default()))),
                None => Err(error.into()),
            },
        }
    }

    /// Returns the reason why a file and the shards of its set cannot be opened as one model.
    pub(crate) fn failure(&self, path: &Path) -> Option<OpenFailure> {
        if is_remote(path) { self.remote_failure(path) } else { ggmill_io::open_failure(path) }
    }

    /// Opens any file as a source of bytes.
    pub fn open_bytes(&self, path: impl AsRef<Path>) -> Result<Box<dyn ReadAt>> {
        let path = path.as_ref();
        if is_remote(path) {
            return self.remote_bytes(path);
        }
        Ok(Box::new(RandomAccess::open(path)?))
    }

    /// Opens the remote directory of a checkpoint, and returns the name of the file if `path` names one
    /// in it; `None` for a local path.
    pub(crate) fn remote_directory(
        &self,
        path: &Path,
    ) -> Result<Option<(Directory, Option<String>)>> {
        if is_remote(path) { self.remote_directory_at(path).map(Some) } else { Ok(None) }
    }
}

#[cfg(feature = "remote")]
mod remote {
    use std::path::{Path, PathBuf};

    use ggmill_core::ReadAt;
    use ggmill_inspect::{FileKind, sniff};
    use ggmill_io::{Directory, OpenFailure};
    use ggmill_remote::{Client, ErrorKind, Location, Options};

    use super::OpenOptions;
    use crate::{Error, Hint, Model, Result, content};

    impl OpenOptions {
        pub(crate) fn location(&self, path: &Path) -> Result<(Client, Location)> {
            let location = Location::parse(path.to_str().unwrap_or_default())?;
            let not_address =
                || Error::misuse(format_args!("{:?} is not an address", path.display()));
            let location = location.ok_or_else(not_address)?;
            let s3_client = self.s3_client.as_ref().filter(|_| location.is_s3());
            let client = match s3_client.or(self.client.as_ref()) {
                Some(client) => client.clone(),
                None => Client::new(Options::default())?,
            };
            Ok((client, location))
        }

        pub(super) fn open_remote(&self, path: &Path) -> Result<Model> {
            let (client, location) = self.location(path)?;
            let opened =
                if self.alone { client.open_alone(&location) } else { client.open(&location) };
            opened
                .map(|model| Model::at(model, path))
                .map_err(|error| with_file_kind(&client, &location, error))
        }

        pub(super) fn open_damaged_remote(&self, path: &Path) -> Result<ggmill_core::Model> {
            let (client, location) = self.location(path)?;
            client
                .open_damaged(&location)
                .map_err(|error| with_file_kind(&client, &location, error))
        }

        /// Returns the addresses of the GGUF files (all shards) in a repository or a directory of it;
        /// for the address of a file that address.
        pub(crate) fn gguf_files(&self, path: &Path) -> Result<Vec<PathBuf>> {
            let is_gguf = |name: &str| name.to_ascii_lowercase().ends_with(".gguf");
            let (client, location) = self.location(path)?;
            let is_file = location.directory().is_none()
                || !location.is_repository() && location.file_name().is_some_and(is_gguf);
            if is_file {
                return Ok(vec![path.to_owned()]);
            }
            let found = client.directory(&location)?;
            let files = found.files().iter().filter(|file| is_gguf(&file.path));
            Ok(files.map(|file| location.join(&file.path).to_address().into()).collect())
        }

        pub(super) fn open_damaged_remote_or<T>(
            &self,
            path: &Path,
            not_gguf: impl FnOnce(&ggmill_core::Error, &[u8]) -> T,
        ) -> Result<Result<ggmill_core::Model, T>> {
            let (client, location) = self.location(path)?;
            match client.open_damaged(&location) {
                Ok(model) => Ok(Ok(model)),
                Err(error) => match error.format_error() {
                    Some(format) => {
                        let bytes = client.open_file(&location).ok();
                        let bytes = bytes.map(|bytes| content::beginning(&bytes));
                        Ok(Err(not_gguf(format, &bytes.unwrap_or_default())))
                    }
                    None => Err(error.into()),
                },
            }
        }

        pub(super) fn remote_failure(&self, path: &Path) -> Option<OpenFailure> {
            let (client, location) = self.location(path).ok()?;
            let error = client.open(&location).err()?;
            let text = error.to_string();
            let last = error.name().rsplit('/').next().unwrap_or_default();
            let rest = text.strip_prefix(error.name()).map(|rest| format!("{last}{rest}"));
            let is_format = matches!(error.kind(), ErrorKind::Format(_));
            Some(OpenFailure::new(rest.unwrap_or(text), is_format))
        }

        pub(super) fn remote_bytes(&self, path: &Path) -> Result<Box<dyn ReadAt>> {
            let (client, location) = self.location(path)?;
            Ok(Box::new(client.open_file(&location)?))
        }

        pub(super) fn remote_directory_at(
            &self,
            path: &Path,
        ) -> Result<(Directory, Option<String>)> {
            /// The extensions of files with weights.
            const WEIGHTS: [&str; 4] = [".safetensors", ".bin", ".pth", ".pt"];
            let (client, location) = self.location(path)?;
            let is_weights = |name: &&str| WEIGHTS.iter().any(|end| name.ends_with(end));
            let file = location.file_name().filter(is_weights).map(str::to_owned);
            let parent = file.as_ref().and_then(|_| location.directory());
            let directory = parent.unwrap_or(location);
            let found = client.directory(&directory)?;
            let files: Vec<String> = found.files().iter().map(|file| file.path.clone()).collect();
            let name = found.name().map(str::to_owned);
            let open = move |path: &str| Ok(Box::new(found.open(path)?) as Box<dyn ReadAt>);
            Ok((Directory::remote(directory.to_string(), name, files, open), file))
        }
    }

    /// Converts an error, and adds a hint with the kind of the file.
    fn with_file_kind(client: &Client, location: &Location, error: ggmill_remote::Error) -> Error {
        let content_hint = || {
            let format = error.format_error().filter(|_| error.kind() != ErrorKind::Shards)?;
            // The error can be about another shard, which is not downloaded again.
            let is_named = error.name() == location.to_string();
            let bytes = is_named.then(|| client.open_file(location).ok())??;
            let bytes = content::beginning(&bytes);
            if let Some(FileKind::LfsPointer { .. }) = sniff(&bytes, None) {
                return Some(Hint::DownloadAddress);
            }
            content::hint_for(format, &bytes, location.file_name())
        };
        let hint =
            if error.kind() == ErrorKind::Shards { Some(Hint::OpenAlone) } else { content_hint() };
        Error::from(error).with_hint(hint)
    }
}

#[cfg(not(feature = "remote"))]
impl OpenOptions {
    fn refused<T>(path: &Path) -> Result<T> {
        let message =
            format_args!("{}: this program was built without `remote`", display_path(path));
        let error = Error::new(Kind::Unsupported, "unsupported", message);
        Err(error.with_hint(Hint::UseCopy))
    }

    fn open_remote(&self, path: &Path) -> Result<Model> {
        Self::refused(path)
    }

    fn open_damaged_remote(&self, path: &Path) -> Result<ggmill_core::Model> {
        Self::refused(path)
    }

    pub(crate) fn gguf_files(&self, path: &Path) -> Result<Vec<PathBuf>> {
        Self::refused(path)
    }

    pub(crate) fn list_remote(&self, path: &Path) -> Result<crate::Listing> {
        Self::refused(path)
    }

    fn open_damaged_remote_or<T>(
        &self,
        path: &Path,
        _: impl FnOnce(&ggmill_core::Error, &[u8]) -> T,
    ) -> Result<Result<ggmill_core::Model, T>> {
        Self::refused(path)
    }

    fn remote_failure(&self, _: &Path) -> Option<OpenFailure> {
        None
    }

    fn remote_bytes(&self, path: &Path) -> Result<Box<dyn ReadAt>> {
        Self::refused(path)
    }

    fn remote_directory_at(&self, path: &Path) -> Result<(Directory, Option<String>)> {
        Self::refused(path)
    }
}

/// Converts an error of opening a model, and adds a hint with the kind of the path.
fn with_path_kind(error: ggmill_io::Error) -> Error {
    let path = error.path();
    let hint = match error.kind() {
        ggmill_io::ErrorKind::Io if path.is_dir() => hint_for_directory(path),
        ggmill_io::ErrorKind::Io if path.exists() && !path.is_file() => Some(Hint::ReadAsStream),
        ggmill_io::ErrorKind::Shards => Some(Hint::OpenAlone),
        ggmill_io::ErrorKind::Format(_) => hint_for_format(&error),
        _ => None,
    };
    Error::from(error).with_hint(hint)
}

fn hint_for_format(error: &ggmill_io::Error) -> Option<Hint> {
    let path = error.path();
    let name = path.file_name().and_then(|name| name.to_str());
    content::hint_for(error.format_error()?, &beginning(path)?, name)
}

/// Returns the kind of a regular file, by its first bytes and its name.
pub(crate) fn kind_of_file(path: &Path) -> Option<FileKind> {
    sniff(&beginning(path)?, path.file_name().and_then(|name| name.to_str()))
}

fn beginning(path: &Path) -> Option<Vec<u8>> {
    RandomAccess::open(path).ok()?.beginning(SNIFFED).ok()
}

/// Returns the hint for a directory instead of a file: it is a checkpoint, or has GGUF files.
fn hint_for_directory(directory: &Path) -> Option<Hint> {
    const SHOWN: usize = 4;
    if directory.join("config.json").is_file() {
        return Some(Hint::CheckpointDirectory);
    }
    let files =
        std::fs::read_dir(directory).ok()?.filter_map(|entry| Some(entry.ok()?.file_name()));
    let mut names: Vec<_> = files
        .filter(|name| Path::new(name).extension().is_some_and(|extension| extension == "gguf"))
        .collect();
    names.sort_unstable();
    let more = names.len() > SHOWN;
    names.truncate(SHOWN);
    let shown: Vec<String> =
        names.iter().map(|name| RawStr::new(name.as_encoded_bytes()).to_string()).collect();
    (!shown.is_empty()).then_some(Hint::GgufFiles(shown, more))
}

/// Fails if an edit of one of these files was interrupted: until it is finished or undone, a file can
/// begin with zeros, or with parts of two headers.
pub fn refuse_interrupted(files: &[impl AsRef<Path>]) -> Result<()> {
    for file in files.iter().map(AsRef::as_ref) {
        if let Some(journal) = ggmill_io::pending_journal(file) {
            let name = journal.file_name().unwrap_or_default().as_encoded_bytes();
            let message = format!(
                "an edit of this file was interrupted: its journal {} is next to the file",
                RawStr::new(name)
            );
            let error = Error::new(Kind::Changed, "journal", message);
            return Err(error.at(file).with_hint(Hint::Recover));
        }
    }
    Ok(())
}
