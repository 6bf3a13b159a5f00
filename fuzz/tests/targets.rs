//! The list of targets and the binaries of the coverage-guided fuzzer, and every target on its
//! seeds.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use ggmill_fuzz::{TARGETS, seeds::seeds};

/// The directory of the package.
fn package() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

#[test]
fn every_target_has_a_binary_and_every_binary_a_target() {
    let known: BTreeSet<String> = TARGETS.iter().map(|(name, _)| (*name).to_owned()).collect();
    let sources = std::fs::read_dir(package().join("fuzz_targets")).expect("the directory is read");
    let binaries: BTreeSet<String> = sources
        .map(|entry| entry.expect("its entries are read").path())
        .map(|path| path.file_stem().expect("a name").to_string_lossy().into_owned())
        .collect();
    assert_eq!(binaries, known);
    let manifest = std::fs::read_to_string(package().join("Cargo.toml")).expect("the manifest");
    for name in known {
        assert!(manifest.contains(&format!("path = \"fuzz_targets/{name}.rs\"")), "{name}");
    }
}

#[test]
fn every_target_takes_its_seeds() {
    for (name, target) in TARGETS {
        let seeds = seeds(name);
        assert!(!seeds.is_empty(), "{name} has no seeds");
        for (_, bytes) in seeds {
            target(&bytes);
        }
    }
}

#[test]
fn the_harness_runs_a_target_and_refuses_what_is_none() {
    let harness = |arguments: &[&str]| {
        let done = Command::new(env!("CARGO_BIN_EXE_harness"))
            .args(arguments)
            .output()
            .expect("the harness starts");
        let said = [done.stdout, done.stderr].concat();
        (done.status.success(), String::from_utf8(said).expect("it prints text"))
    };
    let (succeeds, said) = harness(&["run", "file_name", "0"]);
    assert!(succeeds && said.contains("no finding"), "{said}");
    let (succeeds, said) = harness(&["run", "nothing", "0"]);
    assert!(!succeeds && said.contains("no target nothing"), "{said}");
}
