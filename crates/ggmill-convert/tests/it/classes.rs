//! A small checkpoint of every class of models that the reference converter knows and a description
//! covers: our file is the reference's, byte for byte.
//!
//! `fixtures/classes.json` has a recipe for each: its configuration, the names, types and shapes of
//! its tensors, and the hashes of the files that the reference wrote for it. `conformance/classes.py`
//! records them; it documents the fields of a recipe and how its weights follow from it, which is
//! implemented again here. Recipes of quantized checkpoints that the reference refuses have the
//! hashes of what the library that writes these checkpoints decodes
//! (`conformance/classes_decoded.py`). `fixtures/mmproj.json` has recipes for projectors.
//! `fixtures/mixtures.json` has recipes whose rows are multiples of 256, with hashes also of what
//! `llama_model_quantize` writes for the reference's file at Q4_K_M (`conformance/one_pass.py`); ours
//! is written in one pass.
//!
//! By default, a sample of the recipes is converted; with `GGMILL_LONG=1`, all of them.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use ggmill_arch::{Architecture, Catalogue};
use ggmill_convert::{ASSUMED_SETTINGS_KEY, ConvertOptions, WithTarget, convert, own_type};
use ggmill_core::{FileType, GgmlType, Header, MetadataBuf};
use ggmill_pipeline::formats::CheckpointDirectory;
use ggmill_pipeline::{Pretrained, RunOptions, run};
use ggmill_quantize::{QuantizeOptions, Target, quantize_recipe};
use ggmill_testdata::{real, sha256};
use serde_json::{Map, Value as Json};

use crate::support::safetensors;

/// The types of safetensors, in the order in which the library writes tensors.
const DTYPES: [&str; 16] = [
    "U64", "I64", "F64", "F32", "U32", "I32", "BF16", "F16", "U16", "I16", "F8_E8M0", "F8_E4M3",
    "F8_E5M2", "I8", "U8", "BOOL",
];

/// Recipes by name.
pub(crate) type Recipes = BTreeMap<String, Json>;

pub(crate) fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures")
}

/// The recipes of `fixtures/KIND.json`.
pub(crate) fn recipes(kind: &str) -> Recipes {
    let file = fs::read(fixtures().join(format!("{kind}.json"))).unwrap();
    serde_json::from_slice(&file).unwrap()
}

/// Every `step`th recipe, or all of them with `GGMILL_LONG=1`.
pub(crate) fn sample(recipes: Recipes, step: usize) -> Recipes {
    let step = if is_long_run() { 1 } else { step };
    recipes.into_iter().step_by(step).collect()
}

/// Returns `true` if the tests that take minutes run in full: `GGMILL_LONG=1`.
pub(crate) fn is_long_run() -> bool {
    std::env::var_os("GGMILL_LONG").is_some_and(|value| value == "1")
}

/// The lines that `check` returns for each recipe, on all threads, sorted.
pub(crate) fn for_each(
    recipes: &Recipes,
    check: impl Fn(&str, &Json) -> Vec<String> + Sync,
) -> Vec<String> {
    let recipes: Vec<(&String, &Json)> = recipes.iter().collect();
    let (next, found) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                while let Some((name, recipe)) = recipes.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let lines = check(name, recipe);
                    found.lock().unwrap().extend(lines);
                }
            });
        }
    });
    let mut found = found.into_inner().unwrap();
    found.sort();
    found
}

/// SplitMix64, seeded with the FNV-1a hash of a name.
fn mixed(name: &str) -> impl Iterator<Item = u64> {
    let seed = name.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    (1u64..).map(move |place| {
        let z = seed.wrapping_add(place.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    })
}

/// Encodes a number in a floating-point type.
fn float(dtype: &str, number: f64) -> Vec<u8> {
    match dtype {
        "F64" => number.to_le_bytes().to_vec(),
        "F32" => (number as f32).to_le_bytes().to_vec(),
        "BF16" => (number as f32).to_le_bytes()[2..].to_vec(),
        _ => {
            let mut bits = vec![0; 2];
            ggmill_quant::quantize(GgmlType::F16, &[number as f32], 1, None, &mut bits).unwrap();
            bits
        }
    }
}

/// Encodes an element that follows from its tensor's name.
fn element(dtype: &str, h: u64) -> Vec<u8> {
    let small = || f64::from((h >> 56) as u8 as i8) / 256.0;
    match dtype {
        "BF16" | "F16" => float(dtype, small()),
        "F32" | "F64" => float(dtype, ((h >> 40) as i64 - (1 << 23)) as f64 / f64::from(1 << 24)),
        "U8" | "I8" => vec![h as u8],
        "BOOL" => vec![(h & 1) as u8],
        "F8_E8M0" | "F8_E4M3" | "F8_E5M2" => vec![(h & 0x77) as u8],
        "I64" | "U64" => (h % 50).to_le_bytes().to_vec(),
        "I32" | "U32" => ((h % 50) as u32).to_le_bytes().to_vec(),
        _ => ((h % 50) as u16).to_le_bytes().to_vec(),
    }
}

/// Encodes a number that a recipe specifies.
fn given(dtype: &str, number: f64) -> Vec<u8> {
    match dtype {
        "BF16" | "F16" | "F32" | "F64" => float(dtype, number),
        "I64" | "U64" => (number as i64).to_le_bytes().to_vec(),
        "I32" | "U32" => (number as i32).to_le_bytes().to_vec(),
        "I16" | "U16" => (number as i16).to_le_bytes().to_vec(),
        _ => vec![number as i64 as u8],
    }
}

/// Returns a safetensors file with these tensors of a recipe.
pub(crate) fn weights(tensors: &Map<String, Json>) -> Vec<u8> {
    safetensors(&weights_of(tensors))
}

/// Returns tensors of a recipe in the order of the file: name, type, shape, bytes.
pub(crate) fn weights_of(
    tensors: &Map<String, Json>,
) -> Vec<(String, &'static str, Vec<u64>, Vec<u8>)> {
    let dtype = |tensor: &Json| tensor[0].as_str().unwrap().to_owned();
    let place = |tensor: &Json| DTYPES.iter().position(|known| **known == dtype(tensor)).unwrap();
    let mut names: Vec<&String> = tensors.keys().collect();
    names.sort_by_key(|name| (place(&tensors[*name]), *name));
    let made = names.into_iter().map(|name| {
        let tensor = &tensors[name];
        let dtype = dtype(tensor);
        let shape: Vec<u64> =
            tensor[1].as_array().unwrap().iter().map(|extent| extent.as_u64().unwrap()).collect();
        let count = shape.iter().product::<u64>() as usize;
        let numbers: Option<Vec<f64>> = match tensor.get(2) {
            Some(Json::String(word)) if word != "bits" => {
                Some(vec![if word == "ones" { 1.0 } else { 0.0 }])
            }
            Some(Json::Array(numbers)) => {
                Some(numbers.iter().map(|number| number.as_f64().unwrap()).collect())
            }
            _ => None,
        };
        let like = tensor.get(2).and_then(|values| values["like"].as_str()).unwrap_or(name);
        let bytes: Vec<u8> = match numbers {
            Some(numbers) => {
                let numbers = numbers.iter().cycle().take(count);
                numbers.flat_map(|&number| given(&dtype, number)).collect()
            }
            None if tensor.get(2).is_some_and(|values| values == "bits") => {
                let width = element(&dtype, 0).len();
                mixed(name).take(count).flat_map(|h| h.to_le_bytes()[..width].to_vec()).collect()
            }
            None => mixed(like).take(count).flat_map(|h| element(&dtype, h)).collect(),
        };
        (name.clone(), DTYPES[place(tensor)], shape, bytes)
    });
    made.collect()
}

/// Writes the checkpoint of a recipe.
pub(crate) fn materialize(recipe: &Json, directory: &Path) {
    fs::create_dir_all(directory).unwrap();
    let copy = |from: &Path| {
        fs::copy(from, directory.join(from.file_name().unwrap())).unwrap();
    };
    match vocabulary(recipe) {
        "spm" => {
            for name in ["tokenizer.model", "tokenizer_config.json"] {
                copy(&real(&format!("tinystories260K/{name}")));
            }
        }
        kind @ ("bpe" | "wordpiece") => {
            for file in fs::read_dir(fixtures().join("vocabularies").join(kind)).unwrap() {
                copy(&file.unwrap().path());
            }
        }
        _ => {}
    }
    fs::write(directory.join("config.json"), recipe["config"].to_string()).unwrap();
    for (name, content) in recipe["files"].as_object().into_iter().flatten() {
        let path = directory.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        if name.ends_with(".safetensors") {
            fs::write(path, weights(content["tensors"].as_object().unwrap())).unwrap();
        } else {
            let text = content.as_str().map_or_else(|| content.to_string(), str::to_owned);
            fs::write(path, text).unwrap();
        }
    }
    let tensors = recipe["tensors"].as_object().unwrap();
    fs::write(directory.join("model.safetensors"), weights(tensors)).unwrap();
}

fn vocabulary(recipe: &Json) -> &str {
    recipe["vocabulary"].as_str().unwrap_or("none")
}

/// Writes the reference's values of keys for which ours differ on purpose (docs/exactness.md), so that
/// the rest can be compared; `null` is for keys that the reference does not write. Fails if a value is
/// the reference's.
fn write_reference_keys(metadata: &mut MetadataBuf, keys: &Json) -> Result<(), String> {
    for (key, value) in keys.as_object().into_iter().flatten() {
        let found = metadata.get(key).ok_or_else(|| format!("{key} is missing"))?;
        let is_same = match value {
            Json::String(text) => found.as_str() == Some(text),
            Json::Bool(value) => found.as_bool() == Some(*value),
            value => found.as_f64().is_some_and(|found| Some(found) == value.as_f64()),
        };
        if is_same {
            return Err(format!("{key} is {value}, as in the reference's file"));
        }
        match value {
            Json::Null => {
                metadata.remove(key);
            }
            Json::String(text) => metadata.set(key, text.as_str()),
            Json::Bool(value) => metadata.set(key, *value),
            value => match value.as_u64() {
                Some(value) => metadata.set(key, value as u32),
                None => metadata.set(key, value.as_f64().unwrap() as f32),
            },
        }
    }
    Ok(())
}

/// Converts a checkpoint to one of the types for which a recipe has hashes.
fn file(
    recipe: &Json,
    directory: &Path,
    is_projector: bool,
    kind: &str,
) -> Result<Vec<u8>, String> {
    const TYPES: [(&str, FileType); 4] = [
        ("f32", FileType::F32),
        ("f16", FileType::F16),
        ("bf16", FileType::BF16),
        ("q8_0", FileType::Q8_0),
    ];
    // Vocabularies of these files have no pre-tokenizer.
    const PLAIN: [&str; 2] = ["rwkv_vocab_v20230424.txt", "tokenizer.jsonl"];
    let is_plain = PLAIN.iter().any(|name| directory.join(name).exists());
    let made = || {
        let checkpoint = CheckpointDirectory::open(directory)?;
        // The target model of a draft.
        let target = directory.join("target");
        let target = target.is_dir().then(|| CheckpointDirectory::open_described(&target));
        let target = target.transpose()?;
        let with_target = target.as_ref().map(|target| WithTarget::new(&checkpoint, target));
        let checkpoint: &dyn Pretrained = match &with_target {
            Some(both) => both,
            None => &checkpoint,
        };
        let plain = TYPES.iter().find(|(known, _)| *known == kind).map(|(_, file_type)| *file_type);
        let mut options = ConvertOptions::new(plain.unwrap_or_else(|| own_type(checkpoint)));
        options.no_vocab = vocabulary(recipe) == "none";
        options.assume_defaults = true;
        options.pre = Some("gpt-2".to_owned())
            .filter(|_| !is_plain && !matches!(vocabulary(recipe), "none" | "spm"));
        let catalogue = Catalogue::new();
        if let (Some(both), Some(target)) = (&with_target, &target)
            && let Ok(architecture) = catalogue.for_checkpoint(target.config())
            && !options.no_vocab
        {
            options.target_vocabulary = both.vocabulary(architecture)?;
        }
        let found = if is_projector {
            catalogue.for_projector(checkpoint.config())
        } else {
            catalogue.for_checkpoint(checkpoint.config())
        };
        let architecture = found.map_err(|error| std::io::Error::other(error.to_string()))?;
        let mut converted = convert(checkpoint, architecture, &options)?;
        // The reference does not say so.
        converted.metadata.remove(ASSUMED_SETTINGS_KEY);
        write_reference_keys(&mut converted.metadata, &recipe["reference_keys"])?;
        if plain.is_none() {
            let target: Target = kind.parse()?;
            converted = quantize_recipe(&converted, &QuantizeOptions::new(target))?;
        }
        let planned = converted.plan(checkpoint)?;
        let file = run(&planned, checkpoint, Vec::new(), &RunOptions::default(), &mut |_| {
            std::ops::ControlFlow::Continue(())
        })?;
        Ok::<_, Box<dyn std::error::Error>>(file)
    };
    made().map_err(|error| error.to_string())
}

/// Returns the tensors whose data does not have the recipe's hash of what the library decodes.
fn decoded_faults(name: &str, hashes: &Json, made: Result<Vec<u8>, String>) -> Vec<String> {
    let bytes = match made {
        Ok(bytes) => bytes,
        Err(error) => return vec![format!("{name}: {error}")],
    };
    let file = Header::parse(bytes).unwrap();
    let fault = |(tensor, expected): (&String, &Json)| {
        let found = file.tensor(tensor).and_then(|tensor| Ok(sha256(&tensor.data()?)));
        (found.ok().as_deref() != expected.as_str())
            .then(|| format!("{name}: {tensor} is not what the library decodes"))
    };
    hashes.as_object().unwrap().iter().filter_map(fault).collect()
}

/// Recipes whose files differ from the reference's by intent (docs/exactness.md): it counts announced
/// blocks that the checkpoint lacks.
const DEVIATING: [&str; 1] = ["Glm4MoeForCausalLM-trunk"];

/// Converts a recipe and returns what differs from its expectations.
fn faults(name: &str, recipe: &Json, is_projector: bool) -> Vec<String> {
    let place = tempfile::tempdir().unwrap();
    let directory = place.path().join(name);
    // Recipes without hashes describe in a sentence what the reference does: it does not know the
    // class, refuses it or raises an exception, or converts a checkpoint that we refuse.
    if recipe["reference"].is_string() != recipe["expected"].is_null() {
        return vec![format!("{name}: hashes, or a sentence on the reference")];
    }
    let Some(expected) = recipe["expected"].as_object() else {
        materialize(recipe, &directory);
        if let Some(why) = recipe["refused"].as_str() {
            return match file(recipe, &directory, is_projector, "f16") {
                Err(error) if error.contains(why) => vec![],
                Err(error) => vec![format!("{name}: {error}, expected {why}")],
                Ok(_) => vec![format!("{name}: is converted")],
            };
        }
        let decoded = recipe["decoded"].as_object().into_iter().flatten();
        return decoded
            .flat_map(|(kind, hashes)| {
                decoded_faults(name, hashes, file(recipe, &directory, false, kind))
            })
            .collect();
    };
    materialize(recipe, &directory);
    let fault =
        |(kind, expected): (&String, &Json)| match file(recipe, &directory, is_projector, kind) {
            Ok(found) if (*expected == *sha256(&found)) != DEVIATING.contains(&name) => None,
            Ok(_) => Some(format!("{name}: other bytes than expected in {kind}")),
            Err(error) => Some(format!("{name}: {error}")),
        };
    expected.iter().filter_map(fault).collect()
}

#[test]
fn classes_equal_the_reference() {
    let recipes = recipes("classes");
    assert!(recipes.len() > 300, "{} recipes", recipes.len());
    // A description for checkpoints needs a recipe.
    let catalogue = Catalogue::new();
    let described: BTreeSet<&str> = recipes
        .values()
        .filter_map(|recipe| catalogue.for_checkpoint(&recipe["config"]).ok())
        .map(Architecture::name)
        .collect();
    for architecture in Architecture::builtins() {
        let is_for_checkpoints = architecture.checkpoint_classes().next().is_some();
        let name = architecture.name();
        assert!(!is_for_checkpoints || described.contains(name), "{name} has no recipe");
    }
    require_equal(&sample(recipes, 12), false);
}

/// The reference's registry is `fixtures/registry.txt`. Classes that are not converted are in
/// `refused.toml` of `ggmill-arch`, with the reason.
#[test]
fn every_class_of_the_reference_is_converted_or_refused_by_name() {
    let registry = fixtures().join("registry.txt");
    let registry = fs::read_to_string(registry).unwrap();
    for (word, kind, projectors) in [("model", "classes", false), ("projector", "mmproj", true)] {
        let names = registry.lines().filter_map(|line| line.strip_prefix(word)).map(str::trim);
        let registered: BTreeSet<&str> = names.collect();
        assert!(registered.len() > 60, "{word}: {}", registered.len());
        let recipes = recipes(kind);
        let tested: BTreeSet<&str> =
            recipes.values().map(|recipe| recipe["class"].as_str().unwrap()).collect();
        let refused: BTreeSet<&str> =
            ggmill_arch::refused_classes(projectors).map(|(class, _)| class).collect();
        let neither: Vec<_> = registered
            .iter()
            .filter(|class| !refused.contains(**class) && !tested.contains(*class))
            .collect();
        assert!(neither.is_empty(), "{word}: without a recipe and not refused: {neither:?}");
        let both: Vec<_> = refused.iter().filter(|class| tested.contains(*class)).collect();
        assert!(both.is_empty(), "{word}: refused and tested: {both:?}");
        let unknown: Vec<_> = refused.difference(&registered).collect();
        assert!(unknown.is_empty(), "{word}: refused and not registered: {unknown:?}");
        let catalogue = Catalogue::new();
        for (class, reason) in ggmill_arch::refused_classes(projectors) {
            // Without `vision_config`, the error would be about the missing encoder.
            let config = serde_json::json!({ "architectures": [class], "vision_config": {} });
            let found = if projectors {
                catalogue.for_projector(&config)
            } else {
                catalogue.for_checkpoint(&config)
            };
            let error = found.unwrap_err();
            assert_eq!(error.kind(), ggmill_arch::ErrorKind::Unsupported, "{class}");
            assert!(error.to_string().contains(reason), "{class}: {error}");
        }
    }
}

#[test]
fn a_one_pass_mixture_equals_the_reference() {
    let recipes = recipes("mixtures");
    let mut architectures = BTreeSet::new();
    for (name, recipe) in &recipes {
        assert!(recipe["expected"]["q4_k_m"].is_string(), "{name}");
        architectures.insert(recipe["class"].to_string());
    }
    assert!(architectures.len() >= 10, "{architectures:?}");
    require_equal(&sample(recipes, 4), false);
}

#[test]
fn projectors_equal_the_reference() {
    let recipes = recipes("mmproj");
    let catalogue = Catalogue::new();
    // A description needs a recipe.
    let described: BTreeSet<&str> = recipes
        .values()
        .map(|recipe| catalogue.for_projector(&recipe["config"]).unwrap().title())
        .collect();
    // Those without classes are for other layouts (own_layouts.rs).
    let of_classes = |projector: &&Architecture| projector.checkpoint_classes().next().is_some();
    let titles: BTreeSet<&str> =
        Architecture::projectors().filter(of_classes).map(Architecture::title).collect();
    assert_eq!(described, titles);
    require_equal(&sample(recipes, 4), true);
}

/// Fails unless the file of every recipe is the reference's.
fn require_equal(recipes: &Recipes, are_projectors: bool) {
    let found = for_each(recipes, |name, recipe| faults(name, recipe, are_projectors));
    assert!(found.is_empty(), "{} of {}:\n{}", found.len(), recipes.len(), found.join("\n"));
}

/// transformers 4.52 moved towers and projectors into the inner model: the file is the same.
#[test]
fn towers_in_the_inner_model_equal_those_beside_it() {
    const MOVED: [&str; 3] = ["vision_tower.", "audio_tower.", "multi_modal_projector."];
    const CLASSES: [&str; 6] = [
        "AudioFlamingo3ForConditionalGeneration",
        "Gemma3ForConditionalGeneration",
        "LlavaForConditionalGeneration",
        "Mistral3ForConditionalGeneration",
        "Qwen2AudioForConditionalGeneration",
        "VoxtralForConditionalGeneration",
    ];
    let mut seen = 0;
    for (name, recipe) in &recipes("mmproj") {
        let class = recipe["config"]["architectures"][0].as_str();
        if !class.is_some_and(|class| CLASSES.contains(&class)) || recipe["expected"].is_null() {
            continue;
        }
        let place = tempfile::tempdir().unwrap();
        let directory = place.path().join(name);
        materialize(recipe, &directory);
        let beside = file(recipe, &directory, true, "f16").unwrap();
        let path = directory.join("model.safetensors");
        let stored = fs::read(&path).unwrap();
        let (header, data) = stored[8..].split_at(stored[0] as usize + stored[1] as usize * 256);
        let header: serde_json::Map<String, Json> = serde_json::from_slice(header).unwrap();
        let moved = header.into_iter().map(|(name, tensor)| {
            let is_moved = MOVED.iter().any(|prefix| name.starts_with(prefix));
            (if is_moved { format!("model.{name}") } else { name }, tensor)
        });
        let header = Json::Object(moved.collect()).to_string();
        let len = (header.len() as u64).to_le_bytes();
        fs::write(&path, [&len, header.as_bytes(), data].concat()).unwrap();
        assert!(file(recipe, &directory, true, "f16").unwrap() == beside, "{name}");
        seen += 1;
    }
    assert!(seen >= 4, "{seen}");
}
