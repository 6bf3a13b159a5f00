//! `ggmill convert` of adapters and `ggmill lora`, from the command line.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::support::{Directory, Outcome, command, ggmill, outcome, real};

/// Returns a safetensors file with F32 tensors.
fn safetensors(tensors: &[(&str, [u64; 2])]) -> Vec<u8> {
    let (mut header, mut data) = (serde_json::Map::new(), Vec::new());
    for (name, shape) in tensors {
        let start = data.len();
        let numbers = (0..13u8).cycle().map(|number| f32::from(number) / 64.0 - 0.1);
        let count = usize::try_from(shape[0] * shape[1]).unwrap();
        data.extend(numbers.take(count).flat_map(f32::to_le_bytes));
        let tensor = json!({ "dtype": "F32", "shape": shape, "data_offsets": [start, data.len()] });
        header.insert((*name).to_owned(), tensor);
    }
    let header = Value::Object(header).to_string();
    [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), &data].concat()
}

/// Writes the directory of an adapter of the bundled model, with factors for one weight.
pub(crate) fn write_adapter(path: &Path, config: &Value) {
    const Q: &str = "base_model.model.model.layers.1.self_attn.q_proj";
    let names = [format!("{Q}.lora_A.weight"), format!("{Q}.lora_B.weight")];
    let weights = safetensors(&[(&names[0], [4, 64]), (&names[1], [64, 4])]);
    fs::create_dir(path).unwrap();
    fs::write(path.join("adapter_config.json"), config.to_string()).unwrap();
    fs::write(path.join("adapter_model.safetensors"), weights).unwrap();
}

fn with_adapter(config: &Value) -> Directory {
    let directory = Directory::new();
    write_adapter(&directory.path().join("style"), config);
    directory
}

fn usual() -> Directory {
    let config = json!({
        "peft_type": "LORA", "lora_alpha": 8, "r": 4,
        "base_model_name_or_path": "base",
    });
    let directory = with_adapter(&config);
    // The base is found below the adapter; elsewhere it needs --base.
    let base = directory.path().join("style/base");
    fs::create_dir(&base).unwrap();
    for file in fs::read_dir(real("tinystories260K")).unwrap() {
        let file = file.unwrap();
        fs::copy(file.path(), base.join(file.file_name())).unwrap();
    }
    directory
}

#[test]
fn an_adapter_is_converted_shown_and_merged() {
    let directory = usual();
    let run = |args: &[&str]| {
        let Outcome { code, stdout, stderr } = ggmill(directory.path(), args);
        assert_eq!(code, 0, "{args:?}: {stderr}");
        stdout
    };
    run(&["convert", "style"]);
    run(&[
        "lora",
        "convert",
        "style",
        "--base",
        real("tinystories260K").to_str().unwrap(),
        "-o",
        "same.gguf",
    ]);
    let read = |name: &str| fs::read(directory.path().join(name)).unwrap();
    assert!(read("style-F32.gguf") == read("same.gguf"));
    let shown = run(&["inspect", "same.gguf"]);
    assert!(shown.contains("lora · rank 4 · alpha 8"), "{shown}");
    assert!(shown.contains("1 tensor · attn_q"), "{shown}");
    let shown: Value = serde_json::from_str(&run(&["inspect", "same.gguf", "--json"])).unwrap();
    assert_eq!(
        shown["summary"]["adapter"],
        json!({
            "type": "lora", "rank": 4, "alpha": 8.0, "base": null, "changed": 1,
            "targets": ["blk.N.attn_q.weight"],
        })
    );

    let model = real("tinystories260K");
    let converted = outcome(command(directory.path()).arg("convert").arg(model).args([
        "-o",
        "base.gguf",
        "--type",
        "q8_0",
    ]));
    assert_eq!(converted.code, 0, "{}", converted.stderr);
    run(&["lora", "merge", "base.gguf", "same.gguf", "-o", "merged.gguf"]);
    run(&[
        "lora",
        "merge",
        "base.gguf",
        "same.gguf=0.5",
        "style-F32.gguf=0.5",
        "-o",
        "halves.gguf",
    ]);
    run(&["lora", "merge", "base.gguf", "same.gguf=0", "-o", "none.gguf"]);
    run(&[
        "lora",
        "merge",
        "base.gguf",
        "same.gguf",
        "-o",
        "shards.gguf",
        "--split-max-tensors",
        "20",
    ]);
    assert!(read("none.gguf") == read("base.gguf"));
    assert!(
        read("merged.gguf") != read("base.gguf")
            && read("merged.gguf").len() == read("base.gguf").len()
    );
    let differs =
        ggmill(directory.path(), &["diff", "base.gguf", "merged.gguf", "--data", "--json"]);
    assert_eq!(differs.code, 1);
    assert!(differs.stdout.contains("blk.1.attn_q.weight"), "{}", differs.stdout);
    assert!(!differs.stdout.contains("blk.0.attn_q.weight"), "{}", differs.stdout);
    // Two halves equal the whole, within the precision of Q8_0.
    let same = ggmill(directory.path(), &["diff", "merged.gguf", "halves.gguf", "--data"]);
    assert_eq!(same.code, 0, "{}", same.stdout);
    run(&["merge", "shards-00001-of-00003.gguf", "-o", "again.gguf"]);
    assert!(read("again.gguf") == read("merged.gguf"));
    // The options of llama-export-lora.
    run(&["lora", "merge", "-m", "base.gguf", "--lora", "same.gguf", "-o", "m.gguf"]);
    assert!(read("m.gguf") == read("merged.gguf"));
    let scaled = ["--lora-scaled", "same.gguf", "0.5", "--lora-scaled", "style-F32.gguf", "0.5"];
    run(&[&["lora", "merge", "--model", "base.gguf"], &scaled[..], &["-o", "s.gguf"]].concat());
    assert!(read("s.gguf") == read("halves.gguf"));
    // A negative scale is not an option.
    run(&["lora", "merge", "base.gguf", "same.gguf=-0.5", "-o", "minus.gguf"]);
    for scale in ["-0.5", "-.5", "-5e-1"] {
        let scaled = ["--lora-scaled", "same.gguf", scale, "--force", "-o", "s.gguf"];
        run(&[&["lora", "merge", "-m", "base.gguf"], &scaled[..]].concat());
        assert!(read("s.gguf") == read("minus.gguf"), "{scale}");
    }
    run(&["lora", "merge", "-m", "base.gguf", "same.gguf", "-o", "p.gguf"]);
    assert!(read("p.gguf") == read("merged.gguf"));
    for (args, words) in [
        (&["base.gguf", "-o", "x.gguf"][..], "<ADAPTER[=SCALE]>..."),
        (&["-m", "base.gguf", "-o", "x.gguf"], "expected an adapter"),
        (
            &["-m", "base.gguf", "--lora-scaled", "same.gguf", "y", "-o", "x.gguf"],
            "scale \"y\", expected a number",
        ),
    ] {
        let found = ggmill(directory.path(), &[&["lora", "merge"], args].concat());
        assert_eq!(found.code, 2, "{args:?}");
        assert!(found.stderr.contains(words), "{args:?}: {}", found.stderr);
    }
}

/// A GGUF file of the base gives the same result as its directory.
#[test]
fn the_base_may_be_a_file() {
    let directory = usual();
    let run = |arguments: &[&str]| {
        let outcome = ggmill(directory.path(), arguments);
        assert_eq!(outcome.code, 0, "{arguments:?}: {}", outcome.stderr);
    };
    let base = real("tinystories260K");
    run(&["convert", base.to_str().unwrap(), "-o", "base.gguf"]);
    run(&["convert", base.to_str().unwrap(), "--type", "Q8_0", "-o", "small.gguf"]);
    run(&["convert", "style", "-o", "expected.gguf"]);
    let read = |name: &str| fs::read(directory.path().join(name)).unwrap();
    for (file, out) in [("base.gguf", "of-file.gguf"), ("small.gguf", "of-small.gguf")] {
        run(&["convert", "style", "--base", file, "-o", out]);
        assert!(read(out) == read("expected.gguf"), "{file}");
    }
}

/// Every failure names the file, and no files remain.
#[test]
fn failures_leave_no_files() {
    let directory = usual();
    assert_eq!(ggmill(directory.path(), &["convert", "style"]).code, 0);
    let before = directory.files();
    let base = real("tinystories260K");
    let base = base.to_str().unwrap();
    fs::write(directory.path().join("empty"), "").unwrap();
    let cases: [(&[&str], &str); 8] = [
        (
            &["convert", "style", "--type", "Q4_K_M", "-o", "x.gguf"],
            "Q4_K_M: an adapter can be F32, F16, BF16 or Q8_0",
        ),
        (
            &["convert", "style", "--vocab-only", "-o", "x.gguf"],
            "--vocab-only: not supported for adapters",
        ),
        (
            &["convert", "style", "--base", "empty", "-o", "x.gguf"],
            "empty: offset 0x0: magic needs",
        ),
        (&["convert", "style", "--base", "style", "-o", "x.gguf"], "config.json"),
        (&["convert", base, "--base", base, "-o", "x.gguf"], "is not an adapter"),
        (&["convert", "style"], "--force replaces it"),
        (
            &["lora", "merge", "style-F32.gguf", "style-F32.gguf", "-o", "x.gguf"],
            "does not have (1 of 1): blk.1.attn_q.weight",
        ),
        (
            &["lora", "merge", "style-F32.gguf", "style-F32.gguf=much", "-o", "x.gguf"],
            "scale \"much\", expected a number",
        ),
    ];
    for (args, expected) in cases {
        let Outcome { code, stdout, stderr } = ggmill(directory.path(), args);
        assert_eq!((code, &*stdout), (2, ""), "{args:?}: {stderr}");
        assert!(stderr.contains(expected), "{args:?}: {stderr}");
    }
    fs::remove_file(directory.path().join("empty")).unwrap();
    assert_eq!(directory.files(), before);

    let lora = json!({ "peft_type": "LORA", "lora_alpha": 8 });
    let directory = with_adapter(&lora);
    let Outcome { code, stderr, .. } = ggmill(directory.path(), &["convert", "style"]);
    assert!(code == 2 && stderr.contains("does not specify its base"), "{stderr}");
    assert!(
        stderr.contains("hint: --base names the base model: its GGUF file, or its directory"),
        "{stderr}"
    );
    let elsewhere =
        json!({ "lora_alpha": 8, "base_model_name_or_path": "meta-llama/Llama-3.2-1B" });
    let directory = with_adapter(&elsewhere);
    let Outcome { code, stderr, .. } = ggmill(directory.path(), &["convert", "style"]);
    assert!(
        code == 2
            && stderr.contains("\"meta-llama/Llama-3.2-1B\", which is not a directory below the "),
        "{stderr}"
    );
}

/// The name of the base in an adapter is not a path to anywhere else.
#[test]
fn the_base_of_an_adapter_is_only_searched_below_it() {
    let directory = Directory::new();
    let base = directory.path().join("elsewhere");
    fs::create_dir(&base).unwrap();
    for file in fs::read_dir(real("tinystories260K")).unwrap() {
        let file = file.unwrap();
        fs::copy(file.path(), base.join(file.file_name())).unwrap();
    }
    let names = [
        base.to_str().unwrap().to_owned(),
        "../elsewhere".to_owned(),
        "./../elsewhere".to_owned(),
        "elsewhere".to_owned(),
        ".".to_owned(),
        "link".to_owned(),
    ];
    for (number, name) in names.iter().enumerate() {
        let adapter = directory.path().join(format!("adapter{number}"));
        let config = json!({ "peft_type": "LORA", "lora_alpha": 8, "r": 4,
            "base_model_name_or_path": name });
        write_adapter(&adapter, &config);
        #[cfg(unix)]
        std::os::unix::fs::symlink(&base, adapter.join("link")).unwrap();
        let found = ggmill(directory.path(), &["convert", adapter.to_str().unwrap()]);
        assert_eq!(found.code, 2, "{name}");
        assert!(found.stderr.contains("--base"), "{name}: {}", found.stderr);
    }
}
