//! Shards get their names together, or not at all.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use ggmill_core::{GgmlType, MetadataBuf, Shape};
use ggmill_io::{FileSink, Overwrite, shard_paths};
use ggmill_pipeline::{
    ErrorKind, Expression, MemorySource, Plan, Recipe, RecipeTensor, RunOptions, ShardFiles,
    ShardLimit, SplitOptions, run,
};

const SHARDS: usize = 3;

fn source() -> MemorySource {
    let mut source = MemorySource::new();
    for number in 0..SHARDS {
        let byte = u8::try_from(number).unwrap();
        let shape = Shape::new(&[8]).unwrap();
        source.add(format!("t{number}"), GgmlType::F32, shape, vec![byte; 32]).unwrap();
    }
    source
}

fn plans(source: &MemorySource) -> Vec<Plan> {
    let tensor = |number| {
        let name = format!("t{number}");
        RecipeTensor::new(name.clone(), Expression::named(source, &name).unwrap())
    };
    let recipe = Recipe::new(MetadataBuf::new(), (0..SHARDS).map(tensor).collect());
    let shards = recipe.split(&SplitOptions::new(ShardLimit::Tensors(1))).unwrap();
    shards.into_iter().map(|shard| shard.plan(source).unwrap()).collect()
}

fn files(directory: &Path) -> (Vec<PathBuf>, ShardFiles) {
    let paths = shard_paths(&directory.join("model"), SHARDS).unwrap();
    let mut files = ShardFiles::new();
    for path in &paths {
        files.push(FileSink::create(path, Overwrite::Refuse).unwrap()).unwrap();
    }
    (paths, files)
}

#[test]
fn each_shard_is_what_its_plan_says() {
    let (directory, source) = (tempfile::tempdir().unwrap(), source());
    let plans = plans(&source);
    let (paths, files) = files(directory.path());
    let mut seen = Vec::new();
    let options = RunOptions::on(1);
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
fn a_set_that_is_stopped_has_no_shards() {
    let (directory, source) = (tempfile::tempdir().unwrap(), source());
    let (_, files) = files(directory.path());
    let error = files.run(&plans(&source), &source, &RunOptions::on(1), &mut |now| {
        if now.written < now.total { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    });
    assert_eq!(error.unwrap_err().kind(), ErrorKind::Cancelled);
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
}

#[test]
fn a_file_too_few_is_misuse() {
    let (directory, source) = (tempfile::tempdir().unwrap(), source());
    let (_, files) = files(directory.path());
    let error = files
        .run(&plans(&source)[1..], &source, &RunOptions::on(1), &mut |_| ControlFlow::Continue(()));
    assert_eq!(error.unwrap_err().kind(), ErrorKind::Misuse);
}
