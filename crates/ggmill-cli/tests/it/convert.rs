//! `ggmill convert`, from the command line.

use std::fs;

use serde_json::Value;

use crate::support::{Directory, Outcome, command, ggmill, outcome, real};

fn convert(directory: &Directory, more: &[&str]) -> Outcome {
    outcome(command(directory.path()).arg("convert").arg(real("tinystories260K")).args(more))
}

/// The README's command writes a file, and prints a summary of it.
#[test]
fn the_readme_example_prints_a_summary() {
    let directory = Directory::new();
    let Outcome { code, stdout, stderr } =
        convert(&directory, &["-o", "tinystories260K.gguf", "--type", "q8_0"]);
    assert_eq!(code, 0, "{stderr}");
    let readme =
        fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../README.md")).unwrap();
    for line in stdout.lines().chain(stderr.lines()) {
        assert!(readme.contains(line), "the README lacks {line:?}");
    }
}

/// A dry run prints exact sizes and offsets of the file that a run writes.
#[test]
fn a_dry_run_knows_every_byte_and_writes_none() {
    let directory = Directory::new();
    let dry = convert(&directory, &["--type", "f16", "--dry-run", "--json"]);
    assert_eq!((dry.code, directory.files()), (0, vec![]), "{}", dry.stderr);
    let plan: Value = serde_json::from_str(&dry.stdout).unwrap();
    assert_eq!(
        (&plan["schema"], &plan["written"], &plan["output"]),
        (&"ggmill.plan/1".into(), &false.into(), &"tinystories260K-260K-v1.0-F16.gguf".into())
    );

    let run = convert(&directory, &["--type", "f16", "--json"]);
    let written: Value = serde_json::from_str(&run.stdout).unwrap();
    assert_eq!((run.code, &written["tensors"]), (0, &plan["tensors"]));
    let bytes = fs::read(directory.path().join("tinystories260K-260K-v1.0-F16.gguf")).unwrap();
    assert_eq!(plan["file_size"], bytes.len());
    let model = ggmill_core::Header::parse(bytes).unwrap();
    for (tensor, planned) in model.tensors().iter().zip(plan["tensors"].as_array().unwrap()) {
        assert_eq!(
            (tensor.name().to_string().as_str(), tensor.offset()),
            (planned["name"].as_str().unwrap(), planned["offset"].as_u64().unwrap())
        );
    }

    let text = convert(&directory, &["--type", "f16", "--dry-run", "--force"]);
    assert!(
        text.stdout.contains(
            "tinystories260K-260K-v1.0-F16.gguf: 47 tensors, data from 0x3860, 535904 bytes in all; nothing was \
             written\n\n523 KiB · 16.04 bits per weight\n"
        ),
        "{}",
        text.stdout
    );
}

#[test]
fn an_existing_file_is_kept_unless_forced() {
    let directory = Directory::new().with("out.gguf", "precious");
    let refused = convert(&directory, &["-o", "out.gguf", "--type", "f32"]);
    assert_eq!(
        (refused.code, refused.stderr.as_str()),
        (2, "error: out.gguf: already exists\nhint: --force replaces it\n")
    );
    let dry = convert(&directory, &["-o", "out.gguf", "--type", "f32", "--dry-run"]);
    assert_eq!((dry.code, &*dry.stdout, dry.stderr), (2, "", refused.stderr));
    assert_eq!(fs::read(directory.path().join("out.gguf")).unwrap(), b"precious");
    assert_eq!(convert(&directory, &["-o", "out.gguf", "--type", "f32", "--force"]).code, 0);
    assert_eq!(directory.files(), ["out.gguf"]);
}

#[test]
fn a_failure_leaves_no_files() {
    let directory = Directory::new();
    for (args, words) in [
        (&["--type", "q9"][..], "not a type, perhaps Q8_0; `ggmill explain types` lists all"),
        (&["--type", "Q9_K"], "not a type, perhaps Q6_K; `ggmill explain types` lists all"),
        (&["--type", "small"], "expected a type such as Q4_K_M; `ggmill explain types` lists all"),
        (&["q8_0"], "this is a type, expected the file to write; --type q8_0 sets the type"),
        (
            &["--type", "q4_k_m", "--tensor-type", "atn_v=q6_k"],
            "the pattern matches no tensor name\nhint: did you mean --tensor-type \
             attn_v=Q6_K?\n",
        ),
        (&["--type", "copy"], "expected a type such as Q4_K_M, or auto"),
        (
            &["--type", "f32", "-o", "no/such/directory/x.gguf"],
            "no/such/directory: cannot write into this directory",
        ),
        (&["--type", "f32", "--arch-file", "none.toml"], "none.toml: "),
    ] {
        let Outcome { code, stdout, stderr } = convert(&directory, args);
        assert_eq!((code, stdout.as_str()), (2, ""), "{args:?}");
        assert!(stderr.contains(words), "{args:?}: {stderr}");
        assert_eq!(directory.files(), Vec::<String>::new());
    }
    let nothing = ggmill(directory.path(), &["convert", ".", "--type", "f32"]);
    assert_eq!(nothing.code, 2);
    assert!(nothing.stderr.contains("contains neither model.safetensors"), "{}", nothing.stderr);
}

/// The error has the name of the format, as `inspect` has.
#[test]
fn the_format_of_a_file_that_is_not_a_checkpoint_is_named() {
    let directory = Directory::new()
        .with("model.gguf", crate::support::tiny())
        .with("page.safetensors", "<!DOCTYPE html><html>");
    fs::create_dir(directory.path().join("pointers")).unwrap();
    fs::copy(real("tinystories260K/config.json"), directory.path().join("pointers/config.json"))
        .unwrap();
    fs::write(
        directory.path().join("pointers/model.safetensors"),
        "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1000\n",
    )
    .unwrap();
    for (source, hint) in [
        ("model.gguf", "--to safetensors converts it to a checkpoint; `ggmill quantize` "),
        ("page.safetensors", "this is a web page; "),
        ("pointers", "this is a Git LFS pointer, not the file itself (1000 B); run `git lfs pull`"),
    ] {
        let Outcome { code, stderr, .. } =
            ggmill(directory.path(), &["convert", source, "--type", "f16"]);
        assert_eq!(code, 2);
        assert!(stderr.contains(&format!("\nhint: {hint}")), "{stderr}");
    }
}

/// A PyTorch file is converted, by its path or by its directory. A pickle that references anything
/// but tensors is rejected, and the error names the reference.
#[test]
fn pytorch_files_are_read_and_not_executed() {
    let crates = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
    let plain = format!("{crates}/ggmill-convert/tests/fixtures/torch/plain");
    let directory = Directory::new();
    for (source, name) in [(plain.clone(), "a"), (format!("{plain}/pytorch_model.bin"), "b")] {
        let made = ggmill(directory.path(), &["convert", &source, "-o", name]);
        assert_eq!(made.code, 0, "{}", made.stderr);
    }
    let read = |name: &str| fs::read(directory.path().join(name)).unwrap();
    assert!(read("a") == read("b"));

    fs::create_dir(directory.path().join("model")).unwrap();
    fs::copy(format!("{plain}/config.json"), directory.path().join("model/config.json")).unwrap();
    fs::copy(
        format!("{crates}/ggmill-pipeline/tests/fixtures/torch/whole-module.pt"),
        directory.path().join("model/pytorch_model.bin"),
    )
    .unwrap();
    let refused = ggmill(directory.path(), &["convert", "model", "-o", "c"]);
    assert_eq!((refused.code, refused.stdout.as_str()), (2, ""));
    let expected = "error: model/pytorch_model.bin: offset 0x";
    assert!(refused.stderr.starts_with(expected), "{}", refused.stderr);
    let asked = "the pickle uses torch.nn.modules.linear.Linear, expected only";
    assert!(refused.stderr.contains(asked), "{}", refused.stderr);
    assert_eq!(directory.files(), ["a", "b", "model"]);
}

/// Side files are read with a size limit, and must be regular files or pipes.
#[test]
#[cfg(unix)]
fn an_endless_description_is_refused() {
    let directory = Directory::new().with("long.toml", vec![b'#'; (1 << 20) + 1]);
    for (file, words) in [
        ("/dev/zero", "/dev/zero: is a device"),
        ("long.toml", "long.toml: 1048577 bytes, the limit is 1048576 bytes"),
    ] {
        let Outcome { code, stderr, .. } =
            convert(&directory, &["--type", "f32", "--arch-file", file]);
        assert_eq!(code, 2);
        assert!(stderr.contains(words), "{stderr}");
    }
}

/// Reaching a file size limit is handled like a full disk.
#[test]
#[cfg(unix)]
fn reaching_a_file_size_limit_is_an_error() {
    let directory = Directory::new();
    let mut shell = std::process::Command::new("sh");
    shell
        .current_dir(directory.path())
        .args(["-c", "ulimit -f 100; exec \"$0\" \"$@\""])
        .arg(env!("CARGO_BIN_EXE_ggmill"));
    let Outcome { code, stderr, .. } = crate::support::outcome(
        shell.arg("convert").arg(real("tinystories260K")).args(["--type", "f32"]),
    );
    assert_eq!(code, 2, "{stderr}");
    assert!(stderr.starts_with("error: tinystories260K-260K-v1.0-F32.gguf: "), "{stderr}");
    assert_eq!(directory.files(), Vec::<String>::new());
}

/// The weight is found in the middle of the run.
#[test]
fn a_weight_that_the_type_cannot_represent_leaves_no_file() {
    let directory = Directory::new();
    fs::create_dir(directory.path().join("model")).unwrap();
    fs::copy(real("tinystories260K/config.json"), directory.path().join("model/config.json"))
        .unwrap();
    let mut weights = fs::read(real("tinystories260K/model.safetensors")).unwrap();
    let last = weights.len() - 64 * 4 - 4;
    weights[last..last + 4].copy_from_slice(&f32::INFINITY.to_le_bytes());
    fs::write(directory.path().join("model/model.safetensors"), weights).unwrap();
    let args = ["convert", "model", "--no-vocab", "--type", "q8_0", "-o", "out.gguf"];
    let Outcome { code, stderr, .. } = ggmill(directory.path(), &args);
    assert_eq!(code, 2);
    assert!(
        stderr.starts_with(
            "error: tensor \"blk.4.attn_v.weight\": row 31, column 63 is inf, expected a finite \
             number"
        ),
        "{stderr}"
    );
    assert_eq!(directory.files(), ["model"]);
}

/// A user supports a new model by writing a description.
#[test]
fn a_custom_description_is_used() {
    let directory = Directory::new().with(
        "mine.toml",
        include_str!("../../../ggmill-arch/data/architectures/llama.toml").replacen(
            "\"llama\"",
            "\"mine\"",
            1,
        ),
    );
    let Outcome { code, stderr, .. } =
        convert(&directory, &["--type", "f32", "-o", "mine.gguf", "--arch-file", "mine.toml"]);
    assert_eq!(code, 0, "{stderr}");
    let model =
        ggmill_core::Header::parse(fs::read(directory.path().join("mine.gguf")).unwrap()).unwrap();
    assert_eq!(model.metadata().str("general.architecture").unwrap(), "mine");
    assert_eq!(model.metadata().u64("mine.block_count").unwrap(), 5);
}

/// Neither with --force, nor by a different path to the same file.
#[test]
fn no_input_is_overwritten() {
    let directory = Directory::new();
    fs::create_dir(directory.path().join("model")).unwrap();
    for name in ["config.json", "model.safetensors"] {
        fs::copy(real("tinystories260K").join(name), directory.path().join("model").join(name))
            .unwrap();
    }
    for output in
        ["model/model.safetensors", "model/config.json", "model/../model/model.safetensors"]
    {
        let Outcome { code, stderr, .. } = ggmill(
            directory.path(),
            &["convert", "model", "--type", "f16", "-o", output, "--force"],
        );
        assert_eq!(code, 2, "{output}");
        assert!(stderr.contains("is an input, so it cannot be the output"), "{stderr}");
    }
    for name in ["config.json", "model.safetensors"] {
        assert!(
            fs::read(directory.path().join("model").join(name)).unwrap()
                == fs::read(real("tinystories260K").join(name)).unwrap()
        );
    }
}
