//! Who gets to see a token.

use std::sync::{Arc, Mutex};

use ggmill_remote::{Client, Secret};
use ggmill_testdata::server::{Reply, Server};

use crate::{file, location, options};

fn with_token(hub: &Server) -> Client {
    Client::new(
        options().with_hub_endpoint(hub.url("")).with_hub_token(Some(Secret::new("hf_secret\n"))),
    )
    .unwrap()
}

#[test]
fn a_token_goes_to_its_host_and_not_along_a_redirect() {
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
    // Nor does any other address get it.
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
fn a_token_is_not_sent_without_encryption_to_another_machine() {
    // A proxy sees what leaves this machine.
    let seen = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&seen);
    let proxy = Server::start(move |request| {
        log.lock().unwrap().push(format!("{request:?}"));
        Reply::status(403)
    });
    let proxies = ggmill_remote::Proxies::new(Some(proxy.url("")), None, "");
    let options = options()
        .with_hub_endpoint("http://hub.invalid")
        .with_hub_token(Some(Secret::new("hf_secret")))
        .with_proxies(proxies);
    assert!(Client::new(options).unwrap().open(&location("hf://a/b/m.gguf")).is_err());
    let seen = seen.lock().unwrap();
    assert!(!seen.is_empty() && !seen.iter().any(|text| text.contains("hf_secret")), "{seen:?}");
}

#[test]
fn a_proxy_is_not_used_for_the_hosts_it_is_not_for() {
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
