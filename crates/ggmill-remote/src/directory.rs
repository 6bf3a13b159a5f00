//! Files of a repository of the Hub that belong together, all of one commit.

use std::sync::OnceLock;

use crate::client::Client;
use crate::error::{Detail, Error, Result};
use crate::file::RemoteFile;
use crate::list::RepositoryFile;
use crate::location::{Location, Place};

/// A repository of the Hub, or a directory in one: its files by their paths.
///
/// All that is opened is of the commit of the first file, so that a push meanwhile cannot mix two versions.
#[derive(Debug)]
pub struct RemoteDirectory {
    client: Client,
    location: Location,
    files: Vec<RepositoryFile>,
    /// The same place at the commit of the first file that was opened.
    at_commit: OnceLock<Location>,
}

impl Client {
    /// Lists a repository of the Hub, or a directory in one, to open files of it. Fails as
    /// [`list`](Self::list) does.
    pub fn directory(&self, location: &Location) -> Result<RemoteDirectory> {
        let Place::Hub(place) = &location.0 else {
            return Err(Error::new(location, Detail::Address { expected: "hf://OWNER/NAME" }));
        };
        let prefix = place.path.as_deref().map(|path| format!("{path}/")).unwrap_or_default();
        let within = |mut file: RepositoryFile| {
            file.path = file.path.strip_prefix(&prefix)?.to_owned();
            Some(file)
        };
        let files = self.list(location)?.files.into_iter().filter_map(within);
        Ok(RemoteDirectory {
            client: self.clone(),
            location: location.clone(),
            files: files.collect(),
            at_commit: OnceLock::new(),
        })
    }
}

impl RemoteDirectory {
    /// The files in it and below, with their paths within it, in the order of these.
    pub fn files(&self) -> &[RepositoryFile] {
        &self.files
    }

    /// Its own name: the last part of its path, or that of the repository.
    pub fn name(&self) -> Option<&str> {
        let Place::Hub(place) = &self.location.0 else { return None };
        let path = place.path.as_deref().unwrap_or(&place.repository);
        path.rsplit('/').next()
    }

    /// Asks for a file by its path within the directory.
    pub fn open(&self, path: &str) -> Result<RemoteFile> {
        let base = self.at_commit.get().unwrap_or(&self.location);
        let file = self.client.open_file(&base.join(path))?;
        if let Some(commit) = file.target().commit() {
            let found = self.location.at_commit(commit);
            let known = self.at_commit.get_or_init(|| found.clone());
            if *known != found {
                let (found, expected) = (found.to_string().into(), known.to_string().into());
                let detail = Detail::Changed { what: "commit", found, expected };
                return Err(Error::new(file.target().name(), detail));
            }
        }
        Ok(file)
    }
}
