//! The Hub: addresses, commits, advice about error responses.

use ggmill_remote::{Advice, Client, ErrorKind, Secret};
use ggmill_testdata::server::{Reply, Server};

use crate::{file, location, options, shard};

const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";

fn client(hub: &Server, token: Option<&str>) -> Client {
    let token = token.map(Secret::new);
    Client::new(options().with_hub_endpoint(hub.url("/hub/")).with_hub_token(token)).unwrap()
}

#[test]
fn locations_have_urls() {
    let bytes = file(1000, 1, 10);
    let hub = Server::start(move |request| Reply::file(&bytes, request));
    for (name, path) in [
        ("hf://a/b/c.gguf", "/hub/a/b/resolve/main/c.gguf"),
        ("hf://a/b@v1/d e/c.gguf", "/hub/a/b/resolve/v1/d%20e/c.gguf"),
        ("hf://datasets/a/b@refs/pr/3/c.gguf", "/hub/datasets/a/b/resolve/refs%2Fpr%2F3/c.gguf"),
        ("https://huggingface.co/a/b/blob/main/c.gguf", "/hub/a/b/resolve/main/c.gguf"),
    ] {
        hub.forget();
        client(&hub, None).open(&location(name)).unwrap();
        assert_eq!(hub.requests()[0].path, path);
        assert_eq!(hub.requests()[0].field("authorization"), None);
    }
    let error = client(&hub, None).open(&location("hf://a/b")).unwrap_err();
    assert_eq!(
        (error.kind(), error.advice()),
        (ErrorKind::Address, Some(&Advice::FileInRepository))
    );
}

#[test]
fn all_files_are_read_at_one_commit() {
    let hub = Server::start(move |request| {
        let number: u16 = request.path.split("m-").nth(1).unwrap()[..5].parse().unwrap();
        Reply::file(&shard(number, 3), request).with("x-repo-commit", COMMIT)
    });
    let model = client(&hub, None).open(&location("hf://a/b/m-00001-of-00003.gguf")).unwrap();
    assert_eq!(model.tensors().len(), 6);
    let paths: Vec<String> = hub.requests().into_iter().map(|request| request.path).collect();
    assert!(paths[0].contains("/resolve/main/"));
    assert!(
        paths[1..].iter().all(|path| path.contains(&format!("/resolve/{COMMIT}/"))),
        "{paths:?}"
    );
}

#[test]
fn error_responses_have_advice() {
    type Case = (u16, Option<&'static str>, Option<&'static str>, Option<Advice>, ErrorKind);
    let cases: [Case; 6] = [
        (401, Some("RepoNotFound"), None, Some(Advice::HubToken), ErrorKind::Denied),
        (401, None, Some("t"), Some(Advice::OtherHubToken), ErrorKind::Denied),
        (401, Some("GatedRepo"), None, Some(Advice::HubToken), ErrorKind::Denied),
        (403, Some("GatedRepo"), Some("t"), None, ErrorKind::Denied),
        (404, Some("EntryNotFound"), None, None, ErrorKind::NotFound),
        (404, Some("RevisionNotFound"), Some("t"), None, ErrorKind::NotFound),
    ];
    for (status, code, token, advice, kind) in cases {
        let hub = Server::start(move |_| {
            let reply = Reply::status(status).with("x-error-message", "Said by the Hub");
            match code {
                Some(code) => reply.with("x-error-code", code),
                None => reply,
            }
        });
        let error = client(&hub, token).open(&location("hf://a/b/c.gguf")).unwrap_err();
        let gated = (status, code) == (403, Some("GatedRepo"));
        let advice = if gated { Some(Advice::Gated { page: hub.url("/hub/a/b") }) } else { advice };
        assert_eq!((error.kind(), error.advice()), (kind, advice.as_ref()), "{error}");
        assert!(error.to_string().ends_with(": Said by the Hub"), "{error}");
        assert_eq!(hub.requests().len(), 1);
    }
}

#[test]
fn an_error_of_another_host_is_not_explained_as_the_hubs() {
    let cdn = Server::start(|_| Reply::status(403));
    let target = cdn.url("/x");
    let hub = Server::start(move |_| Reply::redirect(target.as_str()));
    let error = client(&hub, Some("t")).open(&location("hf://a/b/c.gguf")).unwrap_err();
    assert_eq!((error.status(), error.advice()), (Some(403), None));
}

#[test]
fn a_repository_is_listed_page_by_page() {
    let hub = Server::start(|request| {
        match request.path.as_str() {
        "/hub/api/models/a/b/tree/main?recursive=true" => Reply::status(200)
            .with("link", "</hub/api/models/a/b/tree/main?cursor=2>; rel=\"next\"")
            .with_body(r#"[{"type":"directory","path":"d","size":0},{"type":"file","path":"d/z.gguf","size":5}]"#),
        "/hub/api/models/a/b/tree/main?cursor=2" => Reply::status(200)
            .with_body(r#"[{"type":"file","path":"a.gguf","size":130,"lfs":{"size":7000}},{"type":"file"}]"#),
        "/hub/api/models/a/b?expand%5B%5D=gguf" => {
            Reply::status(200).with_body(r#"{"id":"a/b","gguf":{"total":1000,"architecture":"llama"}}"#)
        }
        "/hub/api/datasets/a/b/tree/v1/d?recursive=true" => Reply::status(200).with_body("[]"),
        "/hub/api/models/c/d/tree/main?recursive=true" => Reply::status(200).with_body("<html>"),
        _ => Reply::status(404),
    }
    });
    let list = |name: &str| client(&hub, Some("t")).list(&location(name));
    let found = list("hf://a/b").unwrap();
    let files: Vec<_> = found.files.iter().map(|file| (file.path.as_str(), file.bytes)).collect();
    assert_eq!((&*files, found.parameters), (&[("a.gguf", 7000), ("d/z.gguf", 5)][..], Some(1000)));
    assert_eq!(list("hf://datasets/a/b@v1/d").unwrap().files, []);
    assert!(list("hf://c/d").unwrap_err().to_string().ends_with("is not JSON"));
    assert_eq!(list("hf://e/f").unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(list("https://example.com/x").unwrap_err().kind(), ErrorKind::Address);
}

/// A listing of two pages, the second at `link`, without GGUF metadata.
fn two_pages(link: &'static str) -> Server {
    Server::start(move |request| match request.path.as_str() {
        "/hub/api/models/a/b/tree/main?recursive=true" => Reply::status(200)
            .with("link", format!("<{link}>; rel=\"next\""))
            .with_body(r#"[{"type":"file","path":"z.gguf","size":5}]"#),
        "/hub/api/models/a/b/tree/main?cursor=2" => {
            Reply::status(200).with_body(r#"[{"type":"file","path":"a.gguf","size":6}]"#)
        }
        _ => Reply::status(404),
    })
}

#[test]
fn a_listing_is_complete_or_an_error() {
    // A page at the URL of the Hub is requested from the mirror, with the token.
    for link in [
        "https://huggingface.co/api/models/a/b/tree/main?cursor=2",
        "?cursor=2",
        "/hub/api/models/a/b/tree/main?cursor=2",
    ] {
        let hub = two_pages(link);
        let found = client(&hub, Some("t")).list(&location("hf://a/b")).unwrap();
        let paths: Vec<_> = found.files.iter().map(|file| file.path.as_str()).collect();
        assert_eq!((&*paths, found.parameters), (&["a.gguf", "z.gguf"][..], None), "{link}");
        assert!(hub.requests().iter().all(|request| request.field("authorization").is_some()));
    }
    for (link, shown) in [
        ("http://other.invalid/x", "http://other.invalid/x"),
        ("https://u:secret@h/x?cursor=2", "https://…@h/x?…"),
        ("?recursive=true", "?…"),
        ("ftp://h/?cursor=2", "ftp://h/?…"),
    ] {
        let error = client(&two_pages(link), None).list(&location("hf://a/b")).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Protocol);
        let text =
            format!("the listing of the repository continues at the unexpected address {shown:?}");
        assert!(error.to_string().ends_with(&text), "{error}");
    }
    // Every page has a next page.
    let endless = Server::start(|request| {
        Reply::status(200)
            .with("link", format!("<?cursor={}>; rel=\"next\"", request.number))
            .with_body("[]")
    });
    let error = client(&endless, None).list(&location("hf://a/b")).unwrap_err();
    assert!(error.to_string().ends_with("has more than 1000 pages"), "{error}");
}

#[test]
fn an_interrupted_page_is_requested_again() {
    for cut in [0, 1, 10] {
        let page = r#"[{"type":"file","path":"z.gguf","size":5}]"#;
        let hub = Server::start(move |request| {
            let reply = Reply::status(200).with_body(page);
            if request.number < 2 { reply.cut_after(cut) } else { reply }
        });
        let found = client(&hub, None).list(&location("hf://a/b")).unwrap();
        assert_eq!((found.files.len(), found.parameters), (1, None));

        let never = Server::start(move |_| Reply::status(200).with_body(page).cut_after(cut));
        let error = client(&never, None).list(&location("hf://a/b")).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable);
        let text = format!("the connection was interrupted {cut} bytes into the listing, 3 times");
        assert!(error.to_string().ends_with(&text), "{error}");
    }
}

#[test]
fn an_invalid_page_is_rejected() {
    for (page, text) in [
        ("[0, 0]", "is not a list of files"),
        ("{}", "is not a list of files"),
        (r#"[{"type":"file","path":"x","size":-1}]"#, "is not a list of files"),
        ("[{]", "is not JSON"),
        ("[", "is not JSON"),
        ("", "is not JSON"),
    ] {
        let hub = Server::start(move |_| Reply::status(200).with_body(page));
        let error = client(&hub, None).list(&location("hf://a/b")).unwrap_err();
        assert!(error.to_string().ends_with(text), "{page}: {error}");
    }
}
