//! `ggmill diff`.

use ggmill_testdata::bytes::{FileBytes, Value};
use ggmill_testdata::models::models;
use serde_json::Value as Json;

use crate::support::{Directory, ggmill, shard, tiny};

/// Returns a model with something to change of every kind.
fn model(changed: bool) -> Vec<u8> {
    let mut file = FileBytes::v3(4, 6);
    let long = "{% for message in messages %}{{ message.content }}{% endfor %}".repeat(4);
    let mut tokens: Vec<Value> =
        (0..40).map(|id| Value::from(format!("token{id}").as_str())).collect();
    if changed {
        tokens[7] = "seven".into();
        tokens.push("more".into());
    }
    file.pair("general.architecture", &"llama".into());
    file.pair("general.name", &if changed { "New\u{1b}[31m" } else { "Old" }.into());
    file.pair("llama.context_length", &if changed { Value::U64(128) } else { Value::U32(128) });
    file.pair("tokenizer.ggml.tokens", &Value::Array(8, tokens));
    file.pair(
        "tokenizer.chat_template",
        &if changed { long.replacen("endfor", "ENDFOR", 3) } else { long }.as_str().into(),
    );
    file.pair(if changed { "general.url" } else { "general.author" }, &"somebody".into());
    let names = if changed { ["b", "a", "shape", "new"] } else { ["a", "b", "shape", "old"] };
    for (number, name) in (0u64..).zip(names) {
        let dimensions: &[u64] = if changed && name == "shape" { &[4, 2] } else { &[8] };
        file.tensor(name, dimensions, 0, number * 32);
    }
    file.pad(32);
    for name in names {
        let first = if changed && name == "b" { 1.5f32 } else { 1.0 };
        file.raw(&first.to_le_bytes()).raw(&[0; 28]);
    }
    file.into_bytes()
}

#[test]
fn differences_are_printed() {
    let directory = Directory::new().with("old.gguf", model(false)).with("new.gguf", model(true));
    let diff = |more: &[&str]| {
        ggmill(directory.path(), &[&["diff", "old.gguf", "new.gguf"], more].concat())
    };
    let found = diff(&["--data"]);
    assert_eq!(found.code, 1, "{}", found.stderr);
    insta::assert_snapshot!("text", found.stdout);
    insta::assert_snapshot!("json", diff(&["--json", "--data"]).stdout);
    let keys = diff(&["--key", "general.[an]*"]).stdout;
    assert!(
        keys.contains("general.author")
            && !keys.contains("general.url")
            && !keys.contains("Tensors"),
        "{keys}"
    );
    assert_eq!(diff(&["--key", "general.architecture"]).code, 0);
    assert_eq!(diff(&["--tensors=a"]).code, 0);
    // A pattern that matches in neither model is an error.
    for typo in ["--tensors=zzz", "--key=nothing*"] {
        let found = diff(&[typo]);
        assert_eq!((found.code, found.stdout.as_str()), (2, ""), "{typo}");
        assert!(found.stderr.contains(" matches \""), "{}", found.stderr);
    }
    assert_eq!(diff(&["--tensors=b", "--json"]).code, 1);
}

#[test]
fn equal_models_have_no_differences() {
    let directory = Directory::new().with("a.gguf", tiny()).with("b.gguf", tiny());
    let found = ggmill(directory.path(), &["diff", "a.gguf", "b.gguf"]);
    assert_eq!(found.code, 0);
    insta::assert_snapshot!("same", format!("{}{}", found.stdout, found.stderr));
    assert_eq!(ggmill(directory.path(), &["diff", "a.gguf", "absent.gguf"]).code, 2);
    let json: Json = serde_json::from_str(
        &ggmill(directory.path(), &["diff", "a.gguf", "b.gguf", "--json"]).stdout,
    )
    .unwrap();
    assert_eq!((&json["schema"], &json["same"]), (&"ggmill.diff/1".into(), &true.into()));
}

/// Shards, byte order and version are not differences.
#[test]
fn shards_byte_order_and_version_are_not_compared() {
    let directory = Directory::new()
        .with("model.gguf", &models()[0].file)
        .with("a-00001-of-00002.gguf", shard(0, 2))
        .with("a-00002-of-00002.gguf", shard(1, 2));
    for args in [
        &["split", "model.gguf", "set", "--max-tensors", "20"][..],
        &["repack", "model.gguf", "-o", "big.gguf", "--endian", "big"],
    ] {
        let made = ggmill(directory.path(), args);
        assert_eq!(made.code, 0, "{}", made.stderr);
    }
    let set = std::fs::read_dir(directory.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .find(|name| name.starts_with("set-"))
        .unwrap();
    for other in [set.as_str(), "big.gguf"] {
        let found = ggmill(directory.path(), &["diff", "model.gguf", other]);
        assert_eq!(found.code, 0, "{}", found.stdout);
        assert!(found.stdout.contains("not a difference between the models"), "{}", found.stdout);
    }
    assert_eq!(ggmill(directory.path(), &["diff", "model.gguf", "a-00001-of-00002.gguf"]).code, 1);
}

/// The space that an edit reserves is not a difference between the models.
#[test]
fn reserved_space_is_not_compared() {
    let directory = Directory::new().with("a.gguf", tiny()).with("b.gguf", tiny());
    let long = format!("general.description={}", "x".repeat(5000));
    for args in [
        &["edit", "b.gguf", "--set", &long][..],
        &["edit", "b.gguf", "--unset", "general.description"],
    ] {
        assert_eq!(ggmill(directory.path(), args).code, 0);
    }
    assert_eq!(ggmill(directory.path(), &["get", "b.gguf", "ggmill.padding"]).code, 0);
    let found = ggmill(directory.path(), &["diff", "a.gguf", "b.gguf", "--data"]);
    assert_eq!(found.code, 0, "{}", found.stdout);
    assert!(!found.stdout.contains("ggmill.padding"), "{}", found.stdout);
}
