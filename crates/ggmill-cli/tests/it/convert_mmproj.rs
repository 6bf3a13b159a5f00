//! `ggmill convert --mmproj`, from the command line.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::support::{Directory, ggmill, real};

/// Writes a checkpoint with the tensors of a recipe of the converter's tests, all zero.
fn checkpoint(directory: &Directory, name: &str, kind: &str, recipe: &str) {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../ggmill-convert/tests/fixtures");
    let recipes = fs::read(fixtures.join(format!("{kind}.json"))).unwrap();
    let recipes: Value = serde_json::from_slice(&recipes).unwrap();
    let recipe = &recipes[recipe];
    let place = directory.path().join(name);
    fs::create_dir(&place).unwrap();
    fs::write(place.join("config.json"), recipe["config"].to_string()).unwrap();
    for (name, content) in recipe["files"].as_object().into_iter().flatten() {
        fs::write(place.join(name), content.to_string()).unwrap();
    }
    let (mut header, mut size) = (serde_json::Map::new(), 0);
    for (name, tensor) in recipe["tensors"].as_object().unwrap() {
        let (dtype, shape) = (&tensor[0], tensor[1].as_array().unwrap());
        let width = if dtype == "F32" { 4 } else { 2 };
        let extents = shape.iter().map(|extent| usize::try_from(extent.as_u64().unwrap()).unwrap());
        let elements: usize = extents.product();
        let end = size + width * elements;
        let info = json!({ "dtype": dtype, "shape": shape, "data_offsets": [size, end] });
        header.insert(name.clone(), info);
        size = end;
    }
    let header = Value::Object(header).to_string();
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend(header.as_bytes());
    bytes.resize(bytes.len() + size, 0);
    fs::write(place.join("model.safetensors"), bytes).unwrap();
}

#[test]
fn the_encoders_are_converted_to_a_file_without_findings() {
    for (name, recipe) in [
        ("Tiny-Gemma-3", "Gemma3ForConditionalGeneration"),
        ("Tiny-Voxtral", "VoxtralForConditionalGeneration"),
        ("Tiny-Gemma-4", "Gemma4ForConditionalGeneration-images"),
    ] {
        let directory = Directory::new();
        checkpoint(&directory, name, "mmproj", recipe);
        let made = ggmill(directory.path(), &["convert", name, "--mmproj", "--type", "f16"]);
        assert_eq!(made.code, 0, "{name}: {}", made.stderr);
        // The name follows the convention.
        let written = made.stderr.lines().find_map(|line| line.strip_prefix("note: wrote "));
        let file = written.unwrap().to_owned();
        assert!(file.starts_with("mmproj-") && file.ends_with("-F16.gguf"), "{file}");
        assert!(!made.stdout.contains("vocabulary"), "{}", made.stdout);

        let checked = ggmill(directory.path(), &["check", &file]);
        assert_eq!(checked.code, 0, "{}", checked.stdout);
        let shown = ggmill(directory.path(), &["inspect", "--json", &file]);
        let shown: Value = serde_json::from_str(&shown.stdout).unwrap();
        assert_eq!(shown["metadata_by_key"]["general.type"], "mmproj", "{name}");
    }
}

#[test]
fn a_checkpoint_with_encoders_gets_a_note() {
    let directory = Directory::new();
    checkpoint(&directory, "seeing", "classes", "Gemma3ForConditionalGeneration");
    let made = ggmill(directory.path(), &["convert", "seeing", "--dry-run", "--assume-defaults"]);
    assert_eq!(made.code, 0, "{}", made.stderr);
    let note = "the checkpoint has vision or audio encoders; --mmproj converts them";
    assert!(format!("{}{}", made.stdout, made.stderr).contains(note), "{made:?}");
}

#[test]
fn a_checkpoint_without_encoders_is_refused() {
    let directory = Directory::new();
    let model = real("tinystories260K").display().to_string();
    let refused = ggmill(directory.path(), &["convert", &model, "--mmproj"]);
    assert_eq!(refused.code, 2);
    let message = "error: the checkpoint has no image or audio tower: \"LlamaForCausalLM\" is a \
                   class of language models, and config.json describes no tower\n";
    assert_eq!(refused.stderr, message);
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
}
