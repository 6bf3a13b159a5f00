//! Files that claim to be large, read by a process with little memory: an error that names the
//! file, never an abort.

use std::fs::File;
use std::process::{Command, Stdio};

use crate::support::{Directory, Outcome, outcome, tiny};

/// The limit of the address space in kilobytes: enough for the program and its threads, less than
/// the files.
const LIMIT: &str = "1000000";

/// Runs the program under that limit, if a shell can set it.
fn limited(directory: &Directory, args: &[&str]) -> Outcome {
    let mut command = Command::new("sh");
    command
        .args(["-c", r#"ulimit -v "$0" && exec "$@""#, LIMIT, env!("CARGO_BIN_EXE_ggmill")])
        .args(args);
    outcome(
        command.current_dir(directory.path()).stdin(Stdio::null()).env("RAYON_NUM_THREADS", "2"),
    )
}

/// Writes a sparse file of `len` bytes that begins with `head`.
fn sparse(directory: &Directory, name: &str, head: &[u8], len: u64) {
    let path = directory.path().join(name);
    std::fs::write(&path, head).unwrap();
    File::options().write(true).open(path).unwrap().set_len(len).unwrap();
}

fn i32s(numbers: &[i32]) -> Vec<u8> {
    numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
}

#[test]
#[cfg(target_os = "linux")]
fn an_importance_matrix_as_large_as_a_disk() {
    let directory = Directory::new().with("tiny.gguf", tiny());
    sparse(&directory, "zeros.dat", b"", 8 << 30);
    sparse(&directory, "gguf.imatrix", b"GGUF\x03\0\0\0", 8 << 30);
    sparse(&directory, "entry.dat", &i32s(&[1, 0, 1, i32::MAX / 4]), 2 << 30);
    for (name, words) in
        [("zeros.dat", "8.00 GiB"), ("gguf.imatrix", "8.00 GiB"), ("entry.dat", "2.00 GiB")]
    {
        for args in [
            &["imatrix", "show", name][..],
            &["imatrix", "merge", name, "-o", "merged.gguf"],
            &["quantize", "tiny.gguf", "out.gguf", "Q8_0", "--imatrix", name],
        ] {
            let found = limited(&directory, args);
            assert_eq!((found.code, found.stdout.as_str()), (2, ""), "{args:?}: {}", found.stderr);
            assert!(
                found.stderr.contains(name) && found.stderr.contains(words),
                "{args:?}: {}",
                found.stderr
            );
        }
    }
}
