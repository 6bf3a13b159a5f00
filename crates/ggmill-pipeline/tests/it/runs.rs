//! Runs: ranges of a file concatenate to the file, a copy reproduces its source, and a shard set is
//! written completely or not at all.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use ggmill_core::{Endian, GgmlType, MetadataBuf, Shape};
use ggmill_io::{FileSink, Overwrite, shard_paths};
use ggmill_pipeline::{
    Encoding, ErrorKind, Expression, GgufCheckpoint, MemorySource, Plan, Recipe, RecipeTensor,
    RunOptions, ShardFiles, ShardLimit, SplitOptions, run, run_range,
};
use ggmill_testdata::real;
use proptest::prelude::*;

fn shape(dimensions: &[u64]) -> Shape {
    Shape::new(dimensions).unwrap()
}

/// Plans tensors that are copied, transposed, computed, quantized, and empty.
fn plan(endian: Endian) -> (Plan, MemorySource) {
    let mut source = MemorySource::new();
    let bytes: Vec<u8> = (0..64 * 12).flat_map(|i| (i as f32 / 100.0).to_le_bytes()).collect();
    source.add("a", GgmlType::F32, shape(&[64, 12]), bytes).unwrap();
    let a = Expression::named(&source, "a").unwrap();
    let stack = Expression::stack(&[a.clone(), a.permute(2).unwrap()]).unwrap();
    let tensors = [
        ("copy", a.clone()),
        ("turned", a.transpose().unwrap().encode(GgmlType::F16, Encoding::finite()).unwrap()),
        ("blocks", stack.encode(GgmlType::Q8_0, Encoding::finite()).unwrap()),
        ("none", a.slice(1, 3, 0, 1).unwrap()),
        (
            "odd",
            a.slice(0, 0, 5, 1).unwrap().slice(1, 0, 3, 2).unwrap().normalize_columns().unwrap(),
        ),
        ("integers", Expression::computed_integers(shape(&[3]), |place| place as i32 - 1).unwrap()),
    ];
    let mut metadata = MetadataBuf::new();
    metadata.set("general.architecture", "none");
    let mut recipe = Recipe::new(
        metadata,
        tensors.into_iter().map(|(name, expression)| RecipeTensor::new(name, expression)).collect(),
    );
    recipe.form.endian = endian;
    (recipe.plan(&source).unwrap(), source)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    #[test]
    fn a_partition_is_the_file(cuts in prop::collection::vec(0..10_000u64, 0..8), big in any::<bool>()) {
        let (plan, source) = plan(if big { Endian::Big } else { Endian::Little });
        let options = RunOptions::with_threads(2);
        let whole = run(&plan, &source, Vec::new(), &options, &mut |_| ControlFlow::Continue(())).unwrap();
        let mut cuts: Vec<u64> = cuts.into_iter().map(|cut| cut * plan.layout().total_len() / 10_000).chain([0, plan.layout().total_len()]).collect();
        cuts.sort_unstable();
        let mut parts: Vec<(u64, Vec<u8>)> = Vec::new();
        for range in cuts.windows(2).rev() {
            let part = || run_range(&plan, &source, range[0]..range[1], Vec::new(), &options, &mut |_| ControlFlow::Continue(())).unwrap();
            prop_assert_eq!(part(), part());
            parts.push((range[0], part()));
        }
        parts.sort();
        prop_assert!(parts.into_iter().flat_map(|(_, bytes)| bytes).eq(whole));
    }
}

#[test]
fn ranges_can_be_refused_and_cancelled() {
    let (plan, source) = plan(Endian::Little);
    let len = plan.layout().total_len();
    assert!(
        run_range(
            &plan,
            &source,
            0..len + 1,
            Vec::new(),
            &RunOptions::with_threads(1),
            &mut |_| { ControlFlow::Continue(()) }
        )
        .is_err()
    );
    let stopped =
        run_range(&plan, &source, 0..len, Vec::new(), &RunOptions::with_threads(1), &mut |_| {
            ControlFlow::Break(())
        });
    assert_eq!(stopped.unwrap_err().kind(), ErrorKind::Cancelled);
}

/// An unchanged recipe reproduces a canonical file byte for byte.
#[test]
fn a_copy_is_the_file() {
    for name in
        ["mobilenetv3_3class_v3_fp16.gguf", "ggml-vocab-phi-3.gguf", "ggml-vocab-bert-bge.gguf"]
    {
        let path = real(name);
        let checkpoint = GgufCheckpoint::open(&path).unwrap();
        let plan = Recipe::copy_of(&checkpoint).unwrap().plan(&checkpoint).unwrap();
        let copy = run(&plan, &checkpoint, Vec::new(), &RunOptions::default(), &mut |_| {
            ControlFlow::Continue(())
        })
        .unwrap();
        assert!(copy == std::fs::read(&path).unwrap(), "{name}");
    }
}

const SHARDS: usize = 3;

fn shard_source() -> MemorySource {
    let mut source = MemorySource::new();
    for number in 0..SHARDS {
        let byte = u8::try_from(number).unwrap();
        let shape = Shape::new(&[8]).unwrap();
        source.add(format!("t{number}"), GgmlType::F32, shape, vec![byte; 32]).unwrap();
    }
    source
}

fn shard_plans(source: &MemorySource) -> Vec<Plan> {
    let tensor = |number| {
        let name = format!("t{number}");
        RecipeTensor::new(name.clone(), Expression::named(source, &name).unwrap())
    };
    let recipe = Recipe::new(MetadataBuf::new(), (0..SHARDS).map(tensor).collect());
    let shards = recipe.split(&SplitOptions::new(ShardLimit::Tensors(1))).unwrap();
    shards.into_iter().map(|shard| shard.plan(source).unwrap()).collect()
}

fn shard_files(directory: &Path) -> (Vec<PathBuf>, ShardFiles) {
    let paths = shard_paths(&directory.join("model"), SHARDS).unwrap();
    let mut files = ShardFiles::new();
    for path in &paths {
        files.push(FileSink::create(path, Overwrite::Refuse).unwrap()).unwrap();
    }
    (paths, files)
}

#[test]
fn each_shard_equals_its_plan() {
    let (directory, source) = (tempfile::tempdir().unwrap(), shard_source());
    let plans = shard_plans(&source);
    let (paths, files) = shard_files(directory.path());
    let mut seen = Vec::new();
    let options = RunOptions::with_threads(1);
    files
        .run(&plans, &source, &options, &mut |now| {
            seen.push((now.written, now.total));
            ControlFlow::Continue(())
        })
        .unwrap();
    assert_eq!(seen, [(32, 96), (64, 96), (96, 96)]);
    for (plan, path) in plans.iter().zip(&paths) {
        let alone =
            run(plan, &source, Vec::new(), &options, &mut |_| ControlFlow::Continue(())).unwrap();
        assert!(std::fs::read(path).unwrap() == alone);
    }
    assert_eq!(ggmill_io::open(&paths[1]).unwrap().tensors().len(), SHARDS);
}

#[test]
fn a_cancelled_set_leaves_no_shards() {
    let (directory, source) = (tempfile::tempdir().unwrap(), shard_source());
    let (_, files) = shard_files(directory.path());
    let error =
        files.run(&shard_plans(&source), &source, &RunOptions::with_threads(1), &mut |now| {
            if now.written < now.total { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        });
    assert_eq!(error.unwrap_err().kind(), ErrorKind::Cancelled);
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
}

#[test]
fn a_missing_plan_is_misuse() {
    let (directory, source) = (tempfile::tempdir().unwrap(), shard_source());
    let (_, files) = shard_files(directory.path());
    let error =
        files.run(&shard_plans(&source)[1..], &source, &RunOptions::with_threads(1), &mut |_| {
            ControlFlow::Continue(())
        });
    assert_eq!(error.unwrap_err().kind(), ErrorKind::Misuse);
}
