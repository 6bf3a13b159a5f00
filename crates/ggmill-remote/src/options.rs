//! Options of a client, and secrets in them. The library reads no environment variables.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use crate::s3::S3Options;
use crate::url::redacted;

/// Options of a [`Client`](crate::Client).
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
    /// The user agent.
    pub user_agent: String,
    /// The URL of the Hub.
    pub hub_endpoint: String,
    /// The access token for the Hub. It is sent only to that endpoint, and only if the connection is
    /// encrypted, or goes to this machine without a proxy.
    pub hub_token: Option<Secret>,
    /// Credentials, region and endpoint of S3.
    pub s3: S3Options,
    /// Proxies.
    pub proxies: Proxies,
    /// The number and pauses of retries.
    pub retries: Retries,
    /// The timeout of each step: to connect, to respond, to send the next bytes.
    pub patience: Duration,
    /// Certificates of authorities in PEM, which replace the built-in ones.
    pub certificates: Option<Vec<u8>>,
    /// The cache of headers; `None` disables it.
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
    /// Sets the user agent.
    #[must_use]
    pub fn with_user_agent(mut self, name: impl Into<String>) -> Self {
        self.user_agent = name.into();
        self
    }

    /// Sets the URL of the Hub.
    #[must_use]
    pub fn with_hub_endpoint(mut self, endpoint: impl Into<String>) -> Self {
        self.hub_endpoint = endpoint.into();
        self
    }

    /// Sets the access token for the Hub. An empty token is ignored.
    #[must_use]
    pub fn with_hub_token(mut self, token: Option<Secret>) -> Self {
        self.hub_token = token.filter(|token| !token.reveal().is_empty());
        self
    }

    /// Sets the options for S3.
    #[must_use]
    pub fn with_s3(mut self, s3: S3Options) -> Self {
        self.s3 = s3;
        self
    }

    /// Sets the proxies.
    #[must_use]
    pub fn with_proxies(mut self, proxies: Proxies) -> Self {
        self.proxies = proxies;
        self
    }

    /// Sets the retries.
    #[must_use]
    pub fn with_retries(mut self, retries: Retries) -> Self {
        self.retries = retries;
        self
    }

    /// Sets the timeout of each step.
    #[must_use]
    pub fn with_patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// Sets the certificates of authorities in PEM.
    #[must_use]
    pub fn with_certificates(mut self, pem: Option<Vec<u8>>) -> Self {
        self.certificates = pem;
        self
    }

    /// Sets the cache of headers.
    #[must_use]
    pub fn with_cache(mut self, cache: Option<CacheOptions>) -> Self {
        self.cache = cache;
        self
    }
}

/// Proxies by the scheme of the URL, in the form of the variables `HTTP_PROXY`, `HTTPS_PROXY` and
/// `NO_PROXY`.
///
/// A proxy is `[SCHEME://][USER:PASSWORD@]HOST[:PORT]` with the scheme `http`, `https`, `socks4`,
/// `socks4a`, `socks5` or `socks5h`. The debug output has neither user name nor password.
#[derive(Clone, Default)]
#[non_exhaustive]
pub struct Proxies {
    /// The proxy for `http`.
    pub http: Option<String>,
    /// The proxy for `https`.
    pub https: Option<String>,
    /// Hosts that are contacted without a proxy, separated by commas.
    pub except: String,
}

impl Proxies {
    /// Creates proxies for `http` and `https`, with a list of hosts that are contacted without one.
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

/// The retries after transient errors, with increasing pauses.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Retries {
    /// The maximum number of attempts, the first included.
    pub attempts: u32,
    /// The pause after the first attempt. Each further pause is twice as long.
    pub first_pause: Duration,
    /// The longest pause, even if a server requests a longer one.
    pub longest_pause: Duration,
}

impl Retries {
    /// Creates retries with a maximum number of attempts and the first and longest pause.
    pub const fn new(attempts: u32, first_pause: Duration, longest_pause: Duration) -> Self {
        Self { attempts, first_pause, longest_pause }
    }
}

impl Default for Retries {
    fn default() -> Self {
        Self::new(5, Duration::from_millis(500), Duration::from_secs(20))
    }
}

/// The directory and size of the cache of headers.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct CacheOptions {
    /// The directory, which is created if it is missing. Only files with the names of cache files are
    /// counted and removed: 40 hexadecimal digits and `.header`, and `ggmill-….tmp`.
    pub directory: PathBuf,
    /// The maximum total bytes of these files.
    pub max_bytes: u64,
}

impl CacheOptions {
    /// Creates options from a directory and the maximum bytes of its cache files.
    pub fn new(directory: impl Into<PathBuf>, max_bytes: u64) -> Self {
        Self { directory: directory.into(), max_bytes }
    }
}

/// Text that debug output does not show, such as a token or a key.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Creates a secret from text, without surrounding white space.
    pub fn new(text: &str) -> Self {
        Self(text.trim().to_owned())
    }

    pub(crate) fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}
