//! A small HTTP server for tests. It serves ranges of files, correctly or with faults, and records the
//! requests.
//!
//! ```
//! use ggmill_testdata::server::{Reply, Server};
//! let server = Server::start(|request| Reply::file(b"0123456789", request));
//! assert!(server.url("/x.gguf").starts_with("http://127.0.0.1:"));
//! assert_eq!(server.requests().len(), 0);
//! ```

use std::fmt::Write as _;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

/// A request that was received.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Request {
    /// The number of requests before it.
    pub number: usize,
    /// The method as received.
    pub method: String,
    /// The path, with the query.
    pub path: String,
    /// The header fields, with names in lower case.
    pub fields: Vec<(String, String)>,
}

impl Request {
    /// Returns the value of a header field. The name is in lower case.
    pub fn field(&self, name: &str) -> Option<&str> {
        self.fields.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// Returns the requested range: the first byte, and the byte after the last.
    pub fn range(&self) -> Option<(usize, usize)> {
        let (first, last) = self.field("range")?.strip_prefix("bytes=")?.split_once('-')?;
        Some((first.parse().ok()?, last.parse::<usize>().ok()?.checked_add(1)?))
    }
}

/// A response.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Reply {
    /// The status.
    pub status: u16,
    /// The header fields. `Content-Length` is added unless it is among them.
    pub fields: Vec<(String, String)>,
    /// The body.
    pub body: Vec<u8>,
    /// Closes the connection after this number of bytes of the body.
    pub cut: Option<usize>,
    /// Closes the connection without a response.
    pub hang_up: bool,
    /// The delay before the response.
    pub delay: Duration,
}

impl Reply {
    /// Creates a response without a body.
    pub fn status(status: u16) -> Self {
        Self { status, ..Self::default() }
    }

    /// Sets a header field.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl Into<String>) -> Self {
        self.fields.retain(|(known, _)| known != name);
        self.fields.push((name.to_owned(), value.into()));
        self
    }

    /// Removes a header field.
    #[must_use]
    pub fn without(mut self, name: &str) -> Self {
        self.fields.retain(|(known, _)| known != name);
        self
    }

    /// Sets the body.
    #[must_use]
    pub fn with_body(mut self, body: impl Into<Vec<u8>>) -> Self {
        self.body = body.into();
        self
    }

    /// Closes the connection after this number of bytes of the body.
    #[must_use]
    pub fn cut_after(mut self, bytes: usize) -> Self {
        self.cut = Some(bytes);
        self
    }

    /// Creates a reply that closes the connection without a response.
    pub fn none() -> Self {
        Self { hang_up: true, ..Self::default() }
    }

    /// Sets the delay before the response.
    #[must_use]
    pub fn late(mut self, delay: Duration) -> Self {
        self.delay = delay;
        self
    }

    /// Creates a redirect.
    pub fn redirect(to: impl Into<String>) -> Self {
        Self::status(302).with("location", to)
    }

    /// Creates the response for a file or a range of it according to RFC 9110. The entity tag is the hash
    /// of the content.
    pub fn file(file: &[u8], request: &Request) -> Self {
        let tag = format!("\"{}\"", crate::sha256(file));
        let tagged = |status| Self::status(status).with("etag", tag.as_str());
        if request.field("if-match").is_some_and(|wanted| wanted != tag) {
            return tagged(412);
        }
        if request.field("if-none-match").is_some_and(|had| had == tag) {
            return tagged(304);
        }
        let Some((start, end)) = request.range() else { return tagged(200).with_body(file) };
        let end = end.min(file.len());
        let Some(part) = file.get(start..end).filter(|part| !part.is_empty()) else {
            return tagged(416).with("content-range", format!("bytes */{}", file.len()));
        };
        let last = end.saturating_sub(1);
        tagged(206)
            .with("content-range", format!("bytes {start}-{last}/{}", file.len()))
            .with_body(part)
    }
}

/// A server on a free port, which runs until the process ends.
#[derive(Debug)]
pub struct Server {
    address: SocketAddr,
    requests: Arc<Mutex<Vec<Request>>>,
    sent: Arc<AtomicU64>,
}

impl Server {
    /// Starts a server that responds with the results of `answer`, in a thread for each connection.
    ///
    /// # Panics
    ///
    /// If there is no free port.
    pub fn start(answer: impl Fn(&Request) -> Reply + Send + Sync + 'static) -> Self {
        #[expect(clippy::unwrap_used, reason = "a test fails without a port")]
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        #[expect(clippy::unwrap_used, reason = "it is bound")]
        let address = listener.local_addr().unwrap();
        let (requests, sent) = (Arc::<Mutex<Vec<Request>>>::default(), Arc::<AtomicU64>::default());
        let answer = Arc::new(answer);
        let (log, count) = (Arc::clone(&requests), Arc::clone(&sent));
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (answer, log, count) =
                    (Arc::clone(&answer), Arc::clone(&log), Arc::clone(&count));
                thread::spawn(move || serve(&stream, &*answer, &log, &count));
            }
        });
        Self { address, requests, sent }
    }

    /// Returns the URL of a path, which begins with `/`.
    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// Returns the requests so far.
    pub fn requests(&self) -> Vec<Request> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns the number of bytes of bodies sent so far.
    pub fn sent(&self) -> u64 {
        self.sent.load(Ordering::SeqCst)
    }

    /// Resets the requests and the number of sent bytes.
    pub fn forget(&self) {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner).clear();
        self.sent.store(0, Ordering::SeqCst);
    }
}

/// Responds to the requests of a connection until a read or write fails.
fn serve(
    stream: &TcpStream,
    answer: &dyn Fn(&Request) -> Reply,
    log: &Mutex<Vec<Request>>,
    sent: &AtomicU64,
) {
    // Otherwise the body of a short response waits until the client acknowledges the header.
    let _ = stream.set_nodelay(true);
    let mut input = BufReader::new(stream);
    while let Some(mut request) = read(&mut input) {
        {
            let mut log = log.lock().unwrap_or_else(PoisonError::into_inner);
            request.number = log.len();
            log.push(request.clone());
        }
        let reply = answer(&request);
        thread::sleep(reply.delay);
        if reply.hang_up {
            return;
        }
        let mut head = format!("HTTP/1.1 {} Answer\r\n", reply.status);
        for (name, value) in &reply.fields {
            let _ = write!(head, "{name}: {value}\r\n");
        }
        let has_length = reply
            .fields
            .iter()
            .any(|(name, _)| name == "content-length" || name == "transfer-encoding");
        if !has_length && reply.status != 304 {
            let _ = write!(head, "content-length: {}\r\n", reply.body.len());
        }
        let body = reply.body.get(..reply.cut.unwrap_or(usize::MAX)).unwrap_or(&reply.body);
        let mut output = stream;
        let written = output.write_all(format!("{head}\r\n").as_bytes());
        for piece in body.chunks(64 << 10) {
            // Count before writing, so that the count is complete when the client has all bytes.
            sent.fetch_add(piece.len() as u64, Ordering::SeqCst);
            if output.write_all(piece).is_err() {
                return;
            }
        }
        if written.is_err() || reply.cut.is_some() {
            return;
        }
    }
}

/// Reads the next request of a connection.
fn read(input: &mut BufReader<&TcpStream>) -> Option<Request> {
    let mut line = || {
        let mut line = String::new();
        let read = input.by_ref().take(64 << 10).read_line(&mut line).ok()?;
        (read > 0).then(|| line.trim_end().to_owned())
    };
    let first = line()?;
    let mut words = first.split(' ').map(str::to_owned);
    let (method, path) = (words.next()?, words.next()?);
    let mut fields = Vec::new();
    loop {
        let line = line()?;
        let Some((name, value)) = line.split_once(':') else {
            return Some(Request { number: 0, method, path, fields });
        };
        fields.push((name.to_ascii_lowercase(), value.trim().to_owned()));
    }
}
