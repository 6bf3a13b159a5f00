//! Compares descriptions with files that the reference converter wrote from small checkpoints.
//!
//! Each file under `tests/fixtures/reference` has a `config.json`, the names and row-major shapes
//! of a checkpoint in the reference's order, and the keys and tensors of the file that
//! `convert_hf_to_gguf.py` of llama-cpp-python 0.3.36 wrote as F16 (transformers 4.57.6, PyTorch
//! 2.11.0; without the tokenizer). `tests/fixtures/make.py` generates them. tinystories260K is a real
//! checkpoint; the weights of the others are zeros.

use std::path::Path;

use ggmill_arch::{Catalogue, Origin};
use ggmill_core::{FileType, MetadataBuf, Shape, Value};
use serde_json::{Map, Value as Json};

fn fixture(name: &str) -> Json {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/fixtures/reference")
        .join(name)
        .with_extension("json");
    // `with_extension` would truncate names with dots, such as "llama-3.2".
    let path = path.with_file_name(format!("{name}.json"));
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

/// Returns a key in the form of the fixture: name, type, value.
fn shown(name: &str, value: &Value<'_>) -> Json {
    let name_of_type = match value {
        Value::U32(_) => "UINT32",
        Value::F32(_) => "FLOAT32",
        Value::Bool(_) => "BOOL",
        Value::Str(_) => "STRING",
        other => panic!("{other:?}"),
    };
    let json = match *value {
        Value::U32(value) => value.into(),
        Value::F32(value) => f64::from(value).into(),
        Value::Bool(value) => value.into(),
        Value::Str(text) => text.to_str().unwrap().into(),
        ref other => panic!("{other:?}"),
    };
    Json::Array(vec![name.into(), name_of_type.into(), json])
}

fn agrees(name: &str) {
    let fixture = fixture(name);
    let config = &fixture["config"];
    let catalogue = Catalogue::new();
    let architecture = catalogue.for_checkpoint(config).unwrap();
    let model = architecture.resolve(config).unwrap();

    let mut metadata = MetadataBuf::new();
    model.write_keys(FileType::F16, &mut metadata);
    // The reference writes the magnitude of YaRN to a key that no program reads.
    let magnitude = metadata.get("llama.rope.scaling.attn_factor").and_then(|value| value.as_f64());
    let given = config["rope_parameters"]["attention_factor"].as_f64();
    #[expect(clippy::cast_possible_truncation, reason = "the key is F32")]
    let expected = given.map(|given| f64::from((given / (0.1 * 4.0f64.ln() + 1.0)) as f32));
    assert_eq!(magnitude, expected, "{name}");
    metadata.remove("llama.rope.scaling.attn_factor");
    let keys: Vec<Json> =
        metadata.iter().map(|(key, value)| shown(key.to_str().unwrap(), &value)).collect();
    let ours = |key: &&Json| {
        key[0].as_str().is_some_and(|key| key.starts_with("llama.") || key == "general.file_type")
    };
    let expected: Vec<Json> =
        fixture["keys"].as_array().unwrap().iter().filter(ours).cloned().collect();
    assert_eq!(keys, expected, "{name}");

    let checkpoint: &Map<String, Json> = fixture["checkpoint"].as_object().unwrap();
    let mut names: Vec<&String> = checkpoint.keys().collect();
    names.sort_unstable();
    let assignment = model.assign(&names).unwrap();
    assert!(assignment.unknown.is_empty(), "{name}: {:?}", assignment.unknown);
    let mut tensors = Vec::new();
    for assigned in &assignment.tensors {
        let spec = assigned.spec;
        let tensor_type = if spec.is_f32() { "F32" } else { "F16" };
        tensors.push(serde_json::json!([spec.name, spec.shape.dimensions(), tensor_type]));
        match (&spec.origin, assigned.source) {
            (Origin::Computed(computation), None) => {
                let expected: Vec<f64> = fixture["rope_freqs"]
                    .as_array()
                    .unwrap()
                    .iter()
                    .filter_map(Json::as_f64)
                    .collect();
                let values: Vec<f64> = computation.iter().copied().map(f64::from).collect();
                assert_eq!(values, expected);
            }
            (_, Some(source)) => {
                let shapes: Vec<Shape> =
                    source.names.iter().map(|name| row_major(&checkpoint[name])).collect();
                assert_eq!(source.shape(&shapes).unwrap(), spec.shape, "{name}: {}", spec.name);
                assert_eq!(
                    assigned.positions.iter().map(|&position| names[position]).collect::<Vec<_>>(),
                    source.names.iter().collect::<Vec<_>>()
                );
            }
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(Json::Array(tensors), fixture["tensors"], "{name}");
}

fn row_major(shape: &Json) -> Shape {
    let dimensions: Vec<u64> = shape.as_array().unwrap().iter().filter_map(Json::as_u64).collect();
    Shape::from_row_major(&dimensions).unwrap()
}

#[test]
fn tinystories260k() {
    agrees("tinystories260K");
    let bundled =
        std::fs::read_to_string(ggmill_testdata::real("tinystories260K/config.json")).unwrap();
    assert_eq!(
        fixture("tinystories260K")["config"],
        serde_json::from_str::<Json>(&bundled).unwrap()
    );
}

#[test]
fn llama_with_biases_and_linear_scaling() {
    agrees("llama-biases");
}

#[test]
fn llama_3_2_tied_with_computed_rope_factors() {
    agrees("llama-3.2");
}

#[test]
fn llama_with_yarn_and_little_in_its_configuration() {
    agrees("llama-yarn");
}

#[test]
fn llama_without_the_prefix_in_its_names() {
    agrees("llama-without-prefix");
}

#[test]
fn mistral_with_null_as_head_size() {
    agrees("mistral");
}

#[test]
fn mistral_with_its_own_head_size() {
    agrees("mistral-head-size");
}

#[test]
fn mixtral_with_stacked_experts() {
    agrees("mixtral");
}
