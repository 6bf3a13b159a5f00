//! Hostile checkpoints: each is rejected with the name of the file and the fault, without the
//! memory and time that it claims to need.

use std::fs;

use ggmill_core::ByteSize;
use serde_json::json;

use crate::convert_bad_input::{Copied, check};
use crate::support::{Outcome, ggmill};

const UP: &str = "model.layers.0.mlp.up_proj.weight";

/// In every JSON file that a conversion reads.
#[test]
fn deep_and_large_json_is_refused_by_its_file() {
    let deep = "{\"a\":".repeat(100_000);
    for (name, shown, large) in [
        ("config.json", "model/config.json", 4 << 20),
        ("model.safetensors.index.json", "model/model.safetensors.index.json", 100_000_000),
        ("tokenizer_config.json", "tokenizer_config.json", 16 << 20),
    ] {
        check(
            |copied| {
                copied.shards(true);
                fs::write(copied.path(name), &deep).unwrap();
            },
            &format!("error: {shown}: is not valid JSON: "),
        );
        // A sparse file, which takes no disk space.
        let size = large + 1;
        check(
            |copied| {
                copied.shards(true);
                fs::File::create(copied.path(name)).unwrap().set_len(size).unwrap();
            },
            &format!("error: model/{name}: {size} bytes, the limit is {large} bytes\n"),
        );
    }
    for name in ["tokenizer.json", "added_tokens.json", "special_tokens_map.json"] {
        let copied = Copied::new();
        fs::remove_file(copied.path("tokenizer.model")).unwrap();
        let tokenizer = json!({ "model": { "type": "BPE", "vocab": { "a": 0 }, "merges": [] } });
        fs::write(copied.path("tokenizer.json"), tokenizer.to_string()).unwrap();
        fs::write(copied.path(name), &deep).unwrap();
        let stderr = copied.refused(&["--pre", "gpt-2"]);
        let expected = format!("error: {name}: is not valid JSON: ");
        assert!(stderr.starts_with(&expected), "{stderr}");
    }
    // An optional file is omitted, and the model is converted.
    let copied = Copied::new();
    fs::write(copied.path("generation_config.json"), &deep).unwrap();
    let made = ggmill(copied.directory.path(), &["convert", "model", "-o", "out.gguf"]);
    assert_eq!(made.code, 0, "{}", made.stderr);
    let expected =
        "note: generation_config.json: is not valid JSON: recursion limit exceeded at line 1";
    assert!(made.stderr.contains(expected), "{}", made.stderr);
}

#[test]
fn a_header_with_a_length_beyond_the_file_is_refused() {
    let weights = "error: model/model.safetensors: ";
    for length in [u64::MAX, i64::MAX.unsigned_abs(), 100_000_001] {
        let size = ByteSize::from(length);
        check(
            |copied| fs::write(copied.path("model.safetensors"), length.to_le_bytes()).unwrap(),
            &format!("{weights}the header should have {size}, but 0 B remain in the file\n"),
        );
    }
    // A length within the file, but above the limit.
    let length = 100_000_001u64;
    check(
        |copied| {
            let path = copied.path("model.safetensors");
            fs::write(&path, length.to_le_bytes()).unwrap();
            fs::OpenOptions::new().write(true).open(path).unwrap().set_len(length + 8).unwrap();
        },
        &format!("{weights}the header has {length} bytes, the limit is 100000000 bytes\n"),
    );
    check(
        |copied| copied.write_header(&"{\"a\":".repeat(100_000), &[]),
        &format!("{weights}the header is not a valid safetensors header: "),
    );
    // Dimensions whose product exceeds 64 bits, and offsets outside the file.
    let huge = 1u64 << 62;
    check(
        |copied| copied.entry(UP, |entry| entry["shape"] = json!([huge, huge])),
        &format!("{weights}tensor {UP:?}: "),
    );
    for offsets in [json!([0, huge]), json!([huge, huge + 44032]), json!([44032, 0])] {
        check(|copied| copied.entry(UP, |entry| entry["data_offsets"] = offsets.clone()), weights);
    }
}

/// Hyperparameters that no model has.
#[test]
fn absurd_hyperparameters_are_refused_by_their_names() {
    for (name, value, expected) in [
        ("num_hidden_layers", json!(4_000_000_000u64), "bid from 0 to 4000000000: 4000000000 rep"),
        ("num_hidden_layers", json!(1e300), "num_hidden_layers is 1e300, expected an integer"),
        ("hidden_size", json!(i64::MAX), "embedding_length is 9223372036854775807, expected u32"),
        ("hidden_size", json!(-64), "embedding_length is -64, expected u32"),
        ("hidden_size", json!("64"), "hidden_size is \"64\", expected an integer"),
        ("num_attention_heads", json!(0), "heads * head_length is 0, expected at least 1"),
        ("num_key_value_heads", json!(0), "kv_heads * head_length is 0, expected at least 1"),
        ("vocab_size", json!(u64::MAX), "vocab_size is "),
    ] {
        let copied = Copied::new();
        copied.json("config.json", |config| config[name] = value.clone());
        let stderr = copied.refused(&[]);
        assert!(stderr.starts_with("error: architecture \"llama\""), "{stderr}");
        assert!(stderr.contains(expected), "{name}: {stderr}");
    }
}

/// A pickle that calls a function, and a truncated one.
#[test]
fn a_hostile_pickle_is_refused_by_its_file() {
    let file = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../ggmill-convert/tests/fixtures/torch/plain/pytorch_model.bin"
    );
    let plain = fs::read(file).unwrap();
    let with_pickle = |bytes: &[u8]| {
        let copied = Copied::new();
        fs::remove_file(copied.path("model.safetensors")).unwrap();
        fs::write(copied.path("pytorch_model.bin"), bytes).unwrap();
        copied.refused(&[])
    };
    let asked = b"ctorch._utils\n_rebuild_tensor_v2\n";
    let at = plain.windows(asked.len()).position(|bytes| bytes == asked).unwrap();
    let mut changed = plain.clone();
    let call = b"cos\nsystem\nX\x0d\0\0\0touch hostile\x85R";
    changed[at..at + call.len()].copy_from_slice(call);
    let stderr = with_pickle(&changed);
    let expected = "error: model/pytorch_model.bin: ";
    assert!(stderr.starts_with(expected), "{stderr}");
    assert!(stderr.contains("os.system") && stderr.contains("nothing was executed"), "{stderr}");
    for end in [plain.len() / 2, plain.len() - 1] {
        let stderr = with_pickle(&plain[..end]);
        assert!(stderr.starts_with(expected), "{stderr}");
    }
}

/// A `tokenizer.json` without the type of its model, or without required fields.
#[test]
fn missing_fields_of_a_tokenizer_are_named() {
    let vocab = json!({ "a": 0, "b": 1 });
    for (model, expected) in [
        (json!({ "vocab": vocab }), "the model has no type: without merges it is not BPE, wi"),
        (json!({ "type": "BPE", "vocab": vocab }), "the model is BPE, but has no merges\n"),
        (
            json!({ "type": null, "vocab": vocab, "merges": [] }),
            "the type of the model is null, expected BPE, WordPiece, WordLevel or Unigram\n",
        ),
        (json!({ "type": "Other", "vocab": vocab }), "the type of the model is \"Other\", expect"),
    ] {
        let copied = Copied::new();
        fs::remove_file(copied.path("tokenizer.model")).unwrap();
        let tokenizer = json!({ "model": model }).to_string();
        fs::write(copied.path("tokenizer.json"), tokenizer).unwrap();
        let stderr = copied.refused(&["--pre", "gpt-2"]);
        assert!(stderr.starts_with(&format!("error: tokenizer.json: {expected}")), "{stderr}");
    }
    // Only the type is missing: it is inferred from the fields, as the library does.
    let copied = Copied::new();
    fs::remove_file(copied.path("tokenizer.model")).unwrap();
    let tokenizer = json!({ "model": { "vocab": vocab, "merges": [] } }).to_string();
    fs::write(copied.path("tokenizer.json"), tokenizer).unwrap();
    let args = ["convert", "model", "-o", "out.gguf", "--pre", "gpt-2", "--no-check"];
    let made = ggmill(copied.directory.path(), &args);
    assert_eq!(made.code, 0, "{}", made.stderr);
    // A model of a kind that the architecture does not use is named.
    let copied = Copied::new();
    fs::remove_file(copied.path("tokenizer.model")).unwrap();
    let model = json!({ "vocab": vocab, "unk_token": "a" });
    fs::write(copied.path("tokenizer.json"), json!({ "model": model }).to_string()).unwrap();
    let stderr = copied.refused(&[]);
    assert!(stderr.contains("; the model of tokenizer.json is WordLevel\n"), "{stderr}");
}

/// Tokens without a row in the embedding, in any of the files.
#[test]
fn tokens_beyond_the_embedding_are_named() {
    // A SentencePiece model of 512 pieces with fewer rows.
    let copied = Copied::new();
    copied.json("config.json", |config| config["vocab_size"] = json!(400));
    copied.entry("model.embed_tokens.weight", |entry| entry["shape"] = json!([400, 64]));
    let stderr = copied.refused(&[]);
    let expected = "error: model/model.safetensors: tensor \"model.embed_tokens.weight\": ";
    assert!(stderr.starts_with(expected), "{stderr}");
    let args = ["convert", "model", "-o", "out.gguf", "--vocab-only"];
    let Outcome { code, stderr, .. } = ggmill(copied.directory.path(), &args);
    assert_eq!(code, 2, "{stderr}");
    for (name, content) in [
        ("added_tokens.json", json!({ "<new>": 512 })),
        ("tokenizer_config.json", json!({ "added_tokens_decoder": { "512": { "content": "x" } } })),
    ] {
        let copied = Copied::new();
        fs::write(copied.path(name), content.to_string()).unwrap();
        let args = ["convert", "model", "-o", "out.gguf"];
        let made = ggmill(copied.directory.path(), &args);
        let is_said = made.stderr.contains(name) && made.stderr.contains("512");
        assert!(is_said, "{name}: {}", made.stderr);
    }
}

/// A dangling link is not treated as a missing file.
#[test]
#[cfg(unix)]
fn a_dangling_link_is_named() {
    for name in ["model.safetensors", "tokenizer.model", "config.json"] {
        let copied = Copied::new();
        fs::remove_file(copied.path(name)).unwrap();
        std::os::unix::fs::symlink("../blobs/0123", copied.path(name)).unwrap();
        let stderr = copied.refused(&[]);
        let expected = format!("error: model/{name}: cannot open: no such file");
        assert!(stderr.starts_with(&expected), "{stderr}");
    }
    let copied = Copied::new();
    fs::remove_file(copied.path("model.safetensors")).unwrap();
    std::os::unix::fs::symlink("model.safetensors", copied.path("model.safetensors")).unwrap();
    let stderr = copied.refused(&[]);
    assert!(stderr.starts_with("error: model/model.safetensors: cannot open: "), "{stderr}");
}

/// Adapters whose factors do not match each other.
#[test]
fn factors_that_do_not_fit_are_named() {
    let target = "base_model.model.model.layers.0.self_attn.q_proj";
    for (factors, words) in [
        (json!({ "A": [2, 64] }), "the adapter has no factor B for it"),
        (json!({ "A": [2, 64], "B": [64, 3] }), "3"),
        (json!({ "A": [64], "B": [64, 2] }), "lora_A"),
        (json!({ "A": [2, 64], "B": [65, 2] }), "65"),
    ] {
        let copied = Copied::new();
        let mut header = serde_json::Map::new();
        let mut end = 0;
        for (half, shape) in factors.as_object().unwrap() {
            let start = end;
            end += 4 * shape
                .as_array()
                .unwrap()
                .iter()
                .map(|it| it.as_u64().unwrap())
                .product::<u64>();
            let entry = json!({ "dtype": "F32", "shape": shape, "data_offsets": [start, end] });
            header.insert(format!("{target}.lora_{half}.weight"), entry);
        }
        let header = serde_json::Value::from(header).to_string();
        let length = (header.len() as u64).to_le_bytes();
        let data = vec![0; usize::try_from(end).unwrap()];
        fs::create_dir(copied.path("adapter")).unwrap();
        let weights = [&length[..], header.as_bytes(), &data].concat();
        fs::write(copied.path("adapter/adapter_model.safetensors"), weights).unwrap();
        let config = json!({ "peft_type": "LORA", "r": 2, "lora_alpha": 4 });
        fs::write(copied.path("adapter/adapter_config.json"), config.to_string()).unwrap();
        let args = ["convert", "model/adapter", "--base", "model", "-o", "out.gguf"];
        let Outcome { code, stdout, stderr } = ggmill(copied.directory.path(), &args);
        assert_eq!((code, &*stdout), (2, ""), "{factors}: {stderr}");
        assert!(stderr.contains(words) && stderr.contains("q_proj"), "{factors}: {stderr}");
        assert_eq!(copied.directory.files(), ["model"]);
    }
}
