//! What the environment says of servers, in the variables that other programs read too.

use std::env;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use ggmill_core::RawStr;
use ggmill_remote::{CacheOptions, Options, Profile, Proxies, S3Credentials, S3Options, Secret};

use crate::outcome::Failure;

/// Bytes of headers that are kept.
const CACHE: u64 = 512 << 20;

/// The settings for requests; `caches` keeps headers. Those for S3 may need a program to be run, so
/// they are looked for only where `is_s3`.
pub(super) fn options(caches: bool, is_s3: bool) -> Result<Options, Failure> {
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

/// The settings of Amazon's programs: variables first, then the profile.
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

/// The credentials that a command of the user's own settings prints.
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

/// A variable that is set to something.
fn variable(name: &str) -> Option<String> {
    env::var(name).ok().filter(|value| !value.trim().is_empty())
}

/// The file that a variable names, where it names one. One that cannot be read is a failure: what
/// would be used instead is not what was meant.
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

/// A variable in capitals or in lower case.
fn either(name: &str) -> Option<String> {
    variable(&name.to_ascii_lowercase()).or_else(|| variable(name))
}

fn proxies() -> Proxies {
    let all = || either("ALL_PROXY");
    Proxies::new(
        either("HTTP_PROXY").or_else(all),
        either("HTTPS_PROXY").or_else(all),
        either("NO_PROXY").unwrap_or_default(),
    )
}

/// The token that Hugging Face's own programs use: from a variable, or from the file that `hf auth
/// login` writes.
fn hub_token() -> Result<Option<Secret>, Failure> {
    let mut token = variable("HF_TOKEN").or_else(|| variable("HUGGING_FACE_HUB_TOKEN"));
    if token.is_none() {
        token = named_file("HF_TOKEN_PATH", |path| fs::read_to_string(path))?.or_else(kept_token);
    }
    Ok(token.filter(|token| !token.trim().is_empty()).map(|token| Secret::new(&token)))
}

/// The token in its usual place.
fn kept_token() -> Option<String> {
    let cache = || variable("XDG_CACHE_HOME").map(PathBuf::from);
    let user = || Some(env::home_dir()?.join(".cache"));
    let home = variable("HF_HOME").map(PathBuf::from);
    let home = home.or_else(|| Some(cache().or_else(user)?.join("huggingface")));
    fs::read_to_string(home?.join("token")).ok()
}

/// Where this user's programs keep what can be had again.
fn cache_directory() -> Option<PathBuf> {
    let base = if cfg!(windows) {
        variable("LOCALAPPDATA").map(PathBuf::from)
    } else if cfg!(target_os = "macos") {
        Some(env::home_dir()?.join("Library/Caches"))
    } else {
        let given = variable("XDG_CACHE_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
        given.or_else(|| Some(env::home_dir()?.join(".cache")))
    };
    Some(base?.join("ggmill").join("headers"))
}
