//! Servers with invalid, late or missing responses.

use std::sync::Arc;
use std::time::{Duration, Instant};

use ggmill_remote::{Advice, Client, Error, ErrorKind};
use ggmill_testdata::server::{Reply, Request, Server};

use crate::{at, client, file, location, options};

/// A server of the file of [`sample`], whose responses `other` can replace.
fn server(other: impl Fn(&Request, &Reply) -> Option<Reply> + Send + Sync + 'static) -> Server {
    let file = sample();
    Server::start(move |request| {
        let right = Reply::file(&file, request);
        other(request, &right).unwrap_or(right)
    })
}

/// A file whose header needs several requests, with data.
fn sample() -> Arc<Vec<u8>> {
    file(1_500_000, 2, 1 << 20)
}

fn open_error(server: &Server) -> Error {
    client().open(&at(server)).unwrap_err()
}

/// Returns the error of reading a tensor after the header was read successfully.
fn read_error(server: &Server) -> Error {
    let model = client().open(&at(server)).unwrap();
    let error = model.read_tensor(&model.tensor("blk.1").unwrap()).unwrap_err();
    *error.into_cause().unwrap().downcast::<Error>().unwrap()
}

/// Returns `true` for requests after the first.
fn is_later(request: &Request) -> bool {
    request.range().is_some_and(|(start, _)| start > 0)
}

#[test]
fn permanent_errors_are_not_retried() {
    for (status, kind, text) in [
        (400, ErrorKind::Protocol, "the response is 400, bad request"),
        (401, ErrorKind::Denied, "the response is 401, not authorized"),
        (403, ErrorKind::Denied, "the response is 403, forbidden"),
        (404, ErrorKind::NotFound, "the response is 404, not found"),
        (410, ErrorKind::NotFound, "the response is 410, gone"),
        (418, ErrorKind::Protocol, "the response is 418, unexpected"),
        (501, ErrorKind::Protocol, "the response is 501, the server failed"),
    ] {
        let server = server(move |_, _| Some(Reply::status(status)));
        let error = open_error(&server);
        assert_eq!((error.kind(), error.status()), (kind, Some(status)));
        assert_eq!(error.to_string(), format!("{}: {text}", server.url("/m.gguf")));
        assert_eq!(server.requests().len(), 1, "{status}");
    }
}

#[test]
fn transient_errors_are_retried() {
    for status in [408, 429, 500, 502, 503, 504] {
        let server = server(move |request, _| (request.number < 2).then(|| Reply::status(status)));
        client().open(&at(&server)).unwrap();
        assert_eq!(server.requests().len(), 4, "{status}");

        let never = Server::start(move |_| Reply::status(status));
        let error = open_error(&never);
        assert_eq!(error.kind(), ErrorKind::Unavailable);
        assert!(error.to_string().ends_with(", 3 times"), "{error}");
        assert_eq!(never.requests().len(), 3);
    }
}

#[test]
fn the_pause_that_a_server_requests_is_used() {
    let soon = server(|request, _| {
        (request.number == 0).then(|| Reply::status(429).with("retry-after", "0"))
    });
    client().open(&at(&soon)).unwrap();
    // Longer than the longest pause.
    let late = server(|_, _| Some(Reply::status(429).with("retry-after", "3600")));
    let error = open_error(&late);
    assert_eq!(error.advice(), Some(&Advice::Later { seconds: 3600 }));
    assert_eq!(late.requests().len(), 1);
    assert!(
        error.to_string().contains("received too many requests and asks to wait 3600 seconds"),
        "{error}"
    );
}

#[test]
fn an_interrupted_body_is_resumed() {
    let file = sample();
    let server = server(|request, right| {
        (is_later(request) && request.number == 1).then(|| right.clone().cut_after(500_000))
    });
    let model = client().open(&at(&server)).unwrap();
    assert_eq!(model.metadata().str("test.long").unwrap().len(), 1_500_000);
    let requests = server.requests();
    let starts: Vec<usize> = requests.iter().map(|request| request.range().unwrap().0).collect();
    assert_eq!(starts, [0, 512 << 10, (512 << 10) + 500_000]);
    assert!(server.sent() <= file.len() as u64);
}

#[test]
fn a_connection_that_is_always_interrupted_is_an_error() {
    let server = server(|request, right| is_later(request).then(|| right.clone().cut_after(10)));
    let error = open_error(&server);
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!(error.to_string().contains("was interrupted 10 bytes into bytes"), "{error}");
    assert_eq!(server.requests().len(), 4);
    let first = Server::start(|_| Reply::none());
    let error = open_error(&first);
    assert!(
        error.to_string().contains("closed the connection without a response, 3 times"),
        "{error}"
    );
    assert_eq!(first.requests().len(), 3);
}

#[test]
fn interruptions_with_progress_do_not_count() {
    let file = sample();
    let bytes = Arc::clone(&file);
    let server = Server::start(move |request| {
        let right = Reply::file(&bytes, request);
        right.cut_after(200_000)
    });
    let model = client().open(&at(&server));
    // The first response is complete, since it has the length of the file.
    assert_eq!(model.unwrap_err().kind(), ErrorKind::Unavailable);
    let bytes = file;
    let server = Server::start(move |request| {
        let right = Reply::file(&bytes, request);
        if is_later(request) { right.cut_after(200_000) } else { right }
    });
    let model = client().open(&at(&server)).unwrap();
    assert_eq!(model.read_tensor(&model.tensor("blk.1").unwrap()).unwrap(), vec![1; 4 << 20]);
}

#[test]
fn a_file_that_changes_is_an_error() {
    let tag = server(|request, right| {
        is_later(request).then(|| right.clone().with("etag", "\"another\""))
    });
    let error = open_error(&tag);
    assert_eq!((error.kind(), error.advice()), (ErrorKind::Changed, Some(&Advice::Again)));
    assert!(
        error.to_string().contains("changed while it was being read: entity tag \"another\", was "),
        "{error}"
    );

    let refuses = server(|request, _| is_later(request).then(|| Reply::status(412)));
    assert_eq!(open_error(&refuses).kind(), ErrorKind::Changed);

    // Without an entity tag, by the modification time.
    let time = server(|request, right| {
        let time = if is_later(request) {
            "Tue, 02 Jan 2024 00:00:00 GMT"
        } else {
            "Mon, 01 Jan 2024 00:00:00 GMT"
        };
        Some(right.clone().without("etag").with("last-modified", time))
    });
    assert_eq!(open_error(&time).kind(), ErrorKind::Changed);
    assert_eq!(
        time.requests()[1].field("if-unmodified-since"),
        Some("Mon, 01 Jan 2024 00:00:00 GMT")
    );

    // A weak entity tag is compared, but not sent.
    let weak = server(|request, right| {
        Some(right.clone().with("etag", if is_later(request) { "W/\"b\"" } else { "W/\"a\"" }))
    });
    assert_eq!(open_error(&weak).kind(), ErrorKind::Changed);
    assert_eq!(weak.requests()[1].field("if-match"), None);
}

#[test]
fn a_total_that_changes_is_an_error() {
    let server = server(|request, right| {
        let (start, end) = request.range()?;
        let end = end.min(5_000_000);
        is_later(request).then(|| {
            right.clone().with("content-range", format!("bytes {start}-{}/99999999", end - 1))
        })
    });
    let error = open_error(&server);
    assert_eq!(error.kind(), ErrorKind::Changed);
    assert!(error.to_string().contains("length 99999999, was"), "{error}");
}

#[test]
fn a_total_that_is_too_large_is_an_error() {
    let file = sample();
    let len = file.len();
    let server = Server::start(move |request| {
        let mut longer = file.to_vec();
        longer.truncate(len - 4_000_000);
        let right = Reply::file(&longer, request);
        match right.fields.iter().find(|(name, _)| name == "content-range") {
            Some((_, range)) => {
                let lie = range.replace(&longer.len().to_string(), &len.to_string());
                right.clone().with("content-range", lie)
            }
            None => right,
        }
    });
    let error = read_error(&server);
    assert!(matches!(error.kind(), ErrorKind::Protocol | ErrorKind::Changed), "{error}");
}

#[test]
fn a_total_that_is_too_small_is_a_truncated_file() {
    let file = sample();
    let server = Server::start(move |request| Reply::file(&file[..file.len() - 1000], request));
    let error = open_error(&server);
    assert_eq!(error.kind(), ErrorKind::Format(ggmill_core::ErrorKind::Truncated));
    assert!(error.to_string().contains("(99%), perhaps an incomplete upload"), "{error}");
    let model = client().open_damaged(&at(&server)).unwrap();
    assert_eq!((model.tensors().len(), model.faults().count()), (2, 1));
}

#[test]
fn invalid_responses_are_rejected() {
    type Wrong = fn(&Request, &Reply) -> Reply;
    let wrongs: [(Wrong, &str); 7] = [
        (|_, right| right.clone().without("content-range"), "206 without Content-Range"),
        (
            |_, right| right.clone().with("content-range", "bytes 0-9/5"),
            "206 with Content-Range \"bytes 0-9/5\"",
        ),
        (
            |_, right| right.clone().with("content-range", "bytes 5-9/100"),
            "the response contains bytes 5 to 10",
        ),
        (
            |_, right| right.clone().with("content-range", "bytes 0-9/*"),
            "does not specify the length of the file",
        ),
        (
            |_, right| right.clone().with("content-encoding", "gzip"),
            "the response is compressed (gzip)",
        ),
        (|_, _| Reply::status(416), "the response is 416"),
        (|_, _| Reply::status(304), "the response is 304"),
    ];
    for (wrong, text) in wrongs {
        let server = server(move |request, right| Some(wrong(request, right)));
        let error = open_error(&server);
        assert_eq!(error.kind(), ErrorKind::Protocol);
        assert!(
            error.to_string().contains("bytes 0 to 524288 were requested")
                && error.to_string().contains(text),
            "{error}"
        );
        assert_eq!(server.requests().len(), 1);
    }
    let other = server(|request, right| {
        is_later(request).then(|| right.clone().with("content-range", "bytes 0-9/5000000"))
    });
    assert!(matches!(open_error(&other).kind(), ErrorKind::Protocol | ErrorKind::Changed));
}

#[test]
fn more_bytes_than_requested_are_rejected() {
    let file = sample();
    let server = Server::start(move |request| {
        let (start, end) = request.range().unwrap();
        let end = (end + 100).min(file.len());
        Reply::status(206)
            .with("content-range", format!("bytes {start}-{}/{}", end - 1, file.len()))
            .with_body(&file[start..end])
    });
    assert_eq!(open_error(&server).kind(), ErrorKind::Protocol);
}

#[test]
fn the_rest_of_a_short_range_is_requested() {
    let file = sample();
    let bytes = Arc::clone(&file);
    let server = Server::start(move |request| {
        let (start, end) = request.range().unwrap();
        let end = end.min(bytes.len()).min(start + 300_000);
        Reply::status(206)
            .with("content-range", format!("bytes {start}-{}/{}", end - 1, bytes.len()))
            .with_body(&bytes[start..end])
    });
    let model = client().open(&at(&server)).unwrap();
    assert_eq!(model.metadata().str("test.long").unwrap().len(), 1_500_000);
}

#[test]
fn a_file_without_a_length_is_rejected() {
    let server = Server::start(|_| {
        Reply::status(200)
            .with("transfer-encoding", "chunked")
            .with_body("5\r\nGGUF\x03\r\n0\r\n\r\n")
    });
    let error = open_error(&server);
    assert!(
        error.to_string().ends_with("the response does not specify the length of the file"),
        "{error}"
    );
}

#[test]
fn a_slow_server_times_out() {
    let slow = server(|_, right| Some(right.clone().late(Duration::from_millis(300))));
    client().open(&at(&slow)).unwrap();
    let patience = options().with_patience(Duration::from_millis(100));
    let impatient = Client::new(patience).unwrap();
    let began = Instant::now();
    let error = impatient.open(&at(&slow)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!(error.to_string().contains("did not respond within 0.1 seconds, 3 times"), "{error}");
    assert!(began.elapsed() < Duration::from_secs(3));
}

#[test]
fn a_refused_connection_is_not_retried() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let began = Instant::now();
    let error = client().open(&location(&format!("http://{address}/m.gguf"))).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!(error.to_string().ends_with(&format!("{address} refused the connection")), "{error}");
    let error = client().open(&location("http://host.invalid/m.gguf")).unwrap_err();
    assert_eq!(error.advice(), Some(&Advice::Host), "{error}");
    assert!(began.elapsed() < Duration::from_secs(4));
}

#[test]
fn the_number_of_redirects_is_limited() {
    let file = sample();
    let server = Server::start(move |request| match request.path.as_str() {
        "/m.gguf" => Reply::redirect("/a"),
        "/a" => Reply::redirect("b?sig=1"),
        "/b?sig=1" => Reply::file(&file, request),
        "/loop" => Reply::redirect("/loop"),
        _ => Reply::redirect("file:///etc/passwd"),
    });
    let model = client().open(&at(&server)).unwrap();
    assert_eq!(model.tensors().len(), 2);
    // After the first request, the redirected URL is requested directly.
    let paths: Vec<String> = server.requests().into_iter().map(|request| request.path).collect();
    assert_eq!(paths, ["/m.gguf", "/a", "/b?sig=1", "/b?sig=1"]);
    let round = client().open(&location(&server.url("/loop"))).unwrap_err();
    assert!(round.to_string().ends_with("more than 10 redirects in a row"), "{round}");
    let away = client().open(&location(&server.url("/away"))).unwrap_err();
    assert!(away.to_string().contains("the redirect leads to \"file:///etc/passwd\""), "{away}");
}

#[test]
fn an_expired_redirect_is_followed_again() {
    let file = sample();
    let server = Server::start(move |request| {
        // Each redirected URL is valid for two requests.
        match request.path.strip_prefix("/file?") {
            None => Reply::redirect(format!("/file?{}", request.number)),
            Some(made) if request.number <= made.parse::<usize>().unwrap() + 2 => {
                Reply::file(&file, request)
            }
            Some(_) => Reply::status(403),
        }
    });
    let model = client().open(&at(&server)).unwrap();
    for name in ["blk.0", "blk.1", "blk.0", "blk.1"] {
        assert_eq!(model.read_tensor(&model.tensor(name).unwrap()).unwrap().len(), 4 << 20);
    }
}

#[test]
fn a_page_instead_of_a_file_is_not_gguf() {
    let page = b"<!DOCTYPE html><html></html>";
    let server = Server::start(|request| Reply::file(page, request));
    let error = open_error(&server);
    assert_eq!(error.kind(), ErrorKind::Format(ggmill_core::ErrorKind::NotGguf));
}

/// A server that sends one byte at a time, in the headers or in the body, does not hold a client
/// forever, although each byte comes within the client's patience.
#[test]
fn a_minimum_rate_is_required() {
    use std::io::{Read as _, Write as _};
    for (beginning, slow) in [
        (
            "HTTP/1.1 206 x\r\ncontent-length: 100000\r\ncontent-range: bytes 0-99999/100000\r\n\r\n",
            "x",
        ),
        ("HTTP/1.1 200 x\r\ncontent-length: 100000\r\n\r\n", "x"),
        ("HTTP/1.1 403 x\r\ncontent-length: 100000\r\n\r\n", "x"),
        ("HTTP/1.1 206 x\r\n", "x"),
    ] {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let Ok(mut stream) = stream else { return };
                std::thread::spawn(move || {
                    let _ = stream.read(&mut [0; 1024]);
                    let _ = stream.write_all(beginning.as_bytes());
                    while stream.write_all(slow.as_bytes()).is_ok() {
                        std::thread::sleep(Duration::from_millis(20));
                    }
                });
            }
        });
        let options = options().with_patience(Duration::from_millis(300));
        let client = Client::new(options).unwrap();
        let begun = Instant::now();
        client.open(&location(&format!("http://{address}/m.gguf"))).unwrap_err();
        assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    }
}
