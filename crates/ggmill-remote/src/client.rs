//! One request and its answer: redirects, credentials, what may pass and what will not.

use std::fmt;
use std::io::{self, Read as _};
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::sleep;
use std::time::{Duration, SystemTime};

use ureq::http::HeaderMap;

use crate::agent::Agents;
use crate::answer::{Answer, Validator, field};
use crate::error::{Advice, Detail, Error, Result};
use crate::hub;
use crate::location::{Location, Place, S3Place};
use crate::options::{Options, Retries};
use crate::s3::{self, S3Options};
use crate::secret::Secret;
use crate::url::{Url, redacted};

/// Redirects that are followed in a row.
const MAX_REDIRECTS: u32 = 10;
/// Bytes of the body of a refusal that are read for its reason.
const MAX_REASON: u64 = 8 << 10;

/// An HTTP client for files: connections, credentials and settings. Clones share these.
///
/// ```no_run
/// use ggmill_remote::{Client, Location, Options};
/// let client = Client::new(Options::default())?;
/// let location = Location::parse("hf://ggml-org/models/tinyllamas/stories260K.gguf")?.ok_or("remote")?;
/// let model = client.open(&location)?;
/// for tensor in model.tensors() {
///     println!("{:<40} {:<8} {}", tensor.name(), tensor.ggml_type(), tensor.shape());
/// }
/// // Only these bytes are sent.
/// let bytes = model.read_tensor(&model.tensor("output_norm.weight")?)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Client {
    inner: Arc<Inner>,
}

struct Inner {
    options: Options,
    agents: Agents,
    hub: Url,
    /// The regions of buckets that are not where they were looked for.
    regions: Mutex<Vec<(String, String)>>,
    requests: AtomicU64,
    bytes: AtomicU64,
}

/// The number of requests and bytes of a client so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Traffic {
    /// Requests, redirects and failed attempts included.
    pub requests: u64,
    /// Bytes of files and listings.
    pub bytes: u64,
}

/// What is asked for.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ask<'a> {
    pub(crate) range: Option<Range<u64>>,
    /// Of the content that is meant, with the place that it came from: no other server knows it.
    pub(crate) only: Option<(&'a Url, &'a Validator)>,
    /// The entity tag of content that need not be sent again, and the host it came from.
    pub(crate) unless: Option<(&'a str, &'a str)>,
}

/// A failed attempt.
pub(crate) struct Fault {
    pub(crate) error: Error,
    /// Whether the same request may succeed later.
    pub(crate) passes: bool,
    /// How long the server asks to wait.
    pub(crate) wait: Option<Duration>,
}

impl From<Error> for Fault {
    fn from(error: Error) -> Self {
        Self { error, passes: false, wait: None }
    }
}

impl Client {
    /// A client with these settings. Fails when the address of the Hub, a proxy or a certificate
    /// makes no sense.
    pub fn new(options: Options) -> Result<Self> {
        let hub = options.hub_endpoint.trim_end_matches('/');
        let hub = Url::parse(hub)
            .map_err(|expected| Error::new(redacted(hub), Detail::Address { expected }))?;
        let agents = Agents::new(&options)?;
        let (requests, bytes) = (AtomicU64::new(0), AtomicU64::new(0));
        let regions = Mutex::default();
        Ok(Self { inner: Arc::new(Inner { options, agents, hub, regions, requests, bytes }) })
    }

    /// The number of requests and bytes so far.
    pub fn traffic(&self) -> Traffic {
        Traffic {
            requests: self.inner.requests.load(Ordering::Relaxed),
            bytes: self.inner.bytes.load(Ordering::Relaxed),
        }
    }

    pub(crate) fn options(&self) -> &Options {
        &self.inner.options
    }

    pub(crate) fn hub(&self) -> &Url {
        &self.inner.hub
    }

    pub(crate) fn count_bytes(&self, bytes: usize) {
        self.inner.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// The address of a file.
    pub(crate) fn address(&self, location: &Location) -> Result<Url> {
        match &location.0 {
            Place::Web(url) => Ok(url.clone()),
            Place::Hub(place) => hub::address(self.hub(), place)
                .ok_or_else(|| Error::new(location, Detail::Repository)),
            Place::S3(place) => self
                .s3(place)
                .address(place)
                .map_err(|expected| Error::new(location, Detail::Address { expected })),
        }
    }

    /// Asks once, following redirects from `url`. Credentials go to the hosts that they are for
    /// and to no other.
    pub(crate) fn ask(
        &self,
        location: &Location,
        url: &Url,
        ask: &Ask<'_>,
    ) -> Result<Answer, Fault> {
        let mut url = url.clone();
        let mut commit = None;
        for _ in 0..=MAX_REDIRECTS {
            let response = self.send(location, &url, ask)?;
            let headers = response.headers();
            commit = field(headers, "x-repo-commit").map(str::to_owned).or(commit);
            let status = response.status().as_u16();
            match (status, field(headers, "location")) {
                // The address that it leads to is not signed for: the bucket's own is.
                (300..=399, _) if self.is_elsewhere(location, headers) => {
                    return Err(self.refused(location, &url, response));
                }
                (301 | 302 | 303 | 307 | 308, Some(target)) => {
                    let next = url.join(target).map_err(|_| {
                        let came = format!("the redirect leads to {:?}", redacted(target)).into();
                        Error::new(location, Detail::Protocol { asked: None, came })
                    })?;
                    if url.is_secure() && !next.is_secure() {
                        let why = format!("the redirect to {next} is not encrypted");
                        return Err(Error::new(location, Detail::Insecure(why.into())).into());
                    }
                    url = next;
                }
                (200 | 206 | 304 | 412 | 416, _) => return Ok(Answer::new(response, url, commit)),
                _ => return Err(self.refused(location, &url, response)),
            }
        }
        let came = format!("more than {MAX_REDIRECTS} redirects in a row").into();
        Err(Error::new(location, Detail::Protocol { asked: None, came }).into())
    }

    fn send(
        &self,
        location: &Location,
        url: &Url,
        ask: &Ask<'_>,
    ) -> Result<ureq::http::Response<ureq::Body>, Fault> {
        let agent = self.inner.agents.for_scheme(url.is_secure());
        let mut request = agent.get(url.to_text());
        if let Some(Range { start, end }) = &ask.range {
            request = request.header("range", format!("bytes={start}-{}", end.saturating_sub(1)));
        }
        if let Some((_, validator)) = ask.only.filter(|(from, _)| from.same_origin(url)) {
            // A weak tag never matches, by the rules.
            match (validator.strong_etag(), &validator.modified) {
                (Some(etag), _) => request = request.header("if-match", etag),
                (None, Some(time)) => request = request.header("if-unmodified-since", time),
                _ => {}
            }
        }
        if let Some((etag, _)) = ask.unless.filter(|(_, host)| *host == url.host()) {
            request = request.header("if-none-match", etag);
        }
        if let Some(token) = self.hub_token(url) {
            request = request.header("authorization", format!("Bearer {}", token.reveal()));
        }
        for (name, value) in self.signature(location, url) {
            request = request.header(name, value);
        }
        self.inner.requests.fetch_add(1, Ordering::Relaxed);
        request.call().map_err(|error| self.failed(location, url, error))
    }

    /// The token for the Hub, where the address is one of it and the way there is private.
    fn hub_token(&self, url: &Url) -> Option<&Secret> {
        let is_hub = url.same_origin(&self.inner.hub) && self.inner.agents.is_private(url);
        self.inner.options.hub_token.as_ref().filter(|_| is_hub)
    }

    /// The fields that sign a request for an object in S3, where the address is that of one.
    fn signature(&self, location: &Location, url: &Url) -> Vec<(&'static str, String)> {
        let Place::S3(place) = &location.0 else { return Vec::new() };
        let options = self.s3(place);
        match (&options.credentials, options.address(place)) {
            (Some(credentials), Ok(address)) if address.same_origin(url) => {
                s3::sign(credentials, options.region(), url, &[], SystemTime::now())
            }
            _ => Vec::new(),
        }
    }

    /// The settings for a bucket, in the region that was found for it.
    fn s3(&self, place: &S3Place) -> S3Options {
        let options = self.inner.options.s3.clone();
        let regions = self.inner.regions.lock().unwrap_or_else(PoisonError::into_inner);
        match regions.iter().find(|(bucket, _)| *bucket == place.bucket) {
            Some((_, region)) => options.with_region(Some(region.clone())),
            None => options,
        }
    }

    /// Whether an answer names a region of the bucket in which it was not looked for yet.
    fn is_elsewhere(&self, location: &Location, headers: &HeaderMap) -> bool {
        let Place::S3(place) = &location.0 else { return false };
        let regions = self.inner.regions.lock().unwrap_or_else(PoisonError::into_inner);
        let is_known = regions.iter().any(|(bucket, _)| *bucket == place.bucket);
        drop(regions);
        let named = field(headers, "x-amz-bucket-region");
        !is_known && named.is_some_and(|region| region != self.s3(place).region())
    }

    /// Remembers the region of a bucket; whether that is news.
    fn is_news(&self, place: &S3Place, region: &str) -> bool {
        let mut regions = self.inner.regions.lock().unwrap_or_else(PoisonError::into_inner);
        let is_news = !regions.iter().any(|(bucket, _)| *bucket == place.bucket);
        if is_news {
            regions.push((place.bucket.clone(), region.to_owned()));
        }
        is_news
    }

    /// An attempt that had no answer.
    fn failed(&self, location: &Location, url: &Url, error: ureq::Error) -> Fault {
        use ureq::Error as E;
        let host = url.host();
        // With a proxy in between, what is connected to is that.
        let proxy = self.inner.agents.proxy_of(url);
        let unavailable = |last: String| {
            Error::new(location, Detail::Unavailable { attempts: 1, last: last.into() })
        };
        let passing = |last: String| Fault { error: unavailable(last), passes: true, wait: None };
        match error {
            E::Timeout(_) => {
                let seconds = self.inner.options.patience.as_secs_f32();
                passing(format!("{host} did not respond within {seconds} seconds"))
            }
            E::HostNotFound => {
                let or_proxy = proxy.map(|proxy| format!(", or no proxy {proxy}"));
                unavailable(format!("there is no host {host}{}", or_proxy.unwrap_or_default()))
                    .advise(Some(Advice::Host))
                    .into()
            }
            E::Rustls(_) | E::Tls(_) | E::TlsRequired => insecure(location, host, &error).into(),
            E::Io(io) => match io.kind() {
                io::ErrorKind::ConnectionReset
                | io::ErrorKind::ConnectionAborted
                | io::ErrorKind::BrokenPipe
                | io::ErrorKind::UnexpectedEof
                | io::ErrorKind::TimedOut
                | io::ErrorKind::Interrupted
                | io::ErrorKind::WouldBlock => {
                    passing(format!("{host} closed the connection without a response"))
                }
                io::ErrorKind::ConnectionRefused => {
                    let who = proxy.map(|proxy| format!("the proxy {proxy}"));
                    let who = who.as_deref().unwrap_or(host);
                    unavailable(format!("{who} refused the connection")).into()
                }
                io::ErrorKind::InvalidData => insecure(location, host, &io).into(),
                // The standard library has no kind for it.
                _ if io.to_string().contains("lookup") => {
                    unavailable(format!("{host}: {io}")).advise(Some(Advice::Host)).into()
                }
                _ => unavailable(format!("{host} cannot be reached: {io}")).into(),
            },
            E::ConnectProxyFailed(why) => {
                unavailable(format!("the proxy refused the connection: {why}")).into()
            }
            // Its text is the address.
            E::BadUri(_) => unavailable(format!("the URL of {host} is not valid")).into(),
            E::Protocol(_) | E::Http(_) | E::LargeResponseHeader(..) => {
                let came = format!("{host} sent an invalid HTTP response: {error}").into();
                Error::new(location, Detail::Protocol { asked: None, came }).into()
            }
            other => unavailable(format!("{host} cannot be reached: {other}")).into(),
        }
    }

    /// An answer that is a refusal.
    fn refused(
        &self,
        location: &Location,
        url: &Url,
        response: ureq::http::Response<ureq::Body>,
    ) -> Fault {
        let status = response.status().as_u16();
        let headers = response.headers().clone();
        let mut body = Vec::new();
        // A reason that cannot be read is none.
        let _ = response.into_body().into_reader().take(MAX_REASON).read_to_end(&mut body);
        if matches!(status, 408 | 425 | 429 | 500 | 502..=504 | 520..=524) {
            return busy(location, url, status, &headers, self.inner.options.retries);
        }
        let mut said = field(&headers, "x-error-message").map(str::to_owned);
        let mut advice = None;
        if let Place::Hub(place) = &location.0
            && url.same_origin(&self.inner.hub)
        {
            let code = field(&headers, "x-error-code");
            let has_token = self.hub_token(url).is_some();
            advice = hub::advice(status, code, has_token, &self.inner.hub, place);
        }
        let mut passes = false;
        if let Place::S3(place) = &location.0 {
            said = s3::reason(&body);
            let options = self.s3(place);
            let region = field(&headers, "x-amz-bucket-region");
            advice = s3::advice(status, region, options.region(), options.credentials.is_some());
            if let Some(Advice::S3Region { region }) = &advice {
                passes = self.is_news(place, region);
            }
        }
        if let Some(said) = &mut said {
            let end = said.char_indices().nth(300).map_or(said.len(), |(at, _)| at);
            said.truncate(end);
        }
        let error = Error::new(location, Detail::Status { status, said }).advise(advice);
        Fault { error, passes, wait: Some(Duration::ZERO) }
    }

    /// Does `attempt` until it succeeds, or fails in a way that does not pass, or too often. The
    /// attempt says whether it came further than the one before.
    pub(crate) fn persist<T>(
        &self,
        mut attempt: impl FnMut(&mut bool) -> Result<T, Fault>,
    ) -> Result<T> {
        let Retries { attempts, first_pause, longest_pause } = self.inner.options.retries;
        let (mut made, mut pause) = (0u32, first_pause);
        loop {
            let mut progress = false;
            let fault = match attempt(&mut progress) {
                Ok(done) => return Ok(done),
                Err(fault) => fault,
            };
            if progress {
                (made, pause) = (0, first_pause);
            }
            made = made.saturating_add(1);
            if !fault.passes || made >= attempts {
                return Err(fault.error.after(made));
            }
            sleep(fault.wait.unwrap_or(pause).min(longest_pause));
            pause = pause.saturating_mul(2);
        }
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("options", &self.inner.options).finish_non_exhaustive()
    }
}

fn insecure(location: &Location, host: &str, why: &dyn fmt::Display) -> Error {
    let text = format!("the connection to {host} is not secure: {why}");
    let is_certificate = text.contains("ertificate");
    Error::new(location, Detail::Insecure(text.into()))
        .advise(is_certificate.then_some(Advice::Certificates))
}

/// An answer that says to ask later. Where that is much later, asking again is left to the caller.
fn busy(
    location: &Location,
    url: &Url,
    status: u16,
    headers: &HeaderMap,
    retries: Retries,
) -> Fault {
    let seconds = field(headers, "retry-after").and_then(|text| text.parse::<u64>().ok());
    let what = match status {
        408 => "waited too long for the request",
        429 => "received too many requests",
        503 => "is not available",
        _ => "failed",
    };
    let asks = match seconds {
        Some(seconds) => format!(" and asks to wait {seconds} seconds"),
        None => String::new(),
    };
    let last = format!("the response is {status}: {} {what}{asks}", url.host()).into();
    let wait = seconds.map(Duration::from_secs);
    Fault {
        error: Error::new(location, Detail::Unavailable { attempts: 1, last })
            .advise(seconds.map(|seconds| Advice::Later { seconds })),
        passes: wait.is_none_or(|wait| wait <= retries.longest_pause),
        wait,
    }
}
