//! The program, killed at any moment: the original file is never lost, and no partial file has its
//! final name.
//!
//! Each test kills the program at moments spread over its run: a few by default, many in the long
//! gate ([`is_long`]), which also requires that a third of the kills hit a running program.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use ggmill_testdata::is_long;

use crate::support::{Directory, command, ggmill, real};

/// Returns the number of kills per command line.
fn kills() -> u32 {
    if is_long() { 180 } else { 4 }
}

/// In the long gate, requires that at least a third of the kills hit a running program.
fn report(hit: u32, of: u32, what: &str) {
    assert!(!is_long() || hit >= of / 3, "{hit} of {of} {what} hit a running program");
}

/// Returns a moment within a span, the same in every run: multiples of the golden ratio, modulo 1.
fn moment(number: u32, span: Duration) -> Duration {
    span.mul_f64(f64::from(number) * 0.618_033_988_749_895 % 1.0)
}

fn start(directory: &Path, args: &[&str]) -> Child {
    command(directory).args(args).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

/// Runs the program and kills it after `after`. Returns `false` if it had ended before.
fn kill(directory: &Path, args: &[&str], after: Duration) -> bool {
    let mut child = start(directory, args);
    std::thread::sleep(after);
    let running = child.try_wait().unwrap().is_none();
    child.kill().unwrap();
    child.wait().unwrap();
    running
}

/// Checks the files of a directory. Complete temporary files are allowed if the system has no
/// unnamed files, and journals during an edit.
fn only(directory: &Path, expected: &[&str]) {
    for entry in fs::read_dir(directory).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        assert!(expected.contains(&&*name) || name.starts_with(".ggmill-"), "{name}");
    }
}

fn time(directory: &Path, args: &[&str]) -> Duration {
    let begin = Instant::now();
    assert!(start(directory, args).wait().unwrap().success());
    begin.elapsed()
}

/// Each method of an edit: in place, inserted blocks, a copy, a rewrite.
#[test]
fn edit() {
    let long = format!("general.name={}", "long ".repeat(2000));
    let ways: [&[&str]; 4] = [
        &["--set", "general.description=Edited where it is, or so"],
        &["--set", &long],
        &["--unset", "mobilenet.*", "-o", "copy.gguf", "--force"],
        &["--set", "general.alignment=64"],
    ];
    let original = fs::read(real("mobilenetv3_3class_v3_fp16.gguf")).unwrap();
    let (mut hit, mut halfway) = (0, 0);
    for args in ways {
        let args = [&["edit", "model.gguf"], args].concat();
        let directory = Directory::new().with("model.gguf", &original);
        let span = time(directory.path(), &args).mul_f64(1.1);
        let read = |name: &str| fs::read(directory.path().join(name)).ok();
        let (new, copy) = (read("model.gguf").unwrap(), read("copy.gguf"));
        for number in 0..kills() {
            fs::write(directory.path().join("model.gguf"), &original).unwrap();
            let _ = fs::remove_file(directory.path().join("copy.gguf"));
            hit += u32::from(kill(directory.path(), &args, moment(number, span)));
            only(directory.path(), &["model.gguf", "copy.gguf", "model.gguf.ggmill-journal"]);
            halfway += u32::from(directory.path().join("model.gguf.ggmill-journal").exists());
            let recovery = ggmill(directory.path(), &["edit", "model.gguf", "--recover"]);
            assert_eq!(recovery.code, 0, "{}", recovery.stderr);
            only(directory.path(), &["model.gguf", "copy.gguf"]);
            let found = read("model.gguf").unwrap();
            assert!(found == original || found == new, "{args:?}: a third file");
            let found = read("copy.gguf");
            assert!(found.is_none() || found == copy, "{args:?}: half a file");
        }
    }
    println!("kills: {halfway} edits left a journal");
    report(hit, kills() * 4, "edits");
}

/// A conversion: the output is complete or does not exist, and a file that it replaces is complete.
#[test]
fn convert() {
    let directory = Directory::new();
    let source = real("tinystories260K");
    let args = ["convert", source.to_str().unwrap(), "-o", "out.gguf", "--type", "f16", "--force"];
    let span = time(directory.path(), &args).mul_f64(1.1);
    let out = directory.path().join("out.gguf");
    let new = fs::read(&out).unwrap();
    let mut hit = 0;
    for number in 0..kills() {
        let before = (number % 2 == 0).then_some(b"something else".as_slice());
        match before {
            Some(bytes) => fs::write(&out, bytes).unwrap(),
            None => drop(fs::remove_file(&out)),
        }
        hit += u32::from(kill(directory.path(), &args, moment(number, span)));
        only(directory.path(), &["out.gguf"]);
        let found = fs::read(&out).ok();
        assert!(found.as_deref() == before || found.as_ref() == Some(&new), "half a file");
    }
    report(hit, kills(), "conversions");
}

/// Splitting and merging: each output is complete or does not exist, and the inputs are unchanged.
#[test]
fn split_and_merge() {
    let directory = Directory::new();
    fs::copy(real("mobilenetv3_3class_v3_fp16.gguf"), directory.path().join("model.gguf")).unwrap();
    let content = || -> BTreeMap<String, Vec<u8>> {
        let entries = fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap());
        let whole = entries.map(|entry| {
            (entry.file_name().into_string().unwrap(), fs::read(entry.path()).unwrap())
        });
        whole.filter(|(name, _)| !name.starts_with(".ggmill-")).collect()
    };
    let mut hit = 0;
    for args in [
        &["split", "model.gguf", "shard", "--max-tensors", "100"][..],
        &["merge", "shard-00001-of-00003.gguf", "whole.gguf"],
    ] {
        let before = content();
        let span = time(directory.path(), args).mul_f64(1.1);
        let after = content();
        assert!(after.len() > before.len());
        for number in 0..kills() {
            for name in after.keys().filter(|name| !before.contains_key(*name)) {
                let _ = fs::remove_file(directory.path().join(name));
            }
            hit += u32::from(kill(directory.path(), args, moment(number, span)));
            let found = content();
            assert!(before.keys().all(|name| found.contains_key(name)), "an input is gone");
            assert!(
                found.iter().all(|(name, bytes)| after.get(name) == Some(bytes)),
                "half a file"
            );
        }
        fs::read_dir(directory.path())
            .unwrap()
            .for_each(|entry| drop(fs::remove_file(entry.unwrap().path())));
        for (name, bytes) in &after {
            fs::write(directory.path().join(name), bytes).unwrap();
        }
    }
    report(hit, kills() * 2, "splits and merges");
}
