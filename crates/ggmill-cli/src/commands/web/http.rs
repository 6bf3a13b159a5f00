//! The subset of HTTP/1.1 that a file server on the loopback interface needs: one request per
//! connection, GET or HEAD, without a body. The length of the request head, the time and the number of
//! connections are limited before a client has proven that it may read anything. `ggmill-text` parses
//! the head.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::io::{self, Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use ggmill_io::RandomAccess;
use ggmill_text::http::{Refusal, Request};

/// The maximum length of a request head in bytes, including the empty line at its end.
const HEAD: usize = 16 << 10;
/// The size in bytes of each connection's file buffer.
const PIECE: usize = 64 << 10;
/// The maximum number of request bytes that are discarded after an answer. Closing a socket with unread
/// bytes resets the connection, and the client could lose the answer.
const DROPPED: usize = 64 << 10;
const DROPPING: Duration = Duration::from_millis(500);
/// The delay after a failed accept.
const PAUSE: Duration = Duration::from_millis(50);

/// Resource limits of the server.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// Time to receive the whole head, from the start of the connection.
    pub(super) head: Duration,
    /// Time for the client to accept each piece of an answer.
    pub(super) write: Duration,
    /// Maximum number of open connections. More are answered with 503.
    pub(super) connections: usize,
    /// How long accepting may fail before the server gives up.
    pub(super) deaf: Duration,
}

impl Limits {
    pub(super) const USUAL: Self = Self {
        head: Duration::from_secs(10),
        write: Duration::from_secs(30),
        connections: 32,
        deaf: Duration::from_secs(60),
    };
}

/// Answers requests.
pub(super) trait Site: Send + Sync + 'static {
    /// Returns the answer to a request. The caller omits the body for HEAD.
    fn answer(&self, request: &Request) -> Answer<'_>;
}

/// An answer to a request.
#[derive(Debug)]
pub(super) struct Answer<'a> {
    pub(super) status: u16,
    pub(super) fields: Vec<(&'static str, Cow<'static, str>)>,
    pub(super) body: Body<'a>,
}

/// The content of an answer.
#[derive(Debug)]
pub(super) enum Body<'a> {
    Bytes(Cow<'a, [u8]>),
    /// A range of a file, within its length.
    Part(RandomAccess, Range<u64>),
}

impl Answer<'_> {
    /// Returns an error answer with a message as plain text.
    pub(super) fn refusal(status: u16, message: impl std::fmt::Display) -> Self {
        let fields = vec![("Content-Type", Cow::Borrowed("text/plain; charset=utf-8"))];
        let text = format!("{message}\n").into_bytes();
        Self { status, fields, body: Body::Bytes(Cow::Owned(text)) }
    }
}

/// Serves requests until accepting connections has failed for [`Limits::deaf`]; returns the error.
/// A failed accept, for example because of too many open files, is retried.
pub(super) fn serve(listener: &TcpListener, site: impl Site, limits: Limits) -> io::Error {
    let service = Arc::new(Service { site, limits, open: AtomicUsize::new(0) });
    let mut last = Instant::now();
    loop {
        let stream = match listener.accept() {
            Ok((stream, _)) => stream,
            Err(error) if last.elapsed() > service.limits.deaf => return error,
            Err(_) => {
                thread::sleep(PAUSE);
                continue;
            }
        };
        last = Instant::now();
        let Some(open) = Open::new(&service) else {
            too_many(&stream);
            continue;
        };
        // If no thread can be started, the connection is closed.
        let _ = thread::Builder::new().spawn(move || {
            // The stream is dropped before the count: there are never more connections than counted.
            let (open, stream) = (open, stream);
            // Errors mean that the client is gone or too slow.
            let _ = connection(&stream, &open.0);
        });
    }
}

struct Service<S> {
    site: S,
    limits: Limits,
    /// The number of open connections.
    open: AtomicUsize,
}

/// Counts one open connection until it is dropped.
struct Open<S: Site>(Arc<Service<S>>);

impl<S: Site> Open<S> {
    /// Returns `None` if the limit is reached.
    fn new(service: &Arc<Service<S>>) -> Option<Self> {
        // Counted before the test, because dropping `open` decrements in both cases.
        let before = service.open.fetch_add(1, Ordering::Relaxed);
        let open = Self(Arc::clone(service));
        (before < service.limits.connections).then_some(open)
    }
}

impl<S: Site> Drop for Open<S> {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Answers with 503 without blocking. The answer fits into the empty send buffer of a new connection.
fn too_many(stream: &TcpStream) {
    let answer = Answer::refusal(503, "too many connections");
    let _ = stream.set_nonblocking(true).and_then(|()| write(stream, &answer, true));
    let _ = stream.shutdown(Shutdown::Write);
}

fn connection<S: Site>(stream: &TcpStream, service: &Service<S>) -> io::Result<()> {
    stream.set_nodelay(true)?;
    stream.set_write_timeout(Some(service.limits.write))?;
    let end = Instant::now() + service.limits.head;
    let refused = |refusal: Refusal| Answer::refusal(refusal.status(), refusal);
    match read_head(stream, end)?.and_then(|head| Request::parse(&head).map_err(refused)) {
        Ok(request) => {
            let answer = service.site.answer(&request);
            write(stream, &answer, request.method != "HEAD")?;
        }
        Err(refusal) => write(stream, &refusal, true)?,
    }
    stream.shutdown(Shutdown::Write)?;
    drop_rest(stream)
}

/// Reads the head of a request, up to and including the empty line. Returns the refusal of a head that
/// is late or too long; fails if the connection ended without a request.
fn read_head(mut stream: &TcpStream, end: Instant) -> io::Result<Result<Vec<u8>, Answer<'static>>> {
    let mut head = Vec::new();
    let mut piece = [0; 2048];
    loop {
        let count = match read_until(&mut stream, &mut piece, end) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(count) => count,
            // Browsers open connections in advance, and may send nothing on them.
            Err(error) if head.is_empty() || !is_late(&error) => return Err(error),
            Err(_) => return Ok(Err(Answer::refusal(408, "the request did not come in time"))),
        };
        // The empty line can begin at the end of the previous piece.
        let from = head.len().saturating_sub(3);
        head.extend_from_slice(piece.get(..count).unwrap_or_default());
        let found = head.get(from..).and_then(|new| new.windows(4).position(|b| b == b"\r\n\r\n"));
        let len = found.map_or(head.len(), |at| from + at + 4);
        if len > HEAD {
            let message = format!("expected at most {HEAD} bytes of request head");
            return Ok(Err(Answer::refusal(431, message)));
        }
        if found.is_some() {
            head.truncate(len);
            return Ok(Ok(head));
        }
    }
}

/// Reads some bytes, and waits for them until `end`.
fn read_until(stream: &mut &TcpStream, out: &mut [u8], end: Instant) -> io::Result<usize> {
    loop {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        stream.set_read_timeout(Some(left))?;
        match stream.read(out) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            result => return result,
        }
    }
}

/// Returns `true` if a read timed out: Unix reports `WouldBlock`, Windows `TimedOut`.
fn is_late(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock)
}

/// Reads and discards input until the client closes the connection, within [`DROPPED`] bytes and
/// [`DROPPING`].
fn drop_rest(mut stream: &TcpStream) -> io::Result<()> {
    let end = Instant::now() + DROPPING;
    let mut piece = [0; 2048];
    let mut left = DROPPED;
    while left > 0 {
        match read_until(&mut stream, &mut piece, end)? {
            0 => break,
            count => left = left.saturating_sub(count),
        }
    }
    Ok(())
}

/// Writes an answer, without its body for HEAD.
fn write(mut stream: &TcpStream, answer: &Answer<'_>, with_body: bool) -> io::Result<()> {
    let len = match &answer.body {
        Body::Bytes(bytes) => bytes.len() as u64,
        Body::Part(_, range) => range.end.saturating_sub(range.start),
    };
    let mut head = format!("HTTP/1.1 {} {}\r\n", answer.status, reason(answer.status));
    for (name, value) in &answer.fields {
        let _ = write!(head, "{name}: {value}\r\n");
    }
    let _ = write!(head, "Content-Length: {len}\r\nConnection: close\r\n\r\n");
    stream.write_all(head.as_bytes())?;
    match &answer.body {
        _ if !with_body => Ok(()),
        Body::Bytes(bytes) => stream.write_all(bytes),
        Body::Part(file, range) => write_part(stream, file, range.clone()),
    }
}

fn write_part(mut stream: &TcpStream, file: &RandomAccess, range: Range<u64>) -> io::Result<()> {
    let mut piece = vec![0; PIECE];
    let mut position = range.start;
    while position < range.end {
        let len = usize::try_from(range.end - position).unwrap_or(PIECE).min(PIECE);
        let bytes = piece.get_mut(..len).unwrap_or_default();
        file.read_at(position, bytes).map_err(io::Error::other)?;
        stream.write_all(bytes)?;
        position += len as u64;
    }
    Ok(())
}

fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        206 => "Partial Content",
        400 => "Bad Request",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        408 => "Request Timeout",
        416 => "Range Not Satisfiable",
        431 => "Request Header Fields Too Large",
        503 => "Service Unavailable",
        505 => "HTTP Version Not Supported",
        _ => "Internal Server Error",
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use super::*;

    const SHORT: Limits =
        Limits { head: Duration::from_millis(100), connections: 2, ..Limits::USUAL };

    struct Echo;

    impl Site for Echo {
        fn answer(&self, request: &Request) -> Answer<'_> {
            Answer::refusal(404, &request.target)
        }
    }

    /// Starts a server and returns its address.
    fn start() -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        thread::spawn(move || serve(&listener, Echo, SHORT));
        address
    }

    fn ask(address: SocketAddr, request: &str) -> String {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    #[test]
    fn an_incomplete_head_times_out() {
        let address = start();
        assert_eq!(ask(address, ""), "");
        assert!(ask(address, "GET / HTTP/1.1\r\nHost: ").starts_with("HTTP/1.1 408 "));
        assert!(ask(address, "GET /a HTTP/1.1\r\n\r\n").ends_with("\r\n\r\n/a\n"));
    }
}
