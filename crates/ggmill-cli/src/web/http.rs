//! HTTP/1.1 as far as a server of files on this computer needs it: one request for each connection,
//! GET or HEAD, without a body. What a client can take of this process is limited before anything
//! that it says is known to be permitted: the length of the head, the time, and the connections.
//! What a head says is read by `ggmill-text`.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::io::{self, Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use ggmill_io::RandomAccess;
use ggmill_text::http::{Refusal, Request};

/// The longest head of a request, in bytes, with the empty line that ends it.
const HEAD: usize = 16 << 10;
/// Bytes of a file that are in memory at a time, for each connection.
const PIECE: usize = 64 << 10;
/// What is read and dropped after an answer, at most, so that closing the connection does not reset
/// it before the client has the answer.
const DROPPED: usize = 64 << 10;
const DROPPING: Duration = Duration::from_millis(500);
/// After a connection could not be accepted.
const PAUSE: Duration = Duration::from_millis(50);

/// What the clients may take.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// For a whole head, from the connection on.
    pub(super) head: Duration,
    /// For each piece of an answer to be taken.
    pub(super) write: Duration,
    /// Connections at a time. Further ones are answered with 503.
    pub(super) connections: usize,
    /// How long accepting may fail without a success between.
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

/// What requests are answered with.
pub(super) trait Site: Send + Sync + 'static {
    /// The answer to a request, whatever its method.
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
    /// These bytes of a file, which are within it.
    Part(RandomAccess, Range<u64>),
}

impl Answer<'_> {
    /// A message in place of what was asked for.
    pub(super) fn refusal(status: u16, message: impl std::fmt::Display) -> Self {
        let fields = vec![("Content-Type", Cow::Borrowed("text/plain; charset=utf-8"))];
        let text = format!("{message}\n").into_bytes();
        Self { status, fields, body: Body::Bytes(Cow::Owned(text)) }
    }
}

/// Answers requests until that is not possible any more, and returns why: nothing could be accepted
/// for a long time, or a thread panicked. An accept that fails, as for too many open files, is
/// tried again.
pub(super) fn serve(listener: TcpListener, site: impl Site, limits: Limits) -> io::Error {
    let (failed, failure) = channel();
    let service = Arc::new(Service { site, limits, open: AtomicUsize::new(0) });
    let accepting = move || {
        let watch = Watch(failed);
        let error = accept(&listener, &service, &watch.0);
        // That nothing waits for it any more is no fault.
        let _ = watch.0.send(error);
    };
    match thread::Builder::new().spawn(accepting) {
        Ok(_) => failure.recv().unwrap_or_else(io::Error::other),
        Err(error) => error,
    }
}

struct Service<S> {
    site: S,
    limits: Limits,
    /// Connections that are open.
    open: AtomicUsize,
}

/// Reports when its thread panics.
struct Watch(Sender<io::Error>);

impl Drop for Watch {
    fn drop(&mut self) {
        if thread::panicking() {
            let _ = self.0.send(io::Error::other("a thread of the server panicked"));
        }
    }
}

/// A connection that counts as open.
struct Open<S: Site>(Arc<Service<S>>);

impl<S: Site> Open<S> {
    /// `None` where there are too many.
    fn new(service: &Arc<Service<S>>) -> Option<Self> {
        // Counted first, so that it is counted down in any case.
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

fn accept<S: Site>(
    listener: &TcpListener,
    service: &Arc<Service<S>>,
    failed: &Sender<io::Error>,
) -> io::Error {
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
        let Some(open) = Open::new(service) else {
            too_many(&stream);
            continue;
        };
        let watch = Watch(failed.clone());
        // Where no thread can be started, the connection is closed.
        let _ = thread::Builder::new().spawn(move || {
            // The connection is dropped first: no more are open than are counted.
            let (_watch, open, stream) = (watch, open, stream);
            // A client that is gone or is too slow is no fault.
            let _ = connection(&stream, &open.0);
        });
    }
}

/// Says that there are too many connections. It is short enough for the buffer of a connection that
/// was not written to, so that nothing waits.
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

/// The head of a request, up to the empty line. Fails where there is nothing to answer.
fn read_head(mut stream: &TcpStream, end: Instant) -> io::Result<Result<Vec<u8>, Answer<'static>>> {
    let mut head = Vec::new();
    let mut piece = [0; 2048];
    loop {
        let count = match read_until(&mut stream, &mut piece, end) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(count) => count,
            // A browser that connects in advance and asks for nothing.
            Err(error) if head.is_empty() || !is_late(&error) => return Err(error),
            Err(_) => return Ok(Err(Answer::refusal(408, "the request did not come in time"))),
        };
        // The empty line can begin in what was there before.
        let from = head.len().saturating_sub(3);
        head.extend_from_slice(piece.get(..count).unwrap_or_default());
        let found = head.get(from..).and_then(|new| new.windows(4).position(|b| b == b"\r\n\r\n"));
        let len = found.map_or(head.len(), |place| from + place + 4);
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

/// Reads some bytes, and waits for them until then.
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

/// Whether a read ended because of its time, for which systems have two names.
fn is_late(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock)
}

/// Waits a little until the client has closed the connection too.
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

/// Writes an answer, with its body if that is wanted.
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
            assert_ne!(request.target, "/panic", "as the test asks for");
            Answer::refusal(404, &request.target)
        }
    }

    /// A server, and what it ends with.
    fn start() -> (SocketAddr, thread::JoinHandle<io::Error>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        (address, thread::spawn(move || serve(listener, Echo, SHORT)))
    }

    fn ask(address: SocketAddr, request: &str) -> String {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    #[test]
    fn a_head_has_a_time() {
        let (address, _) = start();
        assert_eq!(ask(address, ""), "");
        assert!(ask(address, "GET / HTTP/1.1\r\nHost: ").starts_with("HTTP/1.1 408 "));
        assert!(ask(address, "GET /a HTTP/1.1\r\n\r\n").ends_with("\r\n\r\n/a\n"));
    }

    #[test]
    fn a_panic_ends_the_server() {
        let (address, server) = start();
        assert_eq!(ask(address, "GET /panic HTTP/1.1\r\n\r\n"), "");
        assert_eq!(server.join().unwrap().to_string(), "a thread of the server panicked");
    }
}
