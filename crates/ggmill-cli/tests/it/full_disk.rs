//! A full disk: the error names the file, all existing files are unchanged, and no partial files
//! remain.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use ggmill_testdata::legacy::legacy_models;

use crate::support::{Directory, Outcome, command, ggmill, outcome, real};

/// The arguments of each command that writes; its output is in the directory `out`.
const COMMANDS: [&str; 15] = [
    "edit model.gguf --set general.name=x -o out/copy.gguf",
    "split model.gguf out/x --max-size 1200K",
    "split model.gguf out/x --max-tensors 1",
    "merge part-00001-of-00003.gguf out/x.gguf",
    "merge cut.part1of1 out/x.gguf",
    "repack model.gguf -o out/x.gguf --endian big",
    "repack model.gguf -o out/x.gguf --align 64",
    "extract model.gguf *weight -o out/x.gguf",
    "extract model.gguf -o out/x.safetensors",
    "extract model.gguf classifier.0.weight -o out/x.npy",
    "extract vocabulary.gguf --key * -o out/x.json",
    "graft model.gguf --from model.gguf -o out/x.gguf",
    "convert checkpoint --type f16 -o out/x.gguf",
    "convert ggjt3-q8_0.bin -o out/x.gguf",
    "quantize model.gguf --type f32 out/x.gguf",
];

/// Returns every file in a directory and its subdirectories, with its bytes.
fn content(directory: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(directory).unwrap().map(|entry| entry.unwrap()) {
        let name = entry.file_name().into_string().unwrap();
        if entry.file_type().unwrap().is_dir() {
            found.extend(
                content(&entry.path())
                    .into_iter()
                    .map(|(inner, bytes)| (format!("{name}/{inner}"), bytes)),
            );
        } else {
            found.insert(name, fs::read(entry.path()).unwrap());
        }
    }
    found
}

fn directory() -> Directory {
    let legacy = legacy_models().into_iter().find(|model| model.name == "ggjt3-q8_0.bin").unwrap();
    let model = fs::read(real("mobilenetv3_3class_v3_fp16.gguf")).unwrap();
    let directory = Directory::new()
        .with("model.gguf", &model)
        .with("cut.part1of1", model)
        .with(legacy.name, legacy.file);
    fs::copy(real("ggml-vocab-bert-bge.gguf"), directory.path().join("vocabulary.gguf")).unwrap();
    fs::create_dir(directory.path().join("out")).unwrap();
    fs::create_dir(directory.path().join("checkpoint")).unwrap();
    for entry in fs::read_dir(real("tinystories260K")).unwrap().map(|entry| entry.unwrap()) {
        fs::copy(entry.path(), directory.path().join("checkpoint").join(entry.file_name()))
            .unwrap();
    }
    let made = ggmill(directory.path(), &["split", "model.gguf", "part", "--max-size", "1200K"]);
    assert_eq!(made.code, 0, "{}", made.stderr);
    directory
}

/// Runs a command that must fail because of the disk, and leave all files unchanged.
fn refused(
    found: &Outcome,
    args: &str,
    words: &str,
    before: &BTreeMap<String, Vec<u8>>,
    directory: &Directory,
) {
    assert_eq!((found.code, found.stdout.as_str()), (2, ""), "{args}: {}", found.stderr);
    assert!(found.stderr.starts_with("error: "), "{args}: {}", found.stderr);
    assert!(found.stderr.contains(words), "{args}: {}", found.stderr);
    assert!(content(directory.path()) == *before, "{args}");
}

/// A file size limit, which requires no privilege.
#[test]
fn a_file_size_limit() {
    let directory = directory();
    let before = content(directory.path());
    let program = env!("CARGO_BIN_EXE_ggmill");
    // In blocks of 512 bytes. Splitting into single tensors creates small files; the first one has
    // the metadata.
    let edits = [
        (2000, "edit model.gguf --set general.alignment=64"),
        (16, "edit model.gguf --set general.name=long-enough-to-need-room"),
    ];
    for (blocks, args) in COMMANDS.into_iter().map(|args| (8, args)).chain(edits) {
        let script = format!("set -f; trap '' XFSZ; ulimit -f {blocks}; exec {program} {args}");
        let found = outcome(Command::new("sh").current_dir(directory.path()).args(["-c", &script]));
        refused(
            &found,
            args,
            if args.contains("out/") { "out/" } else { "model.gguf" },
            &before,
            &directory,
        );
    }
}

/// A small file system. Mounting it requires root.
#[test]
fn a_full_file_system() {
    let directory = directory();
    let out = directory.path().join("out");
    let mounted =
        Command::new("mount").args(["-t", "tmpfs", "-o", "size=64K", "tmpfs"]).arg(&out).output();
    if !mounted.is_ok_and(|output| output.status.success()) {
        println!("skipped: no small disk can be mounted");
        return;
    }
    let tries = std::panic::catch_unwind(|| {
        let before = content(directory.path());
        for args in COMMANDS {
            let found = outcome(command(directory.path()).args(args.split(' ')));
            refused(&found, args, "no space left on the device", &before, &directory);
            assert!(found.stderr.contains("out/"), "{args}: {}", found.stderr);
        }
        // An edit in place: there is no space for the journal.
        fs::write(out.join("tiny.gguf"), crate::support::tiny()).unwrap();
        let mut rest = vec![0; 64 << 10];
        while fs::write(out.join("rest"), &rest).is_err() {
            rest.truncate(rest.len() - 4096);
        }
        let before = content(directory.path());
        for set in ["general.name=Tidy", "general.name=Something longer", "general.alignment=64"] {
            let found = ggmill(directory.path(), &["edit", "out/tiny.gguf", "--set", set]);
            refused(&found, set, "out/tiny.gguf", &before, &directory);
            assert!(
                found.stderr.contains("no space left on the device"),
                "{set}: {}",
                found.stderr
            );
        }
    });
    let unmounted = Command::new("umount").arg(&out).status();
    tries.unwrap();
    assert!(unmounted.unwrap().success());
}
