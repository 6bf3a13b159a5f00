//! AWS signature version 4, for requests without a body.

use std::fmt::Write as _;
use std::time::{Duration, SystemTime};

use sha2::{Digest as _, Sha256};

use super::S3Credentials;
use crate::url::Url;

/// The SHA-256 of an empty body.
const EMPTY: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

/// Returns the header fields that sign a request. `others` are further fields to sign, with names in
/// lower case.
pub(crate) fn sign(
    credentials: &S3Credentials,
    region: &str,
    url: &Url,
    others: &[(&str, &str)],
    now: SystemTime,
) -> Vec<(&'static str, String)> {
    let time = timestamp(now);
    let date = time.get(..8).unwrap_or_default();
    let mut fields: Vec<(&str, &str)> =
        vec![("host", url.host()), ("x-amz-content-sha256", EMPTY), ("x-amz-date", &time)];
    if let Some(session) = &credentials.session {
        fields.push(("x-amz-security-token", session.reveal()));
    }
    fields.extend(others);
    fields.sort_unstable();

    let mut canonical = format!("GET\n{}\n{}\n", url.path(), canonical_query(url));
    for (name, value) in &fields {
        let _ = writeln!(canonical, "{name}:{}", value.trim());
    }
    let names: Vec<&str> = fields.iter().map(|(name, _)| *name).collect();
    let names = names.join(";");
    let _ = write!(canonical, "\n{names}\n{EMPTY}");

    let scope = format!("{date}/{region}/s3/aws4_request");
    let to_sign =
        format!("AWS4-HMAC-SHA256\n{time}\n{scope}\n{}", hex(&Sha256::digest(&canonical)));
    let secret = format!("AWS4{}", credentials.secret.reveal());
    let key = [date, region, "s3", "aws4_request"]
        .iter()
        .fold(secret.into_bytes(), |key, part| hmac(&key, part.as_bytes()).to_vec());
    let signature = hex(&hmac(&key, to_sign.as_bytes()));
    let authorization = format!(
        "AWS4-HMAC-SHA256 Credential={}/{scope}, SignedHeaders={names}, Signature={signature}",
        credentials.key_id
    );
    let mut fields = vec![
        ("x-amz-content-sha256", EMPTY.to_owned()),
        ("x-amz-date", time),
        ("authorization", authorization),
    ];
    if let Some(session) = &credentials.session {
        fields.push(("x-amz-security-token", session.reveal().to_owned()));
    }
    fields
}

/// Returns the query with sorted parameters, each with `=`.
fn canonical_query(url: &Url) -> String {
    let mut parameters: Vec<String> =
        url.query()
            .unwrap_or_default()
            .split('&')
            .filter(|parameter| !parameter.is_empty())
            .map(|parameter| {
                if parameter.contains('=') { parameter.to_owned() } else { format!("{parameter}=") }
            })
            .collect();
    parameters.sort_unstable();
    parameters.join("&")
}

/// Formats a time as `20130524T000000Z`.
fn timestamp(now: SystemTime) -> String {
    let seconds = now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or(Duration::ZERO).as_secs();
    let (day, second) = (seconds / 86_400, seconds % 86_400);
    // The calendar repeats every 400 years, which have 146,097 days. Years begin in March here, so
    // that a leap day is the last day of its year.
    let day = day + 719_468;
    let (era, day) = (day / 146_097, day % 146_097);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let date = day - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = era * 400 + year + u64::from(month <= 2);
    let (hour, minute, second) = (second / 3_600, second / 60 % 60, second % 60);
    format!("{year:04}{month:02}{date:02}T{hour:02}{minute:02}{second:02}Z")
}

/// Computes HMAC-SHA-256 (RFC 2104).
fn hmac(key: &[u8], message: &[u8]) -> [u8; 32] {
    const BLOCK: usize = 64;
    let mut padded = [0; BLOCK];
    if key.len() > BLOCK {
        let hashed = Sha256::digest(key);
        padded.iter_mut().zip(hashed.iter()).for_each(|(to, from)| *to = *from);
    } else {
        padded.iter_mut().zip(key).for_each(|(to, from)| *to = *from);
    }
    let inner = Sha256::new().chain_update(padded.map(|byte| byte ^ 0x36)).chain_update(message);
    let outer = Sha256::new().chain_update(padded.map(|byte| byte ^ 0x5c));
    outer.chain_update(inner.finalize()).finalize().into()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::Secret;

    /// The examples of "Authenticating Requests: Using the Authorization Header" in the reference
    /// of Amazon S3.
    #[test]
    fn the_published_examples() {
        let credentials = S3Credentials::new(
            "AKIAIOSFODNN7EXAMPLE",
            Secret::new("wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"),
            None,
        );
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_369_353_600);
        for (path, others, signature) in [
            (
                "/test.txt",
                &[("range", "bytes=0-9")][..],
                "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41",
            ),
            (
                "/?lifecycle",
                &[],
                "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543",
            ),
            (
                "/?max-keys=2&prefix=J",
                &[],
                "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7",
            ),
        ] {
            let url = Url::parse(&format!("https://examplebucket.s3.amazonaws.com{path}")).unwrap();
            let signed = sign(&credentials, "us-east-1", &url, others, now);
            let (_, authorization) =
                signed.iter().find(|(name, _)| *name == "authorization").unwrap();
            assert!(authorization.ends_with(signature), "{path}: {authorization}");
            assert!(authorization.starts_with("AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request, SignedHeaders=host;"));
        }
    }

    /// RFC 4231, cases 1, 2 and 6.
    #[test]
    fn codes_of_the_rfc() {
        for (key, message, code) in [
            (
                &[0x0b; 20][..],
                &b"Hi There"[..],
                "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7",
            ),
            (
                b"Jefe",
                b"what do ya want for nothing?",
                "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843",
            ),
            (
                &[0xaa; 131],
                b"Test Using Larger Than Block-Size Key - Hash Key First",
                "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54",
            ),
        ] {
            assert_eq!(hex(&hmac(key, message)), code);
        }
    }

    #[test]
    fn days_have_dates() {
        for (seconds, text) in [
            (0, "19700101T000000Z"),
            (951_782_399, "20000228T235959Z"),
            (951_782_400, "20000229T000000Z"),
            (1_369_353_600, "20130524T000000Z"),
            (4_107_542_399, "21000228T235959Z"),
            (4_107_542_400, "21000301T000000Z"),
        ] {
            assert_eq!(timestamp(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)), text);
        }
    }
}
