//! `FileSink`: atomic, and never over a file by accident.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::Barrier;

use ggmill_core::{Sink as _, Writer};
use ggmill_io::{
    ErrorKind, FileSink, Overwrite, RandomAccess, RangeSink as _, commit_all, same_file,
};
use ggmill_testdata::real;

use crate::{file_of, names_in, plan_of};

fn start(path: &Path, overwrite: Overwrite, bytes: &[u8]) -> FileSink {
    let mut sink = FileSink::create(path, overwrite).unwrap();
    sink.append(bytes).unwrap();
    sink
}

/// A file sink receives the same bytes as one in memory, for any piece sizes.
#[test]
fn a_planned_file() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("model.gguf");
    let names = ["a", "b"];
    let plan = plan_of(ggmill_core::MetadataBuf::new(), &names, 700_000);
    let mut sink = FileSink::create(&path, Overwrite::Refuse).unwrap();
    sink.reserve(plan.total_len()).unwrap();
    let mut writer = Writer::start(&plan, sink).unwrap();
    for number in 0..names.len() {
        let data = vec![u8::try_from(number).unwrap() + 1; 2_800_000];
        // Small pieces, one that fills the buffer exactly, large ones.
        let mut rest = data.as_slice();
        for len in [1, 1000, (1 << 20) - 1001, 1, (1 << 20), (1 << 20) + 1]
            .into_iter()
            .chain(std::iter::repeat(4096))
        {
            let (piece, tail) = rest.split_at(len.min(rest.len()));
            writer.write(number, piece).unwrap();
            rest = tail;
            if rest.is_empty() {
                break;
            }
        }
    }
    assert!(!path.exists(), "nothing before the commit");
    let sink = writer.finish().unwrap();
    assert_eq!((sink.written(), sink.path()), (plan.total_len(), &*path));
    sink.commit().unwrap();
    assert!(fs::read(&path).unwrap() == file_of(ggmill_core::MetadataBuf::new(), &names, 700_000));
    assert_eq!(names_in(directory.path()), ["model.gguf"]);
}

/// A real file, copied in pieces, is unchanged.
#[test]
fn a_real_file_copied() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("copy.gguf");
    let bytes = fs::read(real("mobilenetv3_3class_v3_fp16.gguf")).unwrap();
    let mut sink = FileSink::create(&path, Overwrite::Refuse).unwrap();
    for piece in bytes.chunks(77_777) {
        sink.append(piece).unwrap();
    }
    sink.commit().unwrap();
    assert!(fs::read(&path).unwrap() == bytes);
}

/// Appended ranges and bytes alternate and keep their order.
#[test]
fn ranges_of_another_file() {
    let directory = tempfile::tempdir().unwrap();
    let (source, path) = (directory.path().join("source"), directory.path().join("model.gguf"));
    let bytes: Vec<u8> = (0..3_000_000u32)
        .map(|number| number.to_le_bytes()[usize::try_from(number % 4).unwrap()])
        .collect();
    fs::write(&source, &bytes).unwrap();
    let file = RandomAccess::open(&source).unwrap();
    let mut sink = FileSink::create(&path, Overwrite::Refuse).unwrap();
    let mut expected = Vec::new();
    for (start, len) in
        [(0usize, 4096usize), (1, 1), (4096, 1 << 20), (12_345, 2_000_001), (2_999_999, 1), (77, 0)]
    {
        sink.append(b"between").unwrap();
        assert!(sink.append_range(&file, start as u64, len as u64).unwrap());
        expected.extend_from_slice(b"between");
        expected.extend_from_slice(&bytes[start..start + len]);
        assert_eq!(sink.written(), expected.len() as u64);
    }
    let error = sink.append_range(&file, 2_999_999, 2).unwrap_err();
    assert_eq!(
        error.to_string(),
        format!(
            "{}: offset 0x2dc6bf: bytes up to 3000001 are needed, but the file ends at 3000000",
            source.display()
        )
    );
    sink.commit().unwrap();
    assert!(fs::read(&path).unwrap() == expected);
}

/// A source truncated during the copy is an error, not a shorter file.
#[test]
fn a_source_that_shrinks() {
    let directory = tempfile::tempdir().unwrap();
    let (source, path) = (directory.path().join("source"), directory.path().join("model.gguf"));
    fs::write(&source, vec![7; 10_000]).unwrap();
    let file = RandomAccess::open(&source).unwrap();
    fs::OpenOptions::new().write(true).open(&source).unwrap().set_len(5000).unwrap();
    let mut sink = FileSink::create(&path, Overwrite::Refuse).unwrap();
    let error = sink.append_range(&file, 1000, 9000).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Format(ggmill_core::ErrorKind::Truncated), "{error}");
    drop(sink);
    assert_eq!(names_in(directory.path()), ["source"]);
}

/// Copies ranges between file systems, where the kernel cannot share blocks.
#[cfg(target_os = "linux")]
#[test]
fn ranges_across_file_systems() {
    let Ok(other) = tempfile::tempdir_in("/dev/shm") else {
        println!("skipped: no second file system");
        return;
    };
    let directory = tempfile::tempdir().unwrap();
    let (source, path) = (other.path().join("source"), directory.path().join("model.gguf"));
    let bytes = vec![5; 2_500_000];
    fs::write(&source, &bytes).unwrap();
    let file = RandomAccess::open(&source).unwrap();
    let mut sink = FileSink::create(&path, Overwrite::Refuse).unwrap();
    assert!(sink.append_range(&file, 3, 2_499_990).unwrap());
    sink.append(b"end").unwrap();
    sink.commit().unwrap();
    assert!(fs::read(&path).unwrap() == [&bytes[3..2_499_993], b"end"].concat());
}

/// `commit_all` names all files or none.
#[test]
fn several_files_or_none() {
    let directory = tempfile::tempdir().unwrap();
    let paths: Vec<_> = ["a", "b", "c"].iter().map(|name| directory.path().join(name)).collect();
    let sinks =
        |overwrite| paths.iter().map(|path| start(path, overwrite, b"new")).collect::<Vec<_>>();
    let late = sinks(Overwrite::Refuse);
    fs::write(&paths[1], b"old").unwrap();
    let error = commit_all(late).unwrap_err();
    assert_eq!((error.kind(), error.path()), (ErrorKind::Exists, &*paths[1]));
    assert_eq!(names_in(directory.path()), ["b"]);
    assert_eq!(fs::read(&paths[1]).unwrap(), b"old");
    commit_all(sinks(Overwrite::Replace)).unwrap();
    assert_eq!(names_in(directory.path()), ["a", "b", "c"]);
    assert_eq!(fs::read(&paths[1]).unwrap(), b"new");
}

/// Closed files continue where they were left.
#[test]
fn closed_files_are_reopened() {
    let directory = tempfile::tempdir().unwrap();
    let paths: Vec<_> = ["a", "b", "c"].iter().map(|name| directory.path().join(name)).collect();
    let source = directory.path().join("source");
    fs::write(&source, [7; 5000]).unwrap();
    let file = RandomAccess::open(&source).unwrap();
    file.close_idle();
    let sinks = || -> Vec<FileSink> {
        let mut sinks: Vec<FileSink> =
            paths.iter().map(|path| FileSink::create(path, Overwrite::Refuse).unwrap()).collect();
        for sink in &mut sinks {
            sink.reserve(10_000).unwrap();
            sink.close_idle().unwrap();
        }
        for sink in &mut sinks {
            sink.append(b"GGUF").unwrap();
            sink.close_idle().unwrap();
            sink.close_idle().unwrap();
            assert!(sink.append_range(&file, 1000, 4000).unwrap());
            sink.append(b"end").unwrap();
            sink.close_idle().unwrap();
        }
        sinks
    };
    drop(sinks());
    assert_eq!(names_in(directory.path()), ["source"]);
    commit_all(sinks()).unwrap();
    assert_eq!(names_in(directory.path()), ["a", "b", "c", "source"]);
    for path in &paths {
        assert!(fs::read(path).unwrap() == [&b"GGUF"[..], &[7; 4000], b"end"].concat());
        fs::remove_file(path).unwrap();
    }
    // Another program deletes the temporary file: an error, not a file without its beginning.
    let late = sinks();
    for entry in fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap()) {
        if entry.file_name() != "source" {
            fs::remove_file(entry.path()).unwrap();
        }
    }
    assert_eq!(commit_all(late).unwrap_err().kind(), ErrorKind::Io);
    assert_eq!(names_in(directory.path()), ["source"]);
}

/// A closed source that was replaced is an error.
#[test]
fn a_closed_source_that_was_replaced() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("source");
    fs::write(&path, b"0123456789").unwrap();
    let file = RandomAccess::open(&path).unwrap();
    file.close_idle();
    let mut piece = [0; 4];
    file.read_at(3, &mut piece).unwrap();
    assert_eq!(&piece, b"3456");
    file.verify().unwrap();
    // Equal length and modification time.
    let time = fs::metadata(&path).unwrap().modified().unwrap();
    let other = directory.path().join("other");
    fs::write(&other, b"abcdefghij").unwrap();
    fs::File::options().write(true).open(&other).unwrap().set_modified(time).unwrap();
    fs::rename(&other, &path).unwrap();
    #[cfg(unix)]
    {
        let error = file.read_at(3, &mut piece).unwrap_err();
        assert_eq!(error.to_string(), file.verify().unwrap_err().to_string());
        assert!(
            error.to_string().contains("another program wrote to the file while it was being read"),
            "{error}"
        );
    }
    fs::remove_file(&path).unwrap();
    assert_eq!(file.read_at(3, &mut piece).unwrap_err().kind(), ErrorKind::Io);
}

/// Unused reserved space is not part of the file.
#[test]
fn reserving_too_much() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("model.gguf");
    let mut sink = FileSink::create(&path, Overwrite::Refuse).unwrap();
    sink.reserve(1 << 20).unwrap();
    sink.reserve(0).unwrap();
    sink.append(b"GGUF").unwrap();
    sink.commit().unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"GGUF");
}

/// Reserving more than the disk has fails at once. (No disk here has eight exabytes.)
#[cfg(target_os = "linux")]
#[test]
fn reserving_more_than_the_disk_has() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("model.gguf");
    let mut sink = FileSink::create(&path, Overwrite::Refuse).unwrap();
    match sink.reserve(i64::MAX.unsigned_abs()) {
        Err(error) => assert_eq!((error.kind(), error.path()), (ErrorKind::Io, &*path)),
        Ok(()) => println!("skipped: this file system reserves nothing"),
    }
}

/// A dropped sink leaves nothing behind, and existing files are unchanged.
#[test]
fn dropped_before_the_commit() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("model.gguf");
    drop(start(&path, Overwrite::Refuse, b"new"));
    assert!(names_in(directory.path()).is_empty());

    fs::write(&path, b"old").unwrap();
    drop(start(&path, Overwrite::Replace, &vec![1; 3 << 20]));
    let panicked = std::panic::catch_unwind(|| {
        let _sink = start(&path, Overwrite::Replace, b"new");
        panic!("a recipe went wrong");
    });
    assert!(panicked.is_err());
    assert_eq!(fs::read(&path).unwrap(), b"old");
    assert_eq!(names_in(directory.path()), ["model.gguf"]);
}

/// A killed process leaves existing files unchanged, and nothing behind where unnamed files are
/// supported.
#[test]
fn killed_before_the_commit() {
    const DIRECTORY: &str = "GGMILL_IO_TEST_DIRECTORY";
    if let Some(directory) = std::env::var_os(DIRECTORY) {
        let _sink =
            start(&Path::new(&directory).join("model.gguf"), Overwrite::Replace, &vec![1; 3 << 20]);
        std::process::abort();
    }
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("model.gguf"), b"old").unwrap();
    let this = Command::new(std::env::current_exe().unwrap());
    let output = { this }
        .args(["--exact", "writing::killed_before_the_commit"])
        .env(DIRECTORY, directory.path())
        .output()
        .unwrap();
    assert!(!output.status.success());
    assert_eq!(fs::read(directory.path().join("model.gguf")).unwrap(), b"old");
    if has_unnamed_files(directory.path()) {
        assert_eq!(names_in(directory.path()), ["model.gguf"]);
    }
}

/// Returns `true` if the file system of this directory supports unnamed files.
fn has_unnamed_files(directory: &Path) -> bool {
    #[cfg(target_os = "linux")]
    {
        use std::os::unix::fs::OpenOptionsExt as _;
        let flags = rustix::fs::OFlags::TMPFILE.bits().cast_signed();
        fs::OpenOptions::new().write(true).custom_flags(flags).open(directory).is_ok()
    }
    #[cfg(not(target_os = "linux"))]
    {
        let _ = directory;
        false
    }
}

#[test]
fn an_existing_file_is_refused_early_and_late() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("model.gguf");
    let sink = start(&path, Overwrite::Refuse, b"new");
    // Another program creates it during the write.
    fs::write(&path, b"old").unwrap();
    let late = sink.commit().unwrap_err();
    let early = FileSink::create(&path, Overwrite::Refuse).unwrap_err();
    for error in [early, late] {
        assert_eq!((error.kind(), error.path()), (ErrorKind::Exists, &*path));
        assert_eq!(error.to_string(), format!("{}: already exists", path.display()));
    }
    assert_eq!(fs::read(&path).unwrap(), b"old");
    start(&path, Overwrite::Replace, b"new").commit().unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"new");
    assert_eq!(names_in(directory.path()), ["model.gguf"]);
}

/// Of many sinks for one path, one commits and the others fail.
#[test]
fn one_of_many_gets_the_name() {
    const WRITERS: u8 = 8;
    let directory = tempfile::tempdir().unwrap();
    let path = &directory.path().join("model.gguf");
    let barrier = &Barrier::new(usize::from(WRITERS));
    let winners: Vec<u8> = std::thread::scope(|scope| {
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| {
                scope.spawn(move || {
                    let sink = start(path, Overwrite::Refuse, &[writer; 100]);
                    barrier.wait();
                    match sink.commit() {
                        Ok(()) => Some(writer),
                        Err(error) => {
                            assert_eq!(error.kind(), ErrorKind::Exists, "{error}");
                            None
                        }
                    }
                })
            })
            .collect();
        writers.into_iter().filter_map(|writer| writer.join().unwrap()).collect()
    });
    assert_eq!(winners.len(), 1);
    assert_eq!(fs::read(path).unwrap(), [winners[0]; 100]);
    assert_eq!(names_in(directory.path()), ["model.gguf"]);
}

/// A program that has the old file open keeps its content after a replacement.
#[test]
fn a_replaced_file_lives_on_for_its_readers() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("model.gguf");
    fs::write(&path, file_of(ggmill_core::MetadataBuf::new(), &["a"], 8)).unwrap();
    let opened = ggmill_io::open_alone(&path).unwrap();
    let mapped = crate::map_with(&path, &ggmill_core::Limits::default()).unwrap();
    start(&path, Overwrite::Replace, b"GGUF").commit().unwrap();
    assert_eq!(opened.read_tensor(&opened.tensor("a").unwrap()).unwrap(), [1; 32]);
    assert_eq!(mapped.tensor("a").unwrap().raw_data().unwrap(), [1; 32]);
}

#[test]
fn targets_that_cannot_be_files() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    fs::write(path.join("file"), b"").unwrap();
    fs::create_dir(path.join("directory")).unwrap();
    let shown = path.display();
    let cases = [
        (
            path.join("directory"),
            format!("{shown}/directory: is a directory, expected a regular file"),
        ),
        (
            path.join("missing/model.gguf"),
            format!("{shown}/missing: cannot write into this directory: no such file"),
        ),
        (
            path.join("file/model.gguf"),
            format!("{shown}/file: cannot write into this directory: not a directory"),
        ),
        (
            path.join("directory/.."),
            format!("{shown}/directory/..: is a directory, expected a regular file"),
        ),
    ];
    for (target, expected) in cases {
        for overwrite in [Overwrite::Refuse, Overwrite::Replace] {
            let error = FileSink::create(&target, overwrite).unwrap_err();
            assert_eq!((error.kind(), error.to_string()), (ErrorKind::Io, expected.clone()));
        }
    }
    assert_eq!(names_in(path), ["directory", "file"]);
}

/// Root must not replace a device by a file.
#[cfg(unix)]
#[test]
fn a_device_is_not_replaced() {
    let error = FileSink::create("/dev/null", Overwrite::Replace).unwrap_err();
    assert_eq!(error.to_string(), "/dev/null: is a device, expected a regular file");
}

/// A link is replaced by the file; its target is unchanged.
#[cfg(unix)]
#[test]
fn symbolic_links() {
    let directory = tempfile::tempdir().unwrap();
    let (model, link, dangling) = (
        directory.path().join("model.gguf"),
        directory.path().join("link.gguf"),
        directory.path().join("dangling.gguf"),
    );
    fs::write(&model, b"old").unwrap();
    std::os::unix::fs::symlink("model.gguf", &link).unwrap();
    std::os::unix::fs::symlink("nowhere.gguf", &dangling).unwrap();
    for path in [&link, &dangling] {
        assert_eq!(
            FileSink::create(path, Overwrite::Refuse).unwrap_err().kind(),
            ErrorKind::Exists
        );
        start(path, Overwrite::Replace, b"new").commit().unwrap();
        assert!(fs::symlink_metadata(path).unwrap().is_file());
        assert_eq!(fs::read(path).unwrap(), b"new");
    }
    assert_eq!(fs::read(&model).unwrap(), b"old");
    assert_eq!(names_in(directory.path()), ["dangling.gguf", "link.gguf", "model.gguf"]);
}

/// A bare name is in the current directory. (A child process tests this, because the current
/// directory is shared by all tests.)
#[test]
fn a_bare_name() {
    const CHILD: &str = "GGMILL_IO_TEST_BARE_NAME";
    if std::env::var_os(CHILD).is_some() {
        start(Path::new("model.gguf"), Overwrite::Refuse, b"GGUF").commit().unwrap();
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let mut child = Command::new(std::env::current_exe().unwrap());
    let output = child
        .args(["--exact", "writing::a_bare_name"])
        .env(CHILD, "")
        .current_dir(directory.path())
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    assert_eq!(fs::read(directory.path().join("model.gguf")).unwrap(), b"GGUF");
}

#[test]
fn the_same_file_by_other_paths() {
    let directory = tempfile::tempdir().unwrap();
    let (model, twin) = (directory.path().join("model.gguf"), directory.path().join("twin.gguf"));
    fs::write(&model, b"GGUF").unwrap();
    fs::write(&twin, b"GGUF").unwrap();
    assert!(same_file(&model, &model).unwrap());
    assert!(!same_file(&model, &twin).unwrap());
    assert!(!same_file(&model, directory.path().join("missing.gguf")).unwrap());
    assert!(
        !same_file(directory.path().join("missing.gguf"), directory.path().join("missing.gguf"))
            .unwrap()
    );
    let hard = directory.path().join("hard.gguf");
    fs::hard_link(&model, &hard).unwrap();
    assert!(same_file(&hard, &model).unwrap());
    #[cfg(unix)]
    {
        let link = directory.path().join("link.gguf");
        std::os::unix::fs::symlink(&model, &link).unwrap();
        assert!(same_file(&link, &hard).unwrap());
    }
}

/// Root replaces a file of another user, and the owner stays.
#[cfg(unix)]
#[test]
fn a_replaced_file_keeps_its_owner() {
    use std::os::unix::fs::{MetadataExt as _, chown};
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("model.gguf");
    std::fs::write(&path, "old").unwrap();
    if chown(&path, Some(1234), Some(2345)).is_err() {
        println!("skipped: this user may give files to nobody");
        return;
    }
    let mut sink = FileSink::create(&path, Overwrite::Replace).unwrap();
    sink.append(b"new").unwrap();
    sink.commit().unwrap();
    let metadata = std::fs::metadata(&path).unwrap();
    assert_eq!(
        (metadata.uid(), metadata.gid(), std::fs::read(&path).unwrap()),
        (1234, 2345, b"new".to_vec())
    );
}
