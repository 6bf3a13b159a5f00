//! Requests and responses: redirects, credentials, and which errors are transient and can be retried.

use std::fmt;
use std::io::{self, Read as _};
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::sleep;
use std::time::{Duration, SystemTime};

use ureq::http::{HeaderMap, HeaderValue};
use ureq::tls::{PemItem, RootCerts, TlsConfig, parse_pem};

use crate::error::{Advice, Detail, Error, Result};
use crate::hub;
use crate::location::{Location, Place, S3Place};
use crate::options::{Options, Retries, Secret};
use crate::response::{Paced, Response, Validator, field};
use crate::s3::{self, S3Options};
use crate::url::{Url, redacted};

/// The maximum number of consecutive redirects.
const MAX_REDIRECTS: u32 = 10;
/// The maximum bytes that are read from the body of an error response.
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
/// // Requests only the bytes of this tensor.
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
    /// The regions of buckets that are not in the configured region.
    regions: Mutex<Vec<(String, String)>>,
    requests: AtomicU64,
    bytes: AtomicU64,
    /// Credentials, which no message may contain, even if a server sends them back.
    secrets: Vec<String>,
}

/// The number of requests and bytes of a client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Traffic {
    /// Requests, redirects and failed attempts included.
    pub requests: u64,
    /// Bytes of files and listings.
    pub bytes: u64,
}

/// The range and the conditions of a request.
#[derive(Clone, Debug, Default)]
pub(crate) struct RequestHeaders<'a> {
    pub(crate) range: Option<Range<u64>>,
    /// The expected version of the content, and the URL that sent it. Other servers do not know it.
    pub(crate) if_match: Option<(&'a Url, &'a Validator)>,
    /// The entity tag of cached content, and the host that sent it.
    pub(crate) if_none_match: Option<(&'a str, &'a str)>,
}

/// A failed attempt.
pub(crate) struct Fault {
    pub(crate) error: Error,
    /// If true, the error is transient: the request can be retried.
    pub(crate) is_transient: bool,
    /// The pause that the server requests.
    pub(crate) wait: Option<Duration>,
}

impl From<Error> for Fault {
    fn from(error: Error) -> Self {
        Self { error, is_transient: false, wait: None }
    }
}

impl Client {
    /// Creates a client. Fails if the address of the Hub, a proxy or a certificate is not valid.
    pub fn new(options: Options) -> Result<Self> {
        let hub = options.hub_endpoint.trim_end_matches('/');
        let hub = Url::parse(hub)
            .map_err(|expected| Error::new(redacted(hub), Detail::Address { expected }))?;
        let agents = Agents::new(&options)?;
        let (requests, bytes) = (AtomicU64::new(0), AtomicU64::new(0));
        let regions = Mutex::default();
        let secrets = secrets(&options);
        let inner = Inner { options, agents, hub, regions, requests, bytes, secrets };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// Returns the number of requests and bytes so far.
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

    /// Returns the URL of a file.
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

    /// Sends a request, following redirects from `url`, without retries. Credentials are sent only to
    /// the hosts for which they are intended.
    pub(crate) fn request(
        &self,
        location: &Location,
        url: &Url,
        fields: &RequestHeaders<'_>,
    ) -> Result<Response, Fault> {
        let mut url = url.clone();
        let mut commit = None;
        for _ in 0..=MAX_REDIRECTS {
            let response = self.send(location, &url, fields)?;
            let headers = response.headers();
            commit = field(headers, "x-repo-commit").map(str::to_owned).or(commit);
            let status = response.status().as_u16();
            match (status, field(headers, "location")) {
                // A redirect to another region: retry at the bucket's address there, with a signature.
                (300..=399, _) if self.names_unknown_region(location, headers) => {
                    return Err(self.rejected(location, &url, response));
                }
                (301 | 302 | 303 | 307 | 308, Some(target)) => {
                    let next = url.join(target).map_err(|_| {
                        let came = format!("the redirect leads to {:?}", redacted(target)).into();
                        Error::new(location, Detail::Protocol { requested: None, came })
                    })?;
                    if url.is_secure() && !next.is_secure() {
                        let why = format!("the redirect to {next} is not encrypted");
                        return Err(Error::new(location, Detail::Insecure(why.into())).into());
                    }
                    url = next;
                }
                (200 | 206 | 304 | 412 | 416, _) => {
                    let patience = self.inner.options.patience;
                    return Ok(Response::new(response, url, commit, patience));
                }
                _ => return Err(self.rejected(location, &url, response)),
            }
        }
        let came = format!("more than {MAX_REDIRECTS} redirects in a row").into();
        Err(Error::new(location, Detail::Protocol { requested: None, came }).into())
    }

    fn send(
        &self,
        location: &Location,
        url: &Url,
        fields: &RequestHeaders<'_>,
    ) -> Result<ureq::http::Response<ureq::Body>, Fault> {
        let agent = self.inner.agents.for_scheme(url.is_secure());
        let mut request = agent.get(url.to_text());
        if let Some(Range { start, end }) = &fields.range {
            request = request.header("range", format!("bytes={start}-{}", end.saturating_sub(1)));
        }
        if let Some((_, validator)) = fields.if_match.filter(|(from, _)| from.same_origin(url)) {
            // A weak entity tag never matches `If-Match`.
            match (validator.strong_etag(), &validator.modified) {
                (Some(etag), _) => request = request.header("if-match", etag),
                (None, Some(time)) => request = request.header("if-unmodified-since", time),
                _ => {}
            }
        }
        if let Some((etag, _)) = fields.if_none_match.filter(|(_, host)| *host == url.host()) {
            request = request.header("if-none-match", etag);
        }
        if let Some(token) = self.hub_token(url) {
            request = request.header("authorization", format!("Bearer {}", token.reveal()));
        }
        for (name, value) in self.signature(location, url) {
            request = request.header(name, value);
        }
        self.inner.requests.fetch_add(1, Ordering::Relaxed);
        let mut response = request.call().map_err(|error| self.failed(location, url, error))?;
        for value in response.headers_mut().values_mut() {
            if let Some(scrubbed) = self.scrubbed(value.as_bytes()) {
                // Replacing letters by asterisks keeps the value valid.
                *value = HeaderValue::from_bytes(&scrubbed)
                    .unwrap_or_else(|_| HeaderValue::from_static(""));
            }
        }
        Ok(response)
    }

    /// Returns received bytes with every secret replaced by asterisks; `None` if they contain none. A
    /// server that repeats a credential must not get it into a message, a log or a cache.
    pub(crate) fn scrubbed(&self, received: &[u8]) -> Option<Vec<u8>> {
        let mut out: Option<Vec<u8>> = None;
        for secret in &self.inner.secrets {
            let secret = secret.as_bytes();
            let mut at = 0usize;
            while let Some(window) = received.get(at..at.saturating_add(secret.len())) {
                if window.eq_ignore_ascii_case(secret) {
                    let out = out.get_or_insert_with(|| received.to_vec());
                    if let Some(found) = out.get_mut(at..at.saturating_add(secret.len())) {
                        found.fill(b'*');
                    }
                    at = at.saturating_add(secret.len());
                } else {
                    at = at.saturating_add(1);
                }
            }
        }
        out
    }

    /// Returns the access token if the URL is on the Hub and the connection is private.
    fn hub_token(&self, url: &Url) -> Option<&Secret> {
        let is_hub = url.same_origin(&self.inner.hub) && self.inner.agents.is_private(url);
        self.inner.options.hub_token.as_ref().filter(|_| is_hub)
    }

    /// Returns the header fields that sign a request, if the URL is that of an S3 object.
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

    /// Returns the options for a bucket, with the region that a response has named.
    fn s3(&self, place: &S3Place) -> S3Options {
        let options = self.inner.options.s3.clone();
        let regions = self.inner.regions.lock().unwrap_or_else(PoisonError::into_inner);
        match regions.iter().find(|(bucket, _)| *bucket == place.bucket) {
            Some((_, region)) => options.with_region(Some(region.clone())),
            None => options,
        }
    }

    /// Returns `true` if a response names a region of the bucket that has not been tried.
    fn names_unknown_region(&self, location: &Location, headers: &HeaderMap) -> bool {
        let Place::S3(place) = &location.0 else { return false };
        let regions = self.inner.regions.lock().unwrap_or_else(PoisonError::into_inner);
        let is_known = regions.iter().any(|(bucket, _)| *bucket == place.bucket);
        drop(regions);
        let named = field(headers, "x-amz-bucket-region");
        !is_known && named.is_some_and(|region| region != self.s3(place).region())
    }

    /// Stores the region of a bucket. Returns `false` if a region is already stored.
    fn store_region(&self, place: &S3Place, region: &str) -> bool {
        let mut regions = self.inner.regions.lock().unwrap_or_else(PoisonError::into_inner);
        let is_new = !regions.iter().any(|(bucket, _)| *bucket == place.bucket);
        if is_new {
            regions.push((place.bucket.clone(), region.to_owned()));
        }
        is_new
    }

    /// Converts an error without a response.
    fn failed(&self, location: &Location, url: &Url, error: ureq::Error) -> Fault {
        use ureq::Error as E;
        let host = url.host();
        // With a proxy, the connection is to the proxy.
        let proxy = self.inner.agents.proxy_of(url);
        let unavailable = |last: String| {
            Error::new(location, Detail::Unavailable { attempts: 1, last: last.into() })
        };
        let transient =
            |last: String| Fault { error: unavailable(last), is_transient: true, wait: None };
        match error {
            E::Timeout(_) => {
                let seconds = self.inner.options.patience.as_secs_f32();
                transient(format!("{host} did not respond within {seconds} seconds"))
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
                    transient(format!("{host} closed the connection without a response"))
                }
                io::ErrorKind::ConnectionRefused => {
                    let who = proxy.map(|proxy| format!("the proxy {proxy}"));
                    let who = who.as_deref().unwrap_or(host);
                    unavailable(format!("{who} refused the connection")).into()
                }
                io::ErrorKind::InvalidData => insecure(location, host, &io).into(),
                // The standard library has no error kind for a failed lookup.
                _ if io.to_string().contains("lookup") => {
                    unavailable(format!("{host}: {io}")).advise(Some(Advice::Host)).into()
                }
                _ => unavailable(format!("{host} cannot be reached: {io}")).into(),
            },
            E::ConnectProxyFailed(why) => {
                unavailable(format!("the proxy refused the connection: {why}")).into()
            }
            // The text of the error has the URL, which can be secret.
            E::BadUri(_) => unavailable(format!("the URL of {host} is not valid")).into(),
            E::Protocol(_) | E::Http(_) | E::LargeResponseHeader(..) => {
                let text = format!("{host} sent an invalid HTTP response: {error}");
                let scrubbed = self.scrubbed(text.as_bytes());
                let came = scrubbed.and_then(|bytes| String::from_utf8(bytes).ok()).unwrap_or(text);
                let came = came.into();
                Error::new(location, Detail::Protocol { requested: None, came }).into()
            }
            other => unavailable(format!("{host} cannot be reached: {other}")).into(),
        }
    }

    /// Converts an error response.
    fn rejected(
        &self,
        location: &Location,
        url: &Url,
        response: ureq::http::Response<ureq::Body>,
    ) -> Fault {
        let status = response.status().as_u16();
        let headers = response.headers().clone();
        let mut body = Vec::new();
        // The reason is optional.
        let reader = response.into_body().into_reader();
        let mut reader = Paced::new(reader, self.inner.options.patience).take(MAX_REASON);
        let _ = reader.read_to_end(&mut body);
        let body = self.scrubbed(&body).unwrap_or(body);
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
        let mut is_transient = false;
        if let Place::S3(place) = &location.0 {
            said = s3::reason(&body);
            let options = self.s3(place);
            let region = field(&headers, "x-amz-bucket-region");
            advice = s3::advice(status, region, options.region(), options.credentials.is_some());
            if let Some(Advice::S3Region { region }) = &advice {
                is_transient = self.store_region(place, region);
            }
        }
        if let Some(said) = &mut said {
            let end = said.char_indices().nth(300).map_or(said.len(), |(at, _)| at);
            said.truncate(end);
        }
        let error = Error::new(location, Detail::Status { status, said }).advise(advice);
        Fault { error, is_transient, wait: Some(Duration::ZERO) }
    }

    /// Retries `attempt` until it succeeds, fails with an error that is not transient, or has failed too
    /// often. An attempt that sets its argument to true has made progress, which resets the count.
    pub(crate) fn retry<T>(
        &self,
        mut attempt: impl FnMut(&mut bool) -> Result<T, Fault>,
    ) -> Result<T> {
        let Retries { attempts, first_pause, longest_pause } = self.inner.options.retries;
        let (mut failures, mut pause) = (0u32, first_pause);
        loop {
            let mut progress = false;
            let fault = match attempt(&mut progress) {
                Ok(done) => return Ok(done),
                Err(fault) => fault,
            };
            if progress {
                (failures, pause) = (0, first_pause);
            }
            failures = failures.saturating_add(1);
            if !fault.is_transient || failures >= attempts {
                return Err(fault.error.after_attempts(failures));
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

/// Converts a response that asks to retry later. If that is after more than the longest pause, the error
/// is not transient, and the caller decides.
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
        is_transient: wait.is_none_or(|wait| wait <= retries.longest_pause),
        wait,
    }
}

/// The shortest text that is treated as a secret: shorter ones occur by chance.
const MIN_SECRET: usize = 6;

/// Returns the texts of the options that no message may contain.
fn secrets(options: &Options) -> Vec<String> {
    let credentials = options.s3.credentials.as_ref();
    let of_s3 = credentials.into_iter().flat_map(|credentials| {
        [Some(&credentials.secret), credentials.session.as_ref()].into_iter().flatten()
    });
    let secrets = options.hub_token.iter().chain(of_s3).map(|secret| secret.reveal().trim());
    secrets.filter(|secret| secret.len() >= MIN_SECRET).map(str::to_owned).collect()
}

/// Idle connections per host that are kept open.
const MAX_IDLE: usize = 16;

/// An agent for each scheme, as each can have a different proxy.
#[derive(Debug)]
pub(crate) struct Agents {
    plain: ureq::Agent,
    secure: ureq::Agent,
}

impl Agents {
    pub(crate) fn new(options: &Options) -> Result<Self> {
        let tls = tls(options)?;
        let agent = |proxy: Option<&str>| {
            let proxy = proxy.filter(|text| !text.trim().is_empty());
            let proxy = proxy.map(|text| with_exceptions(text, &options.proxies.except));
            let config = ureq::Agent::config_builder()
                .http_status_as_error(false)
                // `Client::request` follows redirects and decides which credentials to send.
                .max_redirects(0)
                .proxy(proxy.transpose()?)
                .tls_config(tls.clone())
                .user_agent(options.user_agent.as_str())
                // Ranges are those of uncompressed bytes.
                .accept_encoding("identity")
                .max_idle_connections_per_host(MAX_IDLE)
                .max_idle_age(Duration::from_secs(15))
                .timeout_connect(Some(options.patience))
                .timeout_send_request(Some(options.patience))
                .timeout_recv_response(Some(options.patience))
                .timeout_per_read(Some(options.patience))
                .build();
            Ok(ureq::Agent::new_with_config(config))
        };
        Ok(Self {
            plain: agent(options.proxies.http.as_deref())?,
            secure: agent(options.proxies.https.as_deref())?,
        })
    }

    /// Returns the agent for a scheme.
    pub(crate) fn for_scheme(&self, is_secure: bool) -> &ureq::Agent {
        if is_secure { &self.secure } else { &self.plain }
    }

    /// Returns host and port of the proxy for a URL, if any.
    pub(crate) fn proxy_of(&self, url: &Url) -> Option<String> {
        let proxy = self.for_scheme(url.is_secure()).config().proxy()?;
        // An invalid URL is not requested.
        let uri = url.to_text().parse::<ureq::http::Uri>().ok()?;
        (!proxy.is_no_proxy(&uri)).then(|| format!("{}:{}", proxy.host(), proxy.port()))
    }

    /// Returns `true` if a request to this URL cannot be read on the network: it is encrypted, or does not
    /// leave this machine.
    pub(crate) fn is_private(&self, url: &Url) -> bool {
        url.is_secure() || (url.is_loopback() && self.proxy_of(url).is_none())
    }
}

fn tls(options: &Options) -> Result<TlsConfig> {
    let Some(pem) = &options.certificates else { return Ok(TlsConfig::builder().build()) };
    let certificates: Vec<_> = parse_pem(pem)
        .filter_map(|item| match item {
            Ok(PemItem::Certificate(certificate)) => Some(certificate),
            _ => None,
        })
        .collect();
    if certificates.is_empty() {
        let why = "the file of certificate authorities contains no PEM certificate";
        return Err(Error::new("certificates", Detail::Insecure(why.into())));
    }
    let roots = RootCerts::Specific(Arc::new(certificates));
    Ok(TlsConfig::builder().root_certs(roots).build())
}

/// Parses a proxy, which is not used for the hosts in `except` and their subdomains.
fn with_exceptions(text: &str, except: &str) -> Result<ureq::Proxy> {
    // The text can contain a password, so it is not shown.
    let invalid = |_| Error::new("proxy", Detail::Address { expected: "http://HOST:PORT" });
    let parsed = ureq::Proxy::new(text.trim()).map_err(invalid)?;
    let mut builder =
        ureq::Proxy::builder(parsed.protocol()).host(parsed.host()).port(parsed.port());
    if let Some(name) = parsed.username() {
        builder = builder.username(name);
    }
    if let Some(password) = parsed.password() {
        builder = builder.password(password);
    }
    for host in except.split(',').map(str::trim).filter(|host| !host.is_empty()) {
        let bare = host.trim_start_matches("*.").trim_start_matches('.');
        builder = if bare == "*" {
            builder.no_proxy("*")
        } else {
            builder.no_proxy(bare).no_proxy(&format!(".{bare}"))
        };
    }
    builder.build().map_err(invalid)
}
