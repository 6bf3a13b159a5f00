//! `ggmill quantize` and `ggmill imatrix`, from the command line.

use std::fs;

use ggmill_testdata::models::{Model, models};
use ggmill_testdata::sha256;
use serde_json::Value;

use crate::support::{Folder, Outcome, ggmill};

fn model(name: &str) -> Model {
    models().into_iter().find(|model| model.name == name).unwrap()
}

fn folder() -> Folder {
    let llama = model("llama");
    Folder::new().with("llama.gguf", &llama.file).with("imatrix", llama.imatrix()).with("old.dat", llama.legacy_imatrix())
}

fn files(folder: &Folder) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// What the reference makes of the same model, from `tests/quantize.sha256` of ggmill-convert.
fn expected(row: &str) -> &'static str {
    let rows = include_str!("../../../ggmill-convert/tests/quantize.sha256");
    rows.lines().find_map(|line| line.strip_prefix(row)?.strip_prefix(' ')).unwrap()
}

#[test]
fn the_output_lies_beside_the_input_unless_it_is_named() {
    let folder = folder();
    let Outcome { code, stdout, stderr } = ggmill(folder.path(), &["quantize", "llama.gguf", "q4_k_m", "1"]);
    assert_eq!(code, 0, "{stderr}");
    assert!(stderr.contains("note: wrote ggml-model-Q4_K_M.gguf"), "{stderr}");
    assert!(stdout.contains("Q6_K"), "{stdout}");
    let file = fs::read(folder.path().join("ggml-model-Q4_K_M.gguf")).unwrap();
    assert_eq!(sha256(&file), expected("llama Q4_K_M none"));

    let named = ggmill(folder.path(), &["quantize", "llama.gguf", "small.gguf", "--type", "IQ2_XS", "--imatrix", "imatrix", "-t", "2"]);
    assert_eq!(named.code, 0, "{}", named.stderr);
    assert_eq!(sha256(&fs::read(folder.path().join("small.gguf")).unwrap()), expected("llama IQ2_XS imatrix"));
}

#[test]
fn a_dry_run_says_what_a_run_would_write() {
    let folder = folder();
    let dry = ggmill(folder.path(), &["quantize", "llama.gguf", "IQ3_XXS", "--dry-run", "--json"]);
    assert_eq!((dry.code, files(&folder).len()), (0, 3), "{}", dry.stderr);
    assert!(dry.stderr.contains("a run would be refused"), "{}", dry.stderr);
    let plan: Value = serde_json::from_str(&dry.stdout).unwrap();
    let with = ggmill(folder.path(), &["quantize", "llama.gguf", "out.gguf", "IQ3_XXS", "--imatrix", "old.dat", "--json"]);
    assert_eq!(with.code, 0, "{}", with.stderr);
    let written: Value = serde_json::from_str(&with.stdout).unwrap();
    assert_eq!(written["tensors"].as_array().unwrap().len(), plan["tensors"].as_array().unwrap().len());
    assert_eq!(written["file_size"], fs::metadata(folder.path().join("out.gguf")).unwrap().len());
}

#[test]
fn what_is_refused_leaves_nothing_behind() {
    let folder = folder().with("rules", "attn_q=q8_0\nffn=q9").with("out.gguf", "precious");
    let before = files(&folder);
    let cases: &[(&[&str], &str)] = &[
        (&["llama.gguf", "new.gguf", "Q9"], "\"Q9\" is no type to quantize to\nhint: --help lists the types"),
        (&["llama.gguf", "new.gguf"], "\"new.gguf\" is no type"),
        (&["llama.gguf", "new.gguf", "IQ1_S"], "IQ1_S needs importance weights, and there are none\nhint: --imatrix FILE"),
        (&["llama.gguf", "out.gguf", "Q8_0"], "out.gguf: exists already\nhint: --force replaces it"),
        (&["llama.gguf", "llama.gguf", "Q8_0", "--force"], "llama.gguf: is read from, and cannot be the output"),
        (&["llama.gguf", "new.gguf", "Q8_0", "--tensor-type", "ffn=q9"], "\"q9\" is no tensor type"),
        (&["llama.gguf", "new.gguf", "Q8_0", "--tensor-type-file", "rules"], "rules: \"ffn=q9\": \"q9\" is no tensor type"),
        (&["llama.gguf", "new.gguf", "Q8_0", "--tensor-type", "(=q8_0"], "the pattern is not one"),
        (&["llama.gguf", "new.gguf", "Q8_0", "--override-kv", "a=int:x"], "the value is no integer"),
        (&["llama.gguf", "new.gguf", "Q8_0", "--imatrix", "llama.gguf"], "has no tensors NAME.in_sum2"),
        (&["llama.gguf", "new.gguf", "Q8_0", "--keep-split"], "--keep-split is not there yet"),
        (&["missing.gguf", "new.gguf", "Q8_0"], "missing.gguf: "),
    ];
    for (args, words) in cases {
        let Outcome { code, stdout, stderr } = ggmill(folder.path(), &[&["quantize"], *args].concat());
        assert_eq!((code, &*stdout), (2, ""), "{args:?}: {stderr}");
        assert!(stderr.contains(words), "{args:?}: {stderr}");
        assert_eq!(files(&folder), before, "{args:?}");
    }
    assert_eq!(fs::read(folder.path().join("out.gguf")).unwrap(), b"precious");
}

#[test]
fn an_importance_matrix_is_shown_without_its_model() {
    let folder = folder();
    let Outcome { code, stdout, stderr } = ggmill(folder.path(), &["imatrix", "show", "imatrix"]);
    assert_eq!(code, 0, "{stderr}");
    assert!(stdout.starts_with("GGUF importance matrix, 72 entries\nmeasured on  one.txt\nmeasured on  two.txt\nchunks       7 of 512 tokens\n"), "{stdout}");
    assert!(stdout.contains("blk.8.ffn_down.weight         512         1"), "{stdout}");

    let old = ggmill(folder.path(), &["imatrix", "show", "old.dat", "--json"]);
    let shown: Value = serde_json::from_str(&old.stdout).unwrap();
    assert_eq!((&shown["schema"], &shown["form"], &shown["datasets"][0]), (&"ggmill.imatrix/1".into(), &"legacy".into(), &"one.txt".into()));
    assert_eq!(shown["entries"].as_array().unwrap().len(), 72);
    assert_eq!(ggmill(folder.path(), &["imatrix", "show", "llama.gguf"]).code, 2);
}
