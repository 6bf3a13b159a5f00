//! Files that are truncated or changed anywhere: a result or an error, which is the same for the
//! decoder.

use ggmill_core::{Array, ErrorKind, GgmlType, Header, Limits, Value};
use ggmill_testdata::corpus;
use proptest::prelude::*;

use crate::support::{cases, in_pieces, whole};

/// Checks that the parser and the decoder have the same result, and reads everything in it.
fn survive(name: &str, bytes: &[u8], limits: &Limits) {
    let parsed = whole(bytes, limits);
    assert_eq!(in_pieces(bytes, limits, &[1, 5, 13]), parsed, "{name}");
    let Ok(model) = parsed else { return };
    walk(&model);
    // A change of the file after parsing can only cause an error.
    let shorter = bytes.len() / 2;
    let flipped: Vec<u8> = bytes.iter().map(|byte| !byte).collect();
    walk(&whole(bytes, limits).unwrap().with_bytes(&bytes[..shorter]));
    walk(&model.with_bytes(flipped));
}

fn walk(model: &Header<'_>) {
    for pair in model.metadata() {
        let _ = (pair.key().to_string(), pair.offset(), pair.value_type().to_string());
        if let Ok(value) = pair.value() {
            visit(&value, 0);
        }
        let _ = model.metadata().get(pair.key().as_bytes());
        let _ = model.metadata().all(pair.key().as_bytes()).count();
    }
    for tensor in model.tensors() {
        let _ =
            (tensor.name().to_string(), tensor.ggml_type().to_string(), tensor.shape().to_string());
        if let (Ok(data), Some(size)) = (tensor.raw_data(), tensor.size()) {
            assert_eq!(data.len() as u64, size);
        }
        for row in [0, 1, tensor.shape().rows().wrapping_sub(1), u64::MAX] {
            let _ = (tensor.row(row), tensor.raw_row(row), tensor.data());
        }
        let _ = model.tensors().get(tensor.name().as_bytes());
    }
}

fn visit(value: &Value<'_>, depth: usize) {
    let _ = (
        value.as_u64(),
        value.as_i64(),
        value.as_u32(),
        value.as_f64(),
        value.as_bool(),
        value.as_str(),
    );
    if let Some(array) = value.as_array() {
        visit_array(&array, depth);
    }
}

fn visit_array(array: &Array<'_>, depth: usize) {
    let _ = (array.get(0), array.get(array.len().wrapping_sub(1)), array.get(u64::MAX));
    for element in array.iter().take(100) {
        let Ok(element) = element else { break };
        if depth < 20 {
            visit(&element, depth + 1);
        }
    }
}

/// Returns the files of the corpus that are small enough for every mutation.
fn small() -> impl Iterator<Item = corpus::Case> {
    corpus::all().into_iter().filter(|case| case.bytes.len() <= 700)
}

#[test]
fn cut_at_every_byte() {
    for case in small() {
        for len in 0..=case.bytes.len() {
            survive(case.name, &case.bytes[..len], &case.limits);
        }
    }
}

#[test]
fn a_cut_file_is_always_reported_as_truncated() {
    for case in corpus::valid() {
        let model = Header::parse_with(&case.bytes, &case.limits).unwrap();
        let last = model
            .tensors()
            .iter()
            .filter(|tensor| tensor.size() != Some(0))
            .map(|tensor| tensor.offset() + tensor.size().unwrap_or(1))
            .max();
        let end = last.unwrap_or(model.header_len());
        let lens = if end > 2000 { (0..500).chain(end - 500..end) } else { (0..end).chain(0..0) };
        for len in lens {
            let error =
                Header::parse_with(&case.bytes[..usize::try_from(len).unwrap()], &case.limits)
                    .unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Truncated, "{} cut at {len}: {error}", case.name);
            let needed = error.needed_length();
            assert!(
                needed.is_none_or(|needed| len < needed && needed <= end),
                "{} cut at {len}: {error}, needs {needed:?}",
                case.name
            );
        }
    }
}

#[test]
fn each_byte_set_to_each_extreme() {
    for case in small() {
        let mut bytes = case.bytes.clone();
        for at in 0..bytes.len() {
            let before = bytes[at];
            for byte in [0, 1, 0x7f, 0x80, 0xff] {
                bytes[at] = byte;
                survive(case.name, &bytes, &case.limits);
            }
            bytes[at] = before;
        }
    }
}

#[test]
fn each_length_set_to_each_extreme() {
    let extremes =
        [u64::MAX, 1 << 63, (1 << 63) - 1, 1 << 61, 1 << 32, (1 << 32) - 1, u64::MAX - 100];
    for case in small() {
        for at in 0..case.bytes.len().saturating_sub(8) {
            for extreme in extremes {
                let mut bytes = case.bytes.clone();
                bytes[at..at + 8].copy_from_slice(&extreme.to_le_bytes());
                let _ = whole(&bytes, &case.limits).map(|model| walk(&model));
            }
        }
    }
}

proptest! {
    #![proptest_config(cases(512))]

    #[test]
    fn any_bytes(bytes in proptest::collection::vec(any::<u8>(), 0..300), version in 1u32..4, big in any::<bool>()) {
        let mut file = b"GGUF".to_vec();
        file.extend(if big { version.to_be_bytes() } else { version.to_le_bytes() });
        file.extend(&bytes);
        survive("any bytes", &file, &Limits::default());
        survive("any bytes", &bytes, &Limits::default());
    }

    #[test]
    fn several_bytes_changed(number in any::<prop::sample::Index>(), changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6)) {
        let files: Vec<corpus::Case> = corpus::valid().into_iter().filter(|case| case.bytes.len() < 4000).collect();
        let case = &files[number.index(files.len())];
        let mut bytes = case.bytes.clone();
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        survive(case.name, &bytes, &case.limits);
    }

    #[test]
    fn a_real_header_changed(number in 0usize..4, changes in proptest::collection::vec((0usize..3000, any::<u8>()), 1..4)) {
        let mut bytes = std::fs::read(ggmill_testdata::real(ggmill_testdata::REAL_GGUF[number])).unwrap();
        for (at, byte) in changes {
            bytes[at] = byte;
        }
        let parsed = whole(&bytes, &Limits::default());
        prop_assert_eq!(in_pieces(&bytes, &Limits::default(), &[1000, 100_000]), parsed);
    }
}

/// A tensor of an unknown type can be listed; only reading its data fails.
#[test]
fn unknown_types_are_listed() {
    let case =
        corpus::valid().into_iter().find(|case| case.name == "unknown-tensor-types").unwrap();
    let model = Header::parse(&case.bytes).unwrap();
    let tensor = model.tensor("fork").unwrap();
    assert_eq!(
        (tensor.ggml_type(), tensor.size(), tensor.shape().elements()),
        (GgmlType(137), None, 8)
    );
    assert_eq!(tensor.data().unwrap_err().kind(), ErrorKind::Unsupported);
    assert_eq!(model.tensor("known").unwrap().data().unwrap().len(), 32);
    assert!(model.tensor("empty").unwrap().data().unwrap().is_empty());
}
