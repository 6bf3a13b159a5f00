//! A remote file: contacting the server, reading the header, and reads by position.

use std::any::Any;
use std::fmt;
use std::io::Read;
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use ggmill_core::{Decoder, Limits, Progress, RawStr, ReadAt};

use crate::client::{Client, Fault, RequestHeaders};
use crate::error::{Detail, Error, Result};
use crate::location::Location;
use crate::prefetch::Windows;
use crate::response::{ContentRange, Response, Validator};
use crate::url::Url;

/// A file on a server, read by position.
///
/// Each read requests exactly its bytes, except within ranges announced by
/// [`prefetch`](ReadAt::prefetch), where one request serves several reads.
///
/// All bytes are from one version of the file: requests have the entity tag or modification time of the
/// first response, and a response that contradicts it is an error of kind
/// [`Changed`](crate::ErrorKind::Changed).
pub struct RemoteFile {
    target: Target,
    /// The bytes received with the header: all of a small file.
    received: Chunk,
    windows: Windows,
}

/// A range of bytes of a file.
#[derive(Default)]
pub(crate) struct Chunk {
    pub(crate) start: u64,
    pub(crate) bytes: Vec<u8>,
}

impl Chunk {
    /// Returns the available bytes from `offset` on, at most `max_len`.
    fn bytes_from(&self, offset: u64, max_len: usize) -> &[u8] {
        let start = offset.checked_sub(self.start).and_then(|start| usize::try_from(start).ok());
        let bytes = start.and_then(|start| self.bytes.get(start..)).unwrap_or_default();
        bytes.get(..max_len).unwrap_or(bytes)
    }
}

impl RemoteFile {
    pub(crate) fn new(target: Target, received: Chunk) -> Self {
        Self { target, received, windows: Windows::default() }
    }

    /// Fills `out` with the bytes from `offset` on. Like [`ReadAt::read_at`], but with this crate's error.
    pub fn read(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        let len = self.target.len();
        let end = offset.saturating_add(out.len() as u64);
        if end > len {
            return Err(Error::new(
                self.target.name(),
                Detail::Outside { start: offset, end, len },
            ));
        }
        let available = self.received.bytes_from(offset, out.len());
        let (copied, missing) = out.split_at_mut(available.len());
        copied.copy_from_slice(available);
        let offset = offset.saturating_add(copied.len() as u64);
        self.windows.read(offset, missing, &|offset, out| self.target.fetch(offset, out))
    }

    pub(crate) fn target(&self) -> &Target {
        &self.target
    }
}

impl ReadAt for RemoteFile {
    fn len(&self) -> u64 {
        self.target.len()
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> ggmill_core::Result<()> {
        self.read(offset, out).map_err(Into::into)
    }

    fn prefetch(&self, ranges: &[Range<u64>]) {
        self.windows.announce(ranges, self.target.len());
    }

    fn name(&self) -> Option<RawStr<'_>> {
        Some(RawStr::from(self.target.name()))
    }

    fn as_any(&self) -> Option<&dyn Any> {
        Some(self)
    }
}

impl fmt::Debug for RemoteFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { target, .. } = self;
        f.debug_struct("RemoteFile")
            .field("name", &target.name())
            .field("len", &target.len())
            .finish_non_exhaustive()
    }
}

/// Bytes of the first request for the header of a file.
pub(crate) const FIRST_REQUEST: u64 = 512 << 10;
/// Bytes of the first request for the header of a later shard, which has little more than tensor infos.
pub(crate) const FIRST_REQUEST_OF_SHARD: u64 = 64 << 10;
/// The factor by which each further request for a header is larger than the previous one.
const REQUEST_GROWTH: u64 = 4;
/// The maximum bytes of a request for a header.
const MAX_REQUEST: u64 = 8 << 20;

/// A file and the decoder that was fed its header.
pub(crate) struct HeaderRead {
    pub(crate) file: RemoteFile,
    pub(crate) decoder: Decoder,
    /// If true, the header is from the cache.
    pub(crate) was_cached: bool,
}

/// Reads the header of a file, with requests of increasing size. Fails if the file cannot be read; the
/// decoder in the result reports invalid content.
pub(crate) fn read_header(
    client: &Client,
    location: &Location,
    first: u64,
    cached: Option<&CacheEntry>,
) -> Result<HeaderRead> {
    let FirstResponse { target, bytes, mut stream, was_cached } =
        Target::contact(client, location, first, cached)?;
    let mut decoder = Decoder::new(Some(target.len()), &Limits::default());
    let mut piece = Chunk { start: 0, bytes };
    let mut step = first;
    while let Ok(Progress::Needs(end)) = decoder.feed(&piece.bytes) {
        let position = decoder.position();
        let rest = target.len().saturating_sub(position);
        if end > target.len() || rest == 0 {
            // The header is truncated, which the decoder reports.
            break;
        }
        step = step.saturating_mul(REQUEST_GROWTH).min(MAX_REQUEST);
        let wanted = usize::try_from(step.min(rest)).unwrap_or_default();
        piece = Chunk { start: position, bytes: vec![0; wanted] };
        match &mut stream {
            Some(stream) => read_stream(&target, stream, &mut piece)?,
            None => target.fetch(position, &mut piece.bytes)?,
        }
    }
    Ok(HeaderRead { file: RemoteFile::new(target, piece), decoder, was_cached })
}

/// Reads the next bytes from a server that sends the whole file.
fn read_stream(target: &Target, stream: &mut dyn Read, piece: &mut Chunk) -> Result<()> {
    let read = fill(stream, &mut piece.bytes);
    target.count_bytes(read);
    if read == piece.bytes.len() {
        return Ok(());
    }
    let at = piece.start.saturating_add(read as u64);
    let last = format!(
        "the connection was interrupted at byte {at}, and the server does not support ranges"
    );
    Err(Error::new(target.name(), Detail::Unavailable { attempts: 1, last: last.into() }))
}

/// Bytes that an attempt must receive to count as progress ([`Client::retry`]).
const MIN_PROGRESS: usize = 64 << 10;

/// A file that a server has responseed for: its URL, length and version.
#[derive(Debug)]
pub(crate) struct Target {
    client: Client,
    location: Location,
    name: String,
    /// The URL to request, at the commit that was found.
    url: Url,
    /// The URL after redirects. It is requested first; it can expire.
    redirected: Mutex<Option<Url>>,
    len: u64,
    validator: Validator,
    /// The URL that sent the validator.
    origin: Url,
    commit: Option<String>,
}

/// A cached header, with the version of its file.
#[derive(Clone, Debug)]
pub(crate) struct CacheEntry {
    pub(crate) etag: String,
    /// The host that sent the entity tag.
    pub(crate) host: String,
    pub(crate) len: u64,
    pub(crate) header: Vec<u8>,
}

/// The first response for a file.
pub(crate) struct FirstResponse {
    pub(crate) target: Target,
    pub(crate) bytes: Vec<u8>,
    /// The rest of the file, if the server sends the whole file.
    pub(crate) stream: Option<Box<dyn Read + Send + Sync>>,
    /// If true, the bytes are from the cache.
    pub(crate) was_cached: bool,
}

impl Target {
    /// Requests the first bytes. The response also has the length of the file.
    pub(crate) fn contact(
        client: &Client,
        location: &Location,
        first: u64,
        cached: Option<&CacheEntry>,
    ) -> Result<FirstResponse> {
        let fields = RequestHeaders {
            range: Some(0..first),
            if_none_match: cached.map(|entry| (entry.etag.as_str(), entry.host.as_str())),
            ..RequestHeaders::default()
        };
        client.retry(|_| {
            // The previous attempt can have found the region of the bucket.
            let url = client.address(location)?;
            let response = client.request(location, &url, &fields)?;
            first_response(client, location, &url, response, first, cached)
        })
    }

    /// Adds received bytes to the traffic of the client.
    pub(crate) fn count_bytes(&self, bytes: usize) {
        self.client.count_bytes(bytes);
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    /// Returns the commit of the file on the Hub.
    pub(crate) fn commit(&self) -> Option<&str> {
        self.commit.as_deref()
    }

    /// Returns the location at the commit that was found.
    pub(crate) fn location(&self) -> Location {
        self.commit
            .as_deref()
            .map_or_else(|| self.location.clone(), |commit| self.location.at_commit(commit))
    }

    /// Returns a cache entry for the header, if the server sent a strong entity tag.
    pub(crate) fn cache_entry(&self, header: &[u8]) -> Option<CacheEntry> {
        Some(CacheEntry {
            etag: self.validator.strong_etag()?.to_owned(),
            host: self.origin.host().to_owned(),
            len: self.len,
            header: header.to_vec(),
        })
    }

    /// Requests the bytes from `offset` on, which must be within the file, and fills `out`.
    pub(crate) fn fetch(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        let mut filled = 0;
        self.client.retry(|progress| {
            let before = filled;
            let result = self.attempt(offset, out, &mut filled);
            *progress = filled.saturating_sub(before) >= MIN_PROGRESS;
            result
        })
    }

    fn attempt(&self, offset: u64, out: &mut [u8], filled: &mut usize) -> Result<(), Fault> {
        let end = offset.saturating_add(out.len() as u64);
        while let Some(rest) = out.get_mut(*filled..).filter(|rest| !rest.is_empty()) {
            let requested = offset.saturating_add(*filled as u64)..end;
            let mut response = self.request(&requested)?;
            let sent = self.range_of(&response, &requested)?;
            let expected =
                usize::try_from(sent.end.saturating_sub(sent.start)).unwrap_or(usize::MAX);
            let rest = rest.get_mut(..expected).unwrap_or_default();
            let read = fill(&mut response.body, rest);
            self.client.count_bytes(read);
            *filled = filled.saturating_add(read);
            if read < expected {
                return Err(interrupted(&self.name, &requested, read));
            }
            // Reading to the end of the body lets the connection be reused.
            let _ = response.body.read(&mut [0]);
        }
        Ok(())
    }

    /// Requests a range at the redirected URL, or at the original URL if that is rejected, as redirected
    /// URLs expire.
    fn request(&self, range: &Range<u64>) -> Result<Response, Fault> {
        let fields = RequestHeaders {
            range: Some(range.clone()),
            if_match: Some((&self.origin, &self.validator)),
            if_none_match: None,
        };
        let redirected = self.lock().clone();
        if let Some(redirected) = redirected {
            match self.client.request(&self.location, &redirected, &fields) {
                Err(fault) if matches!(fault.error.status(), Some(400..=499)) => {
                    *self.lock() = None;
                }
                result => return result,
            }
        }
        let response = self.client.request(&self.location, &self.url, &fields)?;
        if response.url != self.url {
            *self.lock() = Some(response.url.clone());
        }
        Ok(response)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<Url>> {
        self.redirected.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the range of the response, which is the start of the requested range. Fails if the response
    /// is from another version of the file.
    fn range_of(&self, response: &Response, requested: &Range<u64>) -> Result<Range<u64>, Error> {
        let changed = |what, found: String, expected: String| {
            let (found, expected) = (found.into(), expected.into());
            Error::new(&self.name, Detail::Changed { what, found, expected })
        };
        if let Some((what, found, expected)) = self.validator.contradiction(&response.validator) {
            return Err(changed(what, found.to_owned(), expected.to_owned()));
        }
        match (response.status, &response.range) {
            (206, Some(Ok(ContentRange::Bytes { total: Some(total), .. })))
            | (416, Some(Ok(ContentRange::Unsatisfied { total })))
                if *total != self.len =>
            {
                Err(changed("length", total.to_string(), self.len.to_string()))
            }
            (206, Some(Ok(ContentRange::Bytes { start, end, .. })))
                if *start == requested.start
                    && *end <= requested.end
                    && response.encoding.is_none() =>
            {
                Ok(*start..*end)
            }
            (412, _) => {
                let tag = self.validator.etag.clone().or_else(|| self.validator.modified.clone());
                Err(changed("entity tag", "another".to_owned(), tag.unwrap_or_default()))
            }
            (200, _) => {
                Err(Error::new(&self.name, Detail::NoRanges { requested: requested.clone() }))
            }
            _ => Err(unexpected(&self.name, requested, response)),
        }
    }
}

/// Evaluates the first response for a file.
fn first_response(
    client: &Client,
    location: &Location,
    url: &Url,
    mut response: Response,
    first: u64,
    cached: Option<&CacheEntry>,
) -> Result<FirstResponse, Fault> {
    let requested = 0..first;
    let name = location.to_string();
    let mut was_cached = false;
    let (len, sent) = match (response.status, &response.range) {
        _ if response.encoding.is_some() => {
            return Err(unexpected(&name, &requested, &response).into());
        }
        (304, _) => match cached {
            Some(entry) => {
                was_cached = true;
                (entry.len, 0)
            }
            None => return Err(unexpected(&name, &requested, &response).into()),
        },
        (206, Some(Ok(ContentRange::Bytes { start: 0, end, total: Some(total) })))
            if *end <= first =>
        {
            (*total, *end)
        }
        (416, Some(Ok(ContentRange::Unsatisfied { total: 0 }))) => (0, 0),
        (200, _) => {
            let length = response.length.ok_or_else(|| {
                let came = "the response does not specify the length of the file".into();
                Error::new(&name, Detail::Protocol { requested: None, came })
                    .advise(Some(crate::Advice::Download))
            })?;
            (length, length.min(first))
        }
        _ => return Err(unexpected(&name, &requested, &response).into()),
    };
    // A server that sends the whole file sends more than was requested.
    let mut bytes = vec![0; usize::try_from(sent).unwrap_or_default()];
    let read = fill(&mut response.body, &mut bytes);
    client.count_bytes(read);
    if read < bytes.len() {
        return Err(interrupted(&name, &requested, read));
    }
    let mut stream = None;
    if response.status == 200 && sent < len {
        stream = Some(response.body);
    } else {
        // Reading to the end of the body lets the connection be reused.
        let _ = response.body.read(&mut [0]);
    }
    if let Some(entry) = cached.filter(|_| was_cached) {
        bytes.clone_from(&entry.header);
        response.validator.etag.get_or_insert_with(|| entry.etag.clone());
    }
    let commit = response.commit.clone();
    let begin = match &commit {
        Some(commit) => client.address(&location.at_commit(commit))?,
        None => url.clone(),
    };
    let target = Target {
        client: client.clone(),
        location: location.clone(),
        name,
        redirected: Mutex::new(Some(response.url.clone()).filter(|found| found != url)),
        url: begin,
        len,
        validator: response.validator,
        origin: response.url,
        commit,
    };
    Ok(FirstResponse { target, bytes, stream, was_cached })
}

/// Reads until `out` is full or the body ends. Returns the number of bytes.
fn fill(body: &mut dyn Read, out: &mut [u8]) -> usize {
    let mut filled = 0;
    while let Some(rest) = out.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        match body.read(rest) {
            Ok(0) => break,
            Ok(read) => filled = filled.saturating_add(read),
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            // Every error has the same remedy, another request.
            Err(_) => break,
        }
    }
    filled
}

fn interrupted(name: &str, requested: &Range<u64>, read: usize) -> Fault {
    let last = format!(
        "the connection was interrupted {read} bytes into bytes {} to {}",
        requested.start, requested.end
    );
    let detail = Detail::Unavailable { attempts: 1, last: last.into() };
    Fault { error: Error::new(name, detail), is_transient: true, wait: None }
}

/// Creates the error for a response that is not valid for the request.
fn unexpected(name: &str, requested: &Range<u64>, response: &Response) -> Error {
    let came = match (response.status, &response.range, &response.encoding) {
        (_, _, Some(encoding)) => format!("the response is compressed ({encoding})"),
        (206, None, _) => "the response is 206 without Content-Range".to_owned(),
        (206 | 416, Some(Err(text)), _) => {
            format!("the response is {} with Content-Range {text:?}", response.status)
        }
        (206, Some(Ok(ContentRange::Bytes { start, end, total })), _) => match total {
            Some(_) => format!("the response contains bytes {start} to {end}"),
            None => "the response does not specify the length of the file".to_owned(),
        },
        (status, ..) => format!("the response is {status}"),
    };
    Error::new(name, Detail::Protocol { requested: Some(requested.clone()), came: came.into() })
}
