//! Fixes applied to files, while other programs write to them.

use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use ggmill_check::Fix;
use ggmill_core::{Builder, GgmlType, MetadataBuf, Shape, ValueType};
use ggmill_edit::{EditError, apply_fixes};
use ggmill_io::InPlace;
use ggmill_pipeline::{Error, ErrorKind, Progress};

/// A model with two tensors, of version 2 or, as a shard of a set, of version 3.
fn bytes(name: &str, shard: Option<(u16, u16)>) -> Vec<u8> {
    let mut metadata = MetadataBuf::new();
    metadata.set("general.architecture", "llama");
    metadata.set("general.name", name);
    if let Some((number, count)) = shard {
        metadata.set("split.no", number);
        metadata.set("split.count", count);
        metadata.set("split.tensors.count", 2 * i32::from(count));
    }
    let builder = Builder::new().metadata(metadata);
    let builder = if shard.is_some() { builder } else { builder.version_2() };
    let shape = Shape::new(&[32]).unwrap();
    let plan = ["a", "b"]
        .iter()
        .fold(builder, |builder, tensor| {
            builder.tensor(format!("{name}.{tensor}"), GgmlType::F32, shape)
        })
        .plan()
        .unwrap();
    let mut bytes = plan.header().to_vec();
    bytes.resize(usize::try_from(plan.total_len()).unwrap(), 7);
    bytes
}

fn fixes() -> [Fix; 2] {
    let value = "fixed".into();
    let set = Fix::Set { key: "general.name".into(), value_type: ValueType::STRING, value };
    [set, Fix::Rewrite]
}

fn with_file() -> (tempfile::TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("model.gguf");
    fs::write(&path, bytes("model", None)).unwrap();
    (directory, path)
}

fn fix(
    path: &Path,
    meanwhile: &mut (dyn FnMut(Progress<'_>) + Send),
) -> Result<Vec<String>, Error> {
    apply_fixes(path, &fixes(), &mut |progress| {
        meanwhile(progress);
        ControlFlow::Continue(())
    })
}

#[test]
fn edits_and_a_rewrite_are_applied_in_one_pass() {
    for some in [&fixes()[..], &fixes()[1..]] {
        let (directory, path) = with_file();
        let notes = apply_fixes(&path, some, &mut |_| ControlFlow::Continue(())).unwrap();
        assert_eq!(notes, Vec::<String>::new());
        let file = ggmill_io::open_alone(&path).unwrap();
        let name = if some.len() == 2 { "fixed" } else { "model" };
        assert_eq!(file.metadata().str("general.name").unwrap(), name);
        assert_eq!(file.parts()[0].version(), 3);
        assert_eq!(file.read_tensor(&file.tensor("model.b").unwrap()).unwrap(), [7; 128]);
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
    }
}

#[test]
fn one_shard_is_not_replaced_by_the_whole_model() {
    let directory = tempfile::tempdir().unwrap();
    let path = |number| directory.path().join(format!("model-0000{number}-of-00002.gguf"));
    let shards = [bytes("first", Some((0, 2))), bytes("second", Some((1, 2)))];
    for (shard, number) in shards.iter().zip(1..) {
        fs::write(path(number), shard).unwrap();
    }
    for some in [&fixes()[..], &fixes()[1..]] {
        let error = apply_fixes(&path(1), some, &mut |_| ControlFlow::Continue(())).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
        let cause = error.cause().and_then(|cause| cause.downcast_ref::<EditError>());
        assert_eq!(cause, Some(&EditError::OneShard));
        assert!(fs::read(path(1)).unwrap() == shards[0] && fs::read(path(2)).unwrap() == shards[1]);
    }
}

#[test]
fn a_file_that_is_replaced_meanwhile_is_kept() {
    let (directory, path) = with_file();
    let other = bytes("other", None);
    let error = fix(&path, &mut |_| {
        let beside = directory.path().join("other");
        fs::write(&beside, &other).unwrap();
        fs::rename(beside, &path).unwrap();
    });
    assert_eq!(error.unwrap_err().kind(), ErrorKind::Io);
    assert!(fs::read(&path).unwrap() == other);
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
}

#[test]
fn the_file_is_locked_until_the_fixes_are_applied() {
    let (_directory, path) = with_file();
    let mut seen = 0;
    fix(&path, &mut |_| {
        let error = InPlace::open(&path).unwrap_err();
        assert_eq!(error.kind(), ggmill_io::ErrorKind::NotEditable, "{error}");
        seen += 1;
    })
    .unwrap();
    assert!(seen > 0);
}
