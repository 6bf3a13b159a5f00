//! Models that are somewhere else: what the environment says of servers, and what to do about
//! their refusals.

mod environment;

use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use ggmill::OpenOptions;
use ggmill_remote::{Advice, Client, Error, Location};

use crate::outcome::Failure;

/// Whether headers are kept for the next time.
static CACHES: AtomicBool = AtomicBool::new(true);

/// Keeps no headers, and uses none that were kept.
pub(crate) fn without_cache() {
    CACHES.store(false, Ordering::Relaxed);
}

/// The place that an argument names, where that is not a path. A file of this name comes first.
fn location(path: &Path) -> Result<Option<Location>, Failure> {
    let Some(text) = path.to_str().filter(|text| text.contains(":/")) else { return Ok(None) };
    match Location::parse(text) {
        Ok(None) => Ok(None),
        _ if path.exists() => Ok(None),
        Ok(found) => Ok(found),
        Err(error) => Err(failure(&error)),
    }
}

/// Whether an argument names a place that is not a path.
pub(crate) fn is_remote(path: &Path) -> bool {
    !matches!(location(path), Ok(None))
}

/// An argument that is not a path, without its secrets.
pub(crate) fn shown(path: &Path) -> Option<String> {
    let text = path.to_str().filter(|text| text.contains(":/"))?;
    match Location::parse(text) {
        Ok(None) => None,
        _ if path.exists() => None,
        Ok(Some(location)) => Some(location.to_string()),
        Err(error) => Some(error.name().to_owned()),
    }
}

/// The name of the file that an argument names, where that is not a path.
pub(crate) fn file_name(path: &Path) -> Option<String> {
    location(path).ok()??.file_name().map(str::to_owned)
}

/// The client for a location: one for S3, one for all else.
fn client(location: &Location) -> Result<&'static Client, Failure> {
    static CLIENTS: [OnceLock<Client>; 2] = [const { OnceLock::new() }; 2];
    let is_s3 = location.is_s3();
    let client = &CLIENTS[usize::from(is_s3)];
    if let Some(client) = client.get() {
        return Ok(client);
    }
    let options = environment::options(CACHES.load(Ordering::Relaxed), is_s3)?;
    let made = Client::new(options).map_err(|error| failure(&error))?;
    Ok(client.get_or_init(|| made))
}

/// The options of the library to open this argument with: for an address, a client that knows what
/// the environment says.
pub(crate) fn options(path: &Path) -> Result<OpenOptions, Failure> {
    Ok(match location(path)? {
        None => OpenOptions::new(),
        Some(location) => OpenOptions::new().client(client(&location)?.clone()),
    })
}

/// The options of the library to open all of these arguments with.
pub(crate) fn options_for(paths: &[PathBuf]) -> Result<OpenOptions, Failure> {
    let mut options = OpenOptions::new();
    for path in paths {
        if let Some(location) = location(path)? {
            let client = client(&location)?.clone();
            let is_s3 = location.is_s3();
            options = if is_s3 { options.s3_client(client) } else { options.client(client) };
        }
    }
    Ok(options)
}

fn failure(error: &Error) -> Failure {
    Failure::new(error).with_hint(error.advice().and_then(advice))
}

pub(crate) fn advice(advice: &Advice) -> Option<String> {
    Some(match advice {
        Advice::HubToken => "the repository is private or gated, or does not exist; set HF_TOKEN \
                             to an access token (https://huggingface.co/settings/tokens)"
            .to_owned(),
        Advice::OtherHubToken => {
            "the access token was rejected: it has expired, or does not grant access to this \
             repository; set HF_TOKEN to a different one"
                .to_owned()
        }
        Advice::Gated { page } => {
            format!("the repository is gated: accept its conditions on {page}")
        }
        Advice::FileInRepository => "`ggmill ls hf://OWNER/NAME` lists its files".to_owned(),
        Advice::S3Credentials => {
            "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or a profile of the AWS CLI \
             (AWS_PROFILE), provide credentials"
                .to_owned()
        }
        Advice::OtherS3Credentials => "the credentials were rejected: they are wrong or have \
                                       expired, or do not grant access to this object"
            .to_owned(),
        Advice::S3Region { region } => {
            format!("the bucket is in the region {region}: set AWS_REGION to it")
        }
        Advice::Download => "download the file, and use the copy".to_owned(),
        Advice::Later { seconds } => format!("try again in {seconds} seconds"),
        Advice::Host => "check the host name; behind a proxy, set HTTPS_PROXY to the address of \
                         the proxy"
            .to_owned(),
        Advice::Certificates => "set SSL_CERT_FILE to a file with the certificates of additional \
                                 authorities, such as that of a proxy"
            .to_owned(),
        Advice::Again => {
            "the file was replaced while it was being read; run the command again".to_owned()
        }
        _ => return None,
    })
}
