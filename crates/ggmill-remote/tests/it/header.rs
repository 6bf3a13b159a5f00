//! The number of requests and bytes to read a header.

use ggmill_core::{Model, ReadAt as _};
use ggmill_remote::ErrorKind;
use ggmill_testdata::server::{Reply, Request, Server};
use ggmill_testdata::{every_gguf, shared};

use crate::{at, client, file, serving};

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

/// Returns the lengths of the requested ranges.
fn requested(server: &Server) -> Vec<u64> {
    let requests = server.requests();
    requests
        .iter()
        .map(|request| request.range().map(|(start, end)| (end - start) as u64).unwrap())
        .collect()
}

#[test]
fn a_small_file_is_one_request() {
    let file = file(1000, 3, 100);
    let server = serving(&file);
    let model = client().open(&at(&server)).unwrap();
    assert_eq!(requested(&server), [512 * KIB]);
    // The response has the whole file, so reading tensors needs no request.
    for (number, tensor) in model.tensors().iter().enumerate() {
        assert_eq!(model.read_tensor(&tensor).unwrap(), [u8::try_from(number).unwrap(); 400]);
    }
    assert_eq!(server.requests().len(), 1);
    assert_eq!(server.sent(), file.len());
}

#[test]
fn requests_grow_fourfold_up_to_a_limit() {
    // Much tensor data, so that no request ends at the end of the file.
    for (header, sizes) in [
        (500_000, &[512 * KIB][..]),
        (600_000, &[512 * KIB, 2 * MIB]),
        (2_600_000, &[512 * KIB, 2 * MIB]),
        (2_700_000, &[512 * KIB, 2 * MIB, 8 * MIB]),
        (20_000_000, &[512 * KIB, 2 * MIB, 8 * MIB, 8 * MIB, 8 * MIB]),
    ] {
        let file = file(header, 1, 8 << 20);
        let server = serving(&file);
        let client = client();
        let model = client.open(&at(&server)).unwrap();
        assert_eq!(requested(&server), sizes, "{header}");
        let sum: u64 = sizes.iter().sum();
        assert_eq!(server.sent(), sum.min(file.len()));
        assert_eq!(client.traffic().requests, sizes.len() as u64);
        assert_eq!(client.traffic().bytes, server.sent());
        assert_eq!(model.metadata().str("test.long").unwrap().len(), header);
    }
}

#[test]
fn real_files_are_the_same_as_on_disk() {
    for path in every_gguf() {
        let bytes = std::fs::read(&path).unwrap();
        let local = Model::open(bytes.clone()).unwrap();
        let server = serving(&bytes);
        let remote = client().open(&at(&server)).unwrap();
        let requests = server.requests();
        let most = requests.iter().filter_map(Request::range).map(|(a, b)| b - a).max();
        assert!(most.unwrap() <= 8 << 20, "{}", path.display());
        assert_eq!(
            remote.parts()[0].bytes(),
            &local.parts()[0].bytes()[..remote.parts()[0].bytes().len()]
        );
        assert_eq!(remote.tensors().len(), local.tensors().len());
        for (ours, theirs) in remote.tensors().iter().zip(local.tensors().iter()) {
            assert_eq!(ours.name(), theirs.name());
            assert_eq!(remote.read_tensor(&ours).ok(), local.read_tensor(&theirs).ok());
        }
    }
}

#[test]
fn large_vocabularies_need_few_requests() {
    for (name, most) in [
        ("vocab-gguf/ggml-vocab-llama-bpe.gguf", 3),
        ("vocab-gguf/ggml-vocab-gpt-2.gguf", 2),
        ("vocab-gguf/ggml-vocab-llama-spm.gguf", 2),
    ] {
        let Some(path) = shared(name) else { continue };
        let server = serving(&std::fs::read(path).unwrap());
        client().open(&at(&server)).unwrap();
        assert!(server.requests().len() <= most, "{name}: {}", server.requests().len());
    }
}

#[test]
fn a_whole_file_is_read_only_to_the_end_of_the_header() {
    let bytes = file(3_000_000, 2, 8 << 20);
    let whole = bytes.clone();
    let server = Server::start(move |_| Reply::status(200).with_body(whole.to_vec()));
    let model = client().open(&at(&server)).unwrap();
    assert_eq!(model.metadata().str("test.long").unwrap().len(), 3_000_000);
    assert_eq!(server.requests().len(), 1);
    // Only the bytes in socket buffers.
    assert!(server.sent() < 40 << 20, "{}", server.sent());
    let error = model.read_tensor(&model.tensor("blk.1").unwrap()).unwrap_err();
    let cause = error.cause().unwrap().downcast_ref::<ggmill_remote::Error>().unwrap();
    assert_eq!(cause.kind(), ErrorKind::NoRanges);
    assert!(cause.advice() == Some(&ggmill_remote::Advice::Download), "{cause}");
}

#[test]
fn a_small_whole_file_is_read_completely() {
    let bytes = file(1000, 2, 50);
    let whole = bytes.clone();
    let server = Server::start(move |_| Reply::status(200).with_body(whole.to_vec()));
    let model = client().open(&at(&server)).unwrap();
    assert_eq!(model.read_tensor(&model.tensor("blk.1").unwrap()).unwrap(), [1; 200]);
    assert_eq!(server.requests().len(), 1);
}

#[test]
fn files_of_any_format_are_read_by_position() {
    let server = serving(b"0123456789");
    let file = client().open_file(&at(&server)).unwrap();
    let mut out = [0; 4];
    file.read(3, &mut out).unwrap();
    assert_eq!((&out, file.len()), (b"3456", 10));
    let error = file.read(8, &mut out).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Format(ggmill_core::ErrorKind::Truncated));
    assert!(
        error.to_string().ends_with("bytes up to 12 are needed, but the file ends at 10"),
        "{error}"
    );
    assert_eq!(server.requests().len(), 1);
}

#[test]
fn an_empty_file_can_be_opened() {
    let server = serving(b"");
    assert_eq!(client().open_file(&at(&server)).unwrap().len(), 0);
    let error = client().open(&at(&server)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Format(ggmill_core::ErrorKind::Truncated));
}
