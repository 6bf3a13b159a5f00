//! Tensor data: requested on demand, and in windows if announced.

use std::ops::Range;

use ggmill_core::{Model, ReadAt as _};
use ggmill_testdata::server::Server;

use crate::{at, client, file, serving};

fn opened(bytes: &[u8]) -> (Server, Model) {
    let server = serving(bytes);
    let model = client().open(&at(&server)).unwrap();
    server.forget();
    (server, model)
}

fn ranges(model: &Model) -> Vec<Range<u64>> {
    model.tensors().iter().map(|tensor| tensor.offset()..tensor.offset() + 400_000).collect()
}

#[test]
fn reading_a_tensor_requests_only_its_bytes() {
    let (server, model) = opened(&file(1000, 40, 100_000));
    let tensor = model.tensor("blk.30").unwrap();
    assert_eq!(model.read_tensor(&tensor).unwrap(), vec![30; 400_000]);
    let [request] = &*server.requests() else { panic!("one request") };
    let start = usize::try_from(tensor.offset()).unwrap();
    assert_eq!(request.range(), Some((start, start + 400_000)));
    assert!(request.field("if-match").is_some());
    assert_eq!(server.sent(), 400_000);
}

#[test]
fn announced_ranges_are_read_in_windows() {
    let bytes = file(1000, 40, 100_000);
    let (server, model) = opened(&bytes);
    model.parts()[0].source().unwrap().prefetch(&ranges(&model));
    assert_eq!(server.requests().len(), 0);
    for (number, tensor) in model.tensors().iter().enumerate() {
        assert_eq!(
            model.read_tensor(&tensor).unwrap(),
            vec![u8::try_from(number).unwrap(); 400_000]
        );
    }
    // 16 MB without the first half MiB, which was received with the header, in windows of 8 MiB.
    assert!(server.requests().len() <= 4, "{}", server.requests().len());
    assert!(server.sent() <= bytes.len(), "{}", server.sent());
}

#[test]
fn distant_tensors_are_separate_requests() {
    let (server, model) = opened(&file(1000, 40, 100_000));
    let all = ranges(&model);
    let some = [all[10].clone(), all[11].clone(), all[30].clone()];
    model.parts()[0].source().unwrap().prefetch(&some);
    for name in ["blk.10", "blk.11", "blk.30"] {
        model.read_tensor(&model.tensor(name).unwrap()).unwrap();
    }
    assert_eq!(server.requests().len(), 2);
    assert!(server.sent() < 1_200_000 + 100, "{}", server.sent());
}

#[test]
fn several_threads_can_read() {
    let bytes = file(1000, 64, 10_000);
    let (server, model) = opened(&bytes);
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let model = &model;
            scope.spawn(move || {
                for number in (thread..64).step_by(4) {
                    let tensor = model.tensor(format!("blk.{number}")).unwrap();
                    assert_eq!(
                        model.read_tensor(&tensor).unwrap(),
                        vec![u8::try_from(number).unwrap(); 40_000]
                    );
                }
            });
        }
    });
    assert!(server.requests().len() <= 64);
}
