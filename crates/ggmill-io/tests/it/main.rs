//! Tests of the public interface.
#![expect(clippy::unwrap_used, reason = "helpers of tests are tests")]

mod model;
mod paths;
mod permissions;
mod reading;
mod refusals;
mod writing;

use std::path::Path;

use ggmill_core::{Builder, GgmlType, Header, Limits, MetadataBuf, Model, Plan, Shape, Writer};

/// Maps a file that no other program writes to.
#[expect(unsafe_code, reason = "every test that maps comes through here")]
fn map_with(path: &Path, limits: &Limits) -> ggmill_io::Result<Model> {
    // SAFETY: the files of these tests are bundled ones, which nobody writes to, or lie in a
    // directory that only this test knows.
    unsafe { ggmill_io::map_alone_with(path, limits) }
}

/// Builds a file with one F32 tensor of `len` elements for each name. Every byte of a tensor is its
/// number, counted from 1.
fn file_of(metadata: MetadataBuf, names: &[&str], len: u64) -> Vec<u8> {
    let plan = plan_of(metadata, names, len);
    let mut writer = Writer::start(&plan, Vec::new()).unwrap();
    for (number, tensor) in plan.tensors().iter().enumerate() {
        writer
            .write(
                number,
                &vec![u8::try_from(number).unwrap() + 1; usize::try_from(tensor.size()).unwrap()],
            )
            .unwrap();
    }
    writer.finish().unwrap()
}

fn plan_of(metadata: MetadataBuf, names: &[&str], len: u64) -> Plan {
    let start = Builder::new().metadata(metadata);
    names
        .iter()
        .fold(start, |builder, name| {
            builder.tensor(name, GgmlType::F32, Shape::new(&[len]).unwrap())
        })
        .plan()
        .unwrap()
}

/// Lists a directory, hidden names included, sorted.
fn names_in(directory: &Path) -> Vec<String> {
    let mut names: Vec<String> = std::fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort_unstable();
    names
}

/// Returns the end of the last tensor in bytes.
fn data_end(header: &Header<'_>) -> u64 {
    header
        .tensors()
        .iter()
        .map(|tensor| tensor.offset() + tensor.size().unwrap_or(0))
        .max()
        .unwrap_or(header.header_len())
}
