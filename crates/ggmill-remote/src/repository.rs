//! Repositories of the Hub: their files, the GGUF models among them, and opening several files of one
//! commit.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::io::Read as _;
use std::sync::OnceLock;

use ggmill_core::{ByteSize, FileName, FileType, ShardName, is_digits};
use serde::Deserialize;
use serde::de::{Deserializer, SeqAccess, Visitor};

use crate::client::{Client, Fault, RequestHeaders};
use crate::error::{Detail, Error, Result};
use crate::file::RemoteFile;
use crate::hub;
use crate::location::{Location, Place};
use crate::url::{Url, redacted};

/// The maximum bytes of a page of a listing.
const MAX_PAGE: u64 = 64 << 20;
/// The maximum bytes of all pages of a listing.
const MAX_LISTING: u64 = 256 << 20;
/// The maximum number of pages of a listing.
const MAX_PAGES: usize = 1000;

/// The listing of a repository of the Hub.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Repository {
    /// The files, sorted by path.
    pub files: Vec<RepositoryFile>,
    /// The number of parameters of one of its GGUF models, if the Hub has it. The Hub does not say of
    /// which model; [`models`](Self::models) applies it only where that is certain.
    pub parameters: Option<u64>,
}

/// A file of a repository.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RepositoryFile {
    /// The path within the repository.
    pub path: String,
    /// The length in bytes.
    pub bytes: u64,
}

impl Client {
    /// Lists all files of a repository of the Hub, or of a directory in one. Fails for any other location,
    /// and if the listing is not complete. The number of parameters has a separate request, and is `None`
    /// if that fails.
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
            next = page.next_url(location, &begin, &url)?;
            if next.is_some() && total > MAX_LISTING {
                let most = ByteSize::from(MAX_LISTING);
                return Err(invalid(location, &format!("is longer than {most}")));
            }
        }
        if next.is_some() {
            return Err(invalid(location, &format!("has more than {MAX_PAGES} pages")));
        }
        files.sort_unstable_by(|a, b| a.path.cmp(&b.path));
        // The number of parameters is optional.
        let facts = hub::facts(self.hub(), place).and_then(|url| self.page(location, &url).ok());
        let facts = facts.and_then(|page| parsed::<Facts>(location, &page.bytes, "facts").ok());
        Ok(Repository { files, parameters: facts.and_then(|facts| facts.gguf?.total) })
    }

    /// Requests a page of a listing.
    fn page(&self, location: &Location, url: &Url) -> Result<Page> {
        self.retry(|_| {
            let response = self.request(location, url, &RequestHeaders::default())?;
            let mut bytes = Vec::new();
            let read = response.body.take(MAX_PAGE.saturating_add(1)).read_to_end(&mut bytes);
            self.count_bytes(bytes.len());
            let bytes = self.scrubbed(&bytes).unwrap_or(bytes);
            let len = bytes.len() as u64;
            if len > MAX_PAGE {
                let what = format!("has a page of more than {}", ByteSize::from(MAX_PAGE));
                return Err(invalid(location, &what).into());
            }
            if read.is_err() || response.length.is_some_and(|length| len < length) {
                let last =
                    format!("the connection was interrupted {len} bytes into the listing").into();
                let error = Error::new(location, Detail::Unavailable { attempts: 1, last });
                return Err(Fault { error, is_transient: true, wait: None });
            }
            Ok(Page { bytes, url: response.url, next: response.next })
        })
    }
}

/// A page of a listing.
struct Page {
    bytes: Vec<u8>,
    /// The URL after redirects.
    url: Url,
    /// The URL of the next page, as sent by the server.
    next: Option<String>,
}

impl Page {
    /// Returns the URL of the next page of a listing that begins at `begin`. `requested` is the URL of this
    /// page. Fails if the server sends a URL that cannot be the next page; otherwise a listing could be
    /// incomplete.
    fn next_url(&self, location: &Location, begin: &Url, requested: &Url) -> Result<Option<Url>> {
        let Some(text) = self.next.as_deref() else { return Ok(None) };
        let next = self.url.join(text).ok().and_then(|next| {
            if next.same_origin(begin) {
                return Some(next);
            }
            // A mirror can forward a URL of the Hub. Since the token is for the mirror, request the
            // page there: pages differ only in the query.
            let query = next.query()?.to_owned();
            Some(begin.with_path(begin.path().to_owned(), Some(query)))
        });
        match next.filter(|next| next != requested) {
            Some(next) => Ok(Some(next)),
            None => Err(invalid(
                location,
                &format!("continues at the unexpected address {:?}", redacted(text)),
            )),
        }
    }
}

/// The entries of a page that are files.
struct Entries(Vec<RepositoryFile>);

/// The relevant members of an entry of a page.
#[derive(Deserialize)]
struct Entry<'a> {
    #[serde(rename = "type", borrow)]
    kind: Option<Cow<'a, str>>,
    #[serde(borrow)]
    path: Option<Cow<'a, str>>,
    size: Option<u64>,
    lfs: Option<Lfs>,
}

/// The members of a file in Git LFS.
#[derive(Deserialize)]
struct Lfs {
    size: Option<u64>,
}

/// The metadata that the Hub has of a model.
#[derive(Deserialize)]
struct Facts {
    gguf: Option<GgufFacts>,
}

#[derive(Deserialize)]
struct GgufFacts {
    total: Option<u64>,
}

impl<'de> Deserialize<'de> for Entries {
    /// Entry by entry, so that only files need memory.
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
        // In old listings, `size` of a file in Git LFS is the length of its pointer.
        let bytes = self.lfs.and_then(|lfs| lfs.size).or(self.size)?;
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
        invalid(location, &format!("is not {expected}"))
    })
}

/// Creates the error of an invalid listing.
fn invalid(location: &Location, what: &str) -> Error {
    let came = format!("the listing of the repository {what}").into();
    Error::new(location, Detail::Protocol { requested: None, came })
}

/// A repository of the Hub, or a directory in one, whose files are opened by path.
///
/// All files are opened at the commit of the first one, so that a concurrent push cannot mix versions.
#[derive(Debug)]
pub struct RemoteDirectory {
    client: Client,
    location: Location,
    files: Vec<RepositoryFile>,
    /// `location` at the commit of the first file that was opened.
    at_commit: OnceLock<Location>,
}

impl Client {
    /// Lists a repository of the Hub, or a directory in one, to open its files. Fails as
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
    /// Returns all files in it and its subdirectories, with paths relative to it, sorted by path.
    pub fn files(&self) -> &[RepositoryFile] {
        &self.files
    }

    /// Returns the last component of its path, or the name of the repository.
    pub fn name(&self) -> Option<&str> {
        let Place::Hub(place) = &self.location.0 else { return None };
        let path = place.path.as_deref().unwrap_or(&place.repository);
        path.rsplit('/').next()
    }

    /// Opens a file by its path relative to the directory.
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

/// Words in the names of files that accompany a model.
const AUXILIARY: [&str; 3] = ["mmproj", "mtp", "imatrix"];

/// A model of a repository: a GGUF file, or the shards of a set.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct RepositoryModel {
    /// The path of the file within the repository; for a set, of its first shard.
    pub path: String,
    /// The number of existing shards; 1 for a single file.
    pub shards: u32,
    /// The number of shards in the set; 1 for a single file.
    pub shard_count: u32,
    /// The total length of all existing files in bytes.
    pub bytes: u64,
    /// The file type in the name.
    pub file_type: Option<FileType>,
    /// Bits per parameter, if the number of parameters is known to be that of this model.
    pub bits_per_weight: Option<f64>,
}

impl Repository {
    /// Returns the GGUF models among the files, sorted by path, with all shards of a set as one model.
    ///
    /// The number of parameters from the Hub is that of one model. It is applied only if the names of all
    /// models with a file type are those of one model in several types, and if the resulting bits per
    /// weight are not below the number in the name of the type.
    pub fn models(&self) -> Vec<RepositoryModel> {
        let mut found: BTreeMap<String, RepositoryModel> = BTreeMap::new();
        for file in &self.files {
            let (directory, name) = split(&file.path);
            if !name.to_ascii_lowercase().ends_with(".gguf") {
                continue;
            }
            let (path, shard_count) = match ShardName::parse(name) {
                Some(shard) => (format!("{directory}{}", shard.sibling(1)), shard.count()),
                None => (file.path.clone(), 1),
            };
            let file_type = Name::parse(name).file_type;
            let model = found.entry(path).or_insert_with_key(|path| RepositoryModel {
                path: path.clone(),
                shards: 0,
                shard_count,
                bytes: 0,
                file_type,
                bits_per_weight: None,
            });
            model.shards = model.shards.saturating_add(1);
            model.bytes = model.bytes.saturating_add(file.bytes);
        }
        let mut models: Vec<_> = found.into_values().collect();
        if let Some(parameters) = self.parameters.filter(|&count| count > 0)
            && is_one_model(&models)
        {
            for model in &mut models {
                model.bits_per_weight = model.bits(parameters);
            }
        }
        models
    }
}

impl RepositoryModel {
    /// Returns the bits per weight for a number of parameters, or `None` for an incomplete model.
    fn bits(&self, parameters: u64) -> Option<f64> {
        let file_type = self.file_type?;
        let is_whole =
            self.shards == self.shard_count && Name::parse(split(&self.path).1).model.is_some();
        #[expect(clippy::cast_precision_loss, reason = "shown with two decimals")]
        let bits = self.bytes as f64 * 8.0 / parameters as f64;
        (is_whole && bits >= min_bits(file_type)).then_some(bits)
    }
}

/// Returns `true` if all models with a file type in their names have the same model name.
fn is_one_model(models: &[RepositoryModel]) -> bool {
    let mut names = models
        .iter()
        .filter(|model| model.file_type.is_some())
        .filter_map(|model| Name::parse(split(&model.path).1).model);
    let Some(first) = names.next() else { return true };
    names.all(|name| name == first)
}

/// The file type and model name in a file name.
struct Name {
    file_type: Option<FileType>,
    /// The name up to the size label, or up to the file type if there is no label, in lower case. `None`
    /// for files that accompany a model.
    model: Option<String>,
}

impl Name {
    fn parse(name: &str) -> Self {
        let stem = name.get(..name.len().saturating_sub(".gguf".len())).unwrap_or_default();
        let stem = ShardName::parse(name).map_or(stem, |shard| shard.prefix());
        let mut words = stem.split(['-', '_', '.']);
        let is_part = FileName::parse(name).is_some_and(|name| name.kind.is_some());
        let is_auxiliary = is_part
            || words
                .any(|word| AUXILIARY.iter().any(|auxiliary| word.eq_ignore_ascii_case(auxiliary)));
        let mut file_type = None;
        let mut before = stem;
        for (at, _) in stem.rmatch_indices(['-', '.']) {
            let word = before.get(at.saturating_add(1)..).unwrap_or_default();
            before = stem.get(..at).unwrap_or_default();
            file_type = word.parse::<FileType>().ok();
            if file_type.is_some() {
                break;
            }
        }
        if file_type.is_none() {
            // The name is only a type, or has no type.
            (file_type, before) = match before.parse::<FileType>() {
                Ok(found) => (Some(found), ""),
                Err(_) => (None, stem),
            };
        }
        let mut end = 0usize;
        for word in before.split('-') {
            end = end.saturating_add(word.len());
            if is_size(word) {
                before = before.get(..end).unwrap_or(before);
                break;
            }
            end = end.saturating_add(1);
        }
        Self { file_type, model: (!is_auxiliary).then(|| before.to_ascii_lowercase()) }
    }
}

/// Splits a path into the directory with its slash and the file name.
fn split(path: &str) -> (&str, &str) {
    path.split_at(path.rfind('/').map_or(0, |slash| slash.saturating_add(1)))
}

/// Returns `true` for a size label, such as `8x7B`, `0.6B` or `270m`.
fn is_size(word: &str) -> bool {
    let Some(number) = word.strip_suffix(|last: char| "KMBTQkmbtq".contains(last)) else {
        return false;
    };
    let (experts, number) = number.split_once('x').unwrap_or(("1", number));
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    is_digits(experts) && is_digits(whole) && is_digits(fraction)
}

/// Returns the number in the name of a file type, the minimum of its bits per weight.
fn min_bits(file_type: FileType) -> f64 {
    let name = file_type.name().unwrap_or_default();
    let digits = name.trim_start_matches(|first: char| !first.is_ascii_digit());
    let end = digits.find(|next: char| !next.is_ascii_digit()).unwrap_or(digits.len());
    digits.get(..end).and_then(|digits| digits.parse().ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn models(parameters: u64, files: &[(&str, u64)]) -> Vec<RepositoryModel> {
        let files = files.iter().map(|&(path, bytes)| RepositoryFile { path: path.into(), bytes });
        Repository { files: files.collect(), parameters: Some(parameters) }.models()
    }

    fn bits(parameters: u64, files: &[(&str, u64)]) -> Vec<Option<f64>> {
        models(parameters, files).iter().map(|model| model.bits_per_weight).collect()
    }

    #[test]
    fn a_set_is_one_model() {
        let found = models(
            8000,
            &[
                ("README.md", 10),
                ("big/m-bf16-00001-of-00002.gguf", 10_000),
                ("big/m-bf16-00002-of-00002.gguf", 6000),
                ("m-Q4_K_M.gguf", 5000),
                ("m.Q8_0-00002-of-00003.GGUF", 7),
                ("m.Q8_0-00002-of-00003.gguf", 8001),
            ],
        );
        let seen: Vec<_> = found
            .iter()
            .map(|model| (&*model.path, model.shards, model.shard_count, model.bytes))
            .collect();
        assert_eq!(
            seen,
            [
                ("big/m-bf16-00001-of-00002.gguf", 2, 2, 16_000),
                ("m-Q4_K_M.gguf", 1, 1, 5000),
                ("m.Q8_0-00001-of-00003.gguf", 1, 3, 8001),
                // Not the name of a shard, whose extension is in lower case.
                ("m.Q8_0-00002-of-00003.GGUF", 1, 1, 7),
            ]
        );
        assert_eq!(found[0].bits_per_weight, Some(16.0));
        assert_eq!(found[2].bits_per_weight, None);
        assert_eq!(found[1].file_type, Some(FileType::Q4_K_M));
    }

    #[test]
    fn bits_need_the_number_of_parameters_of_the_model() {
        let (small, large) = (("Qwen3-0.6B-Q8_0.gguf", 640), ("Qwen3-32B-Q8_0.gguf", 34_000));
        assert_eq!(bits(32_000, &[large]), [Some(8.5)]);
        assert_eq!(bits(32_000, &[small, large]), [None, None]);
        // Even if it is the only model: 0.16 bits per weight are impossible for Q8_0.
        assert_eq!(bits(32_000, &[small]), [None]);
        assert_eq!(
            bits(32_000, &[("Qwen3-32B-Q8_0.gguf", 34_000), ("Qwen3-32B-UD-IQ1_M.gguf", 8000)]),
            [Some(8.5), Some(2.0)]
        );
        assert_eq!(bits(8000, &[("a-Q8_0.gguf", 9000), ("b-Q8_0.gguf", 9000)]), [None, None]);
        assert_eq!(bits(0, &[large]), [None]);
    }

    #[test]
    fn auxiliary_files_are_recognized_by_whole_words() {
        let auxiliary = [
            ("mmproj-m-F16.gguf", 20_000),
            ("m.mmproj-Q8_0.gguf", 20_000),
            ("mtp-m-Q8_0.gguf", 20_000),
            ("m-imatrix-Q8_0.gguf", 20_000),
            ("m-7B-v1.0-F16-LoRA.gguf", 20_000),
        ];
        for file in auxiliary {
            assert_eq!(bits(8000, &[file]), [None], "{file:?}");
            let model = ("m-Q8_0.gguf", 9000);
            assert!(bits(8000, &[file, model]).contains(&Some(9.0)), "{file:?}");
        }
        assert_eq!(bits(8000, &[("smtpd-Q8_0.gguf", 9000)]), [Some(9.0)]);
    }

    #[test]
    fn names_are_parsed() {
        for (name, file_type, model) in [
            ("Qwen3-0.6B-Q8_0.gguf", Some(FileType::Q8_0), Some("qwen3-0.6b")),
            (
                "Mixtral-8x7B-Instruct-v0.1.Q4_K_M.gguf",
                Some(FileType::Q4_K_M),
                Some("mixtral-8x7b"),
            ),
            ("m-Q4_K_M-old.gguf", Some(FileType::Q4_K_M), Some("m")),
            ("Q8_0.gguf", Some(FileType::Q8_0), Some("")),
            ("m.gguf", None, Some("m")),
            (".gguf", None, Some("")),
            ("gemma-3-270m-F16.gguf", Some(FileType::F16), Some("gemma-3-270m")),
        ] {
            let found = Name::parse(name);
            assert_eq!((found.file_type, found.model.as_deref()), (file_type, model), "{name}");
        }
        for (file_type, bits) in
            [(FileType::Q4_K_M, 4.0), (FileType::BF16, 16.0), (FileType::IQ2_XXS, 2.0)]
        {
            assert_eq!(min_bits(file_type).total_cmp(&bits), std::cmp::Ordering::Equal);
        }
    }
}
