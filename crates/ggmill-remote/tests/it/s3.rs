//! S3: addresses, signatures, regions, error responses.

use ggmill_remote::{Advice, Client, ErrorKind, S3Credentials, S3Options, Secret};
use ggmill_testdata::server::{Reply, Server};

use crate::{file, location, options};

fn client(server: &Server, keys: bool) -> Client {
    let keys = keys
        .then(|| S3Credentials::new("KEY", Secret::new("hidden"), Some(Secret::new("session"))));
    let s3 = S3Options::default().with_endpoint(Some(server.url(""))).with_credentials(keys);
    Client::new(options().with_s3(s3)).unwrap()
}

#[test]
fn objects_are_requested_with_or_without_a_signature() {
    let bytes = file(600_000, 2, 100);
    let server = Server::start(move |request| Reply::file(&bytes, request));
    for keys in [true, false] {
        server.forget();
        let model = client(&server, keys).open(&location("s3://bucket/a b/m.gguf")).unwrap();
        assert_eq!(model.tensors().len(), 2);
        assert_eq!(server.requests().len(), 2);
        for request in server.requests() {
            assert_eq!(request.path, "/bucket/a%20b/m.gguf");
            let authorization = request.field("authorization");
            assert_eq!(authorization.is_some(), keys);
            assert_eq!(request.field("x-amz-security-token").is_some(), keys);
            if let Some(text) = authorization {
                assert!(text.contains("Credential=KEY/") && text.contains("/us-east-1/s3/aws4_request, SignedHeaders=host;x-amz-content-sha256;x-amz-date;x-amz-security-token, "), "{text}");
                assert!(!format!("{request:?}").contains("hidden"));
            }
        }
    }
}

#[test]
fn a_signature_does_not_follow_a_redirect() {
    let bytes = file(1000, 1, 10);
    let other = Server::start(move |request| Reply::file(&bytes, request));
    let target = other.url("/x");
    let server = Server::start(move |_| Reply::redirect(target.as_str()));
    client(&server, true).open(&location("s3://bucket/m.gguf")).unwrap();
    let [request] = &*other.requests() else { panic!("one request") };
    assert!(request.field("authorization").is_none() && request.field("x-amz-date").is_none());
}

#[test]
fn a_bucket_is_requested_in_its_region() {
    let bytes = file(1000, 1, 10);
    let server = Server::start(move |request| match request.field("authorization") {
        Some(text) if text.contains("/eu-north-1/") => Reply::file(&bytes, request),
        _ => Reply::status(400).with("x-amz-bucket-region", "eu-north-1"),
    });
    let client = client(&server, true);
    client.open(&location("s3://bucket/m.gguf")).unwrap();
    client.open(&location("s3://bucket/m.gguf")).unwrap();
    assert_eq!(server.requests().len(), 3);
}

#[test]
fn after_a_redirect_to_another_region_the_request_is_signed_for_it() {
    for status in [301, 302, 307, 403] {
        let bytes = file(1000, 1, 10);
        let other = Server::start(|_| Reply::status(403));
        let target = other.url("/x");
        let server = Server::start(move |request| match request.field("authorization") {
            Some(text) if text.contains("/eu-north-1/") => Reply::file(&bytes, request),
            _ => Reply::status(status)
                .with("location", target.as_str())
                .with("x-amz-bucket-region", "eu-north-1"),
        });
        client(&server, true).open(&location("s3://bucket/m.gguf")).unwrap();
        assert_eq!((server.requests().len(), other.requests().len()), (2, 0), "{status}");
    }
    // A redirect that names the region in use is followed, without a signature.
    let bytes = file(1000, 1, 10);
    let other = Server::start(move |request| Reply::file(&bytes, request));
    let target = other.url("/x");
    let server = Server::start(move |_| {
        Reply::redirect(target.as_str()).with("x-amz-bucket-region", "us-east-1")
    });
    client(&server, true).open(&location("s3://bucket/m.gguf")).unwrap();
    assert_eq!(other.requests()[0].field("authorization"), None);
}

#[test]
fn error_responses_have_advice() {
    let server = Server::start(|_| {
        Reply::status(403)
            .with_body("<Error><Code>AccessDenied</Code><Message>No.</Message></Error>")
    });
    for (keys, advice) in [(true, Advice::OtherS3Credentials), (false, Advice::S3Credentials)] {
        let error = client(&server, keys).open(&location("s3://bucket/m.gguf")).unwrap_err();
        assert_eq!((error.kind(), error.advice()), (ErrorKind::Denied, Some(&advice)));
        assert!(
            error
                .to_string()
                .ends_with("s3://bucket/m.gguf: the response is 403, forbidden: AccessDenied: No."),
            "{error}"
        );
    }
    // A region that has been tried is not retried.
    let lost = Server::start(|_| Reply::status(301).with("x-amz-bucket-region", "eu-north-1"));
    let error = client(&lost, true).open(&location("s3://bucket/m.gguf")).unwrap_err();
    assert_eq!(error.status(), Some(301), "{error}");
    assert_eq!(lost.requests().len(), 2);
}
