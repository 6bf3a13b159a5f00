//! Models that are somewhere else: what the environment says of servers, and what to do about
//! their refusals.

mod environment;

use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use ggmill::OpenOptions;
use ggmill_core::{Model, ReadAt};
use ggmill_inspect::{FileKind, SNIFFED, sniff};
use ggmill_io::OpenFailure;
use ggmill_remote::{Advice, Client, Error, ErrorKind, Location};

use crate::content::hint_for_content;
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

/// Does something with a remote file; `None` where the argument is a path.
fn with<T>(
    path: &Path,
    work: impl FnOnce(&Client, &Location) -> Result<T, Failure>,
) -> Option<Result<T, Failure>> {
    match location(path) {
        Ok(None) => None,
        Ok(Some(location)) => Some(client(&location).and_then(|client| work(client, &location))),
        Err(failure) => Some(Err(failure)),
    }
}

/// Opens a model, one file of it where it is to be `alone`.
pub(crate) fn open(path: &Path, alone: bool) -> Option<Result<Model, Failure>> {
    with(path, |client, location| {
        let opened = if alone { client.open_alone(location) } else { client.open(location) };
        opened.map_err(|error| explained(client, location, &error))
    })
}

/// Opens what can be known of a broken file; what is not GGUF is told by its error and its first
/// bytes.
pub(crate) fn salvage<T>(
    path: &Path,
    not_gguf: impl FnOnce(&ggmill_core::Error, &[u8]) -> T,
) -> Option<Result<Result<Model, T>, Failure>> {
    with(path, |client, location| match client.salvage(location) {
        Ok(model) => Ok(Ok(model)),
        Err(error) => match error.format_error() {
            Some(format) => {
                let bytes = beginning(client, location).unwrap_or_default();
                Ok(Err(not_gguf(format, &bytes)))
            }
            None => Err(failure(&error)),
        },
    })
}

/// What keeps a file and those of its set from being opened as one model; `None` for a path.
pub(crate) fn open_failure(path: &Path) -> Option<Result<(), OpenFailure>> {
    let opened = with(path, |client, location| Ok(client.open(location).err()))?;
    let found = |error: Error| {
        let text = error.to_string();
        let last = error.name().rsplit('/').next().unwrap_or_default();
        let text = text
            .strip_prefix(error.name())
            .map_or_else(|| text.clone(), |rest| format!("{last}{rest}"));
        OpenFailure::new(text, matches!(error.kind(), ErrorKind::Format(_)))
    };
    Some(opened.ok().flatten().map(found).map_or(Ok(()), Err))
}

/// Opens any file.
pub(crate) fn open_bytes(path: &Path) -> Option<Result<Box<dyn ReadAt>, Failure>> {
    with(path, |client, location| {
        let file = client.open_file(location).map_err(|error| failure(&error))?;
        Ok(Box::new(file) as Box<dyn ReadAt>)
    })
}

/// The first bytes of a file, as many as tell what it is.
fn beginning(client: &Client, location: &Location) -> Option<Vec<u8>> {
    let file = client.open_file(location).ok()?;
    let mut bytes = vec![0; SNIFFED.min(usize::try_from(file.len()).unwrap_or(SNIFFED))];
    file.read(0, &mut bytes).ok()?;
    Some(bytes)
}

/// The failure of opening a file, with what the file is where it is none that was meant.
fn explained(client: &Client, location: &Location, error: &Error) -> Failure {
    let of_content = || {
        let format = error.format_error().filter(|_| error.kind() != ErrorKind::Shards)?;
        // The file may be another shard, of which less is known here.
        let is_named = error.name() == location.to_string();
        let bytes = is_named.then(|| beginning(client, location))??;
        if let Some(FileKind::LfsPointer { .. }) = sniff(&bytes, None) {
            return Some(
                "this is a Git LFS pointer, not the file itself; use the file's download URL, \
                 which often contains `/resolve/`"
                    .to_owned(),
            );
        }
        hint_for_content(format, &bytes, location.file_name())
    };
    let shards = (error.kind() == ErrorKind::Shards)
        .then(|| "--alone inspects one file by itself".to_owned());
    failure(error).with_hint(shards.or_else(of_content))
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
