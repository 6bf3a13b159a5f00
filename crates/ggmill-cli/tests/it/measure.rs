//! `ggmill measure` and `ggmill explain --graph`.

use ggmill_testdata::bytes::FileBytes;
use serde_json::Value as Json;

use crate::support::{Directory, Outcome, command, ggmill, outcome, real};

/// A text in the style of the bundled model's training data, long enough for two chunks of 32
/// tokens.
const STORY: &str = "Once upon a time, there was a little girl named Lily. She loved to play outside \
                     in the park. One day, she saw a big, red ball. She wanted to play with it, but \
                     it was too high. Lily's mom said, \"Lily, let's go to the park.\" Lily was sad \
                     and did not know what to do. She wanted to play with her friends.\n";

/// Returns a directory with the bundled model in two types, and a text.
fn directory() -> Directory {
    let directory = Directory::new().with("story.txt", STORY);
    for (name, kind) in [("base.gguf", "f32"), ("small.gguf", "q4_0")] {
        let mut convert = command(directory.path());
        convert.arg("convert").arg(real("tinystories260K")).args(["-o", name, "--type", kind]);
        let found = outcome(&mut convert);
        assert_eq!(found.code, 0, "{}", found.stderr);
    }
    directory
}

fn json(found: &Outcome) -> Json {
    assert_eq!(found.code, 0, "{}", found.stderr);
    serde_json::from_str(&found.stdout).unwrap()
}

#[test]
fn a_model_is_measured_against_its_base() {
    let directory = directory();
    let run = |more: &[&str]| {
        let args = ["measure", "small.gguf", "--text", "story.txt", "--ctx", "32", "--json"];
        json(&ggmill(directory.path(), &[&args[..], more].concat()))
    };
    let found = run(&["--against", "base.gguf"]);
    assert_eq!(found["schema"], "ggmill.measure/1");
    let number = |place: &str| found.pointer(place).and_then(Json::as_f64).unwrap();
    // The model was trained on such stories; 512 equally probable tokens have a perplexity of 512.
    let base = number("/models/0/comparison/base_perplexity/value");
    assert!(base > 1.0 && base < 12.0, "{base}");
    let divergence = number("/models/0/comparison/kl_divergence/mean/value");
    assert!(divergence > 0.0 && divergence < 0.5, "{divergence}");
    assert!(number("/models/0/comparison/kl_divergence/quantiles/max") >= divergence);
    let same = number("/models/0/comparison/same_top/value");
    assert!(same > 0.5 && same <= 1.0, "{same}");
    // The result does not depend on the number of threads, or on --against.
    assert_eq!(found, run(&["--against", "base.gguf", "--threads", "1"]));
    let alone = run(&[]);
    assert_eq!(alone["models"][0]["perplexity"], found["models"][0]["perplexity"]);
    assert_eq!(alone["models"][0]["comparison"], Json::Null);
    assert_eq!((&alone["base"], &found["base"]), (&Json::Null, &"base.gguf".into()));
}

/// Arguments for a quantized model and its base, compared with the base.
const TOGETHER: [&str; 9] = [
    "measure",
    "small.gguf",
    "base.gguf",
    "--against",
    "base.gguf",
    "--text",
    "story.txt",
    "--ctx",
    "32",
];

#[test]
fn several_models_are_measured_in_one_pass() {
    let directory = directory();
    let run = |args: &[&str]| ggmill(directory.path(), args);
    let both = json(&run(&[&TOGETHER[..], &["--json"]].concat()));
    let alone = |file: &str| {
        let args =
            ["measure", file, "--against", "base.gguf", "--text", "story.txt", "--ctx", "32"];
        json(&run(&[&args[..], &["--json"]].concat()))["models"][0].clone()
    };
    assert_eq!(both["models"][0], alone("small.gguf"));
    assert_eq!(both["models"][1], alone("base.gguf"));
    let found = run(&[&TOGETHER[..], &["--html", "page.html", "-q"]].concat());
    assert_eq!((found.code, &*found.stderr), (0, ""));
    let lines: Vec<&str> = found.stdout.lines().collect();
    assert!(lines[0].ends_with(" chunks of 32 tokens, 45 tokens counted"), "{}", found.stdout);
    let row = |name: &str| {
        lines.iter().find(|line| line.starts_with(name)).unwrap_or_else(|| panic!("{lines:?}"))
    };
    assert!(row("model ").ends_with("KL divergence   its 99%  same top"), "{lines:?}");
    assert!(row("base.gguf (base)").contains(" – "), "{lines:?}");
    assert!(row("small.gguf").contains(" ± "), "{lines:?}");
    assert!(row("base.gguf  ").ends_with("100.00%"), "{lines:?}");
    let page = std::fs::read_to_string(directory.path().join("page.html")).unwrap();
    assert!(page.contains("<h1>2 models against base.gguf</h1>"), "{page}");
    assert_eq!(page.matches("<polyline").count(), 4, "{page}");
    // An existing output and an input are not overwritten.
    let found = run(&[&TOGETHER[..], &["--html", "page.html"]].concat());
    assert_eq!(found.code, 2);
    assert!(found.stderr.contains("--force"), "{}", found.stderr);
    let found = run(&[&TOGETHER[..], &["--html", "base.gguf", "--force"]].concat());
    assert_eq!(found.code, 2, "{}", found.stderr);
    let found = run(&[&TOGETHER[..], &["--logits", "out.npy"]].concat());
    assert!(
        found.code == 2 && found.stderr.contains("--logits takes one MODEL"),
        "{}",
        found.stderr
    );
    assert_eq!(directory.files().len(), 4, "{:?}", directory.files());
}

#[test]
fn quiet_omits_the_explanation_of_the_numbers() {
    let directory = directory();
    let args = ["measure", "small.gguf", "--text", "story.txt", "--ctx", "32"];
    let run = |more: &[&str]| ggmill(directory.path(), &[&args[..], more].concat());
    let (told, quiet) = (run(&[]), run(&["-q"]));
    assert_eq!((told.code, quiet.code), (0, 0), "{}{}", told.stderr, quiet.stderr);
    // The explanation is a note on standard error, so the output has only the numbers.
    assert!(
        told.stderr.starts_with("note: computed in F32 from the weights in "),
        "{}",
        told.stderr
    );
    assert_eq!((&quiet.stdout, &*quiet.stderr), (&told.stdout, ""));
    let in_json = run(&["--json"]);
    assert!(json(&in_json)["about"].as_str().unwrap().starts_with("computed in F32"));
    assert_eq!(in_json.stderr, "");
}

#[test]
fn merged_parts_equal_one_run() {
    let directory = directory();
    let run = |args: &[&str]| {
        let found = ggmill(directory.path(), args);
        assert_eq!(found.code, 0, "{args:?}: {}", found.stderr);
        found.stdout
    };
    let whole = run(&TOGETHER);
    let one = ["--chunks", "1", "--scores", "a.json"];
    assert_ne!(run(&[&TOGETHER[..], &one].concat()), whole);
    let rest = ["--from-chunk", "1", "--scores", "b.json"];
    run(&[&TOGETHER[..], &rest].concat());
    assert_eq!(run(&["measure", "merge", "b.json", "a.json"]), whole);
    let json = run(&[&TOGETHER[..], &["--json", "--html", "whole.html"]].concat());
    let merge = ["measure", "merge", "a.json", "b.json", "--json", "--html", "page.html"];
    assert_eq!(run(&merge), json);
    let read = |name: &str| std::fs::read(directory.path().join(name)).unwrap();
    assert_eq!(read("page.html"), read("whole.html"));

    let refused = |args: &[&str], expected: &str| {
        let found = ggmill(directory.path(), args);
        assert_eq!(found.code, 2, "{args:?}: {}", found.stderr);
        assert!(found.stderr.contains(expected), "{args:?}: {}", found.stderr);
    };
    refused(&["measure", "merge", "a.json", "a.json"], "chunk 0 is in two parts");
    refused(&["measure", "merge", "story.txt"], "story.txt: not a document of scores");
    refused(&["measure", "merge", "a.json", "--html", "a.json", "--force"], "a.json");
    let past = [&TOGETHER[..], &["--from-chunk", "99", "--scores", "c.json"]].concat();
    refused(&past, "there is no chunk 99");
    assert!(!ggmill(directory.path(), &past).stderr.contains("hint:"), "{past:?}");
    let twice = [&TOGETHER[..], &["--html", "x", "--scores", "x"]].concat();
    refused(&twice, "--html and --scores name the same file");
    let there = [&TOGETHER[..], &["--scores", "a.json"]].concat();
    refused(&there, "--force");
    assert!(!directory.path().join("c.json").exists());
}

#[test]
fn logits_are_written_as_npy() {
    let directory = directory().with("ids.json", format!("{:?}", (3..99).collect::<Vec<u32>>()));
    let args = ["measure", "base.gguf", "--tokens", "ids.json", "-c", "32", "--logits", "out.npy"];
    let found = ggmill(directory.path(), &args);
    assert_eq!(found.code, 0, "{}", found.stderr);
    assert!(found.stdout.contains("3 chunks of 32 tokens, 45 tokens counted"), "{}", found.stdout);
    let logits = std::fs::read(directory.path().join("out.npy")).unwrap();
    let header = String::from_utf8_lossy(&logits[..128]).into_owned();
    assert!(header.contains("'descr': '<f4'") && header.contains("(96, 512)"), "{header}");
    assert_eq!(logits.len(), 128 + 96 * 512 * 4);
    let again = ggmill(directory.path(), &args);
    assert_eq!(again.code, 2, "an output that exists is not replaced");
}

#[test]
fn models_and_texts_that_cannot_be_measured_get_hints() {
    let directory = directory()
        .with("short.txt", "Once upon a time")
        .with("wrong.json", "[1, 5000]")
        .with("none.json", "{}");
    let refused = |args: &[&str]| {
        let found = ggmill(directory.path(), &[&["measure"], args].concat());
        assert_eq!((found.code, &*found.stdout), (2, ""), "{args:?}");
        found.stderr
    };
    let error = refused(&["base.gguf", "--text", "short.txt"]);
    assert!(error.contains("expected at least 1024: two chunks of 512"), "{error}");
    // The text is shorter than two chunks of any size.
    let hint = "hint: a longer text is needed: it is too short for any --ctx\n";
    assert!(error.ends_with(hint), "{error}");
    // The command in the hint works.
    let error = refused(&["base.gguf", "--text", "story.txt"]);
    let context = error.trim_end().rsplit_once(": --ctx ").unwrap().1;
    let args = ["measure", "base.gguf", "--text", "story.txt", "--ctx", context];
    let found = ggmill(directory.path(), &args);
    assert!(found.code == 0 && found.stdout.contains("2 chunks of "), "{}", found.stderr);
    let error = refused(&["base.gguf", "--text", "story.txt", "--ctx", "1"]);
    assert!(error.contains("the length of chunks is 1, expected at least 4\n"), "{error}");
    assert!(error.contains("--ctx N takes larger chunks"), "{error}");
    for option in ["--kl-divergence", "--kl-divergence-base=logits", "--base=other.gguf"] {
        let error = refused(&["base.gguf", "--text", "story.txt", option]);
        assert!(error.contains("--against FILE"), "{option}: {error}");
    }
    let error = refused(&["base.gguf", "--tokens", "none.json"]);
    assert!(error.contains("expected a JSON array of token IDs"), "{error}");
    std::fs::write(directory.path().join("wrong.json"), format!("{:?}", vec![5000; 64])).unwrap();
    let error = refused(&["base.gguf", "--tokens", "wrong.json", "-c", "32"]);
    assert!(error.contains("token ID 5000, but the model has 512 tokens"), "{error}");
    let error = refused(&["base.gguf", "--text", "story.txt", "-c", "32", "--memory", "1MiB"]);
    assert!(error.contains("--memory SIZE"), "{error}");
    assert!(error.contains(" MiB of memory, but 1.00 MiB are allowed"), "{error}");
    let mut convert = command(directory.path());
    convert.arg("convert").arg(real("tinystories260K")).args(["-o", "v.gguf", "--vocab-only"]);
    assert_eq!(outcome(&mut convert).code, 0);
    let error = refused(&["v.gguf", "--text", "story.txt", "-c", "32"]);
    assert!(error.contains("v.gguf: the file has no tensors, only a vocabulary"), "{error}");
    let logits = ["base.gguf", "--text", "short.txt", "--logits", "out.npy"];
    refused(&logits);
    assert!(!directory.path().join("out.npy").exists(), "nothing is left behind");
}

#[test]
fn graphs_are_printed() {
    let mine = "schema = \"ggmill.architecture/1\"\nname = \"mine\"\ntitle = \"Mine\"\n";
    let directory = Directory::new().with("mine.toml", mine);
    let found = ggmill(directory.path(), &["explain", "qwen2", "--graph"]);
    assert_eq!((found.code, &*found.stderr), (0, ""));
    assert!(found.stdout.starts_with("# Qwen 2 and 2.5, operation set 1\n"), "{}", found.stdout);
    // The smallest operation set with all operations of the graph.
    for (architecture, set) in
        [("mamba", 2), ("t5", 3), ("whisper", 4), ("deepseek4", 5), ("graniteswitch", 6)]
    {
        let found = ggmill(directory.path(), &["explain", architecture, "--graph"]);
        let (title, _) = found.stdout.split_once('\n').unwrap();
        assert!(title.ends_with(&format!(", operation set {set}")), "{title}");
    }
    assert!(
        found
            .stdout
            .contains("\n    for i in range(block_count):\n        x = layer(x, i, rope_params)\n")
    );
    let found = ggmill(directory.path(), &["explain", "qwen2", "--graph", "--svg"]);
    assert!(
        found.stdout.starts_with("<svg ") && found.stdout.contains("embed(token_embd, tokens)")
    );
    for (name, why) in [
        ("mine", "the description of its architecture has none"),
        ("eagle3", "it needs the states of another model"),
        ("gemma4-assistant", "it needs the keys and values of another model"),
    ] {
        let found =
            ggmill(directory.path(), &["explain", name, "--graph", "--arch-file", "mine.toml"]);
        assert_eq!(found.code, 2);
        let message = format!("no computation graph for {name:?}: {why}\n");
        assert!(found.stderr.contains(&message), "{}", found.stderr);
        // A custom description cannot have a graph, either.
        assert_eq!(found.stderr.contains("--arch-file"), why.starts_with("the description"));
    }
}

/// Returns recorded logits, from those that `measure` wrote for the first chunk of 32 tokens.
fn recorded(ids: &[u32], npy: &[u8], change: impl Fn(f32) -> f32) -> Vec<u8> {
    let data = &npy[npy.iter().position(|&byte| byte == b'\n').unwrap() + 1..];
    let (ids, width) = (&ids[..32], 512);
    let mut file = FileBytes::v3(2, 0);
    // The tensor types I32 and F32.
    file.tensor("tokens", &[32], 26, 0).tensor("logits", &[width, 32], 0, 128).pad(32);
    for id in ids {
        file.raw(&id.to_le_bytes());
    }
    for value in data.chunks_exact(4).take(32 * 512) {
        file.raw(&change(f32::from_le_bytes(value.try_into().unwrap())).to_le_bytes());
    }
    file.into_bytes()
}

#[test]
fn a_conversion_is_verified_by_recorded_logits() {
    let ids: Vec<u32> = (3..99).collect();
    let directory = directory().with("ids.json", format!("{ids:?}"));
    let args = ["measure", "base.gguf", "--tokens", "ids.json", "-c", "32", "--logits", "out.npy"];
    assert_eq!(ggmill(directory.path(), &args).code, 0);
    let npy = std::fs::read(directory.path().join("out.npy")).unwrap();
    let same = recorded(&ids, &npy, |logit| logit);
    let directory =
        directory.with("same.gguf", &same).with("other.gguf", recorded(&ids, &npy, |logit| -logit));
    let run = |more: &[&str]| {
        let mut convert = command(directory.path());
        outcome(convert.arg("convert").arg(real("tinystories260K")).args(more))
    };
    let found = run(&["-o", "a.gguf", "--type", "q8_0", "--verify", "same.gguf"]);
    assert_eq!(found.code, 0, "{}", found.stderr);
    assert!(found.stdout.contains("recorded logits: NMSE "), "{}", found.stdout);
    let found = run(&["-o", "b.gguf", "--verify", "other.gguf"]);
    assert_eq!(found.code, 1, "{}", found.stderr);
    assert!(found.stdout.contains("outputs differ from the recorded ones"), "{}", found.stdout);
    // A file without recorded logits is rejected before anything is written.
    let found = run(&["-o", "c.gguf", "--verify", "base.gguf"]);
    assert_eq!(found.code, 2);
    assert!(found.stderr.contains("base.gguf: "), "{}", found.stderr);
    assert!(!directory.files().contains(&"c.gguf".to_owned()), "{:?}", directory.files());
    assert!(found.stderr.contains("expected recorded logits: tensor "), "{}", found.stderr);
    let found = run(&["-o", "c.gguf", "--verify", "story.txt"]);
    assert_eq!(found.code, 2);
    assert!(found.stderr.contains("story.txt: expected recorded logits: "), "{}", found.stderr);
    assert!(found.stderr.contains("with the tensors `tokens` (I32"), "{}", found.stderr);
    assert!(found.stderr.contains("`source` (I32, token IDs) or `source_vectors` (F32)"));
    // The record itself is not overwritten.
    let found = run(&["-o", "same.gguf", "--force", "--verify", "same.gguf"]);
    assert_eq!(found.code, 2);
    assert_eq!(std::fs::read(directory.path().join("same.gguf")).unwrap(), same);
    let found = run(&["--dry-run", "--verify", "same.gguf"]);
    assert_eq!(found.code, 2);
    let args = ["measure", "base.gguf", "--tokens", "ids.json", "-c", "32", "--chunks", "0"];
    let found = ggmill(directory.path(), &args);
    assert!(found.stderr.contains("0 is not in 1.."), "{}", found.stderr);
}

/// Stands for a Python interpreter: keeps its input, prints `answer`, and fails without one.
#[cfg(unix)]
const INTERPRETER: &str = "#!/bin/sh\ncat > request.json\necho $HF_HUB_OFFLINE > offline\n\
                           printf %s \"$2\" > script.py\ncat answer || exit 3\n";

#[cfg(unix)]
#[test]
fn a_conversion_is_verified_by_the_library() {
    use std::os::unix::fs::PermissionsExt;

    let directory = directory().with("python", INTERPRETER);
    let path = |name: &str| directory.path().join(name);
    std::fs::set_permissions(path("python"), std::fs::Permissions::from_mode(0o755)).unwrap();
    let run = |python: &str, more: &[&str]| {
        let mut convert = command(directory.path());
        convert.arg("convert").arg(real("tinystories260K")).args(["-o", "a.gguf", "--force"]);
        convert.args(["--verify", "auto"]).args(more).env("GGMILL_PYTHON", path(python));
        outcome(&mut convert)
    };
    // Without the library the file is compared with the conversion to F32.
    for python in ["absent", "python"] {
        let found = run(python, &["--type", "q8_0"]);
        assert_eq!(found.code, 0, "{}", found.stderr);
        assert!(found.stdout.contains("  conversion to F32: NMSE "), "{}", found.stdout);
        assert!(!found.stdout.contains("F32: NMSE 0.0e0"), "{}", found.stdout);
        assert!(found.stdout.contains("not compared with transformers: "), "{}", found.stdout);
    }
    let request: Json =
        serde_json::from_slice(&std::fs::read(path("request.json")).unwrap()).unwrap();
    let ids: Vec<u32> = serde_json::from_value(request["tokens"].clone()).unwrap();
    assert!(request["text"].is_string() && ids.len() > 32, "{request}");

    // The library's answer is what `measure` computes from a file.
    std::fs::write(path("ids.json"), format!("{:?}", [&*ids, &*ids].concat())).unwrap();
    let chunk = ids.len().to_string();
    let args =
        ["measure", "base.gguf", "--tokens", "ids.json", "-c", &chunk, "--logits", "out.npy"];
    assert_eq!(ggmill(directory.path(), &args).code, 0);
    let npy = std::fs::read(path("out.npy")).unwrap();
    let data =
        &npy[npy.iter().position(|&byte| byte == b'\n').unwrap() + 1..][..ids.len() * 512 * 4];
    let answer = |ids: &[u32], change: fn(f32) -> f32| {
        let mut bytes =
            format!("{{\"version\": \"5\", \"tokens\": {ids:?}, \"width\": 512}}\n").into_bytes();
        for value in data.chunks_exact(4) {
            let value = f32::from_le_bytes(value.try_into().unwrap());
            bytes.extend(change(value).to_le_bytes());
        }
        std::fs::write(path("answer"), bytes).unwrap();
    };
    answer(&ids, |logit| logit);
    // The conversion to F32 is compared, whatever the type of the file.
    let found = run("python", &["--type", "q4_0"]);
    assert_eq!(found.code, 0, "{}", found.stdout);
    assert!(found.stdout.contains("  transformers 5, compared"), "{}", found.stdout);
    assert!(found.stdout.contains(&format!(", {chunk} tokens of a text")), "{}", found.stdout);
    answer(&ids, |logit| logit * 1.01);
    let found = run("python", &[]);
    assert_eq!(found.code, 1, "{}", found.stdout);
    assert!(
        found.stdout.contains("differ from the library's by an NMSE of 9.8e-5"),
        "{}",
        found.stdout
    );
    answer(&ids[..40], |logit| logit);
    let found = run("python", &[]);
    assert_eq!(found.code, 1, "{}", found.stdout);
    assert!(found.stdout.contains("token 40 of the text differs"), "{}", found.stdout);
    std::fs::write(path("answer"), "{\"incomparable\": \"no logits\"}\n").unwrap();
    let found = run("python", &[]);
    assert_eq!(found.code, 0, "{}", found.stdout);
    assert!(found.stdout.contains("not compared with transformers: no logits"), "{}", found.stdout);
}

#[cfg(unix)]
#[test]
fn the_library_executes_nothing_of_the_checkpoint() {
    use std::os::unix::fs::PermissionsExt;

    let directory = Directory::new()
        .with("python", INTERPRETER)
        .with("torch.py", "open('executed', 'w')")
        .with("json.py", "open('executed', 'w')");
    let path = |name: &str| directory.path().join(name);
    std::fs::set_permissions(path("python"), std::fs::Permissions::from_mode(0o755)).unwrap();
    let run = |python: &std::path::Path| {
        let mut convert = command(directory.path());
        convert.arg("convert").arg(real("tinystories260K")).args(["-o", "a.gguf", "--force"]);
        outcome(convert.args(["--verify", "auto"]).env("GGMILL_PYTHON", python))
    };
    assert_eq!(run(&path("python")).code, 0);
    assert_eq!(std::fs::read_to_string(path("offline")).unwrap(), "1\n");
    let script = std::fs::read_to_string(path("script.py")).unwrap();
    let loads = script.matches("from_pretrained(").count();
    assert_eq!((loads, script.matches("**local").count()), (3, 3), "{script}");
    assert!(script.contains(r#"{"local_files_only": True, "trust_remote_code": False}"#));
    // With a real interpreter, which may lack the library, modules of the directory are not imported.
    if std::process::Command::new("python3").arg("--version").output().is_ok() {
        assert_eq!(run("python3".as_ref()).code, 0);
        assert!(!path("executed").exists());
    } else {
        println!("skipped: no python3");
    }
}
