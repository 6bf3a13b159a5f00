//! Rejected files: exit code 2, nothing on standard output, and a hint.

use std::io::Write as _;
use std::path::Path;
use std::process::Stdio;

use ggmill_testdata::corpus;

use crate::support::{Directory, command, ggmill, real, shard, tiny};

/// Returns the text on standard error.
fn refused(directory: &Path, args: &[&str]) -> String {
    let found = ggmill(directory, &[&["inspect"], args].concat());
    assert_eq!((found.code, found.stdout.as_str()), (2, ""), "{}", found.stderr);
    found.stderr
}

#[test]
fn the_kind_of_a_file_is_named() {
    let directory = Directory::new()
        .with("page.gguf", "<!DOCTYPE html><html><body>Sign in</body></html>")
        .with(
            "pointer.gguf",
            "version https://git-lfs.github.com/spec/v1\noid sha256:0000\nsize 4368439584\n",
        )
        .with("empty.gguf", "")
        .with("zeros.gguf", [0; 4096])
        .with("message.gguf", "Entry not found");
    insta::assert_snapshot!("web_page", refused(directory.path(), &["page.gguf"]));
    insta::assert_snapshot!("lfs_pointer", refused(directory.path(), &["pointer.gguf"]));
    insta::assert_snapshot!("empty", refused(directory.path(), &["empty.gguf"]));
    insta::assert_snapshot!("zeros", refused(directory.path(), &["zeros.gguf"]));
    insta::assert_snapshot!("message", refused(directory.path(), &["message.gguf"]));
    insta::assert_snapshot!(
        "ggml",
        refused(&real(""), &["whisper-for-tests-ggml-parakeet-tdt.bin"])
    );
    insta::assert_snapshot!(
        "safetensors",
        refused(&real("tinystories260K"), &["model.safetensors"])
    );
}

#[test]
fn a_truncated_download() {
    let tiny = tiny();
    let directory = Directory::new()
        .with("data.gguf", &tiny[..tiny.len() - 100])
        .with("header.gguf", &tiny[..100]);
    // The readable part is shown.
    let cut = |args: &[&str]| {
        let found = ggmill(directory.path(), &[&["inspect"], args].concat());
        assert_eq!(found.code, 2, "{}", found.stderr);
        assert!(found.stdout.contains("llama"), "{}", found.stdout);
        found
    };
    let data = cut(&["data.gguf", "--all"]);
    insta::assert_snapshot!("truncated_data", data.stderr);
    assert!(
        data.stdout.contains("Tiny") && data.stdout.contains("token_embd.weight"),
        "{}",
        data.stdout
    );
    let header = cut(&["header.gguf"]);
    insta::assert_snapshot!("truncated_header", header.stderr);
    // Data in the missing part is not reported as missing.
    assert!(header.stdout.contains("unknown: the header is incomplete"), "{}", header.stdout);
    assert!(!header.stdout.contains("no tensors"), "{}", header.stdout);
    assert!(header.stdout.contains("before the fault: "), "{}", header.stdout);
    let json: serde_json::Value =
        serde_json::from_str(&cut(&["data.gguf", "--json"]).stdout).unwrap();
    assert_eq!(
        (&json["file_size"], &json["tensors"][0]["name"]),
        (&(tiny.len() - 100).into(), &"token_embd.weight".into())
    );
}

/// `check` reports a truncated file once, before other findings, for any number of missing tensors.
#[test]
fn a_truncated_download_is_one_finding() {
    let whole = std::fs::read(real("mobilenetv3_3class_v3_fp16.gguf")).unwrap();
    let directory = Directory::new().with("cut.gguf", &whole[..whole.len() / 2]);
    let found = ggmill(directory.path(), &["check", "cut.gguf", "--format", "json"]);
    assert_eq!(found.code, 1, "{}", found.stderr);
    let report: serde_json::Value = serde_json::from_str(&found.stdout).unwrap();
    let findings = report["files"][0]["findings"].as_array().unwrap();
    let outside: Vec<_> = findings.iter().filter(|finding| finding["code"] == "GG1302").collect();
    assert_eq!(outside.len(), 1, "{findings:#?}");
    let message = outside[0]["message"].as_str().unwrap();
    assert!(
        message.contains(&format!("the file is truncated: {} of at least", whole.len() / 2))
            && message.contains("(50%)"),
        "{message}"
    );
    assert_eq!(findings[0]["code"], "GG1302", "{findings:#?}");
}

#[test]
fn directories_and_missing_files() {
    let directory = Directory::new().with("b.gguf", tiny()).with("a.gguf", tiny());
    insta::assert_snapshot!("missing_file", refused(directory.path(), &["missing.gguf"]));
    insta::assert_snapshot!("directory", refused(directory.path(), &["."]));
    insta::assert_snapshot!("checkpoint_directory", refused(&real(""), &["tinystories260K"]));
}

#[test]
fn a_missing_shard() {
    let directory = Directory::new().with("a-00001-of-00002.gguf", shard(0, 2));
    insta::assert_snapshot!("missing_shard", refused(directory.path(), &["a-00001-of-00002.gguf"]));
    assert_eq!(ggmill(directory.path(), &["inspect", "--alone", "a-00001-of-00002.gguf"]).code, 0);
}

#[test]
fn control_characters_in_a_file_name_are_escaped() {
    let stderr = refused(Directory::new().path(), &["\u{1b}[31mred.gguf"]);
    assert!(stderr.contains(r"\u{1b}[31mred.gguf") && !stderr.contains('\u{1b}'), "{stderr}");
}

#[test]
fn standard_input_that_is_not_gguf() {
    let mut child = command(Directory::new().path())
        .args(["inspect", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(b"tjgg\x03\0\0\0 and more").unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(2), &b""[..]));
    insta::assert_snapshot!("legacy_on_standard_input", String::from_utf8(output.stderr).unwrap());
}

/// Every invalid file of the corpus that the default limits reject: an error that names the file,
/// never a panic.
#[test]
fn every_broken_file() {
    let defaults = ggmill_core::Limits::default();
    for case in corpus::broken().into_iter().filter(|case| case.limits == defaults) {
        let directory = Directory::new().with("broken.gguf", &case.bytes);
        // The readable part of a truncated file is shown first.
        let error = ggmill_core::Header::parse(&case.bytes).unwrap_err();
        let stderr = match error.kind() {
            ggmill_core::ErrorKind::Truncated => {
                let found = ggmill(directory.path(), &["inspect", "broken.gguf"]);
                assert_eq!(found.code, 2, "{}", case.name);
                found.stderr
            }
            _ => refused(directory.path(), &["broken.gguf"]),
        };
        assert!(stderr.starts_with("error: broken.gguf: "), "{}: {stderr}", case.name);
    }
}

#[test]
fn every_valid_file() {
    let defaults = ggmill_core::Limits::default();
    for case in corpus::valid().into_iter().filter(|case| case.limits == defaults) {
        let directory = Directory::new().with("valid.gguf", &case.bytes);
        for args in [
            &["inspect", "--alone", "valid.gguf"][..],
            &["inspect", "--alone", "--json", "--full", "valid.gguf"],
        ] {
            let found = ggmill(directory.path(), args);
            assert_eq!(found.code, 0, "{}: {}", case.name, found.stderr);
        }
    }
}

/// The hint for an empty pipe is not about copying a file.
#[test]
fn standard_input_without_data() {
    let found = ggmill(Directory::new().path(), &["inspect", "-"]);
    assert_eq!((found.code, &*found.stderr), (2, "error: standard input: there is no data\n"));
}
