//! The files in a repository on the Hub.

use std::io::Read as _;

use serde_json::Value;

use crate::client::{Ask, Client};
use crate::error::{Detail, Error, Result};
use crate::hub;
use crate::location::{Location, Place};
use crate::url::Url;

/// Bytes of one page of a listing, at most.
const MAX_PAGE: u64 = 64 << 20;
/// Pages of a listing, at most.
const MAX_PAGES: usize = 1000;

/// A repository of the Hub.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Repository {
    /// Its files, in the order of their paths.
    pub files: Vec<RepositoryFile>,
    /// The number of parameters of its GGUF model, where the Hub knows it.
    pub parameters: Option<u64>,
}

/// A file of a repository.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RepositoryFile {
    /// Its path within the repository.
    pub path: String,
    /// Its length in bytes.
    pub bytes: u64,
}

impl Client {
    /// Lists a repository of the Hub, or a directory in one. Fails for any other location, and as
    /// [`open`](Self::open) does where the server refuses.
    pub fn list(&self, location: &Location) -> Result<Repository> {
        let Place::Hub(place) = &location.0 else {
            return Err(Error::new(location, Detail::Address { expected: "hf://OWNER/NAME" }));
        };
        let mut files = Vec::new();
        let mut next = Some(hub::listing(self.hub(), place));
        for _ in 0..MAX_PAGES {
            let Some(url) = next.take() else { break };
            let (page, following) = self.page(location, &url)?;
            let entries = page.as_array().ok_or_else(|| unexpected(location, "a list"))?;
            files.extend(entries.iter().filter_map(file));
            // The token goes along, so nowhere else.
            next = following.filter(|following| following.same_origin(&url));
        }
        files.sort_unstable_by(|a, b| a.path.cmp(&b.path));
        let parameters = match hub::facts(self.hub(), place) {
            Some(url) => {
                self.page(location, &url)?.0.pointer("/gguf/total").and_then(Value::as_u64)
            }
            None => None,
        };
        Ok(Repository { files, parameters })
    }

    /// A document in JSON, and the address of the one that continues it.
    fn page(&self, location: &Location, url: &Url) -> Result<(Value, Option<Url>)> {
        self.persist(|_| {
            let answer = self.ask(location, url, &Ask::default())?;
            let next = answer.next.as_deref().and_then(|next| answer.url.join(next).ok());
            let mut bytes = Vec::new();
            let read = answer.body.take(MAX_PAGE).read_to_end(&mut bytes);
            self.count_bytes(bytes.len());
            let page = read.ok().and_then(|_| serde_json::from_slice(&bytes).ok());
            Ok((page.ok_or_else(|| unexpected(location, "JSON"))?, next))
        })
    }
}

fn file(entry: &Value) -> Option<RepositoryFile> {
    let text = |name: &str| entry.get(name)?.as_str();
    // A file that is kept apart has its own length there, and that of its pointer here in old
    // listings.
    let apart = entry.pointer("/lfs/size").and_then(Value::as_u64);
    let bytes = apart.or_else(|| entry.get("size")?.as_u64())?;
    (text("type") == Some("file"))
        .then(|| RepositoryFile { path: text("path").unwrap_or_default().to_owned(), bytes })
}

fn unexpected(location: &Location, expected: &str) -> Error {
    let came = format!("the listing of the repository is not {expected}").into();
    Error::new(location, Detail::Protocol { asked: None, came })
}
