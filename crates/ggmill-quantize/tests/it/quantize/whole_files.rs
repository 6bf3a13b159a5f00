//! Whole files, byte for byte those of `llama_model_quantize`: `tests/quantize.sha256`, written by
//! `cargo xtask peers quantize`.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::path::PathBuf;

use ggmill_pipeline::{GgufCheckpoint, Recipe, RunOptions, ShardLimit, SplitOptions, run, split};
use ggmill_quantize::{ImportanceFilter, quantize, quantize_shards};
use ggmill_testdata::sha256;

use super::{Fixture, options, quantized};

/// What is tried here. The chore tries every type.
const PLAIN: &[&str] = &[
    "Q4_K_M",
    "Q5_K_S",
    "Q2_K",
    "IQ4_XS",
    "Q8_0",
    "Q6_K",
    "Q4_0",
    "Q3_K_L",
    "MXFP4_MOE",
    "TQ1_0",
    "F16",
    "COPY",
];
const WITH_IMPORTANCE: &[&str] = &["Q4_K_M", "Q4_0", "IQ2_XS", "IQ3_XXS"];

fn expected() -> HashMap<(&'static str, &'static str, &'static str), &'static str> {
    let lines = include_str!("../../quantize.sha256").lines().filter(|line| !line.starts_with('#'));
    let row = |line: &'static str| {
        let mut words = line.split(' ');
        let mut word = || words.next().unwrap();
        ((word(), word(), word()), word())
    };
    lines.map(row).collect()
}

fn check(name: &str) {
    let (fixture, expected) = (Fixture::new(name), expected());
    for (types, form) in [(PLAIN, "none"), (WITH_IMPORTANCE, "imatrix")] {
        for &target in types {
            let mut options = options(target);
            options.importance =
                (form == "imatrix").then(|| fixture.importance(&ImportanceFilter::All));
            let file = quantized(&fixture.path(), &options).unwrap();
            assert_eq!(sha256(&file), expected[&(name, target, form)], "{name} {target} {form}");
        }
    }
}

#[test]
fn a_llama_is_the_references() {
    check("llama");
}

#[test]
fn a_mixture_of_experts_is_the_references() {
    check("mixtral");
}

#[test]
fn a_mamba_is_the_references() {
    check("mamba");
}

#[test]
fn a_falcon_is_the_references() {
    check("falcon");
}

/// Shards in, shards out: what each has and says is the reference's.
#[test]
fn shards_are_the_references() {
    let expected = expected();
    let sets = [
        ("llama", "Q4_K_M", "none"),
        ("llama", "Q3_K_M", "none-empty"),
        ("llama", "IQ2_XS", "imatrix"),
        ("mixtral", "Q2_K", "imatrix"),
        ("mamba", "Q6_K", "none"),
    ];
    for (name, target, form) in sets {
        let fixture = Fixture::new(name);
        let mut split = SplitOptions::new(ShardLimit::Tensors(30));
        split.no_tensor_first = form.ends_with("empty");
        let shards = cut(&fixture, &split);
        let mut options = options(target);
        options.importance =
            (form == "imatrix").then(|| fixture.importance(&ImportanceFilter::All));
        let checkpoint = GgufCheckpoint::open(shards.last().unwrap()).unwrap();
        let recipes = quantize_shards(&checkpoint, &options).unwrap();
        assert_eq!(recipes.len(), shards.len());
        for (number, recipe) in (1..).zip(recipes) {
            let plan = recipe.plan(&checkpoint).unwrap();
            let file = run(&plan, &checkpoint, Vec::new(), &RunOptions::default(), &mut |_| {
                ControlFlow::Continue(())
            })
            .unwrap();
            assert_eq!(
                sha256(&file),
                expected[&(name, target, &*format!("{form}-shard-{number}"))],
                "{name} {target} {form} {number}"
            );
        }
    }
}

/// Shards in, one file out, and the other way round: what one file gives, and what cutting that
/// would give.
#[test]
fn shards_are_put_together_and_cut_anew() {
    let fixture = Fixture::new("llama");
    let whole = quantized(&fixture.path(), &options("Q4_K_M")).unwrap();
    let limit = SplitOptions::new(ShardLimit::Bytes(40_000));
    let shards = cut(&fixture, &SplitOptions::new(ShardLimit::Tensors(30)));
    assert!(quantized(&shards[1], &options("Q4_K_M")).unwrap() == whole);

    let checkpoint = GgufCheckpoint::open(&shards[0]).unwrap();
    let made = quantize(&checkpoint, &options("Q4_K_M")).unwrap().split(&limit).unwrap();
    let path = fixture.directory.path().join("whole.gguf");
    std::fs::write(&path, &whole).unwrap();
    let again = GgufCheckpoint::open(&path).unwrap();
    let cut = split(&again, &limit).unwrap();
    assert!(made.len() > 3 && made.len() == cut.len());
    for (made, cut) in made.into_iter().zip(cut) {
        let bytes = |recipe: Recipe, checkpoint| {
            run(
                &recipe.plan(checkpoint).unwrap(),
                checkpoint,
                Vec::new(),
                &RunOptions::default(),
                &mut |_| ControlFlow::Continue(()),
            )
            .unwrap()
        };
        assert!(bytes(made, &checkpoint) == bytes(cut, &again));
    }
}

/// Cuts the model of a fixture into shards beside it.
fn cut(fixture: &Fixture, options: &SplitOptions) -> Vec<PathBuf> {
    let checkpoint = GgufCheckpoint::open(fixture.path()).unwrap();
    let recipes = split(&checkpoint, options).unwrap();
    let count = u32::try_from(recipes.len()).unwrap();
    let write = |(number, recipe): (u32, Recipe)| {
        let path =
            fixture.directory.path().join(ggmill_core::shard_file_name("cut", number, count));
        let plan = recipe.plan(&checkpoint).unwrap();
        std::fs::write(
            &path,
            run(&plan, &checkpoint, Vec::new(), &RunOptions::default(), &mut |_| {
                ControlFlow::Continue(())
            })
            .unwrap(),
        )
        .unwrap();
        path
    };
    (1..).zip(recipes).map(write).collect()
}

/// Where a whole shard loses its tensors: in the middle it stays, for the numbers of the others; at
/// the end it goes.
#[test]
fn shards_without_tensors() {
    let fixture = Fixture::new("mamba");
    let shards = cut(&fixture, &SplitOptions::new(ShardLimit::Tensors(11)));
    let checkpoint = GgufCheckpoint::open(&shards[0]).unwrap();
    let counts = |layers: &[u64]| {
        let mut options = options("Q6_K");
        options.prune_layers = layers.iter().copied().collect();
        let recipes = quantize_shards(&checkpoint, &options).unwrap();
        recipes
            .into_iter()
            .map(|recipe| recipe.plan(&checkpoint).unwrap().layout().tensors().len())
            .collect::<Vec<_>>()
    };
    assert_eq!(counts(&[]), [11, 11, 11, 5]);
    assert_eq!(counts(&[3]), [11, 11, 7]);
    assert_eq!(counts(&[1, 2]), [11, 0, 4, 5]);
}

#[test]
fn bytes_do_not_depend_on_the_number_of_threads() {
    let fixture = Fixture::new("mixtral");
    let on = |threads| {
        let quantized = || quantized(&fixture.path(), &options("Q4_K_M"));
        RunOptions::on(threads).install(quantized).unwrap().unwrap()
    };
    assert!(on(1) == on(3));
}
