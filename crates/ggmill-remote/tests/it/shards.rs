//! Shard sets.

use ggmill_remote::ErrorKind;
use ggmill_testdata::server::{Reply, Request, Server};

use crate::{client, location, shard};

fn number(request: &Request) -> Option<u16> {
    request.path.split("m-").nth(1)?.get(..5)?.parse().ok()
}

fn set(count: u16, broken: impl Fn(u16) -> Option<Vec<u8>> + Send + Sync + 'static) -> Server {
    Server::start(move |request| match number(request) {
        Some(number) => match broken(number) {
            Some(file) if file.is_empty() => Reply::status(404),
            Some(file) => Reply::file(&file, request),
            None => Reply::file(&shard(number, count), request),
        },
        None => Reply::status(404),
    })
}

#[test]
fn nine_shards_are_opened_by_any_of_them() {
    for named in [1, 5] {
        let server = set(9, |_| None);
        let model = client()
            .open(&location(&server.url(&format!("/d/m-{named:05}-of-00009.gguf"))))
            .unwrap();
        assert_eq!((model.parts().len(), model.tensors().len()), (9, 18));
        let tensor = model.tensor("blk.19").unwrap();
        assert_eq!(model.read_tensor(&tensor).unwrap(), vec![19; 4000]);
        assert!(server.requests().len() <= 12, "{}", server.requests().len());
        let later = server.requests().into_iter().filter(|request| number(request) != Some(1));
        assert!(
            later.clone().count() == 8
                && later.into_iter().all(|request| request.range() == Some((0, 64 << 10)))
        );
    }
}

#[test]
fn the_error_of_a_set_names_the_file() {
    let wrong = |broken: fn(u16) -> Option<Vec<u8>>| {
        let server = set(4, broken);
        client().open(&location(&server.url("/m-00001-of-00004.gguf"))).unwrap_err()
    };
    let missing = wrong(|number| (number > 2).then(Vec::new));
    assert_eq!(missing.kind(), ErrorKind::Shards);
    assert!(
        missing.to_string().ends_with("/m-00003-of-00004.gguf: missing: shards 3, 4 of 4"),
        "{missing}"
    );
    let other = wrong(|number| (number == 3).then(|| shard(2, 4)));
    assert_eq!(other.kind(), ErrorKind::Shards);
    assert!(other.to_string().contains("m-00003-of-00004.gguf: split.no 1, expected 2"), "{other}");
    let broken = wrong(|number| (number == 3).then(|| b"<html>".to_vec()));
    assert_eq!(broken.kind(), ErrorKind::Format(ggmill_core::ErrorKind::NotGguf));
    assert!(broken.name().ends_with("/m-00003-of-00004.gguf"));
}

#[test]
fn a_shard_can_be_opened_alone_but_not_under_another_name() {
    let server = Server::start(|request| Reply::file(&shard(2, 4), request));
    let named = location(&server.url("/m-00002-of-00004.gguf"));
    assert_eq!(client().open_alone(&named).unwrap().tensors().len(), 2);
    let error = client().open(&location(&server.url("/other.gguf"))).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Shards);
    assert!(error.to_string().contains("contains shard 2 of 4"), "{error}");
}

#[test]
fn the_number_of_requests_for_missing_shards_is_limited() {
    let server = set(65_535, |number| (number != 1).then(Vec::new));
    let error = client().open(&location(&server.url("/m-00001-of-65535.gguf"))).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Shards);
    let text = error.to_string();
    assert!(text.contains("m-00002-of-65535.gguf: missing: shards 2, 3, "), "{text}");
    assert!(text.ends_with("of 65535; the others were not requested"), "{text}");
    // Two for the header of the first shard, 16 for missing shards, and those in parallel.
    assert!((18..=26).contains(&server.requests().len()), "{}", server.requests().len());
}
