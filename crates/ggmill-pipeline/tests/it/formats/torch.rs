//! PyTorch files give the tensors that PyTorch reads from them.

use std::path::Path;

use ggmill_core::Endian;
use ggmill_pipeline::formats::TorchFile;
use ggmill_pipeline::{Checkpoint as _, SourceTensor};
use ggmill_testdata::sha256;
use serde_json::{Value, json};

use super::support::{dict, fixture, pickle, storage, tensor, zip, zip64};

fn data(file: &TorchFile, number: usize) -> Vec<u8> {
    let tensor = &file.tensors()[number];
    let layout = tensor.ggml_type.layout().unwrap();
    let size = layout.bytes_for(tensor.shape.elements()).unwrap();
    let mut data = vec![0; usize::try_from(size).unwrap()];
    file.read(number, 0, &mut data).unwrap();
    data
}

fn described(file: &TorchFile) -> Value {
    let tensor = |(number, tensor): (usize, &SourceTensor)| {
        let shape: Vec<u64> = tensor.shape.row_major().collect();
        let digits: Vec<_> = data(file, number).iter().map(|byte| format!("{byte:02x}")).collect();
        let digits = digits.concat();
        json!([tensor.name().to_string_lossy(), tensor.type_name(), shape, digits])
    };
    file.tensors().iter().enumerate().map(tensor).collect()
}

#[test]
fn tensors_equal_those_of_pytorch() {
    let document = std::fs::read(fixture("expected.json")).unwrap();
    let expected: Value = serde_json::from_slice(&document).unwrap();
    for (name, expected) in expected.as_object().unwrap() {
        let path = fixture(name);
        match (TorchFile::open(&path), expected) {
            (Ok(file), Value::Array(_)) => assert_eq!(described(&file), *expected, "{name}"),
            (Err(error), Value::String(message)) => {
                assert!(error.to_string().contains(message.as_str()), "{name}: {error}");
                assert_eq!(error.path(), Some(&*path));
            }
            (found, _) => panic!("{name}: {found:?}"),
        }
    }
}

/// Files of other programs, if the directory with them exists.
#[test]
fn tensors_of_foreign_files_equal_those_of_pytorch() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/pytorch");
    if !root.is_dir() {
        eprintln!("skipped: there is no {}", root.display());
        return;
    }
    let document = std::fs::read(fixture("shared.json")).unwrap();
    let expected: Value = serde_json::from_slice(&document).unwrap();
    for (name, expected) in expected.as_object().unwrap() {
        let found = TorchFile::open(root.join(name)).ok().map(|file| {
            let Value::Array(mut tensors) = described(&file) else { return Value::Null };
            for (number, tensor) in tensors.iter_mut().enumerate() {
                tensor[3] = sha256(&data(&file, number)).into();
            }
            tensors.into()
        });
        assert_eq!(found.unwrap_or_default(), *expected, "{name}");
    }
}

/// Partial reads equal parts of a full read, and a reported file range contains the data.
#[test]
fn partial_reads_equal_parts_of_full_reads() {
    for name in ["types.pt", "views.pt", "views-legacy.pt", "big-endian.pt"] {
        let path = fixture(name);
        let (file, bytes) = (TorchFile::open(&path).unwrap(), std::fs::read(&path).unwrap());
        let mut ranges = 0;
        for number in 0..file.tensors().len() {
            let whole = data(&file, number);
            let unit = file.tensors()[number].ggml_type.layout().unwrap().bytes as usize;
            for start in (0..whole.len()).step_by(unit) {
                for end in (start..=whole.len()).step_by(3 * unit) {
                    let mut part = vec![0; end - start];
                    file.read(number, start as u64, &mut part).unwrap();
                    assert_eq!(part, whole[start..end], "{name}, tensor {number}");
                }
            }
            assert!(file.read(number, whole.len() as u64, &mut [0]).is_err());
            if let Some(range) = file.range(number).filter(|range| range.endian == Endian::Little) {
                let start = usize::try_from(range.offset).unwrap();
                assert_eq!(bytes[start..][..whole.len()], whole, "{name}, tensor {number}");
                ranges += 1;
            }
        }
        assert!(ranges > 0, "{name}");
    }
}

fn written(directory: &Path, bytes: &[u8]) -> TorchFile {
    let path = directory.join("a.pt");
    std::fs::write(&path, bytes).unwrap();
    TorchFile::open(path).unwrap()
}

/// Writes a view of a storage whose 16-bit elements are their indices.
fn view(directory: &Path, len: u16, offset: i64, size: &[i64], stride: &[i64]) -> TorchFile {
    let elements: Vec<u8> = (0..len).flat_map(u16::to_le_bytes).collect();
    let storage = storage("ShortStorage", "0", len.into());
    let described = pickle(&[&dict("a", &tensor(&storage, offset, size, stride))]);
    written(directory, &zip(&[("x/data.pkl", &described), ("x/data/0", &elements)]))
}

/// Computes the indices of a view element by element.
fn naive(offset: i64, size: &[i64], stride: &[i64]) -> Vec<i64> {
    match (size, stride) {
        ([size, sizes @ ..], [stride, strides @ ..]) => {
            (0..*size).flat_map(|i| naive(offset + i * stride, sizes, strides)).collect()
        }
        _ => vec![offset],
    }
}

fn elements(bytes: &[u8]) -> Vec<i64> {
    bytes.as_chunks().0.iter().map(|&bytes| u16::from_le_bytes(bytes).into()).collect()
}

#[test]
fn views_equal_their_definition() {
    let directory = tempfile::tempdir().unwrap();
    let mut state = 1u64;
    let mut random = |below: u64| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        i64::try_from((state >> 33) % below).unwrap()
    };
    for _ in 0..300 {
        let rank = random(5);
        let size: Vec<i64> = (0..rank).map(|_| random(6)).collect();
        let stride: Vec<i64> = (0..rank).map(|_| random(9)).collect();
        let offset = random(20);
        let file = view(directory.path(), 256, offset, &size, &stride);
        let whole = naive(offset, &size, &stride);
        assert_eq!(elements(&data(&file, 0)), whole, "{size:?} {stride:?}");
        for _ in 0..4 {
            let (a, b) = (random(whole.len() as u64 + 1), random(whole.len() as u64 + 1));
            let (start, end) = [(a, b), (b, a)][usize::from(b < a)];
            let (start, end) = (usize::try_from(start).unwrap(), usize::try_from(end).unwrap());
            let mut part = vec![0; 2 * (end - start)];
            file.read(0, 2 * start as u64, &mut part).unwrap();
            assert_eq!(elements(&part), whole[start..end], "{size:?} {stride:?}");
        }
    }
}

/// Views larger than one read, read completely and in thin slices.
#[test]
fn large_views_are_read_in_pieces() {
    let directory = tempfile::tempdir().unwrap();
    let (rows, columns) = (900_i64, 1000_i64);
    let elements: Vec<u8> = (0..rows * columns)
        .flat_map(|number| u32::try_from(number).unwrap().to_le_bytes())
        .collect();
    let storage = storage("IntStorage", "0", rows * columns);
    let described = tensor(&storage, 0, &[columns, rows], &[1, columns]);
    let described = pickle(&[&dict("a", &described)]);
    let file = written(directory.path(), &zip(&[("data.pkl", &described), ("data/0", &elements)]));
    let number = |bytes: [u8; 4]| i64::from(u32::from_le_bytes(bytes));
    let found = data(&file, 0);
    for (i, &bytes) in found.as_chunks().0.iter().enumerate() {
        let i = i64::try_from(i).unwrap();
        assert_eq!(number(bytes), i % rows * columns + i / rows);
    }
    let mut slice = vec![0; 4 * 1234];
    file.read(0, 4 * 4321, &mut slice).unwrap();
    assert_eq!(slice, found[4 * 4321..][..slice.len()]);
    // Reads can cut elements.
    let mut cut = [0; 7];
    file.read(0, 4001, &mut cut).unwrap();
    assert_eq!(cut, found[4001..][..7]);
}

#[test]
fn zip64_archives_are_read() {
    let directory = tempfile::tempdir().unwrap();
    let tensor = tensor(&storage("FloatStorage", "0", 2), 0, &[2], &[1]);
    let described = pickle(&[&dict("a", &tensor)]);
    let bytes = zip64(&[("x/data.pkl", &described), ("x/data/0", &[1, 2, 3, 4, 5, 6, 7, 8])]);
    assert_eq!(data(&written(directory.path(), &bytes), 0), [1, 2, 3, 4, 5, 6, 7, 8]);
}

/// Python 2 writes byte strings, ordered dictionaries from a list of pairs, and memo numbers from 1
/// on.
#[test]
fn files_of_python_2_are_read() {
    let directory = tempfile::tempdir().unwrap();
    let tensor = [
        &b"ctorch._utils\n_rebuild_tensor\n("[..],
        b"(U\x07storageq\x01ctorch\nFloatStorage\nq\x02U\x010U\x03cpuK\x02tQ",
        b"K\x00K\x02\x85K\x01\x85tR",
    ]
    .concat();
    let described = pickle(&[b"ccollections\nOrderedDict\n](](U\x01a", &tensor, b"ee\x85R"]);
    let bytes = zip(&[("x/data.pkl", &described), ("x/data/0", &[1, 2, 3, 4, 5, 6, 7, 8])]);
    let file = written(directory.path(), &bytes);
    assert_eq!(file.tensors()[0].name, b"a");
    assert_eq!(data(&file, 0), [1, 2, 3, 4, 5, 6, 7, 8]);
}
