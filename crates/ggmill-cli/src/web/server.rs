//! The server. It answers requests on a loopback port, for addresses that begin with a random token,
//! and gives the files of the page and the files of one model, which are known when it starts. A name
//! in a request is looked up among these and is never a path.

use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::UNIX_EPOCH;
use std::{fmt, fs};

use ggmill_io::RandomAccess;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use tiny_http::{Header, Method, Request, Response, StatusCode};

use super::page::Page;
use super::range::{Asked, asked};

/// Requests that are answered side by side.
const THREADS: usize = 4;
/// Where the files of the model are, in the page's directory.
const FILES: &str = "model/";
/// What stays as it is in an address.
const ENCODED: &AsciiSet =
    &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~').remove(b'/');
/// The policy of the page, for its worker too, which has no other.
const POLICY: &str = "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; style-src 'self'; \
                      img-src 'self'; worker-src 'self'; connect-src 'self' https: \
                      http://localhost:* http://127.0.0.1:*; base-uri 'none'; form-action 'none'; \
                      frame-ancestors 'none'";

type Body = Box<dyn Read + Send>;

/// A server that listens, and answers when it [runs](Self::run).
pub(crate) struct Server {
    http: tiny_http::Server,
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
        let http = tiny_http::Server::http(("127.0.0.1", port)).map_err(|error| {
            match error.downcast() {
                Ok(error) => *error,
                Err(error) => io::Error::other(error),
            }
        })?;
        let port = http.server_addr().to_ip().map_or(port, |address| address.port());
        let mut token = [0; 16];
        getrandom::fill(&mut token).map_err(|error| io::Error::other(error.to_string()))?;
        let token = u128::from_ne_bytes(token);
        let name = |path: &PathBuf| (crate::paths::file_name(path), path.clone());
        let files = files.iter().map(name).collect();
        Ok(Self { http, prefix: format!("/{token:032x}/"), port, page, files })
    }

    /// The address of the page, which opens a file: one of the model by its path, or another address.
    pub(crate) fn address(&self, open: Option<&Path>) -> String {
        let opened = open.map(|path| match self.files.iter().find(|(_, file)| file == path) {
            // An address in an address: encoded as one, and as a part of the other.
            Some((name, _)) => format!("{FILES}{}", utf8_percent_encode(name, ENCODED)),
            None => path.to_string_lossy().into_owned(),
        });
        let fragment = opened.map_or_else(String::new, |open| {
            format!("#open={}", utf8_percent_encode(&open, ENCODED))
        });
        format!("http://127.0.0.1:{}{}{fragment}", self.port, self.prefix)
    }

    /// Answers requests for as long as the program runs. Fails where it can listen no more.
    pub(crate) fn run(&self) -> io::Result<()> {
        std::thread::scope(|scope| {
            let threads: Vec<_> = (0..THREADS).map(|_| scope.spawn(|| self.serve())).collect();
            let ended = threads.into_iter().filter_map(|thread| thread.join().ok());
            ended.fold(Ok(()), io::Result::and)
        })
    }

    fn serve(&self) -> io::Result<()> {
        loop {
            let request = self.http.recv()?;
            let response = self.response(&request);
            // A browser that asks no longer is no fault.
            let _ = request.respond(response);
        }
    }

    fn response(&self, request: &Request) -> Response<Body> {
        // Another site's page can have a name that leads here, but its requests say that name.
        let host = field(request, "Host").unwrap_or_default();
        if host != format!("127.0.0.1:{}", self.port) && host != format!("localhost:{}", self.port)
        {
            return refusal(403, "the field Host names another server");
        }
        if !matches!(request.method(), Method::Get | Method::Head) {
            return refusal(405, "expected GET or HEAD");
        }
        let path = request.url().split(['?', '#']).next().unwrap_or_default();
        let Some(path) = path.strip_prefix(&self.prefix) else {
            return refusal(404, "there is nothing here without the address that was printed");
        };
        let Ok(path) = percent_decode_str(path).decode_utf8() else {
            return refusal(404, "there is no such file");
        };
        if let Some((bytes, media_type)) = self.page.file(&path) {
            return whole(bytes.to_vec(), media_type);
        }
        let named = path.strip_prefix(FILES);
        match self.files.iter().find(|(name, _)| Some(&**name) == named) {
            Some((_, file)) => {
                part(file, field(request, "Range")).unwrap_or_else(|error| refusal(500, error))
            }
            None => refusal(404, "there is no such file"),
        }
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server")
            .field("port", &self.port)
            .field("files", &self.files)
            .finish_non_exhaustive()
    }
}

fn field<'a>(request: &'a Request, name: &'static str) -> Option<&'a str> {
    let mut fields = request.headers().iter();
    fields.find(|header| header.field.equiv(name)).map(|header| header.value.as_str())
}

/// A file of the model, or the range of it that is asked for.
fn part(path: &Path, range: Option<&str>) -> ggmill_io::Result<Response<Body>> {
    let file = RandomAccess::open(path)?;
    let len = file.len();
    let (status, start, end) = match asked(range, len) {
        Asked::Whole => (200, 0, len),
        Asked::Part(start, end) => (206, start, end),
        Asked::Outside => {
            let response = refusal(416, "the range is beyond the end of the file");
            return Ok(with(response, "Content-Range", &format!("bytes */{len}")));
        }
    };
    let body = FileRange { file: Arc::new(file), position: start, end };
    let mut response = answer(status, Box::new(body), end - start, "application/octet-stream");
    if status == 206 {
        let place = format!("bytes {start}-{}/{len}", end.saturating_sub(1));
        response = with(response, "Content-Range", &place);
    }
    response = with(response, "Accept-Ranges", "bytes");
    // A file that is written to between two requests is another one.
    let written = fs::metadata(path).and_then(|metadata| metadata.modified()).ok();
    let since = written.and_then(|time| time.duration_since(UNIX_EPOCH).ok()).unwrap_or_default();
    Ok(with(response, "ETag", &format!("\"{len:x}-{:x}\"", since.as_nanos())))
}

/// Bytes of a file, from a position up to before another.
struct FileRange {
    file: Arc<RandomAccess>,
    position: u64,
    end: u64,
}

impl Read for FileRange {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let left = usize::try_from(self.end - self.position).unwrap_or(usize::MAX);
        let len = left.min(out.len());
        let Some(out) = out.get_mut(..len) else { return Ok(0) };
        self.file.read_at(self.position, out).map_err(io::Error::other)?;
        self.position += len as u64;
        Ok(len)
    }
}

fn whole(bytes: Vec<u8>, media_type: &str) -> Response<Body> {
    let len = bytes.len() as u64;
    answer(200, Box::new(io::Cursor::new(bytes)), len, media_type)
}

fn refusal(status: u16, message: impl fmt::Display) -> Response<Body> {
    let text = format!("{message}\n").into_bytes();
    let len = text.len() as u64;
    answer(status, Box::new(io::Cursor::new(text)), len, "text/plain; charset=utf-8")
}

fn answer(status: u16, body: Body, len: u64, media_type: &str) -> Response<Body> {
    let len = usize::try_from(len).ok();
    // In chunks an answer would have no length.
    let response = Response::new(StatusCode(status), Vec::new(), body, len, None)
        .with_chunked_threshold(usize::MAX);
    [
        ("Content-Type", media_type),
        ("Content-Security-Policy", POLICY),
        ("Cross-Origin-Resource-Policy", "same-origin"),
        ("X-Content-Type-Options", "nosniff"),
        ("Referrer-Policy", "no-referrer"),
        ("Cache-Control", "no-store"),
    ]
    .into_iter()
    .fold(response, |response, (name, value)| with(response, name, value))
}

/// Adds a field to an answer. All names and values here are plain text.
fn with(response: Response<Body>, name: &str, value: &str) -> Response<Body> {
    match Header::from_bytes(name, value) {
        Ok(header) => response.with_header(header),
        Err(()) => response,
    }
}
