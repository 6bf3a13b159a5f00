//! The decoder agrees with the parser of whole files for every division into pieces.

use ggmill_core::{Decoder, ErrorKind, Header, Limits, Progress, ReadAt};
use ggmill_testdata::bytes::{FileBytes, Value};
use ggmill_testdata::corpus;
use proptest::prelude::*;

use crate::support::{cases, files, in_pieces, whole};

#[test]
fn fed_at_once() {
    for (name, bytes, limits) in files() {
        assert_eq!(in_pieces(&bytes, &limits, &[usize::MAX]), whole(&bytes, &limits), "{name}");
    }
}

#[test]
fn fed_byte_by_byte() {
    for case in corpus::all() {
        assert_eq!(
            in_pieces(&case.bytes, &case.limits, &[1]),
            whole(&case.bytes, &case.limits),
            "{}",
            case.name
        );
    }
}

/// The byte order found in the first piece must not be determined again with the second. A big-endian
/// file divided within its counts was once parsed as little-endian.
#[test]
fn fed_in_two_pieces_at_every_byte() {
    for case in corpus::all().iter().filter(|case| case.bytes.len() < 2000) {
        for size in 1..case.bytes.len() {
            assert_eq!(
                in_pieces(&case.bytes, &case.limits, &[size, usize::MAX]),
                whole(&case.bytes, &case.limits),
                "{} at {size}",
                case.name
            );
        }
    }
}

#[test]
fn fed_as_requested() {
    for (name, bytes, limits) in files() {
        let mut decoder = Decoder::new(Some(bytes.len() as u64), &limits);
        let mut end = 0;
        let found = loop {
            let have = usize::try_from(decoder.position()).unwrap();
            match decoder.feed(&bytes[have..end]) {
                Ok(Progress::Needs(needs)) => end = usize::try_from(needs).unwrap(),
                Ok(Progress::Complete) => break decoder.finish(),
                Err(error) => break Err(error),
            }
        };
        assert_eq!(found.map_err(Into::into), whole(&bytes, &limits), "{name}");
    }
}

#[test]
fn real_files_in_pieces_of_a_page() {
    for (name, bytes, limits) in files() {
        assert_eq!(in_pieces(&bytes, &limits, &[4096]), whole(&bytes, &limits), "{name}");
    }
}

proptest! {
    #![proptest_config(cases(64))]

    #[test]
    fn fed_in_any_pieces(sizes in proptest::collection::vec(1usize..100, 1..20)) {
        for case in corpus::all() {
            prop_assert_eq!(in_pieces(&case.bytes, &case.limits, &sizes), whole(&case.bytes, &case.limits), "{}", case.name);
        }
    }

    #[test]
    fn real_files_in_any_pieces(sizes in proptest::collection::vec(1usize..500_000, 1..10), number in 0usize..4) {
        let bytes = std::fs::read(ggmill_testdata::real(ggmill_testdata::REAL_GGUF[number])).unwrap();
        prop_assert_eq!(in_pieces(&bytes, &Limits::default(), &sizes), whole(&bytes, &Limits::default()));
    }
}

#[test]
fn the_length_of_the_file_may_be_unknown() {
    for case in corpus::valid() {
        let mut decoder = Decoder::new(None, &case.limits);
        assert_eq!(decoder.feed(&case.bytes).unwrap(), Progress::Complete, "{}", case.name);
        let header = decoder.finish().unwrap();
        let model = Header::parse_with(&case.bytes, &case.limits).unwrap();
        assert_eq!(header.file_len(), None);
        assert_eq!(header.metadata().len(), model.metadata().len());
        assert!(
            header
                .tensors()
                .iter()
                .map(|tensor| tensor.offset())
                .eq(model.tensors().iter().map(|tensor| tensor.offset())),
            "{}",
            case.name
        );
    }
}

/// Without a length there is no check against it, but no bytes beyond the limits are requested.
#[test]
fn without_a_length_the_limits_bound_requests() {
    let limits = Limits::default().with_header_bytes(1 << 20);
    for case in corpus::broken() {
        let mut decoder = Decoder::new(None, &limits);
        if let Ok(Progress::Needs(end)) = decoder.feed(&case.bytes) {
            assert!(end <= 1 << 20, "{} asks for {end} bytes", case.name);
            assert_eq!(decoder.finish().unwrap_err().kind(), ErrorKind::Truncated, "{}", case.name);
        }
    }
}

#[test]
fn feeding_after_an_error_is_misuse() {
    for case in corpus::broken() {
        let mut decoder = Decoder::new(Some(case.bytes.len() as u64), &case.limits);
        if decoder.feed(&case.bytes).is_ok() {
            assert!(decoder.finish().is_err(), "{}", case.name);
            continue;
        }
        assert_eq!(
            decoder.clone().finish().unwrap_err().kind(),
            ErrorKind::Misuse,
            "{}",
            case.name
        );
        for _ in 0..10 {
            assert_eq!(
                decoder.feed(&[0; 8]).unwrap_err().kind(),
                ErrorKind::Misuse,
                "{}",
                case.name
            );
        }
    }
}

/// A source that records the lengths of its reads.
#[derive(Debug)]
struct Recording(Vec<u8>, std::sync::Mutex<Vec<usize>>);

impl ReadAt for Recording {
    fn len(&self) -> u64 {
        ReadAt::len(&self.0)
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> ggmill_core::Result<()> {
        self.1.lock().unwrap().push(out.len());
        self.0.read_at(offset, out)
    }
}

#[test]
fn a_source_is_read_in_pieces_of_increasing_size() {
    let reads = |file: FileBytes| {
        let source = Recording(file.into_bytes(), std::sync::Mutex::default());
        let mut decoder = Decoder::new(Some(source.len()), &Limits::default());
        decoder.feed_from(&source).unwrap();
        decoder.finish().unwrap();
        let mut reads = source.1.into_inner().unwrap();
        assert_eq!(reads.iter().sum::<usize>(), source.0.len());
        reads.pop();
        reads
    };
    let mut entries = FileBytes::v3(0, 40_000);
    for number in 0..40_000 {
        entries.pair(format!("key{number:05}"), &Value::U8(0));
    }
    assert_eq!(reads(entries), [64 << 10, 128 << 10, 256 << 10, 256 << 10]);
    // The end of a string is known, so the next read is larger.
    let mut string = FileBytes::v3(0, 1);
    string.pair("key", &Value::Str(vec![b'a'; 1 << 20]));
    assert_eq!(reads(string), [64 << 10, 256 << 10, 256 << 10, 256 << 10]);
}

/// A file that has grown since its length was read is parsed up to that length.
#[test]
fn bytes_after_the_stated_length_are_not_read() {
    for case in corpus::valid() {
        let len = case.bytes.len() - 1;
        let mut decoder = Decoder::new(Some(len as u64), &case.limits);
        let found = decoder.feed(&case.bytes).and_then(|_| decoder.finish());
        assert_eq!(
            found.map_err(Into::into),
            whole(&case.bytes[..len], &case.limits),
            "{}",
            case.name
        );
    }
}

#[test]
fn bytes_after_the_header_are_discarded() {
    let (name, case) = ("trailing-bytes", corpus::valid());
    let case = case.into_iter().find(|case| case.name == name).unwrap();
    let mut decoder = Decoder::new(Some(case.bytes.len() as u64), &case.limits);
    assert_eq!(decoder.feed(&case.bytes).unwrap(), Progress::Complete);
    assert_eq!(decoder.feed(b"more").unwrap(), Progress::Complete);
    let header = decoder.finish().unwrap();
    assert_eq!(header.bytes().len() as u64, header.header_len());
    // The tensor infos are complete, but the data is not in memory.
    assert_eq!(header.tensor("a").unwrap().data().unwrap_err().kind(), ErrorKind::Misuse);
}

#[test]
fn an_unfinished_header_is_truncated() {
    let bytes = &corpus::valid().into_iter().find(|case| case.name == "whole-v3").unwrap().bytes;
    for len in 0..100 {
        let mut decoder = Decoder::new(None, &Limits::default());
        assert!(
            matches!(decoder.feed(&bytes[..len]).unwrap(), Progress::Needs(end) if end > len as u64)
        );
        let error = decoder.finish().unwrap_err();
        // Message, offset and subject are those for a file of this known length.
        assert_eq!(error.kind(), ErrorKind::Truncated);
        let mut knowing = Decoder::new(Some(len as u64), &Limits::default());
        let whole =
            knowing.feed(&bytes[..len]).map(|_| ()).and_then(|()| knowing.finish()).unwrap_err();
        let place = |error: &ggmill_core::Error| {
            (
                error.offset(),
                error.subject().map(|subject| format!("{subject:?}")),
                error.needed_length(),
            )
        };
        // A count that exceeds a file of known length is an error before the bytes that are missing.
        if whole.offset() >= error.offset() {
            assert_eq!(place(&error), place(&whole), "{len}: {error} | {whole}");
        }
        assert!(error.needed_length().unwrap() > len as u64);
    }
}

#[test]
fn every_broken_file_has_a_fault_when_opened_as_damaged() {
    for case in corpus::broken() {
        let mut decoder = Decoder::new(Some(case.bytes.len() as u64), &case.limits);
        let _ = decoder.feed(&case.bytes);
        assert!(
            decoder.finish_damaged().map_or(true, |header| !header.faults().is_empty()),
            "{}: {}",
            case.name,
            case.why
        );
    }
}

/// The limit of a string is its maximum length, in an array too.
#[test]
fn strings_can_be_as_long_as_the_limit() {
    let string = |text: &str| [&(text.len() as u64).to_le_bytes()[..], text.as_bytes()].concat();
    let mut bytes = [b"GGUF", &3u32.to_le_bytes()[..], &[0; 8], &1u64.to_le_bytes()].concat();
    bytes.extend(string("k"));
    bytes.extend([9u32, 8].iter().flat_map(|code| code.to_le_bytes()));
    bytes.extend(3u64.to_le_bytes());
    for text in ["a", "abcde", "b"] {
        bytes.extend(string(text));
    }
    bytes.resize(bytes.len().next_multiple_of(32), 0);
    let limits = |bytes: u64| Limits::default().with_string_bytes(bytes);
    let header = Header::parse_with(&bytes, &limits(5)).unwrap();
    let strings = header.metadata().array("k").unwrap();
    let texts: Vec<String> =
        strings.iter().map(|text| text.unwrap().as_str().unwrap().to_owned()).collect();
    assert_eq!(texts, ["a", "abcde", "b"]);
    assert_eq!(Header::parse_with(&bytes, &limits(4)).unwrap_err().kind(), ErrorKind::Limit);
}
