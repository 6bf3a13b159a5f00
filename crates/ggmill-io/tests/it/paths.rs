//! Paths of files and shards, renaming, and directories of files.

use std::fs;
use std::path::{Path, PathBuf};

use ggmill_core::{MetadataBuf, Model};
use ggmill_io::{Directory, ErrorKind, OpenFailure};

use crate::{file_of, names_in};

#[cfg(unix)]
#[test]
fn a_file_is_recognized_under_other_paths() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    fs::write(path("a"), "a").unwrap();
    fs::write(path("b"), "a").unwrap();
    fs::hard_link(path("a"), path("hard")).unwrap();
    std::os::unix::fs::symlink(path("a"), path("soft")).unwrap();
    let same = |a: &str, b: &str| ggmill_io::same_file(path(a), path(b)).unwrap();
    assert!(same("a", "hard") && same("soft", "a") && same("a", "./a"));
    assert!(!same("a", "b") && !same("a", "missing") && !same("missing", "missing"));
    assert!(!same("a", "a/below"), "a path below a file is missing");
    ggmill_io::refuse_inputs(path("c"), &[path("a"), path("b")]).unwrap();
    let error = ggmill_io::refuse_inputs(path("soft"), &[path("b"), path("a")]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Misuse);
    assert_eq!(error.kind().name(), "misuse");
    assert!(error.to_string().ends_with("soft: is an input, so it cannot be the output"));
}

#[test]
fn renaming_replaces_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    for name in ["a", "b", "taken"] {
        fs::write(path(name), name).unwrap();
    }
    let error = ggmill_io::rename_no_replace(path("a"), path("taken")).unwrap_err();
    assert_eq!((error.kind(), error.path()), (ErrorKind::Exists, &*path("taken")));
    let error = ggmill_io::rename_no_replace(path("missing"), path("new")).unwrap_err();
    assert_eq!((error.kind(), error.path()), (ErrorKind::Io, &*path("missing")));
    assert!(error.to_string().ends_with("missing: cannot rename: no such file"));
    let names = [(path("a"), path("c")), (path("b"), path("taken"))];
    assert_eq!(ggmill_io::rename_all(&names).unwrap_err().kind(), ErrorKind::Exists);
    assert_eq!(names_in(directory.path()), ["a", "b", "taken"]);
    assert_eq!(fs::read(path("a")).unwrap(), b"a");
    ggmill_io::rename_all(&[(path("a"), path("c")), (path("b"), path("a"))]).unwrap();
    assert_eq!(names_in(directory.path()), ["a", "c", "taken"]);
    assert_eq!(fs::read(path("a")).unwrap(), b"b");
}

#[test]
fn paths_of_shards() {
    let paths = ggmill_io::shard_paths(Path::new("models/big"), 2).unwrap();
    let names = ["models/big-00001-of-00002.gguf", "models/big-00002-of-00002.gguf"];
    assert_eq!(paths, names.map(PathBuf::from));
    assert_eq!(ggmill_io::shard_paths(Path::new("models/"), 2), None);
    assert_eq!(ggmill_io::shard_paths(Path::new(".."), 2), None);
    assert!(ggmill_io::shard_paths(Path::new("big"), 0).unwrap().is_empty());
    assert!(ggmill_io::shard_name(&paths[1]).is_some_and(|name| name.number() == 2));
    assert!(ggmill_io::shard_name(Path::new("a-00001-of-00001.gguf")).is_none());
    assert!(ggmill_io::shard_name(Path::new("a.gguf")).is_none());
}

#[test]
fn shards_in_a_directory() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    let [first, third] = [1, 3].map(|number| path(&format!("big-0000{number}-of-00003.gguf")));
    fs::write(&first, "").unwrap();
    fs::create_dir(path("big-00002-of-00003.gguf")).unwrap();
    // The path itself is listed even if it does not exist.
    assert_eq!(ggmill_io::sibling_shards(&third), [first.clone(), third]);
    assert_eq!(ggmill_io::sibling_shards(&first), std::slice::from_ref(&first));
    assert_eq!(ggmill_io::sibling_shards(&path("a.gguf")), [path("a.gguf")]);

    assert_eq!(ggmill_io::stale_shard(&path("big"), 3), None);
    assert_eq!(ggmill_io::stale_shard(&path("big"), 2), Some(first));
    assert_eq!(ggmill_io::stale_shard(&path("bi"), 2), None);
    fs::write(path("big-00001-of-00002.gguf"), "").unwrap();
    assert_eq!(ggmill_io::stale_shard(&path("big"), 4), Some(path("big-00001-of-00002.gguf")));
    assert_eq!(ggmill_io::stale_shard(&path("missing/big"), 4), None);
}

/// Writes shard `number`, from 0, of `count` as shard `named` of its name.
fn write_shard(directory: &Path, number: u16, count: u16, named: u16) -> PathBuf {
    let mut metadata = MetadataBuf::new();
    metadata.set("split.no", number);
    metadata.set("split.count", count);
    let path = directory.join(format!("a-0000{named}-of-00002.gguf"));
    fs::write(&path, file_of(metadata, &[&format!("t{number}")], 1)).unwrap();
    path
}

#[test]
fn why_a_set_does_not_open() {
    let directory = tempfile::tempdir().unwrap();
    let first = write_shard(directory.path(), 0, 2, 1);
    let failure = ggmill_io::open_failure(&first).unwrap();
    assert_eq!(failure.text, "a-00002-of-00002.gguf: missing: shard 2 of 2");
    assert!(!failure.is_in_content);
    let second = write_shard(directory.path(), 1, 2, 2);
    assert_eq!(ggmill_io::open_failure(&first), None);
    fs::write(&second, "GGUF").unwrap();
    let failure = ggmill_io::open_failure(&first).unwrap();
    assert!(failure.text.starts_with("a-00002-of-00002.gguf: offset 0x4: "), "{}", failure.text);
    assert!(failure.is_in_content);
}

#[test]
fn the_fault_of_a_set() {
    let directory = tempfile::tempdir().unwrap();
    let open = |number, count| {
        ggmill_io::open_alone(write_shard(directory.path(), number, count, number + 1)).unwrap()
    };
    let (first, second) = (open(0, 2), open(1, 2));
    let other = open(1, 3);
    let whole = Model::open(file_of(MetadataBuf::new(), &["a"], 1)).unwrap();
    let fault = |shards: &[&Model], is_in_content| {
        ggmill_io::set_fault(shards, || Some(OpenFailure::new("broken".to_owned(), is_in_content)))
    };
    let broken = Some("broken".to_owned());
    assert_eq!(fault(&[], false), None);
    assert_eq!(fault(&[&whole, &whole], false), None, "not a set");
    assert_eq!(fault(&[&first, &second], false), broken);
    assert_eq!(fault(&[&first, &second], true), None, "in the content of one file");
    for shards in [[&second, &first], [&first, &other], [&first, &whole]] {
        assert_eq!(fault(&shards, true), broken);
    }
    assert_eq!(ggmill_io::set_fault(&[&first, &second], || None), None);
    let cut = Model::open_damaged(b"GGUF\x03\0\0\0\0\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0".to_vec());
    assert_eq!(fault(&[&cut.unwrap(), &second], false), None, "the header is damaged");
}

/// Opens a remote directory whose files contain their paths.
fn remote() -> Directory {
    let files = ["a.json", "b/c.json", "b/d/e.json", "bc", "z"].map(str::to_owned);
    Directory::remote("hf://owner/name", Some("name".to_owned()), files, |path| match path {
        "z" => Err(ggmill_core::Error::caused(ggmill_core::ErrorKind::Io, "z: is gone")),
        path => Ok(Box::new(path.as_bytes().to_vec())),
    })
}

#[test]
fn a_local_directory_equals_a_remote_one() {
    let temporary = tempfile::tempdir().unwrap();
    let root = temporary.path().join("name");
    fs::create_dir_all(root.join("b/d")).unwrap();
    for path in ["a.json", "b/c.json", "b/d/e.json", "bc", "z"] {
        fs::write(root.join(path), path).unwrap();
    }
    let read = |directory: &Directory, name: &str| {
        let file = directory.file(name).unwrap();
        String::from_utf8(file.read_whole(99).unwrap()).unwrap()
    };
    for directory in [Directory::open(&root).unwrap(), remote()] {
        assert_eq!(directory.name().unwrap(), "name");
        assert_eq!(directory.files().unwrap(), ["a.json", "bc", "z"]);
        assert_eq!(directory.subdirectories().unwrap(), ["b"]);
        assert!(directory.has("bc") && !directory.has("b") && !directory.has("c.json"));
        assert_eq!(read(&directory, "a.json"), "a.json");
        let error = directory.file("missing").unwrap_err();
        assert_eq!(error.io_error().unwrap().kind(), std::io::ErrorKind::NotFound);
        assert!(directory.subdirectory("bc").unwrap().is_none());
        assert!(directory.subdirectory("a").unwrap().is_none());
        assert!(directory.subdirectory("missing").unwrap().is_none());
        let below = directory.subdirectory("b").unwrap().unwrap();
        assert_eq!(below.name().unwrap(), "b");
        assert_eq!(below.path(), directory.path().join("b"));
        assert_eq!(below.files().unwrap(), ["c.json"]);
        assert_eq!(below.subdirectories().unwrap(), ["d"]);
        assert!(below.has("c.json") && !below.has("a.json"));
        assert_eq!(read(&below, "c.json"), "b/c.json");
        for name in ["../a.json", "b/c.json", "b\\c.json", "c:", "/a.json", ".", "..", "", "a\0"] {
            assert!(!directory.has(name), "{name:?}");
            let errors =
                [directory.file(name).unwrap_err(), directory.subdirectory(name).unwrap_err()];
            for error in errors {
                let malformed = ggmill_core::ErrorKind::Malformed;
                assert_eq!(error.kind(), ErrorKind::Format(malformed), "{name:?}");
            }
        }
    }
    let error = remote().file("z").unwrap_err();
    assert_eq!((error.kind(), error.to_string()), (ErrorKind::Io, "z: is gone".to_owned()));
}

#[test]
fn the_path_of_a_file_opens_its_directory() {
    let temporary = tempfile::tempdir().unwrap();
    let file = temporary.path().join("a.json");
    fs::write(&file, "{}").unwrap();
    let (directory, name) = Directory::open_either(&file).unwrap();
    assert_eq!((directory.path(), name.as_deref()), (temporary.path(), Some("a.json")));
    let (directory, name) = Directory::open_either(temporary.path()).unwrap();
    assert_eq!((directory.path(), name), (temporary.path(), None));
    for error in [
        Directory::open(&file).unwrap_err(),
        Directory::open_either(file.join("below")).unwrap_err(),
    ] {
        assert_eq!(error.io_error().unwrap().kind(), std::io::ErrorKind::NotADirectory);
    }
}

#[cfg(unix)]
#[test]
fn a_dangling_link_is_a_file_that_cannot_be_opened() {
    let temporary = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink("missing", temporary.path().join("link")).unwrap();
    let directory = Directory::open(temporary.path()).unwrap();
    assert!(directory.has("link"));
    assert_eq!(directory.files().unwrap(), ["link"]);
    assert!(directory.file("link").is_err());
}

/// The name of each kind of error is its identifier in snake case.
#[test]
fn kinds_of_errors_have_names() {
    let kinds = [
        (ErrorKind::Io, "io"),
        (ErrorKind::Changed, "changed"),
        (ErrorKind::Exists, "exists"),
        (ErrorKind::NotEditable, "not_editable"),
        (ErrorKind::Journal, "journal"),
        (ErrorKind::Shards, "shards"),
        (ErrorKind::Misuse, "misuse"),
        (ErrorKind::Format(ggmill_core::ErrorKind::NotGguf), "not_gguf"),
    ];
    for (kind, name) in kinds {
        assert_eq!(kind.name(), name);
    }
}

#[test]
fn errors_convert_to_errors_of_a_source() {
    let convert = |error: ggmill_io::Error| {
        let message = error.to_string();
        let converted = ggmill_core::Error::from(error);
        assert_eq!(converted.to_string(), message);
        assert!(converted.cause().unwrap().is::<ggmill_io::Error>());
        converted.kind()
    };
    let directory = tempfile::tempdir().unwrap();
    let first = write_shard(directory.path(), 0, 2, 1);
    let error = ggmill_io::open(&first).unwrap_err();
    assert!(error.format_error().is_some() && error.io_error().is_none() && !error.is_pending());
    assert_eq!(convert(error), ggmill_core::ErrorKind::Shards);
    let missing = ggmill_io::open(directory.path().join("missing")).unwrap_err();
    assert!(missing.format_error().is_none() && missing.offset().is_none());
    assert!(missing.subject().is_none());
    assert_eq!(convert(missing), ggmill_core::ErrorKind::Io);
    fs::write(&first, "GGUF").unwrap();
    let error = ggmill_io::open(&first).unwrap_err();
    assert_eq!((error.offset(), error.format_error().is_some()), (Some(4), true));
    assert!(format!("{error:?}").starts_with("Format(Truncated): "));
    assert_eq!(convert(error), ggmill_core::ErrorKind::Truncated);
}
