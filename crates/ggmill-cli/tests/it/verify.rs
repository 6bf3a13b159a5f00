//! `ggmill verify`, and `quantize --like`.

use std::fs;

use ggmill_core::Model;
use serde_json::Value as Json;

use crate::support::{Directory, Outcome, ggmill, quantize, quantized, real};

fn directory() -> Directory {
    let directory = Directory::new();
    let source = real("tinystories260K");
    let args = ["convert".as_ref(), source.as_os_str(), "-o".as_ref(), "f16.gguf".as_ref()];
    let found =
        ggmill(directory.path(), &[&args[..], &["--type".as_ref(), "f16".as_ref()]].concat());
    assert_eq!(found.code, 0, "{}", found.stderr);
    directory
}

fn verify(directory: &Directory, file: &str, more: &[&str]) -> Outcome {
    ggmill(directory.path(), &[&["verify", file, "--from", "f16.gguf"], more].concat())
}

#[test]
fn a_verdict_is_printed_and_is_the_exit_code() {
    let directory = directory();
    quantized(&directory, &["f16.gguf", "q.gguf", "Q4_0"]);
    let found = verify(&directory, "q.gguf", &[]);
    assert_eq!(found.code, 0, "{}", found.stderr);
    insta::assert_snapshot!("identical", found.stdout);

    let path = directory.path().join("q.gguf");
    let mut bytes = fs::read(&path).unwrap();
    let model = Model::open(bytes.clone()).unwrap();
    let tensor = model.tensor("blk.3.ffn_up.weight").unwrap();
    // A code of the first block, whose first two bytes are the scale.
    bytes[usize::try_from(tensor.offset()).unwrap() + 2] ^= 1;
    fs::write(&path, bytes).unwrap();
    let found = verify(&directory, "q.gguf", &[]);
    assert_eq!(found.code, 1);
    insta::assert_snapshot!("consistent", format!("{}{}", found.stdout, found.stderr));
    assert_eq!(verify(&directory, "q.gguf", &["--allow-consistent"]).code, 0);

    let set = ["edit", "q.gguf", "--set", "tokenizer.chat_template=\u{1b}[31m", "--force"];
    assert_eq!(ggmill(directory.path(), &set).code, 0);
    let found = verify(&directory, "q.gguf", &["--allow-consistent"]);
    assert_eq!(found.code, 1);
    assert!(found.stdout.contains("+ tokenizer.chat_template"), "{}", found.stdout);
    assert!(!found.stdout.contains('\u{1b}'), "{:?}", found.stdout);
    let found = verify(&directory, "q.gguf", &["--json"]);
    assert_eq!(found.code, 1);
    insta::assert_snapshot!("json", found.stdout);
    let json: Json = serde_json::from_str(&found.stdout).unwrap();
    assert_eq!(json["verdict"], "different");
}

#[test]
fn exchanged_files_are_noted() {
    let directory = directory();
    quantized(&directory, &["f16.gguf", "q.gguf", "Q4_0"]);
    let found = ggmill(directory.path(), &["verify", "f16.gguf", "--from", "q.gguf"]);
    assert_eq!(found.code, 1);
    let note = "note: q.gguf is quantized where f16.gguf is not: --from takes the model before";
    assert!(found.stderr.contains(note), "{}", found.stderr);
    assert!(!verify(&directory, "q.gguf", &[]).stderr.contains("--from takes"));
}

#[test]
fn a_source_that_cannot_be_read_is_an_error() {
    let directory = directory();
    for (source, message) in [
        ("missing", "missing: "),
        (real("mobilenetv3_3class_v3_fp16.gguf").to_str().unwrap(), "has the architecture"),
    ] {
        let found = ggmill(directory.path(), &["verify", "f16.gguf", "--from", source]);
        assert_eq!((found.code, &*found.stdout), (2, ""), "{source}");
        assert!(found.stderr.contains(message), "{}", found.stderr);
    }
}

#[test]
fn types_are_those_of_another_model() {
    let directory = directory().with("list.txt", "# values\nattn_v=q8_0 # as they are\n");
    quantized(&directory, &["f16.gguf", "a.gguf", "Q5_1", "--tensor-type", "attn_v=q8_0"]);
    quantized(&directory, &["f16.gguf", "b.gguf", "--like", "a.gguf"]);
    let [a, b] = ["a.gguf", "b.gguf"].map(|name| fs::read(directory.path().join(name)).unwrap());
    assert!(a == b);
    quantized(&directory, &["f16.gguf", "c.gguf", "Q5_1", "--like", "list.txt"]);
    assert!(a == fs::read(directory.path().join("c.gguf")).unwrap());

    let source = real("tinystories260K");
    let args = ["convert", source.to_str().unwrap(), "-o", "d.gguf", "--like", "a.gguf"];
    assert_eq!(ggmill(directory.path(), &args).code, 0);
    let args = ["verify", "d.gguf", "--from", source.to_str().unwrap()];
    assert_eq!(ggmill(directory.path(), &args).code, 0);

    for (args, message) in [
        (&["e.gguf", "Q8_0", "--like", "a.gguf"][..], "both a type and a model"),
        (&["e.gguf", "--like", "missing.gguf"], "missing.gguf: "),
        (&["e.gguf", "--like", "list.txt"], "is not a type"),
    ] {
        let found = quantize(&directory, &[&["f16.gguf"], args].concat());
        assert_eq!(found.code, 2, "{args:?}");
        assert!(found.stderr.contains(message), "{args:?}: {}", found.stderr);
    }
    let rename = ["graft", "a.gguf", "--rename", "output_norm.weight=norm", "-o", "other.gguf"];
    assert_eq!(ggmill(directory.path(), &rename).code, 0);
    let found = quantize(&directory, &["f16.gguf", "e.gguf", "--like", "other.gguf"]);
    assert_eq!(found.code, 2);
    assert!(found.stderr.contains("\"norm\": is in the other model, but not in the model"));
}
