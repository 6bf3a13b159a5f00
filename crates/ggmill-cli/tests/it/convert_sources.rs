//! The sources of `ggmill convert`, the notes about them, and the output path.

use std::fs;

use ggmill_testdata::bytes::{FileBytes, Value};
use serde_json::json;

use crate::lora::write_adapter;
use crate::support::{Directory, Outcome, command, ggmill, outcome, real, tiny};

fn refused(directory: &Directory, args: &[&str]) -> String {
    let Outcome { code, stdout, stderr } = ggmill(directory.path(), args);
    assert_eq!((code, &*stdout), (2, ""), "{args:?}: {stderr}");
    stderr
}

/// Copies the files of the bundled checkpoint without its weights.
fn without_weights(directory: &Directory, name: &str) {
    fs::create_dir(directory.path().join(name)).unwrap();
    for entry in fs::read_dir(real("tinystories260K")).unwrap().map(|entry| entry.unwrap().path()) {
        if entry.extension().is_none_or(|found| found != "safetensors") {
            let to = directory.path().join(name).join(entry.file_name().unwrap());
            fs::copy(entry, to).unwrap();
        }
    }
}

#[test]
fn a_file_that_is_not_a_model_is_named_with_what_is_expected() {
    let directory = Directory::new()
        .with("notes.txt", "Dear diary, today I quantized a model.\n")
        .with("config.json", "{}")
        .with("model.bin", [7; 5000])
        .with("empty.safetensors", "");
    let taken = "is not a checkpoint, expected a directory with config.json and weights, a \
                 .safetensors or PyTorch file with config.json next to it, or a legacy LLaMA file";
    for (file, hint) in [
        ("notes.txt", "this is a text file that begins with \"Dear diary, today"),
        ("config.json", "this is a JSON file; give the directory that contains it"),
        ("empty.safetensors", "this is an empty file; the download or copy failed"),
    ] {
        let stderr = refused(&directory, &["convert", file]);
        let expected = format!("error: {file}: {taken}\nhint: {hint}");
        assert!(stderr.starts_with(&expected), "{file}: {stderr}");
    }
    let stderr = refused(&directory, &["convert", "model.bin"]);
    let hint = "hint: expected a directory with config.json and weights, a .safetensors or PyTorch \
                file with config.json next to it, or a legacy LLaMA file\n";
    assert!(stderr.starts_with("error: ./model.bin: ") && stderr.ends_with(hint), "{stderr}");
}

#[test]
fn the_chosen_type_is_noted_with_the_reason() {
    let directory = Directory::new();
    let source = real("tinystories260K").display().to_string();
    let note = "note: type F16, because the weights of the checkpoint are F32; --type F32 avoids \
                rounding\n";
    for more in [&["--dry-run"][..], &["-o", "a.gguf"]] {
        let made = ggmill(directory.path(), &[&["convert", &source], more].concat());
        assert_eq!((made.code, made.stderr.matches(note).count()), (0, 1), "{}", made.stderr);
    }
    for more in [&["--type", "f16"][..], &["--type", "Q8_0"], &["--vocab-only"], &["-q"]] {
        let made = ggmill(directory.path(), &[&["convert", &source, "--dry-run"], more].concat());
        assert!(made.code == 0 && !made.stderr.contains("note: type"), "{}", made.stderr);
    }
    let half = ["convert", "a.gguf", "--to", "safetensors", "-o", "half", "--type", "bf16"];
    assert_eq!(ggmill(directory.path(), &half).code, 0);
    let made = ggmill(directory.path(), &["convert", "half", "--dry-run"]);
    let note = "note: type BF16, like the weights of the checkpoint\n";
    assert!(made.code == 0 && made.stderr.contains(note), "{}", made.stderr);
}

#[test]
fn an_output_directory_gets_the_file() {
    let directory = Directory::new();
    let source = real("tinystories260K").display().to_string();
    fs::create_dir(directory.path().join("models")).unwrap();
    let name = "tinystories260K-260K-v1.0-F16.gguf";
    for (output, place) in [(".", name.to_owned()), ("models", format!("models/{name}"))] {
        let made = ggmill(directory.path(), &["convert", &source, output]);
        assert_eq!(made.code, 0, "{}", made.stderr);
        assert!(directory.path().join(place).is_file(), "{output}: {:?}", directory.files());
        let stderr = refused(&directory, &["convert", &source, output]);
        assert!(stderr.contains("already exists\nhint: --force"), "{stderr}");
    }
    write_adapter(&directory.path().join("style"), &json!({ "lora_alpha": 8 }));
    let made = ggmill(directory.path(), &["convert", "style", "models/", "--base", &*source]);
    assert_eq!(made.code, 0, "{}", made.stderr);
    assert!(directory.path().join("models/style-F32.gguf").is_file());
}

/// As in the reference, a vocabulary is converted without weights; the result is the same as with
/// them.
#[test]
fn a_vocabulary_is_converted_without_weights() {
    let directory = Directory::new();
    without_weights(&directory, "tinystories260K");
    let convert = |source: &str, output: &str| {
        outcome(command(directory.path()).args(["convert", source, "--vocab-only", "-o", output]))
    };
    for (source, output) in
        [("tinystories260K", "a.gguf"), (real("tinystories260K").to_str().unwrap(), "b.gguf")]
    {
        let made = convert(source, output);
        assert_eq!(made.code, 0, "{}", made.stderr);
    }
    let read = |name: &str| fs::read(directory.path().join(name)).unwrap();
    assert!(read("a.gguf") == read("b.gguf"));
    // An index without the files that it lists does not count as weights.
    let index = directory.path().join("tinystories260K/model.safetensors.index.json");
    fs::write(index, r#"{ "weight_map": { "a": "model-00001-of-00001.safetensors" } }"#).unwrap();
    assert_eq!(convert("tinystories260K", "c.gguf").code, 0);
    assert!(read("a.gguf") == read("c.gguf"));
    let stderr = refused(&directory, &["convert", "tinystories260K"]);
    assert!(stderr.contains("model-00001-of-00001.safetensors"), "{stderr}");
}

#[test]
fn only_models_are_converted_back() {
    let of_type = |kind: &str, architecture: &str| {
        let mut file = FileBytes::v3(1, 2);
        file.pair("general.architecture", &architecture.into());
        file.pair("general.type", &kind.into());
        file.tensor("a.weight", &[8], 0, 0).pad(32).raw(&[0; 32]);
        file.into_bytes()
    };
    let mut vocabulary = FileBytes::v3(0, 3);
    vocabulary.pair("general.architecture", &"llama".into());
    vocabulary.pair("tokenizer.ggml.model", &"llama".into());
    vocabulary.pair("tokenizer.ggml.tokens", &Value::Array(8, vec!["a".into()]));
    let directory = Directory::new()
        .with("adapter.gguf", of_type("adapter", "llama"))
        .with("mmproj.gguf", of_type("mmproj", "clip"))
        .with("vocabulary.gguf", vocabulary.into_bytes());
    for (file, expected) in [
        ("adapter.gguf", "adapter.gguf: is an adapter, expected a model"),
        ("mmproj.gguf", "mmproj.gguf: is a projector (mmproj file), expected a model"),
        (
            "vocabulary.gguf",
            "vocabulary.gguf: has no tensors, only metadata\nhint: --vocab-only writes only the \
             files of its tokenizer",
        ),
    ] {
        for more in [&[][..], &["--dry-run"]] {
            let args = [&["convert", file, "--to", "safetensors", "-o", "back"], more].concat();
            let stderr = refused(&directory, &args);
            assert!(stderr.starts_with(&format!("error: {expected}")), "{stderr}");
        }
    }
    assert_eq!(directory.files(), ["adapter.gguf", "mmproj.gguf", "vocabulary.gguf"]);
}

#[test]
fn shapes_of_a_dry_run_are_those_of_safetensors() {
    let directory = Directory::new();
    let source = real("tinystories260K").display().to_string();
    let made = ggmill(directory.path(), &["convert", &source, "a.gguf", "--type", "f32"]);
    assert_eq!(made.code, 0, "{}", made.stderr);
    let back = ["convert", "a.gguf", "--to", "safetensors", "-o", "back", "--dry-run"];
    let dry = ggmill(directory.path(), &back);
    assert_eq!(dry.code, 0, "{}", dry.stderr);
    assert!(dry.stdout.contains("model.embed_tokens.weight  512 × 64  F32\n"), "{}", dry.stdout);
    assert!(dry.stdout.contains("the reverse of those in GGUF"), "{}", dry.stdout);
}

/// PEFT files in a command that takes GGUF adapters.
#[test]
fn a_peft_adapter_must_be_converted_before_merging() {
    let directory = Directory::new().with("base.gguf", tiny());
    write_adapter(&directory.path().join("style"), &json!({ "lora_alpha": 8 }));
    for (adapter, name) in [
        ("style", "style"),
        ("style=0.5", "style"),
        ("style/adapter_model.safetensors", "style/adapter_model.safetensors"),
    ] {
        let stderr =
            refused(&directory, &["lora", "merge", "base.gguf", adapter, "-o", "merged.gguf"]);
        let expected = format!(
            "error: {name}: is a PEFT adapter, expected a GGUF adapter\nhint: `ggmill convert \
             style --base BASE_DIR` converts it\n"
        );
        assert_eq!(stderr, expected);
    }
}

/// The vocabulary next to a llama2.c file is one of its inputs.
#[test]
fn the_tokenizer_of_llama2c_is_not_overwritten() {
    let directory = Directory::new().with("tokenizer.bin", "precious");
    fs::copy(real("tinystories260K.llama2c.bin"), directory.path().join("model.bin")).unwrap();
    for output in ["tokenizer.bin", "./tokenizer.bin"] {
        let args = ["convert", "model.bin", "-o", output, "--force"];
        let stderr = refused(&directory, &args);
        assert!(stderr.contains("is an input, so it cannot be the output"), "{stderr}");
    }
    assert_eq!(fs::read(directory.path().join("tokenizer.bin")).unwrap(), b"precious");
}

#[test]
fn weights_without_a_configuration_get_a_hint() {
    let header = br#"{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}"#;
    let weights = [&(header.len() as u64).to_le_bytes()[..], header, &[0; 4]].concat();
    let directory = Directory::new().with("alone.safetensors", weights);
    let found = ggmill(directory.path(), &["convert", "alone.safetensors"]);
    assert_eq!(found.code, 2);
    assert!(
        found.stderr.contains(
            "hint: the weights do not identify the model: put the config.json of the checkpoint, \
             and its tokenizer files, into ."
        ),
        "{}",
        found.stderr
    );
}

/// Facts that a user may want to know before publishing a model.
#[test]
fn missing_names_and_vocabularies_are_noted() {
    let directory = Directory::new();
    let snapshot = directory.path().join("models--karpathy--tinyllamas/snapshots/0123abcd");
    fs::create_dir_all(&snapshot).unwrap();
    for name in ["config.json", "model.safetensors"] {
        fs::copy(real("tinystories260K").join(name), snapshot.join(name)).unwrap();
    }
    let convert = |more: &[&str]| {
        let mut run = command(directory.path());
        outcome(run.arg("convert").arg(&snapshot).args(["-o", "x-{ftype}.gguf"]).args(more))
    };
    // A directory named `snapshots` outside the cache gets no note.
    let stderr = refused(&directory, &["convert", "models--karpathy--tinyllamas"]);
    let hint = "hint: models--karpathy--tinyllamas/snapshots/0123abcd is a checkpoint: name this \
                directory\n";
    assert!(stderr.ends_with(hint), "{stderr}");
    let warning = "warning: the checkpoint has no tokenizer files";
    let note = "note: the directory is the cached copy of \"tinyllamas\"; --name";
    let found = convert(&[]);
    assert_eq!(found.code, 0, "{}", found.stderr);
    assert!(found.stderr.contains(warning) && found.stderr.contains(note), "{}", found.stderr);
    // The last line repeats it, because the warning may have scrolled away.
    let last = found.stderr.lines().last().unwrap();
    assert!(last.contains("; the file has no vocabulary"), "{}", found.stderr);
    let found = convert(&["--no-vocab", "--name", "T", "--type", "q8_0"]);
    assert_eq!(found.code, 0, "{}", found.stderr);
    assert!(!found.stderr.contains(warning) && !found.stderr.contains(note), "{}", found.stderr);
    // Token IDs can be used without a tokenizer.
    fs::write(directory.path().join("text.txt"), "Once upon a time").unwrap();
    let found = ggmill(directory.path(), &["measure", "x-q8_0.gguf", "--text", "text.txt"]);
    let message = "error: x-q8_0.gguf: the file has no tokenizer\nhint: --tokens IDS.json takes the \
                   IDs of tokens instead\n";
    assert_eq!((found.code, &*found.stderr), (2, message));
    fs::remove_file(directory.path().join("text.txt")).unwrap();
    // `{ftype}` in the output, as in convert_hf_to_gguf.py.
    assert_eq!(directory.files(), ["models--karpathy--tinyllamas", "x-f16.gguf", "x-q8_0.gguf"]);
}
