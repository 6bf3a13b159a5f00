//! Shard sets: recognized from any shard, and refused if the shards do not belong together.

use std::fs;
use std::path::{Path, PathBuf};

use ggmill_core::{Builder, Endian, GgmlType, MetadataBuf, RawStr, Shape, ToValue};
use ggmill_io::{ErrorKind, RandomAccess, files, open, open_shards};
use ggmill_testdata::every_gguf;
use tempfile::TempDir;

use crate::file_of;

/// Builds the metadata of shard `number` (from 0) of three, like the reference tool: the metadata
/// of the model are only in the first.
fn metadata(number: u16) -> MetadataBuf {
    let mut metadata = MetadataBuf::new();
    if number == 0 {
        metadata.set("general.architecture", "llama");
        metadata.set("general.name", "Tiny");
    }
    metadata.set("split.no", number);
    metadata.set("split.count", 3u16);
    metadata.set("split.tensors.count", 4i32);
    metadata
}

const TENSORS: [&[&str]; 3] = [&["token_embd", "blk.0"], &["blk.1"], &["output"]];

fn name(number: u16) -> String {
    format!("tiny-0000{}-of-00003.gguf", number + 1)
}

fn path(directory: &TempDir, number: u16) -> PathBuf {
    directory.path().join(name(number))
}

/// Writes a valid set of three, of which a test then damages one.
fn set() -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    for number in 0..3 {
        fs::write(
            path(&directory, number),
            file_of(metadata(number), TENSORS[usize::from(number)], 8),
        )
        .unwrap();
    }
    directory
}

/// Writes a valid set, except that shard `number` has these `metadata` and `tensors`.
fn set_with(number: u16, metadata: MetadataBuf, tensors: &[&str]) -> TempDir {
    let directory = set();
    fs::write(path(&directory, number), file_of(metadata, tensors, 8)).unwrap();
    directory
}

/// Opens the set by shard `by` and returns the error without the directory. It must name shard
/// `about`.
fn fault(directory: &TempDir, by: u16, about: u16) -> String {
    let error = open(path(directory, by)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Shards, "{error}");
    assert_eq!(error.path(), path(directory, about), "{error}");
    error
        .to_string()
        .strip_prefix(&format!("{}: ", path(directory, about).display()))
        .unwrap()
        .to_owned()
}

/// Opening any shard gives the whole model.
#[test]
fn any_shard_opens_the_set() {
    let directory = set();
    for by in 0..3 {
        let model = open(path(&directory, by)).unwrap();
        let paths: Vec<&Path> = files(&model).map(RandomAccess::path).collect();
        assert_eq!(paths, [path(&directory, 0), path(&directory, 1), path(&directory, 2)]);
        assert_eq!(model.metadata().str("general.name").unwrap(), "Tiny");
        let tensors: Vec<(usize, String)> = model
            .tensors()
            .iter()
            .map(|tensor| (tensor.part(), tensor.name().to_string()))
            .collect();
        assert_eq!(
            tensors,
            [
                (0, "token_embd".to_owned()),
                (0, "blk.0".to_owned()),
                (1, "blk.1".to_owned()),
                (2, "output".to_owned())
            ]
        );
        for tensor in model.tensors() {
            let again = model.tensor(tensor.name().to_str().unwrap()).unwrap();
            assert_eq!((again.part(), again.offset()), (tensor.part(), tensor.offset()));
            let number = if tensor.name() == "blk.0" { 2 } else { 1 };
            assert_eq!(model.read_tensor(&tensor).unwrap(), [number; 32]);
        }
        assert_eq!(
            model.file_len(),
            Some(
                (0..3)
                    .map(|number| fs::metadata(path(&directory, number)).unwrap().len())
                    .sum::<u64>()
            )
        );
        let error = model.tensor("absent").unwrap_err();
        assert_eq!(error.kind(), ggmill_core::ErrorKind::Missing);
        let error = ggmill_io::open_alone(path(&directory, 0))
            .unwrap()
            .read_tensor(&model.tensor("output").unwrap())
            .unwrap_err();
        assert_eq!(error.kind(), ggmill_core::ErrorKind::Misuse);
    }
}

/// A mapped set equals the set read by position.
#[expect(unsafe_code, reason = "the test is about it")]
#[test]
fn a_set_is_mapped_whole() {
    let directory = set();
    // SAFETY: only this test knows the files.
    let mapped = unsafe { ggmill_io::map(path(&directory, 1)) }.unwrap();
    let opened = open(path(&directory, 1)).unwrap();
    assert_eq!(
        files(&mapped).map(RandomAccess::path).collect::<Vec<_>>(),
        files(&opened).map(RandomAccess::path).collect::<Vec<_>>()
    );
    for (ours, theirs) in mapped.tensors().iter().zip(opened.tensors()) {
        assert_eq!((ours.name(), ours.part()), (theirs.name(), theirs.part()));
        assert_eq!(ours.data().unwrap(), opened.read_tensor(&theirs).unwrap());
    }
    mapped.verify().unwrap();
}

/// Accepts keys of any integer type, a first shard without tensors, shards that repeat the
/// architecture, and sets without a tensor count.
#[test]
fn sets_with_other_key_types() {
    fn set_of<T: ToValue>(number: impl Fn(u16) -> T) -> TempDir {
        let directory = tempfile::tempdir().unwrap();
        for shard in 0..3 {
            let mut metadata = MetadataBuf::new();
            metadata.set("general.architecture", "llama");
            metadata.set("split.no", number(shard));
            metadata.set("split.count", number(3));
            if shard != 1 {
                metadata.set("split.tensors.count", number(2));
            }
            let tensors = [&[][..], &["a"], &["b"]][usize::from(shard)];
            fs::write(path(&directory, shard), file_of(metadata, tensors, 8)).unwrap();
        }
        directory
    }
    for directory in [
        set_of(|n| n),
        set_of(u32::from),
        set_of(i32::from),
        set_of(u64::from),
        set_of(i64::from),
        set_of(|n| u8::try_from(n).unwrap()),
    ] {
        let model = open(path(&directory, 1)).unwrap();
        assert_eq!(model.tensors().iter().map(|tensor| tensor.part()).collect::<Vec<_>>(), [1, 2]);
    }
}

/// A single file is a model of one shard, also if a merge has left `split.count` 0 or it is named
/// 1 of 1.
#[test]
fn single_files() {
    for path in every_gguf() {
        let model = open(&path).unwrap();
        assert_eq!(model.parts().len(), 1);
        assert_eq!(files(&model).map(RandomAccess::path).collect::<Vec<_>>(), [&*path]);
        assert_eq!(model.header(), ggmill_io::open_alone(&path).unwrap().header());
        assert_eq!(model.tensors().iter().count(), model.parts()[0].tensors().len());
        assert_eq!(model.file_len(), Some(fs::metadata(&path).unwrap().len()));
    }
    let directory = tempfile::tempdir().unwrap();
    for (count, name) in [
        (0u16, "merged.gguf"),
        (1, "merged.gguf"),
        (0, "merged-00001-of-00001.gguf"),
        (1, "merged-00001-of-00001.gguf"),
    ] {
        let mut metadata = MetadataBuf::new();
        metadata.set("split.no", 0u16);
        metadata.set("split.count", count);
        metadata.set("split.tensors.count", 7i32);
        fs::write(directory.path().join(name), file_of(metadata, &["a"], 8)).unwrap();
        assert_eq!(open(directory.path().join(name)).unwrap().parts().len(), 1);
    }
}

#[test]
fn missing_shards() {
    let directory = set();
    fs::remove_file(path(&directory, 1)).unwrap();
    assert_eq!(fault(&directory, 0, 1), "missing: shard 2 of 3");
    assert_eq!(fault(&directory, 2, 1), "missing: shard 2 of 3");
    fs::remove_file(path(&directory, 0)).unwrap();
    assert_eq!(fault(&directory, 2, 0), "missing: shards 1, 2 of 3");
}

/// For many missing shards the message is short and fast.
#[test]
fn most_shards_missing() {
    let directory = tempfile::tempdir().unwrap();
    let mut metadata = MetadataBuf::new();
    metadata.set("split.no", 4u32);
    metadata.set("split.count", 99_999u32);
    let path = directory.path().join("huge-00005-of-99999.gguf");
    fs::write(&path, file_of(metadata, &[], 0)).unwrap();
    let error = open(&path).unwrap_err();
    assert_eq!(error.path(), directory.path().join("huge-00001-of-99999.gguf"));
    assert!(
        error
            .to_string()
            .ends_with(": missing: shards 1, 2, 3, 4, 6, 7, 8, 9, … (99998 in all) of 99999"),
        "{error}"
    );
}

/// A copy of one shard under the name of another is detected by its number.
#[test]
fn a_duplicate_shard() {
    let directory = set();
    fs::copy(path(&directory, 0), path(&directory, 1)).unwrap();
    let expected =
        "split.no 0, expected 1 for shard 2 of 3; this is shard 1 under a different name";
    assert_eq!(fault(&directory, 0, 1), expected);
    assert_eq!(fault(&directory, 1, 1), expected);
}

#[test]
fn a_number_outside_the_set() {
    let mut odd = metadata(1);
    odd.set("split.no", u64::MAX);
    let directory = set_with(1, odd, TENSORS[1]);
    assert_eq!(
        fault(&directory, 0, 1),
        "split.no 18446744073709551615, expected 1 for shard 2 of 3"
    );
}

/// A shard of another set: with another count, or without keys.
#[test]
fn foreign_shards() {
    let mut longer = metadata(1);
    longer.set("split.count", 4u16);
    let directory = set_with(1, longer, TENSORS[1]);
    assert_eq!(fault(&directory, 0, 1), "split.count 4, expected 3 as in the name");
    assert_eq!(fault(&directory, 1, 1), "split.count 4, expected 3 as in the name");

    let directory = set_with(2, MetadataBuf::new(), TENSORS[2]);
    assert_eq!(fault(&directory, 0, 2), "named shard 3 of 3, but has no key \"split.count\"");
    assert_eq!(fault(&directory, 2, 2), "named shard 3 of 3, but has no key \"split.count\"");
}

#[test]
fn a_shard_of_another_architecture() {
    let mut other = metadata(2);
    other.set("general.architecture", "gem\u{1b}ma");
    let directory = set_with(2, other, TENSORS[2]);
    assert_eq!(
        fault(&directory, 0, 2),
        r#"architecture "gem\u{1b}ma", expected "llama" as in tiny-00001-of-00003.gguf"#
    );
}

#[test]
fn a_shard_of_another_byte_order() {
    let directory = set();
    let plan = Builder::new()
        .endian(Endian::Big)
        .metadata(metadata(1))
        .tensor("blk.1", GgmlType::I8, Shape::new(&[0]).unwrap())
        .plan()
        .unwrap();
    fs::write(path(&directory, 1), plan.header()).unwrap();
    assert_eq!(fault(&directory, 0, 1), "is big-endian, but tiny-00001-of-00003.gguf is not");
}

#[test]
fn a_tensor_in_two_shards() {
    let directory = set_with(2, metadata(2), &["blk.0"]);
    assert_eq!(fault(&directory, 1, 2), r#"tensor "blk.0" is also in tiny-00001-of-00003.gguf"#);
    let error = open(path(&directory, 0)).unwrap_err();
    assert_eq!(error.subject(), Some(ggmill_core::Subject::Tensor(RawStr::from("blk.0"))));
}

#[test]
fn a_wrong_number_of_tensors() {
    let directory = set_with(1, metadata(1), &["blk.1", "blk.2"]);
    assert_eq!(
        fault(&directory, 0, 0),
        "split.tensors.count 4, but the shards have 5 tensors in total"
    );
}

/// A renamed shard does not lead to the other shards; the error states its number and count.
#[test]
fn a_renamed_shard() {
    let directory = set();
    let renamed = directory.path().join("model.gguf");
    fs::rename(path(&directory, 1), &renamed).unwrap();
    let error = open(&renamed).unwrap_err();
    assert_eq!((error.kind(), error.path()), (ErrorKind::Shards, &*renamed));
    let expected = r#": contains shard 2 of 3, expected a name of the form "NAME-00002-of-00003.gguf" next to the other shards"#;
    assert!(error.to_string().ends_with(expected), "{error}");
    // It can still be opened alone.
    assert_eq!(ggmill_io::open_alone(&renamed).unwrap().tensors().len(), 1);
}

/// The error names a broken shard, and one with invalid keys.
#[test]
fn broken_shards() {
    let directory = set();
    let bytes = fs::read(path(&directory, 2)).unwrap();
    fs::write(path(&directory, 2), &bytes[..bytes.len() - 8]).unwrap();
    let error = open(path(&directory, 0)).unwrap_err();
    assert_eq!(
        (error.kind(), error.path()),
        (ErrorKind::Format(ggmill_core::ErrorKind::Truncated), &*path(&directory, 2))
    );

    for (key, value) in [("split.count", -3i16), ("split.no", -1), ("split.tensors.count", -4)] {
        let mut negative = metadata(1);
        negative.set(key, value);
        let directory = set_with(1, negative, TENSORS[1]);
        let error = open(path(&directory, 0)).unwrap_err();
        assert_eq!(
            (error.kind(), error.path()),
            (ErrorKind::Format(ggmill_core::ErrorKind::WrongType), &*path(&directory, 1))
        );
    }
}

/// A directory with the name of a shard is refused.
#[test]
fn a_directory_as_a_shard() {
    let directory = set();
    fs::remove_file(path(&directory, 1)).unwrap();
    fs::create_dir(path(&directory, 1)).unwrap();
    let error = open(path(&directory, 0)).unwrap_err();
    assert_eq!((error.kind(), error.path()), (ErrorKind::Io, &*path(&directory, 1)));
}

/// Opens a set from explicit paths, in any order and under any names.
#[test]
fn a_set_given_file_by_file() {
    let directory = set();
    let target = tempfile::tempdir().unwrap();
    let moved: Vec<PathBuf> =
        ["last", "first", "middle"].iter().map(|name| target.path().join(name)).collect();
    for (to, number) in moved.iter().zip([2, 0, 1]) {
        fs::copy(path(&directory, number), to).unwrap();
    }
    let by_name = open(path(&directory, 1)).unwrap();
    let names = |model: &ggmill_core::Model| {
        model
            .tensors()
            .iter()
            .map(|tensor| (tensor.part(), tensor.name().to_string()))
            .collect::<Vec<_>>()
    };
    assert_eq!(names(&open_shards(&moved).unwrap()), names(&by_name));

    let plain = target.path().join("plain.gguf");
    fs::write(&plain, file_of(MetadataBuf::new(), &["a"], 8)).unwrap();
    let mut other = metadata(1);
    other.set("split.count", 5u16);
    let of_five = target.path().join("of-five.gguf");
    fs::write(&of_five, file_of(other, &["a"], 8)).unwrap();
    for (paths, expected) in [
        (&[&moved[0], &moved[2]][..], "middle: shard 1 of 3 not given"),
        (&[&moved[1]], "first: shards 2, 3 of 3 not given"),
        (&[&moved[0], &moved[1], &moved[2], &moved[0]], "last: is shard 3, and so is "),
        (&[&moved[1], &plain], "plain.gguf: is not a shard: the key \"split.count\" is missing"),
        (&[&moved[1], &of_five, &moved[0]], "of-five.gguf: split.count 5, expected 3 as in first"),
        (&[], ""),
    ] {
        let error = open_shards(paths).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Shards, "{error}");
        assert!(error.to_string().contains(expected), "{error}");
    }
}
