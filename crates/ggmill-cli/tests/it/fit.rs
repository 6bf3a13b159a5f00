//! `ggmill quantize` with types for a size, plans and reports, from the command line.

use std::fs;

use ggmill_testdata::bytes::FileBytes;
use ggmill_testdata::models::models;
use serde_json::Value;

use crate::support::{Folder, Outcome, ggmill, real};

fn folder() -> Folder {
    let llama = models().into_iter().find(|model| model.name == "llama").unwrap();
    Folder::new().with("llama.gguf", &llama.file).with("imatrix", llama.imatrix())
}

fn names(folder: &Folder) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

fn quantize(folder: &Folder, args: &[&str]) -> Outcome {
    ggmill(folder.path(), &[&["quantize"], args].concat())
}

fn fine(folder: &Folder, args: &[&str]) -> Outcome {
    let found = quantize(folder, args);
    assert_eq!(found.code, 0, "{args:?}: {}", found.stderr);
    found
}

/// What is refused: exit code 2, these words, nothing written.
fn refused(folder: &Folder, args: &[&str], words: &str) {
    let before = names(folder);
    let found = quantize(folder, args);
    assert_eq!((found.code, &*found.stdout), (2, ""), "{args:?}: {}", found.stderr);
    assert!(found.stderr.contains(words), "{args:?}: {}", found.stderr);
    assert_eq!(names(folder), before, "{args:?}");
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

#[test]
fn a_size_is_met_and_its_plan_gives_the_same_bytes() {
    let folder = folder();
    let dry = fine(&folder, &["llama.gguf", "--target-bpw", "5", "--imatrix", "imatrix", "--dry-run", "--json"]);
    assert!(dry.stderr.starts_with("note: chose types of ") && dry.stderr.contains("; no choice as small loses less than "), "{}", dry.stderr);
    assert_eq!(json(&dry.stdout)["output"], "ggml-model-CUSTOM.gguf");
    fs::write(folder.path().join("plan.json"), &dry.stdout).unwrap();

    let direct = fine(&folder, &["llama.gguf", "direct.gguf", "--target-bpw", "5", "--imatrix", "imatrix"]);
    let planned = fine(&folder, &["llama.gguf", "planned.gguf", "--plan", "plan.json", "--imatrix", "imatrix", "--threads", "1"]);
    let read = |name: &str| fs::read(folder.path().join(name)).unwrap();
    assert!(read("direct.gguf") == read("planned.gguf"), "{}{}", direct.stderr, planned.stderr);
    assert_eq!(json(&dry.stdout)["file_size"], read("direct.gguf").len());

    // As a size: what the file has, to the byte, and not one less than the least.
    let size = read("direct.gguf").len();
    let fitted = json(&fine(&folder, &["llama.gguf", "--target-size", &size.to_string(), "--imatrix", "imatrix", "--dry-run", "--json"]).stdout);
    assert!(fitted["file_size"].as_u64().unwrap() <= size as u64);
    let found = quantize(&folder, &["llama.gguf", "x.gguf", "--target-size", "10K"]);
    assert_eq!((found.code, &*found.stdout), (2, ""));
    assert!(found.stderr.starts_with("error: 10000 bytes are too few: the smallest this model can be is "), "{}", found.stderr);
    assert!(found.stderr.ends_with("hint: with importance weights (--imatrix FILE) there are smaller types\n"), "{}", found.stderr);
    fine(&folder, &["llama.gguf", "once.gguf", "Q8_0"]);
    let found = quantize(&folder, &["once.gguf", "x.gguf", "--target-bpw", "4", "--imatrix", "imatrix"]);
    assert!(found.code == 2 && found.stderr.ends_with("hint: --allow-requantize lets tensors that are quantized already become smaller, at a loss\n"));
    // A plan that is whole leaves nothing to other options.
    let told = fine(&folder, &["llama.gguf", "--plan", "plan.json", "--imatrix", "imatrix", "--tensor-type", "attn=q8_0", "--dry-run"]);
    assert!(told.stderr.starts_with("note: a plan names the type of every tensor, so other options for types are without effect\n"), "{}", told.stderr);

    // Shards of a plan, and a plan of shards.
    let shards = fine(&folder, &["llama.gguf", "cut", "--plan", "plan.json", "--imatrix", "imatrix", "--split-max-tensors", "50", "--json"]);
    fs::write(folder.path().join("plans.json"), &shards.stdout).unwrap();
    let again = json(&fine(&folder, &["cut-00001-of-00002.gguf", "--plan", "plans.json", "--dry-run", "--json"]).stdout);
    assert_eq!(again["tensors"], json(&dry.stdout)["tensors"]);
}

#[test]
fn what_is_lost_is_written_down() {
    let folder = folder();
    let args = ["llama.gguf", "out.gguf", "Q4_K_M", "--imatrix", "imatrix", "--force", "--report"];
    let shown = fine(&folder, &[&args[..], &["-"]].concat());
    assert!(shown.stdout.contains("blk.8.ffn_down.weight     F16 → Q6_K   6.56  1."), "{}", shown.stdout);
    assert!(shown.stdout.contains("errors are roots of noise to signal, weighted by importance where there is some"), "{}", shown.stdout);

    fine(&folder, &[&args[..], &["lost.json"]].concat());
    let report = json(&fs::read_to_string(folder.path().join("lost.json")).unwrap());
    assert_eq!((&report["schema"], &report["output"], &report["weighted"]), (&"ggmill.loss/1".into(), &"out.gguf".into(), &true.into()));
    let tensors = report["tensors"].as_array().unwrap();
    let number = |value: &Value| value.as_f64().unwrap();
    let total = |field: &str| tensors.iter().map(|tensor| number(&tensor[field])).sum::<f64>();
    assert!((total("share") - 1.0).abs() < 1e-9 && (total("size") - number(&report["size"])).abs() < 0.5);
    let lost: f64 = tensors.iter().map(|tensor| number(&tensor["relative"]) * tensor["shape"].as_array().unwrap().iter().map(number).product::<f64>()).sum();
    assert!((lost / number(&report["weights"]) / number(&report["relative"]) - 1.0).abs() < 1e-9);
    // What diff says of the same two files, without weights.
    let diff = json(&ggmill(folder.path(), &["diff", "llama.gguf", "out.gguf", "--data", "--tensors", "--json"]).stdout);
    let mut compared = 0;
    for tensor in diff["tensors"].as_array().unwrap() {
        let ours = tensors.iter().find(|other| other["name"] == tensor["name"]).unwrap();
        let (a, b) = (number(&ours["rmse"]), number(&tensor["data"]["rmse"]));
        assert!((a - b).abs() <= 1e-12 * b, "{}: {a}, {b}", tensor["name"]);
        compared += 1;
    }
    assert!(compared > 60);

    // A report needs a place, and is no reason to lose one.
    refused(&folder, &["llama.gguf", "new.gguf", "Q8_0", "--report", "lost.json"], "lost.json: exists already\nhint: --force replaces it");
    refused(&folder, &["llama.gguf", "new.gguf", "Q8_0", "--report", "llama.gguf", "--force"], "llama.gguf: is read from");
    refused(&folder, &["llama.gguf", "new.gguf", "Q8_0", "--report", "new.gguf"], "new.gguf: is the output");
    refused(&folder, &["llama.gguf", "new.gguf", "Q8_0", "--report", "-", "--json"], "both write to standard output");
    refused(&folder, &["llama.gguf", "new.gguf", "Q8_0", "--report", "no/such/folder/x"], "no/such/folder");
    refused(&folder, &["llama.gguf", "new.gguf", "IQ1_S", "--report", "new.html"], "IQ1_S needs importance weights");
}

/// Names that would be markup, or act on a terminal.
#[test]
fn a_page_is_only_a_page() {
    let mut file = FileBytes::v3(2, 1);
    file.pair("general.architecture", &"<b>".into());
    let name = "</title><script>alert(1)</script>\"onload='x'&\u{1b}[31m.weight";
    file.tensor(name, &[32, 2], 0, 0).tensor("plain.weight", &[32, 2], 0, 256).pad(32);
    for number in 0..128u8 {
        file.f32(f32::from(number) - 60.5);
    }
    let folder = Folder::new().with("<img src=x>.gguf", file.into_bytes());
    fine(&folder, &["<img src=x>.gguf", "<svg onload=y>.gguf", "Q4_0", "--report", "lost.html"]);
    let page = fs::read_to_string(folder.path().join("lost.html")).unwrap();
    assert!(page.starts_with("<!doctype html>") && page.contains("default-src 'none'"), "{page}");
    assert!(page.contains("&lt;/title&gt;&lt;script&gt;alert(1)&lt;/script&gt;&quot;") && page.contains("&lt;svg onload=y&gt;.gguf"), "{page}");
    for forbidden in ["<script", "<img", "onload='", "<svg onload", "http://", "https://", "\u{1b}", "@import", "url("] {
        assert!(!page.contains(forbidden), "{forbidden}");
    }
    // Every tag is one of ours.
    let ours =
        ["!doctype", "html", "meta", "title", "style", "h1", "p", "b", "svg", "rect", "path", "text", "span", "table", "thead", "tbody", "tr", "th", "td"];
    for tag in page.split('<').skip(1) {
        let tag = tag.trim_start_matches('/').split(|c: char| !c.is_ascii_alphanumeric() && c != '!').next().unwrap();
        assert!(ours.contains(&tag), "<{tag}");
    }
    let shown = fine(&folder, &["<img src=x>.gguf", "x.gguf", "Q8_0", "--report", "-"]);
    assert!(!shown.stdout.contains('\u{1b}'), "{}", shown.stdout);
}

/// Bad goals and plans.
#[test]
fn goals_and_plans_that_cannot_be() {
    let folder = folder().with("odd.json", r#"{"schema":"ggmill.plan/1","tensors":[{"name":"nobody","type":"Q4_0"}]}"#).with("roles", "w2=down");
    let cases: &[(&[&str], &str)] = &[
        (&["llama.gguf", "x.gguf", "--target-bpw", "1"], "1 bits per weight are too few: the smallest this model can be is "),
        (&["llama.gguf", "x.gguf", "--target-bpw", "nan"], "NaN bits per weight, expected more than 0"),
        (&["llama.gguf", "x.gguf", "--target-size", "much"], "expected a number and K, M, G or T"),
        (&["llama.gguf", "x.gguf", "Q4_K_M", "--target-size", "1G"], "a type and a size were given, expected one of them"),
        (&["llama.gguf", "x.gguf", "--target-size", "1G", "--target-bpw", "4"], "cannot be used with"),
        (&["llama.gguf", "x.gguf", "--plan", "odd.json"], "tensor \"nobody\": is in the plan, and not in the model"),
        (&["llama.gguf", "x.gguf", "--plan", "roles"], "roles: is no JSON"),
        (&["llama.gguf", "odd.json", "--plan", "odd.json", "--force"], "error: "),
        (&["llama.gguf", "x.gguf", "Q8_0", "--role-file", "roles"], "roles: line 1: \"w2=down\": \"down\" is no role, expected one of token_embedding"),
        (&["llama.gguf", "x.gguf"], "\"x.gguf\" is no type"),
        (&["llama.gguf", "x.gguf", "Q8_0", "999999999"], "\"999999999\" is no number of threads up to 512"),
        (&["llama.gguf", "x.gguf", "Q8_0", "--threads", "999999999"], "expected a number up to 512"),
    ];
    for (args, words) in cases {
        refused(&folder, args, words);
    }
}

/// Input that is broken, and what leaves nothing behind.
#[test]
fn broken_input_leaves_no_output() {
    let folder = folder();
    let llama = fs::read(folder.path().join("llama.gguf")).unwrap();
    let folder =
        folder.with("cut.gguf", &llama[..llama.len() - 1000]).with("other", models().into_iter().find(|model| model.name == "falcon").unwrap().imatrix());
    fine(&folder, &["llama.gguf", "once.gguf", "Q4_K_M"]);
    refused(&folder, &["cut.gguf", "x.gguf", "Q4_K_M"], "cut.gguf: ");
    refused(&folder, &["cut.gguf", "x.gguf", "--target-bpw", "6"], "cut.gguf: ");
    refused(&folder, &["once.gguf", "x.gguf", "Q2_K"], "is Q4_K already, quantizing it again to Q2_K loses more\nhint: --allow-requantize");
    refused(&folder, &["llama.gguf", "x.gguf", "Q4_K_M", "--imatrix", "other"], "tensor \"blk.0.ffn_down.weight\": 256 importance weights, expected 512");
    let exclude = ["llama.gguf", "x.gguf", "IQ2_XS", "--imatrix", "imatrix", "--exclude-weights", "blk.3.ffn_up"];
    refused(&folder, &exclude, "tensor \"blk.3.ffn_up.weight\": IQ2_XS needs importance weights, and the matrix has none for it");
    // A number that is none is found in the middle of the work.
    let mut nan = llama.clone();
    let end = nan.len();
    nan[end - 4..].copy_from_slice(&f32::NAN.to_le_bytes());
    let folder = folder.with("nan.gguf", nan);
    refused(&folder, &["nan.gguf", "x.gguf", "Q8_0", "--report", "x.html"], "expected a finite number");
    refused(&folder, &["nan.gguf", "x", "Q8_0", "--split-max-tensors", "9"], "expected a finite number");
}

/// A disk that is full: nothing remains of what was begun, of the shards and of the report either. Mounting one takes root.
#[cfg(target_os = "linux")]
#[test]
fn a_full_disk() {
    let folder = Folder::new();
    let model = real("mobilenetv3_3class_v3_fp16.gguf");
    let small = folder.path().join("small");
    fs::create_dir(&small).unwrap();
    let mounted = std::process::Command::new("mount").args(["-t", "tmpfs", "-o", "size=1M", "tmpfs"]).arg(&small).output();
    if !mounted.is_ok_and(|output| output.status.success()) {
        println!("skipped: no small disk can be mounted");
        return;
    }
    let tries = std::panic::catch_unwind(|| {
        let model = model.to_str().unwrap();
        for args in [&[model, "small/out.gguf", "Q8_0", "--report", "small/out.html"][..], &[model, "small/out", "Q8_0", "--split-max-size", "500K"]] {
            let found = quantize(&folder, args);
            assert_eq!((found.code, &*found.stdout), (2, ""), "{args:?}: {}", found.stderr);
            assert!(found.stderr.contains("no space left on the device"), "{args:?}: {}", found.stderr);
            assert!(fs::read_dir(&small).unwrap().next().is_none(), "{args:?}");
        }
    });
    let unmounted = std::process::Command::new("umount").arg(&small).status();
    tries.unwrap();
    assert!(unmounted.unwrap().success());
}
