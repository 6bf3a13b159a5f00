//! The cache of headers.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ggmill_remote::{CacheOptions, Client};
use ggmill_testdata::server::{Reply, Server};

use crate::{at, file, options, serving};

fn caching(directory: &std::path::Path) -> Client {
    Client::new(options().with_cache(Some(CacheOptions::new(directory, 64 << 20)))).unwrap()
}

#[test]
fn a_cached_header_needs_a_request_without_a_body() {
    let directory = tempfile::tempdir().unwrap();
    let bytes = file(3_000_000, 2, 8 << 20);
    let server = serving(&bytes);
    caching(directory.path()).open(&at(&server)).unwrap();
    assert_eq!(server.requests().len(), 3);
    server.forget();
    let model = caching(directory.path()).open(&at(&server)).unwrap();
    assert_eq!((server.requests().len(), server.sent()), (1, 0));
    assert!(server.requests()[0].field("if-none-match").is_some());
    assert_eq!(model.metadata().str("test.long").unwrap().len(), 3_000_000);
    let tensor = model.tensor("blk.1").unwrap();
    assert_eq!(model.read_tensor(&tensor).unwrap(), vec![1; 32 << 20]);
    assert_eq!(server.sent(), 32 << 20);
    // Without a directory there is no cache.
    server.forget();
    crate::client().open(&at(&server)).unwrap();
    assert_eq!(server.requests().len(), 3);
}

#[test]
fn a_replaced_file_is_read_again() {
    let directory = tempfile::tempdir().unwrap();
    let (old, new) = (file(600_000, 1, 10), file(700_000, 3, 10));
    let replaced = Arc::new(AtomicBool::new(false));
    let switch = Arc::clone(&replaced);
    let server = Server::start(move |request| {
        Reply::file(if switch.load(Ordering::SeqCst) { &new } else { &old }, request)
    });
    assert_eq!(caching(directory.path()).open(&at(&server)).unwrap().tensors().len(), 1);
    replaced.store(true, Ordering::SeqCst);
    for _ in 0..2 {
        assert_eq!(caching(directory.path()).open(&at(&server)).unwrap().tensors().len(), 3);
    }
}

#[test]
fn several_clients_can_share_a_directory() {
    let directory = tempfile::tempdir().unwrap();
    let bytes = file(600_000, 1, 10);
    let server = serving(&bytes);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for _ in 0..5 {
                    let model = caching(directory.path()).open(&at(&server)).unwrap();
                    assert_eq!(model.metadata().str("test.long").unwrap().len(), 600_000);
                }
            });
        }
    });
    let names: Vec<_> = std::fs::read_dir(directory.path()).unwrap().collect();
    assert_eq!(names.len(), 1);
}

#[test]
fn an_unusable_directory_is_ignored() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a file");
    std::fs::write(&path, b"").unwrap();
    let server = serving(&file(1000, 1, 10));
    caching(&path.join("below")).open(&at(&server)).unwrap();
}
