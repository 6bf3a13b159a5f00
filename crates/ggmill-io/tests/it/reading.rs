//! `open`, `map` and positioned reads.

use std::fs::{self, OpenOptions};

use ggmill_core::{Decoder, ErrorKind as Kind, Header, Limits, MetadataBuf, Progress};
use ggmill_io::{ErrorKind, RandomAccess};
use ggmill_testdata::{corpus, every_gguf, real};

use crate::{data_end, file_of, map_with};

/// `open`, `map` and parsing in memory give the same index, header and tensor bytes for every real
/// file.
#[test]
fn real_files_open_as_they_map() {
    for path in every_gguf() {
        let bytes = fs::read(&path).unwrap();
        let whole = Header::parse(&*bytes).unwrap();
        let opened = ggmill_io::open_alone(&path).unwrap();
        let mapped = map_with(&path, &Limits::default()).unwrap();

        assert_eq!(*opened.header(), whole, "{}", path.display());
        assert_eq!(*mapped.header(), whole, "{}", path.display());
        assert_eq!(mapped.parts()[0].bytes(), bytes);
        assert_eq!(opened.file_len(), Some(bytes.len() as u64));
        for model in [&opened, &mapped] {
            assert_eq!(
                ggmill_io::files(model).map(RandomAccess::path).collect::<Vec<_>>(),
                [&*path]
            );
            model.verify().unwrap();
        }
        assert_eq!(opened.parts()[0].bytes(), &bytes[..opened.parts()[0].bytes().len()]);
        for (tensor, expected) in opened.tensors().iter().zip(whole.tensors()) {
            assert_eq!(tensor.name(), expected.name());
            assert!(
                opened.read_tensor(&tensor).unwrap() == expected.raw_data().unwrap(),
                "{}: {}",
                path.display(),
                tensor.name()
            );
        }
    }
}

/// Lenient opening gives the same tensors and faults for a file on disk as for its bytes in memory,
/// and no faults for a file that `open` accepts.
#[test]
fn lenient_opening_equals_lenient_parsing() {
    let directory = tempfile::tempdir().unwrap();
    for case in corpus::all() {
        let path = directory.path().join(format!("{}.gguf", case.name));
        fs::write(&path, &case.bytes).unwrap();
        let mut decoder = Decoder::new(Some(case.bytes.len() as u64), &Limits::default());
        let _ = decoder.feed(&case.bytes);
        match (ggmill_io::open_damaged(&path), decoder.finish_damaged()) {
            (Ok(file), Ok(expected)) => {
                assert_eq!(*file.header(), expected, "{}", case.name);
                let told = |faults: &[ggmill_core::Error]| {
                    faults.iter().map(ToString::to_string).collect::<Vec<_>>()
                };
                let faults = file.parts()[0].faults();
                assert_eq!(told(faults), told(expected.faults()), "{}", case.name);
                assert_eq!(
                    faults.is_empty(),
                    ggmill_io::open_alone(&path).is_ok(),
                    "{}",
                    case.name
                );
            }
            (Err(error), Err(expected)) => assert!(
                error.to_string().ends_with(&expected.to_string()),
                "{}: {error}",
                case.name
            ),
            (found, expected) => panic!("{}: {found:?}, in memory {expected:?}", case.name),
        }
    }
}

/// Only the header is kept in memory.
#[test]
fn only_the_header_is_kept() {
    let opened = ggmill_io::open_alone(real("mobilenetv3_3class_v3_fp16.gguf")).unwrap();
    assert_eq!(opened.parts()[0].bytes().len() as u64, opened.header().header_len());
    assert!(opened.header().header_len() < opened.file_len().unwrap() / 2);
}

/// `open` and `map` give the same result for every corpus file, broken or not, and errors begin
/// with its path.
#[test]
fn corpus_files_open_as_they_map() {
    let directory = tempfile::tempdir().unwrap();
    for case in corpus::all() {
        let path = directory.path().join(format!("{}.gguf", case.name));
        fs::write(&path, &case.bytes).unwrap();
        let whole = Header::parse_with(&*case.bytes, &case.limits);
        let opened = ggmill_io::open_alone_with(&path, &case.limits);
        let mapped = map_with(&path, &case.limits);
        match whole {
            Ok(whole) => {
                assert_eq!(*opened.unwrap().header(), whole, "{}", case.name);
                assert_eq!(*mapped.unwrap().header(), whole, "{}", case.name);
            }
            Err(expected) => {
                for error in [opened.unwrap_err(), mapped.unwrap_err()] {
                    assert_eq!(
                        error.kind(),
                        ErrorKind::Format(expected.kind()),
                        "{}: {error}",
                        case.name
                    );
                    assert_eq!(
                        (error.offset(), error.subject()),
                        (expected.offset(), expected.subject()),
                        "{}",
                        case.name
                    );
                    assert_eq!(error.path(), path);
                    let message = format!("{}: {expected}", path.display());
                    assert!(error.to_string().starts_with(&message), "{error}, expected {message}");
                }
            }
        }
    }
}

/// A header larger than the read size, with one string larger than the largest read.
#[test]
fn headers_larger_than_the_pieces_they_are_read_in() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("large.gguf");
    let long = "x".repeat(9 << 20);
    let mut metadata = MetadataBuf::new();
    metadata.set("long", &*long);
    metadata.set("tokenizer.ggml.tokens", vec!["token"; 100_000].as_slice());
    fs::write(&path, file_of(metadata, &["a"], 8)).unwrap();
    let opened = ggmill_io::open_alone(&path).unwrap();
    assert_eq!(opened.metadata().str("long").unwrap(), long);
    assert_eq!(opened.metadata().array("tokenizer.ggml.tokens").unwrap().len(), 100_000);
    assert_eq!(opened.read_tensor(&opened.tensor("a").unwrap()).unwrap(), [1; 32]);
}

/// `open` and `map` refuse a truncated file in the same way, at any length.
#[test]
fn files_cut_anywhere() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("cut.gguf");
    let mut metadata = MetadataBuf::new();
    metadata.set("general.architecture", "llama");
    metadata.set("tokenizer.ggml.tokens", ["<s>", "</s>"].as_slice());
    let bytes = file_of(metadata, &["a", "b"], 5);
    let whole = Header::parse(&*bytes).unwrap();
    let end = data_end(&whole);
    for len in 0..bytes.len() {
        fs::write(&path, &bytes[..len]).unwrap();
        let (opened, mapped) = (ggmill_io::open_alone(&path), map_with(&path, &Limits::default()));
        if len as u64 >= end {
            // Only padding is missing.
            assert_eq!(opened.unwrap().header(), mapped.unwrap().header());
            continue;
        }
        let (opened, mapped) = (opened.unwrap_err(), mapped.unwrap_err());
        assert_eq!(opened.kind(), ErrorKind::Format(Kind::Truncated), "{len}: {opened}");
        assert_eq!(opened.to_string(), mapped.to_string());
        if len as u64 >= whole.header_len() {
            let percent = len as u64 * 100 / end;
            let expected = format!(
                "; the file has {len} of at least {end} bytes ({percent}%), perhaps an \
                 incomplete download"
            );
            assert!(opened.to_string().ends_with(&expected), "{opened}, expected {expected}");
        }
    }
}

/// For an incomplete download, the error states the share of the whole file, from the end of the
/// last tensor, not of the first missing one.
#[test]
fn an_incomplete_download_says_how_much_is_there() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("half.gguf");
    let bytes = fs::read(real("mobilenetv3_3class_v3_fp16.gguf")).unwrap();
    let end = data_end(&Header::parse(&*bytes).unwrap());
    fs::write(&path, &bytes[..bytes.len() / 2]).unwrap();
    let message = ggmill_io::open_alone(&path).unwrap_err().to_string();
    assert!(
        message
            .contains(&format!("; the file has {} of at least {end} bytes (50%)", bytes.len() / 2)),
        "{message}"
    );
}

/// A string length beyond the file is refused without reading or allocating it.
#[test]
fn a_length_beyond_the_file_is_refused_at_once() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("liar.gguf");
    let file = fs::File::create(&path).unwrap();
    let mut head = b"GGUF\x03\0\0\0".to_vec();
    head.extend_from_slice(&[0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0]);
    head.extend_from_slice(&(1u64 << 60).to_le_bytes());
    fs::write(&path, head).unwrap();
    // A sparse terabyte, which must not be read through either.
    file.set_len(1 << 40).unwrap();
    let error = ggmill_io::open_alone(&path).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Format(Kind::Truncated), "{error}");
}

/// Reading a range that was truncated after opening is an error.
#[test]
fn a_file_shortened_while_open() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("model.gguf");
    fs::write(&path, file_of(MetadataBuf::new(), &["a", "b"], 8)).unwrap();
    let opened = ggmill_io::open_alone(&path).unwrap();
    let (a, b) = (opened.tensor("a").unwrap(), opened.tensor("b").unwrap());
    OpenOptions::new().write(true).open(&path).unwrap().set_len(b.offset() + 3).unwrap();

    assert_eq!(opened.read_tensor(&a).unwrap(), [1; 32]);
    let error = opened.read_tensor(&b).unwrap_err();
    assert_eq!(error.kind(), Kind::Truncated);
    let expected = format!(
        "offset {:#x}: bytes up to {} are needed, but the file ends at {}",
        b.offset(),
        b.offset() + 32,
        b.offset() + 3
    );
    assert!(error.to_string().ends_with(&expected), "{error}");
    let file = &opened.parts()[0];
    assert!(file.read_at(b.offset(), &mut [0; 4]).is_err());
    file.read_at(b.offset(), &mut [0; 3]).unwrap();
    assert_eq!(opened.verify().unwrap_err().kind(), Kind::Changed);
}

/// A read beyond the end is an error, at any offset.
#[test]
fn reads_outside_the_file() {
    let file = RandomAccess::open(real("tinystories260K/config.json")).unwrap();
    let mut all = vec![0; usize::try_from(file.len()).unwrap()];
    file.read_at(0, &mut all).unwrap();
    assert_eq!(all, fs::read(file.path()).unwrap());
    file.read_at(file.len(), &mut []).unwrap();
    for offset in [file.len(), file.len() - 1, u64::MAX, u64::MAX - 1] {
        let error = file.read_at(offset, &mut [0; 2]).unwrap_err();
        assert_eq!(
            (error.kind(), error.offset()),
            (ErrorKind::Format(Kind::Truncated), Some(offset))
        );
    }
}

/// Four threads read different tensors of one file at once.
#[test]
fn threads_share_a_file() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("model.gguf");
    fs::write(&path, file_of(MetadataBuf::new(), &["a", "b", "c", "d"], 10_000)).unwrap();
    let opened = &ggmill_io::open_alone(&path).unwrap();
    std::thread::scope(|scope| {
        for (number, tensor) in (1u8..).zip(opened.tensors()) {
            scope.spawn(move || {
                for _ in 0..50 {
                    assert!(
                        opened.read_tensor(&tensor).unwrap().iter().all(|&byte| byte == number)
                    );
                }
            });
        }
    });
}

/// An empty file cannot be mapped, but opens as an empty slice.
#[test]
#[expect(unsafe_code, reason = "the test is about it")]
fn an_empty_file() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("empty");
    fs::write(&path, b"").unwrap();
    // SAFETY: only this test knows the file.
    let mapping = unsafe { ggmill_io::map_file(&path) }.unwrap();
    assert_eq!(mapping.as_ref(), b"");
    assert_eq!(
        map_with(&path, &Limits::default()).unwrap_err().kind(),
        ErrorKind::Format(Kind::Truncated)
    );
    assert_eq!(
        ggmill_io::open_alone(&path).unwrap_err().kind(),
        ErrorKind::Format(Kind::Truncated)
    );
    assert!(RandomAccess::open(&path).unwrap().is_empty());
}

/// Files of other formats can be mapped too.
#[test]
#[expect(unsafe_code, reason = "the test is about it")]
fn any_file_can_be_mapped() {
    let path = real("tinystories260K/model.safetensors");
    // SAFETY: nobody writes to the bundled files.
    let mapping = unsafe { ggmill_io::map_file(&path) }.unwrap();
    assert!(mapping.as_ref() == fs::read(path).unwrap());
}

/// A tensor of an unknown type is listed, and reading its data is refused.
#[test]
fn data_of_an_unknown_type_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("unknown.gguf");
    let mut bytes = file_of(MetadataBuf::new(), &["a"], 8);
    let mut decoder = Decoder::new(None, &Limits::default());
    assert_eq!(decoder.feed(&bytes).unwrap(), Progress::Complete);
    // The type precedes the offset, which is the last field of the header.
    let at = usize::try_from(decoder.position()).unwrap() - 12;
    bytes[at..at + 4].copy_from_slice(&999u32.to_le_bytes());
    fs::write(&path, bytes).unwrap();
    let opened = ggmill_io::open_alone(&path).unwrap();
    let error = opened.read_tensor(&opened.tensor("a").unwrap()).unwrap_err();
    assert_eq!(error.kind(), Kind::Unsupported);
    assert!(error.to_string().contains("tensor \"a\""), "{error}");
}
