//! Tiny models of classes of the `transformers` library, saved by release 5: a converted file computes
//! the library's logits, or the conversion names the setting that the file cannot express.
//!
//! `fixtures/library.json` has the configuration, the tensors and the logits of the last token for each
//! case. `conformance/library_record.py` records them; it documents how the weights follow from the names.

use std::ops::ControlFlow;
use std::path::Path;

use ggmill::arch::Catalogue;
use ggmill::convert::{ASSUMED_SETTINGS_KEY, ConvertOptions, convert};
use ggmill::formats::CheckpointDirectory;
use ggmill::pipeline::{ErrorKind, Pretrained as _, RunOptions, run};
use ggmill::{FileType, Model, RunText};
use serde_json::{Value, json};

/// The most that the squared error may be, as a part of the squared logits.
const EXACT: f64 = 1e-9;
/// The same where programs compute with an approximation: GELU in F16.
const NEAR: f64 = 1e-6;

/// The elements of a tensor.
fn weights(name: &str, count: u64, scale: f64, offset: f64) -> impl Iterator<Item = f32> {
    let seed = name.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    (1..=count).map(move |place| {
        let z = seed.wrapping_add(place.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        let h = z ^ z >> 31;
        let uniform = (h >> 40) as f64 / f64::from(1 << 24) - 0.5;
        (uniform * scale + offset) as f32
    })
}

/// Writes the checkpoint of a case.
fn write_checkpoint(case: &Value, directory: &Path) {
    let (mut header, mut data) = (serde_json::Map::new(), Vec::new());
    for (name, tensor) in case["tensors"].as_object().unwrap() {
        let count: u64 =
            tensor[0].as_array().unwrap().iter().map(|size| size.as_u64().unwrap()).product();
        let start = data.len();
        let [scale, offset] = [1, 2].map(|place| tensor[place].as_f64().unwrap());
        data.extend(weights(name, count, scale, offset).flat_map(f32::to_le_bytes));
        let entry =
            json!({ "dtype": "F32", "shape": tensor[0], "data_offsets": [start, data.len()] });
        header.insert(format!("{}{name}", case["prefix"].as_str().unwrap_or_default()), entry);
    }
    let header = serde_json::to_vec(&header).unwrap();
    let mut file = (header.len() as u64).to_le_bytes().to_vec();
    file.extend(header);
    file.extend(data);
    std::fs::write(directory.join("model.safetensors"), file).unwrap();
    std::fs::write(directory.join("config.json"), case["config"].to_string()).unwrap();
}

/// Converts a case; the error names its kind.
fn converted(
    case: &Value,
    directory: &Path,
    assume_defaults: bool,
) -> Result<Model, (ErrorKind, String)> {
    write_checkpoint(case, directory);
    let checkpoint = CheckpointDirectory::open(directory).unwrap();
    let catalogue = Catalogue::new();
    let architecture = catalogue.for_checkpoint(checkpoint.config()).unwrap();
    let mut options = ConvertOptions::new(FileType::F32);
    options.assume_defaults = assume_defaults;
    let mut recipe = convert(&checkpoint, architecture, &options)
        .map_err(|error| (error.kind(), error.to_string()))?;
    // Without a vocabulary, keys have its sizes.
    let key = format!("{}.vocab_size", architecture.name());
    for (key, setting) in
        [(&*key, "vocab_size"), ("tokenizer.ggml.token_type_count", "type_vocab_size")]
    {
        let size = ggmill::arch::configured(checkpoint.config(), setting).and_then(Value::as_u64);
        if let Some(size) = size.filter(|_| recipe.metadata.get(key).is_none()) {
            recipe.metadata.set(key, u32::try_from(size).unwrap());
        }
    }
    let plan = recipe.plan(&checkpoint).unwrap();
    let bytes = run(&plan, &checkpoint, Vec::new(), &RunOptions::default(), &mut |_| {
        ControlFlow::Continue(())
    });
    Ok(Model::from_bytes(bytes.unwrap()).unwrap())
}

/// Computes the logits of the last token of a text, of which there are `width`.
fn last_logits(model: &Model, tokens: &[u32], width: usize, directory: &Path) -> Vec<f32> {
    let file = directory.join("logits.npy");
    // Perplexity needs two chunks.
    let text = RunText::tokens([tokens, tokens].concat()).context(tokens.len());
    ggmill::measure(model).unwrap().text(text).logits(&file).run().unwrap();
    let bytes = std::fs::read(file).unwrap();
    let start = 10 + usize::from(u16::from_le_bytes([bytes[8], bytes[9]]));
    let (numbers, _) = bytes[start..].as_chunks();
    let all: Vec<f32> = numbers.iter().map(|&number| f32::from_le_bytes(number)).collect();
    all[..all.len() / 2].rchunks(width).next().unwrap().to_vec()
}

fn fault(case: &Value) -> Option<String> {
    let name = case["setting"].as_str().map_or_else(
        || case["class"].to_string(),
        |setting| format!("{} with another {setting}", case["class"]),
    );
    let directory = tempfile::tempdir().unwrap();
    let made = converted(case, directory.path(), false);
    if let Some(setting) = case["refused"].as_str() {
        return match made {
            Err((ErrorKind::Setting, message)) if message.contains(setting) => {
                let assumed = converted(case, directory.path(), true).unwrap();
                let listed = assumed.metadata().get(ASSUMED_SETTINGS_KEY).is_some();
                (!listed).then(|| format!("{name}: the file does not list the setting"))
            }
            Err((_, message)) => Some(format!("{name}: {message}, expected {setting}")),
            Ok(_) => Some(format!("{name}: is converted, although programs ignore {setting}")),
        };
    }
    let model = match made {
        Ok(model) => model,
        Err((_, message)) => return Some(format!("{name}: {message}")),
    };
    let numbers = |key: &str| case[key].as_array().unwrap().iter();
    let tokens: Vec<u32> = numbers("tokens").map(|id| id.as_u64().unwrap() as u32).collect();
    let theirs: Vec<f64> = numbers("logits").map(|value| value.as_f64().unwrap()).collect();
    let ours = last_logits(&model, &tokens, theirs.len(), directory.path());
    let error: f64 =
        ours.iter().zip(&theirs).map(|(ours, theirs)| (f64::from(*ours) - theirs).powi(2)).sum();
    let error = error / theirs.iter().map(|theirs| theirs * theirs).sum::<f64>();
    let limit = if case["near"] == true { NEAR } else { EXACT };
    (error > limit).then(|| format!("{name}: the logits have an error of {error:e}"))
}

fn recorded() -> Vec<Value> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/library.json");
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

/// A model that is an attribute of a trainer has names with one component more. Here, the names have
/// no other component in common.
#[test]
fn the_first_component_of_all_names_is_removed() {
    let mut case =
        recorded().into_iter().find(|case| case["class"] == "GPTNeoXForCausalLM").unwrap();
    case["prefix"] = json!("model.");
    assert_eq!(fault(&case), None);
}

#[test]
fn converted_files_compute_what_the_library_does() {
    let cases = recorded();
    assert!(cases.len() > 20);
    let faults: Vec<String> = cases.iter().filter_map(fault).collect();
    assert!(faults.is_empty(), "{} of {}:\n{}", faults.len(), cases.len(), faults.join("\n"));
}
