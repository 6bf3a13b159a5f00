//! Hashes, held to those of other implementations (`cargo xtask peers hash` writes them).

use std::ops::ControlFlow;
use std::path::Path;

use ggmill_core::{Builder, Endian, GgmlType, Shape, Writer, shard_file_name};
use ggmill_edit::{RepackOptions, repack};
use ggmill_hash::{HashKind, Manifest, hash};
use ggmill_pipeline::{
    Checkpoint as _, ErrorKind, GgufCheckpoint, RunOptions, ShardLimit, SplitOptions, run, split,
};
use ggmill_testdata::real;

fn hashes(path: &Path) -> ggmill_hash::Hashes {
    hash(
        &GgufCheckpoint::open(path).unwrap(),
        &HashKind::ALL,
        true,
        &RunOptions::default(),
        &mut |_| ControlFlow::Continue(()),
    )
    .unwrap()
}

#[test]
fn real_files_have_the_hashes_others_find() {
    for name in ["mobilenetv3_3class_v3_fp16.gguf", "ggml-vocab-phi-3.gguf"] {
        let manifest =
            Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/hashes/{name}.manifest"));
        let expected = std::fs::read_to_string(manifest).unwrap();
        let model = GgufCheckpoint::open(real(name)).unwrap();
        let found = hashes(&real(name));
        let mut lines = String::new();
        for (tensor, digests) in model.tensors().iter().zip(&found.tensors) {
            digests.iter().for_each(|digest| {
                lines += &format!("{:<8}  {digest}  {name}:{}\n", digest.kind(), tensor.name());
            });
        }
        found
            .model
            .iter()
            .for_each(|digest| lines += &format!("{:<8}  {digest}  {name}\n", digest.kind()));
        assert!(lines == expected, "{name}");

        let manifest = Manifest::parse(&expected);
        assert_eq!(manifest.kinds(), HashKind::STRONGEST_FIRST);
        assert_eq!(manifest.about(name, &[]).left().count(), expected.lines().count());
    }
}

/// A tensor longer than what is hashed at once, and many without data, are hashed as one piece
/// would be.
#[test]
fn pieces_and_windows_leave_no_trace() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("long.gguf");
    let sizes: [u64; 5] = [3, (40 << 20) + 5, 0, 17 << 20, 1];
    let mut builder = Builder::new();
    for (number, size) in sizes.iter().enumerate() {
        builder = builder.tensor(format!("t{number}"), GgmlType::I8, Shape::new(&[*size]).unwrap());
    }
    for number in 0..5000 {
        builder = builder.tensor(format!("empty{number}"), GgmlType::I8, Shape::new(&[0]).unwrap());
    }
    let plan = builder.plan().unwrap();
    let mut writer = Writer::start(&plan, Vec::new()).unwrap();
    let data = |number: usize, size: u64| {
        (0..size)
            .map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8 ^ number as u8)
            .collect::<Vec<u8>>()
    };
    let datas: Vec<Vec<u8>> =
        sizes.iter().enumerate().map(|(number, size)| data(number, *size)).collect();
    for (number, data) in datas.iter().enumerate() {
        writer.write(number, data).unwrap();
    }
    std::fs::write(&path, writer.finish().unwrap()).unwrap();

    let model = GgufCheckpoint::open(&path).unwrap();
    let found = hash(
        &model,
        &[HashKind::Sha256, HashKind::Xxh64],
        true,
        &RunOptions::default(),
        &mut |_| ControlFlow::Continue(()),
    )
    .unwrap();
    assert_eq!(found.tensors.len(), 5005);
    for (digests, data) in
        found.tensors.iter().zip(datas.iter().map(Vec::as_slice).chain(std::iter::repeat(&[][..])))
    {
        assert_eq!(digests[1].to_string(), ggmill_testdata::sha256(data));
    }
    assert_eq!(found.model[1].to_string(), ggmill_testdata::sha256(&datas.concat()));
    assert_eq!(
        hash(&model, &[HashKind::Sha256], false, &RunOptions::default(), &mut |_| {
            ControlFlow::Continue(())
        })
        .unwrap()
        .tensors,
        Vec::<Vec<_>>::new()
    );

    let stopped = hash(&model, &[HashKind::Xxh64], true, &RunOptions::default(), &mut |_| {
        ControlFlow::Break(())
    })
    .unwrap_err();
    assert_eq!(stopped.kind(), ErrorKind::Cancelled);
}

/// Shards and the other byte order are other files of the same weights.
#[test]
fn the_form_of_a_model_is_not_in_its_hashes() {
    for model in ggmill_testdata::models::models() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("model.gguf");
        std::fs::write(&path, &model.file).unwrap();
        let checkpoint = GgufCheckpoint::open(&path).unwrap();
        let expected = hashes(&path);

        let shards = split(&checkpoint, &SplitOptions::new(ShardLimit::Tensors(7))).unwrap();
        let count = u32::try_from(shards.len()).unwrap();
        for (number, shard) in (1..).zip(shards) {
            let bytes = run(
                &shard.plan(&checkpoint).unwrap(),
                &checkpoint,
                Vec::new(),
                &RunOptions::default(),
                &mut |_| ControlFlow::Continue(()),
            )
            .unwrap();
            std::fs::write(directory.path().join(shard_file_name("set", number, count)), bytes)
                .unwrap();
        }
        assert_eq!(
            hashes(&directory.path().join(shard_file_name("set", 2, count))),
            expected,
            "{}: shards",
            model.name
        );

        let mut options = RepackOptions::default();
        options.endian = Some(Endian::Big);
        let plan = repack(&checkpoint, &options).unwrap().plan(&checkpoint).unwrap();
        let bytes = run(&plan, &checkpoint, Vec::new(), &RunOptions::default(), &mut |_| {
            ControlFlow::Continue(())
        })
        .unwrap();
        std::fs::write(directory.path().join("big.gguf"), bytes).unwrap();
        assert_eq!(
            hashes(&directory.path().join("big.gguf")),
            expected,
            "{}: big-endian",
            model.name
        );
    }
}
