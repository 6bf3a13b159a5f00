//! `ggmill quantize --calibrate`.

use ggmill_core::{GgmlType, Header};

use crate::support::{Directory, Outcome, command, ggmill, outcome, real};

/// Returns a directory with the bundled model in F32, and token IDs for four chunks of 32.
fn directory() -> Directory {
    let ids: Vec<u32> = (0..128).map(|number| number * 37 % 509 + 3).collect();
    let directory = Directory::new().with("ids.json", format!("{ids:?}"));
    let mut convert = command(directory.path());
    convert.arg("convert").arg(real("tinystories260K")).args(["-o", "base.gguf", "--type", "f32"]);
    assert_eq!(outcome(&mut convert).code, 0);
    directory
}

fn quantize(directory: &Directory, out: &str, more: &[&str]) -> Outcome {
    let args = ["quantize", "base.gguf", out, "Q4_0", "--pure", "--force"];
    ggmill(directory.path(), &[&args[..], more].concat())
}

#[test]
fn only_the_contents_of_blocks_differ() {
    let directory = directory();
    let calibrated = ["--calibrate-tokens", "ids.json", "--calibrate-ctx", "32"];
    assert_eq!(quantize(&directory, "plain.gguf", &[]).code, 0);
    let found = quantize(&directory, "a.gguf", &calibrated);
    assert_eq!(found.code, 0, "{}", found.stderr);
    // The token embeddings are the output matrix.
    let note = "note: 31 tensors were rounded by what they compute on the text: the error of their results \
                on held-out text is ";
    assert!(found.stderr.contains(note), "{}", found.stderr);
    assert!(found.stderr.contains("on held-out text"), "{}", found.stderr);
    let few = [&calibrated[..2], &["--calibrate-ctx", "16", "--calibrate-chunks", "2"]].concat();
    let warned = quantize(&directory, "few.gguf", &few);
    let short = "the text has 16 tokens to calibrate with, fewer than the 64 columns";
    assert!(warned.stderr.contains(short) && !found.stderr.contains(short), "{}", warned.stderr);
    // Two threads compute the same.
    assert_eq!(quantize(&directory, "b.gguf", &[&calibrated[..], &["-t", "2"]].concat()).code, 0);
    let read = |name: &str| std::fs::read(directory.path().join(name)).unwrap();
    let (plain, file) = (read("plain.gguf"), read("a.gguf"));
    assert_eq!(read("b.gguf"), file);
    assert_eq!(plain.len(), file.len());
    let start = usize::try_from(Header::parse(&plain).unwrap().data_offset()).unwrap();
    assert_eq!(plain[..start], file[..start]);
    let header = Header::parse(&file).unwrap();
    let mut changed = 0;
    for tensor in header.tensors() {
        let start = usize::try_from(tensor.offset()).unwrap();
        let range = start..start + usize::try_from(tensor.size().unwrap()).unwrap();
        let is_same = plain[range.clone()] == file[range];
        assert_eq!(is_same, tensor.ggml_type() != GgmlType::Q4_0, "{:?}", tensor.name());
        changed += usize::from(!is_same);
    }
    assert_eq!(changed, 31);
}

#[test]
fn the_report_has_the_errors_of_results() {
    let directory = directory();
    let calibrated = ["--calibrate-tokens", "ids.json", "--calibrate-ctx", "32", "--report"];
    for (name, found) in [
        ("report.txt", "results: the error of what a matrix computes on held-out text"),
        ("report.html", "<th class=\"more\">results"),
        ("report.json", "\"plain_results\":"),
    ] {
        assert_eq!(quantize(&directory, "out.gguf", &[&calibrated[..], &[name]].concat()).code, 0);
        let report = std::fs::read_to_string(directory.path().join(name)).unwrap();
        assert!(report.contains(found), "{report}");
    }
    let report = std::fs::read(directory.path().join("report.json")).unwrap();
    let report: serde_json::Value = serde_json::from_slice(&report).unwrap();
    let rounded =
        report["tensors"].as_array().unwrap().iter().filter(|row| row["results"].is_f64());
    let mut tensors = 0;
    for row in rounded {
        tensors += 1;
        assert!(row["results"].as_f64() <= row["plain_results"].as_f64(), "{row}");
    }
    assert_eq!(tensors, 31);
}

#[test]
fn a_conversion_in_one_pass_has_the_same_tensors() {
    let directory = directory();
    let calibrated = ["--calibrate-tokens", "ids.json", "--calibrate-ctx", "32"];
    assert_eq!(quantize(&directory, "two.gguf", &calibrated).code, 0);
    let mut convert = command(directory.path());
    convert.arg("convert").arg(real("tinystories260K"));
    convert.args(["-o", "one.gguf", "--type", "Q4_0", "--pure"]).args(calibrated);
    let found = outcome(&mut convert);
    assert_eq!(found.code, 0, "{}", found.stderr);
    assert!(found.stderr.contains("on held-out text"), "{}", found.stderr);
    let [one, two] = ["one.gguf", "two.gguf"].map(|name| {
        let file = std::fs::read(directory.path().join(name)).unwrap();
        let header = Header::parse(&file).unwrap();
        let tensors = header.tensors().into_iter().map(|tensor| {
            let start = usize::try_from(tensor.offset()).unwrap();
            let end = start + usize::try_from(tensor.size().unwrap()).unwrap();
            (tensor.name().to_string(), file[start..end].to_vec())
        });
        tensors.collect::<Vec<_>>()
    });
    assert_eq!(one, two);
    // There is nothing to round in a file that is not quantized.
    let mut convert = command(directory.path());
    convert.arg("convert").arg(real("tinystories260K"));
    convert.args(["-o", "plain.gguf", "--type", "F16"]).args(calibrated);
    let found = outcome(&mut convert);
    assert_eq!(found.code, 2);
    assert!(found.stderr.contains("they have no effect on F16"), "{}", found.stderr);
}

#[test]
fn inputs_that_are_not_finite_are_refused() {
    let directory = directory();
    let path = directory.path().join("base.gguf");
    let mut file = std::fs::read(&path).unwrap();
    let header = Header::parse(&file).unwrap();
    let tensors = header.tensors();
    let norm = tensors.into_iter().find(|tensor| tensor.name() == "blk.2.ffn_norm.weight").unwrap();
    let start = usize::try_from(norm.offset()).unwrap();
    file[start..start + 4].copy_from_slice(&3e38f32.to_le_bytes());
    std::fs::write(&path, file).unwrap();
    let found = quantize(
        &directory,
        "out.gguf",
        &["--calibrate-tokens", "ids.json", "--calibrate-ctx", "32"],
    );
    assert_eq!(found.code, 2);
    let message = "of the text it is multiplied with numbers that are not finite";
    assert!(found.stderr.contains(message), "{}", found.stderr);
    assert!(found.stderr.contains("blk.2.ffn"), "{}", found.stderr);
    assert!(!directory.files().contains(&"out.gguf".to_owned()));
}

#[test]
fn bad_requests_are_refused() {
    let directory = directory();
    for (more, message) in [
        (&["--calibrate-tokens", "ids.json"][..], "expected at least 1024: two chunks of 512"),
        (
            &[
                "--calibrate-tokens",
                "ids.json",
                "--calibrate-ctx",
                "32",
                "--calibrate-memory",
                "1K",
            ],
            "hint: --calibrate-memory SIZE allows more, --calibrate-chunks N needs less",
        ),
        (
            &["--calibrate-tokens", "ids.json", "--calibrate-ctx", "100"],
            "hint: --calibrate-ctx N takes smaller chunks, of at most half the tokens of the text: \
             --calibrate-ctx 64",
        ),
        (&["--calibrate", "auto", "--calibrate-chunks", "1"], "1 is not in 2.."),
        (&["--calibrate", "none.txt"], "none.txt"),
        (&["--calibrate-ctx", "32"], "required"),
        (
            &["--calibrate-tokens", "ids.json", "--calibrate-ctx", "32", "--tensor-type", ".*=f16"],
            "no tensor of the result has a type that can be rounded",
        ),
    ] {
        let found = quantize(&directory, "out.gguf", more);
        assert_eq!(found.code, 2, "{more:?}");
        assert!(found.stderr.contains(message), "{more:?}: {}", found.stderr);
        assert!(!directory.files().contains(&"out.gguf".to_owned()));
    }
}

/// Without a vocabulary, the hint names the option for token IDs of this text.
#[test]
fn a_model_without_vocabulary_needs_token_ids() {
    let directory = Directory::new().with("text.txt", "Once upon a time");
    let mut convert = command(directory.path());
    convert.arg("convert").arg(real("tinystories260K")).args(["-o", "base.gguf", "--no-vocab"]);
    assert_eq!(outcome(&mut convert).code, 0);
    let found = quantize(&directory, "out.gguf", &["--calibrate", "text.txt"]);
    assert_eq!(found.code, 2);
    assert!(found.stderr.contains("--calibrate-tokens"), "{}", found.stderr);
    let size = ["quantize", "base.gguf", "out.gguf", "--target-bpw", "5", "--measure", "text.txt"];
    let found = ggmill(directory.path(), &size);
    assert_eq!(found.code, 2);
    assert!(found.stderr.contains("--measure-tokens"), "{}", found.stderr);
    let mut convert = command(directory.path());
    convert.arg("convert").arg(real("tinystories260K")).args(["-o", "out.gguf", "--no-vocab"]);
    let found = outcome(convert.args(["--type", "Q4_0", "--calibrate", "text.txt"]));
    assert_eq!(found.code, 2);
    assert!(found.stderr.contains("--calibrate-tokens"), "{}", found.stderr);
}

#[test]
fn a_dry_run_says_that_the_text_is_not_read() {
    let directory = directory();
    let found = quantize(&directory, "out.gguf", &["--calibrate", "none.txt", "--dry-run"]);
    assert_eq!(found.code, 0, "{}", found.stderr);
    assert!(found.stderr.contains("not read in a dry run"), "{}", found.stderr);
    let mut convert = command(directory.path());
    convert.arg("convert").arg(real("tinystories260K")).args(["-o", "out.gguf", "--dry-run"]);
    let found = outcome(convert.args(["--type", "Q4_0", "--calibrate", "none.txt"]));
    assert_eq!(found.code, 0, "{}", found.stderr);
    assert!(found.stderr.contains("not read in a dry run"), "{}", found.stderr);
}

#[test]
fn an_importance_matrix_is_not_used_for_rounded_tensors() {
    let directory = directory();
    let make =
        ["imatrix", "make", "base.gguf", "--tokens", "ids.json", "--ctx", "32", "-o", "im.gguf"];
    assert_eq!(ggmill(directory.path(), &make).code, 0);
    let calibrated = ["--calibrate-tokens", "ids.json", "--calibrate-ctx", "32"];
    let note = "the importance matrix is used only for tensors that are not rounded on the text";
    let found =
        quantize(&directory, "out.gguf", &[&calibrated[..], &["--imatrix", "im.gguf"]].concat());
    assert!(found.stderr.contains(note), "{}", found.stderr);
    let found = quantize(&directory, "out.gguf", &calibrated);
    assert!(!found.stderr.contains(note), "{}", found.stderr);
}

#[test]
fn auto_is_the_built_in_text() {
    let directory = directory();
    let text = include_str!("../../../ggmill/data/calibration.txt");
    std::fs::write(directory.path().join("copy.txt"), text).unwrap();
    std::fs::write(directory.path().join("auto"), "Once upon a time".repeat(100)).unwrap();
    let [auto, copy, file] = ["auto", "copy.txt", "./auto"].map(|name| {
        let chunks = ["--calibrate", name, "--calibrate-ctx", "32", "--calibrate-chunks", "4"];
        let found = quantize(&directory, "out.gguf", &chunks);
        assert_eq!(found.code, 0, "{}", found.stderr);
        std::fs::read(directory.path().join("out.gguf")).unwrap()
    });
    assert!(auto == copy);
    assert!(auto != file);
}
