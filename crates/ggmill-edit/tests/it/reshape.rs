//! Shards, alignment and byte order: the content of a model does not change, and the inverse restores
//! every byte.

use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use ggmill_core::{
    Alignment, Builder, Endian, GgmlType, MetadataBuf, Shape, Writer, shard_file_name,
};
use ggmill_edit::hash::{HashKind, hash};
use ggmill_edit::{Parts, RepackOptions, merge, repack, verify};
use ggmill_io::{FileSink, Overwrite, commit_all};
use ggmill_pipeline::{
    Checkpoint, ErrorKind, GgufCheckpoint, Recipe, RunOptions, ShardLimit, SplitOptions, run, split,
};
use ggmill_testdata::bytes::{FileBytes, Value};
use ggmill_testdata::real;
use proptest::prelude::*;

/// A random model in a random form.
#[derive(Clone, Debug)]
pub(crate) struct Model {
    big: bool,
    version_2: bool,
    alignment: Option<u32>,
    keys: Vec<(String, u64)>,
    tensors: Vec<(GgmlType, Vec<u64>)>,
    seed: u8,
}

impl Model {
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let mut metadata = MetadataBuf::new();
        for (number, (text, value)) in self.keys.iter().enumerate() {
            metadata.set(format!("key.{number}.text"), text.as_str());
            metadata.set(format!("key.{number}.values"), [*value, !*value].as_slice());
        }
        if let Some(alignment) = self.alignment {
            metadata.set("general.alignment", alignment);
        }
        let mut builder = Builder::new().metadata(metadata);
        if self.version_2 {
            builder = builder.version_2();
        } else if self.big {
            builder = builder.endian(Endian::Big);
        }
        for (number, (ggml_type, dimensions)) in self.tensors.iter().enumerate() {
            builder = builder.tensor(
                format!("blk.{number}.weight"),
                *ggml_type,
                Shape::new(dimensions).unwrap(),
            );
        }
        let plan = builder.plan().unwrap();
        let mut writer = Writer::start(&plan, Vec::new()).unwrap();
        let mut state = u32::from(self.seed);
        for (number, tensor) in plan.tensors().iter().enumerate() {
            let data: Vec<u8> = (0..tensor.size())
                .map(|_| {
                    state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                    state.to_be_bytes()[0]
                })
                .collect();
            writer.write(number, &data).unwrap();
        }
        writer.finish().unwrap()
    }
}

/// Types whose blocks can be converted to the other byte order.
fn ggml_type() -> impl Strategy<Value = GgmlType> {
    (0u32..43)
        .prop_map(GgmlType)
        .prop_filter("is turned", |ggml_type| ggmill_core::swap_bytes(*ggml_type, &mut []).is_ok())
}

pub(crate) fn model() -> impl Strategy<Value = Model> {
    let tensor = (ggml_type(), 0u64..5, proptest::collection::vec(0u64..4, 0..3)).prop_map(
        |(ggml_type, blocks, rest)| {
            let row = blocks * u64::from(ggml_type.layout().unwrap().elements);
            (ggml_type, [vec![row], rest].concat())
        },
    );
    let keys = proptest::collection::vec((".{0,9}", any::<u64>()), 0..4);
    let alignment = proptest::option::of((1u32..40).prop_map(|eights| eights * 8));
    (
        any::<bool>(),
        any::<bool>(),
        alignment,
        keys,
        proptest::collection::vec(tensor, 0..12),
        any::<u8>(),
    )
        .prop_map(|(big, version_2, alignment, keys, tensors, seed)| Model {
            big,
            version_2,
            alignment,
            keys,
            tensors,
            seed,
        })
}

pub(crate) fn written(path: &Path, bytes: &[u8]) -> GgufCheckpoint {
    fs::write(path, bytes).unwrap();
    GgufCheckpoint::open(path).unwrap()
}

/// Runs a recipe into memory and into a file, and compares them: only the file uses kernel copies.
pub(crate) fn made(recipe: Recipe, checkpoint: &dyn Checkpoint) -> Vec<u8> {
    let plan = recipe.plan(checkpoint).unwrap();
    let in_memory = run(&plan, checkpoint, Vec::new(), &RunOptions::default(), &mut |_| {
        ControlFlow::Continue(())
    })
    .unwrap();
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("made.gguf");
    let sink = FileSink::create(&path, Overwrite::Refuse).unwrap();
    let mut progress = 0;
    let sink = run(&plan, checkpoint, sink, &RunOptions::default(), &mut |now| {
        assert!(now.written > progress && now.written <= now.total);
        progress = now.written;
        ControlFlow::Continue(())
    });
    sink.unwrap().commit().unwrap();
    assert_eq!(
        progress,
        plan.layout().tensors().iter().map(ggmill_core::PlannedTensor::size).sum::<u64>()
    );
    assert!(fs::read(&path).unwrap() == in_memory);
    assert_eq!(in_memory.len() as u64, plan.layout().total_len());
    in_memory
}

/// Writes the shards of a model into a directory.
fn shards(checkpoint: &GgufCheckpoint, options: &SplitOptions, directory: &Path) -> Vec<PathBuf> {
    let recipes = split(checkpoint, options).unwrap();
    let count = u32::try_from(recipes.len()).unwrap();
    let mut paths = Vec::new();
    let mut sinks = Vec::new();
    for (number, recipe) in (1..).zip(recipes) {
        let plan = recipe.plan(checkpoint).unwrap();
        paths.push(directory.join(shard_file_name("shard", number, count)));
        let sink = FileSink::create(paths.last().unwrap(), Overwrite::Refuse).unwrap();
        sinks.push(
            run(
                &plan,
                checkpoint,
                sink,
                &RunOptions::default(),
                &mut |_| ControlFlow::Continue(()),
            )
            .unwrap(),
        );
    }
    commit_all(sinks).unwrap();
    paths
}

fn repacked(checkpoint: &GgufCheckpoint, change: impl FnOnce(&mut RepackOptions)) -> Vec<u8> {
    let mut options = RepackOptions::default();
    change(&mut options);
    made(repack(checkpoint, &options).unwrap(), checkpoint)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_copy_equals_the_file(model in model()) {
        let directory = tempfile::tempdir().unwrap();
        let bytes = model.bytes();
        let checkpoint = written(&directory.path().join("model.gguf"), &bytes);
        prop_assert!(made(Recipe::copy_of(&checkpoint).unwrap(), &checkpoint) == bytes);
    }

    #[test]
    fn splitting_and_merging_restores_the_file(model in model(), limit in 1u64..9, by_size: bool, no_tensor_first: bool, by in any::<prop::sample::Index>()) {
        let directory = tempfile::tempdir().unwrap();
        let bytes = model.bytes();
        let checkpoint = written(&directory.path().join("model.gguf"), &bytes);
        let mut options = SplitOptions::new(if by_size { ShardLimit::Bytes(limit * 100) } else { ShardLimit::Tensors(limit) });
        options.no_tensor_first = no_tensor_first;
        let paths = shards(&checkpoint, &options, directory.path());
        for path in &paths {
            let shard = ggmill_io::open_alone(path).unwrap();
            let tensors = shard.tensors().len() as u64;
            prop_assert!(by_size || tensors <= limit);
            prop_assert_eq!(shard.header().alignment(), checkpoint.model().header().alignment());
        }
        let set = GgufCheckpoint::open(by.get(&paths)).unwrap();
        prop_assert_eq!(set.tensors(), checkpoint.tensors());
        let recipe = merge(&set).unwrap();
        prop_assert_eq!(recipe.notes().len(), 0);
        prop_assert!(made(recipe, &set) == bytes);
    }

    #[test]
    fn converting_the_byte_order_twice_restores_the_file(mut model in model()) {
        model.version_2 = false;
        let directory = tempfile::tempdir().unwrap();
        let bytes = model.bytes();
        let here = written(&directory.path().join("here.gguf"), &bytes);
        let (own, other) = if model.big { (Endian::Big, Endian::Little) } else { (Endian::Little, Endian::Big) };
        let there = written(&directory.path().join("there.gguf"), &repacked(&here, |options| options.endian = Some(other)));
        prop_assert_eq!(there.model().header().endian(), other);
        prop_assert!(repacked(&there, |options| options.endian = Some(own)) == bytes);

        // Whoever reads gets little-endian bytes from both, wherever the reading begins and ends.
        for (number, tensor) in here.tensors().iter().enumerate() {
            let size = tensor.ggml_type.layout().unwrap().bytes_for(tensor.shape.elements()).unwrap();
            for (start, end) in [(0, size), (size / 3, size), (size / 2, size / 2 + size / 3)] {
                let mut read = [vec![0; usize::try_from(end - start).unwrap()], vec![0; usize::try_from(end - start).unwrap()]];
                here.read(number, start, &mut read[0]).unwrap();
                there.read(number, start, &mut read[1]).unwrap();
                prop_assert_eq!(&read[0], &read[1], "{}", tensor.ggml_type);
            }
        }
    }

    #[test]
    fn changing_alignment_and_version_is_reversible(model in model(), eights in 1u64..600) {
        let directory = tempfile::tempdir().unwrap();
        let bytes = model.bytes();
        let here = written(&directory.path().join("here.gguf"), &bytes);
        let alignment = Alignment::new(eights * 8).unwrap();
        let there = repacked(&here, |options| {
            options.alignment = Some(alignment);
            options.endian = Some(Endian::Little);
            options.version = Some(2);
        });
        let there = written(&directory.path().join("there.gguf"), &there);
        let header = there.model().header();
        prop_assert_eq!((header.alignment(), header.version(), header.endian()), (alignment, 2, Endian::Little));
        prop_assert_eq!(there.tensors(), here.tensors());
        if model.alignment.is_some() {
            let back = repacked(&there, |options| {
                options.alignment = model.alignment.map(|alignment| Alignment::new(alignment.into()).unwrap());
                options.version = Some(if model.version_2 { 2 } else { 3 });
                options.endian = Some(if model.big && !model.version_2 { Endian::Big } else { Endian::Little });
            });
            prop_assert!(back == bytes);
        }
    }
}

/// Shards as `llama-gguf-split` writes them: the keys, their types and places; a first shard without
/// tensors is padded.
#[test]
fn shards_equal_those_of_the_reference() {
    let directory = tempfile::tempdir().unwrap();
    let mut file = FileBytes::v3(3, 4);
    file.pair("general.architecture", &"llama".into())
        .pair("split.count", &Value::U16(0))
        .pair("llama.block_count", &Value::U32(1));
    file.pair("split.no", &Value::U16(0));
    for (number, name) in (0u64..).zip(["a", "b", "c"]) {
        file.tensor(name, &[8], 0, number * 32);
    }
    file.pad(32).raw(&[1; 32]).raw(&[2; 32]).raw(&[3; 32]);
    let checkpoint = written(&directory.path().join("model.gguf"), file.as_bytes());

    let shard = |number: u16, tensors: &[(&str, u8)]| {
        let mut file = FileBytes::v3(tensors.len() as u64, if number == 0 { 5 } else { 3 });
        if number == 0 {
            file.pair("general.architecture", &"llama".into())
                .pair("llama.block_count", &Value::U32(1));
        }
        file.pair("split.no", &Value::U16(number))
            .pair("split.tensors.count", &Value::I32(3))
            .pair("split.count", &Value::U16(3));
        for (place, (name, _)) in (0u64..).zip(tensors) {
            file.tensor(name, &[8], 0, place * 32);
        }
        file.pad(32);
        for (_, fill) in tensors {
            file.raw(&[*fill; 32]);
        }
        file.into_bytes()
    };
    let mut options = SplitOptions::new(ShardLimit::Tensors(2));
    options.no_tensor_first = true;
    let paths = shards(&checkpoint, &options, directory.path());
    let expected = [shard(0, &[]), shard(1, &[("a", 1), ("b", 2)]), shard(2, &[("c", 3)])];
    assert_eq!(paths.len(), expected.len());
    for (path, expected) in paths.iter().zip(expected) {
        assert_eq!(fs::read(path).unwrap(), expected, "{}", path.display());
    }
}

#[test]
fn real_files_split_and_merged() {
    for name in ["mobilenetv3_3class_v3_fp16.gguf", "ggml-vocab-phi-3.gguf"] {
        let directory = tempfile::tempdir().unwrap();
        let checkpoint = GgufCheckpoint::open(real(name)).unwrap();
        let paths =
            shards(&checkpoint, &SplitOptions::new(ShardLimit::Bytes(300_000)), directory.path());
        let set = GgufCheckpoint::open(&paths[0]).unwrap();
        let plan = merge(&set).unwrap().plan(&set).unwrap();
        let path = directory.path().join("merged.gguf");
        run(
            &plan,
            &set,
            FileSink::create(&path, Overwrite::Refuse).unwrap(),
            &RunOptions::default(),
            &mut |_| ControlFlow::Continue(()),
        )
        .unwrap()
        .commit()
        .unwrap();
        assert!(fs::read(&path).unwrap() == fs::read(real(name)).unwrap(), "{name}");

        verify(&GgufCheckpoint::open(&path).unwrap(), &plan, &set).unwrap();
        // The last byte of the data, or of the header where there are none.
        let mut spoiled = fs::read(&path).unwrap();
        let last = plan.layout().tensors().last().map_or(spoiled.len(), |tensor| {
            usize::try_from(tensor.offset() + tensor.size()).unwrap()
        });
        spoiled[last - 1] ^= 1;
        fs::write(&path, spoiled).unwrap();
        let error = verify(&GgufCheckpoint::open(&path).unwrap(), &plan, &set).unwrap_err();
        assert!(error.to_string().contains("the written file differs from its sources"), "{error}");
    }
}

#[test]
fn exceeded_limits_are_noted_or_refused() {
    let checkpoint = GgufCheckpoint::open(real("mobilenetv3_3class_v3_fp16.gguf")).unwrap();
    let limit = |limit| split(&checkpoint, &SplitOptions::new(limit));
    for refused in [ShardLimit::Tensors(0), ShardLimit::Bytes(0)] {
        assert_eq!(limit(refused).unwrap_err().kind(), ErrorKind::Misuse);
    }
    let each = limit(ShardLimit::Bytes(1)).unwrap();
    assert_eq!(each.len(), checkpoint.tensors().len());
    assert!(each[0].notes()[0].contains("by itself has"), "{:?}", each[0].notes());
    assert_eq!(limit(ShardLimit::Bytes(u64::MAX)).unwrap().len(), 1);
    let mut options = RepackOptions::default();
    options.version = Some(1);
    assert_eq!(repack(&checkpoint, &options).unwrap_err().kind(), ErrorKind::Unsupported);
    options.version = Some(2);
    options.endian = Some(Endian::Big);
    assert_eq!(
        repack(&checkpoint, &options).unwrap_err().to_string(),
        "version 2 does not support big-endian files, expected version 3"
    );
}

/// A tensor of a removed type is copied, and refused if its byte order would have to change.
#[test]
fn blocks_of_unknown_layout_keep_their_byte_order() {
    let directory = tempfile::tempdir().unwrap();
    let plan = Builder::new()
        .tensor("old", GgmlType::Q4_0_4_4, Shape::new(&[128]).unwrap())
        .plan()
        .unwrap();
    let checkpoint =
        written(&directory.path().join("old.gguf"), &[plan.header(), &[7; 96]].concat());
    assert_eq!(
        made(Recipe::copy_of(&checkpoint).unwrap(), &checkpoint).len(),
        plan.header().len() + 96
    );
    let mut options = RepackOptions::default();
    options.endian = Some(Endian::Big);
    let plan = repack(&checkpoint, &options).unwrap().plan(&checkpoint).unwrap();
    let error = run(&plan, &checkpoint, Vec::new(), &RunOptions::default(), &mut |_| {
        ControlFlow::Continue(())
    })
    .unwrap_err();
    assert_eq!(
        error.to_string(),
        "tensor \"old\": the byte order within blocks of Q4_0_4_4 is not known"
    );
}

/// A tensor of more than one piece, and nonzero padding: both are kept when they move.
#[test]
fn large_tensors_and_odd_padding() {
    let directory = tempfile::tempdir().unwrap();
    let shape = |len| Shape::new(&[len]).unwrap();
    let large = 150 << 20;
    let plan = Builder::new()
        .tensor("odd", GgmlType::I8, shape(33))
        .tensor("next", GgmlType::I8, shape(5))
        .tensor("large", GgmlType::I8, shape(large));
    let plan = plan.tensor("last", GgmlType::I8, shape(1)).plan().unwrap();
    let mut writer = Writer::start(&plan, Vec::new()).unwrap();
    for (number, tensor) in plan.tensors().iter().enumerate() {
        let fill = u8::try_from(number).unwrap() + 1;
        writer.write(number, &vec![fill; usize::try_from(tensor.size()).unwrap()]).unwrap();
    }
    let clean = writer.finish().unwrap();
    let mut odd = clean.clone();
    let padding = usize::try_from(plan.tensors()[0].offset() + 40).unwrap();
    odd[padding] = 9;
    let checkpoint = written(&directory.path().join("odd.gguf"), &odd);
    assert!(made(Recipe::copy_of(&checkpoint).unwrap(), &checkpoint) == clean);
}

#[test]
fn files_cut_at_byte_boundaries() {
    let directory = tempfile::tempdir().unwrap();
    let bytes = fs::read(real("mobilenetv3_3class_v3_fp16.gguf")).unwrap();
    let path = |name: &str| directory.path().join(name);
    let cut = |names: &[&str]| {
        for (name, piece) in names.iter().zip(bytes.chunks(bytes.len().div_ceil(names.len()))) {
            fs::write(path(name), piece).unwrap();
        }
    };
    let joined = |names: &[&str]| {
        let parts = Parts::open(&names.iter().map(|name| path(name)).collect::<Vec<_>>())?;
        parts.join(Vec::new(), &mut |_| ControlFlow::Continue(()))
    };
    cut(&["m.gguf.part1of3", "m.gguf.part2of3", "m.gguf.part3of3"]);
    cut(&["m.gguf-split-a", "m.gguf-split-b"]);
    cut(&[
        "w.part01of10",
        "w.part02of10",
        "w.part03of10",
        "w.part04of10",
        "w.part05of10",
        "w.part06of10",
        "w.part07of10",
        "w.part08of10",
        "w.part09of10",
        "w.part10of10",
    ]);
    for names in [
        &["m.gguf.part2of3"][..],
        &["m.gguf.part3of3", "m.gguf.part1of3", "m.gguf.part2of3"],
        &["m.gguf-split-a"],
        &["w.part10of10"],
    ] {
        assert!(joined(names).unwrap() == bytes, "{names:?}");
    }
    fs::rename(path("w.part03of10"), path("elsewhere")).unwrap();
    fs::rename(path("m.gguf-split-a"), path("m.gguf.split-a")).unwrap();
    for (names, expected) in [
        (&["m.gguf.part1of3", "m.gguf.part3of3"][..], "part 2 is missing: \"m.gguf.part2of3\""),
        (&["m.gguf.part1of3", "m.gguf.part2of3"], "part 3 is missing: \"m.gguf.part3of3\""),
        (&["m.gguf.part1of3", "m.gguf.part1of3"], "m.gguf.part1of3: part 1 occurs twice"),
        (
            &["m.gguf.part1of3", "w.part02of10"],
            "w.part02of10: does not belong to the same file as \"m.gguf\"",
        ),
        (
            &["m.gguf.part1of3", "elsewhere"],
            "elsewhere: expected a name that ends like .part1of3 or .split-a",
        ),
        (&["w.part01of10"], "part 3 is missing: \"w.part3of10\""),
        (&["m.gguf-split-b"], "part 1 is missing: \"m.gguf-split-a\""),
        (&["m.gguf.split-a"], "m.gguf.split-a: offset "),
    ] {
        let error = joined(names).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Checkpoint, "{error}");
        assert!(error.to_string().contains(expected), "{error}");
    }
}

/// If a program writes to a source while it is read and keeps its length, there is no output, with
/// kernel copies or without.
#[cfg(unix)]
#[test]
fn a_source_that_changes_meanwhile_gives_no_output() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("model.gguf");
    fs::copy(real("mobilenetv3_3class_v3_fp16.gguf"), &path).unwrap();
    let change = || {
        // Later than the tick of the clock in which the file was made.
        std::thread::sleep(std::time::Duration::from_millis(30));
        let file = fs::File::options().write(true).open(&path).unwrap();
        std::os::unix::fs::FileExt::write_at(&file, b"x", file.metadata().unwrap().len() - 1)
            .unwrap();
    };
    let checkpoint = GgufCheckpoint::open(&path).unwrap();
    let plan = Recipe::copy_of(&checkpoint).unwrap().plan(&checkpoint).unwrap();
    let sink = FileSink::create(directory.path().join("out.gguf"), Overwrite::Refuse).unwrap();
    let mut calls = 0;
    let result = run(&plan, &checkpoint, sink, &RunOptions::default(), &mut |_| {
        if calls == 0 {
            change();
        }
        calls += 1;
        ControlFlow::Continue(())
    });
    let error = result.unwrap_err().to_string();
    assert!(
        error.ends_with("model.gguf: another program wrote to the file while it was being read"),
        "{error}"
    );
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);

    let checkpoint = GgufCheckpoint::open(&path).unwrap();
    run(&plan, &checkpoint, Vec::new(), &RunOptions::default(), &mut |_| ControlFlow::Continue(()))
        .unwrap();
    change();
    assert!(
        run(
            &plan,
            &checkpoint,
            Vec::new(),
            &RunOptions::default(),
            &mut |_| ControlFlow::Continue(())
        )
        .is_err()
    );
    assert!(
        hash(&checkpoint, &[HashKind::Xxh64], false, &RunOptions::default(), &mut |_| {
            ControlFlow::Continue(())
        })
        .is_err()
    );

    fs::rename(&path, directory.path().join("model.gguf.part1of1")).unwrap();
    let parts = Parts::open(&[directory.path().join("model.gguf.part1of1")]).unwrap();
    let joined = parts.join(Vec::new(), &mut |_| {
        std::thread::sleep(std::time::Duration::from_millis(30));
        fs::File::options()
            .append(true)
            .open(directory.path().join("model.gguf.part1of1"))
            .unwrap()
            .set_len(10)
            .unwrap();
        ControlFlow::Continue(())
    });
    assert!(joined.is_err());
}
