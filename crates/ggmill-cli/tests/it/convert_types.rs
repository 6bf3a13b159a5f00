//! `ggmill convert --type`: any type in one pass.

use std::fs;

use crate::support::{Directory, Outcome, command, ggmill, outcome, real};

fn convert(directory: &Directory, more: &[&str]) -> Outcome {
    let made =
        outcome(command(directory.path()).arg("convert").arg(real("tinystories260K")).args(more));
    assert_eq!(made.code, 0, "{more:?}: {}", made.stderr);
    made
}

fn bytes(directory: &Directory, name: &str) -> Vec<u8> {
    fs::read(directory.path().join(name)).unwrap()
}

/// The checkpoint is F32, so nothing is rounded before it is quantized.
#[test]
fn one_pass_equals_converting_and_then_quantizing() {
    let directory = Directory::new();
    convert(&directory, &["-o", "float.gguf", "--type", "f32"]);
    let cases: [&[&str]; 5] = [
        &["Q4_0"],
        &["Q4_K_M"],
        &["IQ4_NL", "--pure"],
        &["Q5_1", "--tensor-type", "ffn_down=q8_0", "--output-tensor-type", "f16"],
        &["TQ1_0", "--override-kv", "general.name=str:another"],
    ];
    for case in cases {
        let (to, more) = case.split_first().unwrap();
        let two_steps: Vec<&str> = ["quantize", "float.gguf", "two.gguf", to, "--force"]
            .into_iter()
            .chain(more.iter().copied())
            .collect();
        let made = ggmill(directory.path(), &two_steps);
        assert_eq!(made.code, 0, "{case:?}: {}", made.stderr);
        let one_pass: Vec<&str> = ["-o", "one.gguf", "--force", "--type", to]
            .into_iter()
            .chain(more.iter().copied())
            .collect();
        convert(&directory, &one_pass);
        assert!(bytes(&directory, "one.gguf") == bytes(&directory, "two.gguf"), "{case:?}");
    }
}

#[test]
fn shards_are_written_in_the_same_pass() {
    let directory = Directory::new();
    convert(&directory, &["-o", "whole.gguf", "--type", "Q4_0"]);
    convert(&directory, &["-o", "cut.gguf", "--type", "Q4_0", "--split-max-tensors", "20"]);
    let merged =
        ggmill(directory.path(), &["merge", "cut-00001-of-00003.gguf", "-o", "merged.gguf"]);
    assert_eq!(merged.code, 0, "{}", merged.stderr);
    let compared = ggmill(directory.path(), &["diff", "whole.gguf", "merged.gguf", "--data"]);
    assert_eq!(compared.code, 0, "{}", compared.stdout);
}

/// The reference also converts F32 weights to F16.
#[test]
fn the_default_is_the_16_bit_type_of_the_checkpoint() {
    let directory = Directory::new();
    convert(&directory, &[]);
    convert(&directory, &["--outfile", "auto.gguf", "--outtype", "auto"]);
    convert(&directory, &["-o", "f16.gguf", "--type", "f16"]);
    let f16 = bytes(&directory, "f16.gguf");
    assert!(bytes(&directory, "tinystories260K-260K-v1.0-F16.gguf") == f16);
    assert!(bytes(&directory, "auto.gguf") == f16);
    // A positional output, as in llama-quantize.
    convert(&directory, &["placed.gguf"]);
    assert!(bytes(&directory, "placed.gguf") == f16);
}

#[test]
fn options_that_have_no_effect_are_refused() {
    let directory = Directory::new();
    let refused = outcome(
        command(directory.path())
            .arg("convert")
            .arg(real("tinystories260K"))
            .args(["--type", "f16", "--pure"]),
    );
    assert_eq!(refused.code, 2);
    assert!(refused.stderr.contains("they have no effect on F16"), "{}", refused.stderr);
    assert!(fs::read_dir(directory.path()).unwrap().next().is_none());
}
