//! The files in a repository on the Hub.

use std::borrow::Cow;
use std::fmt;
use std::io::Read as _;

use ggmill_core::ByteSize;
use serde::Deserialize;
use serde::de::{Deserializer, SeqAccess, Visitor};

use crate::client::{Ask, Client, Fault};
use crate::error::{Detail, Error, Result};
use crate::hub;
use crate::location::{Location, Place};
use crate::url::{Url, redacted};

/// Bytes of one page of a listing, at most.
const MAX_PAGE: u64 = 64 << 20;
/// Bytes of all pages of a listing, at most.
const MAX_LISTING: u64 = 256 << 20;
/// Pages of a listing, at most.
const MAX_PAGES: usize = 1000;

/// A repository of the Hub.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Repository {
    /// Its files, in the order of their paths.
    pub files: Vec<RepositoryFile>,
    /// The number of parameters of one of its GGUF models, where the Hub knows it. The Hub does not
    /// say which model that is: [`models`](Self::models) tells for which it holds.
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
    /// Lists a repository of the Hub, or a directory in one: all of it, or an error. Fails for any
    /// other location, and as [`open`](Self::open) does where the server refuses. The number of
    /// parameters is asked for separately, and is none where that fails.
    pub fn list(&self, location: &Location) -> Result<Repository> {
        let Place::Hub(place) = &location.0 else {
            return Err(Error::new(location, Detail::Address { expected: "hf://OWNER/NAME" }));
        };
        let begin = hub::listing(self.hub(), place);
        let (mut files, mut total) = (Vec::new(), 0u64);
        let mut next = Some(begin.clone());
        for _ in 0..MAX_PAGES {
            let Some(url) = next.take() else { break };
            let page = self.page(location, &url)?;
            total = total.saturating_add(page.bytes.len() as u64);
            let Entries(more) = parsed(location, &page.bytes, "a list of files")?;
            files.extend(more);
            next = page.following(location, &begin, &url)?;
            if next.is_some() && total > MAX_LISTING {
                let most = ByteSize::from(MAX_LISTING);
                return Err(wrong(location, &format!("is longer than {most}")));
            }
        }
        if next.is_some() {
            return Err(wrong(location, &format!("has more than {MAX_PAGES} pages")));
        }
        files.sort_unstable_by(|a, b| a.path.cmp(&b.path));
        // The list is of use without it.
        let facts = hub::facts(self.hub(), place).and_then(|url| self.page(location, &url).ok());
        let facts = facts.and_then(|page| parsed::<Facts>(location, &page.bytes, "facts").ok());
        Ok(Repository { files, parameters: facts.and_then(|facts| facts.gguf?.total) })
    }

    /// A document, with the address of the one that continues it.
    fn page(&self, location: &Location, url: &Url) -> Result<Page> {
        self.persist(|_| {
            let answer = self.ask(location, url, &Ask::default())?;
            let mut bytes = Vec::new();
            let read = answer.body.take(MAX_PAGE.saturating_add(1)).read_to_end(&mut bytes);
            self.count_bytes(bytes.len());
            let len = bytes.len() as u64;
            if len > MAX_PAGE {
                let what = format!("has a page of more than {}", ByteSize::from(MAX_PAGE));
                return Err(wrong(location, &what).into());
            }
            if read.is_err() || answer.length.is_some_and(|length| len < length) {
                let last =
                    format!("the connection was interrupted {len} bytes into the listing").into();
                let error = Error::new(location, Detail::Unavailable { attempts: 1, last });
                return Err(Fault { error, passes: true, wait: None });
            }
            Ok(Page { bytes, url: answer.url, next: answer.next })
        })
    }
}

/// One document of a listing.
struct Page {
    bytes: Vec<u8>,
    /// Where it came from, after redirects.
    url: Url,
    /// The address of the one that continues it, as the server gave it.
    next: Option<String>,
}

impl Page {
    /// The address of the page after this one, which `asked` led to, of a listing that begins at
    /// `begin`. Fails where the server names one that cannot be it, so that no part of a list is
    /// mistaken for all of it.
    fn following(&self, location: &Location, begin: &Url, asked: &Url) -> Result<Option<Url>> {
        let Some(text) = self.next.as_deref() else { return Ok(None) };
        let next = self.url.join(text).ok().and_then(|next| {
            if next.same_origin(begin) {
                return Some(next);
            }
            // A mirror may pass the address of the Hub itself on. The token goes along, so the
            // mirror is asked: pages of one listing differ in their query.
            let query = next.query()?.to_owned();
            Some(begin.with_path(begin.path().to_owned(), Some(query)))
        });
        match next.filter(|next| next != asked) {
            Some(next) => Ok(Some(next)),
            None => Err(wrong(
                location,
                &format!("continues at the unexpected address {:?}", redacted(text)),
            )),
        }
    }
}

/// The complete entries of a page that are files.
struct Entries(Vec<RepositoryFile>);

/// An entry of a page, as far as it is of use.
#[derive(Deserialize)]
struct Entry<'a> {
    #[serde(rename = "type", borrow)]
    kind: Option<Cow<'a, str>>,
    #[serde(borrow)]
    path: Option<Cow<'a, str>>,
    size: Option<u64>,
    lfs: Option<Lfs>,
}

/// The facts of a file that is kept apart from its repository.
#[derive(Deserialize)]
struct Lfs {
    size: Option<u64>,
}

/// What the Hub knows of a model.
#[derive(Deserialize)]
struct Facts {
    gguf: Option<GgufFacts>,
}

#[derive(Deserialize)]
struct GgufFacts {
    total: Option<u64>,
}

impl<'de> Deserialize<'de> for Entries {
    /// Entry by entry, so that memory is needed for what is kept only.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Each;
        impl<'de> Visitor<'de> for Each {
            type Value = Entries;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list of files")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Entries, A::Error> {
                let mut files = Vec::new();
                while let Some(entry) = list.next_element::<Entry<'de>>()? {
                    files.extend(entry.file());
                }
                Ok(Entries(files))
            }
        }
        deserializer.deserialize_seq(Each)
    }
}

impl Entry<'_> {
    fn file(self) -> Option<RepositoryFile> {
        // A file that is kept apart has its own length there, and that of its pointer here in old
        // listings.
        let bytes = self.lfs.and_then(|apart| apart.size).or(self.size)?;
        let path = self.path.filter(|_| self.kind.as_deref() == Some("file"))?;
        Some(RepositoryFile { path: path.into_owned(), bytes })
    }
}

fn parsed<'de, T: Deserialize<'de>>(
    location: &Location,
    bytes: &'de [u8],
    expected: &str,
) -> Result<T> {
    serde_json::from_slice(bytes).map_err(|error| {
        let expected = if error.is_data() { expected } else { "JSON" };
        wrong(location, &format!("is not {expected}"))
    })
}

/// The error of a listing that does this.
fn wrong(location: &Location, what: &str) -> Error {
    let came = format!("the listing of the repository {what}").into();
    Error::new(location, Detail::Protocol { asked: None, came })
}
