//! The programs in `examples/`: short, and right on files of both byte orders.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use ggmill::{Builder, Endian, GgmlType, MetadataBuf, Shape, Writer};

/// Lines of the longest.
const MAX_LEN: usize = 20;

/// The program. `cargo test` builds it with the tests; a run of these tests alone does not, and
/// then it is built here, with settings of its own, which takes longer.
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

/// Whether a program is newer than every source that Cargo lists for it in the file beside it.
fn is_up_to_date(program: &Path) -> bool {
    let changed = |path: &Path| fs::metadata(path).and_then(|metadata| metadata.modified()).ok();
    let (Some(built), Ok(list)) =
        (changed(program), fs::read_to_string(program.with_extension("d")))
    else {
        return false;
    };
    // A space in a path has a backslash before it.
    let list = list.replace("\\ ", "\0");
    let mut sources = list.split_once(": ").map_or("", |(_, sources)| sources).split_whitespace();
    let is_older = |source: &str| {
        changed(Path::new(&source.replace('\0', " "))).is_some_and(|changed| changed <= built)
    };
    list.contains("examples") && sources.all(is_older)
}

fn run(name: &str, arguments: &[&str]) -> Output {
    let output = Command::new(example(name)).args(arguments).output().unwrap();
    assert!(
        output.status.success(),
        "{name} {arguments:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    output
}

/// A model of one matrix, whose numbers count up.
fn model(directory: &Path, endian: Endian) -> String {
    let mut metadata = MetadataBuf::new();
    metadata.set("general.architecture", "llama");
    metadata.set("general.name", "Tiny");
    let plan = Builder::new()
        .endian(endian)
        .metadata(metadata)
        .tensor("blk.0.ffn_up.weight", GgmlType::F32, Shape::new(&[32, 2]).unwrap())
        .plan()
        .unwrap();
    let numbers = (0u8..64).map(f32::from);
    let data: Vec<u8> =
        numbers
            .flat_map(|number| {
                if endian == Endian::Big { number.to_be_bytes() } else { number.to_le_bytes() }
            })
            .collect();
    let mut writer = Writer::start(&plan, Vec::new()).unwrap();
    writer.write(0, &data).unwrap();
    let path = directory.join(format!("{endian}.gguf"));
    fs::write(&path, writer.finish().unwrap()).unwrap();
    path.into_os_string().into_string().unwrap()
}

#[test]
fn each_is_right_on_both_byte_orders() {
    let directory = tempfile::tempdir().unwrap();
    for endian in [Endian::Little, Endian::Big] {
        let path = model(directory.path(), endian);
        let listed =
            String::from_utf8(run("list", &[&path, "blk.0.ffn_up.weight"]).stdout).unwrap();
        let values = format!("{:?}", (0u8..64).map(f32::from).collect::<Vec<_>>());
        assert!(
            listed.starts_with("blk.0.ffn_up.weight")
                && listed.contains("F32")
                && listed.trim_end().ends_with(&values),
            "{endian}: {listed}"
        );

        run("edit", &[&path, "general.name", "Tiny of the examples"]);
        let edited = ggmill::io::open(&path).unwrap();
        assert_eq!(
            (edited.metadata().str("general.name").unwrap(), edited.endian()),
            ("Tiny of the examples", endian)
        );

        let out = format!("{path}.q8_0.gguf");
        let told = run("quantize", &[&path, &out, "Q8_0"]);
        assert!(String::from_utf8(told.stderr).unwrap().contains("bytes, blk.0.ffn_up.weight"));
        let quantized = ggmill::io::open(&out).unwrap();
        let tensor = quantized.tensor("blk.0.ffn_up.weight").unwrap();
        // As the reference makes it.
        assert_eq!((tensor.ggml_type(), quantized.endian()), (GgmlType::Q8_0, Endian::Little));
        let values = ggmill::quant::read_f32(&quantized, &tensor).unwrap();
        assert!(
            values.iter().zip(0u8..).all(|(value, number)| (value - f32::from(number)).abs() < 0.3),
            "{endian}: {values:?}"
        );
    }
}

#[test]
fn each_is_short() {
    for name in ["list", "edit", "quantize"] {
        let source = fs::read_to_string(
            Path::new(env!("CARGO_MANIFEST_DIR")).join("examples").join(name).with_extension("rs"),
        )
        .unwrap();
        let lines = source
            .lines()
            .filter(|line| !line.starts_with("//!") && !line.starts_with("#!"))
            .count();
        assert!(lines < MAX_LEN, "{name}: {lines} lines");
    }
}
