//! `ggmill quantize` with types for a size, plans and reports, from the command line.

use std::fs;

use ggmill_testdata::bytes::FileBytes;
use ggmill_testdata::models::models;
use serde_json::Value;

use crate::support::{Directory, Outcome, ggmill, quantize, quantized, real};

fn directory() -> Directory {
    let llama = models().into_iter().find(|model| model.name == "llama").unwrap();
    Directory::new().with("llama.gguf", &llama.file).with("imatrix", llama.imatrix())
}

/// Runs a command that must fail with exit code 2 and this message, and write nothing.
fn refused(directory: &Directory, args: &[&str], words: &str) {
    let before = directory.files();
    let found = quantize(directory, args);
    assert_eq!((found.code, &*found.stdout), (2, ""), "{args:?}: {}", found.stderr);
    assert!(found.stderr.contains(words), "{args:?}: {}", found.stderr);
    assert_eq!(directory.files(), before, "{args:?}");
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

#[test]
fn a_size_is_met_and_its_plan_gives_the_same_bytes() {
    let directory = directory();
    let dry = quantized(
        &directory,
        &["llama.gguf", "--target-bpw", "5", "--imatrix", "imatrix", "--dry-run", "--json"],
    );
    assert!(
        dry.stderr.starts_with("note: chose types with ")
            && dry.stderr.contains("; no choice of this size has less than "),
        "{}",
        dry.stderr
    );
    assert_eq!(json(&dry.stdout)["output"], "ggml-model-CUSTOM.gguf");
    fs::write(directory.path().join("plan.json"), &dry.stdout).unwrap();

    let direct = quantized(
        &directory,
        &["llama.gguf", "direct.gguf", "--target-bpw", "5", "--imatrix", "imatrix"],
    );
    let planned = quantized(
        &directory,
        &[
            "llama.gguf",
            "planned.gguf",
            "--plan",
            "plan.json",
            "--imatrix",
            "imatrix",
            "--threads",
            "1",
        ],
    );
    let read = |name: &str| fs::read(directory.path().join(name)).unwrap();
    assert!(read("direct.gguf") == read("planned.gguf"), "{}{}", direct.stderr, planned.stderr);
    assert_eq!(json(&dry.stdout)["file_size"], read("direct.gguf").len());

    // A size in bytes: the size of the file is met exactly; one byte below the minimum fails.
    let size = read("direct.gguf").len();
    let fitted = json(
        &quantized(
            &directory,
            &[
                "llama.gguf",
                "--target-size",
                &size.to_string(),
                "--imatrix",
                "imatrix",
                "--dry-run",
                "--json",
            ],
        )
        .stdout,
    );
    assert!(fitted["file_size"].as_u64().unwrap() <= size as u64);
    let found = quantize(&directory, &["llama.gguf", "x.gguf", "--target-size", "10K"]);
    assert_eq!((found.code, &*found.stdout), (2, ""));
    assert!(
        found.stderr.starts_with(
            "error: 9.77 KiB is too little: the smallest possible size of this model is "
        ),
        "{}",
        found.stderr
    );
    assert!(
        found.stderr.ends_with(
            "hint: with an importance matrix (--imatrix FILE), smaller types can be used\n"
        ),
        "{}",
        found.stderr
    );
    quantized(&directory, &["llama.gguf", "once.gguf", "Q8_0"]);
    let found =
        quantize(&directory, &["once.gguf", "x.gguf", "--target-bpw", "4", "--imatrix", "imatrix"]);
    assert!(
        found.code == 2
            && found.stderr.ends_with(
                "hint: --allow-requantize requantizes tensors that are already quantized, which \
                 loses quality\n"
            )
    );
    // A complete plan makes other options ineffective.
    let told = quantized(
        &directory,
        &[
            "llama.gguf",
            "--plan",
            "plan.json",
            "--imatrix",
            "imatrix",
            "--tensor-type",
            "attn=q8_0",
            "--dry-run",
        ],
    );
    assert!(
        told.stderr.starts_with(
            "note: a plan specifies the type of every tensor, so other options for types have no \
             effect\n"
        ),
        "{}",
        told.stderr
    );

    // Shards of a plan, and the plan of shards.
    let shards = quantized(
        &directory,
        &[
            "llama.gguf",
            "cut",
            "--plan",
            "plan.json",
            "--imatrix",
            "imatrix",
            "--split-max-tensors",
            "50",
            "--json",
        ],
    );
    fs::write(directory.path().join("plans.json"), &shards.stdout).unwrap();
    let again = json(
        &quantized(
            &directory,
            &["cut-00001-of-00002.gguf", "--plan", "plans.json", "--dry-run", "--json"],
        )
        .stdout,
    );
    assert_eq!(again["tensors"], json(&dry.stdout)["tensors"]);
}

#[test]
fn the_quantization_error_is_reported() {
    let directory = directory();
    let args = ["llama.gguf", "out.gguf", "Q4_K_M", "--imatrix", "imatrix", "--force", "--report"];
    let shown = quantized(&directory, &[&args[..], &["-"]].concat());
    assert!(
        shown.stdout.contains("blk.8.ffn_down.weight     F16 → Q6_K   6.56  1."),
        "{}",
        shown.stdout
    );
    assert!(
        shown.stdout.contains(
            "errors are square roots of noise-to-signal ratios, weighted by importance where \
             available"
        ),
        "{}",
        shown.stdout
    );

    quantized(&directory, &[&args[..], &["lost.json"]].concat());
    let report = json(&fs::read_to_string(directory.path().join("lost.json")).unwrap());
    assert_eq!(
        (&report["schema"], &report["output"], &report["weighted"]),
        (&"ggmill.loss/1".into(), &"out.gguf".into(), &true.into())
    );
    let program = format!("ggmill {}", env!("CARGO_PKG_VERSION"));
    assert_eq!(
        (&report["input"], &report["imatrix"], &report["program"]),
        (&"llama.gguf".into(), &"imatrix".into(), &program.as_str().into())
    );
    // The page has the same numbers, in one format.
    quantized(&directory, &[&args[..], &["lost.html"]].concat());
    let page = fs::read_to_string(directory.path().join("lost.html")).unwrap();
    let told = format!(
        "The error of each tensor of out.gguf against llama.gguf, with the importance matrix \
         imatrix; measured by {program}"
    );
    assert!(page.contains(&told), "{page}");
    assert!(!page.contains("anywhere}\ntr") && page.contains("blk.<wbr>0.<wbr>"), "{page}");
    let cells =
        page.split("<td>").skip(1).filter_map(|cell| cell.split_once(" %")).map(|(cell, _)| cell);
    for percentage in cells {
        let decimals = percentage.split_once('.').map_or(0, |(_, decimals)| decimals.len());
        assert!(percentage == "0" || decimals == 3, "{percentage}");
    }
    let tensors = report["tensors"].as_array().unwrap();
    let number = |value: &Value| value.as_f64().unwrap();
    let total = |field: &str| tensors.iter().map(|tensor| number(&tensor[field])).sum::<f64>();
    assert!(
        (total("share") - 1.0).abs() < 1e-9
            && (total("size") - number(&report["size"])).abs() < 0.5
    );
    let lost: f64 = tensors
        .iter()
        .map(|tensor| {
            number(&tensor["relative"])
                * tensor["shape"].as_array().unwrap().iter().map(number).product::<f64>()
        })
        .sum();
    assert!((lost / number(&report["weights"]) / number(&report["relative"]) - 1.0).abs() < 1e-9);
    // The numbers equal those of diff without an importance matrix.
    let diff = json(
        &ggmill(
            directory.path(),
            &["diff", "llama.gguf", "out.gguf", "--data", "--tensors", "--json"],
        )
        .stdout,
    );
    let mut compared = 0;
    for tensor in diff["tensors"].as_array().unwrap() {
        let ours = tensors.iter().find(|other| other["name"] == tensor["name"]).unwrap();
        let (a, b) = (number(&ours["rmse"]), number(&tensor["data"]["rmse"]));
        assert!((a - b).abs() <= 1e-12 * b, "{}: {a}, {b}", tensor["name"]);
        compared += 1;
    }
    assert!(compared > 60);

    // A report needs a valid path, and a failure leaves no files.
    refused(
        &directory,
        &["llama.gguf", "new.gguf", "Q8_0", "--report", "lost.json"],
        "lost.json: already exists\nhint: --force replaces it",
    );
    refused(
        &directory,
        &["llama.gguf", "new.gguf", "Q8_0", "--report", "llama.gguf", "--force"],
        "llama.gguf: is an input, so it cannot be the output",
    );
    refused(
        &directory,
        &["llama.gguf", "new.gguf", "Q8_0", "--report", "new.gguf"],
        "new.gguf: is the output",
    );
    refused(
        &directory,
        &["llama.gguf", "new.gguf", "Q8_0", "--report", "-", "--json"],
        "both write to standard output",
    );
    refused(
        &directory,
        &["llama.gguf", "new.gguf", "Q8_0", "--report", "no/such/directory/x"],
        "no/such/directory",
    );
    refused(
        &directory,
        &["llama.gguf", "new.gguf", "IQ1_S", "--report", "new.html"],
        "IQ1_S requires importance weights",
    );
}

/// Names with markup or control characters.
#[test]
fn names_in_a_page_are_escaped() {
    let mut file = FileBytes::v3(2, 1);
    file.pair("general.architecture", &"<b>".into());
    let name = "</title><script>alert(1)</script>\"onload='x'&\u{1b}[31m.weight";
    file.tensor(name, &[32, 2], 0, 0).tensor("plain.weight", &[32, 2], 0, 256).pad(32);
    for number in 0..128u8 {
        file.f32(f32::from(number) - 60.5);
    }
    let directory = Directory::new().with("<img src=x>.gguf", file.into_bytes());
    quantized(
        &directory,
        &["<img src=x>.gguf", "<svg onload=y>.gguf", "Q4_0", "--report", "lost.html"],
    );
    let page = fs::read_to_string(directory.path().join("lost.html")).unwrap();
    assert!(page.starts_with("<!doctype html>") && page.contains("default-src 'none'"), "{page}");
    assert!(
        page.contains("&lt;/title&gt;&lt;script&gt;alert(1)&lt;/script&gt;&quot;")
            && page.contains("&lt;svg onload=y&gt;.gguf"),
        "{page}"
    );
    for forbidden in [
        "<script",
        "<img",
        "onload='",
        "<svg onload",
        "http://",
        "https://",
        "\u{1b}",
        "@import",
        "url(",
    ] {
        assert!(!page.contains(forbidden), "{forbidden}");
    }
    // Every tag is one that the page uses.
    let ours = [
        "!doctype", "html", "meta", "title", "style", "h1", "p", "b", "svg", "rect", "path",
        "text", "span", "table", "thead", "tbody", "tr", "th", "td", "div", "wbr",
    ];
    for tag in page.split('<').skip(1) {
        let tag = tag
            .trim_start_matches('/')
            .split(|c: char| !c.is_ascii_alphanumeric() && c != '!')
            .next()
            .unwrap();
        assert!(ours.contains(&tag), "<{tag}");
    }
    // Every tag is closed in the right order; the end of a cell can be omitted.
    let mut open = Vec::new();
    for tag in page.split('<').skip(1).map(|rest| rest.split_once('>').unwrap().0) {
        let name = tag.trim_start_matches('/').split(' ').next().unwrap();
        let is_cell = ["td", "th"].contains(&name);
        if ["!doctype", "meta", "wbr"].contains(&name) || tag.ends_with('/') {
            continue;
        }
        if open.last().is_some_and(|last| ["td", "th"].contains(last))
            && (is_cell || tag.starts_with("/tr"))
        {
            open.pop();
        }
        if tag.starts_with('/') {
            assert_eq!(open.pop(), Some(name));
        } else {
            open.push(name);
        }
    }
    assert!(open.is_empty(), "{open:?}");
    let shown = quantized(&directory, &["<img src=x>.gguf", "x.gguf", "Q8_0", "--report", "-"]);
    assert!(!shown.stdout.contains('\u{1b}'), "{}", shown.stdout);
}

/// Headers of shards count: all files together are within the size.
#[test]
fn shards_are_within_a_size() {
    let directory = directory();
    let ask = |size: u64, cut: &[&str]| {
        let size = size.to_string();
        quantize(
            &directory,
            &[&["llama.gguf", "x", "--target-size", &size, "--dry-run", "--json"], cut].concat(),
        )
    };
    let least = |found: &Outcome| -> u64 {
        found
            .stderr
            .split(" this model is ")
            .nth(1)
            .and_then(|text| text.split(' ').next()?.parse().ok())
            .unwrap()
    };
    let whole = least(&ask(1000, &[]));
    for cut in [["--split-max-tensors", "7"], ["--split-max-size", "20K"]] {
        let sum = |found: &Outcome| {
            json(&found.stdout)["plans"]
                .as_array()
                .unwrap()
                .iter()
                .map(|plan| plan["file_size"].as_u64().unwrap())
                .sum::<u64>()
        };
        for size in [whole + 8000, whole * 5 / 4, whole * 3 / 2] {
            let found = ask(size, &cut);
            assert_eq!(found.code, 0, "{}", found.stderr);
            assert!(sum(&found) <= size, "{cut:?}: {} of {size}", sum(&found));
        }
        // A size for one file is too small for many shards; the error has the minimum, which works,
        // and one byte less fails.
        let refused = ask(whole, &cut);
        assert_eq!(refused.code, 2, "{}", refused.stdout);
        let least = least(&refused);
        assert!(least > whole && sum(&ask(least, &cut)) <= least);
        assert_eq!(ask(least - 1, &cut).code, 2);
    }
}

/// A name that is not UTF-8 is preserved in a plan, and matches its tensor.
#[test]
fn a_plan_preserves_names_that_are_not_utf_8() {
    let mut file = FileBytes::v3(2, 1);
    file.pair("general.architecture", &"none".into());
    file.tensor(b"\xff\x00.weight", &[32, 2], 0, 0)
        .tensor("plain.weight", &[32, 2], 0, 256)
        .pad(32);
    for number in 0..128u8 {
        file.f32(f32::from(number) - 60.5);
    }
    let directory = Directory::new().with("odd.gguf", file.into_bytes());
    let dry = quantized(
        &directory,
        &["odd.gguf", "x.gguf", "Q4_0", "--tensor-type", "plain=q8_0", "--dry-run", "--json"],
    );
    let named: Vec<Value> = json(&dry.stdout)["tensors"]
        .as_array()
        .unwrap()
        .iter()
        .map(|tensor| tensor["name"].clone())
        .collect();
    assert!(
        named.contains(&serde_json::json!({ "bytes_hex": "ff002e776569676874" }))
            && named.contains(&"plain.weight".into()),
        "{named:?}"
    );
    fs::write(directory.path().join("plan.json"), &dry.stdout).unwrap();
    quantized(&directory, &["odd.gguf", "direct.gguf", "Q4_0", "--tensor-type", "plain=q8_0"]);
    let planned = json(
        &quantized(&directory, &["odd.gguf", "planned.gguf", "--plan", "plan.json", "--json"])
            .stdout,
    );
    assert_eq!(planned["tensors"], json(&dry.stdout)["tensors"]);
    fs::write(directory.path().join("half.json"), dry.stdout.replace("ff002e", "ff02e")).unwrap();
    refused(
        &directory,
        &["odd.gguf", "y.gguf", "--plan", "half.json"],
        "half.json: contains a tensor without a name or a type",
    );
    fs::write(directory.path().join("other.json"), dry.stdout.replace("ff002e", "ff012e")).unwrap();
    refused(
        &directory,
        &["odd.gguf", "y.gguf", "--plan", "other.json"],
        "is in the plan, but not in the model",
    );
}

/// Roles come from a description of the architecture; a file of roles has precedence.
#[test]
fn roles_come_from_a_description() {
    let mut file = FileBytes::v3(3, 1);
    file.pair("general.architecture", &"mine".into());
    let names = ["blk.0.w2.weight", "blk.0.w3.weight", "blk.0.mix.weight"];
    for (name, place) in names.iter().zip(0..) {
        file.tensor(name, &[256, 4], 0, place * 4096);
    }
    file.pad(32);
    for number in 0..3 * 1024_u16 {
        file.f32(f32::from(number % 97) - 48.0);
    }
    let mine = r#"
        schema = "ggmill.architecture/1"
        name = "mine"
        title = "Mine"
        [[tensors]]
        for = "bid in 0..1"
        [tensors.tensor]
        "blk.{bid}.w2.weight" = { shape = [256, 4], role = "ffn.down", required = false }
        "blk.{bid}.mix.weight" = { shape = [256, 4], role = "norm", required = false }
    "#;
    let directory = Directory::new()
        .with("mine.gguf", file.into_bytes())
        .with("mine.toml", mine)
        .with("other.toml", mine.replacen("\"mine\"", "\"other\"", 1))
        .with("rules", "w2=attention.k\nw3=norm");
    let types = |args: &[&str]| {
        let found = quantized(
            &directory,
            &[&["mine.gguf", "x.gguf", "Q4_K_M", "--dry-run", "--json"], args].concat(),
        );
        let plan = json(&found.stdout);
        names.map(|name| {
            plan["tensors"]
                .as_array()
                .unwrap()
                .iter()
                .find(|tensor| tensor["name"] == name)
                .unwrap()["type"]
                .as_str()
                .unwrap()
                .to_owned()
        })
    };
    assert_eq!(types(&[]), ["Q4_K", "Q4_K", "Q4_K"]);
    assert_eq!(types(&["--arch-file", "mine.toml"]), ["Q6_K", "Q4_K", "F32"]);
    assert_eq!(
        types(&["--arch-file", "mine.toml", "--role-file", "rules"]),
        ["Q4_K", "F32", "F32"]
    );
    let other = ["mine.gguf", "x.gguf", "Q4_K_M", "--arch-file", "other.toml"];
    refused(
        &directory,
        &other,
        "the architecture of the model is \"mine\", but --arch-file describes \"other\"",
    );
    refused(&directory, &["mine.gguf", "x.gguf", "Q4_K_M", "--arch-file", "rules"], "rules: ");
    refused(
        &directory,
        &["mine.gguf", "mine.toml", "Q4_K_M", "--arch-file", "mine.toml", "--force"],
        "mine.toml: is an input, so it cannot be the output",
    );
}

/// Invalid goals and plans.
#[test]
fn invalid_goals_and_plans_are_refused() {
    let directory = directory()
        .with(
            "odd.json",
            r#"{"schema":"ggmill.plan/1","tensors":[{"name":"nobody","type":"Q4_0"}]}"#,
        )
        .with("roles", "w2=down");
    let cases: &[(&[&str], &str)] = &[
        (
            &["llama.gguf", "x.gguf", "--target-bpw", "1"],
            "1 bits per weight are too few: the smallest possible size of this model is ",
        ),
        (
            &["llama.gguf", "x.gguf", "--target-bpw", "nan"],
            "NaN bits per weight, expected more than 0",
        ),
        (
            &["llama.gguf", "x.gguf", "--target-size", "much"],
            "expected a number followed by K, M, G or T",
        ),
        (
            &["llama.gguf", "x.gguf", "Q4_K_M", "--target-size", "1G"],
            "both a type and a target size were given, expected one of them",
        ),
        (
            &["llama.gguf", "x.gguf", "--target-size", "1G", "--target-bpw", "4"],
            "cannot be used with",
        ),
        (
            &["llama.gguf", "x.gguf", "--plan", "odd.json"],
            "tensor \"nobody\": is in the plan, but not in the model",
        ),
        (&["llama.gguf", "x.gguf", "--plan", "roles"], "roles: is not valid JSON"),
        (&["llama.gguf", "odd.json", "--plan", "odd.json", "--force"], "error: "),
        (
            &["llama.gguf", "x.gguf", "Q8_0", "--role-file", "roles"],
            "roles: line 1: \"w2=down\": \"down\" is not a role, expected one of token_embedding",
        ),
        (&["llama.gguf", "x.gguf"], "\"x.gguf\" is not a type"),
        (
            &["llama.gguf", "x.gguf", "Q8_0", "999999999"],
            "\"999999999\" is not a number of threads up to 512",
        ),
        (
            &["llama.gguf", "x.gguf", "Q8_0", "--threads", "999999999"],
            "expected a number up to 512",
        ),
    ];
    for (args, words) in cases {
        refused(&directory, args, words);
    }
}

/// Invalid input leaves no files.
#[test]
fn broken_input_leaves_no_output() {
    let directory = directory();
    let llama = fs::read(directory.path().join("llama.gguf")).unwrap();
    let directory = directory.with("cut.gguf", &llama[..llama.len() - 1000]).with(
        "other",
        models().into_iter().find(|model| model.name == "falcon").unwrap().imatrix(),
    );
    quantized(&directory, &["llama.gguf", "once.gguf", "Q4_K_M"]);
    refused(&directory, &["cut.gguf", "x.gguf", "Q4_K_M"], "cut.gguf: ");
    refused(&directory, &["cut.gguf", "x.gguf", "--target-bpw", "6"], "cut.gguf: ");
    refused(
        &directory,
        &["once.gguf", "x.gguf", "Q2_K"],
        "is already Q4_K, and quantizing it again to Q2_K would lose more precision\nhint: \
         --allow-requantize",
    );
    refused(
        &directory,
        &["llama.gguf", "x.gguf", "Q4_K_M", "--imatrix", "other"],
        "tensor \"blk.0.ffn_down.weight\": 256 importance weights, expected 512",
    );
    let exclude = [
        "llama.gguf",
        "x.gguf",
        "IQ2_XS",
        "--imatrix",
        "imatrix",
        "--exclude-weights",
        "blk.3.ffn_up",
    ];
    refused(
        &directory,
        &exclude,
        "tensor \"blk.3.ffn_up.weight\": IQ2_XS requires importance weights, but the importance \
         matrix has none for this tensor",
    );
    let mut matrix = fs::read(directory.path().join("imatrix")).unwrap();
    let sums = ggmill_core::Header::parse(&matrix[..]).unwrap();
    let sums = sums.tensors().get("blk.3.ffn_down.weight.in_sum2").unwrap();
    let start = sums.data().unwrap().as_ptr().addr() - matrix.as_ptr().addr() + 7 * 4;
    matrix[start..start + 4].copy_from_slice(&f32::INFINITY.to_le_bytes());
    let directory = directory.with("infinite", matrix);
    for types in [&["Q4_K_M"][..], &["--target-bpw", "5"]] {
        let args = [&["llama.gguf", "x.gguf", "--imatrix", "infinite"], types].concat();
        refused(
            &directory,
            &args,
            "infinite: entry \"blk.3.ffn_down.weight\": weight 7 is not finite",
        );
    }
    // A weight that is not finite is found in the middle of the work.
    let mut nan = llama.clone();
    let end = nan.len();
    nan[end - 4..].copy_from_slice(&f32::NAN.to_le_bytes());
    let directory = directory.with("nan.gguf", nan);
    refused(
        &directory,
        &["nan.gguf", "x.gguf", "Q8_0", "--report", "x.html"],
        "expected a finite number",
    );
    refused(
        &directory,
        &["nan.gguf", "x", "Q8_0", "--split-max-tensors", "9"],
        "expected a finite number",
    );
}

/// On a full disk, neither shards nor the report remain. Mounting a file system requires root.
#[cfg(target_os = "linux")]
#[test]
fn a_full_disk() {
    let directory = Directory::new();
    let model = real("mobilenetv3_3class_v3_fp16.gguf");
    let small = directory.path().join("small");
    fs::create_dir(&small).unwrap();
    let mounted = std::process::Command::new("mount")
        .args(["-t", "tmpfs", "-o", "size=1M", "tmpfs"])
        .arg(&small)
        .output();
    if !mounted.is_ok_and(|output| output.status.success()) {
        println!("skipped: no small disk can be mounted");
        return;
    }
    let tries = std::panic::catch_unwind(|| {
        let model = model.to_str().unwrap();
        for args in [
            &[model, "small/out.gguf", "Q8_0", "--report", "small/out.html"][..],
            &[model, "small/out", "Q8_0", "--split-max-size", "500K"],
        ] {
            let found = quantize(&directory, args);
            assert_eq!((found.code, &*found.stdout), (2, ""), "{args:?}: {}", found.stderr);
            assert!(
                found.stderr.contains("no space left on the device"),
                "{args:?}: {}",
                found.stderr
            );
            assert!(fs::read_dir(&small).unwrap().next().is_none(), "{args:?}");
        }
    });
    let unmounted = std::process::Command::new("umount").arg(&small).status();
    tries.unwrap();
    assert!(unmounted.unwrap().success());
}
