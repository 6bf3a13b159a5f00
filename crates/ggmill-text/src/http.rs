//! The parts of HTTP/1.1 requests that a server of files needs.

use std::fmt;

/// The request line and relevant header fields of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Request {
    /// The method, such as `GET`.
    pub method: String,
    /// The path with the query.
    pub target: String,
    /// The field `Host`.
    pub host: Option<String>,
    /// The field `Range`.
    pub range: Option<String>,
}

/// The reason why a request is rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refusal {
    /// The request is malformed; the text says how.
    Malformed(&'static str),
    /// The version is neither HTTP/1.0 nor HTTP/1.1.
    Version,
}

impl Refusal {
    /// Returns the status of the response.
    pub fn status(self) -> u16 {
        match self {
            Self::Malformed(_) => 400,
            Self::Version => 505,
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Malformed(what) => write!(f, "malformed request: {what}"),
            Self::Version => f.write_str("expected HTTP/1.0 or HTTP/1.1"),
        }
    }
}

impl std::error::Error for Refusal {}

impl Request {
    /// Parses the bytes of a request up to the empty line. In the result, method and target are visible
    /// ASCII, and no field has a control character that ends a line.
    ///
    /// ```
    /// use ggmill_text::http::Request;
    /// let request = Request::parse(b"GET /a HTTP/1.1\r\nHost: localhost\r\n\r\n")?;
    /// assert_eq!((&*request.target, request.host.as_deref()), ("/a", Some("localhost")));
    /// # Ok::<(), ggmill_text::http::Refusal>(())
    /// ```
    pub fn parse(head: &[u8]) -> Result<Self, Refusal> {
        let malformed = Refusal::Malformed;
        // Bytes that are not UTF-8 are rejected below, except in fields that are not used.
        let head = String::from_utf8_lossy(head);
        let mut lines = head.strip_suffix("\r\n\r\n").unwrap_or(&head).split("\r\n");
        let first: Vec<&str> = lines.next().unwrap_or_default().splitn(4, ' ').collect();
        let [method, target, version] = first[..] else {
            return Err(malformed("expected a method, a path and a version"));
        };
        if !is_visible(method) || !is_visible(target) {
            return Err(malformed("expected a method, a path and a version"));
        }
        if !matches!(version, "HTTP/1.0" | "HTTP/1.1") {
            return Err(Refusal::Version);
        }
        let (mut host, mut range) = (None, None);
        for line in lines {
            let Some((name, value)) = line.split_once(':') else {
                return Err(malformed("a field without a colon"));
            };
            if !is_visible(name) {
                return Err(malformed("the name of a field"));
            }
            let value = value.trim_matches([' ', '\t']);
            if value.contains(['\r', '\n', '\0']) {
                return Err(malformed("a control character in a field"));
            }
            let field = match name {
                name if name.eq_ignore_ascii_case("Host") => &mut host,
                name if name.eq_ignore_ascii_case("Range") => &mut range,
                _ => continue,
            };
            if field.replace(value.to_owned()).is_some() {
                return Err(malformed("a field that may be there once"));
            }
        }
        Ok(Self { method: method.to_owned(), target: target.to_owned(), host, range })
    }
}

/// Returns `true` for visible ASCII that is not empty.
fn is_visible(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic())
}

/// The part of a file that a request asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "a server responds to each differently")]
pub enum Asked {
    /// The whole file: there is no `Range` field, or it is ignored.
    Whole,
    /// At least one byte: from the first offset up to, but not including, the second.
    Part(u64, u64),
    /// A range after the end of the file.
    Outside,
}

/// Parses the field `Range` of a request for a file of `len` bytes. A field with several ranges, another
/// unit or a syntax error is ignored, as RFC 9110 (section 14.2) permits.
pub fn asked(field: Option<&str>, len: u64) -> Asked {
    let range = field.and_then(|field| field.trim().strip_prefix("bytes="));
    let Some((first, last)) = range.and_then(|range| range.split_once('-')) else {
        return Asked::Whole;
    };
    let (first, last) = (first.trim(), last.trim());
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    // A number that exceeds 64 bits is after the end of every file.
    let number = |text: &str| text.parse::<u64>().unwrap_or(u64::MAX);
    let (start, end) = match (is_number(first), is_number(last)) {
        (true, true) if number(first) <= number(last) => {
            (number(first), number(last).saturating_add(1).min(len))
        }
        (true, false) if last.is_empty() => (number(first), len),
        (false, true) if first.is_empty() => (len.saturating_sub(number(last)), len),
        _ => return Asked::Whole,
    };
    if start < end { Asked::Part(start, end) } else { Asked::Outside }
}

#[cfg(test)]
mod tests {
    use super::Asked::{Outside, Part, Whole};
    use super::*;

    #[test]
    fn heads() {
        let request = |host: Option<&str>, range: Option<&str>| Request {
            method: "GET".to_owned(),
            target: "/a?b".to_owned(),
            host: host.map(str::to_owned),
            range: range.map(str::to_owned),
        };
        for (head, expected) in [
            ("GET /a?b HTTP/1.1\r\n\r\n", Ok(request(None, None))),
            (
                "GET /a?b HTTP/1.0\r\nhOST:  h \r\nRange:x\r\n\r\n",
                Ok(request(Some("h"), Some("x"))),
            ),
            ("GET /a?b HTTP/1.1\r\nHost:\r\nCookie: a: b\r\n\r\n", Ok(request(Some(""), None))),
            ("GET /a?b HTTP/2\r\n\r\n", Err(505)),
            ("GET /a?b\r\n\r\n", Err(400)),
            ("GET  /a?b HTTP/1.1\r\n\r\n", Err(400)),
            ("GET /a b HTTP/1.1\r\n\r\n", Err(400)),
            ("\r\nGET /a?b HTTP/1.1\r\n\r\n", Err(400)),
            ("GET /a?b HTTP/1.1\r\nHost: a\r\nhost: b\r\n\r\n", Err(400)),
            ("GET /a?b HTTP/1.1\r\nHost\r\n\r\n", Err(400)),
            ("GET /a?b HTTP/1.1\r\nHost : a\r\n\r\n", Err(400)),
            ("GET /a?b HTTP/1.1\r\nHost: a\r\n b: c\r\n\r\n", Err(400)),
            ("GET /a?b HTTP/1.1\r\nHost: a\nRange: b\r\n\r\n", Err(400)),
            ("GET /a\tb HTTP/1.1\r\n\r\n", Err(400)),
            ("GET /ä HTTP/1.1\r\n\r\n", Err(400)),
            ("GE\nT /a?b HTTP/1.1\r\n\r\n", Err(400)),
            ("\r\n\r\n", Err(400)),
            ("", Err(400)),
        ] {
            let found = Request::parse(head.as_bytes()).map_err(Refusal::status);
            assert_eq!(found, expected, "{head:?}");
        }
    }

    #[test]
    fn ranges() {
        for (field, expected) in [
            ("bytes=0-0", Part(0, 1)),
            ("bytes=2-5", Part(2, 6)),
            ("bytes=8-", Part(8, 10)),
            ("bytes=8-99999999999999999999999", Part(8, 10)),
            ("bytes=-3", Part(7, 10)),
            ("bytes=-30", Part(0, 10)),
            (" bytes=1-2 ", Part(1, 3)),
            ("bytes=10-", Outside),
            ("bytes=10-20", Outside),
            ("bytes=-0", Outside),
            ("bytes=99999999999999999999999-", Outside),
            ("bytes=5-2", Whole),
            ("bytes=0-1,3-4", Whole),
            ("bytes=-", Whole),
            ("bytes=+1-2", Whole),
            ("lines=1-2", Whole),
            ("", Whole),
        ] {
            assert_eq!(asked(Some(field), 10), expected, "{field:?}");
        }
        assert_eq!(asked(None, 10), Whole);
        assert_eq!(asked(Some("bytes=0-0"), 0), Outside);
    }
}
