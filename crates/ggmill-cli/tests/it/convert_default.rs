//! The defaults of `ggmill convert SRC`: the file name, the check, and types for a size.

use std::fs;
use std::path::Path;

use ggmill_testdata::bytes::{FileBytes, Value};

use crate::support::{Directory, Outcome, command, ggmill, outcome, real};

fn convert(directory: &Directory, more: &[&str]) -> Outcome {
    outcome(command(directory.path()).arg("convert").arg(real("tinystories260K")).args(more))
}

fn fine(directory: &Directory, args: &[&str]) -> Outcome {
    let done = ggmill(directory.path(), args);
    assert_eq!(done.code, 0, "{args:?}: {}", done.stderr);
    done
}

fn bytes(directory: &Directory, name: &str) -> Vec<u8> {
    fs::read(directory.path().join(name)).unwrap()
}

/// Writes a copy of the checkpoint with a changed config.json.
pub(crate) fn checkpoint(directory: &Directory, change: impl Fn(&str) -> String) {
    let to = directory.path().join("model");
    fs::create_dir(&to).unwrap();
    for entry in fs::read_dir(real("tinystories260K")).unwrap() {
        let from = entry.unwrap().path();
        fs::copy(&from, to.join(from.file_name().unwrap())).unwrap();
    }
    let config = to.join("config.json");
    let text = fs::read_to_string(&config).unwrap();
    fs::write(config, change(&text)).unwrap();
}

/// The check of the written file covers its header.
const FINE: &str =
    "note: check: no findings in metadata and layout; `ggmill check --data` examines the weights\n";

/// The file has the name of `ggmill name`, and the findings of `ggmill check` are printed.
#[test]
fn a_file_is_named_by_the_convention_and_checked() {
    let directory = Directory::new();
    let done = convert(&directory, &[]);
    assert_eq!(done.code, 0, "{}", done.stderr);
    let [name] = &*directory.files() else { panic!("{:?}", directory.files()) };
    assert!(done.stderr.contains(&format!("note: wrote {name}\n")), "{}", done.stderr);
    let built = fine(&directory, &["name", "build", name]).stdout;
    assert_eq!(built.trim_end(), name);
    assert!(done.stderr.contains(FINE), "{}", done.stderr);
    let check = fine(&directory, &["check", name]).stdout;
    assert!(check.contains("nothing found"), "{check}");
    // Also in a dry run, and for shards.
    let dry = convert(&directory, &["--dry-run", "--force"]);
    assert!(dry.stdout.contains(&format!("\n{name}: 47 tensors")), "{}", dry.stdout);
    assert!(dry.stderr.ends_with(FINE), "{}", dry.stderr);
    let cut = convert(&directory, &["--split-max-tensors", "24"]);
    assert_eq!(cut.code, 0, "{}", cut.stderr);
    let shard = name.replace(".gguf", "-00001-of-00002.gguf");
    assert!(directory.files().contains(&shard), "{:?}", directory.files());
    assert!(cut.stderr.ends_with(FINE), "{}", cut.stderr);
    assert!(!convert(&directory, &["-o", "x.gguf", "--no-check"]).stderr.contains("check: "));
}

/// The findings before writing equal those about the written file.
#[test]
fn findings_before_writing_equal_those_of_the_file() {
    let directory = Directory::new().with("more.json", r#"{ "general.license": "free for all" }"#);
    let done = convert(&directory, &["-o", "out.gguf", "--metadata", "more.json", "--vocab-only"]);
    assert_eq!(done.code, 0, "{}", done.stderr);
    let told = done.stderr.lines().find(|line| line.contains(": check: ")).unwrap();
    let check = fine(&directory, &["check", "out.gguf", "--format", "json"]).stdout;
    let check: serde_json::Value = serde_json::from_str(&check).unwrap();
    let found = check["files"][0]["findings"].as_array().unwrap();
    assert!(!found.is_empty(), "{check}");
    for finding in found {
        let code = finding["code"].as_str().unwrap();
        assert!(told.contains(&format!("({code})")), "{told}: {code}");
    }
}

/// The finding is printed, and no files remain.
#[test]
fn a_model_with_an_error_is_not_written() {
    // Heads that contradict the tensors, in a description without a graph.
    let text = include_str!("../../../ggmill-arch/data/architectures/llama.toml");
    let key = r#""attention.head_count" = { type = "u32 | [i32]", value = "head_count"#;
    assert!(text.contains(key));
    let directory =
        Directory::new().with("mine.toml", text.replacen(key, &format!("{key} + 1"), 1));
    let args = ["--arch-file", "mine.toml", "-o", "out.gguf"];
    for more in [&[][..], &["--dry-run"], &["--split-max-tensors", "20"]] {
        let done = convert(&directory, &[&args, more].concat());
        assert_eq!(done.code, 2, "{more:?}: {}", done.stderr);
        assert!(
            done.stderr.contains("error Contradictory hyperparameters · GG1511"),
            "{}",
            done.stderr
        );
        assert!(
            done.stderr.ends_with(
                "not written, because the model has 1 error\nhint: --no-check writes the file \
                 anyway\n"
            ),
            "{}",
            done.stderr
        );
        assert_eq!(directory.files(), ["mine.toml"]);
    }
    let done = convert(&directory, &[&args[..], &["--no-check"]].concat());
    assert_eq!(done.code, 0, "{}", done.stderr);
    assert_eq!(directory.files(), ["mine.toml", "out.gguf"]);
}

/// Returns an importance matrix for every matrix of the checkpoint.
fn imatrix(model: &[u8]) -> Vec<u8> {
    let model = ggmill_core::Header::parse(model).unwrap();
    let matrices: Vec<(String, u64)> = model
        .tensors()
        .iter()
        .filter(|tensor| tensor.shape().dimensions().len() == 2)
        .map(|tensor| (tensor.name().to_string(), tensor.shape().row_len()))
        .collect();
    let mut file = FileBytes::v3(matrices.len() as u64 * 2, 4);
    file.pair("general.type", &"imatrix".into());
    file.pair("imatrix.datasets", &Value::Array(8, vec!["one.txt".into()]));
    file.pair("imatrix.chunk_count", &Value::U32(1)).pair("imatrix.chunk_size", &Value::U32(512));
    let mut data = FileBytes::new(3, ggmill_core::Endian::Little);
    for (number, (name, row_len)) in matrices.iter().enumerate() {
        file.tensor(format!("{name}.in_sum2"), &[*row_len, 1], 0, data.position());
        for column in 0..*row_len {
            let sum = (column + number as u64) % 7 + 1;
            data.f32(f32::from(u8::try_from(sum).unwrap()));
        }
        data.pad(32);
        file.tensor(format!("{name}.counts"), &[1, 1], 0, data.position());
        data.f32(96.0).pad(32);
    }
    file.pad(32).raw(data.as_bytes());
    file.into_bytes()
}

/// Every way to choose types gives the same result in one pass as for the converted file.
#[test]
fn one_pass_equals_converting_and_then_quantizing() {
    let directory = Directory::new();
    let done = convert(&directory, &["-o", "float.gguf", "--type", "f32"]);
    assert_eq!(done.code, 0, "{}", done.stderr);
    let directory = {
        let matrix = imatrix(&bytes(&directory, "float.gguf"));
        directory.with("imatrix", matrix)
    };
    let cases: [&[&str]; 5] = [
        &["--target-bpw", "7.5"],
        &["--target-size", "300K"],
        &["--target-bpw", "8.5", "--imatrix", "imatrix", "--tensor-type", "attn_v=q8_0"],
        &["--type", "IQ4_NL", "--imatrix", "imatrix"],
        &["--type", "Q4_K_M", "--imatrix", "imatrix", "--exclude-weights", "ffn_down"],
    ];
    for case in cases {
        fine(&directory, &[&["quantize", "float.gguf", "two.gguf", "--force"], case].concat());
        let done = convert(&directory, &[&["-o", "one.gguf", "--force"], case].concat());
        assert_eq!(done.code, 0, "{case:?}: {}", done.stderr);
        assert!(bytes(&directory, "one.gguf") == bytes(&directory, "two.gguf"), "{case:?}");
    }
    // Also for shards.
    let cut = ["--target-bpw", "7.5", "--imatrix", "imatrix", "--split-max-size", "60K"];
    fine(&directory, &[&["quantize", "float.gguf", "two"], &cut[..]].concat());
    let done = convert(&directory, &[&["-o", "one"], &cut[..]].concat());
    assert_eq!(done.code, 0, "{}", done.stderr);
    let shards: Vec<String> =
        directory.files().into_iter().filter(|name| name.starts_with("one-")).collect();
    assert!(shards.len() > 2, "{shards:?}");
    for shard in shards {
        let other = shard.replacen("one", "two", 1);
        assert!(bytes(&directory, &shard) == bytes(&directory, &other), "{shard}");
    }
    let refused = convert(&directory, &["--target-bpw", "5", "--type", "q8_0"]);
    assert_eq!(refused.code, 2, "{}", refused.stderr);
    let refused = convert(&directory, &["--target-bpw", "0.5", "-o", "small.gguf"]);
    assert!(refused.stderr.contains("are too few"), "{}", refused.stderr);
    assert!(!Path::new(&directory.path().join("small.gguf")).exists());
}
