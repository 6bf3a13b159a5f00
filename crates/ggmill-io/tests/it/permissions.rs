//! Permissions of written files, on Unix only.
#![cfg(unix)]

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use ggmill_core::Sink as _;
use ggmill_io::{ErrorKind, FileSink, Overwrite};

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

fn write(path: &Path, overwrite: Overwrite) {
    let mut sink = FileSink::create(path, overwrite).unwrap();
    sink.append(b"GGUF").unwrap();
    sink.commit().unwrap();
}

/// A new file has default permissions.
#[test]
fn a_new_file_is_like_any_other() {
    let directory = tempfile::tempdir().unwrap();
    let (plain, ours) = (directory.path().join("plain"), directory.path().join("ours"));
    fs::write(&plain, b"").unwrap();
    write(&ours, Overwrite::Refuse);
    assert_eq!(mode(&ours), mode(&plain));
}

/// A replacement has the permissions of the old file.
#[test]
fn a_replaced_file_keeps_its_permissions() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("model.gguf");
    fs::write(&path, b"old").unwrap();
    for expected in [0o600, 0o640, 0o400, 0o666] {
        fs::set_permissions(&path, Permissions::from_mode(expected)).unwrap();
        write(&path, Overwrite::Replace);
        assert_eq!(mode(&path), expected);
    }
}

/// Missing permissions are errors. Skipped for root, who has all of them.
#[test]
fn missing_permissions_are_errors() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("model.gguf");
    fs::write(&path, b"GGUF").unwrap();
    fs::set_permissions(&path, Permissions::from_mode(0o0)).unwrap();
    if fs::read(&path).is_ok() {
        println!("skipped: this user may read everything");
        return;
    }
    let error = ggmill_io::open_alone(&path).unwrap_err();
    assert_eq!(
        (error.kind(), error.to_string()),
        (ErrorKind::Io, format!("{}: cannot open: permission denied", path.display()))
    );
    fs::set_permissions(directory.path(), Permissions::from_mode(0o500)).unwrap();
    let error = FileSink::create(directory.path().join("new.gguf"), Overwrite::Refuse).unwrap_err();
    assert_eq!(
        error.to_string(),
        format!(
            "{}: cannot write into this directory: permission denied",
            directory.path().display()
        )
    );
    // So that the directory can be removed.
    fs::set_permissions(directory.path(), Permissions::from_mode(0o700)).unwrap();
}
