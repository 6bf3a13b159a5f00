//! `ggmill web`: what its server gives, and what it refuses.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Stdio};

use crate::support::{Directory, command, ggmill};

/// A running server, which ends with the value.
struct Running {
    child: Child,
    /// `127.0.0.1:PORT`.
    host: String,
    /// `/TOKEN/`.
    prefix: String,
    /// What follows `#` in the address.
    fragment: String,
}

impl Running {
    fn start(directory: &Directory, args: &[&str]) -> Self {
        let mut child = command(directory.path())
            .arg("web")
            .args(args)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let (page, fragment) = line.trim_end().split_once('#').unwrap_or((line.trim_end(), ""));
        let (host, path) = page.strip_prefix("http://").unwrap().split_once('/').unwrap();
        let (host, prefix) = (host.to_owned(), format!("/{path}"));
        Self { child, host, prefix, fragment: fragment.to_owned() }
    }

    /// The status, the fields and the body of the answer to a request.
    fn ask(&self, method: &str, path: &str, host: &str, more: &str) -> (u16, String, Vec<u8>) {
        let mut stream = TcpStream::connect(&self.host).unwrap();
        write!(
            stream,
            "{method} {path} HTTP/1.1\r\nHost: {host}\r\n{more}Connection: close\r\n\r\n"
        )
        .unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        let end = answer.windows(4).position(|bytes| bytes == b"\r\n\r\n").unwrap();
        let head = String::from_utf8(answer[..end].to_vec()).unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        (status, head.to_lowercase(), answer[end + 4..].to_vec())
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

/// A directory with a page, a model with an odd name, a set of two shards, and a secret.
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
    assert!(head.contains("content-security-policy: default-src 'none'"), "{head}");
    let (status, head, _) = server.get("assets/a.js", "");
    assert!(status == 200 && head.contains("content-type: text/javascript"), "{head}");
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
    for path in ["/", "/index.html", "/model/a%20model%20%231%25.gguf", "/0123456789abcdef/"] {
        assert_eq!(server.ask("GET", path, &server.host, "").0, 404, "{path}");
    }
    // By a name that leads here.
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

#[test]
fn tokens_differ_and_a_set_is_served_whole() {
    let directory = directory();
    let args = ["set-00002-of-00002.gguf", "--page", "page"];
    let (server, other) = (Running::start(&directory, &args), Running::start(&directory, &args));
    assert_ne!(server.prefix, other.prefix);
    assert_eq!(server.fragment, "open=model/set-00002-of-00002.gguf");
    assert_eq!(server.get("model/set-00001-of-00002.gguf", "").2, b"one");
    assert_eq!(server.get("model/set-00002-of-00002.gguf", "").2, b"two");
}

#[test]
fn what_cannot_be_shown_is_refused() {
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
