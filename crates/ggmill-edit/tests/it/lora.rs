//! Adapters merged into models: the numbers against double precision, everything else unchanged,
//! and the refusals.

use std::path::Path;

use ggmill_core::{Endian, GgmlType, MetadataBuf, Shape};
use ggmill_edit::{LoraAdapter, merge_adapters};
use ggmill_pipeline::{
    Checkpoint, Encoding, Expression, GgufCheckpoint, MemorySource, Recipe, RecipeTensor,
    ShardLimit, SplitOptions,
};
use proptest::prelude::*;

use crate::reshape::{made, written};

/// A tensor: name, dimensions, type.
type Tensor = (&'static str, Vec<u64>, GgmlType);

/// A change of the metadata of an adapter.
type Change<'a> = &'a dyn Fn(&mut MetadataBuf);

/// Pseudorandom numbers between -1 and 1, seeded with a name.
fn numbers(name: &str, seed: u64, count: u64) -> Vec<f32> {
    let mut state = name
        .bytes()
        .fold(seed, |state, byte| (state ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    (0..count)
        .map(|_| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            ((state >> 40) as f32 - (1 << 23) as f32) / (1 << 23) as f32
        })
        .collect()
}

/// A file of these tensors, filled with numbers.
fn file(
    path: &Path,
    metadata: MetadataBuf,
    tensors: &[Tensor],
    seed: u64,
    endian: Endian,
) -> GgufCheckpoint {
    let tensors = tensors
        .iter()
        .map(|(name, dimensions, ggml_type)| {
            let shape = Shape::new(dimensions).unwrap();
            let values = numbers(name, seed, shape.elements());
            let values = Expression::floats(shape, values).unwrap();
            RecipeTensor::new(*name, values.encode(*ggml_type, Encoding::default()).unwrap())
        })
        .collect();
    let mut recipe = Recipe::new(metadata, tensors);
    recipe.form.endian = endian;
    written(path, &made(recipe, &MemorySource::new()))
}

fn model(path: &Path, tensors: &[Tensor], seed: u64, endian: Endian) -> GgufCheckpoint {
    let mut metadata = MetadataBuf::new();
    metadata.set("general.architecture", "llama");
    metadata.set("general.name", "base");
    file(path, metadata, tensors, seed, endian)
}

fn adapter(
    path: &Path,
    alpha: f32,
    tensors: &[Tensor],
    seed: u64,
    endian: Endian,
) -> GgufCheckpoint {
    let mut metadata = MetadataBuf::new();
    metadata.set("general.architecture", "llama");
    metadata.set("general.type", "adapter");
    metadata.set("adapter.type", "lora");
    metadata.set("adapter.lora.alpha", alpha);
    file(path, metadata, tensors, seed, endian)
}

/// The numbers of a tensor.
fn values(model: &GgufCheckpoint, name: &str) -> Vec<f32> {
    let tensor = Expression::named(model, name).unwrap().to_f32().unwrap();
    let bytes = tensor.evaluate(model, 0..tensor.shape().elements()).unwrap();
    bytes.as_chunks().0.iter().map(|&bytes| f32::from_le_bytes(bytes)).collect()
}

/// The stored numbers of a tensor, in little-endian order.
fn bytes(model: &GgufCheckpoint, name: &str) -> Vec<u8> {
    let tensor = Expression::named(model, name).unwrap();
    tensor.evaluate(model, 0..tensor.shape().elements()).unwrap()
}

const COLUMNS: u64 = 256;
const ROWS: u64 = 6;

fn base_tensors(ggml_type: GgmlType) -> Vec<Tensor> {
    vec![
        ("token_embd.weight", vec![COLUMNS, 10], ggml_type),
        ("blk.0.attn_q.weight", vec![COLUMNS, ROWS], ggml_type),
        ("blk.0.attn_norm.weight", vec![COLUMNS], GgmlType::F32),
        ("blk.0.attn_k.weight", vec![COLUMNS, ROWS], ggml_type),
        ("blk.0.ffn_up_exps.weight", vec![COLUMNS, ROWS, 3], ggml_type),
    ]
}

/// Factors for three of the tensors; the experts share the first factor if `shared`.
fn factors(rank: u64, shared: bool, ggml_type: GgmlType) -> Vec<Tensor> {
    let experts = if shared { 1 } else { 3 };
    vec![
        ("blk.0.attn_q.weight.lora_a", vec![COLUMNS, rank], ggml_type),
        ("blk.0.attn_q.weight.lora_b", vec![rank, ROWS], ggml_type),
        ("blk.0.ffn_up_exps.weight.lora_a", vec![COLUMNS, rank, experts], GgmlType::F32),
        ("blk.0.ffn_up_exps.weight.lora_b", vec![rank, ROWS, 3], ggml_type),
        ("token_embd.weight.lora_a", vec![rank, 10], ggml_type),
        ("token_embd.weight.lora_b", vec![rank, COLUMNS], GgmlType::F32),
    ]
}

/// The change of an element in double precision: the sum, and the sum of the magnitudes.
fn change(
    adapters: &[(&GgufCheckpoint, f64)],
    name: &str,
    column: u64,
    row: u64,
    expert: u64,
) -> [f64; 2] {
    let mut sums = [0.0; 2];
    for (adapter, factor) in adapters {
        let [a, b] = ["lora_a", "lora_b"].map(|half| format!("{name}.{half}"));
        let shape = |name: &str| {
            let found = adapter.tensors().iter().find(|tensor| tensor.name == name.as_bytes());
            found.unwrap().shape.dimensions().to_vec()
        };
        let (shape_a, rank) = (shape(&a), shape(&b)[0]);
        let (a, b) = (values(adapter, &a), values(adapter, &b));
        for k in 0..rank {
            let (x, y) = if name.starts_with("token_embd") {
                (a[(row * rank + k) as usize], b[(column * rank + k) as usize])
            } else {
                let of_a = expert.min(shape_a.get(2).map_or(0, |experts| experts - 1));
                let place = (of_a * rank + k) * COLUMNS + column;
                (a[place as usize], b[((expert * ROWS + row) * rank + k) as usize])
            };
            let term = factor * f64::from(x) * f64::from(y);
            sums[0] += term;
            sums[1] += term.abs();
        }
    }
    sums
}

fn types() -> impl Strategy<Value = GgmlType> {
    prop::sample::select(vec![
        GgmlType::F32,
        GgmlType::F16,
        GgmlType::BF16,
        GgmlType::Q8_0,
        GgmlType::Q4_K,
        GgmlType::Q6_K,
        GgmlType::IQ4_NL,
    ])
}

fn floats() -> impl Strategy<Value = GgmlType> {
    prop::sample::select(vec![GgmlType::F32, GgmlType::F16, GgmlType::BF16])
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    /// The bound of docs/exactness.md: what F32 rounds away, and the type of the tensor once.
    #[test]
    fn merged_values_are_within_the_error_bound(
        ggml_type in types(),
        kinds in (floats(), floats()),
        ranks in (1u64..9, 1u64..5),
        shared in any::<bool>(),
        scales in (-2.0f32..2.0, 0.1f32..2.0),
        alpha in prop::sample::select(vec![0.0f32, 1.0, 16.0]),
        ends in (any::<bool>(), any::<bool>()),
        several in any::<bool>(),
    ) {
        let endian = |big| if big { Endian::Big } else { Endian::Little };
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        let base = model(&path("base.gguf"), &base_tensors(ggml_type), 1, endian(ends.0));
        // The same numbers as the base has, in F32.
        let plain = {
            let mut recipe = Recipe::copy_of(&base).unwrap();
            for tensor in &mut recipe.tensors {
                tensor.expression = tensor.expression.to_f32().unwrap();
            }
            written(&path("plain.gguf"), &made(recipe, &base))
        };
        let first = adapter(&path("one.gguf"), alpha, &factors(ranks.0, shared, kinds.0), 2, endian(ends.1));
        let second = adapter(&path("two.gguf"), 2.0, &factors(ranks.1, !shared, kinds.1)[..2], 3, Endian::Little);
        let files = [(&first, scales.0), (&second, scales.1)];
        let files = if several { &files[..] } else { &files[..1] };
        let adapters: Vec<_> =
            files.iter().map(|(file, scale)| (LoraAdapter::new(file).unwrap(), *scale)).collect();
        let adapters: Vec<_> = adapters.iter().map(|(adapter, scale)| (adapter, *scale)).collect();
        let merge = |base: &GgufCheckpoint, name: &str| {
            let (recipe, sources) = merge_adapters(base, &adapters).unwrap();
            assert_eq!(recipe.form.endian, endian(ends.0));
            written(&path(name), &made(recipe, &sources))
        };
        let merged = merge(&base, "merged.gguf");
        let exact = merge(&plain, "exact.gguf");

        let strength = |alpha: f32, rank: u64, scale: f32| {
            f64::from(if alpha == 0.0 { scale } else { scale * alpha / rank as f32 })
        };
        let of_first = (&first, strength(alpha, ranks.0, scales.0));
        let both = [of_first, (&second, strength(2.0, ranks.1, scales.1))];
        for (name, rows, experts) in [
            ("blk.0.attn_q.weight", ROWS, 1),
            ("blk.0.ffn_up_exps.weight", ROWS, 3),
            ("token_embd.weight", 10, 1),
        ] {
            let adapters = if several && name == "blk.0.attn_q.weight" { &both[..] } else { &[of_first] };
            let (before, after) = (values(&plain, name), values(&exact, name));
            let in_half = values(&merged, name);
            for place in (0..COLUMNS * rows * experts).step_by(7) {
                let (column, row, expert) =
                    (place % COLUMNS, place / COLUMNS % rows, place / COLUMNS / rows);
                let [sum, magnitude] = change(adapters, name, column, row, expert);
                let place = place as usize;
                let wanted = f64::from(before[place]) + sum;
                // One rounding for each term and each step.
                let bound = f64::from(2.0f32.powi(-24)) * 16.0 * (magnitude + f64::from(before[place].abs()));
                prop_assert!((f64::from(after[place]) - wanted).abs() <= bound, "{name} {place}");
                if ggml_type == GgmlType::F16 {
                    let half = bound + wanted.abs() / 2048.0 + f64::from(2.0f32.powi(-25));
                    prop_assert!((f64::from(in_half[place]) - wanted).abs() <= half, "{name} {place}");
                }
            }
            // The type is that of the base, by the same codec.
            let again = Expression::named(&exact, name).unwrap().encode(ggml_type, Encoding::finite()).unwrap();
            let again = again.evaluate(&exact, 0..again.shape().elements()).unwrap();
            prop_assert!(bytes(&merged, name) == again, "{name}");
        }
        for name in ["blk.0.attn_norm.weight", "blk.0.attn_k.weight"] {
            prop_assert!(bytes(&merged, name) == bytes(&base, name), "{name}");
        }
        prop_assert_eq!(
            MetadataBuf::copy_of(&merged.metadata()).unwrap(),
            MetadataBuf::copy_of(&base.metadata()).unwrap()
        );
        let types = |model: &GgufCheckpoint| model.tensors().to_vec();
        prop_assert_eq!(types(&merged), types(&base));
    }
}

/// Merging into shards gives the same as merging into one file, and a scale of 0 gives the base.
#[test]
fn merging_into_shards_equals_merging_into_one_file() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    let base = model(&path("base.gguf"), &base_tensors(GgmlType::Q8_0), 1, Endian::Little);
    let file =
        adapter(&path("adapter.gguf"), 8.0, &factors(4, true, GgmlType::F16), 2, Endian::Little);
    let adapter = LoraAdapter::new(&file).unwrap();
    let merge = |base: &GgufCheckpoint, scale: f32| {
        let (recipe, sources) = merge_adapters(base, &[(&adapter, scale)]).unwrap();
        made(recipe, &sources)
    };
    let shards = ggmill_pipeline::split(&base, &SplitOptions::new(ShardLimit::Tensors(2))).unwrap();
    let count = shards.len() as u32;
    for (number, recipe) in shards.into_iter().enumerate() {
        let name = ggmill_core::shard_file_name("shard", number as u32 + 1, count);
        std::fs::write(path(&name), made(recipe, &base)).unwrap();
    }
    let name = ggmill_core::shard_file_name("shard", 2, count);
    let set = GgufCheckpoint::open(path(&name)).unwrap();
    assert!(merge(&set, 1.0) == merge(&base, 1.0));
    assert!(merge(&base, 1.0) != merge(&base, 0.5));
    assert!(merge(&base, 0.0) == std::fs::read(path("base.gguf")).unwrap());
}

/// Adapters that do not fit the base are refused before any work, with the names of the tensors.
#[test]
fn refusals_name_the_tensors() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    let base = model(&path("base.gguf"), &base_tensors(GgmlType::F16), 1, Endian::Little);
    let refused = |base: &GgufCheckpoint, tensors: &[Tensor], change: Change<'_>| {
        let mut metadata = MetadataBuf::new();
        metadata.set("general.architecture", "llama");
        metadata.set("general.type", "adapter");
        metadata.set("adapter.type", "lora");
        metadata.set("adapter.lora.alpha", 8.0f32);
        change(&mut metadata);
        let file = file(&path("adapter.gguf"), metadata, tensors, 2, Endian::Little);
        let error = match LoraAdapter::new(&file) {
            Err(error) => error,
            Ok(adapter) => merge_adapters(base, &[(&adapter, 1.0)]).unwrap_err(),
        };
        assert!(error.path().is_some_and(|path| path.ends_with("adapter.gguf")), "{error}");
        error.to_string()
    };
    let unchanged = |_: &mut MetadataBuf| {};
    let good = factors(4, true, GgmlType::F32);
    let with = |name: &'static str, dimensions: &[u64]| {
        let tensor = (name, dimensions.to_vec(), GgmlType::F32);
        let kept = good.iter().filter(|tensor| tensor.0 != name).cloned();
        kept.chain([tensor]).collect::<Vec<Tensor>>()
    };
    let pair = |name: [&'static str; 2]| {
        vec![(name[0], vec![COLUMNS, 4], GgmlType::F32), (name[1], vec![4, ROWS], GgmlType::F32)]
    };
    let cases: [(Vec<Tensor>, Change<'_>, &str); 11] = [
        (
            good.clone(),
            &|keys| keys.set("general.type", "model"),
            "general.type is \"model\", expected \"adapter\"",
        ),
        (
            good.clone(),
            &|keys| {
                keys.remove("adapter.type");
            },
            "adapter.type is none, expected \"lora\"",
        ),
        (
            good.clone(),
            &|keys| keys.set("general.architecture", "qwen2"),
            "for the architecture \"qwen2\", but the architecture of the base is \"llama\"",
        ),
        (
            good.clone(),
            &|keys| keys.set("adapter.lora.alpha", 8u32),
            "adapter.lora.alpha is not a finite F32",
        ),
        (
            good.clone(),
            &|keys| keys.set("adapter.alora.invocation_tokens", [1u32].as_slice()),
            "only after these tokens",
        ),
        (good[1..].to_vec(), &unchanged, "there is no \"blk.0.attn_q.weight.lora_a\""),
        (
            pair(["blk.7.attn_q.weight.lora_a", "blk.7.attn_q.weight.lora_b"]),
            &unchanged,
            "changes tensors that the base does not have (1 of 1): blk.7.attn_q.weight",
        ),
        (
            with("blk.0.attn_q.weight.lora_b", &[4, 7]),
            &unchanged,
            "tensor \"blk.0.attn_q.weight\": the factors 256 × 4 and 4 × 7 are for shape 256 × 7, \
             but the tensor of the base has shape 256 × 6",
        ),
        (
            with("blk.0.attn_q.weight.lora_b", &[5, ROWS]),
            &unchanged,
            "factors of shapes 256 × 4 and 5 × 6 cannot be multiplied",
        ),
        (
            with("output.weight", &[4, 4]),
            &unchanged,
            "tensor \"output.weight\" is neither a factor",
        ),
        (Vec::new(), &unchanged, "has no factors"),
    ];
    for (tensors, change, expected) in cases {
        let found = refused(&base, &tensors, change);
        assert!(found.contains(expected), "{found}\n{expected}");
    }
    let integers = {
        let source = {
            let mut source = MemorySource::new();
            source
                .add(
                    "blk.0.attn_q.weight",
                    GgmlType::I32,
                    Shape::new(&[COLUMNS, ROWS]).unwrap(),
                    vec![0; 6144],
                )
                .unwrap();
            source
        };
        let mut metadata = MetadataBuf::new();
        metadata.set("general.architecture", "llama");
        let tensor =
            RecipeTensor::new("blk.0.attn_q.weight", Expression::tensor(&source, 0).unwrap());
        written(&path("integers.gguf"), &made(Recipe::new(metadata, vec![tensor]), &source))
    };
    let file = adapter(&path("one.gguf"), 1.0, &good[..2], 2, Endian::Little);
    let adapter = LoraAdapter::new(&file).unwrap();
    let error = merge_adapters(&integers, &[(&adapter, 1.0)]).unwrap_err().to_string();
    assert!(error.contains("blk.0.attn_q.weight"), "{error}");
    assert!(merge_adapters(&base, &[(&adapter, f32::NAN)]).is_err());
    let targets: Vec<_> =
        adapter.targets().map(|target| (target.name.to_string(), target.rank)).collect();
    assert_eq!(targets, [("blk.0.attn_q.weight".to_owned(), 4)]);
}

/// Norms of an adapter are ignored, with a note.
#[test]
fn norms_are_not_merged() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    let base = model(&path("base.gguf"), &base_tensors(GgmlType::F16), 1, Endian::Little);
    let mut tensors = factors(4, true, GgmlType::F32);
    tensors.push(("blk.0.attn_norm.weight", vec![COLUMNS], GgmlType::F32));
    let file = adapter(&path("adapter.gguf"), 8.0, &tensors, 9, Endian::Little);
    let adapter = LoraAdapter::new(&file).unwrap();
    let (recipe, sources) = merge_adapters(&base, &[(&adapter, 1.0)]).unwrap();
    assert!(
        recipe.notes.iter().any(|note| note.contains("blk.0.attn_norm.weight")),
        "{:?}",
        recipe.notes
    );
    let merged = written(&path("merged.gguf"), &made(recipe, &sources));
    assert!(bytes(&merged, "blk.0.attn_norm.weight") == bytes(&base, "blk.0.attn_norm.weight"));
}
