//! S3 and compatible services: the addresses of objects, credentials, and the meaning of refusals.

mod sign;

use std::fmt;

use crate::error::Advice;
use crate::location::S3Place;
use crate::options::Secret;
use crate::url::{Url, encode_path, redacted};

pub(crate) use sign::sign;

/// The default region.
const DEFAULT_REGION: &str = "us-east-1";

/// Credentials, region and endpoint of S3.
#[derive(Clone, Default)]
#[non_exhaustive]
pub struct S3Options {
    /// The credentials; `None` for public objects.
    pub credentials: Option<S3Credentials>,
    /// The region; `us-east-1` by default.
    pub region: Option<String>,
    /// The URL of a compatible service that is not Amazon's.
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
    /// Sets the credentials.
    #[must_use]
    pub fn with_credentials(mut self, credentials: Option<S3Credentials>) -> Self {
        self.credentials = credentials;
        self
    }

    /// Sets the region.
    #[must_use]
    pub fn with_region(mut self, region: Option<String>) -> Self {
        self.region = region;
        self
    }

    /// Sets the URL of a compatible service.
    #[must_use]
    pub fn with_endpoint(mut self, endpoint: Option<String>) -> Self {
        self.endpoint = endpoint;
        self
    }

    /// Returns the region for which requests are signed.
    pub(crate) fn region(&self) -> &str {
        self.region.as_deref().unwrap_or(DEFAULT_REGION)
    }

    /// Returns the URL of an object. The error says what was expected.
    pub(crate) fn address(&self, place: &S3Place) -> Result<Url, &'static str> {
        let key = encode_path(&place.key);
        if let Some(endpoint) = &self.endpoint {
            let endpoint = Url::parse(endpoint)?;
            let base = endpoint.path().trim_end_matches('/');
            let path = format!("{base}/{}/{key}", place.bucket);
            return Ok(endpoint.with_path(path, None));
        }
        let region = self.region();
        // The wildcard certificate does not match a host with dots in the bucket name.
        let text = if place.bucket.contains('.') {
            format!("https://s3.{region}.amazonaws.com/{}/{key}", place.bucket)
        } else {
            format!("https://{}.s3.{region}.amazonaws.com/{key}", place.bucket)
        };
        Url::parse(&text)
    }
}

/// Returns advice about an error response that names a `region` for a request signed for `ours`.
pub(crate) fn advice(
    status: u16,
    region: Option<&str>,
    ours: &str,
    has_credentials: bool,
) -> Option<Advice> {
    if let Some(region) =
        region.filter(|region| *region != ours && matches!(status, 300..=399 | 400 | 403))
    {
        return Some(Advice::S3Region { region: region.to_owned() });
    }
    match (status, has_credentials) {
        (401 | 403, false) => Some(Advice::S3Credentials),
        (400 | 401 | 403, true) => Some(Advice::OtherS3Credentials),
        _ => None,
    }
}

/// Returns the reason in the XML of an error response: `Code: Message`.
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

/// Credentials for S3.
///
/// ```
/// use ggmill_remote::{S3Credentials, Secret};
/// let credentials = S3Credentials::new("AKIA…", Secret::new("wJalr…"), None);
/// assert!(!format!("{credentials:?}").contains("wJalr"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct S3Credentials {
    /// The ID of the access key.
    pub key_id: String,
    /// The secret key.
    pub secret: Secret,
    /// The session token of temporary credentials.
    pub session: Option<Secret>,
}

impl S3Credentials {
    /// Creates credentials from the ID of an access key, its secret, and a session token.
    pub fn new(key_id: impl Into<String>, secret: Secret, session: Option<Secret>) -> Self {
        Self { key_id: key_id.into(), secret, session }
    }
}

/// A profile in the files `config` and `credentials` of the AWS command line.
///
/// ```
/// use ggmill_remote::Profile;
/// let config = "[profile work]\nregion = eu-west-1\ncredential_process = get-keys --for s3\n";
/// let credentials = "[default]\naws_access_key_id=A\naws_secret_access_key=B\n";
/// let work = Profile::find("work", config, credentials).ok_or("a profile")?;
/// assert_eq!(work.region.as_deref(), Some("eu-west-1"));
/// assert_eq!(work.credential_process.as_deref(), Some("get-keys --for s3"));
/// let default = Profile::find("default", config, credentials).ok_or("a profile")?;
/// assert_eq!(default.credentials.ok_or("keys")?.key_id, "A");
/// # Ok::<(), &str>(())
/// ```
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Profile {
    /// The access key in the profile.
    pub credentials: Option<S3Credentials>,
    /// The command that prints credentials as JSON.
    pub credential_process: Option<String>,
    /// The region.
    pub region: Option<String>,
    /// The URL of a compatible service that is not Amazon's.
    pub endpoint: Option<String>,
}

impl Profile {
    /// Finds a profile by name in the texts of both files. Returns `None` if neither has it.
    pub fn find(name: &str, config: &str, credentials: &str) -> Option<Self> {
        // In `config`, every profile except the default has the prefix `profile`.
        let long = format!("profile {name}");
        let in_config = |section: &str| section == long || (name == "default" && section == name);
        let settings: Vec<(&str, &str)> = entries(credentials, &|section| section == name)
            .chain(entries(config, &in_config))
            .collect();
        if settings.is_empty() {
            return None;
        }
        let value = |name: &str| {
            let found = settings.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
            found.map(|(_, value)| (*value).to_owned()).filter(|value| !value.is_empty())
        };
        let credentials =
            value("aws_access_key_id").zip(value("aws_secret_access_key")).map(|(key, secret)| {
                let session = value("aws_session_token").map(|token| Secret::new(&token));
                S3Credentials::new(key, Secret::new(&secret), session)
            });
        Some(Self {
            credentials,
            credential_process: value("credential_process"),
            region: value("region"),
            endpoint: value("endpoint_url"),
        })
    }
}

impl S3Credentials {
    /// Parses the output of a `credential_process`, a JSON object of version 1. Returns `None` if it is
    /// not valid.
    pub fn from_process(output: &[u8]) -> Option<Self> {
        let value: serde_json::Value = serde_json::from_slice(output).ok()?;
        let text = |name: &str| value.get(name)?.as_str().filter(|text| !text.is_empty());
        if value.get("Version").and_then(serde_json::Value::as_u64) != Some(1) {
            return None;
        }
        let session = text("SessionToken").map(Secret::new);
        Some(Self::new(text("AccessKeyId")?, Secret::new(text("SecretAccessKey")?), session))
    }
}

/// Returns the names and values of the sections for which `wanted` is true. Indented lines are nested
/// settings, which are skipped.
fn entries<'a>(
    text: &'a str,
    wanted: &dyn Fn(&str) -> bool,
) -> impl Iterator<Item = (&'a str, &'a str)> + use<'a> {
    let mut found = Vec::new();
    let mut is_wanted = false;
    for line in text.lines() {
        if let Some(section) = line.trim().strip_prefix('[') {
            let section = section.split(']').next().unwrap_or_default();
            let words: Vec<&str> = section.split_whitespace().collect();
            is_wanted = wanted(&words.join(" "));
        } else if is_wanted
            && !line.starts_with([' ', '\t', '#', ';'])
            && let Some((name, value)) = line.split_once('=')
        {
            found.push((name.trim(), value.trim()));
        }
    }
    found.into_iter()
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
    fn the_reason_of_an_error_is_found() {
        let body = b"<?xml?><Error><Code>AccessDenied</Code><Message>No.</Message></Error>";
        assert_eq!(reason(body).as_deref(), Some("AccessDenied: No."));
        assert_eq!(reason(b"<html>"), None);
    }

    #[test]
    fn sections_are_distinguished() {
        let config = "# [profile a]\n[default]\nregion=r0\n[ profile  a ]\nregion = r1\ns3 =\n  region = no\n  endpoint_url = no\n[a]\nregion = not this\n";
        let credentials = "[a]\r\naws_access_key_id = K\r\naws_secret_access_key = S=1\r\naws_session_token = T\r\n";
        let a = Profile::find("a", config, credentials).unwrap();
        assert_eq!((a.region.as_deref(), a.endpoint), (Some("r1"), None));
        let keys = a.credentials.unwrap();
        assert_eq!((keys.key_id.as_str(), keys.secret.reveal()), ("K", "S=1"));
        assert_eq!(keys.session.unwrap().reveal(), "T");
        assert_eq!(Profile::find("default", config, "").unwrap().region.as_deref(), Some("r0"));
        assert!(Profile::find("b", config, credentials).is_none());
    }

    #[test]
    fn the_output_of_a_credential_process_is_parsed() {
        let good = br#"{"Version":1,"AccessKeyId":"K","SecretAccessKey":"S","SessionToken":"T"}"#;
        assert_eq!(S3Credentials::from_process(good).unwrap().key_id, "K");
        for bad in [
            &b""[..],
            b"{}",
            br#"{"Version":2,"AccessKeyId":"K","SecretAccessKey":"S"}"#,
            br#"{"Version":1,"AccessKeyId":"K"}"#,
        ] {
            assert!(S3Credentials::from_process(bad).is_none());
        }
    }
}
