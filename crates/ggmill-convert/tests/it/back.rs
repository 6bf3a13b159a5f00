//! Restored checkpoints: a converted checkpoint is restored to the same checkpoint, and a restored
//! checkpoint converts to the same file.
//!
//! Every recipe of `fixtures/classes.json` is a case. `fixtures/back.txt` lists those that cannot be
//! restored, with the reason; every other recipe has to come back. Where only tensors of the
//! checkpoint differ, the restored checkpoint still converts to the same file, which does not contain
//! what is missing.
//!
//! By default every 12th recipe is tested, with `GGMILL_LONG=1` all of them. `GGMILL_BLESS=1` tests
//! all and rewrites the list; `GGMILL_RECIPE=NAME` prints the lines of the recipes whose names
//! contain NAME.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use ggmill_arch::Catalogue;
use ggmill_convert::{ConvertOptions, RestoreOptions, convert, restore_checkpoint};
use ggmill_core::{FileType, GgmlType, RawStr};
use ggmill_pipeline::formats::CheckpointDirectory;
use ggmill_pipeline::{
    Checkpoint, Encoding, Expression, GgufCheckpoint, Pretrained, RunOptions, SourceTensor, run,
};
use serde_json::{Value as Json, json};

use crate::classes::{Recipes, fixtures, for_each, is_long_run, materialize, recipes, sample};

/// Converts a checkpoint to a file.
pub(crate) fn file(
    checkpoint: &dyn Pretrained,
    file_type: FileType,
    path: &Path,
) -> Result<GgufCheckpoint, String> {
    let mut options = ConvertOptions::new(file_type);
    options.assume_defaults = true;
    options.no_vocab = true;
    let catalogue = Catalogue::new();
    let text = |error: &dyn std::fmt::Display| error.to_string();
    let architecture =
        catalogue.for_checkpoint(checkpoint.config()).map_err(|error| text(&error))?;
    let plan = convert(checkpoint, architecture, &options)
        .and_then(|recipe| recipe.plan(checkpoint))
        .map_err(|error| text(&error))?;
    let made = run(&plan, checkpoint, Vec::new(), &RunOptions::with_threads(1), &mut |_| {
        ControlFlow::Continue(())
    });
    fs::write(path, made.map_err(|error| text(&error))?).unwrap();
    GgufCheckpoint::open(path).map_err(|error| text(&error))
}

/// Returns all elements of a tensor as F32.
fn floats(checkpoint: &dyn Checkpoint, number: usize) -> Vec<u8> {
    let values = Expression::tensor(checkpoint, number).unwrap();
    let values = values.encode(GgmlType::F32, Encoding::default()).unwrap();
    values.evaluate(checkpoint, 0..values.shape().elements()).unwrap()
}

fn bytes(checkpoint: &dyn Checkpoint, number: usize) -> Vec<u8> {
    let values = Expression::tensor(checkpoint, number).unwrap();
    values.evaluate(checkpoint, 0..values.shape().elements()).unwrap()
}

/// Returns the first difference between two checkpoints; with `exactly`, types are compared too.
fn difference(found: &dyn Checkpoint, expected: &dyn Checkpoint, exactly: bool) -> Option<String> {
    let names = |checkpoint: &dyn Checkpoint| -> BTreeMap<Vec<u8>, usize> {
        let tensors = checkpoint.tensors().iter().enumerate();
        tensors.map(|(number, tensor)| (tensor.name.clone(), number)).collect()
    };
    let (found_names, expected_names) = (names(found), names(expected));
    let shown = |name: &Vec<u8>| RawStr::new(name).to_string();
    if let Some(name) = found_names.keys().find(|name| !expected_names.contains_key(*name)) {
        let missing = expected_names.keys().find(|name| !found_names.contains_key(*name));
        let missing = missing.map_or_else(|| "nothing".to_owned(), &shown);
        return Some(format!("{} in place of {missing}", shown(name)));
    }
    if let Some(name) = expected_names.keys().find(|name| !found_names.contains_key(*name)) {
        return Some(format!("{} is dropped", shown(name)));
    }
    for (name, &number) in &expected_names {
        let other = found_names[name];
        let (found_tensor, tensor) = (&found.tensors()[other], &expected.tensors()[number]);
        if found_tensor.shape != tensor.shape {
            let (found, expected) = (found_tensor.shape, tensor.shape);
            return Some(format!("{}: shape {found}, expected {expected}", shown(name)));
        }
        if exactly && found_tensor.ggml_type != tensor.ggml_type {
            let (found, expected) = (found_tensor.ggml_type, tensor.ggml_type);
            return Some(format!("{}: type {found}, expected {expected}", shown(name)));
        }
        let is_same = if exactly {
            bytes(found, other) == bytes(expected, number)
        } else {
            floats(found, other) == floats(expected, number)
        };
        if !is_same {
            return Some(format!("{}: other elements", shown(name)));
        }
    }
    None
}

/// Converts a recipe and restores the checkpoint from the file; returns what does not come back.
fn faults(name: &str, recipe: &Json) -> Vec<String> {
    let place = tempfile::tempdir().unwrap();
    let directory = place.path().join(name);
    materialize(recipe, &directory);
    let fault = |step: &str, why: String| vec![format!("{name}: {step}: {why}")];
    let Ok(source) = CheckpointDirectory::open(&directory) else {
        return fault("source", "is not read".to_owned());
    };
    let is_plain = |tensor: &SourceTensor| {
        tensor.stored_type.is_none()
            && [GgmlType::F32, GgmlType::F16, GgmlType::BF16].contains(&tensor.ggml_type)
    };
    let catalogue = Catalogue::new();
    let Ok(architecture) = catalogue.for_checkpoint(source.config()) else {
        return fault("source", "has no description".to_owned());
    };
    let class = |config: &Json| config["architectures"][0].as_str().map(str::to_owned);
    let parts = ["text_config", "llm_config", "lm_config", "language_config"];
    let of_part = parts.iter().find_map(|part| class(&source.config()[*part]));
    let class = of_part.or_else(|| class(source.config()));
    let class = class.filter(|class| architecture.checkpoint_classes().any(|known| known == class));
    let whole = match file(&source, FileType::F32, &place.path().join("whole.gguf")) {
        Ok(whole) => whole,
        Err(error) => return fault("source", error),
    };
    let back = |file: &GgufCheckpoint, ggml_type| {
        let mut options = RestoreOptions::default();
        (options.class, options.ggml_type) = (class.clone(), ggml_type);
        restore_checkpoint(file, architecture, &options).map_err(|error| error.to_string())
    };
    let restored = match back(&whole, Some(GgmlType::F32)) {
        Ok(restored) => restored,
        Err(error) => return fault("refused", error),
    };
    let mut found = Vec::new();
    let notes = restored.notes.clone();
    let first = restored.into_checkpoint(&whole).unwrap();
    // Tensors that the conversion ignores are not in the file.
    if let Some(why) = difference(&first, &source, false) {
        found.extend(fault("tensors", why));
    }
    if let Some(note) = notes.first() {
        found.extend(fault("keys", note.clone()));
    }
    match file(&first, FileType::F32, &place.path().join("again.gguf")) {
        Ok(other) => {
            if let Some(why) = difference(&other, &whole, true) {
                found.extend(fault("file", why));
            }
        }
        Err(error) => found.extend(fault("file", error)),
    }
    // Without a requested type, if all tensors have the same type.
    let types: Vec<GgmlType> = source.tensors().iter().map(|tensor| tensor.ggml_type).collect();
    if !found.is_empty()
        || !source.tensors().iter().all(is_plain)
        || types.iter().any(|other| *other != types[0])
    {
        return found;
    }
    let own = match types[0] {
        GgmlType::F16 => FileType::F16,
        GgmlType::BF16 => FileType::BF16,
        _ => FileType::F32,
    };
    for (file_type, asked) in [(own, None), (FileType::F32, Some(types[0]))] {
        let other = place.path().join("own.gguf");
        let made = file(&source, file_type, &other).and_then(|own| {
            let restored = back(&own, asked)?;
            Ok(difference(&restored.into_checkpoint(&own).unwrap(), &source, true))
        });
        match made {
            Ok(None) => {}
            Ok(Some(why)) | Err(why) => found.extend(fault("types", why)),
        }
    }
    found
}

fn list() -> PathBuf {
    fixtures().join("back.txt")
}

/// A summary: how many recipes come back whole, how many do not but convert to the same file again
/// (tensors and keys), and how many fail, by the step that fails.
fn summary(total: usize, found: &[String]) -> String {
    let part = |line: &str, place| line.split(": ").nth(place).unwrap().to_owned();
    let mut steps_of: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for line in found {
        steps_of.entry(part(line, 0)).or_default().insert(part(line, 1));
    }
    let whole = total - steps_of.len();
    // Recipes with only `tensors` differ in elements that the file does not have.
    steps_of.retain(|_, steps| steps.iter().any(|step| step != "tensors"));
    let same = total - whole - steps_of.len();
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for step in steps_of.values().flatten().filter(|step| *step != "tensors") {
        *counts.entry(step).or_default() += 1;
    }
    let counts: Vec<String> =
        counts.iter().map(|(step, count)| format!("{step} {count}")).collect();
    let others = counts.join(", ");
    format!(
        "# {whole} of {total} recipes come back whole, {same} others become the same file again. \
         The rest: {others}."
    )
}

#[test]
fn checkpoints_come_back() {
    let only = std::env::var("GGMILL_RECIPE").ok();
    let is_blessing = std::env::var_os("GGMILL_BLESS").is_some();
    let mut recipes = recipes("classes");
    if let Some(only) = &only {
        recipes.retain(|name, _| name.contains(only.as_str()));
    } else if !is_blessing {
        recipes = sample(recipes, 12);
    }
    let mut found = for_each(&recipes, faults);
    if only.is_some() {
        println!("{}", found.join("\n"));
        return;
    }
    let is_complete = is_blessing || is_long_run();
    if is_complete {
        found.insert(0, summary(recipes.len(), &found));
    }
    if is_blessing {
        fs::write(list(), found.join("\n") + "\n").unwrap();
    }
    let expected = fs::read_to_string(list()).unwrap();
    // The summary is about all recipes; a sample has only their lines.
    let is_expected = |line: &&str| {
        if line.starts_with('#') { is_complete } else { recipes.contains_key(recipe_of(line)) }
    };
    let expected: Vec<&str> = expected.lines().filter(is_expected).collect();
    let new: Vec<&String> = found.iter().filter(|line| !expected.contains(&&***line)).collect();
    let gone: Vec<&&str> =
        expected.iter().filter(|line| !found.iter().any(|found| found == **line)).collect();
    assert!(new.is_empty() && gone.is_empty(), "new: {new:#?}\nno longer: {gone:#?}");
}

/// The name that a line of the list begins with.
fn recipe_of(line: &str) -> &str {
    line.split(": ").next().unwrap_or_default()
}

/// The sample has recipes that come back and recipes that do not, so the test above can fail both
/// ways.
#[test]
fn the_sample_has_both_outcomes() {
    let expected = fs::read_to_string(list()).unwrap();
    let listed: BTreeSet<&str> = expected.lines().map(recipe_of).collect();
    let sample: Recipes = recipes("classes").into_iter().step_by(12).collect();
    let failing = sample.keys().filter(|name| listed.contains(&***name)).count();
    assert!(failing > 5 && sample.len() - failing > 5, "{failing} of {} fail", sample.len());
}

/// Several classes can convert to the same file; the original class is found.
#[test]
fn the_original_class_is_found() {
    let recipes = recipes("classes");
    for (name, says) in [
        ("LlamaForCausalLM-llama3", json!({ "rope_scaling": { "rope_type": "llama3" } })),
        ("MistralForCausalLM", json!({ "rope_scaling": { "rope_type": "yarn", "factor": 4.0 } })),
        ("MixtralForCausalLM", json!({ "model_type": "mixtral" })),
        ("DeepseekV2ForCausalLM", json!({ "model_type": "deepseek_v2" })),
        ("DeepseekV3ForCausalLM-rope-parameters", json!({ "model_type": "deepseek_v3" })),
        ("FalconForCausalLM", json!({ "num_attention_heads": 4 })),
        ("FalconForCausalLM-groups", json!({ "new_decoder_architecture": true })),
        ("GraniteMoeHybridForCausalLM", json!({ "model_type": "granitemoehybrid" })),
    ] {
        let place = tempfile::tempdir().unwrap();
        materialize(&recipes[name], &place.path().join(name));
        let source = CheckpointDirectory::open(&place.path().join(name)).unwrap();
        let whole = file(&source, FileType::F32, &place.path().join("whole.gguf")).unwrap();
        let catalogue = Catalogue::new();
        let architecture = catalogue.for_checkpoint(source.config()).unwrap();
        let restored = restore_checkpoint(&whole, architecture, &RestoreOptions::default());
        let restored = restored.unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(restored.class, name.split('-').next().unwrap(), "{name}");
        for (member, expected) in says.as_object().unwrap() {
            let found = &restored.config[member];
            let is_there = match expected.as_object() {
                Some(expected) => expected.iter().all(|(key, value)| found[key] == *value),
                None => found == expected,
            };
            assert!(is_there, "{name}: {member} is {found}, expected {expected}");
        }
    }
}

/// The file's value for "no window" would mean a window of 0 tokens in transformers.
#[test]
fn a_missing_window_is_restored_as_null() {
    let mut recipe = recipes("classes")["Phi3ForCausalLM"].clone();
    for (given, expected) in [(Json::Null, Json::Null), (2047.into(), 2047.into())] {
        recipe["config"]["sliding_window"] = given;
        let place = tempfile::tempdir().unwrap();
        materialize(&recipe, &place.path().join("phi3"));
        let source = CheckpointDirectory::open(&place.path().join("phi3")).unwrap();
        let whole = file(&source, FileType::F32, &place.path().join("whole.gguf")).unwrap();
        let catalogue = Catalogue::new();
        let architecture = catalogue.for_checkpoint(source.config()).unwrap();
        let restored = restore_checkpoint(&whole, architecture, &RestoreOptions::default());
        assert_eq!(restored.unwrap().config["sliding_window"], expected);
    }
}

/// Elements that the restoration drops must be those that the conversion adds, otherwise the file
/// is refused.
#[test]
fn dropped_elements_must_be_reproducible() {
    let architecture =
        ggmill_arch::Architecture::parse(include_str!("../fixtures/lossy.toml")).unwrap();
    let place = tempfile::tempdir().unwrap();
    let directory = place.path().join("lossy");
    let recipe = serde_json::json!({
        "config": { "architectures": ["LossyModel"], "width": 8 },
        "tensors": { "padded": ["F32", [4, 8]], "repeated": ["F32", [4, 8]],
            "shared": ["F32", [4, 8]] },
    });
    materialize(&recipe, &directory);
    let source = CheckpointDirectory::open(&directory).unwrap();
    let mut options = ConvertOptions::new(FileType::F32);
    options.assume_defaults = true;
    options.no_vocab = true;
    let plan = convert(&source, &architecture, &options).unwrap().plan(&source).unwrap();
    let file = run(&plan, &source, Vec::new(), &RunOptions::with_threads(1), &mut |_| {
        ControlFlow::Continue(())
    });
    let file = file.unwrap();
    let path = place.path().join("lossy.gguf");
    let restored = |file: &[u8]| {
        fs::write(&path, file).unwrap();
        let file = GgufCheckpoint::open(&path).unwrap();
        let restored = restore_checkpoint(&file, &architecture, &RestoreOptions::default());
        restored.map(|restored| restored.tensors.len()).map_err(|error| error.to_string())
    };
    assert_eq!(restored(&file), Ok(3));
    for (tensor, row, words) in [
        ("padded.weight", 5, "padding or a repetition"),
        ("repeated.weight", 6, "padding or a repetition"),
        ("again.weight", 1, "a part that is shared with other tensors"),
    ] {
        let layout = plan.layout();
        let tensor_layout =
            layout.tensors().iter().find(|known| known.name().to_str() == Ok(tensor)).unwrap();
        let at = tensor_layout.offset() + row * 8 * 4;
        let mut changed = file.clone();
        changed[usize::try_from(at).unwrap() + 2] ^= 0x41;
        let error = restored(&changed).unwrap_err();
        assert!(error.contains(tensor) && error.contains(words), "{error}");
    }
}
