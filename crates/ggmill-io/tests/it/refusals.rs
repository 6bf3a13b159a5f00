//! Paths that do not lead to a model: refused without blocking, with the path and the reason.

use std::path::Path;

use ggmill_core::Limits;
use ggmill_io::{Error, ErrorKind, RandomAccess};

use crate::map_with;

/// Returns the error that all ways of opening agree on.
fn refusal(path: &Path) -> String {
    let all: Vec<Error> = vec![
        ggmill_io::open_alone(path).unwrap_err(),
        map_with(path, &Limits::default()).unwrap_err(),
        ggmill_io::open(path).unwrap_err(),
        RandomAccess::open(path).unwrap_err(),
    ];
    for error in &all {
        assert_eq!(error.kind(), ErrorKind::Io);
        assert_eq!(error.path(), path);
        assert_eq!(error.to_string(), all[0].to_string());
    }
    all[0].to_string()
}

#[test]
fn a_missing_file() {
    assert_eq!(
        refusal(Path::new("no/such/model.gguf")),
        "no/such/model.gguf: cannot open: no such file"
    );
    let error = ggmill_io::open_alone("no/such/model.gguf").unwrap_err();
    assert_eq!(error.io_error().unwrap().kind(), std::io::ErrorKind::NotFound);
}

#[test]
fn a_directory() {
    let directory = tempfile::tempdir().unwrap();
    assert_eq!(
        refusal(directory.path()),
        format!("{}: is a directory, expected a regular file", directory.path().display())
    );
}

/// Control characters in a path are escaped.
#[test]
fn control_characters_in_a_path() {
    assert_eq!(
        refusal(Path::new("\u{1b}[2Jmodel.gguf")),
        r"\u{1b}[2Jmodel.gguf: cannot open: no such file"
    );
}

/// Printing an error with its chain of sources repeats nothing.
#[test]
fn the_chain_of_sources_repeats_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("cut.gguf");
    std::fs::write(&path, b"GGUF\x03\0\0\0").unwrap();
    let errors: [Box<dyn std::error::Error>; 3] = [
        Box::new(ggmill_io::open("no/such/model.gguf").unwrap_err()),
        Box::new(ggmill_io::open(&path).unwrap_err()),
        Box::new(ggmill_core::Error::from(ggmill_io::open("no/such/model.gguf").unwrap_err())),
    ];
    for error in &errors {
        let mut chain = vec![error.to_string()];
        let mut next = error.source();
        while let Some(error) = next {
            chain.push(error.to_string());
            next = error.source();
        }
        let whole = chain.join("\n");
        for sentence in chain.iter().flat_map(|text| text.split(": ")) {
            assert_eq!(whole.matches(sentence).count(), 1, "{sentence:?} in {whole}");
        }
    }
}

/// The error has the size of a pointer and can cross threads.
#[test]
fn errors_are_small() {
    fn crosses_threads<T: Send + Sync + 'static>() {}
    crosses_threads::<Error>();
    assert_eq!(size_of::<Error>(), size_of::<usize>());
}

/// Opening a pipe without a writer would block forever.
#[cfg(target_os = "linux")]
#[test]
fn a_pipe() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("pipe.gguf");
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &path,
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR,
        0,
    )
    .unwrap();
    assert_eq!(refusal(&path), format!("{}: is a pipe, expected a regular file", path.display()));
}

#[cfg(unix)]
#[test]
fn a_socket() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("socket.gguf");
    let _socket = std::os::unix::net::UnixListener::bind(&path).unwrap();
    assert_eq!(refusal(&path), format!("{}: is a socket, expected a regular file", path.display()));
}

#[cfg(unix)]
#[test]
fn a_device() {
    assert_eq!(refusal(Path::new("/dev/null")), "/dev/null: is a device, expected a regular file");
}
