//! `ggmill index`.

use std::fs::{self, File, FileTimes};
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, SystemTime};

use serde_json::Value as Json;

use crate::support::{Directory, Outcome, command, ggmill, outcome, tiny};

/// Returns two directories with models, one of which is broken, and with other files.
fn directory() -> Directory {
    let directory = Directory::new();
    for name in ["a", "b/c"] {
        fs::create_dir_all(directory.path().join(name)).unwrap();
    }
    directory
        .with("a/one.gguf", tiny())
        .with("a/notes.txt", "notes")
        .with("b/c/two.GGUF", tiny())
        .with("b/cut.gguf", &tiny()[..300])
        .with("b/page.gguf", "<!DOCTYPE html><html>")
}

fn rows(text: &str) -> Vec<Json> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Returns the files with their errors.
fn files(text: &str) -> Vec<(String, Option<String>)> {
    let rows = rows(text);
    let files = rows.iter().filter(|row| row["record"] == "file");
    let text = |cell: &Json| cell.as_str().map(str::to_owned);
    files.map(|row| (text(&row["path"]).unwrap(), text(&row["error"]))).collect()
}

fn read(directory: &Directory, name: &str) -> String {
    fs::read_to_string(directory.path().join(name)).unwrap()
}

fn succeeded(found: &Outcome) {
    assert_eq!(found.code, 0, "{}", found.stderr);
}

#[test]
fn directories_become_rows_and_broken_files_rows_with_their_error() {
    let directory = directory();
    let found = ggmill(directory.path(), &["index", ".", "a/one.gguf", "a", "-o", "-"]);
    succeeded(&found);
    let listed = files(&found.stdout);
    let names: Vec<&str> = listed.iter().map(|(name, _)| &**name).collect();
    // A hard link is a separate row; the same path twice is one row.
    assert_eq!(
        names,
        ["./a/one.gguf", "./b/c/two.GGUF", "./b/cut.gguf", "./b/page.gguf", "a/one.gguf"]
    );
    let errors: Vec<&str> = listed.iter().filter_map(|(_, error)| error.as_deref()).collect();
    assert_eq!(errors.len(), 2, "{errors:?}");
    assert!(errors[1].contains("web page"), "{errors:?}");
    assert!(errors.iter().all(|error| !error.contains(".gguf:")), "the row has the path");
    // Also for a file that could be opened in part.
    let (cut, rest) = found.stderr.split_once('\n').unwrap();
    assert!(cut.starts_with("warning: ./b/cut.gguf: offset "), "{cut}");
    let (reason, rest) = rest.split_once('\n').unwrap();
    assert!(reason.starts_with("warning: ./b/page.gguf: ") && reason.contains("web page"));
    assert_eq!(
        rest,
        "note: 5 files (0 unchanged), 6 tensors, 16 metadata entries\nwarning: 2 files could not \
         be read in full; the column `error` shows the reason\n"
    );
    let none = ggmill(directory.path(), &["index", "b/page.gguf", "-o", "-"]);
    assert_eq!(none.code, 2, "{}", none.stderr);
    for words in ["b/page.gguf: ", "web page", "no file could be read in full"] {
        assert!(none.stderr.contains(words), "{words}: {}", none.stderr);
    }
    let quiet = ggmill(directory.path(), &["index", "a", "-o", "-", "--quiet"]);
    assert_eq!((quiet.code, &*quiet.stderr), (0, ""));
}

#[cfg(feature = "parquet")]
#[test]
fn parquet_is_three_tables_and_resuming_changes_only_what_changed() {
    let directory = directory();
    let run = |arguments: &[&str]| {
        ggmill(directory.path(), &[&["index", "a", "b", "-o"], arguments].concat())
    };
    let names = ["m.parquet", "m.tensors.parquet", "m.metadata.parquet", "m.ndjson.sz"];
    let all = || names.map(|name| fs::read(directory.path().join(name)).unwrap());
    succeeded(&run(&["m.parquet"]));
    let first = all();
    assert!(first[..3].iter().all(|table| table.starts_with(b"PAR1")));
    let refused = run(&["m.parquet"]);
    assert_eq!(
        (refused.code, &*refused.stderr),
        (2, "error: m.parquet: already exists\nhint: --resume updates it, --force replaces it\n")
    );
    let resumed = run(&["m.parquet", "--resume"]);
    assert!(resumed.stderr.contains("note: 4 files (2 unchanged)"), "{}", resumed.stderr);
    assert!(all() == first);
    // A change that keeps the size is detected by the modification time.
    let path = directory.path().join("a/one.gguf");
    let swapped = String::from_utf8_lossy(&tiny()).contains("Tiny");
    assert!(swapped);
    let mut bytes = tiny();
    let at = bytes.windows(4).position(|four| four == b"Tiny").unwrap();
    bytes[at..at + 4].copy_from_slice(b"Toby");
    fs::write(&path, bytes).unwrap();
    let later = SystemTime::now() + Duration::from_secs(60);
    let file = File::options().write(true).open(&path).unwrap();
    file.set_times(FileTimes::new().set_modified(later)).unwrap();
    let resumed = run(&["m.parquet", "--resume"]);
    assert!(resumed.stderr.contains("note: 4 files (1 unchanged)"), "{}", resumed.stderr);
    assert!(all() != first);
    succeeded(&run(&["m.parquet", "--force"]));
    fs::remove_file(directory.path().join(names[1])).unwrap();
    let refused = run(&["m.parquet", "--resume"]);
    assert_eq!(
        (refused.code, &*refused.stderr),
        (
            2,
            "error: m.tensors.parquet: missing, so the index cannot be updated\nhint: --force \
             writes a new index\n"
        )
    );
    // After a crash between two renames, the files are from different runs.
    succeeded(&run(&["m.parquet", "--force"]));
    let new = all();
    assert!(new[0] != first[0] && new[3] != first[3]);
    for old in [0, 3] {
        fs::write(directory.path().join(names[old]), &first[old]).unwrap();
        succeeded(&run(&["m.parquet", "--resume"]));
        assert!(all() == new);
    }
    fs::write(directory.path().join(names[3]), "notes").unwrap();
    let refused = run(&["m.parquet", "--resume"]);
    let expected = "error: not an index that can be updated: ";
    assert!(refused.code == 2 && refused.stderr.starts_with(expected), "{}", refused.stderr);
    assert!(refused.stderr.ends_with("hint: --force writes a new index\n"), "{}", refused.stderr);
    assert!(all()[..3] == new[..3], "nothing is changed");
}

#[test]
fn ndjson_is_resumed_too() {
    let directory = directory();
    let run = |options: &[&str]| {
        ggmill(directory.path(), &[&["index", "a", "b", "-o", "m.ndjson"], options].concat())
    };
    // There is no index at first.
    succeeded(&run(&["--resume"]));
    let first = read(&directory, "m.ndjson");
    assert_eq!(rows(&first).len(), 4 + 3 * 4 + 3 * 2 - 2);
    succeeded(&run(&["--resume"]));
    assert_eq!(read(&directory, "m.ndjson"), first);
    fs::remove_file(directory.path().join("b/c/two.GGUF")).unwrap();
    let directory = directory.with("b/new.gguf", tiny());
    let resumed =
        ggmill(directory.path(), &["index", "a", "b", "-o", "m.ndjson", "--resume", "-t", "1"]);
    assert!(resumed.stderr.contains("note: 4 files (1 unchanged)"), "{}", resumed.stderr);
    let names: Vec<String> =
        files(&read(&directory, "m.ndjson")).into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["a/one.gguf", "b/cut.gguf", "b/new.gguf", "b/page.gguf"]);
}

#[test]
fn a_list_of_files_is_read_from_a_file_or_from_standard_input() {
    let directory = directory().with("list", "a/one.gguf\nb/c\n\n");
    let found = ggmill(directory.path(), &["index", "--files-from", "list", "-o", "-"]);
    succeeded(&found);
    assert_eq!(files(&found.stdout).len(), 2);
    let list = File::open(directory.path().join("list")).unwrap();
    let mut program = command(directory.path());
    let piped =
        outcome(program.args(["index", "--files-from", "-", "-o", "-"]).stdin(Stdio::from(list)));
    assert_eq!(piped.stdout, found.stdout);
}

#[test]
fn invalid_outputs_are_refused_and_leave_no_files() {
    let directory = directory().with("other.ndjson", "notes\n");
    let before = directory.files();
    for (arguments, expected) in [
        (&["missing", "-o", "m.ndjson"][..], "missing: no such file or directory\n"),
        (&["a/owner", "-o", "m.ndjson"], "a/owner: no such file or directory\n"),
        (
            &["owner/name", "-o", "m.ndjson"],
            "hint: a repository on the Hugging Face Hub is `hf://owner/name`",
        ),
        (&["a", "-o", "m.csv"], "expected a name that ends in .parquet, .ndjson or .jsonl"),
        (&["a", "-o", "nowhere/m.ndjson"], "nowhere"),
        (&["b/c", "-o", "m.ndjson", "-t", "0"], "expected a number from 1 to 512"),
        (&["a", "-o", "-", "--resume"], "standard output cannot be updated"),
        (&["-", "-o", "m.ndjson"], "standard input cannot be indexed"),
        (&["a", "-o", "other.ndjson"], "already exists"),
        (&["a", "-o", "other.ndjson", "--resume"], "not an index that can be updated: line 1"),
        (&["other.ndjson", "-o", "other.ndjson", "--force"], "other.ndjson"),
    ] {
        let found = ggmill(directory.path(), &[&["index"], arguments].concat());
        assert_eq!(found.code, 2, "{arguments:?}");
        assert!(found.stderr.contains(expected), "{arguments:?}: {}", found.stderr);
    }
    fs::create_dir(directory.path().join("empty")).unwrap();
    let found = ggmill(directory.path(), &["index", "a", "empty", "-o", "m.ndjson"]);
    assert!(found.code == 2 && found.stderr.contains("empty: no .gguf files found"));
    fs::remove_dir(directory.path().join("empty")).unwrap();
    assert_eq!(directory.files(), before);
    assert_eq!(read(&directory, "other.ndjson"), "notes\n");
}

#[cfg(unix)]
#[test]
fn link_cycles_pipes_and_names_that_are_not_utf_8_are_safe() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt as _;
    use std::os::unix::fs::symlink;
    let directory = Directory::new().with("m.gguf", tiny());
    let root = directory.path();
    symlink(root, root.join("circle")).unwrap();
    symlink("loop.gguf", root.join("loop.gguf")).unwrap();
    symlink("m.gguf", root.join("link.gguf")).unwrap();
    symlink("nowhere", root.join("dangling.gguf")).unwrap();
    let pipe = std::process::Command::new("mkfifo").arg(root.join("pipe.gguf")).status();
    assert!(pipe.unwrap().success());
    fs::write(root.join(OsStr::from_bytes(b"\xff\x1b[2J.gguf")), tiny()).unwrap();
    fs::write(root.join("new\nline\u{202e}.gguf"), tiny()).unwrap();
    let found = ggmill(root, &["index", ".", "-o", "-"]);
    succeeded(&found);
    assert!(found.stdout.chars().all(|c| c == '\n' || ggmill_core::RawStr::is_plain(c)));
    let listed = files(&found.stdout);
    let broken: Vec<&str> =
        listed.iter().filter(|(_, error)| error.is_some()).map(|(name, _)| &**name).collect();
    assert_eq!(broken, ["./dangling.gguf", "./loop.gguf", "./pipe.gguf"]);
    let names: Vec<&str> = listed.iter().map(|(name, _)| &**name).collect();
    assert!(
        names.contains(&r"./\xff\u{1b}[2J.gguf") && names.contains(&"./new\nline\u{202e}.gguf")
    );
    assert_eq!(listed.len(), 7);
}

/// Not run as root, which can read every directory.
#[cfg(unix)]
#[test]
fn a_directory_that_cannot_be_read_is_a_row() {
    use std::os::unix::fs::PermissionsExt as _;
    let directory = directory();
    let closed = directory.path().join("b/c");
    let permit = |mode| fs::set_permissions(&closed, fs::Permissions::from_mode(mode)).unwrap();
    permit(0o000);
    if fs::read_dir(&closed).is_err() {
        let found = ggmill(directory.path(), &["index", "b", "-o", "-"]);
        succeeded(&found);
        assert!(found.stdout.contains("\"path\":\"b/c\"") && found.stdout.contains("denied"));
    }
    permit(0o755);
}

/// The index has the files that were read, and the next run reads the rest.
#[cfg(unix)]
#[test]
fn an_interrupt_keeps_what_was_read() {
    let directory = Directory::new();
    fs::create_dir(directory.path().join("m")).unwrap();
    let file = tiny();
    for number in 0..20_000 {
        fs::write(directory.path().join(format!("m/{number:05}.gguf")), &file).unwrap();
    }
    let mut program = command(directory.path());
    let child = program
        .args(["index", "m", "-o", "m.ndjson", "-t", "1"])
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    std::thread::sleep(Duration::from_millis(400));
    let pid = child.id().to_string();
    let _ = std::process::Command::new("kill").args(["-INT", &pid]).status();
    let ended = child.wait_with_output().unwrap();
    let said = String::from_utf8(ended.stderr).unwrap();
    let path: &Path = &directory.path().join("m.ndjson");
    match ended.status.code() {
        // The interrupt came before the first file was read.
        None => assert!(!path.exists()),
        Some(0) => {}
        Some(code) => assert!(code == 2 && said.contains("interrupted: "), "{said}"),
    }
    let resumed = ggmill(directory.path(), &["index", "m", "-o", "m.ndjson", "--resume"]);
    succeeded(&resumed);
    assert_eq!(files(&read(&directory, "m.ndjson")).len(), 20_000);
}
