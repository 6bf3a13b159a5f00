//! Sharded, broken and hostile checkpoints.

use std::fs;
use std::ops::ControlFlow;

use ggmill_arch::Architecture;
use ggmill_convert::{ConvertOptions, convert};
use ggmill_core::{FileType, Header};
use ggmill_pipeline::formats::CheckpointDirectory;
use ggmill_pipeline::{ErrorKind, Pretrained as _, RunOptions, run};
use ggmill_testdata::real;
use serde_json::{Value, json};

use crate::classes::{materialize, recipes, weights};
use crate::support::{converted, directory, plan, safetensors, stories_tensors};

fn failure(weights: &[u8], file_type: FileType) -> (ErrorKind, String) {
    let directory = directory(weights);
    let error = converted(directory.path(), file_type).unwrap_err();
    let message = error.to_string().replace(directory.path().to_str().unwrap(), "DIR");
    assert!(!message.chars().any(char::is_control), "{message:?}");
    (error.kind(), message)
}

/// Three shards with an index give the same result as the single file, except for the order of
/// tensors, which follows the shards.
#[test]
fn shards_with_an_index_are_one_checkpoint() {
    let tensors = stories_tensors();
    let directory = directory(&[]);
    fs::remove_file(directory.path().join("model.safetensors")).unwrap();
    let mut map = serde_json::Map::new();
    for (number, part) in tensors.chunks(tensors.len().div_ceil(3)).enumerate() {
        let name = format!("model-{:05}-of-00003.safetensors", number + 1);
        fs::write(directory.path().join(&name), safetensors(part)).unwrap();
        map.extend(part.iter().map(|tensor| (tensor.0.clone(), json!(name))));
    }
    let index = directory.path().join("model.safetensors.index.json");
    fs::write(&index, json!({ "weight_map": map }).to_string()).unwrap();

    let whole = converted(&real("tinystories260K"), FileType::F16).unwrap();
    let parts_bytes = converted(directory.path(), FileType::F16).unwrap();
    let whole = Header::parse(&whole).unwrap();
    let parts = Header::parse(&parts_bytes).unwrap();
    assert_eq!(whole.tensors().len(), parts.tensors().len());
    for tensor in whole.tensors() {
        let other = parts.tensor(tensor.name().to_str().unwrap()).unwrap();
        assert!(other.data().unwrap() == tensor.data().unwrap(), "{}", tensor.name());
    }

    // The error names a missing shard.
    let shard = directory.path().join("model-00002-of-00003.safetensors");
    let bytes = fs::read(&shard).unwrap();
    fs::remove_file(&shard).unwrap();
    assert!(
        converted(directory.path(), FileType::F16)
            .unwrap_err()
            .to_string()
            .contains("model-00002-of-00003.safetensors")
    );
    fs::write(&shard, bytes).unwrap();

    // An index that lists a tensor in another shard, or lacks one, is out of date: the shards are used.
    let mut stale = map.clone();
    stale.insert("model.norm.weight".into(), json!("model-00001-of-00003.safetensors"));
    stale.remove("model.embed_tokens.weight");
    fs::write(&index, json!({ "weight_map": stale }).to_string()).unwrap();
    assert_eq!(converted(directory.path(), FileType::F16).unwrap(), parts_bytes);
    let opened = CheckpointDirectory::open(directory.path()).unwrap();
    let [note] = opened.notes() else { panic!("{:?}", opened.notes()) };
    assert!(note.contains("2 of 47 tensors") && note.contains("the shards were used"), "{note}");

    // A tensor that the shards lack is an error.
    let mut lying = map.clone();
    lying.insert("lm_head.weight".into(), json!("model-00001-of-00003.safetensors"));
    fs::write(&index, json!({ "weight_map": lying }).to_string()).unwrap();
    let error = converted(directory.path(), FileType::F16).unwrap_err();
    assert!(
        error.to_string().starts_with("tensor \"lm_head.weight\": according to the index"),
        "{error}"
    );

    // transformers loads a single file that the index does not list, and ignores the shards.
    let single = directory.path().join("model.safetensors");
    fs::copy(real("tinystories260K").join("model.safetensors"), &single).unwrap();
    let mut results = Vec::new();
    for has_index in [true, false] {
        let opened = CheckpointDirectory::open(directory.path()).unwrap();
        let [note] = opened.notes() else { panic!("{:?}", opened.notes()) };
        assert!(note.starts_with("model.safetensors was used"), "{note}");
        results.push(converted(directory.path(), FileType::F16).unwrap());
        if has_index {
            fs::remove_file(&index).unwrap();
        }
    }
    let hidden = directory.path().join("hidden");
    fs::create_dir(&hidden).unwrap();
    for number in 1..=3 {
        let name = format!("model-{number:05}-of-00003.safetensors");
        fs::rename(directory.path().join(&name), hidden.join(&name)).unwrap();
    }
    let alone = converted(directory.path(), FileType::F16).unwrap();
    assert!(results.iter().all(|result| *result == alone));
    fs::remove_file(&single).unwrap();

    // Paths out of the directory are an error.
    for path in ["../model.safetensors", "/etc/passwd", "..", "a/b", "C:x"] {
        fs::write(&index, json!({ "weight_map": { "x": path } }).to_string()).unwrap();
        let error = converted(directory.path(), FileType::F16).unwrap_err();
        assert!(error.to_string().contains("is not a file name without a path"), "{error}");
    }
}

#[test]
fn names_of_wrapped_modules_are_unwrapped() {
    let directory = directory(&safetensors(&stories_tensors()));
    let whole = converted(directory.path(), FileType::F16).unwrap();
    for prefix in ["_orig_mod.", "module.", "module._orig_mod.", "model."] {
        let mut tensors = stories_tensors();
        for tensor in &mut tensors {
            tensor.0 = format!("{prefix}{}", tensor.0);
        }
        fs::write(directory.path().join("model.safetensors"), safetensors(&tensors)).unwrap();
        assert!(converted(directory.path(), FileType::F16).unwrap() == whole, "{prefix}");
        let opened = CheckpointDirectory::open(directory.path()).unwrap();
        let [note] = opened.notes() else { panic!("{:?}", opened.notes()) };
        assert!(note.starts_with("removed from the names of tensors: "), "{note}");
    }
}

#[test]
fn a_template_file_takes_precedence_as_in_transformers() {
    let directory = directory(&safetensors(&stories_tensors()));
    let tokenizer = real("tinystories260K").join("tokenizer.model");
    fs::copy(tokenizer, directory.path().join("tokenizer.model")).unwrap();
    let write = |name: &str, text: &str| fs::write(directory.path().join(name), text).unwrap();
    let template = || {
        let bytes = converted(directory.path(), FileType::F16).unwrap();
        let header = Header::parse(&bytes).unwrap();
        header.metadata().str("tokenizer.chat_template").ok().map(ToString::to_string)
    };
    for (config, file, expected) in [
        (json!({ "chat_template": null }), Some("of the file"), Some("of the file")),
        (
            json!({ "chat_template": "of the configuration" }),
            Some("of the file"),
            Some("of the file"),
        ),
        (json!({ "chat_template": "of the configuration" }), None, Some("of the configuration")),
        (
            json!({ "chat_template": "of the configuration" }),
            Some(""),
            Some("of the configuration"),
        ),
        (json!({ "chat_template": "" }), Some("of the file"), Some("of the file")),
        (json!({ "chat_template": null }), Some(""), None),
        (json!({ "chat_template": "" }), None, None),
        (json!({}), None, None),
    ] {
        write("tokenizer_config.json", &config.to_string());
        let _ = fs::remove_file(directory.path().join("chat_template.jinja"));
        if let Some(file) = file {
            write("chat_template.jinja", file);
        }
        assert_eq!(template().as_deref(), expected, "{config} {file:?}");
    }
}

#[test]
fn unknown_and_missing_tensors_are_named() {
    let mut tensors = stories_tensors();
    tensors.push(("model.layers.0.mystery.weight".into(), "F32", vec![1], vec![0; 4]));
    let (kind, message) = failure(&safetensors(&tensors), FileType::F32);
    assert_eq!(kind, ErrorKind::Architecture);
    assert!(message.starts_with("tensor \"model.layers.0.mystery.weight\": "), "{message}");

    tensors.pop();
    tensors.retain(|tensor| tensor.0 != "model.layers.3.mlp.up_proj.weight");
    let (kind, message) = failure(&safetensors(&tensors), FileType::F32);
    assert_eq!(kind, ErrorKind::Checkpoint);
    assert!(
        message.contains("blk.3.ffn_up.weight")
            && message.contains("model.layers.3.mlp.up_proj.weight")
            && message.contains("found 46 tensors: 44 of \"model.layers\""),
        "{message}"
    );
}

/// The remedy for a checkpoint without a head, which is not tied according to its configuration.
#[test]
fn a_missing_head_names_the_setting() {
    let directory = directory(&safetensors(&stories_tensors()));
    let path = directory.path().join("config.json");
    let mut config: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    config["tie_word_embeddings"] = false.into();
    fs::write(&path, config.to_string()).unwrap();
    let message = converted(directory.path(), FileType::F16).unwrap_err().to_string();
    assert!(message.contains("set tie_word_embeddings to true in config.json"), "{message}");
}

#[test]
fn shapes_must_match_the_configuration() {
    let mut tensors = stories_tensors();
    let tensor = tensors
        .iter_mut()
        .find(|tensor| tensor.0 == "model.layers.1.self_attn.k_proj.weight")
        .unwrap();
    tensor.2 = vec![64, 32];
    let (kind, message) = failure(&safetensors(&tensors), FileType::F32);
    assert_eq!(kind, ErrorKind::Checkpoint);
    assert!(message.contains("blk.1.attn_k.weight"), "{message}");
}

#[test]
fn overflow_is_found_before_the_file_is_kept() {
    let mut tensors = stories_tensors();
    let tensor = tensors
        .iter_mut()
        .find(|tensor| tensor.0 == "model.layers.2.mlp.gate_proj.weight")
        .unwrap();
    tensor.3[(5 * 64 + 7) * 4..][..4].copy_from_slice(&f32::NAN.to_le_bytes());
    let weights = safetensors(&tensors);
    let (kind, message) = failure(&weights, FileType::Q8_0);
    assert_eq!(kind, ErrorKind::NonFinite);
    assert_eq!(
        message,
        "tensor \"blk.2.ffn_gate.weight\": row 5, column 7 is NaN, expected a finite number"
    );
    assert_eq!(failure(&weights, FileType::F16), (kind, message));
    // Copied elements can have any value.
    assert!(converted(directory(&weights).path(), FileType::F32).is_ok());

    let tensor = tensors
        .iter_mut()
        .find(|tensor| tensor.0 == "model.layers.2.mlp.gate_proj.weight")
        .unwrap();
    tensor.3[(5 * 64 + 7) * 4..][..4].copy_from_slice(&1e6f32.to_le_bytes());
    let weights = safetensors(&tensors);
    let (kind, message) = failure(&weights, FileType::F16);
    assert_eq!(kind, ErrorKind::Range);
    assert_eq!(
        message,
        "tensor \"blk.2.ffn_gate.weight\": row 5, column 7 is 1e6, which is too large for F16"
    );
    assert!(converted(directory(&weights).path(), FileType::BF16).is_ok());
}

/// Arithmetic of the description that overflows to infinity, in a file that copies most elements.
#[test]
fn arithmetic_overflow_is_refused() {
    const NAME: &str = "[model.]layers.{bid}.mlp.up_proj.weight\"";
    let llama = include_str!("../../../ggmill-arch/data/architectures/llama.toml");
    let from = format!("from = [\"{NAME}");
    assert!(llama.contains(&from));
    let doubled = llama.replace(&from, &format!("operations = [\"mul(2)\"], {from}"));
    let architecture = Architecture::parse(&doubled).unwrap();
    let failure = |number: f32, file_type: FileType| {
        let mut tensors = stories_tensors();
        let tensor = tensors
            .iter_mut()
            .find(|tensor| tensor.0 == "model.layers.2.mlp.up_proj.weight")
            .unwrap();
        tensor.3[(5 * 64 + 7) * 4..][..4].copy_from_slice(&number.to_le_bytes());
        let directory = directory(&safetensors(&tensors));
        let checkpoint = CheckpointDirectory::open(directory.path()).unwrap();
        let plan = convert(&checkpoint, &architecture, &ConvertOptions::new(file_type))
            .and_then(|recipe| recipe.plan(&checkpoint))
            .unwrap();
        run(&plan, &checkpoint, Vec::new(), &RunOptions::default(), &mut |_| {
            ControlFlow::Continue(())
        })
        .err()
    };
    for (number, file_type, kind, words) in [
        (3e38, FileType::F32, ErrorKind::NonFinite, "is inf, expected a finite number"),
        (3e38, FileType::BF16, ErrorKind::NonFinite, "is inf, expected a finite number"),
        (40_000.0, FileType::F16, ErrorKind::Range, "is 8e4, which is too large for F16"),
    ] {
        let error = failure(number, file_type).unwrap();
        assert_eq!(error.kind(), kind, "{error}");
        let expected = format!("tensor \"blk.2.ffn_up.weight\": row 5, column 7 {words}");
        assert_eq!(error.to_string(), expected);
        assert!(failure(number / 4.0, file_type).is_none());
    }
}

#[test]
fn broken_safetensors_are_refused() {
    let whole = fs::read(real("tinystories260K/model.safetensors")).unwrap();
    for (weights, words) in [
        (vec![], "0 bytes, expected a safetensors file"),
        (whole[..100].to_vec(), "the header should have"),
        (whole[..500_000].to_vec(), "perhaps an incomplete download"),
        ([&u64::MAX.to_le_bytes()[..], b"{}"].concat(), "the header should have 16.0 EiB, but"),
        ([&2u64.to_le_bytes()[..], b"[]"].concat(), "the header is not a valid safetensors header"),
        (b"<!DOCTYPE html><html>".to_vec(), "the header should have"),
        ([&whole[..], b"more"].concat(), "4 bytes follow the data of the last tensor"),
        (many_strings(), "the header has 4000004 strings, the limit is 2097152"),
    ] {
        let (kind, message) = failure(&weights, FileType::F32);
        assert_eq!(kind, ErrorKind::Checkpoint, "{message}");
        assert!(
            message.starts_with("DIR/model.safetensors: ") && message.contains(words),
            "{message}"
        );
    }
}

/// Most programs use the last of two entries with the same name, but the intended one is unknown.
#[test]
fn duplicate_names_are_refused() {
    let file = |header: &str, data: usize| {
        [&(header.len() as u64).to_le_bytes(), header.as_bytes(), &vec![0; data]].concat()
    };
    let tensor = |from: usize| {
        format!(r#"{{"dtype":"F32","shape":[1],"data_offsets":[{from},{}]}}"#, from + 4)
    };
    let twice = format!(r#"{{"a":{},"b":{},"\u0061":{}}}"#, tensor(0), tensor(4), tensor(8));
    let (kind, message) = failure(&file(&twice, 12), FileType::F32);
    assert_eq!(kind, ErrorKind::Checkpoint);
    assert_eq!(
        message,
        "tensor \"a\": is a duplicate: the header of DIR/model.safetensors has two entries with \
         this name"
    );
    for (metadata, words) in [
        (r#""__metadata__":{"k":"1","k":"2"}"#, "key \"k\" has two values"),
        (r#""__metadata__":{"k":"1"},"__metadata__":{}"#, "two __metadata__ entries"),
    ] {
        let (_, message) =
            failure(&file(&format!(r#"{{{metadata},"a":{}}}"#, tensor(0)), 4), FileType::F32);
        assert!(
            message.starts_with(
                "DIR/model.safetensors: the header is not a valid safetensors header: "
            ) && message.contains(words),
            "{message}"
        );
    }

    let stories = directory(&fs::read(real("tinystories260K/model.safetensors")).unwrap());
    let config = fs::read_to_string(real("tinystories260K/config.json")).unwrap();
    let with = |entry: &str| {
        fs::write(
            stories.path().join("config.json"),
            config.trim_end().trim_end_matches('}').to_owned() + "," + entry + "}",
        )
        .unwrap();
        converted(stories.path(), FileType::F32).map_err(|error| error.to_string())
    };
    let hidden: Value = serde_json::from_str(&config).unwrap();
    let hidden = &hidden["hidden_size"];
    assert!(with(&format!(r#""hidden_size": {hidden}"#)).is_ok(), "the same value again");
    let error = with(r#""hidden_size": 65"#).unwrap_err();
    assert!(
        error.contains("config.json: has unexpected content: key \"hidden_size\" has two values"),
        "{error}"
    );

    let index = stories.path().join("model.safetensors.index.json");
    fs::write(stories.path().join("config.json"), &config).unwrap();
    fs::write(&index, r#"{"weight_map": {"a": "model.safetensors", "a": "other.safetensors"}}"#)
        .unwrap();
    let error = converted(stories.path(), FileType::F32).unwrap_err().to_string();
    assert!(
        error.contains("index.json: has unexpected content: key \"a\" has two values"),
        "{error}"
    );
}

/// Returns a header that would need a gigabyte of memory when parsed.
fn many_strings() -> Vec<u8> {
    let entries: String = (0..2_000_000).map(|_| r#""":"","#).collect();
    let header = format!(r#"{{"__metadata__":{{{entries}"":""}},"x":{{}}}}"#);
    [&(header.len() as u64).to_le_bytes(), header.as_bytes()].concat()
}

/// INT8 weights need scales, which the description of the original model does not have.
#[test]
fn unsupported_quantized_weights_are_refused() {
    let mut tensors = stories_tensors();
    let tensor = tensors
        .iter_mut()
        .find(|tensor| tensor.0 == "model.layers.1.self_attn.q_proj.weight")
        .unwrap();
    (tensor.1, tensor.3) = ("I8", vec![1; 64 * 64]);
    let (kind, message) = failure(&safetensors(&tensors), FileType::F32);
    assert_eq!(kind, ErrorKind::Unsupported);
    assert!(
        message.contains("has elements of type I8, expected floating-point weights"),
        "{message}"
    );

    // The same holds for types that GGML does not have.
    for stored_type in ["BOOL", "U8", "F8_E4M3FNUZ"] {
        let place = tensors
            .iter()
            .position(|tensor| tensor.0 == "model.layers.1.self_attn.q_proj.weight")
            .unwrap();
        tensors[place].1 = stored_type;
        let (kind, message) = failure(&safetensors(&tensors), FileType::F32);
        assert_eq!(kind, ErrorKind::Unsupported);
        let expected = format!(
            "\"model.layers.1.self_attn.q_proj.weight\" has elements of type {stored_type}"
        );
        assert!(message.contains(&expected), "{message}");
        let mut tensors = stories_tensors();
        let mask = "model.layers.0.self_attn.rotary_emb.inv_freq";
        tensors.push((mask.into(), stored_type, vec![2], vec![1; 2]));
        let directory = directory(&safetensors(&tensors));
        assert!(converted(directory.path(), FileType::F32).is_ok(), "{stored_type}");
    }

    let directory = directory(&safetensors(&stories_tensors()));
    let path = directory.path().join("config.json");
    let mut config: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    config["quantization_config"] = json!({ "quant_method": "hqq" });
    fs::write(&path, config.to_string()).unwrap();
    let error = converted(directory.path(), FileType::F32).unwrap_err();
    assert!(
        error.to_string().contains("quantization_config (hqq): the weights are already quantized"),
        "{error}"
    );
}

/// Errors about scales of FP8 weights name the tensor.
#[test]
fn scales_that_do_not_fit_are_refused() {
    let name = "model.layers.1.self_attn.q_proj.weight";
    let cases = [
        (format!("{name}_scale_inv"), vec![3, 2], json!([32, 32]), "scales of shape"),
        (format!("{name}_scale_inv"), vec![2, 2], json!(null), "scales of shape"),
        (format!("{name}_scale_inv"), vec![1, 1, 1], json!(null), "scales of shape"),
        (format!("{name}_scale_inv"), vec![2, 2], json!([0, 32]), "expected two positive numbers"),
        (format!("{name}_scale_inv"), vec![2, 2], json!(32), "expected two positive numbers"),
        (
            "lost.weight_scale_inv".to_owned(),
            vec![1],
            json!(null),
            "the tensor \"lost.weight\", which belongs to it, is missing",
        ),
    ];
    for (scale, shape, block, expected) in cases {
        let mut tensors = stories_tensors();
        let weight = tensors.iter_mut().find(|tensor| tensor.0 == name).unwrap();
        (weight.1, weight.3) = ("F8_E4M3", vec![0x38; 64 * 64]);
        let bytes = vec![0; 4 * shape.iter().product::<u64>() as usize];
        tensors.push((scale, "F32", shape, bytes));
        let directory = directory(&safetensors(&tensors));
        let path = directory.path().join("config.json");
        let mut config: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
        config["quantization_config"] =
            json!({ "quant_method": "fp8", "weight_block_size": block });
        fs::write(&path, config.to_string()).unwrap();
        let error = converted(directory.path(), FileType::F32).unwrap_err().to_string();
        assert!(error.contains(expected), "{block}: {error}");
    }
}

/// Errors about packed tensors name the tensor, and errors about unsupported settings name the
/// setting.
#[test]
fn packed_tensors_that_do_not_fit_are_refused() {
    type Part = (&'static str, &'static str, Vec<u64>);
    let gptq = |zeros: u64, scales: u64, groups: u64| -> Vec<Part> {
        vec![
            ("qweight", "I32", vec![8, 64]),
            ("qzeros", "I32", vec![zeros, 8]),
            ("scales", "F16", vec![scales, 64]),
            ("g_idx", "I32", vec![groups]),
        ]
    };
    let of_gptq = |bits: u32, format: &str| json!({ "quant_method": "gptq", "bits": bits, "checkpoint_format": format });
    let compressed = |format: &str, weights: Value| {
        json!({
            "quant_method": "compressed-tensors", "format": format,
            "config_groups": { "group_0": { "weights": weights } },
        })
    };
    let packed = json!({ "num_bits": 4, "type": "int", "strategy": "group", "group_size": 32 });
    let nvfp4 = |columns| {
        vec![("weight", "U8", vec![64, 32]), ("weight_scale", "F8_E4M3", vec![64, columns])]
    };
    let cases: Vec<(Value, Vec<Part>, &str)> = vec![
        (of_gptq(3, "gptq"), gptq(1, 1, 64), "bits is 3, expected 2, 4, 8"),
        (of_gptq(4, "marlin"), gptq(1, 1, 64), "checkpoint_format is"),
        (of_gptq(4, "gptq"), gptq(2, 1, 64), "q_proj.qweight\": packed integers of"),
        (of_gptq(4, "gptq"), gptq(1, 1, 63), "q_proj.g_idx\": has 63 elements, expected 64"),
        (of_gptq(4, "gptq"), gptq(1, 1, 64)[..3].to_vec(), "which belongs to it, is missing"),
        (of_gptq(8, "gptq"), gptq(1, 1, 64), "has 64 elements, expected 32"),
        (
            json!({ "quant_method": "awq", "bits": 4, "version": "gemv" }),
            gptq(1, 1, 64),
            "version is",
        ),
        (
            compressed("pack-quantized", packed),
            vec![
                ("weight_packed", "I32", vec![64, 8]),
                ("weight_scale", "F32", vec![64, 3]),
                ("weight_shape", "I64", vec![2]),
            ],
            "q_proj.weight_packed\"",
        ),
        (compressed("marlin-24", json!({})), vec![], "format is"),
        (
            json!({ "quant_method": "compressed-tensors", "format": "int-quantized" }),
            vec![],
            "config_groups has 0 groups",
        ),
        (compressed("int-quantized", json!({ "strategy": "token" })), vec![], "strategy is"),
        (
            json!({ "quant_method": "modelopt", "quant_algo": "NVFP4" }),
            nvfp4(3),
            "scales of shape 3 × 64",
        ),
        (
            json!({
                "quant_method": "modelopt", "quant_algo": "NVFP4",
                "quantized_layers": { "lost": {} },
            }),
            nvfp4(4),
            "quantized_layers has \"lost\"",
        ),
        (json!({ "quant_method": "bitnet" }), vec![("weight_scale", "F32", vec![1])], "is missing"),
        (
            json!({ "quant_method": "bitsandbytes" }),
            vec![("weight", "I8", vec![64, 64]), ("SCB", "F32", vec![63])],
            "scales of shape",
        ),
        (json!({ "quant_method": "aqlm" }), vec![], "bitnet, bitsandbytes, compressed-tensors"),
    ];
    for (settings, parts, expected) in cases {
        let mut tensors = stories_tensors();
        let base = "model.layers.1.self_attn.q_proj";
        tensors.retain(|tensor| tensor.0 != format!("{base}.weight"));
        for (ending, dtype, shape) in parts {
            let width = match dtype {
                "I64" => 8,
                "I32" | "F32" => 4,
                "F16" => 2,
                _ => 1,
            };
            let bytes = vec![0; width * shape.iter().product::<u64>() as usize];
            tensors.push((format!("{base}.{ending}"), dtype, shape, bytes));
        }
        let directory = directory(&safetensors(&tensors));
        let path = directory.path().join("config.json");
        let mut config: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
        config["quantization_config"] = settings.clone();
        fs::write(&path, config.to_string()).unwrap();
        let error = converted(directory.path(), FileType::F32).unwrap_err().to_string();
        assert!(error.contains(expected), "{settings}: {error}");
    }
}

/// Editors on some systems put a byte order mark before JSON.
#[test]
fn a_byte_order_mark_is_ignored() {
    let directory = directory(&safetensors(&stories_tensors()));
    let path = directory.path().join("config.json");
    fs::write(&path, [b"\xef\xbb\xbf", &fs::read(&path).unwrap()[..]].concat()).unwrap();
    assert!(converted(directory.path(), FileType::F32).is_ok());
}

#[test]
fn hostile_tensor_names_are_escaped() {
    let mut tensors = stories_tensors();
    tensors.push(("\u{1b}[2J\u{202e}".into(), "F32", vec![1], vec![0; 4]));
    let (_, message) = failure(&safetensors(&tensors), FileType::F32);
    assert!(message.contains(r"\u{1b}[2J\u{202e}"), "{message}");
}

#[test]
fn a_tokenizer_is_not_omitted_silently() {
    let directory = directory(&safetensors(&stories_tensors()));
    fs::write(directory.path().join("tokenizer.json"), "{}").unwrap();
    assert_eq!(
        converted(directory.path(), FileType::F32).unwrap_err().kind(),
        ErrorKind::Vocabulary
    );
}

#[test]
fn a_run_can_be_cancelled() {
    let (checkpoint, plan) = plan(&real("tinystories260K"), FileType::F32).unwrap();
    let mut told = 0;
    let error = run(&plan, &checkpoint, Vec::new(), &RunOptions::default(), &mut |progress| {
        assert!(progress.written <= progress.total);
        told += 1;
        if told == 3 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })
    .unwrap_err();
    assert_eq!((error.kind(), told), (ErrorKind::Cancelled, 3));
}

/// Blocks that predict further tokens, announced by the configuration and absent from the checkpoint.
#[test]
fn absent_blocks_are_not_counted() {
    let recipes = recipes("classes");
    let recipe = &recipes["BailingMoeV2ForCausalLM-mtp"];
    let place = tempfile::tempdir().unwrap();
    materialize(recipe, place.path());
    let header = |bytes: &[u8]| {
        let header = Header::parse(bytes).unwrap();
        let number = |key: &str| header.metadata().u64(key).ok();
        (number("bailingmoe2.block_count"), number("bailingmoe2.nextn_predict_layers"))
    };
    let whole = converted(place.path(), FileType::F16).unwrap();
    let (blocks, announced) = header(&whole);
    assert_eq!(announced, Some(1));

    let mut tensors = recipe["tensors"].as_object().unwrap().clone();
    let last = format!("model.layers.{}.", blocks.unwrap() - 1);
    tensors.retain(|name, _| !name.starts_with(&last));
    fs::write(place.path().join("model.safetensors"), weights(&tensors)).unwrap();
    let trunk = converted(place.path(), FileType::F16).unwrap();
    assert_eq!(header(&trunk), (blocks.map(|count| count - 1), Some(0)));
    let (_, planned) = plan(place.path(), FileType::F16).unwrap();
    let note = |note: &String| note.starts_with("num_nextn_predict_layers is 1");
    assert!(planned.notes().iter().any(note), "{:?}", planned.notes());
}

/// An ID of -1 means that the model has no such token.
#[test]
fn a_token_id_of_minus_one_is_omitted() {
    let directory = directory(&safetensors(&stories_tensors()));
    let path = directory.path().join("config.json");
    let mut config: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    config["pad_token_id"] = (-1).into();
    fs::write(&path, config.to_string()).unwrap();
    let tokenizer = real("tinystories260K").join("tokenizer.model");
    fs::copy(tokenizer, directory.path().join("tokenizer.model")).unwrap();
    let bytes = converted(directory.path(), FileType::F16).unwrap();
    let header = Header::parse(&bytes).unwrap();
    assert!(header.metadata().get("tokenizer.ggml.padding_token_id").is_none());
    assert!(header.metadata().get("tokenizer.ggml.bos_token_id").is_some());
}
