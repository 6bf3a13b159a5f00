//! Convert, merge an adapter, quantize, split: one plan and one pass, which give the same bytes as
//! the single steps.

use std::ops::ControlFlow;
use std::path::Path;

use ggmill::arch::Catalogue;
use ggmill::convert::{ConvertOptions, convert};
use ggmill::formats::CheckpointDirectory;
use ggmill::pipeline::{
    Checkpoint, Encoding, Expression, GgufCheckpoint, Joined, MemorySource, Pretrained as _,
    Recipe, Result, RunOptions, ShardLimit, SplitOptions, run,
};
use ggmill::quantize::{QuantizeOptions, Target, quantize, quantize_recipe};
use ggmill::{FileType, GgmlType, Shape};

const MERGED: &[u8] = b"blk.1.attn_q.weight";

/// Returns a low-rank change of a matrix of 64 by 64.
fn adapter() -> MemorySource {
    let mut source = MemorySource::new();
    let numbers = |count: u32, step: f32| {
        (0..count)
            .flat_map(|i| ((i * 37 % 101) as f32 * step - 0.02).to_le_bytes())
            .collect::<Vec<u8>>()
    };
    source.add("lora_a", GgmlType::F32, Shape::new(&[64, 4]).unwrap(), numbers(256, 3e-4)).unwrap();
    source.add("lora_b", GgmlType::F32, Shape::new(&[4, 64]).unwrap(), numbers(256, 5e-4)).unwrap();
    source
}

/// Adds the change to its tensor, which keeps its type.
fn merge(mut recipe: Recipe, sources: &Joined<'_>) -> Result<Recipe> {
    let [a, b] = ["lora_a", "lora_b"].map(|name| Expression::named(sources, name));
    let delta = a?.matmul(&b?)?.mul(2.0)?;
    for tensor in recipe.tensors.iter_mut().filter(|tensor| tensor.name == MERGED) {
        tensor.expression = tensor
            .expression
            .to_f32()?
            .sum(&delta)?
            .encode(tensor.ggml_type(), Encoding::finite())?;
    }
    Ok(recipe)
}

fn written(recipe: Recipe, source: &dyn Checkpoint) -> Vec<u8> {
    let plan = recipe.plan(source).unwrap();
    run(&plan, source, Vec::new(), &RunOptions::with_threads(2), &mut |_| ControlFlow::Continue(()))
        .unwrap()
}

#[test]
fn one_pass_equals_its_steps() {
    let directory =
        Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../ggmill-testdata/real/tinystories260K"));
    let checkpoint = CheckpointDirectory::open(directory).unwrap();
    let adapter = adapter();
    let catalogue = Catalogue::new();
    let architecture = catalogue.for_checkpoint(checkpoint.config()).unwrap();
    let converted =
        || convert(&checkpoint, architecture, &ConvertOptions::new(FileType::F16)).unwrap();
    let options = QuantizeOptions::new("q8_0".parse::<Target>().unwrap());
    let split = SplitOptions::new(ShardLimit::Tensors(20));

    let mut sources = Joined::new();
    sources.add(&checkpoint);
    sources.add(&adapter);
    let merged = merge(converted(), &sources).unwrap();
    let shards = quantize_recipe(&merged, &options).unwrap().split(&split).unwrap();
    let at_once: Vec<Vec<u8>> = shards.into_iter().map(|shard| written(shard, &sources)).collect();

    let place = tempfile::tempdir().unwrap();
    let file = |name: &str, bytes: Vec<u8>| {
        let path = place.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        GgufCheckpoint::open(path).unwrap()
    };
    let first = file("converted.gguf", written(converted(), &checkpoint));
    let mut sources = Joined::new();
    sources.add(&first);
    sources.add(&adapter);
    let second = file(
        "merged.gguf",
        written(merge(Recipe::copy_of(&first).unwrap(), &sources).unwrap(), &sources),
    );
    let third = file("quantized.gguf", written(quantize(&second, &options).unwrap(), &second));
    let shards = ggmill::pipeline::split(&third, &split).unwrap();
    let step_by_step: Vec<Vec<u8>> =
        shards.into_iter().map(|shard| written(shard, &third)).collect();

    assert!(at_once.len() > 1);
    assert_eq!(at_once, step_by_step);
    let plain = written(
        quantize_recipe(&converted(), &options).unwrap().split(&split).unwrap().swap_remove(0),
        &checkpoint,
    );
    assert_ne!(at_once[0], plain, "the adapter changes something");
}
