//! The HTTP client underneath, set up: nothing else in this crate names its settings.

use std::sync::Arc;
use std::time::Duration;

use ureq::tls::{PemItem, RootCerts, TlsConfig, parse_pem};

use crate::error::{Detail, Error, Result};
use crate::options::Options;
use crate::url::Url;

/// Connections to one host that are kept for the next request.
const IDLE: usize = 16;

/// An agent for each scheme, as each may have a proxy of its own.
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
                // Followed by hand: what may be sent to the next host is decided there.
                .max_redirects(0)
                .proxy(proxy.transpose()?)
                .tls_config(tls.clone())
                .user_agent(options.user_agent.as_str())
                // Ranges of compressed bytes would be of no use.
                .accept_encoding("identity")
                .max_idle_connections_per_host(IDLE)
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

    /// The agent for an address of this kind.
    pub(crate) fn for_scheme(&self, is_secure: bool) -> &ureq::Agent {
        if is_secure { &self.secure } else { &self.plain }
    }

    /// The host and port of the proxy that is asked for this address, where one is.
    pub(crate) fn proxy_of(&self, url: &Url) -> Option<String> {
        let proxy = self.for_scheme(url.is_secure()).config().proxy()?;
        // An address that cannot be sent is asked for nowhere.
        let uri = url.to_text().parse::<ureq::http::Uri>().ok()?;
        (!proxy.is_no_proxy(&uri)).then(|| format!("{}:{}", proxy.host(), proxy.port()))
    }

    /// Whether what is sent to this address cannot be read on the way: it is encrypted, or does not
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

/// The proxy, which is not used for these hosts and those below them.
fn with_exceptions(text: &str, except: &str) -> Result<ureq::Proxy> {
    // The text may hold a password, so it is not shown.
    let refused = |_| Error::new("proxy", Detail::Address { expected: "http://HOST:PORT" });
    let parsed = ureq::Proxy::new(text.trim()).map_err(refused)?;
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
    builder.build().map_err(refused)
}
