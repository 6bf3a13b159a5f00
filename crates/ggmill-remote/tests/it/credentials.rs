//! Which hosts receive credentials.

use std::sync::Arc;

use ggmill_remote::{Client, ErrorKind, Location, Proxies, S3Options, Secret};
use ggmill_testdata::server::{Reply, Request, Server};

use crate::{file, location, options};

fn with_token(hub: &Server) -> Client {
    Client::new(
        options().with_hub_endpoint(hub.url("")).with_hub_token(Some(Secret::new("hf_secret\n"))),
    )
    .unwrap()
}

#[test]
fn a_token_is_sent_to_its_host_and_not_after_a_redirect() {
    let bytes = file(1_000_000, 1, 10);
    let other = {
        let bytes = Arc::clone(&bytes);
        Server::start(move |request| Reply::file(&bytes, request))
    };
    let target = other.url("/blob?signature=1");
    let hub = Server::start(move |request| match request.path.as_str() {
        "/a/b/resolve/main/m.gguf" => Reply::redirect("/api/resolve/m"),
        "/api/resolve/m" => Reply::redirect(target.as_str()),
        _ => Reply::status(404),
    });
    with_token(&hub).open(&location("hf://a/b/m.gguf")).unwrap();
    let tokens: Vec<_> = hub
        .requests()
        .iter()
        .map(|request| request.field("authorization").map(str::to_owned))
        .collect();
    assert_eq!(tokens, [Some("Bearer hf_secret".to_owned()), Some("Bearer hf_secret".to_owned())]);
    assert_eq!(other.requests().len(), 2);
    assert!(other.requests().iter().all(|request| request.field("authorization").is_none()));
    // It is not sent to other addresses either.
    other.forget();
    with_token(&hub).open(&location(&other.url("/blob"))).unwrap();
    assert!(other.requests().iter().all(|request| request.field("authorization").is_none()));
}

#[test]
fn a_token_is_not_shown() {
    let client = Client::new(options().with_hub_token(Some(Secret::new("hf_secret")))).unwrap();
    assert!(!format!("{client:?}").contains("hf_secret"));
}

#[test]
fn debug_output_has_no_secrets() {
    let proxy = || Some("http://user:secret@proxy.invalid:3128".to_owned());
    let s3 = S3Options::default().with_endpoint(Some("http://me:secret@s3.invalid/".to_owned()));
    let options = options()
        .with_proxies(Proxies::new(proxy(), proxy(), ""))
        .with_hub_endpoint("https://hub.invalid/?secret")
        .with_s3(s3);
    let place = location("https://example.com/m.gguf?X-Amz-Signature=secret");
    let client = Client::new(options.clone()).unwrap();
    for text in [format!("{options:?}"), format!("{client:?}"), format!("{place:?}")] {
        assert!(!text.contains("secret"), "{text}");
        assert!(
            text.contains("proxy.invalid:3128") || text.contains("example.com/m.gguf"),
            "{text}"
        );
    }
}

#[test]
fn an_invalid_address_is_shown_without_its_secrets() {
    let address = "https://user:secret@example.com/x.gguf?sig=secret";
    let refused = Location::parse(address).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "https://…@example.com/x.gguf?…: expected a URL without user name and password"
    );
    for endpoint in ["https://me:secret@mirror", "https://m:99999/?token=secret"] {
        let error = Client::new(options().with_hub_endpoint(endpoint)).unwrap_err();
        assert!(!error.to_string().contains("secret"), "{error}");
    }
    let error = Client::new(options().with_proxies(Proxies::new(
        Some("gopher://user:secret@proxy".to_owned()),
        None,
        "",
    )));
    assert!(!error.unwrap_err().to_string().contains("secret"));
    let server = Server::start(|_| Reply::redirect("https://user:secret@cdn/x?sig=secret"));
    let error = crate::client().open(&crate::at(&server)).unwrap_err();
    assert!(error.to_string().contains("leads to \"https://…@cdn/x?…\""), "{error}");
    assert!(!format!("{error} {error:?}").contains("secret"), "{error:?}");
}

/// A proxy that responds for all hosts and records the requests in its tunnels.
fn recording_proxy() -> Server {
    let bytes = file(1000, 1, 10);
    Server::start(move |request| match request.method.as_str() {
        "CONNECT" => Reply::status(200),
        _ => Reply::file(&bytes, request),
    })
}

/// Returns the requests that a proxy records for a Hub at an endpoint.
fn recorded_by_a_proxy(endpoint: &str, except: &str) -> Vec<Request> {
    let proxy = recording_proxy();
    let options = options()
        .with_hub_endpoint(endpoint)
        .with_hub_token(Some(Secret::new("hf_secret")))
        .with_proxies(Proxies::new(Some(proxy.url("")), None, except));
    let opened = Client::new(options).unwrap().open(&location("hf://a/b/m.gguf"));
    assert_eq!(opened.is_ok(), except.is_empty());
    proxy.requests().into_iter().filter(|request| request.method != "CONNECT").collect()
}

#[test]
fn a_token_is_not_sent_without_encryption_to_another_machine() {
    // Requests to a proxy leave this machine, and its `localhost` is another machine.
    for endpoint in ["http://hub.invalid", "http://localhost:9", "http://127.0.0.1:9"] {
        let seen = recorded_by_a_proxy(endpoint, "");
        assert_eq!(seen.len(), 1, "{endpoint}");
        assert_eq!(seen[0].path, "/a/b/resolve/main/m.gguf");
        assert!(!format!("{seen:?}").contains("hf_secret"), "{seen:?}");
    }
    assert_eq!(recorded_by_a_proxy("http://localhost:9", "localhost").len(), 0);
    // If this machine is excluded from the proxy, the token is sent.
    let hub = recording_proxy();
    let elsewhere = Proxies::new(Some("http://proxy.invalid".to_owned()), None, "127.0.0.1");
    for proxies in [Proxies::default(), elsewhere] {
        hub.forget();
        let options = options()
            .with_hub_endpoint(hub.url(""))
            .with_hub_token(Some(Secret::new("hf_secret")))
            .with_proxies(proxies);
        Client::new(options).unwrap().open(&location("hf://a/b/m.gguf")).unwrap();
        assert_eq!(hub.requests()[0].field("authorization"), Some("Bearer hf_secret"));
    }
}

/// A SOCKS5 proxy for one connection, which connects to `to` for every request.
fn socks_proxy(to: &str) -> String {
    use std::io::{Read as _, Write as _};
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let to = to.strip_prefix("http://").unwrap().to_owned();
    std::thread::spawn(move || {
        let (mut inner, _) = listener.accept().unwrap();
        let mut read = |count: usize| {
            let mut bytes = vec![0; count];
            inner.read_exact(&mut bytes).map(|()| bytes)
        };
        let greeting = read(2).unwrap();
        read(usize::from(greeting[1])).unwrap();
        inner.write_all(&[5, 0]).unwrap();
        let mut read = |count: usize| {
            let mut bytes = vec![0; count];
            inner.read_exact(&mut bytes).map(|()| bytes)
        };
        let asked = read(5).unwrap();
        // The rest of an address of four bytes, or a name of the length just read; then a port.
        let rest = if asked[3] == 3 { usize::from(asked[4]) } else { 3 };
        read(rest + 2).unwrap();
        inner.write_all(&[5, 0, 0, 1, 127, 0, 0, 1, 0, 9]).unwrap();
        let outer = std::net::TcpStream::connect(to).unwrap();
        let (mut from_inner, mut to_outer) =
            (inner.try_clone().unwrap(), outer.try_clone().unwrap());
        std::thread::spawn(move || std::io::copy(&mut from_inner, &mut to_outer));
        let _ = std::io::copy(&mut &outer, &mut inner);
    });
    address.to_string()
}

#[test]
fn a_socks_proxy_is_used() {
    let bytes = file(1000, 1, 10);
    let server = Server::start(move |request| Reply::file(&bytes, request));
    let address = socks_proxy(&server.url(""));
    let proxies = Proxies::new(Some(format!("socks5h://{address}")), None, "");
    let client = Client::new(options().with_proxies(proxies)).unwrap();
    client.open(&location("http://models.invalid/m.gguf")).unwrap();
    assert_eq!(server.requests()[0].field("host"), Some("models.invalid"));
    // A proxy that does not respond is an error, for either scheme.
    for scheme in ["socks4", "socks4a", "socks5", "socks5h", "http"] {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        drop(listener);
        let proxy = || Some(format!("{scheme}://{address}"));
        let client =
            Client::new(options().with_proxies(Proxies::new(proxy(), proxy(), ""))).unwrap();
        for place in ["http://127.0.0.1/m.gguf", "https://127.0.0.1/m.gguf"] {
            let error = client.open(&location(place)).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Unavailable);
            let text = format!("the proxy {address} refused the connection");
            assert!(error.to_string().ends_with(&text), "{scheme}: {error}");
        }
    }
}

#[test]
fn a_proxy_is_not_used_for_excluded_hosts() {
    let bytes = file(1000, 1, 10);
    let server = Server::start(move |request| Reply::file(&bytes, request));
    let proxies = || Some("http://proxy.invalid:3128".to_owned());
    let through = options().with_proxies(ggmill_remote::Proxies::new(proxies(), proxies(), ""));
    assert!(Client::new(through).unwrap().open(&crate::at(&server)).is_err());
    let around = options().with_proxies(ggmill_remote::Proxies::new(
        proxies(),
        proxies(),
        "x.org, 127.0.0.1",
    ));
    Client::new(around).unwrap().open(&crate::at(&server)).unwrap();
    let wrong =
        options().with_proxies(ggmill_remote::Proxies::new(Some("ht!tp:/".to_owned()), None, ""));
    assert!(Client::new(wrong).is_err());
}

/// A server that sends the token back, in whatever field, does not get it into a message.
#[test]
fn a_token_that_a_server_repeats_is_not_shown() {
    let token = "hf_verysecrettoken";
    for (status, name) in [
        (403, "x-error-message"),
        (404, "x-error-message"),
        (401, "x-error-code"),
        (206, "content-range"),
        (206, "content-encoding"),
        (206, "etag"),
        (302, "location"),
        (200, "link"),
        (429, "retry-after"),
    ] {
        let hub = Server::start(move |request| {
            let said = request.field("authorization").unwrap_or_default().to_owned();
            let said = if name == "location" { format!("ftp://{}/x", &said[7..]) } else { said };
            let upper = said.to_uppercase();
            let said = if request.number % 2 == 0 { said } else { upper };
            Reply::status(status).with(name, &*said)
        });
        let client = Client::new(
            options().with_hub_endpoint(hub.url("")).with_hub_token(Some(Secret::new(token))),
        )
        .unwrap();
        for place in ["hf://a/b/m.gguf", "hf://a/b/n.gguf"] {
            let error = client.open(&location(place)).unwrap_err();
            let said = format!("{error} {error:?}").to_lowercase();
            assert!(!said.contains(token), "{status} {name}: {said}");
        }
        let listed = client.list(&location("hf://a/b"));
        let said = format!("{listed:?}").to_lowercase();
        assert!(!said.contains(token), "{status} {name}: {said}");
    }
}
