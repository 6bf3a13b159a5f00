//! Locations: addresses of files on the web, on the Hub and in S3.

use std::fmt;

use ggmill_core::ShardName;
use percent_encoding::percent_decode_str;

use crate::error::{Detail, Error, Result};
use crate::url::{Url, encode_path, redacted};

/// The hosts of the Hub, whose pages are parsed as locations on the Hub.
const HUB_HOSTS: [&str; 4] = ["huggingface.co", "www.huggingface.co", "hf.co", "www.hf.co"];

/// The address of a remote file or repository: `https://…`, `http://…`,
/// `hf://[models/|datasets/]OWNER/NAME[@REVISION][/PATH]`, `s3://BUCKET/KEY`.
///
/// The URL of a page of the Hub is parsed as the file that it shows. Display and debug output do not
/// have the query of a URL, which can be a signature.
///
/// ```
/// use ggmill_remote::Location;
/// let page = "https://huggingface.co/ggml-org/models/blob/main/tinyllamas/stories260K.gguf";
/// let file = Location::parse(page)?.ok_or("remote")?;
/// assert_eq!(file.to_string(), "hf://ggml-org/models@main/tinyllamas/stories260K.gguf");
/// assert_eq!(file.file_name(), Some("stories260K.gguf"));
/// assert!(Location::parse("models/tiny.gguf")?.is_none());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Location(pub(crate) Place);

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Web(Url),
    Hub(HubPlace),
    S3(S3Place),
}

/// A repository of the Hub, or a file in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HubPlace {
    pub(crate) dataset: bool,
    /// `OWNER/NAME`.
    pub(crate) repository: String,
    pub(crate) revision: Option<String>,
    /// Not percent-encoded, without `/` at its ends. `None` is the repository.
    pub(crate) path: Option<String>,
}

/// An object in S3.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct S3Place {
    pub(crate) bucket: String,
    pub(crate) key: String,
}

impl Location {
    /// Parses an address. Returns `None` for text that is not an address, such as a path. Fails for an
    /// unknown scheme and for an incomplete address.
    pub fn parse(text: &str) -> Result<Option<Self>> {
        let refused = |expected| Err(Error::new(redacted(text), Detail::Address { expected }));
        let Some((scheme, rest)) = text.split_once(':') else { return Ok(None) };
        // A single letter is a drive of Windows.
        let is_scheme = scheme.len() > 1
            && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte));
        let scheme = scheme.to_ascii_lowercase();
        let known = matches!(scheme.as_str(), "http" | "https" | "hf" | "s3");
        let Some(rest) = rest.strip_prefix("//").filter(|_| is_scheme) else {
            // `https:/host` is a typing error, `notes:2.gguf` is a file.
            return if known && rest.starts_with('/') {
                refused("two slashes after the scheme, as in https://HOST/PATH")
            } else {
                Ok(None)
            };
        };
        let place = match scheme.as_str() {
            "hf" => hub(rest).map(Place::Hub),
            "s3" => s3(rest).map(Place::S3),
            "http" | "https" => Url::parse(text).and_then(web),
            _ => Err("the scheme https, http, hf or s3"),
        };
        place.map_or_else(refused, |place| Ok(Some(Self(place))))
    }

    /// Returns the file name, or `None` for a directory or repository.
    pub fn file_name(&self) -> Option<&str> {
        let path = match &self.0 {
            Place::Web(url) => url.path(),
            Place::Hub(place) => place.path.as_deref()?,
            Place::S3(place) => &place.key,
        };
        path.rsplit('/').next().filter(|name| !name.is_empty())
    }

    /// Returns the location of a file in the same directory.
    #[must_use]
    pub fn with_file_name(&self, name: &str) -> Self {
        let sibling = |path: &str, name: &str| match path.rsplit_once('/') {
            Some((directory, _)) => format!("{directory}/{name}"),
            None => name.to_owned(),
        };
        Self(match &self.0 {
            // The query is kept, as it can select a version or authorize the request.
            Place::Web(url) => Place::Web(url.with_path(
                sibling(url.path(), &encode_path(name)),
                url.query().map(str::to_owned),
            )),
            Place::Hub(place) => Place::Hub(HubPlace {
                path: Some(sibling(place.path.as_deref().unwrap_or_default(), name)),
                ..place.clone()
            }),
            Place::S3(place) => {
                Place::S3(S3Place { key: sibling(&place.key, name), ..place.clone() })
            }
        })
    }

    /// Returns the locations of all shards of the set, this one included, derived from the file name.
    /// `None` if that is not the name of a shard of several. The files need not exist.
    ///
    /// ```
    /// use ggmill_remote::Location;
    /// let address = "https://example.com/m-00002-of-00003.gguf?download=true";
    /// let shard = Location::parse(address)?.ok_or("remote")?;
    /// let set: Vec<_> = shard.siblings().ok_or("a set")?.collect();
    /// assert_eq!(set.len(), 3);
    /// assert_eq!(set[0].to_address(), "https://example.com/m-00001-of-00003.gguf?download=true");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn siblings(&self) -> Option<impl Iterator<Item = Self> + '_> {
        let name = self.shard_name()?;
        Some((1..=name.count()).map(move |number| self.with_file_name(&name.sibling(number))))
    }

    /// Parses the file name, if it is that of a shard of several.
    pub(crate) fn shard_name(&self) -> Option<ShardName<'_>> {
        ShardName::parse(self.file_name()?).filter(|name| name.count() > 1)
    }

    /// Returns the whole address, which [`parse`](Self::parse) accepts. It has the query, which can be a
    /// signature, so use [`Display`](fmt::Display) in messages.
    pub fn to_address(&self) -> String {
        match &self.0 {
            Place::Web(url) => url.to_text(),
            _ => self.to_string(),
        }
    }

    /// Returns `true` for a repository of the Hub, as opposed to a file in one.
    pub fn is_repository(&self) -> bool {
        matches!(&self.0, Place::Hub(place) if place.path.is_none())
    }

    /// Returns `true` for an object in S3.
    pub fn is_s3(&self) -> bool {
        matches!(&self.0, Place::S3(_))
    }

    /// Returns the location at a commit. Locations that are not on the Hub are returned unchanged.
    pub(crate) fn at_commit(&self, commit: &str) -> Self {
        match &self.0 {
            Place::Hub(place) => {
                Self(Place::Hub(HubPlace { revision: Some(commit.to_owned()), ..place.clone() }))
            }
            _ => self.clone(),
        }
    }

    /// Returns the repository or directory of a file on the Hub, or `None` for other locations.
    pub fn directory(&self) -> Option<Self> {
        let Place::Hub(place) = &self.0 else { return None };
        let path = place.path.as_deref().and_then(|path| path.rsplit_once('/'));
        let path = path.map(|(directory, _)| directory.to_owned());
        Some(Self(Place::Hub(HubPlace { path, ..place.clone() })))
    }

    /// Returns a file in this repository or directory of the Hub. Other locations are returned unchanged.
    ///
    /// ```
    /// use ggmill_remote::Location;
    /// let directory = Location::parse("hf://owner/name/q4")?.ok_or("remote")?;
    /// assert_eq!(directory.join("model.gguf").to_address(), "hf://owner/name/q4/model.gguf");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn join(&self, below: &str) -> Self {
        let Place::Hub(place) = &self.0 else { return self.clone() };
        let path = match &place.path {
            Some(path) => format!("{path}/{below}"),
            None => below.to_owned(),
        };
        Self(Place::Hub(HubPlace { path: Some(path), ..place.clone() }))
    }
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Place::Web(url) => url.fmt(f),
            Place::Hub(place) => place.fmt(f),
            Place::S3(place) => write!(f, "s3://{}/{}", place.bucket, place.key),
        }
    }
}

impl fmt::Display for HubPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = if self.dataset { "datasets/" } else { "" };
        write!(f, "hf://{kind}{}", self.repository)?;
        if let Some(revision) = &self.revision {
            let is_plain = |rest: &str| {
                rest.split_once('/').is_some_and(|(kind, which)| {
                    matches!(kind, "pr" | "convert") && !which.is_empty() && !which.contains('/')
                })
            };
            if revision.strip_prefix("refs/").is_some_and(is_plain) {
                write!(f, "@{revision}")?;
            } else {
                // Slashes in the revision would be parsed as part of the path.
                write!(f, "@{}", revision.replace('%', "%25").replace('/', "%2F"))?;
            }
        }
        self.path.as_ref().map_or(Ok(()), |path| write!(f, "/{path}"))
    }
}

const HUB: &str = "hf://[models/|datasets/]OWNER/NAME[@REVISION][/PATH]";

fn hub(rest: &str) -> Result<HubPlace, &'static str> {
    let mut parts: Vec<&str> = rest.split('/').collect();
    let dataset = parts.first() == Some(&"datasets");
    if dataset || parts.first() == Some(&"models") {
        parts.remove(0);
    } else if parts.first() == Some(&"spaces") {
        return Err("hf://models/… or hf://datasets/…: Hugging Face Spaces have no model files");
    }
    let [owner, name, rest @ ..] = &*parts else { return Err(HUB) };
    let (name, revision) = match name.split_once('@') {
        Some((name, revision)) => (name, Some(revision)),
        None => (*name, None),
    };
    let (revision, path) = match (revision, rest) {
        // The only revisions with unescaped slashes.
        (Some("refs"), [kind @ ("pr" | "convert"), which, rest @ ..]) => {
            (Some(format!("refs/{kind}/{which}")), rest)
        }
        (Some(revision), rest) => (Some(percent_decode(revision)?), rest),
        (None, rest) => (None, rest),
    };
    place(dataset, owner, name, revision, &path.join("/"))
}

/// Checks the parts of a location on the Hub: the characters of names, and that the path has no `..`.
fn place(
    dataset: bool,
    owner: &str,
    name: &str,
    revision: Option<String>,
    path: &str,
) -> Result<HubPlace, &'static str> {
    let is_name = |name: &str| {
        !name.is_empty()
            && name != "."
            && name != ".."
            && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
    };
    if !is_name(owner) || !is_name(name) {
        return Err(HUB);
    }
    // `refs` would be parsed as the beginning of `refs/pr/N`.
    if revision.as_deref().is_some_and(|revision| matches!(revision, "" | "refs")) {
        return Err("a branch, a tag, a commit or refs/pr/N after '@'");
    }
    let path = path.trim_matches('/').to_owned();
    if path.split('/').any(|part| matches!(part, "." | "..")) {
        return Err("a path without . and ..");
    }
    Ok(HubPlace {
        dataset,
        repository: format!("{owner}/{name}"),
        revision,
        path: Some(path).filter(|path| !path.is_empty()),
    })
}

fn s3(rest: &str) -> Result<S3Place, &'static str> {
    const S3: &str = "s3://BUCKET/KEY";
    let (bucket, key) = rest.split_once('/').ok_or(S3)?;
    let is_bucket = !bucket.is_empty()
        && bucket.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte));
    if !is_bucket || key.is_empty() {
        return Err(S3);
    }
    Ok(S3Place { bucket: bucket.to_owned(), key: key.to_owned() })
}

/// Converts a URL, which can be that of a page or file of the Hub.
fn web(url: Url) -> Result<Place, &'static str> {
    if !HUB_HOSTS.contains(&url.host()) {
        return Ok(Place::Web(url));
    }
    let parts = url.path().split('/').skip(1).map(percent_decode).collect::<Result<Vec<_>, _>>()?;
    let mut parts: Vec<&str> = parts.iter().map(String::as_str).collect();
    let dataset = parts.first() == Some(&"datasets");
    if dataset {
        parts.remove(0);
    }
    while parts.last().is_some_and(|last| last.is_empty()) {
        parts.pop();
    }
    match &*parts {
        [owner, name] => place(dataset, owner, name, None, "").map(Place::Hub),
        [owner, name, "blob" | "resolve" | "raw" | "tree" | "blame", rest @ ..] => {
            let (revision, path) = match rest {
                ["refs", kind @ ("pr" | "convert"), which, path @ ..] => {
                    (format!("refs/{kind}/{which}"), path)
                }
                [revision, path @ ..] => ((*revision).to_owned(), path),
                [] => return Err(HUB),
            };
            place(dataset, owner, name, Some(revision), &path.join("/")).map(Place::Hub)
        }
        _ => Ok(Place::Web(url)),
    }
}

fn percent_decode(text: &str) -> Result<String, &'static str> {
    percent_decode_str(text)
        .decode_utf8()
        .map(std::borrow::Cow::into_owned)
        .map_err(|_| "valid UTF-8 after decoding % sequences")
}

#[cfg(test)]
mod tests {
    use super::Location;

    fn shown(text: &str) -> String {
        Location::parse(text).unwrap().unwrap().to_string()
    }

    #[test]
    fn urls_of_the_hub_are_locations_on_the_hub() {
        for (text, name) in [
            ("hf://a/b/c.gguf", "hf://a/b/c.gguf"),
            ("HF://models/a/b@v1/d/c.gguf", "hf://a/b@v1/d/c.gguf"),
            ("hf://datasets/a/b@refs/pr/7/c.gguf", "hf://datasets/a/b@refs/pr/7/c.gguf"),
            ("hf://a/b@dev%2Fx/c.gguf", "hf://a/b@dev%2Fx/c.gguf"),
            ("hf://a/b/", "hf://a/b"),
            ("https://huggingface.co/a/b", "hf://a/b"),
            ("https://hf.co/a/b/tree/main", "hf://a/b@main"),
            (
                "https://huggingface.co/a/b/blob/main/x%20y/c.gguf?download=true",
                "hf://a/b@main/x y/c.gguf",
            ),
            (
                "https://huggingface.co/datasets/a/b/resolve/refs%2Fpr%2F1/c.gguf",
                "hf://datasets/a/b@refs/pr/1/c.gguf",
            ),
            ("https://huggingface.co/a/b/resolve/refs/pr/1/c.gguf", "hf://a/b@refs/pr/1/c.gguf"),
            (
                "https://huggingface.co/a/b/discussions/1",
                "https://huggingface.co/a/b/discussions/1",
            ),
            ("s3://bucket/k e/y.gguf", "s3://bucket/k e/y.gguf"),
        ] {
            assert_eq!(shown(text), name, "{text}");
        }
    }

    #[test]
    fn paths_are_not_addresses_and_invalid_addresses_are_rejected() {
        for path in
            ["model.gguf", "-", "C:\\x", "C:/x", "a:b.gguf", "./https://x", "dir/x:y", "hf:x"]
        {
            assert_eq!(Location::parse(path).unwrap(), None, "{path}");
        }
        for wrong in [
            "ftp://h/x",
            "gs://b/k",
            "file:///x",
            "https:/h/x",
            "https://",
            "hf://",
            "hf://a",
            "hf://a/b@/c",
            "hf://a/../c",
            "hf://a/b/../c",
            "hf://spaces/a/b",
            "hf://a/b c",
            "s3://b",
            "s3:///k",
            "s3://b/",
            "hf:/a/b",
            "hf://a/b@%ff/c",
        ] {
            assert!(Location::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn an_address_parses_to_its_location() {
        for text in [
            "https://h/a%20b.gguf?x=y/../z",
            "http://h:1/?q",
            "hf://a/b@dev%2Fx/c d%20.gguf",
            "hf://datasets/a/b@refs/pr/7/c?d#e.gguf",
            "hf://a/b@50%25/c",
            "hf://a/b",
            "s3://bucket/k?e#y.gguf",
        ] {
            let location = Location::parse(text).unwrap().unwrap();
            let again = Location::parse(&location.to_address()).unwrap().unwrap();
            assert_eq!(again, location, "{text}");
        }
    }

    #[test]
    fn the_siblings_of_a_shard_are_in_its_directory() {
        for (text, last) in [
            ("https://h/a/m-00001-of-00002.gguf?x=/y", "https://h/a/m-00002-of-00002.gguf?x=/y"),
            ("hf://a/b/m-00002-of-00002.gguf", "hf://a/b/m-00002-of-00002.gguf"),
            ("s3://b/d/m-00001-of-00002.gguf", "s3://b/d/m-00002-of-00002.gguf"),
        ] {
            let location = Location::parse(text).unwrap().unwrap();
            let set: Vec<_> = location.siblings().unwrap().collect();
            assert_eq!((set.len(), set[1].to_address().as_str()), (2, last));
            assert!(set.contains(&location));
        }
        for single in
            ["https://h/m.gguf", "hf://a/b", "https://h/m-00001-of-00001.gguf", "https://h/"]
        {
            let location = Location::parse(single).unwrap().unwrap();
            assert!(location.siblings().is_none(), "{single}");
        }
    }

    #[test]
    fn a_sibling_has_the_same_directory() {
        for (text, sibling) in [
            ("https://h/a/b.gguf", "https://h/a/c%201.gguf"),
            ("hf://a/b/c.gguf", "hf://a/b/c 1.gguf"),
            ("hf://a/b/d/c.gguf", "hf://a/b/d/c 1.gguf"),
            ("s3://b/k", "s3://b/c 1.gguf"),
        ] {
            let location = Location::parse(text).unwrap().unwrap();
            assert_eq!(location.with_file_name("c 1.gguf").to_string(), sibling);
        }
    }
}
