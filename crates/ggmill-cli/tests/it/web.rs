//! `ggmill web`: the requests that its server answers, and those that it rejects.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::support::{Directory, command, ggmill};

/// The timeout for an answer, on a busy machine too. It is below the server's timeout for a head.
const PATIENCE: Duration = Duration::from_secs(8);

/// A running server, which is killed on drop.
struct Running {
    child: Child,
    /// `127.0.0.1:PORT`.
    host: String,
    /// `/TOKEN/`.
    prefix: String,
    /// The fragment of the address, after `#`.
    fragment: String,
}

impl Running {
    fn start(directory: &Directory, args: &[&str]) -> Self {
        Self::of(command(directory.path()).arg("web").args(args))
    }

    fn of(command: &mut Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let (page, fragment) = line.trim_end().split_once('#').unwrap_or((line.trim_end(), ""));
        let (host, path) = page.strip_prefix("http://").unwrap().split_once('/').unwrap();
        let (host, prefix) = (host.to_owned(), format!("/{path}"));
        Self { child, host, prefix, fragment: fragment.to_owned() }
    }

    /// Returns the status, the fields and the body of the answer to a request.
    fn ask(&self, method: &str, path: &str, host: &str, more: &str) -> (u16, String, Vec<u8>) {
        let request = format!("{method} {path} HTTP/1.1\r\nHost: {host}\r\n{more}\r\n");
        let answer = read(self.send(request.as_bytes()));
        let end = answer.windows(4).position(|bytes| bytes == b"\r\n\r\n").unwrap();
        let head = String::from_utf8(answer[..end].to_vec()).unwrap().to_lowercase();
        assert!(head.contains("\r\nconnection: close"), "{head}");
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        (status, head, answer[end + 4..].to_vec())
    }

    /// Opens a connection, and sends these bytes.
    fn send(&self, bytes: &[u8]) -> TcpStream {
        let mut stream = TcpStream::connect(&self.host).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        // The server may have answered and closed the connection before all bytes were sent.
        let _ = stream.write_all(bytes);
        stream
    }

    /// Requests the page until the server answers.
    fn recovers(&self) {
        let request = format!("GET {} HTTP/1.1\r\nHost: {}\r\n\r\n", self.prefix, self.host);
        let start = Instant::now();
        while !read(self.send(request.as_bytes())).starts_with(b"HTTP/1.1 200 ") {
            assert!(start.elapsed() < PATIENCE, "the server does not answer");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    fn get(&self, path: &str, more: &str) -> (u16, String, Vec<u8>) {
        self.ask("GET", &format!("{}{path}", self.prefix), &self.host, more)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Reads the answer on a connection, up to its end or an error.
fn read(mut stream: TcpStream) -> Vec<u8> {
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    answer
}

fn is_status(answer: &[u8], status: u16) -> bool {
    answer.starts_with(format!("HTTP/1.1 {status} ").as_bytes())
}

/// Returns a directory with a page, a model with an odd name, a set of two shards, and a secret.
fn directory() -> Directory {
    let directory = Directory::new();
    let at = |name: &str| directory.path().join(name);
    fs::create_dir_all(at("page/assets")).unwrap();
    fs::write(at("page/index.html"), "<!doctype html>").unwrap();
    fs::write(at("page/assets/a.js"), "1").unwrap();
    fs::write(at("a model #1%.gguf"), b"0123456789").unwrap();
    fs::write(at("set-00001-of-00002.gguf"), b"one").unwrap();
    fs::write(at("set-00002-of-00002.gguf"), b"two").unwrap();
    fs::write(at("secret.txt"), b"secret").unwrap();
    directory
}

#[test]
fn the_page_and_the_model_are_served() {
    let directory = directory();
    let server = Running::start(&directory, &["a model #1%.gguf", "--page", "page"]);
    assert_eq!(server.prefix.len(), "/".len() + 32 + "/".len(), "{}", server.prefix);
    assert_eq!(server.fragment, "open=model/a%2520model%2520%25231%2525.gguf");
    let (status, head, body) = server.get("", "");
    assert_eq!((status, &*body), (200, &b"<!doctype html>"[..]));
    let policy = |head: &str| {
        let mut lines =
            head.lines().filter_map(|line| line.strip_prefix("content-security-policy: "));
        let policy = lines.next().unwrap().to_owned();
        assert!(
            policy.starts_with("default-src 'none'; ") && !policy.contains("inline"),
            "{policy}"
        );
        assert!(lines.next().is_none());
        policy
    };
    // The page sends no requests: its worker does, and gets the policy of its script.
    let of_page = policy(&head);
    assert!(!of_page.contains("connect-src") && !of_page.contains("eval"), "{of_page}");
    let (status, head, _) = server.get("assets/a.js", "");
    assert!(status == 200 && head.contains("content-type: text/javascript"), "{head}");
    let of_worker = policy(&head);
    assert!(of_worker.contains("connect-src 'self' https: ") && !of_worker.contains("style"));
    let model = "model/a%20model%20%231%25.gguf";
    let (status, head, body) = server.get(model, "Range: bytes=2-4\r\n");
    assert_eq!((status, &*body), (206, &b"234"[..]));
    assert!(head.contains("content-range: bytes 2-4/10"), "{head}");
    assert!(head.contains("content-length: 3") && head.contains("etag: \""), "{head}");
    assert_eq!(server.get(model, "").2, b"0123456789");
    let (status, head, _) = server.get(model, "Range: bytes=10-\r\n");
    assert!(status == 416 && head.contains("content-range: bytes */10"), "{head}");
    let path = format!("{}{model}", server.prefix);
    let (status, head, body) = server.ask("HEAD", &path, &server.host, "");
    assert!(status == 200 && body.is_empty() && head.contains("content-length: 10"), "{head}");
}

#[test]
fn nothing_else_is_served() {
    let directory = directory();
    let server = Running::start(&directory, &["a model #1%.gguf", "--page", "page"]);
    for path in [
        "secret.txt",
        "model/secret.txt",
        "model/../secret.txt",
        "model/%2e%2e/secret.txt",
        "model/..%2fsecret.txt",
        "../page/index.html",
        "%2e%2e/secret.txt",
        "model/",
        "model/set-00001-of-00002.gguf",
        "model/%ff",
        "assets/",
        "/etc/passwd",
    ] {
        let (status, _, body) = server.get(path, "");
        assert_eq!(status, 404, "{path}: {}", String::from_utf8_lossy(&body));
    }
    // Without the token.
    for path in [
        "/",
        "/index.html",
        "/model/a%20model%20%231%25.gguf",
        "/0123456789abcdef/",
        &format!("/{}/", "0".repeat(32)),
        server.prefix.trim_end_matches('/'),
    ] {
        assert_eq!(server.ask("GET", path, &server.host, "").0, 404, "{path}");
    }
    // With a host name that resolves to the server (DNS rebinding).
    let port = server.host.rsplit_once(':').unwrap().1;
    for host in ["example.org", &format!("example.org:{port}"), "127.0.0.1", "127.0.0.1:1", ""] {
        assert_eq!(server.ask("GET", &server.prefix, host, "").0, 403, "{host}");
    }
    let (status, ..) = server.ask("GET", &server.prefix, &format!("localhost:{port}"), "");
    assert_eq!(status, 200);
    for method in ["POST", "PUT", "DELETE", "OPTIONS"] {
        assert_eq!(server.ask(method, &server.prefix, &server.host, "").0, 405, "{method}");
    }
}

/// A link that replaces the file, or a directory above it, while the server runs is not followed.
#[cfg(unix)]
#[test]
fn a_link_in_place_of_the_file_is_not_followed() {
    use std::os::unix::fs::symlink;
    let directory = directory();
    let at = |name: &str| directory.path().join(name);
    fs::create_dir(at("models")).unwrap();
    fs::write(at("models/m.gguf"), b"model").unwrap();
    // A link that was there when the server started is the user's.
    symlink(at("models/m.gguf"), at("link.gguf")).unwrap();
    let server = Running::start(&directory, &["link.gguf", "--page", "page"]);
    assert_eq!(server.get("model/link.gguf", "").2, b"model");
    fs::remove_file(at("models/m.gguf")).unwrap();
    symlink(at("secret.txt"), at("models/m.gguf")).unwrap();
    let (status, _, body) = server.get("model/link.gguf", "");
    assert!(status == 404 && !body.windows(6).any(|part| part == b"secret"));
    fs::rename(at("models"), at("moved")).unwrap();
    fs::create_dir(at("evil")).unwrap();
    fs::write(at("evil/m.gguf"), b"secret").unwrap();
    symlink(at("evil"), at("models")).unwrap();
    let (status, _, body) = server.get("model/link.gguf", "");
    assert!(status == 404 && body != b"secret");
}

#[test]
fn a_body_is_neither_awaited_nor_allocated() {
    let directory = directory();
    let server = Running::start(&directory, &["a model #1%.gguf", "--page", "page"]);
    let (host, prefix) = (&*server.host, &*server.prefix);
    // Without the token, and for a different host: requests that any program on this computer can
    // send.
    for (path, host, expected) in [("/", "x", 403), ("/", host, 405), (prefix, host, 405)] {
        for length in ["2000", "1000000000000000", "18446744073709551615", "9".repeat(40).as_str()]
        {
            let more = format!("Content-Length: {length}\r\n");
            assert_eq!(server.ask("POST", path, host, &more).0, expected, "{path} {length}");
        }
        assert_eq!(server.ask("POST", path, host, "Transfer-Encoding: chunked\r\n").0, expected);
    }
    // Bodies that are announced and never sent, on connections that stay open.
    let request = format!("POST / HTTP/1.1\r\nHost: {host}\r\nContent-Length: 2000\r\n\r\n");
    let mut waiting: Vec<_> = (0..16).map(|_| server.send(request.as_bytes())).collect();
    assert_eq!(server.get("", "").0, 200);
    for stream in &mut waiting {
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        assert!(is_status(&answer, 405), "{}", String::from_utf8_lossy(&answer));
    }
    // A body that is sent.
    let request = format!("{request}{}", "b".repeat(2000));
    assert!(is_status(&read(server.send(request.as_bytes())), 405));
    // A second request on the connection is not read.
    let request = format!("GET {prefix} HTTP/1.1\r\nHost: {host}\r\n\r\n");
    let answer = String::from_utf8(read(server.send(request.repeat(2).as_bytes()))).unwrap();
    assert_eq!(answer.matches("HTTP/1.1 200 ").count(), 1, "{answer}");
}

#[test]
fn the_length_of_a_head_is_limited() {
    let directory = directory();
    let server = Running::start(&directory, &["a model #1%.gguf", "--page", "page"]);
    let start = format!("GET {} HTTP/1.1\r\nHost: {}\r\nX: ", server.prefix, server.host);
    let of_length = |len: usize| format!("{start}{}\r\n\r\n", "x".repeat(len - start.len() - 4));
    assert!(is_status(&read(server.send(of_length(16 << 10).as_bytes())), 200));
    for len in [(16 << 10) + 1, 40 << 10] {
        assert!(is_status(&read(server.send(of_length(len).as_bytes())), 431), "{len}");
    }
    // A field and a request line without an end.
    for start in [&*start, "GET /"] {
        let endless = format!("{start}{}", "x".repeat(20 << 10));
        assert!(is_status(&read(server.send(endless.as_bytes())), 431));
    }
    assert!(is_status(&read(server.send(b"nonsense\r\n\r\n")), 400));
    assert_eq!(server.get("", "").0, 200);
}

#[test]
fn connections_are_limited_and_freed() {
    let directory = directory();
    let server = Running::start(&directory, &["a model #1%.gguf", "--page", "page"]);
    let mut idle: Vec<_> = (0..40).map(|_| server.send(b"")).collect();
    for stream in idle.drain(32..) {
        let answer = read(stream);
        assert!(is_status(&answer, 503), "{}", String::from_utf8_lossy(&answer));
    }
    // Accepted connections are still answered.
    let mut first = idle.swap_remove(0);
    write!(first, "GET {} HTTP/1.1\r\nHost: {}\r\n\r\n", server.prefix, server.host).unwrap();
    assert!(is_status(&read(first), 200));
    drop(idle);
    server.recovers();
}

#[test]
#[cfg(unix)]
fn too_many_open_files_do_not_stop_the_server() {
    let directory = directory();
    let mut shell = Command::new("sh");
    let script = r#"ulimit -n 24 && exec "$0" web --page page"#;
    shell.current_dir(directory.path()).args(["-c", script, env!("CARGO_BIN_EXE_ggmill")]);
    let server = Running::of(&mut shell);
    let idle: Vec<_> = (0..40).map(|_| server.send(b"")).collect();
    // Fewer connections than the maximum can be accepted, so none is rejected.
    idle[39].set_read_timeout(Some(Duration::from_millis(200))).unwrap();
    assert!((&idle[39]).read(&mut [0]).is_err(), "answered or closed");
    drop(idle);
    server.recovers();
}

#[test]
fn a_large_file_is_served_completely() {
    let directory = directory();
    let bytes: Vec<u8> = (0..3_000_001u32).map(|place| (place % 251) as u8).collect();
    fs::write(directory.path().join("large.gguf"), &bytes).unwrap();
    let server = Running::start(&directory, &["large.gguf", "--page", "page"]);
    let (status, head, body) = server.get("model/large.gguf", "");
    assert!(status == 200 && head.contains("content-length: 3000001"), "{head}");
    assert!(body == bytes, "{} bytes", body.len());
    let (status, _, body) = server.get("model/large.gguf", "Range: bytes=65535-2000000\r\n");
    assert!(status == 206 && body == bytes[65535..=2_000_000], "{} bytes", body.len());
    // A client that stops reading does not block others.
    let request =
        format!("GET {}model/large.gguf HTTP/1.1\r\nHost: {}\r\n\r\n", server.prefix, server.host);
    let _stalled: Vec<_> = (0..8).map(|_| server.send(request.as_bytes())).collect();
    assert_eq!(server.get("", "").0, 200);
}

#[test]
fn tokens_differ_and_all_shards_are_served() {
    let directory = directory();
    let args = ["set-00002-of-00002.gguf", "--page", "page"];
    let (server, other) = (Running::start(&directory, &args), Running::start(&directory, &args));
    assert_ne!(server.prefix, other.prefix);
    assert_eq!(server.fragment, "open=model/set-00002-of-00002.gguf");
    assert_eq!(server.get("model/set-00001-of-00002.gguf", "").2, b"one");
    assert_eq!(server.get("model/set-00002-of-00002.gguf", "").2, b"two");
}

#[test]
fn invalid_arguments_are_refused() {
    let directory = directory();
    for (args, expected) in [
        (&["none.gguf", "--page", "page"][..], "none.gguf"),
        (&["--page", "none"], "none: "),
        (&["--page", "page/assets"], "page/assets: there is no index.html"),
    ] {
        let found = ggmill(directory.path(), &[&["web"], args].concat());
        assert_eq!((found.code, &*found.stdout), (2, ""), "{args:?}");
        assert!(found.stderr.contains(expected), "{}", found.stderr);
    }
    if cfg!(feature = "remote") {
        let found = ggmill(directory.path(), &["web", "s3://bucket/a.gguf", "--page", "page"]);
        assert_eq!(found.code, 2);
        assert!(found.stderr.contains("a browser cannot read this address"), "{}", found.stderr);
    }
}

#[test]
#[cfg(feature = "remote")]
fn an_address_is_for_the_page() {
    let directory = directory();
    let server = Running::start(&directory, &["hf://a/b/c.gguf", "--page", "page"]);
    assert_eq!(server.fragment, "open=hf%3A//a/b/c.gguf");
    assert_eq!(server.get("model/c.gguf", "").0, 404);
}
