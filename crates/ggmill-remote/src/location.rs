//! The address of a file on the web, on the Hub or in S3.

use std::fmt;

use ggmill_core::ShardName;
use percent_encoding::percent_decode_str;

use crate::error::{Detail, Error, Result};
use crate::url::{Url, encode_path, redacted};

/// The hosts whose addresses are those of files on the Hub.
const HUB_HOSTS: [&str; 4] = ["huggingface.co", "www.huggingface.co", "hf.co", "www.hf.co"];

/// A file, or a repository, that is somewhere else: `https://…`, `http://…`,
/// `hf://[models/|datasets/]OWNER/NAME[@REVISION][/PATH]`, `s3://BUCKET/KEY`.
///
/// Pages of the Hub are understood as the files that they show. Shows as what was named, without
/// the query of an address, which can be a signature; so does the debug form.
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

/// A repository of the Hub, and a file in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HubPlace {
    pub(crate) dataset: bool,
    /// `OWNER/NAME`.
    pub(crate) repository: String,
    pub(crate) revision: Option<String>,
    /// Plain text, without `/` at its ends. `None` is the repository.
    pub(crate) path: Option<String>,
}

/// An object in S3.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct S3Place {
    pub(crate) bucket: String,
    pub(crate) key: String,
}

impl Location {
    /// Understands an address; `None` is text that is none, such as a path. Fails for an address
    /// of another scheme, and for one that lacks something.
    pub fn parse(text: &str) -> Result<Option<Self>> {
        let refused = |expected| Err(Error::new(redacted(text), Detail::Address { expected }));
        let Some((scheme, rest)) = text.split_once(':') else { return Ok(None) };
        // One letter is a drive.
        let is_scheme = scheme.len() > 1
            && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte));
        let scheme = scheme.to_ascii_lowercase();
        let known = matches!(scheme.as_str(), "http" | "https" | "hf" | "s3");
        let Some(rest) = rest.strip_prefix("//").filter(|_| is_scheme) else {
            // `https:/host` is a slip, `notes:2.gguf` a file.
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

    /// The last part of the name, where the address is that of a file.
    pub fn file_name(&self) -> Option<&str> {
        let path = match &self.0 {
            Place::Web(url) => url.path(),
            Place::Hub(place) => place.path.as_deref()?,
            Place::S3(place) => &place.key,
        };
        path.rsplit('/').next().filter(|name| !name.is_empty())
    }

    /// The file of this name beside this one.
    #[must_use]
    pub fn with_file_name(&self, name: &str) -> Self {
        let beside = |path: &str, name: &str| match path.rsplit_once('/') {
            Some((directory, _)) => format!("{directory}/{name}"),
            None => name.to_owned(),
        };
        Self(match &self.0 {
            // The query is kept: it may say which version, or be the leave to read.
            Place::Web(url) => {
                Place::Web(url.with_path(
                    beside(url.path(), &encode_path(name)),
                    url.query().map(str::to_owned),
                ))
            }
            Place::Hub(place) => Place::Hub(HubPlace {
                path: Some(beside(place.path.as_deref().unwrap_or_default(), name)),
                ..place.clone()
            }),
            Place::S3(place) => {
                Place::S3(S3Place { key: beside(&place.key, name), ..place.clone() })
            }
        })
    }

    /// The files of the set that this is a shard of, by its name, in the order of their numbers and
    /// with this one; `None` where the name is not that of a shard of several. They need not be
    /// there.
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

    /// The name taken apart, where it says that the file is one shard of several.
    pub(crate) fn shard_name(&self) -> Option<ShardName<'_>> {
        ShardName::parse(self.file_name()?).filter(|name| name.count() > 1)
    }

    /// The whole address, which [`parse`](Self::parse) understands as this location: with the
    /// query, which can be a signature. To show it, use [`Display`](fmt::Display).
    pub fn to_address(&self) -> String {
        match &self.0 {
            Place::Web(url) => url.to_text(),
            _ => self.to_string(),
        }
    }

    /// Whether this is a whole repository of the Hub, not a file in one.
    pub fn is_repository(&self) -> bool {
        matches!(&self.0, Place::Hub(place) if place.path.is_none())
    }

    /// Whether this is an object in S3.
    pub fn is_s3(&self) -> bool {
        matches!(&self.0, Place::S3(_))
    }

    /// The same file at this commit, where that makes a difference.
    pub(crate) fn at_commit(&self, commit: &str) -> Self {
        match &self.0 {
            Place::Hub(place) => {
                Self(Place::Hub(HubPlace { revision: Some(commit.to_owned()), ..place.clone() }))
            }
            _ => self.clone(),
        }
    }

    /// The repository or directory of the Hub that a file is in; `None` elsewhere.
    pub fn directory(&self) -> Option<Self> {
        let Place::Hub(place) = &self.0 else { return None };
        let path = place.path.as_deref().and_then(|path| path.rsplit_once('/'));
        let path = path.map(|(directory, _)| directory.to_owned());
        Some(Self(Place::Hub(HubPlace { path, ..place.clone() })))
    }

    /// A file below this repository or directory of the Hub; any other location is returned as it is.
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
                // Its slashes are not those of the path.
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
        // The only revisions with slashes in them.
        (Some("refs"), [kind @ ("pr" | "convert"), which, rest @ ..]) => {
            (Some(format!("refs/{kind}/{which}")), rest)
        }
        (Some(revision), rest) => (Some(decoded(revision)?), rest),
        (None, rest) => (None, rest),
    };
    place(dataset, owner, name, revision, &path.join("/"))
}

/// A place whose parts are checked: names of repositories are of few characters, and paths have no
/// steps upwards.
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
    // The second would be taken for the beginning of a longer one.
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

/// An address of the web, which is perhaps a page or a file of the Hub.
fn web(url: Url) -> Result<Place, &'static str> {
    if !HUB_HOSTS.contains(&url.host()) {
        return Ok(Place::Web(url));
    }
    let parts = url.path().split('/').skip(1).map(decoded).collect::<Result<Vec<_>, _>>()?;
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

fn decoded(text: &str) -> Result<String, &'static str> {
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
    fn names_and_pages_of_the_hub_are_one() {
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
    fn what_is_no_address_is_left_alone_and_what_is_a_wrong_one_is_refused() {
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
    fn an_address_is_understood_as_its_location_again() {
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
    fn the_siblings_of_a_shard_are_at_its_place() {
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
        for alone in
            ["https://h/m.gguf", "hf://a/b", "https://h/m-00001-of-00001.gguf", "https://h/"]
        {
            let location = Location::parse(alone).unwrap().unwrap();
            assert!(location.siblings().is_none(), "{alone}");
        }
    }

    #[test]
    fn a_sibling_has_the_same_place_and_another_name() {
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
