//! The programs in `examples/`, three of which are in the README: they are short, and work on files
//! of both byte orders.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use ggmill::core::{Builder, Writer};
use ggmill::{Endian, GgmlType, MetadataBuf, Shape};

/// Returns the path of a program. `cargo test` builds it with the tests; if only these tests are
/// run, it is built here, with other settings, which takes longer.
fn example(name: &str) -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let program = test
        .ancestors()
        .nth(2)
        .unwrap()
        .join("examples")
        .join(format!("{name}{}", std::env::consts::EXE_SUFFIX));
    if !is_up_to_date(&program) {
        let built = Command::new(env!("CARGO"))
            .args(["build", "--quiet", "--locked", "-p", "ggmill", "--example", name])
            .status()
            .unwrap();
        assert!(built.success(), "{name}");
    }
    program
}

/// Returns `true` if a program is newer than every source that Cargo lists in its `.d` file.
fn is_up_to_date(program: &Path) -> bool {
    let changed = |path: &Path| fs::metadata(path).and_then(|metadata| metadata.modified()).ok();
    let (Some(built), Ok(list)) =
        (changed(program), fs::read_to_string(program.with_extension("d")))
    else {
        return false;
    };
    // A space in a path is escaped with a backslash.
    let list = list.replace("\\ ", "\0");
    let mut sources = list.split_once(": ").map_or("", |(_, sources)| sources).split_whitespace();
    let is_older = |source: &str| {
        changed(Path::new(&source.replace('\0', " "))).is_some_and(|changed| changed <= built)
    };
    list.contains("examples") && sources.all(is_older)
}

/// Runs a program in a directory.
fn run(name: &str, directory: &Path, arguments: &[&str]) -> Output {
    let output =
        Command::new(example(name)).args(arguments).current_dir(directory).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{name}: {errors}");
    output
}

/// Returns a model with two matrices, a norm and a weight, whose elements count up from 0.
fn model(endian: Endian) -> Vec<u8> {
    let mut metadata = MetadataBuf::new();
    metadata.set("general.architecture", "llama");
    metadata.set("general.name", "Tiny");
    let plan = Builder::new()
        .endian(endian)
        .metadata(metadata)
        .tensor("output_norm.weight", GgmlType::F32, Shape::new(&[32, 2]).unwrap())
        .tensor("blk.0.ffn_up.weight", GgmlType::F32, Shape::new(&[32, 2]).unwrap())
        .plan()
        .unwrap();
    let bytes = |number: f32| {
        if endian == Endian::Big { number.to_be_bytes() } else { number.to_le_bytes() }
    };
    let data: Vec<u8> = (0u8..64).map(f32::from).flat_map(bytes).collect();
    let mut writer = Writer::start(&plan, Vec::new()).unwrap();
    writer.write(0, &data).unwrap();
    writer.write(1, &data).unwrap();
    writer.finish().unwrap()
}

#[test]
fn they_work_on_both_byte_orders() {
    for endian in [Endian::Little, Endian::Big] {
        let directory = tempfile::tempdir().unwrap();
        let directory = directory.path();
        fs::write(directory.join("model.gguf"), model(endian)).unwrap();
        let decoded = String::from_utf8(run("decode", directory, &[]).stdout).unwrap();
        let values = format!("F32 32 × 2 {:?}", (0u8..64).map(f32::from).collect::<Vec<_>>());
        assert_eq!(decoded, format!("llama\n{values}\n"), "{endian}");

        let told = run("quantize", directory, &[]);
        let told = String::from_utf8(told.stderr).unwrap();
        assert!(told.contains("bytes, blk.0.ffn_up.weight"), "{told}");
        let small = ggmill::Model::open(directory.join("small.gguf")).unwrap();
        let tensor = small.tensor("blk.0.ffn_up.weight").unwrap();
        // The reference writes little-endian files, and does not quantize norms.
        assert_eq!((tensor.ggml_type(), small.core().endian()), (GgmlType::Q8_0, Endian::Little));
        let near = |(value, number): (f32, u8)| (value - f32::from(number)).abs() < 0.3;
        assert!(tensor.to_f32().unwrap().into_iter().zip(0u8..).all(near), "{endian}");

        run("edit", directory, &["model.gguf", "general.name", "Tiny of the examples"]);
        let edited = ggmill::Model::open(directory.join("model.gguf")).unwrap();
        assert_eq!(edited.metadata().str("general.name").unwrap(), "Tiny of the examples");
        assert_eq!(edited.core().endian(), endian);
    }
}

#[test]
fn they_work_on_a_real_checkpoint() {
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    fs::create_dir(directory.join("checkpoint")).unwrap();
    for entry in fs::read_dir(ggmill_testdata::real("tinystories260K")).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), directory.join("checkpoint").join(entry.file_name())).unwrap();
    }
    let found = String::from_utf8(run("convert", directory, &[]).stdout).unwrap();
    assert!(!found.contains("error"), "{found}");
    let decoded = String::from_utf8(run("decode", directory, &[]).stdout).unwrap();
    assert!(decoded.starts_with("llama\nF32 64 ["), "{decoded}");
    run("quantize", directory, &[]);
    let small = ggmill::Model::open(directory.join("small.gguf")).unwrap();
    assert_eq!(small.tensor("token_embd.weight").unwrap().ggml_type(), GgmlType::Q8_0);
}

/// The README contains the programs as tested.
#[test]
fn the_readme_has_them() {
    /// The maximum number of lines of a program.
    const MAX_LEN: usize = 8;
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let readme = fs::read_to_string(root.join("README.md")).unwrap();
    for name in ["decode", "quantize", "convert"] {
        let source = fs::read_to_string(root.join(format!("examples/{name}.rs"))).unwrap();
        let program = &source[source.find("fn main").unwrap()..];
        assert!(readme.contains(&format!("```rust,no_run\n{program}```")), "{name}");
        assert!(program.lines().count() <= MAX_LEN, "{name}");
    }
}
