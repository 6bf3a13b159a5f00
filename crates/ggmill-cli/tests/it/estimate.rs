//! `ggmill estimate`.

use std::path::Path;

use ggmill_testdata::bytes::{FileBytes, Value};
use serde_json::Value as Json;

use crate::support::{Directory, Outcome, command, ggmill, outcome, real, shard};

/// Returns a llama of two blocks with 4 query heads and 2 KV heads of 32 elements: the header, and
/// a sparse rest.
fn model() -> Vec<u8> {
    trained_with(1024)
}

/// Returns a model that was trained with `context` tokens.
fn trained_with(context: u32) -> Vec<u8> {
    let mut file = FileBytes::v3(3, 7);
    file.pair("general.architecture", &"llama".into());
    for (key, number) in [
        ("block_count", 2),
        ("context_length", context),
        ("embedding_length", 128),
        ("attention.head_count", 4),
        ("attention.head_count_kv", 2),
        ("vocab_size", 100),
    ] {
        file.pair(format!("llama.{key}"), &Value::U32(number));
    }
    file.tensor("token_embd.weight", &[128, 100], 1, 0)
        .tensor("blk.0.attn_norm.weight", &[128], 0, 25_600)
        .tensor("blk.1.attn_norm.weight", &[128], 0, 26_112)
        .pad(32);
    file.raw(&vec![0; 26_624]);
    file.into_bytes()
}

fn directory() -> Directory {
    Directory::new().with("model.gguf", model())
}

fn json(found: &Outcome) -> Json {
    assert_eq!(found.code, 0, "{}", found.stderr);
    serde_json::from_str(&found.stdout).unwrap()
}

#[test]
fn an_estimate_has_purposes_and_omissions() {
    let directory = directory();
    let found = ggmill(directory.path(), &["estimate", "model.gguf"]);
    assert_eq!((found.code, &*found.stderr), (0, ""));
    insta::assert_snapshot!("estimate", found.stdout);
    let devices = ["estimate", "model.gguf", "--gpu-layers=2", "--tensor-split=1,1", "--ctx=5000"];
    insta::assert_snapshot!("estimate_devices", ggmill(directory.path(), &devices).stdout);
    let table = ["estimate", "model.gguf", "--ctx=1024,4096", "--cache-type=f16,q8_0"];
    insta::assert_snapshot!("estimate_table", ggmill(directory.path(), &table).stdout);
}

#[test]
fn json_has_bytes_by_device() {
    let directory = directory();
    let found = json(&ggmill(
        directory.path(),
        &["estimate", "model.gguf", "--json", "-c", "4096", "--cache-type-k", "q8_0"],
    ));
    assert_eq!(
        (&found["schema"], &found["architecture"]),
        (&"ggmill.estimate/1".into(), &"llama".into())
    );
    let estimate = &found["estimates"][0];
    let device = &estimate["devices"][0];
    assert_eq!(device["name"], "CPU");
    assert_eq!(device["weights"], 26_624);
    // 2 blocks, 2 heads of 32 elements.
    assert_eq!(device["keys"], 2 * 4096 * 2 * 34);
    assert_eq!(device["values"], 2 * 4096 * 64 * 2);
    assert_eq!(device["context"], 2 * 4096 * (2 * 34 + 64 * 2));
    assert_eq!(device["output"], 400);
    assert_eq!((&estimate["key_type"], &estimate["value_type"]), (&"Q8_0".into(), &"F16".into()));
    assert_eq!(estimate["unknown"][0]["part"], "compute");
}

#[test]
fn tensors_are_where_overrides_place_them() {
    let directory = directory();
    let weights = |options: &[&str]| {
        let all = [&["estimate", "model.gguf", "--json"], options].concat();
        let found = json(&ggmill(directory.path(), &all));
        let devices = found["estimates"][0]["devices"].as_array().unwrap().clone();
        devices.iter().map(|device| device["weights"].as_u64().unwrap()).collect::<Vec<_>>()
    };
    // The output is a copy of the embedding.
    assert_eq!(weights(&["--gpu-layers", "99"]), [25_600, 26_624]);
    let overridden = ["--gpu-layers", "99", "--override-tensor", "blk\\.[1-9].*=CPU"];
    assert_eq!(weights(&overridden), [26_112, 26_112]);
    assert_eq!(weights(&["--override-tensor", "attn_norm=GPU1"]), [25_600, 0, 1024]);
}

#[test]
fn additional_files_are_included() {
    let directory = directory();
    let mut adapter = FileBytes::v3(1, 1);
    adapter.pair("general.type", &"adapter".into());
    adapter.tensor("blk.1.attn_q.weight.lora_a", &[128, 4], 0, 0).pad(32).raw(&[0; 2048]);
    std::fs::write(directory.path().join("lora.gguf"), adapter.into_bytes()).unwrap();
    let total = |options: &[&str]| {
        let all = [&["estimate", "model.gguf", "--json", "-c", "512"], options].concat();
        json(&ggmill(directory.path(), &all))["estimates"][0]["total"].as_u64().unwrap()
    };
    let alone = total(&[]);
    assert_eq!(total(&["--lora", "lora.gguf"]), alone + 2048);
    assert_eq!(total(&["--draft", "model.gguf"]), 2 * alone);
    for (option, file, message) in [
        ("--mmproj", "lora.gguf", "lora.gguf: is an adapter, expected a multimodal projector"),
        ("--mmproj", "model.gguf", "model.gguf: is a model, expected a multimodal projector"),
        ("--lora", "model.gguf", "model.gguf: is a model, expected an adapter"),
        ("--draft", "lora.gguf", "lora.gguf: is an adapter, expected a model"),
    ] {
        let found = ggmill(directory.path(), &["estimate", "model.gguf", option, file]);
        assert_eq!((found.code, &*found.stdout), (2, ""), "{option} {file}");
        assert!(found.stderr.contains(message), "{}", found.stderr);
    }
}

/// The caches take 512 bytes per token.
#[test]
fn the_longest_context_that_fits_is_found() {
    let directory = directory();
    let fit = |options: &[&str]| {
        let all = [&["estimate", "model.gguf", "--json", "--reserve", "1"], options].concat();
        json(&ggmill(directory.path(), &all))["estimates"][0].clone()
    };
    let found = fit(&["--fit", "1GiB"]);
    assert_eq!((&found["context"], &found["layers"]), (&1024.into(), &3.into()));
    // One block, 256 KiB of its caches, and a copy of the embedding as output.
    let found = fit(&["--fit", "300KiB"]);
    assert_eq!((&found["context"], &found["layers"]), (&1024.into(), &2.into()));
    let found = fit(&["--fit", "1GiB,1GiB", "--ctx", "4096"]);
    assert_eq!(found["devices"].as_array().unwrap().len(), 3);
    assert_eq!((&found["context"], &found["layers"]), (&4096.into(), &3.into()));
    let found = ggmill(directory.path(), &["estimate", "model.gguf", "--fit", "8GiB"]);
    assert!(found.stdout.contains("layers on devices: 3 of 3"), "{}", found.stdout);
}

#[test]
fn an_unknown_architecture_has_only_weights() {
    let file = real("mobilenet.gguf");
    let file = if file.exists() { file } else { Path::new("strange.gguf").to_owned() };
    let mut strange = FileBytes::v3(1, 1);
    strange.pair("general.architecture", &"no-one-knows\u{1b}[2J".into());
    strange.tensor("w", &[64], 0, 0).pad(32).raw(&[0; 256]);
    let directory = Directory::new().with("strange.gguf", strange.into_bytes());
    let found = ggmill(directory.path(), &["estimate".as_ref(), file.as_os_str()]);
    assert_eq!(found.code, 0, "{}", found.stderr);
    assert!(found.stdout.contains("not included: caches"), "{}", found.stdout);
    assert!(!found.stdout.contains('\u{1b}'));
    let note = "note: --arch-file adds a description of your own; `ggmill explain ";
    assert!(found.stderr.contains(note), "{}", found.stderr);
}

/// A stored graph describes the computation, but not the caches.
#[test]
fn a_custom_description_is_used_for_an_unknown_architecture() {
    let directory = Directory::new();
    let run = |args: &[&str]| ggmill(directory.path(), args);
    let text = run(&["explain", "llama", "--description"]).stdout;
    let text = text.replace("name = \"llama\"", "name = \"mine\"");
    std::fs::write(directory.path().join("mine.toml"), text).unwrap();
    let own = ["--arch-file", "mine.toml"];
    for (file, more) in [("known.gguf", &[][..]), ("mine.gguf", &own)] {
        let mut convert = command(directory.path());
        convert.arg("convert").arg(real("tinystories260K")).args(["--with-graph", "-o", file]);
        assert_eq!(outcome(convert.args(more)).code, 0);
    }
    let found = run(&["estimate", "mine.gguf"]);
    let note = "note: the computation graph in the file does not describe the caches; --arch-file";
    assert!(found.code == 0 && found.stderr.contains(note), "{}", found.stderr);
    let found = run(&[&["estimate", "mine.gguf"], &own[..]].concat());
    assert_eq!((found.code, &*found.stderr), (0, ""));
    assert_eq!(found.stdout, run(&["estimate", "known.gguf"]).stdout);
}

/// With --fit, the table has the total of each device, for one context or several.
#[test]
fn a_fitted_table_has_layers_and_devices() {
    let directory = directory();
    let fit = ["estimate", "model.gguf", "--fit", "300KiB,300KiB", "--reserve", "1"];
    let found = ggmill(directory.path(), &[&fit[..], &["--ctx=512,1024,4096"]].concat());
    insta::assert_snapshot!("estimate_fit", found.stdout);
    let one = ggmill(directory.path(), &[&fit[..], &["--ctx=4096"]].concat()).stdout;
    let total = one.lines().find(|line| line.starts_with("total")).unwrap();
    let of_gpu = total.split("  ").filter(|cell| !cell.is_empty()).nth(2).unwrap().trim();
    let row = found.stdout.lines().find(|line| line.starts_with("4096")).unwrap();
    assert!(row.contains(of_gpu), "{of_gpu}: {row}");
}

#[test]
fn nothing_is_fitted_without_weights() {
    let directory = Directory::new();
    let mut convert = command(directory.path());
    convert.arg("convert").arg(real("tinystories260K")).args(["-o", "v.gguf", "--vocab-only"]);
    assert_eq!(outcome(&mut convert).code, 0);
    let found = ggmill(directory.path(), &["estimate", "v.gguf", "--fit", "8G"]);
    assert_eq!((found.code, &*found.stdout), (2, ""));
    let message = "v.gguf: the file has no tensors, only a vocabulary: there is nothing to fit";
    assert!(found.stderr.contains(message), "{}", found.stderr);
}

#[test]
fn changed_contexts_are_noted() {
    let directory = directory();
    let notes = |args: &[&str]| {
        let found = ggmill(directory.path(), &[&["estimate", "model.gguf"], args].concat());
        assert_eq!(found.code, 0, "{}", found.stderr);
        found.stderr
    };
    let beyond = |context: u32| {
        format!(
            "note: a context of {context} tokens exceeds the 1024 tokens that the model was \
             trained with\n"
        )
    };
    let rounded = |context: u32, to: u32| {
        format!("note: a context of {context} tokens is rounded up to {to}, as llama.cpp does\n")
    };
    assert_eq!(notes(&[]), "");
    assert_eq!(notes(&["--ctx", "1024"]), "");
    assert_eq!(notes(&["--ctx", "1000"]), rounded(1000, 1024));
    assert_eq!(notes(&["--ctx", "5000"]), beyond(5000) + &rounded(5000, 5120));
    // The context is divided among the sequences, unless they share the cache.
    assert_eq!(notes(&["--ctx", "4096", "--parallel", "4"]), "");
    assert_eq!(notes(&["--ctx", "4096", "--parallel", "4", "--kv-unified"]), beyond(4096));
    // Noted once for all cache types, also in a table and with --json.
    let table = ["--ctx", "1000,4096", "--cache-type", "f16,q8_0"];
    assert_eq!(notes(&table), beyond(4096) + &rounded(1000, 1024));
    assert_eq!(notes(&[&table[..], &["--json"]].concat()), beyond(4096) + &rounded(1000, 1024));
    assert_eq!(notes(&["--ctx", "4096", "--fit", "2G"]), beyond(4096));
    // A context that --fit finds was not requested, so it is not noted.
    std::fs::write(directory.path().join("model.gguf"), trained_with(1000)).unwrap();
    let next = "note: 3 layers would need 538 KiB on GPU0, which has 300 KiB available\n";
    assert_eq!(notes(&["--fit", "300KiB", "--reserve", "1"]), next);
    let asked = notes(&["--fit", "300KiB", "--reserve", "1", "--ctx", "1000"]);
    assert_eq!(asked, rounded(1000, 1024) + next);
    assert_eq!(
        notes(&["--ctx", "1"]),
        "note: a context of 1 token is rounded up to 256, as llama.cpp does\n"
    );
    let all = "note: all layers fit with a context of 1000 tokens, with which the model was trained; \
               longer ones were not tried\n";
    assert_eq!(notes(&["--fit", "2G"]), all);
    // The longest context with all layers is in the table.
    std::fs::write(directory.path().join("model.gguf"), trained_with(8192)).unwrap();
    assert_eq!(notes(&["--fit", "3MiB", "--reserve", "1"]), "");
}

#[test]
fn missing_devices_and_unmatched_patterns_are_noted() {
    let directory = directory();
    let run =
        |args: &[&str]| ggmill(directory.path(), &[&["estimate", "model.gguf"], args].concat());
    let found = run(&["--override-tensor", "nothing=CPU,attn_norm=GPU0"]);
    assert_eq!((found.code, &*found.stderr), (0, "note: pattern \"nothing\" matches no tensor\n"));
    let found = json(&run(&["--override-tensor", "nothing=CPU", "--json", "--ctx", "1000"]));
    let notes = serde_json::json!([
        "a context of 1000 tokens is rounded up to 1024, as llama.cpp does",
        "pattern \"nothing\" matches no tensor"
    ]);
    assert_eq!(found["estimates"][0]["notes"], notes);
    let found = run(&["--override-tensor", "attn_norm=GPU3"]);
    let several = "note: GPU3 is named, so the estimate is for 4 GPUs that share layers equally\n";
    assert_eq!((found.code, &*found.stderr), (0, several));
    for (override_, devices, message) in [
        (
            "attn_norm=GPU3",
            &["--tensor-split", "1,1"][..],
            "\"attn_norm\" on GPU3: expected CPU, GPU0 or GPU1",
        ),
        ("nothing=GPU1", &["--tensor-split", "1"], "\"nothing\" on GPU1: expected CPU or GPU0"),
        (
            "attn_norm=GPU3",
            &["--fit", "8G,8G,8G"],
            "\"attn_norm\" on GPU3: expected CPU or one of GPU0 to GPU2",
        ),
    ] {
        let found = run(&[&["--override-tensor", override_], devices].concat());
        assert_eq!((found.code, &*found.stdout), (2, ""), "{override_}");
        assert!(found.stderr.contains(message), "{}", found.stderr);
    }
    let idle = "note: the model is on the host alone: no layers are on GPUs, so that their shares have no effect\n";
    assert_eq!(run(&["--tensor-split", "3,1"]).stderr, idle);
    assert_eq!(run(&["--tensor-split", "3,1", "--gpu-layers", "1"]).stderr, "");
    // The number of devices is the number of sizes, whichever device a pattern names.
    let found = run(&["--override-tensor", "attn_norm=GPU0", "--fit", "8G,8G", "--json"]);
    assert_eq!(json(&found)["estimates"][0]["devices"].as_array().unwrap().len(), 3);
}

/// A set of shards is one model, and the beginning of a file is sufficient.
#[test]
fn shards_streams_and_beginnings_are_read() {
    let directory = Directory::new()
        .with("m-00001-of-00002.gguf", shard(0, 2))
        .with("m-00002-of-00002.gguf", shard(1, 2))
        .with("cut.gguf", &model()[..2000]);
    let weights = |found: &Outcome| json(found)["estimates"][0]["devices"][0]["weights"].clone();
    let of_set = ggmill(directory.path(), &["estimate", "m-00002-of-00002.gguf", "--json"]);
    assert_eq!(weights(&of_set), 64);
    assert_eq!(weights(&ggmill(directory.path(), &["estimate", "cut.gguf", "--json"])), 26_624);
    let input = std::fs::File::open(directory.path().join("cut.gguf")).unwrap();
    let mut program = command(directory.path());
    let piped = outcome(program.args(["estimate", "-", "--json"]).stdin(input));
    assert!(piped.code == 0 || piped.stderr.contains("standard input"), "{}", piped.stderr);
}

#[test]
fn bad_input_is_refused_with_a_reason() {
    let mut strange = FileBytes::v3(1, 1);
    strange.pair("general.architecture", &"no-one-knows".into());
    strange.tensor("w", &[64], 0, 0).pad(32).raw(&[0; 256]);
    let directory =
        directory().with("text.gguf", "not a model").with("strange.gguf", strange.into_bytes());
    let refused = |arguments: &[&str], expected: &str| {
        let all = [&["estimate"], arguments].concat();
        let found = ggmill(directory.path(), &all);
        assert_eq!(found.code, 2, "{arguments:?}: {}", found.stdout);
        assert!(found.stderr.contains(expected), "{arguments:?}: {}", found.stderr);
        assert_eq!(found.stdout, "", "{arguments:?}");
    };
    refused(&["missing.gguf"], "missing.gguf");
    refused(&["text.gguf"], "text.gguf");
    refused(&["model.gguf", "--ctx", "0"], "expected a number from 1");
    refused(&["model.gguf", "--ctx", "99999999999"], "tokens of context");
    refused(&["model.gguf", "--parallel", "0"], "sequences");
    refused(&["model.gguf", "--cache-type", "q4_k"], "expected one of F32");
    refused(&["model.gguf", "--cache-type-v", "q8_0", "--flash-attn", "off"], "flash attention");
    refused(&["model.gguf", "--tensor-split", "0,0"], "shares");
    refused(&["model.gguf", "--override-tensor", "attn"], "expected PATTERN=DEVICE");
    refused(&["model.gguf", "--override-tensor", "(=CPU"], "--override-tensor");
    for device in ["disk", "disk0", "CPU0", "GPU", "GPU16"] {
        let placed = format!("attn={device}");
        refused(&["model.gguf", "--override-tensor", &placed], "expected CPU, or GPU and a number");
    }
    refused(&["model.gguf", "--lora", "text.gguf"], "text.gguf");
    refused(&["model.gguf", "--fit", "much"], "expected a number followed by K, M, G or T");
    refused(&["strange.gguf", "--fit", "2G"], "so --fit cannot be used");
    refused(&["strange.gguf", "--fit", "2G"], "hint: --arch-file adds a description of your own");
}

/// The header must be complete; the tensor data may be missing.
#[test]
fn a_truncated_header_is_refused() {
    let whole = model();
    let directory = Directory::new()
        .with("model.gguf", whole.clone())
        .with("data.gguf", &whole[..whole.len() - 1000])
        .with("cut.gguf", &whole[..300]);
    let of = |name: &str| ggmill(directory.path(), &["estimate", name, "--json"]);
    assert_eq!(json(&of("data.gguf"))["estimates"], json(&of("model.gguf"))["estimates"]);
    let found = of("cut.gguf");
    assert_eq!((found.code, &*found.stdout), (2, ""), "{}", found.stderr);
    for wrong in ["--mmproj=cut.gguf", "--lora=cut.gguf", "--draft=cut.gguf"] {
        assert_eq!(ggmill(directory.path(), &["estimate", "model.gguf", wrong]).code, 2, "{wrong}");
    }
}

#[test]
fn too_small_sizes_and_invalid_contexts_are_refused() {
    let directory = directory();
    for (args, message) in [
        (&["--fit", "24"][..], "--fit 24 B: --reserve 1.00 GiB leaves nothing"),
        (&["--fit", "512MiB"], "--fit 512 MiB: --reserve 1.00 GiB leaves nothing"),
        (&["-ctk", "q8_0"], "-ctk of llama.cpp is --cache-type-k"),
        (&["-c", "8x"], "expected a number of tokens, such as 8192"),
        (&["-c", "99999999999999999k"], "expected a number of tokens, such as 8192"),
        (&["-np", "4"], "-np is --parallel"),
        (&["-ub", "256"], "-ub of llama.cpp is --ubatch"),
        (&["-ot", "exps=CPU"], "-ot of llama.cpp is --override-tensor PATTERN=DEVICE"),
        (&["-ts", "3,1"], "-ts of llama.cpp is --tensor-split SHARE,SHARE"),
        (&["-cmoe"], "-cmoe of llama.cpp is --override-tensor 'ffn_.*_exps=CPU'"),
        (&["--cpu-moe"], "--override-tensor 'ffn_.*_exps=CPU'"),
        (&["--gpu-layers", "auto"], "--fit SIZE, such as --fit 8G, finds the number of layers"),
        (&["--gpu-layers", "-1"], "--fit SIZE, such as --fit 8G, finds the number of layers"),
        (&["--gpu-layers", "x"], "expected a number of layers, or all"),
        (&["-c", "0"], "without --ctx, the estimate is for the length that the model was trained"),
    ] {
        let found = ggmill(directory.path(), &[&["estimate", "model.gguf"], args].concat());
        assert_eq!((found.code, &*found.stdout), (2, ""), "{args:?}");
        assert!(found.stderr.contains(message), "{args:?}: {}", found.stderr);
    }
    let of = |context: &str| {
        json(&ggmill(directory.path(), &["estimate", "model.gguf", "--json", "--ctx", context]))
    };
    assert_eq!(of("1k")["estimates"], of("1024")["estimates"]);
    let on = |layers: &str| {
        let args = ["estimate", "model.gguf", "--json", "--gpu-layers", layers];
        json(&ggmill(directory.path(), &args))
    };
    assert_eq!(on("all")["estimates"], on("3")["estimates"]);
    let fitting = ["estimate", "model.gguf", "--fit", "512MiB", "--reserve", "0", "--ctx", "512"];
    let found = ggmill(directory.path(), &fitting);
    assert_eq!(found.code, 0, "{}", found.stderr);
}

#[test]
fn the_label_of_the_total_names_omissions() {
    let directory = directory();
    let mut convert = command(directory.path());
    convert.arg("convert").arg(real("tinystories260K")).args(["-o", "v.gguf", "--vocab-only"]);
    assert_eq!(outcome(&mut convert).code, 0);
    let found = ggmill(directory.path(), &["estimate", "v.gguf"]);
    let total = found.stdout.lines().find(|line| line.starts_with("total")).unwrap().to_owned();
    assert!(total.starts_with("total without compute, weights "), "{}", found.stdout);
    let words = "not included: weights: the file has no tensors, only a vocabulary";
    assert!(found.stdout.contains(words), "{}", found.stdout);
    let found = ggmill(directory.path(), &["estimate", "model.gguf", "--ctx=1024,2048"]);
    let heads = found.stdout.lines().next().unwrap().to_owned();
    assert!(heads.ends_with("  total without compute"), "{heads}");
}
