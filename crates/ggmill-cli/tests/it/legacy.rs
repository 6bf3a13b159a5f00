//! `ggmill convert` and `ggmill inspect` on legacy files.

use std::fs;

use ggmill_testdata::legacy::legacy_models;
use ggmill_testdata::shared;

use crate::support::{Directory, Outcome, ggmill, real, tiny};

#[test]
fn every_legacy_format_is_converted_and_listed() {
    for model in legacy_models() {
        let directory = Directory::new().with(model.name, &model.file);
        let listed = ggmill(directory.path(), &["inspect", model.name]);
        assert_eq!(listed.code, 0, "{}: {}", model.name, listed.stderr);
        assert!(
            listed.stdout.contains("of LLaMA, legacy format")
                && listed.stdout.contains("Tensors · 21"),
            "{}",
            listed.stdout
        );
        let Outcome { code, stdout, stderr } = ggmill(directory.path(), &["convert", model.name]);
        assert_eq!(code, 0, "{}: {stderr}", model.name);
        assert!(stdout.contains("llama"), "{stdout}");
        assert_eq!(
            stderr.contains("one part in 2048"),
            !model.is_taken_by_reference && !model.name.contains("q5"),
            "{}: {stderr}",
            model.name
        );
        let output = directory.path().join(model.name).with_extension("gguf");
        let checked =
            ggmill(directory.path(), &["check", output.to_str().unwrap(), "--profile", "ggml"]);
        assert_ne!(checked.code, 2, "{}", checked.stderr);
        assert!(!checked.stdout.contains("error"), "{}", checked.stdout);
    }
}

/// Options for values that legacy files do not store are refused where they would be ignored.
#[test]
fn options_for_legacy_files_apply_only_to_them() {
    let models = legacy_models();
    let model = models.iter().find(|model| model.name == "ggjt3-q8_0.bin").unwrap();
    let directory = Directory::new().with("old.bin", &model.file).with("m.gguf", tiny());
    let checkpoint = real("tinystories260K");
    let checkpoint = checkpoint.to_str().unwrap();
    for args in [["--context-length", "4096"], ["--eps", "1e-5"], ["--kv-heads", "2"]] {
        for source in [&[checkpoint][..], &["m.gguf", "--to", "safetensors"]] {
            let args = [&["convert"], source, &args, &["-o", "out"]].concat();
            let found = ggmill(directory.path(), &args);
            let words = format!("{}: applies only to legacy files", args[args.len() - 4]);
            assert!(found.code == 2 && found.stderr.contains(&words), "{args:?}: {found:?}");
        }
    }
    assert_eq!(directory.files(), ["m.gguf", "old.bin"]);
    let args = ["convert", "old.bin", "--context-length", "77", "--eps", "0.5", "-o", "new.gguf"];
    let found = ggmill(directory.path(), &args);
    assert_eq!(found.code, 0, "{}", found.stderr);
    for (key, value) in [("context_length", "77\n"), ("attention.layer_norm_rms_epsilon", "0.5\n")]
    {
        let got = ggmill(directory.path(), &["get", "new.gguf", &format!("llama.{key}")]);
        assert_eq!(got.stdout, value, "{key}");
    }
}

#[test]
fn a_listing_shows_the_content() {
    let listed = ggmill(&real(""), &["inspect", "ggml-vocab.ggjt-v1.bin"]);
    assert_eq!(listed.code, 0, "{}", listed.stderr);
    insta::assert_snapshot!("ggjt_listing", listed.stdout);
    let Some(rwkv) = shared("legacy/rwkv-tiny-rwkv-4v0-660K-Q5_1.bin") else { return };
    let json =
        ggmill(rwkv.parent().unwrap(), &["inspect", "--json", "rwkv-tiny-rwkv-4v0-660K-Q5_1.bin"]);
    let json: serde_json::Value = serde_json::from_str(&json.stdout).unwrap();
    assert_eq!(
        (&json["schema"], &json["family"], &json["parameters"]["n_layer"]),
        (&"ggmill.legacy/1".into(), &"RWKV".into(), &4.into())
    );
    assert!(json["tensors"].as_array().unwrap().iter().any(|tensor| tensor["type"] == "Q5_1"));
}

#[test]
fn files_of_other_families_are_refused() {
    let models = legacy_models();
    let model = models.iter().find(|model| model.name == "ggjt3-q8_0.bin").unwrap();
    let mut unknown = model.file.clone();
    let at = unknown.windows(6).position(|bytes| bytes == b"wq.wei").unwrap();
    unknown[at + 1] = b'z';
    let early = models.iter().find(|model| model.name == "ggmf-q4_0.bin").unwrap();
    // These blocks are invalid in an older container.
    let mut early = early.file.clone();
    early.splice(..8, *b"lmgg");
    let directory = Directory::new()
        .with("old.bin", &model.file)
        .with("cut.bin", &model.file[..model.file.len() - 1])
        .with("odd.bin", unknown);
    let directory = directory
        .with("early.bin", early)
        .with("rwkv.bin", b"fmgg\x64\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0");
    let before = fs::read_dir(directory.path()).unwrap().count();
    for (args, words) in [
        (&["old.bin", "--type", "f16"][..], "cannot be converted to a different type"),
        (&["old.bin", "-o", "old.bin", "--force"], "is an input, so it cannot be the output"),
        (&["cut.bin"], "bytes are needed,"),
        (
            &["odd.bin"],
            "error: odd.bin: tensor \"layers.0.attention.wz.weight\": LLaMA has no such tensor",
        ),
        (&["early.bin"], "is a GGML file of a model other than LLaMA or Whisper"),
        (
            &["rwkv.bin"],
            "error: rwkv.bin: is a GGMF version 100 file of RWKV; only legacy files of LLaMA can \
             be converted",
        ),
    ] {
        let found = ggmill(directory.path(), &[&["convert"], args].concat());
        assert_eq!((found.code, found.stdout.as_str()), (2, ""), "{args:?}");
        assert!(found.stderr.contains(words), "{args:?}: {}", found.stderr);
    }
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), before);
}
