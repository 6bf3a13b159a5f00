//! Options of a client; the environment is not read.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use crate::s3::S3Options;
use crate::secret::Secret;
use crate::url::redacted;

/// How requests are made. The default is that of a program without any settings.
///
/// ```
/// use ggmill_remote::{Client, Options, Secret};
/// let options = Options::default()
///     .with_hub_endpoint("https://hub.example.com")
///     .with_hub_token(Some(Secret::new("hf_…")));
/// let client = Client::new(options)?;
/// # Ok::<(), ggmill_remote::Error>(())
/// ```
#[derive(Clone)]
#[non_exhaustive]
pub struct Options {
    /// The name that the program gives itself.
    pub user_agent: String,
    /// Where the Hub is.
    pub hub_endpoint: String,
    /// The access token for the Hub. It is sent to that endpoint and nowhere else, and never
    /// without encryption to another machine, nor to this one where a proxy is asked for it.
    pub hub_token: Option<Secret>,
    /// S3: where it is, and who asks.
    pub s3: S3Options,
    /// Proxies.
    pub proxies: Proxies,
    /// When and how often a request is made again.
    pub retries: Retries,
    /// How long one operation may go without progress: to connect, to answer, to send the next
    /// bytes.
    pub patience: Duration,
    /// Certificates of authorities, in PEM, instead of those that are built in.
    pub certificates: Option<Vec<u8>>,
    /// Where headers are kept; `None` keeps none.
    pub cache: Option<CacheOptions>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            user_agent: concat!("ggmill/", env!("CARGO_PKG_VERSION")).to_owned(),
            hub_endpoint: "https://huggingface.co".to_owned(),
            hub_token: None,
            s3: S3Options::default(),
            proxies: Proxies::default(),
            retries: Retries::default(),
            patience: Duration::from_secs(30),
            certificates: None,
            cache: None,
        }
    }
}

impl Options {
    /// With this name for the program.
    #[must_use]
    pub fn with_user_agent(mut self, name: impl Into<String>) -> Self {
        self.user_agent = name.into();
        self
    }

    /// With the Hub there.
    #[must_use]
    pub fn with_hub_endpoint(mut self, endpoint: impl Into<String>) -> Self {
        self.hub_endpoint = endpoint.into();
        self
    }

    /// With this access token for the Hub.
    #[must_use]
    pub fn with_hub_token(mut self, token: Option<Secret>) -> Self {
        self.hub_token = token.filter(|token| !token.reveal().is_empty());
        self
    }

    /// With these settings for S3.
    #[must_use]
    pub fn with_s3(mut self, s3: S3Options) -> Self {
        self.s3 = s3;
        self
    }

    /// With these proxies.
    #[must_use]
    pub fn with_proxies(mut self, proxies: Proxies) -> Self {
        self.proxies = proxies;
        self
    }

    /// With these retries.
    #[must_use]
    pub fn with_retries(mut self, retries: Retries) -> Self {
        self.retries = retries;
        self
    }

    /// With this patience.
    #[must_use]
    pub fn with_patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// With these certificates of authorities, in PEM.
    #[must_use]
    pub fn with_certificates(mut self, pem: Option<Vec<u8>>) -> Self {
        self.certificates = pem;
        self
    }

    /// With a cache of headers.
    #[must_use]
    pub fn with_cache(mut self, cache: Option<CacheOptions>) -> Self {
        self.cache = cache;
        self
    }
}

/// Proxies by the scheme of what is asked for, in the form of the variables `HTTP_PROXY`,
/// `HTTPS_PROXY` and `NO_PROXY`.
/// A proxy is `[SCHEME://][USER:PASSWORD@]HOST[:PORT]` with the scheme `http`, `https`, `socks4`,
/// `socks4a`, `socks5` or `socks5h`. The debug form has neither user name nor password.
#[derive(Clone, Default)]
#[non_exhaustive]
pub struct Proxies {
    /// For `http`.
    pub http: Option<String>,
    /// For `https`.
    pub https: Option<String>,
    /// Hosts that are asked directly, with commas between them.
    pub except: String,
}

impl Proxies {
    /// Proxies for `http` and `https`, and the hosts that are asked directly.
    pub fn new(http: Option<String>, https: Option<String>, except: impl Into<String>) -> Self {
        Self { http, https, except: except.into() }
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            user_agent,
            hub_endpoint,
            hub_token,
            s3,
            proxies,
            retries,
            patience,
            certificates,
            cache,
        } = self;
        f.debug_struct("Options")
            .field("user_agent", user_agent)
            .field("hub_endpoint", &redacted(hub_endpoint))
            .field("hub_token", hub_token)
            .field("s3", s3)
            .field("proxies", proxies)
            .field("retries", retries)
            .field("patience", patience)
            .field("certificates", &certificates.as_ref().map(Vec::len))
            .field("cache", cache)
            .finish()
    }
}

impl fmt::Debug for Proxies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Proxies")
            .field("http", &self.http.as_deref().map(redacted))
            .field("https", &self.https.as_deref().map(redacted))
            .field("except", &self.except)
            .finish()
    }
}

/// When a request is made again: after a failure that may pass, each time after a longer pause.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Retries {
    /// How often in all a request is made.
    pub attempts: u32,
    /// The pause after the first attempt; each further one is twice as long.
    pub first_pause: Duration,
    /// The longest pause, also where a server asks for a longer one.
    pub longest_pause: Duration,
}

impl Retries {
    /// So many attempts, with pauses between these.
    pub const fn new(attempts: u32, first_pause: Duration, longest_pause: Duration) -> Self {
        Self { attempts, first_pause, longest_pause }
    }
}

impl Default for Retries {
    fn default() -> Self {
        Self::new(5, Duration::from_millis(500), Duration::from_secs(20))
    }
}

/// Where headers are kept, and how much of them.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct CacheOptions {
    /// The directory, which is made where it is missing. Of the files in it, those that are named
    /// as the cache names its own count and may be removed: 40 hexadecimal digits and `.header`,
    /// and `ggmill-….tmp`.
    pub directory: PathBuf,
    /// Bytes of all these files, at most.
    pub max_bytes: u64,
}

impl CacheOptions {
    /// A directory, and how many bytes may be in it.
    pub fn new(directory: impl Into<PathBuf>, max_bytes: u64) -> Self {
        Self { directory: directory.into(), max_bytes }
    }
}
