//! Tests of the public interface with a server in the same process.
#![expect(clippy::unwrap_used, reason = "helpers of tests are tests")]

mod cache;
mod credentials;
mod data;
mod faults;
mod header;
mod hub;
mod s3;
mod shards;

use std::sync::Arc;
use std::time::Duration;

use ggmill_core::{Builder, GgmlType, MetadataBuf, Plan, Shape, Writer};
use ggmill_remote::{Client, Location, Options, Retries};
use ggmill_testdata::server::{Reply, Server};

/// Options with short timeouts and pauses.
fn options() -> Options {
    let pause = Duration::from_millis(1);
    Options::default()
        .with_retries(Retries::new(3, pause, Duration::from_millis(50)))
        .with_patience(Duration::from_secs(5))
}

fn client() -> Client {
    Client::new(options()).unwrap()
}

fn location(text: &str) -> Location {
    Location::parse(text).unwrap().unwrap()
}

/// A correct server of one file.
fn serving(file: &[u8]) -> Server {
    let file = file.to_vec();
    Server::start(move |request| Reply::file(&file, request))
}

/// The file at a server's address `/m.gguf`.
fn at(server: &Server) -> Location {
    location(&server.url("/m.gguf"))
}

/// Creates a file whose header has about `header` bytes, with `tensors` tensors of `elements` F32 values.
fn file(header: usize, tensors: usize, elements: u64) -> Arc<Vec<u8>> {
    let mut metadata = MetadataBuf::new();
    metadata.set("general.architecture", "test");
    metadata.set("test.long", "x".repeat(header).as_str());
    Arc::new(written(metadata, 0, tensors, elements))
}

fn written(metadata: MetadataBuf, first: usize, tensors: usize, elements: u64) -> Vec<u8> {
    let mut builder = Builder::new().metadata(metadata);
    for number in first..first + tensors {
        let shape = Shape::new(&[elements]).unwrap();
        builder = builder.tensor(format!("blk.{number}"), GgmlType::F32, shape);
    }
    let plan: Plan = builder.plan().unwrap();
    let mut writer = Writer::start(&plan, Vec::new()).unwrap();
    for number in 0..tensors {
        let value = u8::try_from((first + number) % 251).unwrap();
        let bytes = vec![value; usize::try_from(elements).unwrap() * 4];
        writer.write(number, &bytes).unwrap();
    }
    writer.finish().unwrap()
}

/// Shard `number`, from 1, of a set.
fn shard(number: u16, count: u16) -> Vec<u8> {
    let mut metadata = MetadataBuf::new();
    if number == 1 {
        metadata.set("general.architecture", "test");
        metadata.set("test.long", "x".repeat(600_000).as_str());
    }
    metadata.set("split.no", number - 1);
    metadata.set("split.count", count);
    metadata.set("split.tensors.count", i32::from(count) * 2);
    written(metadata, usize::from(number) * 2, 2, 1000)
}
