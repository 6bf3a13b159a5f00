//! The files in which Amazon's programs keep settings: sections of names and values.

use crate::secret::Secret;

use super::credentials::S3Credentials;

/// One profile in the files `config` and `credentials`.
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
    /// Keys that are written there.
    pub credentials: Option<S3Credentials>,
    /// The command that prints credentials as JSON.
    pub credential_process: Option<String>,
    /// The region.
    pub region: Option<String>,
    /// The address of a service that is not Amazon's.
    pub endpoint: Option<String>,
}

impl Profile {
    /// The profile of this name, by the texts of both files; `None` where neither has it.
    pub fn find(name: &str, config: &str, credentials: &str) -> Option<Self> {
        // In the first file only the default has no word before its name.
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
    /// Credentials as a `credential_process` prints them: a JSON object of version 1. `None` where
    /// the text is none.
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

/// The names and values of the sections that are wanted. Settings within settings, which are
/// indented, are not taken.
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
    fn sections_are_told_apart() {
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
    fn a_process_prints_credentials_or_not() {
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
