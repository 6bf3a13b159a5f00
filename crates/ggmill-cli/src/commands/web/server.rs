//! The server of the inspector page. It listens on a loopback port, answers only requests whose path
//! begins with a random token, and serves the files of the page and of one model. Both lists are fixed
//! when it starts: a name in a request is looked up in them, and is never used as a path.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::hint::black_box;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;
use std::{fmt, fs, io};

use ggmill_io::RandomAccess;
use ggmill_text::http::{Asked, Request, asked};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

use super::http::{self, Answer, Body, Limits};

/// The path of the model's files, within the page's directory.
const FILES: &str = "model/";
/// The characters that are percent-encoded in an address.
const ENCODED: &AsciiSet =
    &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~').remove(b'/');
/// The content security policy of the page, and of every other file that is not a script. The page
/// sends no requests and compiles no WebAssembly: its worker does.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; \
                      worker-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
/// The policy of scripts: a worker gets the policy of its script. The worker fetches the address that
/// is opened, which may redirect to another host.
const WORKER_POLICY: &str = "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; connect-src \
                             'self' https: http://localhost:* http://127.0.0.1:*";

/// A server that listens, and answers requests in [`run`](Self::run).
#[derive(Debug)]
pub(crate) struct Server {
    listener: TcpListener,
    site: Site,
}

/// The content of the server.
struct Site {
    /// The beginning of every valid path, `/TOKEN/`.
    prefix: String,
    port: u16,
    page: Page,
    /// The files of the model.
    files: Vec<ServedFile>,
}

/// A file of the model.
#[derive(Debug)]
struct ServedFile {
    name: String,
    /// The path that was given.
    path: PathBuf,
    /// The file to which it led when the server started. A link that replaces it later is not followed.
    target: PathBuf,
}

impl Server {
    /// Listens on a port of the loopback interface; 0 is any free port.
    pub(crate) fn start(page: Page, files: &[PathBuf], port: u16) -> io::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", port))?;
        let port = listener.local_addr()?.port();
        let mut token = [0; 16];
        getrandom::fill(&mut token).map_err(|error| io::Error::other(error.to_string()))?;
        let token = u128::from_ne_bytes(token);
        let served = |path: &PathBuf| -> io::Result<ServedFile> {
            let (name, path) = (crate::files::file_name(path), path.clone());
            Ok(ServedFile { name, target: fs::canonicalize(&path)?, path })
        };
        let files = files.iter().map(served).collect::<io::Result<_>>()?;
        Ok(Self { listener, site: Site { prefix: format!("/{token:032x}/"), port, page, files } })
    }

    /// Returns the address of the page that opens `open`: a file of the model by its path, or an
    /// address.
    pub(crate) fn address(&self, open: Option<&Path>) -> String {
        let opened = open.map(|path| match self.site.files.iter().find(|file| file.path == path) {
            // The name is encoded twice: here as part of an address, below as part of the fragment.
            Some(file) => format!("{FILES}{}", utf8_percent_encode(&file.name, ENCODED)),
            None => path.to_string_lossy().into_owned(),
        });
        let fragment = opened.map_or_else(String::new, |open| {
            format!("#open={}", utf8_percent_encode(&open, ENCODED))
        });
        format!("http://127.0.0.1:{}{}{fragment}", self.site.port, self.site.prefix)
    }

    /// Answers requests until accepting connections fails, and returns the error.
    pub(crate) fn run(self) -> io::Error {
        http::serve(&self.listener, self.site, Limits::USUAL)
    }
}

impl http::Site for Site {
    fn answer(&self, request: &Request) -> Answer<'_> {
        let mut answer = self.content(request);
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
    fn content(&self, request: &Request) -> Answer<'_> {
        // DNS rebinding: the name of another site can resolve to this server, but its requests have
        // that name in the field Host.
        if !request.host.as_deref().is_some_and(|host| is_own_host(host, self.port)) {
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
        match self.files.iter().find(|file| Some(&*file.name) == named) {
            Some(file) => part(&file.target, request.range.as_deref())
                .unwrap_or_else(|error| Answer::refusal(500, error)),
            None => Answer::refusal(404, "there is no such file"),
        }
    }
}

impl fmt::Debug for Site {
    /// Omits the token.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Site")
            .field("port", &self.port)
            .field("files", &self.files)
            .finish_non_exhaustive()
    }
}

/// Returns `true` if the field `Host` names this server. Browsers omit port 80.
fn is_own_host(host: &str, port: u16) -> bool {
    let (name, host_port) = host.split_once(':').unwrap_or((host, "80"));
    matches!(name, "127.0.0.1" | "localhost") && host_port == port.to_string()
}

/// Removes a secret prefix from a path; `None` if the path does not begin with it. Compares in constant
/// time, so that timing does not reveal how many characters match.
fn without_prefix<'a>(path: &'a str, prefix: &str) -> Option<&'a str> {
    let (start, rest) = path.split_at_checked(prefix.len())?;
    let pairs = start.bytes().zip(prefix.bytes());
    let differing = pairs.fold(0, |differing, (a, b)| black_box(differing | (a ^ b)));
    (differing == 0).then_some(rest)
}

/// Returns a file of the model, or the requested range of it.
fn part(path: &Path, range: Option<&str>) -> ggmill_io::Result<Answer<'static>> {
    let file = RandomAccess::open(path)?;
    if fs::canonicalize(path).ok().as_deref() != Some(path) {
        return Ok(Answer::refusal(404, "a link has replaced the file"));
    }
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
    // The tag changes if the file is written between two requests.
    let written = file.metadata().and_then(|metadata| metadata.modified().ok());
    let since = written.and_then(|time| time.duration_since(UNIX_EPOCH).ok());
    let tag = format!("\"{len:x}-{:x}\"", since.unwrap_or_default().as_nanos());
    let mut fields = vec![
        ("Content-Type", Cow::Borrowed("application/octet-stream")),
        ("Accept-Ranges", Cow::Borrowed("bytes")),
        ("ETag", tag.into()),
    ];
    if status == 206 {
        let content_range = format!("bytes {start}-{}/{len}", end.saturating_sub(1));
        fields.push(("Content-Range", content_range.into()));
    }
    Ok(Answer { status, fields, body: Body::Part(file, start..end) })
}

/// The maximum number of files of a page, and of their bytes. The page has about ten files with 4 MB.
const MOST_FILES: usize = 256;
const MOST_BYTES: u64 = 64 << 20;
/// The maximum depth of subdirectories of a page.
const DEEPEST: usize = 4;

/// The media type of scripts.
pub(super) const SCRIPT: &str = "text/javascript; charset=utf-8";

/// The files of the directory in `GGMILL_WEB_PAGE` when the command was built: see `build.rs`.
static BUILT_IN: &[(&str, &[u8])] = include!(concat!(env!("OUT_DIR"), "/page.rs"));

/// The files of the inspector page, by their paths within it.
#[derive(Debug)]
pub(crate) struct Page {
    files: BTreeMap<String, Cow<'static, [u8]>>,
}

impl Page {
    /// Returns the page that is compiled into the command; `None` if it was built without one.
    pub(crate) fn built_in() -> Option<Self> {
        let files = BUILT_IN.iter().map(|&(name, bytes)| (name.to_owned(), Cow::Borrowed(bytes)));
        let files: BTreeMap<_, _> = files.collect();
        (!files.is_empty()).then_some(Self { files })
    }

    /// Reads a built page from a directory. Fails if it has no `index.html`.
    pub(crate) fn read(directory: &Path) -> io::Result<Self> {
        let mut page = Self { files: BTreeMap::new() };
        page.add(directory, "", 0, &mut 0)?;
        if !page.files.contains_key("index.html") {
            return Err(io::Error::new(io::ErrorKind::NotFound, "there is no index.html"));
        }
        Ok(page)
    }

    fn add(
        &mut self,
        directory: &Path,
        prefix: &str,
        depth: usize,
        total: &mut u64,
    ) -> io::Result<()> {
        let too_much = || io::Error::other("more files than an inspector page has");
        if depth > DEEPEST {
            return Err(too_much());
        }
        for entry in fs::read_dir(directory)? {
            let entry = entry?;
            let Ok(name) = entry.file_name().into_string() else { continue };
            let (name, kind) = (format!("{prefix}{name}"), entry.file_type()?);
            if kind.is_dir() {
                self.add(&entry.path(), &format!("{name}/"), depth + 1, total)?;
            } else if kind.is_file() {
                *total = total.saturating_add(entry.metadata()?.len());
                if *total > MOST_BYTES || self.files.len() >= MOST_FILES {
                    return Err(too_much());
                }
                self.files.insert(name, Cow::Owned(fs::read(entry.path())?));
            }
        }
        Ok(())
    }

    /// Returns a file by its path in the page, with its media type.
    pub(super) fn file(&self, path: &str) -> Option<(&[u8], &'static str)> {
        let path = if path.is_empty() { "index.html" } else { path };
        self.files.get(path).map(|bytes| (&**bytes, media_type(path)))
    }
}

fn media_type(path: &str) -> &'static str {
    match path.rsplit_once('.').map_or("", |(_, ending)| ending) {
        "html" => "text/html; charset=utf-8",
        "js" => SCRIPT,
        "css" => "text/css; charset=utf-8",
        "wasm" => "application/wasm",
        "svg" => "image/svg+xml",
        _ => "application/octet-stream",
    }
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
            assert_eq!(is_own_host(host, port), expected, "{host:?}, port {port}");
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
