//! `ggmill convert --to safetensors`: converts a file back to a checkpoint.

use std::fs;

use serde_json::Value;

use crate::support::{Directory, Outcome, command, outcome, real};

fn convert(directory: &Directory, arguments: &[&str]) -> Outcome {
    outcome(command(directory.path()).arg("convert").args(arguments))
}

/// The bundled checkpoint is restored, and converting it again gives the same file.
#[test]
fn a_restored_checkpoint_converts_to_the_same_file() {
    let directory = Directory::new();
    let source = real("tinystories260K");
    let made = convert(&directory, &[source.to_str().unwrap(), "-o", "a.gguf", "--type", "f32"]);
    assert_eq!(made.code, 0, "{}", made.stderr);
    fs::create_dir(directory.path().join("back")).unwrap();
    let back = ["a.gguf", "--to", "safetensors", "-o", "back/tinystories260K"];
    let dry = convert(&directory, &[&back[..], &["--dry-run"]].concat());
    assert_eq!(dry.code, 0, "{}", dry.stderr);
    assert!(dry.stdout.contains("model.layers.0.self_attn.q_proj.weight  64 × 64  F32"));
    assert!(!directory.path().join("back/tinystories260K").exists());
    let run = convert(&directory, &back);
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert!(run.stderr.contains("LlamaForCausalLM"), "{}", run.stderr);
    let config = fs::read(directory.path().join("back/tinystories260K/config.json")).unwrap();
    let config: Value = serde_json::from_slice(&config).unwrap();
    let original: Value =
        serde_json::from_slice(&fs::read(source.join("config.json")).unwrap()).unwrap();
    for member in
        ["architectures", "model_type", "hidden_size", "num_key_value_heads", "rms_norm_eps"]
    {
        assert_eq!(config[member], original[member], "{member}");
    }
    let again = ["back/tinystories260K", "-o", "b.gguf", "--type", "f32"];
    let again = convert(&directory, &again);
    assert_eq!(again.code, 0, "{}", again.stderr);
    // The second file differs only by a flag that only tokenizer.json determines.
    let same = outcome(command(directory.path()).args(["diff", "a.gguf", "b.gguf"]));
    let changes: Vec<&str> =
        same.stdout.lines().filter(|line| line.trim_start().starts_with(['~', '+', '-'])).collect();
    let is_flag = |line: &&str| line.contains("tokenizer.ggml.add_sep_token");
    assert!(changes.len() <= 1 && changes.iter().all(is_flag), "{}", same.stdout);
    assert!(same.stdout.contains("47 same"), "{}", same.stdout);
    // An existing directory is not replaced.
    let twice = convert(&directory, &back);
    assert_eq!(twice.code, 2);
    assert!(twice.stderr.contains("is not replaced"), "{}", twice.stderr);
}

/// Shards have an index, and together all tensors.
#[test]
fn large_checkpoints_have_an_index() {
    let directory = Directory::new();
    let source = real("tinystories260K");
    let made = convert(&directory, &[source.to_str().unwrap(), "-o", "a.gguf", "--type", "q8_0"]);
    assert_eq!(made.code, 0, "{}", made.stderr);
    let run = convert(
        &directory,
        &["a.gguf", "--to", "safetensors", "-o", "b", "--split-max-size", "200K", "--type", "bf16"],
    );
    assert_eq!(run.code, 0, "{}", run.stderr);
    let index = fs::read(directory.path().join("b/model.safetensors.index.json")).unwrap();
    let index: Value = serde_json::from_slice(&index).unwrap();
    let places = index["weight_map"].as_object().unwrap();
    assert!(
        places.len() > 40
            && places.values().all(|place| {
                directory.path().join("b").join(place.as_str().unwrap()).is_file()
            })
    );
    let config = fs::read_to_string(directory.path().join("b/config.json")).unwrap();
    assert!(config.contains("\"torch_dtype\": \"bfloat16\""), "{config}");
}

/// A model that cannot be restored is rejected, and no files remain.
#[test]
fn failures_leave_no_files() {
    let directory = Directory::new();
    let source = real("tinystories260K");
    let made = convert(&directory, &[source.to_str().unwrap(), "-o", "a.gguf", "--type", "f16"]);
    assert_eq!(made.code, 0, "{}", made.stderr);
    for (arguments, message) in [
        (
            &["a.gguf", "--to", "safetensors", "--class", "GPT2LMHeadModel"][..],
            "is not for checkpoints of class",
        ),
        (&["a.gguf", "--to", "safetensors", "--type", "q8_0"], "expected F32, F16, BF16 or auto"),
        (&["a.gguf", "--to", "safetensors", "-o", "no/such"], "cannot write into this directory"),
        (&["a.gguf", "--to", "safetensors", "--json"], "--json: not supported"),
        (&["a.gguf"], "is already a GGUF file"),
        (&[source.to_str().unwrap(), "--to", "safetensors"], "not a GGUF file"),
    ] {
        let refused = convert(&directory, arguments);
        assert_eq!(refused.code, 2, "{arguments:?}: {}", refused.stderr);
        assert!(refused.stderr.contains(message), "{arguments:?}: {}", refused.stderr);
        assert_eq!(directory.files(), ["a.gguf"], "{arguments:?}");
    }
}
