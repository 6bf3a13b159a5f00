//! `ggmill get`.

use std::fs;
use std::process::Stdio;

use ggmill_testdata::bytes::{FileBytes, Value};

use crate::support::{Directory, command, ggmill, outcome, real, tiny};

fn model() -> Vec<u8> {
    let mut file = FileBytes::v3(0, 4);
    file.pair("general.architecture", &"llama".into())
        .pair("general.name", &"two\nlines\u{1b}[31m".into())
        .pair("x.words", &Value::Array(8, vec!["a".into(), "b c".into()]))
        .pair("x.broken", &Value::Array(8, vec!["a".into(), "b\nc".into()]));
    file.into_bytes()
}

#[test]
fn one_value_is_printed_raw() {
    let directory = Directory::new().with("model.gguf", model()).with("tiny.gguf", tiny());
    for (file, key, expected) in [
        ("model.gguf", "general.name", "two\nlines\u{1b}[31m"),
        ("model.gguf", "x.words", "a\nb c\n"),
        ("model.gguf", "x.words[1]", "b c"),
        ("model.gguf", "x.broken[1]", "b\nc"),
        ("tiny.gguf", "llama.context_length", "128\n"),
        ("tiny.gguf", "tokenizer.ggml.scores[3]", "0.75\n"),
    ] {
        let found = ggmill(directory.path(), &["get", file, key]);
        assert_eq!((found.code, &*found.stdout), (0, expected), "{key}: {}", found.stderr);
    }
    let json = ggmill(directory.path(), &["get", "model.gguf", "x.broken", "--json"]);
    let json: serde_json::Value = serde_json::from_str(&json.stdout).unwrap();
    assert_eq!(json, serde_json::json!(["a", "b\nc"]));
    let mut piped = command(directory.path());
    piped.args(["get", "-", "llama.context_length"]);
    piped.stdin(Stdio::from(fs::File::open(directory.path().join("tiny.gguf")).unwrap()));
    assert_eq!(outcome(&mut piped).stdout, "128\n");
}

#[test]
fn a_missing_key_gets_a_hint() {
    let directory = Directory::new().with("model.gguf", model()).with("tiny.gguf", tiny());
    for (file, key, words) in [
        ("tiny.gguf", "context_length", "no such key\nhint: did you mean llama.context_length?\n"),
        ("tiny.gguf", "llama.context_lenght", "hint: did you mean llama.context_length?\n"),
        // The most similar key comes first, wherever it is in the file.
        ("model.gguf", "x.broke", "hint: did you mean x.broken"),
        ("model.gguf", "general", "hint: did you mean general.name or general.architecture?\n"),
        ("tiny.gguf", "zzz", "key \"zzz\": no such key\n"),
        ("tiny.gguf", "tokenizer.ggml.scores[20]", "the array has 20 elements, counted from 0"),
        ("tiny.gguf", "general.name[0]", "is not an array"),
        ("model.gguf", "x.broken", "element 1 has a line break"),
        ("absent.gguf", "x", "absent.gguf: cannot open: no such file"),
    ] {
        let found = ggmill(directory.path(), &["get", file, key]);
        assert_eq!((found.code, &*found.stdout), (2, ""), "{key}");
        assert!(found.stderr.contains(words), "{key}: {}", found.stderr);
    }
}

#[test]
fn a_value_in_the_readable_part_of_a_truncated_file_is_printed() {
    let whole = tiny();
    let directory = Directory::new().with("data.gguf", &whole[..whole.len() - 40]).with(
        "header.gguf",
        // Within the second entry.
        &model()[..90],
    );
    for (file, key, expected) in [
        ("data.gguf", "llama.context_length", "128\n"),
        ("header.gguf", "general.architecture", "llama"),
    ] {
        let found = ggmill(directory.path(), &["get", file, key]);
        assert_eq!((found.code, &*found.stdout), (0, expected), "{}", found.stderr);
        assert!(found.stderr.starts_with(&format!("warning: {file}: ")), "{}", found.stderr);
        assert!(found.stderr.contains("perhaps an incomplete download"), "{}", found.stderr);
    }
    // A key that was not found may be in the missing part.
    let found = ggmill(directory.path(), &["get", "header.gguf", "x.words"]);
    assert_eq!((found.code, &*found.stdout), (2, ""));
    assert!(found.stderr.contains("perhaps an incomplete download"), "{}", found.stderr);
    assert!(!found.stderr.contains("no such key"), "{}", found.stderr);
}

/// The output of `get` is the input of `--set KEY=@FILE`, which changes nothing.
#[test]
fn values_round_trip() {
    let file = real("ggml-vocab-phi-3.gguf");
    let directory = Directory::new().with("model.gguf", fs::read(file).unwrap());
    let keys = ["tokenizer.ggml.scores", "general.architecture", "tokenizer.ggml.token_type"];
    for key in keys {
        let value = ggmill(directory.path(), &["get", "model.gguf", key]);
        assert_eq!(value.code, 0, "{key}: {}", value.stderr);
        fs::write(directory.path().join("value"), value.stdout).unwrap();
        let set = format!("{key}=@value");
        let found = ggmill(directory.path(), &["edit", "model.gguf", "--set", &set]);
        assert_eq!(found.stdout, "model.gguf: nothing to change\n", "{key}: {}", found.stderr);
    }
}
