//! S3 and what speaks its language: where objects are, who asks, and what refusals mean.

mod credentials;
mod profiles;
mod sign;

use std::fmt;

use crate::error::Advice;
use crate::location::S3Place;
use crate::url::{Url, encode_path, redacted};

pub use credentials::S3Credentials;
pub use profiles::Profile;
pub(crate) use sign::sign;

/// The region that is meant where none is named.
const REGION: &str = "us-east-1";

/// Where S3 is, and who asks.
#[derive(Clone, Default)]
#[non_exhaustive]
pub struct S3Options {
    /// `None` asks for objects that everybody may read.
    pub credentials: Option<S3Credentials>,
    /// The region; `us-east-1` where there is none.
    pub region: Option<String>,
    /// The address of a service that is not Amazon's.
    pub endpoint: Option<String>,
}

impl fmt::Debug for S3Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("S3Options")
            .field("credentials", &self.credentials)
            .field("region", &self.region)
            .field("endpoint", &self.endpoint.as_deref().map(redacted))
            .finish()
    }
}

impl S3Options {
    /// With these credentials.
    #[must_use]
    pub fn with_credentials(mut self, credentials: Option<S3Credentials>) -> Self {
        self.credentials = credentials;
        self
    }

    /// With this region.
    #[must_use]
    pub fn with_region(mut self, region: Option<String>) -> Self {
        self.region = region;
        self
    }

    /// With the service at this address.
    #[must_use]
    pub fn with_endpoint(mut self, endpoint: Option<String>) -> Self {
        self.endpoint = endpoint;
        self
    }

    /// The region that requests are signed for.
    pub(crate) fn region(&self) -> &str {
        self.region.as_deref().unwrap_or(REGION)
    }

    /// The address of an object; the error is what was expected.
    pub(crate) fn address(&self, place: &S3Place) -> Result<Url, &'static str> {
        let key = encode_path(&place.key);
        if let Some(endpoint) = &self.endpoint {
            let endpoint = Url::parse(endpoint)?;
            let base = endpoint.path().trim_end_matches('/');
            let path = format!("{base}/{}/{key}", place.bucket);
            return Ok(endpoint.with_path(path, None));
        }
        let region = self.region();
        // A name with dots would not fit the certificate.
        let text = if place.bucket.contains('.') {
            format!("https://s3.{region}.amazonaws.com/{}/{key}", place.bucket)
        } else {
            format!("https://{}.s3.{region}.amazonaws.com/{key}", place.bucket)
        };
        Url::parse(&text)
    }
}

/// What to do about a refusal, whose body is this.
pub(crate) fn advice(status: u16, region: Option<&str>, ours: &str, named: bool) -> Option<Advice> {
    if let Some(region) =
        region.filter(|region| *region != ours && matches!(status, 300..=399 | 400 | 403))
    {
        return Some(Advice::S3Region { region: region.to_owned() });
    }
    match (status, named) {
        (401 | 403, false) => Some(Advice::S3Credentials),
        (400 | 401 | 403, true) => Some(Advice::OtherS3Credentials),
        _ => None,
    }
}

/// The reason in the XML of a refusal: `Code: Message`.
pub(crate) fn reason(body: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(body).ok()?;
    let element = |name: &str| {
        let rest = text.split_once(&format!("<{name}>"))?.1;
        Some(rest.split_once(&format!("</{name}>"))?.0)
    };
    match (element("Code"), element("Message")) {
        (Some(code), Some(message)) => Some(format!("{code}: {message}")),
        (Some(only), None) | (None, Some(only)) => Some(only.to_owned()),
        (None, None) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_have_addresses() {
        let place =
            |bucket: &str| S3Place { bucket: bucket.to_owned(), key: "a b/c.gguf".to_owned() };
        let plain = S3Options::default();
        let address =
            |options: &S3Options, bucket| options.address(&place(bucket)).unwrap().to_text();
        assert_eq!(address(&plain, "b"), "https://b.s3.us-east-1.amazonaws.com/a%20b/c.gguf");
        let west = plain.clone().with_region(Some("eu-west-1".to_owned()));
        assert_eq!(address(&west, "b.c"), "https://s3.eu-west-1.amazonaws.com/b.c/a%20b/c.gguf");
        let own = plain.with_endpoint(Some("http://localhost:9000/s3/".to_owned()));
        assert_eq!(address(&own, "b"), "http://localhost:9000/s3/b/a%20b/c.gguf");
    }

    #[test]
    fn a_refusal_says_why() {
        let body = b"<?xml?><Error><Code>AccessDenied</Code><Message>No.</Message></Error>";
        assert_eq!(reason(body).as_deref(), Some("AccessDenied: No."));
        assert_eq!(reason(b"<html>"), None);
    }
}
