//! Small PEFT adapters for models of many classes, compared byte for byte with the reference, and
//! by the product of their factors.
//!
//! `fixtures/lora.json` has a recipe for each: its configuration, the names, types and shapes of
//! its tensors, and the hashes of the reference's files. `conformance/lora.py` records them.

use std::collections::BTreeMap;
use std::fs;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::LazyLock;

use ggmill_arch::Catalogue;
use ggmill_convert::{ConvertOptions, RestoreOptions, convert, convert_lora, restore_checkpoint};
use ggmill_core::FileType;
use ggmill_pipeline::formats::{CheckpointDirectory, PeftAdapter};
use ggmill_pipeline::{
    Checkpoint as _, Expression, GgufCheckpoint, Pretrained as _, Recipe, RunOptions, run,
};
use ggmill_testdata::{real, sha256};
use serde_json::{Map, Value as Json};

use crate::classes::{Recipes, fixtures, recipes, weights, weights_of};
use crate::support::safetensors;

const TYPES: [(&str, FileType); 4] = [
    ("f32", FileType::F32),
    ("f16", FileType::F16),
    ("bf16", FileType::BF16),
    ("q8_0", FileType::Q8_0),
];

/// The recipes of base models.
static BASES: LazyLock<Recipes> = LazyLock::new(|| recipes("classes"));

/// The recipe of an adapter's base.
fn base(recipe: &Json) -> &'static Json {
    &BASES[recipe["of"].as_str().unwrap()]
}

/// Writes the adapter of a recipe with these weights, and the configuration of its base.
fn materialize(
    recipe: &Json,
    name: &str,
    weights: &[u8],
    place: &Path,
) -> (PeftAdapter, CheckpointDirectory) {
    let (of_base, adapter) = (place.join("base"), place.join(name));
    fs::create_dir_all(&of_base).unwrap();
    fs::create_dir_all(&adapter).unwrap();
    fs::write(of_base.join("config.json"), base(recipe)["config"].to_string()).unwrap();
    fs::write(adapter.join("adapter_config.json"), recipe["adapter"].to_string()).unwrap();
    for (file, content) in recipe["files"].as_object().into_iter().flatten() {
        fs::write(adapter.join(file), content.as_str().unwrap()).unwrap();
    }
    fs::write(adapter.join("adapter_model.safetensors"), weights).unwrap();
    assert!(PeftAdapter::is_at(&adapter) && !PeftAdapter::is_at(&of_base));
    (PeftAdapter::open(&adapter).unwrap(), CheckpointDirectory::open_described(&of_base).unwrap())
}

fn converted(
    adapter: &PeftAdapter,
    base: &CheckpointDirectory,
    file_type: FileType,
) -> ggmill_pipeline::Result<Recipe> {
    let catalogue = Catalogue::new();
    let architecture = catalogue.for_checkpoint(base.config()).unwrap();
    convert_lora(adapter, base, architecture, &ConvertOptions::new(file_type))
}

fn written(recipe: Recipe, source: &dyn ggmill_pipeline::Checkpoint) -> Vec<u8> {
    let plan = recipe.plan(source).unwrap();
    run(&plan, source, Vec::new(), &RunOptions::with_threads(1), &mut |_| ControlFlow::Continue(()))
        .unwrap()
}

/// Returns `true` for an adapter whose factors include PEFT's scale, which the reference drops
/// (docs/exactness.md).
fn is_rescaled(recipe: &Json) -> bool {
    recipe["adapter"]["use_rslora"] == true
}

#[test]
fn adapters_equal_the_reference() {
    let recipes = recipes("lora");
    let mut equal = 0;
    for (name, recipe) in &recipes {
        let place = tempfile::tempdir().unwrap();
        let weights = weights(recipe["tensors"].as_object().unwrap());
        let (adapter, base) = materialize(recipe, name, &weights, place.path());
        if let Some(expected) = recipe["refused"].as_str() {
            let error = converted(&adapter, &base, FileType::F32).unwrap_err().to_string();
            assert!(error.contains(expected), "{name}: {error}");
            continue;
        }
        let Some(expected) = recipe["expected"].as_object() else {
            assert!(recipe["reference"].is_string(), "{name} has no hashes");
            continue;
        };
        assert_eq!(expected.len(), TYPES.len(), "{name}");
        for (kind, file_type) in TYPES {
            let made = converted(&adapter, &base, file_type);
            let made = made.unwrap_or_else(|error| panic!("{name}: {error}"));
            let is_equal = expected[kind] == sha256(&written(made, &adapter));
            assert_eq!(is_equal, !is_rescaled(recipe), "{name} in {kind}");
        }
        equal += 1;
    }
    assert!(equal >= 10, "{equal} of {}", recipes.len());
}

/// A GGUF file of the base gives the same result as its directory, for all bases that can be
/// restored.
#[test]
fn a_gguf_base_equals_its_directory() {
    let mut equal = 0;
    let mut refused = Vec::new();
    for (name, recipe) in &recipes("lora") {
        let Some(expected) = recipe["expected"].as_object() else { continue };
        if is_rescaled(recipe) {
            continue;
        }
        let place = tempfile::tempdir().unwrap();
        let weights = weights(recipe["tensors"].as_object().unwrap());
        let (adapter, _) = materialize(recipe, name, &weights, place.path());
        let directory = place.path().join("whole");
        crate::classes::materialize(base(recipe), &directory);
        let source = CheckpointDirectory::open(&directory).unwrap();
        let whole = crate::back::file(&source, FileType::F16, &place.path().join("whole.gguf"));
        let whole = whole.unwrap();
        let catalogue = Catalogue::new();
        let architecture = whole.metadata().str("general.architecture").unwrap();
        let architecture = catalogue.by_name(architecture).unwrap();
        let mut options = RestoreOptions::default();
        options.no_vocab = true;
        let made = restore_checkpoint(&whole, architecture, &options)
            .and_then(|restored| restored.into_checkpoint(&whole))
            .and_then(|base| {
                convert_lora(&adapter, &base, architecture, &ConvertOptions::new(FileType::F32))
            });
        match made {
            Ok(made) => {
                assert!(expected["f32"] == sha256(&written(made, &adapter)), "{name}");
                equal += 1;
            }
            Err(error) => refused.push(format!("{name}: {error}")),
        }
    }
    assert!(equal >= 10, "{equal}; refused: {refused:#?}");
}

/// The format of older PEFT versions. The file was written by torch 2.11 with the tensors of the
/// recipe, in the order of their data.
#[test]
fn a_pytorch_adapter_equals_the_safetensors_one() {
    let recipe = &recipes("lora")["gptneox"];
    let place = tempfile::tempdir().unwrap();
    let weights = weights(recipe["tensors"].as_object().unwrap());
    let (_, base) = materialize(recipe, "gptneox", &weights, place.path());
    let directory = place.path().join("gptneox");
    fs::remove_file(directory.join("adapter_model.safetensors")).unwrap();
    let pickled = fixtures().join("torch").join("adapter/adapter_model.bin");
    fs::copy(pickled, directory.join("adapter_model.bin")).unwrap();
    let adapter = PeftAdapter::open(&directory).unwrap();
    for (kind, file_type) in TYPES {
        let made = written(converted(&adapter, &base, file_type).unwrap(), &adapter);
        assert!(recipe["expected"][kind] == sha256(&made), "{kind}");
    }
}

/// Returns a factor of small integers, so that products are exact.
fn factor(name: &str, count: u64) -> Vec<f32> {
    let seed =
        name.bytes().fold(7u64, |seed, byte| seed.wrapping_mul(31).wrapping_add(u64::from(byte)));
    (0..count).map(|i| (((seed + i * i * 7 + i * 3) % 5) as f32) - 2.0).collect()
}

fn bytes(numbers: &[f32]) -> Vec<u8> {
    numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
}

fn shape(tensor: &Json) -> Vec<u64> {
    tensor[1].as_array().unwrap().iter().map(|extent| extent.as_u64().unwrap()).collect()
}

/// Multiplies two matrices in PyTorch's order: (rows, rank) and (rank, columns).
fn product(b: &[f32], a: &[f32], [rows, rank, columns]: [u64; 3]) -> Vec<f32> {
    let (rank, columns) = (rank as usize, columns as usize);
    let mut product = Vec::new();
    for row in 0..rows as usize {
        for column in 0..columns {
            product.push((0..rank).map(|k| b[row * rank + k] * a[k * columns + column]).sum());
        }
    }
    product
}

fn transposed(matrix: &[f32], [rows, columns]: [u64; 2]) -> Vec<f32> {
    let places = (0..columns).flat_map(|column| (0..rows).map(move |row| row * columns + column));
    places.map(|place| matrix[place as usize]).collect()
}

fn values(model: &GgufCheckpoint, name: &str) -> Vec<f32> {
    let tensor = Expression::named(model, name).unwrap();
    let bytes = tensor.evaluate(model, 0..tensor.shape().elements()).unwrap();
    bytes.as_chunks().0.iter().map(|&bytes| f32::from_le_bytes(bytes)).collect()
}

/// Multiplies two factors of a GGUF adapter like llama.cpp.
fn of_factors(adapter: &GgufCheckpoint, name: &str) -> Vec<f32> {
    let [a, b] = ["lora_a", "lora_b"].map(|half| format!("{name}.{half}"));
    let dimensions = |name: &str| {
        let tensor = adapter.tensors().iter().find(|tensor| tensor.name == name.as_bytes());
        tensor.unwrap().shape.dimensions().to_vec()
    };
    let (of_a, of_b) = (dimensions(&a), dimensions(&b));
    let (a, b) = (values(adapter, &a), values(adapter, &b));
    let rank = of_b[0];
    if name.ends_with("token_embd.weight") {
        // Rows of the first factor are looked up.
        let second = transposed(&b, [of_b[1], rank]);
        return product(&a, &second, [of_a[1], rank, of_b[1]]);
    }
    let (columns, rows) = (of_a[0], of_b[1]);
    let experts = of_b.get(2).copied().unwrap_or(1);
    let shared = of_a.get(2).copied().unwrap_or(1) == 1;
    let part = |all: &[f32], len: u64, number: u64| {
        all[(len * number) as usize..(len * (number + 1)) as usize].to_vec()
    };
    (0..experts)
        .flat_map(|expert| {
            let a = part(&a, columns * rank, if shared { 0 } else { expert });
            product(&part(&b, rank * rows, expert), &a, [rows, rank, columns])
        })
        .collect()
}

/// Converting the factors and multiplying them must equal converting their product, for all
/// operations of the descriptions.
#[test]
fn converted_factors_equal_the_converted_product() {
    let mut seen = 0;
    let recipes = recipes("lora");
    let is_exact = |recipe: &&Json| recipe["refused"].is_null() && !is_rescaled(recipe);
    for (name, recipe) in recipes.iter().filter(|(_, recipe)| is_exact(recipe)) {
        let place = tempfile::tempdir().unwrap();
        let tensors: &Map<String, Json> = recipe["tensors"].as_object().unwrap();
        let of_class = base(recipe);
        let mut weights_of_base = of_class["tensors"].as_object().unwrap().clone();
        let is_conv = recipe["adapter"]["fan_in_fan_out"] == true;
        let mut factors = Vec::new();
        let mut products: BTreeMap<String, (Vec<u64>, Vec<f32>)> = BTreeMap::new();
        for (stored, tensor) in tensors {
            let of_a = shape(tensor);
            let Some((start, end)) =
                [(".lora_A.weight", ".lora_B.weight"), (".lora_embedding_A", ".lora_embedding_B")]
                    .iter()
                    .find_map(|(a, b)| Some((stored.strip_suffix(a)?, *b)))
            else {
                continue;
            };
            let other = format!("{start}{end}");
            let of_b = shape(&tensors[&other]);
            let a = factor(stored, of_a[0] * of_a[1]);
            let b = factor(&other, of_b[0] * of_b[1]);
            let mut whole = product(&b, &a, [of_b[0], of_a[0], of_a[1]]);
            let mut dimensions = vec![of_b[0], of_a[1]];
            let base_name = format!("{}.weight", start.replace("base_model.model.", ""));
            let base_name = [base_name.clone(), base_name.replace("transformer.", "")]
                .into_iter()
                .find(|name| weights_of_base.contains_key(name))
                .unwrap_or_else(|| panic!("{name}: the base has no {base_name}"));
            if end.contains("embedding") || is_conv {
                whole = transposed(&whole, [dimensions[0], dimensions[1]]);
                dimensions.reverse();
            }
            assert_eq!(shape(&weights_of_base[&base_name]), dimensions, "{name} {base_name}");
            weights_of_base.remove(&base_name);
            products.insert(base_name, (dimensions, whole));
            factors.push((stored.clone(), "F32", of_a, bytes(&a)));
            factors.push((other, "F32", of_b, bytes(&b)));
        }
        let (adapter, configuration) =
            materialize(recipe, name, &safetensors(&factors), place.path());
        let adapter_bytes =
            written(converted(&adapter, &configuration, FileType::F32).unwrap(), &adapter);

        let model = place.path().join("model");
        fs::create_dir_all(&model).unwrap();
        fs::write(model.join("config.json"), of_class["config"].to_string()).unwrap();
        let mut all = weights_of(&weights_of_base);
        all.extend(
            products.into_iter().map(|(name, (shape, whole))| (name, "F32", shape, bytes(&whole))),
        );
        fs::write(model.join("model.safetensors"), safetensors(&all)).unwrap();
        let model = CheckpointDirectory::open(&model).unwrap();
        let mut options = ConvertOptions::new(FileType::F32);
        options.assume_defaults = true;
        options.no_vocab = true;
        let catalogue = Catalogue::new();
        let architecture = catalogue.for_checkpoint(model.config()).unwrap();
        let model_bytes = written(convert(&model, architecture, &options).unwrap(), &model);

        let open = |name: &str, bytes: &[u8]| {
            let path = place.path().join(name);
            fs::write(&path, bytes).unwrap();
            GgufCheckpoint::open(path).unwrap()
        };
        let (adapter, model) =
            (open("adapter.gguf", &adapter_bytes), open("model.gguf", &model_bytes));
        for tensor in adapter.tensors() {
            let text = tensor.name().to_string();
            let Some(target) = text.strip_suffix(".lora_a") else { continue };
            let (found, expected) = (of_factors(&adapter, target), values(&model, target));
            assert!(found == expected, "{name}: {target}");
            seen += 1;
        }
    }
    assert!(seen > 200, "{seen}");
}

/// An adapter of the queries of blocks 0 (rank 4) and 1 (rank 16) of the model with 260,000 parameters.
fn small_adapter(place: &Path, settings: &Json) -> (PeftAdapter, CheckpointDirectory) {
    let mut config = serde_json::json!({ "peft_type": "LORA", "r": 4, "lora_alpha": 8 });
    config.as_object_mut().unwrap().extend(settings.as_object().unwrap().clone());
    let mut tensors = Vec::new();
    for (block, rank) in [(0, 4), (1, 16)] {
        let module = format!("base_model.model.model.layers.{block}.self_attn.q_proj");
        for (end, shape) in [("lora_A", [rank, 64]), ("lora_B", [64, rank])] {
            let name = format!("{module}.{end}.weight");
            let content = bytes(&factor(&name, shape[0] * shape[1]));
            tensors.push((name, "F32", shape.to_vec(), content));
        }
    }
    fs::write(place.join("adapter_config.json"), config.to_string()).unwrap();
    fs::write(place.join("adapter_model.safetensors"), safetensors(&tensors)).unwrap();
    let base = CheckpointDirectory::open(&real("tinystories260K")).unwrap();
    (PeftAdapter::open(place).unwrap(), base)
}

/// A program scales a product by alpha / rank; PEFT by the alpha of the module over its rank, or over
/// the square root of its rank (`LoraLayer.update_layer` of peft 0.21.2).
#[test]
fn scales_of_modules_are_folded_into_the_factors() {
    let root = f64::sqrt;
    for (settings, factors) in [
        (serde_json::json!({ "rank_pattern": { "layers.1.self_attn.q_proj": 16 } }), [1.0, 1.0]),
        (serde_json::json!({ "use_rslora": true }), [root(4.0), root(16.0)]),
        (serde_json::json!({ "alpha_pattern": { "layers.1.self_attn.q_proj": 2 } }), [1.0, 0.25]),
        (serde_json::json!({ "alpha_pattern": { "q_proj": 16, "k_proj": 1 } }), [2.0, 2.0]),
        (
            serde_json::json!({ "use_rslora": true, "alpha_pattern": { r"layers\.[1-3]\..*": 4 } }),
            [root(4.0), 0.5 * root(16.0)],
        ),
        // A pattern matches whole components.
        (
            serde_json::json!({ "alpha_pattern": { "proj": 2, "ayers.1.self_attn.q_proj": 2 } }),
            [1.0, 1.0],
        ),
    ] {
        let place = tempfile::tempdir().unwrap();
        let (adapter, base) = small_adapter(place.path(), &settings);
        let bytes = written(converted(&adapter, &base, FileType::F32).unwrap(), &adapter);
        let path = place.path().join("adapter.gguf");
        fs::write(&path, bytes).unwrap();
        let file = GgufCheckpoint::open(path).unwrap();
        assert_eq!(file.metadata().f64("adapter.lora.alpha").unwrap(), 8.0);
        for (block, (rank, expected)) in [4, 16].into_iter().zip(factors).enumerate() {
            let name =
                format!("base_model.model.model.layers.{block}.self_attn.q_proj.lora_B.weight");
            let scale = expected as f32;
            let scaled: Vec<f32> = factor(&name, 64 * rank).iter().map(|n| n * scale).collect();
            // The rows of queries are permuted, so the elements are compared in order of size.
            let mut found = values(&file, &format!("blk.{block}.attn_q.weight.lora_b"));
            let mut scaled = scaled;
            found.sort_by(f32::total_cmp);
            scaled.sort_by(f32::total_cmp);
            assert_eq!(found, scaled, "{settings} {block}");
        }
    }
}

#[test]
fn settings_that_an_adapter_cannot_contain_are_refused() {
    let value = |name: &str, value: Json| serde_json::json!({ name: value });
    let many: Json =
        (0..20).map(|i| (format!("[qk]_proj{i}"), 1.into())).collect::<Map<_, _>>().into();
    for (settings, expected) in [
        (value("init_lora_weights", "pissa".into()), "init_lora_weights is \"pissa\""),
        (value("init_lora_weights", "pissa_niter_16".into()), "residual"),
        (value("init_lora_weights", "corda".into()), "\"corda\""),
        (value("init_lora_weights", "OLoRA".into()), "\"OLoRA\""),
        (value("init_lora_weights", "loftq".into()), "\"loftq\""),
        (value("use_dora", true.into()), "use_dora is true"),
        (value("use_qalora", true.into()), "use_qalora"),
        (value("layer_replication", serde_json::json!([[0, 1]])), "layer_replication"),
        (
            value("target_parameters", serde_json::json!(["mlp.experts.down_proj"])),
            "target_parameters",
        ),
        (value("lora_alpha", 0.into()), "lora_alpha is 0"),
        (value("alpha_pattern", serde_json::json!({ "q_proj": "x" })), "alpha_pattern"),
        (value("alpha_pattern", serde_json::json!({ "(?=q)q_proj": 1 })), "regular expression"),
        (
            value("alpha_pattern", serde_json::json!({ "q_proj": 1, ".*q_proj": 2 })),
            "different alphas",
        ),
        (value("alpha_pattern", many), "more than 16 regular expressions"),
        (
            value("alpha_pattern", serde_json::json!({ "(a{99}){99}": 1 })),
            "unsupported regular expression",
        ),
    ] {
        let place = tempfile::tempdir().unwrap();
        let (adapter, base) = small_adapter(place.path(), &settings);
        let error = converted(&adapter, &base, FileType::F32).unwrap_err().to_string();
        assert!(error.contains(expected) && error.contains("adapter_config.json"), "{error}");
    }
    for plain in [Json::Null, true.into(), false.into(), "gaussian".into(), "eva".into()] {
        let place = tempfile::tempdir().unwrap();
        let (adapter, base) = small_adapter(place.path(), &value("init_lora_weights", plain));
        converted(&adapter, &base, FileType::F32).unwrap();
    }
}
