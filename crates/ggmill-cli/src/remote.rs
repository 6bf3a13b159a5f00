//! Remote models: clients with the settings of the environment (variables and files that other
//! programs use too), and hints for errors of servers.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::{env, fs, io};

use ggmill::OpenOptions;
use ggmill_core::RawStr;
use ggmill_remote::{
    Advice, CacheOptions, Client, Error, Location, Options, Profile, Proxies, S3Credentials,
    S3Options, Secret,
};

use crate::outcome::Failure;

/// If `false`, the cache of headers is neither read nor written.
static CACHES: AtomicBool = AtomicBool::new(true);

/// Turns off the cache of headers.
pub(crate) fn without_cache() {
    CACHES.store(false, Ordering::Relaxed);
}

/// Parses an argument as an address; `None` for a path. If a file with this name exists, it is a path.
fn location(path: &Path) -> Result<Option<Location>, Failure> {
    let Some(text) = path.to_str().filter(|text| text.contains(":/")) else { return Ok(None) };
    match Location::parse(text) {
        Ok(None) => Ok(None),
        _ if path.exists() => Ok(None),
        Ok(found) => Ok(found),
        Err(error) => Err(failure(&error)),
    }
}

/// Returns `true` if an argument is an address, valid or not.
pub(crate) fn is_remote(path: &Path) -> bool {
    !matches!(location(path), Ok(None))
}

/// Returns an address without its secrets; `None` for a path.
pub(crate) fn shown(path: &Path) -> Option<String> {
    let text = path.to_str().filter(|text| text.contains(":/"))?;
    match Location::parse(text) {
        Ok(None) => None,
        _ if path.exists() => None,
        Ok(Some(location)) => Some(location.to_string()),
        Err(error) => Some(error.name().to_owned()),
    }
}

/// Returns the file name in an address; `None` for a path.
pub(crate) fn file_name(path: &Path) -> Option<String> {
    location(path).ok()??.file_name().map(str::to_owned)
}

/// Returns the client for an address: one for S3, another for everything else, because reading the S3
/// settings can run a program.
fn client(location: &Location) -> Result<&'static Client, Failure> {
    static CLIENTS: [OnceLock<Client>; 2] = [const { OnceLock::new() }; 2];
    let is_s3 = location.is_s3();
    let client = &CLIENTS[usize::from(is_s3)];
    if let Some(client) = client.get() {
        return Ok(client);
    }
    let options = client_options(CACHES.load(Ordering::Relaxed), is_s3)?;
    let new = Client::new(options).map_err(|error| failure(&error))?;
    Ok(client.get_or_init(|| new))
}

/// Returns the options to open an argument with: for an address, a client with the settings of the
/// environment.
pub(crate) fn options(path: &Path) -> Result<OpenOptions, Failure> {
    Ok(match location(path)? {
        None => OpenOptions::new(),
        Some(location) => OpenOptions::new().client(client(&location)?.clone()),
    })
}

/// Returns the options to open any of these arguments with.
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

/// Returns the hint for an error of a server, with the variables that help.
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

/// The maximum size of the cache of headers, in bytes.
const CACHE: u64 = 512 << 20;

/// Returns the settings for requests. Those for S3 are read only if `is_s3`: they can run a program.
fn client_options(caches: bool, is_s3: bool) -> Result<Options, Failure> {
    let certificates = named_file("SSL_CERT_FILE", |path| fs::read(path))?;
    let token = if is_s3 { None } else { hub_token()? };
    let mut options = Options::default()
        .with_hub_token(token)
        .with_proxies(proxies())
        .with_certificates(certificates)
        .with_cache(
            cache_directory().filter(|_| caches).map(|path| CacheOptions::new(path, CACHE)),
        );
    if let Some(endpoint) = variable("HF_ENDPOINT") {
        options = options.with_hub_endpoint(endpoint);
    }
    Ok(if is_s3 { options.with_s3(s3()?) } else { options })
}

/// Returns the settings of the AWS CLI: variables first, then the profile.
fn s3() -> Result<S3Options, Failure> {
    let file = |name: &str, default: &str| {
        let usual = || fs::read_to_string(env::home_dir()?.join(".aws").join(default)).ok();
        let named = named_file(name, |path| fs::read_to_string(path))?;
        Ok::<_, Failure>(named.or_else(usual).unwrap_or_default())
    };
    let config = file("AWS_CONFIG_FILE", "config")?;
    let credentials = file("AWS_SHARED_CREDENTIALS_FILE", "credentials")?;
    let name = variable("AWS_PROFILE");
    let profile = Profile::find(name.as_deref().unwrap_or("default"), &config, &credentials);
    let profile = match (profile, name) {
        (None, Some(name)) => {
            let message = format!("AWS_PROFILE: no profile {name:?} in the files of the AWS CLI");
            return Err(Failure::new(message));
        }
        (profile, _) => profile.unwrap_or_default(),
    };
    let keys = variable("AWS_ACCESS_KEY_ID").zip(variable("AWS_SECRET_ACCESS_KEY"));
    let keys = keys.map(|(key, secret)| {
        let session = variable("AWS_SESSION_TOKEN").map(|token| Secret::new(&token));
        S3Credentials::new(key, Secret::new(&secret), session)
    });
    let keys = match (keys.or(profile.credentials), &profile.credential_process) {
        (None, Some(command)) => Some(printed_credentials(command)?),
        (keys, _) => keys,
    };
    let region = variable("AWS_REGION").or_else(|| variable("AWS_DEFAULT_REGION"));
    let endpoint = variable("AWS_ENDPOINT_URL_S3").or_else(|| variable("AWS_ENDPOINT_URL"));
    Ok(S3Options::default()
        .with_credentials(keys)
        .with_region(region.or(profile.region))
        .with_endpoint(endpoint.or(profile.endpoint)))
}

/// Runs the `credential_process` of a profile, and returns the credentials that it prints.
fn printed_credentials(command: &str) -> Result<S3Credentials, Failure> {
    let failed = |why: &dyn std::fmt::Display| {
        Failure::new(format_args!("credential_process of the AWS profile: {why}"))
    };
    let (shell, option) = if cfg!(windows) { ("cmd", "/C") } else { ("sh", "-c") };
    let output = Command::new(shell)
        .args([option, command])
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| failed(&error))?;
    if !output.status.success() {
        return Err(failed(&output.status));
    }
    S3Credentials::from_process(&output.stdout)
        .ok_or_else(|| failed(&"printed no version 1 credentials"))
}

/// Returns the value of a variable that is set and not blank.
fn variable(name: &str) -> Option<String> {
    env::var(name).ok().filter(|value| !value.trim().is_empty())
}

/// Reads the file that a variable names, if it is set. Fails if the file cannot be read, instead of
/// using the default, which is not what the user asked for.
fn named_file<T>(
    name: &str,
    read: impl FnOnce(&Path) -> io::Result<T>,
) -> Result<Option<T>, Failure> {
    let Some(path) = variable(name).map(PathBuf::from) else { return Ok(None) };
    let failed = |error| {
        let path = RawStr::new(path.as_os_str().as_encoded_bytes());
        Failure::new(format_args!("{name}: {path}: {error}"))
    };
    read(&path).map(Some).map_err(failed)
}

/// Returns a variable by its name in lower case, else in upper case.
fn any_case(name: &str) -> Option<String> {
    variable(&name.to_ascii_lowercase()).or_else(|| variable(name))
}

fn proxies() -> Proxies {
    let all = || any_case("ALL_PROXY");
    Proxies::new(
        any_case("HTTP_PROXY").or_else(all),
        any_case("HTTPS_PROXY").or_else(all),
        any_case("NO_PROXY").unwrap_or_default(),
    )
}

/// Returns the access token that Hugging Face's programs use: from a variable, or from the file that
/// `hf auth login` writes.
fn hub_token() -> Result<Option<Secret>, Failure> {
    let mut token = variable("HF_TOKEN").or_else(|| variable("HUGGING_FACE_HUB_TOKEN"));
    if token.is_none() {
        token = named_file("HF_TOKEN_PATH", |path| fs::read_to_string(path))?.or_else(saved_token);
    }
    Ok(token.filter(|token| !token.trim().is_empty()).map(|token| Secret::new(&token)))
}

/// Returns the token in its default file.
fn saved_token() -> Option<String> {
    let cache = || variable("XDG_CACHE_HOME").map(PathBuf::from);
    let user = || Some(env::home_dir()?.join(".cache"));
    let home = variable("HF_HOME").map(PathBuf::from);
    let home = home.or_else(|| Some(cache().or_else(user)?.join("huggingface")));
    fs::read_to_string(home?.join("token")).ok()
}

/// Returns the directory for cached headers.
fn cache_directory() -> Option<PathBuf> {
    let base = if cfg!(windows) {
        variable("LOCALAPPDATA").map(PathBuf::from)
    } else if cfg!(target_os = "macos") {
        Some(env::home_dir()?.join("Library/Caches"))
    } else {
        let base = variable("XDG_CACHE_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
        base.or_else(|| Some(env::home_dir()?.join(".cache")))
    };
    Some(base?.join("ggmill").join("headers"))
}
