//! The server. It answers requests on a loopback port, for addresses that begin with a random
//! token, and gives the files of the page and the files of one model, which are known when it
//! starts. A name in a request is looked up among these and is never a path.

use std::borrow::Cow;
use std::hint::black_box;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;
use std::{fmt, io};

use ggmill_io::RandomAccess;
use ggmill_text::http::{Asked, Request, asked};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

use super::http::{self, Answer, Body, Limits};
use super::page::{Page, SCRIPT};

/// Where the files of the model are, in the page's directory.
const FILES: &str = "model/";
/// What stays as it is in an address.
const ENCODED: &AsciiSet =
    &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~').remove(b'/');
/// The policy of the page, and of every other file that is not a script. The page sends no requests
/// and compiles nothing: its worker does.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; \
                      worker-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
/// The policy of scripts, which is that of a worker whose script they are; a page has its own. It
/// asks for the file at the address that is opened, which may redirect to another host.
const WORKER_POLICY: &str = "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; connect-src \
                             'self' https: http://localhost:* http://127.0.0.1:*";

/// A server that listens, and answers when it [runs](Self::run).
#[derive(Debug)]
pub(crate) struct Server {
    listener: TcpListener,
    site: Site,
}

/// What the server gives.
struct Site {
    /// The path that addresses begin with, `/TOKEN/`.
    prefix: String,
    port: u16,
    page: Page,
    /// The files of the model by their names.
    files: Vec<(String, PathBuf)>,
}

impl Server {
    /// Listens on a port of the loopback interface; 0 is any that is free.
    pub(crate) fn start(page: Page, files: &[PathBuf], port: u16) -> io::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", port))?;
        let port = listener.local_addr()?.port();
        let mut token = [0; 16];
        getrandom::fill(&mut token).map_err(|error| io::Error::other(error.to_string()))?;
        let token = u128::from_ne_bytes(token);
        let name = |path: &PathBuf| (crate::paths::file_name(path), path.clone());
        let files = files.iter().map(name).collect();
        Ok(Self { listener, site: Site { prefix: format!("/{token:032x}/"), port, page, files } })
    }

    /// The address of the page, which opens a file: one of the model by its path, or another
    /// address.
    pub(crate) fn address(&self, open: Option<&Path>) -> String {
        let opened = open.map(|path| match self.site.files.iter().find(|(_, file)| file == path) {
            // An address in an address: encoded as one, and as a part of the other.
            Some((name, _)) => format!("{FILES}{}", utf8_percent_encode(name, ENCODED)),
            None => path.to_string_lossy().into_owned(),
        });
        let fragment = opened.map_or_else(String::new, |open| {
            format!("#open={}", utf8_percent_encode(&open, ENCODED))
        });
        format!("http://127.0.0.1:{}{}{fragment}", self.site.port, self.site.prefix)
    }

    /// Answers requests for as long as that is possible, and returns why it is not any more.
    pub(crate) fn run(self) -> io::Error {
        http::serve(&self.listener, self.site, Limits::USUAL)
    }
}

impl http::Site for Site {
    fn answer(&self, request: &Request) -> Answer<'_> {
        let mut answer = self.found(request);
        let is_script = answer.fields.contains(&("Content-Type", Cow::Borrowed(SCRIPT)));
        let policies = [
            ("Content-Security-Policy", if is_script { WORKER_POLICY } else { POLICY }),
            ("Cross-Origin-Resource-Policy", "same-origin"),
            ("X-Content-Type-Options", "nosniff"),
            ("Referrer-Policy", "no-referrer"),
            ("Cache-Control", "no-store"),
        ];
        answer.fields.extend(policies.map(|(name, value)| (name, Cow::Borrowed(value))));
        answer
    }
}

impl Site {
    fn found(&self, request: &Request) -> Answer<'_> {
        // Another site's page can have a name that leads here, but its requests say that name.
        if !request.host.as_deref().is_some_and(|host| is_here(host, self.port)) {
            return Answer::refusal(403, "the field Host names another server");
        }
        if !matches!(&*request.method, "GET" | "HEAD") {
            let mut answer = Answer::refusal(405, "expected GET or HEAD");
            answer.fields.push(("Allow", Cow::Borrowed("GET, HEAD")));
            return answer;
        }
        let path = request.target.split(['?', '#']).next().unwrap_or_default();
        let Some(path) = without_prefix(path, &self.prefix) else {
            let message = "there is nothing here without the address that was printed";
            return Answer::refusal(404, message);
        };
        let Ok(path) = percent_decode_str(path).decode_utf8() else {
            return Answer::refusal(404, "there is no such file");
        };
        if let Some((bytes, media_type)) = self.page.file(&path) {
            let fields = vec![("Content-Type", Cow::Borrowed(media_type))];
            return Answer { status: 200, fields, body: Body::Bytes(Cow::Borrowed(bytes)) };
        }
        let named = path.strip_prefix(FILES);
        match self.files.iter().find(|(name, _)| Some(&**name) == named) {
            Some((_, file)) => part(file, request.range.as_deref())
                .unwrap_or_else(|error| Answer::refusal(500, error)),
            None => Answer::refusal(404, "there is no such file"),
        }
    }
}

impl fmt::Debug for Site {
    /// Without the token.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Site")
            .field("port", &self.port)
            .field("files", &self.files)
            .finish_non_exhaustive()
    }
}

/// Whether the field `Host` names this server. Browsers leave out the port of `http`.
fn is_here(host: &str, port: u16) -> bool {
    let (name, of) = host.split_once(':').unwrap_or((host, "80"));
    matches!(name, "127.0.0.1" | "localhost") && of == port.to_string()
}

/// What follows a secret prefix. How long it takes does not depend on how much of it is right.
fn without_prefix<'a>(path: &'a str, prefix: &str) -> Option<&'a str> {
    let (start, rest) = path.split_at_checked(prefix.len())?;
    let pairs = start.bytes().zip(prefix.bytes());
    let differing = pairs.fold(0, |differing, (a, b)| black_box(differing | (a ^ b)));
    (differing == 0).then_some(rest)
}

/// A file of the model, or the range of it that is asked for.
fn part(path: &Path, range: Option<&str>) -> ggmill_io::Result<Answer<'static>> {
    let file = RandomAccess::open(path)?;
    let len = file.len();
    let (status, start, end) = match asked(range, len) {
        Asked::Whole => (200, 0, len),
        Asked::Part(start, end) => (206, start, end),
        Asked::Outside => {
            let mut answer = Answer::refusal(416, "the range is beyond the end of the file");
            answer.fields.push(("Content-Range", format!("bytes */{len}").into()));
            return Ok(answer);
        }
    };
    // A file that is written to between two requests is another one.
    let written = file.metadata().and_then(|metadata| metadata.modified().ok());
    let since = written.and_then(|time| time.duration_since(UNIX_EPOCH).ok());
    let tag = format!("\"{len:x}-{:x}\"", since.unwrap_or_default().as_nanos());
    let mut fields = vec![
        ("Content-Type", Cow::Borrowed("application/octet-stream")),
        ("Accept-Ranges", Cow::Borrowed("bytes")),
        ("ETag", tag.into()),
    ];
    if status == 206 {
        let place = format!("bytes {start}-{}/{len}", end.saturating_sub(1));
        fields.push(("Content-Range", place.into()));
    }
    Ok(Answer { status, fields, body: Body::Part(file, start..end) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts() {
        for (host, port, expected) in [
            ("127.0.0.1:8000", 8000, true),
            ("localhost:8000", 8000, true),
            ("localhost:80", 80, true),
            ("localhost", 80, true),
            ("127.0.0.1", 80, true),
            ("localhost", 8000, false),
            ("localhost:", 80, false),
            ("localhost:080", 80, false),
            ("localhost:80:80", 80, false),
            ("localhost:8001", 8000, false),
            ("example.org", 80, false),
            ("example.org:8000", 8000, false),
            ("localhost.example.org:8000", 8000, false),
            ("", 80, false),
        ] {
            assert_eq!(is_here(host, port), expected, "{host:?}, port {port}");
        }
    }

    #[test]
    fn prefixes() {
        for (path, expected) in [
            ("/abc/", Some("")),
            ("/abc/d", Some("d")),
            ("/abd/d", None),
            ("/xbc/d", None),
            ("/abc", None),
            ("/abcd", None),
            ("/abé/", None),
            ("", None),
        ] {
            assert_eq!(without_prefix(path, "/abc/"), expected, "{path:?}");
        }
    }
}
