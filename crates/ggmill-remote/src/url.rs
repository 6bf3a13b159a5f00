//! HTTP URLs, as far as requests need them: scheme, host, path and query.
//!
//! The crate `url` would add the Unicode tables of international host names, which are rejected here: a
//! server is named in ASCII.

use std::fmt;

use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};

/// The characters to encode in a path or query from a user or a server. `%` is not encoded, as the text
/// can have percent-encoded characters.
const AS_TYPED: &AsciiSet = &CONTROLS
    .add(b' ')
    .add(b'"')
    .add(b'<')
    .add(b'>')
    .add(b'\\')
    .add(b'^')
    .add(b'`')
    .add(b'{')
    .add(b'|')
    .add(b'}');

/// The characters to encode in a segment of plain text: all but the unreserved characters of RFC 3986,
/// as S3 signatures require.
const STRICT: &AsciiSet =
    &percent_encoding::NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// Percent-encodes each segment of a path of plain text.
pub(crate) fn encode_path(path: &str) -> String {
    path.split('/').map(encode_segment).collect::<Vec<_>>().join("/")
}

/// Percent-encodes a path segment of plain text, slashes included.
pub(crate) fn encode_segment(text: &str) -> String {
    utf8_percent_encode(text, STRICT).to_string()
}

/// An absolute URL with the scheme `http` or `https`, without a fragment.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Url {
    secure: bool,
    /// The host in lower case, with the port unless it is the default.
    host: String,
    /// Percent-encoded; begins with `/`.
    path: String,
    /// Percent-encoded, without `?`.
    query: Option<String>,
}

impl Url {
    /// Parses a URL. The error says what was expected.
    pub(crate) fn parse(text: &str) -> Result<Self, &'static str> {
        let text = text.trim();
        let (scheme, rest) = text.split_once("://").ok_or("https://HOST/PATH")?;
        let secure = match scheme.to_ascii_lowercase().as_str() {
            "https" => true,
            "http" => false,
            _ => return Err("the scheme https or http"),
        };
        let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let (authority, rest) = rest.split_at(end);
        if authority.contains('@') {
            return Err("a URL without user name and password");
        }
        let host = host(authority, secure)?;
        let rest = rest.split('#').next().unwrap_or_default();
        let (path, query) = match rest.split_once('?') {
            Some((path, query)) => (path, Some(encode(query))),
            None => (rest, None),
        };
        let path = if path.is_empty() { "/".to_owned() } else { encode(path) };
        Ok(Self { secure, host, path, query })
    }

    /// Replaces the path and query, which must be percent-encoded.
    pub(crate) fn with_path(&self, path: String, query: Option<String>) -> Self {
        Self { path, query, ..self.clone() }
    }

    /// Resolves the value of a `Location` header.
    pub(crate) fn join(&self, location: &str) -> Result<Self, &'static str> {
        let location = location.trim();
        if has_scheme(location) {
            return Self::parse(location).map(Self::without_dots);
        }
        let scheme = if self.secure { "https" } else { "http" };
        if let Some(rest) = location.strip_prefix("//") {
            return Self::parse(&format!("{scheme}://{rest}")).map(Self::without_dots);
        }
        let base = match location.chars().next() {
            Some('/') => "",
            // A reference with only a query keeps the path.
            Some('?') => &self.path,
            None | Some('#') => return Ok(self.clone()),
            _ => self.path.rsplit_once('/').map_or("/", |(directory, _)| {
                self.path.get(..=directory.len()).unwrap_or(directory)
            }),
        };
        let joined = format!("{scheme}://{}{base}{location}", self.host);
        Self::parse(&joined).map(Self::without_dots)
    }

    /// Resolves `.` and `..` in the path (RFC 3986, 5.2.4).
    fn without_dots(self) -> Self {
        let mut kept: Vec<&str> = Vec::new();
        let mut parts = self.path.split('/').skip(1).peekable();
        while let Some(part) = parts.next() {
            let is_last = parts.peek().is_none();
            match part {
                "." | ".." => {
                    if part == ".." {
                        kept.pop();
                    }
                    // A path that ends with `.` or `..` is a directory.
                    if is_last {
                        kept.push("");
                    }
                }
                part => kept.push(part),
            }
        }
        let path = format!("/{}", kept.join("/"));
        Self { path, ..self }
    }

    /// Returns `true` if scheme, host and port are the same, so that both may receive the same secrets.
    pub(crate) fn same_origin(&self, other: &Self) -> bool {
        (self.secure, &self.host) == (other.secure, &other.host)
    }

    /// Returns `true` if the host is this machine.
    pub(crate) fn is_loopback(&self) -> bool {
        let name = self.host.rsplit_once(':').map_or(self.host.as_str(), |(name, _)| name);
        self.host == "[::1]" || matches!(name, "localhost" | "127.0.0.1" | "[::1]")
    }

    pub(crate) fn is_secure(&self) -> bool {
        self.secure
    }

    /// Returns the host, with the port unless it is the default.
    pub(crate) fn host(&self) -> &str {
        &self.host
    }

    /// Returns the percent-encoded path.
    pub(crate) fn path(&self) -> &str {
        &self.path
    }

    /// Returns the percent-encoded query.
    pub(crate) fn query(&self) -> Option<&str> {
        self.query.as_deref()
    }

    /// Returns the whole URL, with the query.
    pub(crate) fn to_text(&self) -> String {
        let scheme = if self.secure { "https" } else { "http" };
        let query = self.query.as_deref().map(|query| format!("?{query}")).unwrap_or_default();
        format!("{scheme}://{}{}{query}", self.host, self.path)
    }
}

/// Shows the URL without its query, which can be a signature.
impl fmt::Display for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.secure { "https" } else { "http" };
        let query = if self.query.is_some() { "?…" } else { "" };
        write!(f, "{scheme}://{}{}{query}", self.host, self.path)
    }
}

/// Shows the same text as `Display`, without the query.
impl fmt::Debug for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Removes user name, password, query and fragment from text that may be an invalid URL, so that it can
/// be shown.
pub(crate) fn redacted(text: &str) -> String {
    let (scheme, rest) = match text.split_once("//") {
        // Only after a scheme: a query can contain a URL.
        Some((scheme, rest))
            if scheme.is_empty() || scheme.strip_suffix(':').is_some_and(is_scheme) =>
        {
            (text.get(..scheme.len().saturating_add(2)).unwrap_or_default(), rest)
        }
        _ => ("", text),
    };
    let (authority, rest) = rest.split_at(rest.find(['/', '\\', '?', '#']).unwrap_or(rest.len()));
    let path = rest.split(['?', '#']).next().unwrap_or_default();
    let query =
        if rest.split('#').next().is_some_and(|text| text.contains('?')) { "?…" } else { "" };
    match authority.rsplit_once('@') {
        // The password can contain `/`, `?` or `#`, so its end is unknown.
        _ if authority.contains([':', '@']) && rest.contains('@') => format!("{scheme}…"),
        Some((_, host)) => format!("{scheme}…@{host}{path}{query}"),
        None => format!("{scheme}{authority}{path}{query}"),
    }
}

/// Returns `true` if a reference begins with a scheme, as absolute URLs do (RFC 3986, 3.1).
fn has_scheme(text: &str) -> bool {
    text.split_once(':').is_some_and(|(scheme, _)| is_scheme(scheme))
}

fn is_scheme(text: &str) -> bool {
    text.starts_with(|first: char| first.is_ascii_alphabetic())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte))
}

fn encode(text: &str) -> String {
    utf8_percent_encode(text, AS_TYPED).to_string()
}

fn host(authority: &str, secure: bool) -> Result<String, &'static str> {
    let (name, port) = match authority.rsplit_once(':') {
        Some((name, port)) if !port.contains(']') => (name, Some(port)),
        _ => (authority, None),
    };
    let is_address = name
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'))
        .is_some_and(|inner| inner.parse::<core::net::Ipv6Addr>().is_ok());
    let is_name = !name.is_empty()
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte));
    if !is_address && !is_name {
        return Err("a host name of letters, digits, '-' and '.' after ://");
    }
    let name = name.to_ascii_lowercase();
    let Some(port) = port.filter(|port| !port.is_empty()) else { return Ok(name) };
    let port: u16 = port.parse().map_err(|_| "a port from 1 to 65535")?;
    let default = if secure { 443 } else { 80 };
    Ok(if port == default { name } else { format!("{name}:{port}") })
}

#[cfg(test)]
mod tests {
    use super::{Url, redacted};

    #[test]
    fn urls_are_parsed() {
        for (typed, sent) in [
            ("https://Example.com", "https://example.com/"),
            ("HTTPS://example.com:443/a b.gguf#part", "https://example.com/a%20b.gguf"),
            ("http://[::1]:8080/x?y=z w", "http://[::1]:8080/x?y=z%20w"),
            ("http://h:80/%20?", "http://h/%20?"),
            ("https://h?q", "https://h/?q"),
            ("https://h/é", "https://h/%C3%A9"),
        ] {
            assert_eq!(Url::parse(typed).unwrap().to_text(), sent, "{typed}");
        }
        for wrong in [
            "example.com/x",
            "ftp://h/x",
            "https:///x",
            "https://a:b@h/",
            "https://h:99999/",
            "https://h\n/",
        ] {
            assert!(Url::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn redirects_are_resolved() {
        let from = Url::parse("https://h:1/a/b.gguf?q=1").unwrap();
        for (location, to) in [
            ("https://other/x?y", "https://other/x?y"),
            ("//other/x", "https://other/x"),
            ("/x?u=http://y", "https://h:1/x?u=http://y"),
            ("c.gguf", "https://h:1/a/c.gguf"),
        ] {
            assert_eq!(from.join(location).unwrap().to_text(), to, "{location}");
        }
        assert!(from.join("file:///etc/passwd").is_err());
    }

    #[test]
    fn an_origin_is_scheme_host_and_port() {
        let url = |text| Url::parse(text).unwrap();
        assert!(url("https://h/a").same_origin(&url("https://H:443/b?c")));
        for other in ["http://h/", "https://h:444/", "https://h.evil/", "https://x.h/"] {
            assert!(!url("https://h/").same_origin(&url(other)), "{other}");
        }
        for here in
            ["http://localhost:80/", "http://[::1]:7/", "http://[::1]/", "http://127.0.0.1/"]
        {
            assert!(url(here).is_loopback(), "{here}");
        }
        assert!(!url("http://localhost.evil/").is_loopback());
    }

    /// The examples of RFC 3986, 5.4, for the supported schemes.
    #[test]
    fn references_are_resolved_as_in_the_rfc() {
        let from = Url::parse("http://a/b/c/d;p?q").unwrap();
        for (reference, to) in [
            ("g", "http://a/b/c/g"),
            ("./g", "http://a/b/c/g"),
            ("g/", "http://a/b/c/g/"),
            ("/g", "http://a/g"),
            ("//g", "http://g/"),
            ("?y", "http://a/b/c/d;p?y"),
            ("g?y", "http://a/b/c/g?y"),
            ("#s", "http://a/b/c/d;p?q"),
            ("g#s", "http://a/b/c/g"),
            ("g?y#s", "http://a/b/c/g?y"),
            (";x", "http://a/b/c/;x"),
            ("g;x", "http://a/b/c/g;x"),
            ("g;x?y#s", "http://a/b/c/g;x?y"),
            ("", "http://a/b/c/d;p?q"),
            (".", "http://a/b/c/"),
            ("./", "http://a/b/c/"),
            ("..", "http://a/b/"),
            ("../", "http://a/b/"),
            ("../g", "http://a/b/g"),
            ("../..", "http://a/"),
            ("../../", "http://a/"),
            ("../../g", "http://a/g"),
            ("../../../g", "http://a/g"),
            ("../../../../g", "http://a/g"),
            ("/./g", "http://a/g"),
            ("/../g", "http://a/g"),
            ("g.", "http://a/b/c/g."),
            (".g", "http://a/b/c/.g"),
            ("g..", "http://a/b/c/g.."),
            ("..g", "http://a/b/c/..g"),
            ("./../g", "http://a/b/g"),
            ("./g/.", "http://a/b/c/g/"),
            ("g/./h", "http://a/b/c/g/h"),
            ("g/../h", "http://a/b/c/h"),
            ("g;x=1/./y", "http://a/b/c/g;x=1/y"),
            ("g;x=1/../y", "http://a/b/c/y"),
            ("g?y/./x", "http://a/b/c/g?y/./x"),
            ("g?y/../x", "http://a/b/c/g?y/../x"),
            // URLs of archives and proxies.
            ("/web/2024/https://other/m.gguf", "http://a/web/2024/https://other/m.gguf"),
            ("x/https://other/m.gguf", "http://a/b/c/x/https://other/m.gguf"),
        ] {
            assert_eq!(from.join(reference).unwrap().to_text(), to, "{reference:?}");
        }
        for other in ["g:h", "mailto:x", "ftp://a/b"] {
            assert!(from.join(other).is_err(), "{other}");
        }
    }

    #[test]
    fn a_query_is_not_shown() {
        let url = Url::parse("https://h/p?X-Sig=secret").unwrap();
        assert_eq!(
            (url.to_string(), format!("{url:?}")),
            ("https://h/p?…".into(), "https://h/p?…".into())
        );
    }

    #[test]
    fn redacted_text_has_no_secret() {
        for (text, shown) in [
            ("https://h/p?X-Sig=secret", "https://h/p?…"),
            ("https://h/p#secret?secret", "https://h/p"),
            ("https://h/p?secret#secret", "https://h/p?…"),
            ("https://user:secret@h:1/p", "https://…@h:1/p"),
            ("https://secret@h", "https://…@h"),
            ("https://user:se/cret@h/p", "https://…"),
            ("https://user:se?cret@h/p", "https://…"),
            ("https://user:se#cret@h/p", "https://…"),
            ("https://u:se@cr/et@h/p", "https://…"),
            ("https://m:99999/?token=secret@x", "https://…"),
            ("https:/user:secret@h/x", "…"),
            ("https:/h/x", "https:/h/x"),
            ("user:secret@proxy:3128", "…@proxy:3128"),
            ("//user:secret@h/x?secret", "//…@h/x?…"),
            ("/x?sig=secret", "/x?…"),
            ("hf://a/b@main/c.gguf", "hf://a/b@main/c.gguf"),
            ("file:///etc/passwd", "file:///etc/passwd"),
            ("", ""),
            ("s3:/b/m.gguf?next=https://h/secret.gguf", "s3:/b/m.gguf?…"),
        ] {
            assert_eq!(redacted(text), shown, "{text}");
            assert!(!shown.contains("secret"));
        }
    }
}
