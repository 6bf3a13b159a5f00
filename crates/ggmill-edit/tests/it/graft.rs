//! Extracting tensors and grafting them back restores the file byte for byte; and the refusals.

use std::fs;
use std::ops::ControlFlow;
use std::path::Path;

use ggmill_core::{GgmlType, MetadataBuf, RawStr, Shape};
use ggmill_edit::{Edit, Graft, extract_metadata, subset};
use ggmill_pipeline::formats::{Numpy, SafetensorsFile, extract_npy, extract_safetensors};
use ggmill_pipeline::{
    Checkpoint, Encoding, ErrorKind, Expression, GgufCheckpoint, MemorySource, Progress, Recipe,
    RecipeTensor, RunOptions, run,
};
use ggmill_testdata::real;
use proptest::prelude::*;

use crate::reshape::{made, model, written};

fn go(_: Progress<'_>) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

/// A model with tensors replaced by those of a donor.
fn grafted(base: &GgufCheckpoint, donor: &dyn Checkpoint, keep_types: bool) -> Vec<u8> {
    let mut graft = Graft::new(base).unwrap();
    assert_eq!(
        graft.take(donor, keep_types, |name| Some(name.as_bytes().to_vec())).unwrap().replaced,
        donor.tensors().len()
    );
    let (recipe, sources) = graft.finish();
    made(recipe, &sources)
}

fn npy(checkpoint: &GgufCheckpoint, number: usize, raw: bool, path: &Path) -> Numpy {
    fs::write(
        path,
        extract_npy(checkpoint, number, raw, Vec::new(), &RunOptions::default(), &mut go).unwrap(),
    )
    .unwrap();
    let tensor = &checkpoint.tensors()[number];
    Numpy::open(path, &*tensor.name, |_| Some((tensor.ggml_type, tensor.shape))).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn extracted_and_grafted_back(model in model(), picks in proptest::collection::vec(any::<bool>(), 12)) {
        let directory = tempfile::tempdir().unwrap();
        let bytes = model.bytes();
        let base = written(&directory.path().join("base.gguf"), &bytes);
        let numbers: Vec<usize> = (0..base.tensors().len()).filter(|&number| picks[number]).collect();

        let some = made(subset(&base, &numbers, |_| true).unwrap(), &base);
        let some = written(&directory.path().join("some.gguf"), &some);
        prop_assert_eq!(some.tensors().len(), numbers.len());
        prop_assert!(grafted(&base, &some, false) == bytes);

        let path = directory.path().join("some.safetensors");
        fs::write(&path, extract_safetensors(&base, &numbers, true, Vec::new(), &RunOptions::default(), &mut go).unwrap()).unwrap();
        let some = SafetensorsFile::open(&path).unwrap();
        prop_assert_eq!(some.tensors().len(), numbers.len());
        prop_assert!(grafted(&base, &some, false) == bytes);

        for &number in &numbers {
            prop_assert!(grafted(&base, &npy(&base, number, true, &directory.path().join("one.npy")), false) == bytes);
        }
    }

    /// What was dropped comes back behind the last, and order puts it where it was.
    #[test]
    fn dropped_and_grafted_back_in_order(model in model(), picks in proptest::collection::vec(any::<bool>(), 12)) {
        let directory = tempfile::tempdir().unwrap();
        let bytes = model.bytes();
        let base = written(&directory.path().join("base.gguf"), &bytes);
        let place = |name: RawStr<'_>| base.tensors().iter().position(|tensor| tensor.name() == name).unwrap();
        let mut graft = Graft::new(&base).unwrap();
        let dropped = graft.keep(|name| !picks[place(name)]);
        prop_assert_eq!(dropped, (0..base.tensors().len()).filter(|&number| picks[number]).count());
        graft.rename(|name| Some([b"old.", name.as_bytes()].concat()));
        let (recipe, sources) = graft.finish();
        let rest = written(&directory.path().join("rest.gguf"), &made(recipe, &sources));
        let mut graft = Graft::new(&rest).unwrap();
        graft.rename(|name| name.as_bytes().strip_prefix(b"old.").map(<[u8]>::to_vec));
        graft.take(&base, false, |name| picks[place(name)].then(|| name.as_bytes().to_vec())).unwrap();
        graft.order(place);
        let (recipe, sources) = graft.finish();
        prop_assert!(made(recipe, &sources) == bytes);
    }

    #[test]
    fn metadata_as_json_and_back(model in model(), floats in proptest::collection::vec(any::<f32>(), 0..9), double: f64, text in ".{0,40}") {
        let directory = tempfile::tempdir().unwrap();
        let base = written(&directory.path().join("base.gguf"), &model.bytes());
        let mut metadata = MetadataBuf::copy_of(&base.metadata()).unwrap();
        metadata.set("general.architecture", "llama");
        let floats: Vec<f32> = floats.into_iter().filter(|float| float.is_finite()).collect();
        metadata.set("some.floats", floats);
        metadata.set("some.double", if double.is_finite() { double } else { 0.1 });
        metadata.set("some.text", text.as_str());
        metadata.set("some.texts", [text.as_str(), ""].as_slice());
        metadata.set("some.numbers", [i8::MIN, -1, i8::MAX].as_slice());
        metadata.set("some.truth", [true, false].as_slice());
        metadata.set("some.empty", Vec::<u16>::new());
        let json = extract_metadata(&metadata, |_| true).unwrap();
        let edits = Edit::from_json(&json).unwrap();
        prop_assert_eq!(edits.len(), metadata.len());
        // In their places, and from nothing.
        let edited = ggmill_edit::edit_metadata(&metadata, &edits, None).unwrap();
        prop_assert_eq!(edited.metadata(), &metadata);
        prop_assert_eq!(edited.changes().len(), 0);
        let rebuilt = ggmill_edit::edit_metadata(&MetadataBuf::new(), &edits, None).unwrap();
        for (key, value) in metadata.iter() {
            prop_assert_eq!(rebuilt.metadata().get(key.as_bytes()), Some(value), "{}", key);
        }
    }
}

/// Floats need no raw blocks: NumPy and safetensors keep their own types, and BF16 is restored from
/// f32.
#[test]
fn floats_are_restored_from_other_formats() {
    let directory = tempfile::tempdir().unwrap();
    for model in ggmill_testdata::models::models() {
        let base = written(&directory.path().join("base.gguf"), &model.file);
        let clean = made(Recipe::copy_of(&base).unwrap(), &base);
        let all: Vec<usize> = (0..base.tensors().len()).collect();
        let path = directory.path().join("all.safetensors");
        fs::write(
            &path,
            extract_safetensors(&base, &all, false, Vec::new(), &RunOptions::default(), &mut go)
                .unwrap(),
        )
        .unwrap();
        assert!(
            grafted(&base, &SafetensorsFile::open(&path).unwrap(), false) == clean,
            "{}",
            model.name
        );
        let one = npy(&base, 0, false, &directory.path().join("one.npy"));
        let is_bf16 = base.tensors()[0].ggml_type == GgmlType::BF16;
        assert_eq!(
            one.tensors()[0].ggml_type == GgmlType::F32,
            is_bf16 || base.tensors()[0].ggml_type == GgmlType::F32
        );
        assert!(grafted(&base, &one, true) == clean, "{}", model.name);
    }
}

#[test]
fn unsuitable_arrays_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.npy");
    let file = |header: &str, data: &[u8]| {
        let header = format!("{header:<117}\n");
        fs::write(
            &path,
            [&b"\x93NUMPY\x01\x00"[..], &118u16.to_le_bytes(), header.as_bytes(), data].concat(),
        )
        .unwrap();
        Numpy::open(&path, "a", |_| None)
    };
    let good =
        file("{'descr': '<f4', 'fortran_order': False, 'shape': (1, 2), }", &[0; 8]).unwrap();
    assert_eq!(good.tensors()[0].shape, Shape::new(&[2, 1]).unwrap());
    for (header, data, expected) in [
        ("{'descr': '<f4', 'fortran_order': True, 'shape': (1, 2), }", 8, "is in Fortran order"),
        (
            "{'descr': '>f4', 'fortran_order': False, 'shape': (1, 2), }",
            8,
            "elements of type \">f4\" are not supported",
        ),
        (
            "{'descr': '<c8', 'fortran_order': False, 'shape': (1, 2), }",
            16,
            "elements of type \"<c8\" are not supported",
        ),
        (
            "{'descr': '|u1', 'fortran_order': False, 'shape': (8,), }",
            8,
            "contains bytes of unknown type: there is no tensor with this name",
        ),
        (
            "{'descr': '<f4', 'fortran_order': False, 'shape': (1, 2), }",
            7,
            "7 bytes of data, expected 8",
        ),
        (
            "{'descr': '<f4', 'fortran_order': False, 'shape': (9223372036854775807, 9), }",
            8,
            "exceeds 64 bits",
        ),
        ("{'descr': '<f4'}", 8, "its header is not a valid NumPy header"),
    ] {
        let error = file(header, &vec![0; data]).unwrap_err();
        assert!(error.to_string().contains(expected), "{error}");
    }
    for bytes in [
        &b""[..],
        b"\x93NUMPY",
        b"\x93NUMPY\x01\x00\xff\xff{}",
        b"\x93NUMPY\x02\x00\xff\xff\xff\xff",
        b"\x93NUMPY\x09\x00\0\0\0\0",
    ] {
        fs::write(&path, bytes).unwrap();
        assert!(
            Numpy::open(&path, "a", |_| None)
                .unwrap_err()
                .to_string()
                .ends_with("is not a NumPy file"),
            "{bytes:?}"
        );
    }
}

#[test]
fn metadata_that_json_cannot_express() {
    let refused = |metadata: &MetadataBuf| extract_metadata(metadata, |_| true).unwrap_err();
    let mut metadata = MetadataBuf::new();
    metadata.set("a", [1.0, f32::NAN].as_slice());
    assert_eq!(
        refused(&metadata).to_string(),
        "key \"a\": contains a number that is not finite, which JSON cannot express"
    );
    assert_eq!(refused(&metadata).kind(), ErrorKind::Unsupported);
    assert_eq!(extract_metadata(&metadata, |_| false).unwrap(), "{\n}\n");
}

/// A tensor that keeps its type takes no value that overflows the type, and no NaN.
#[test]
fn values_that_overflow_a_kept_type_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let shape = Shape::new(&[32, 2]).unwrap();
    let source = |odd: f32| {
        let mut numbers = [0.5; 64];
        numbers[37] = odd;
        let mut source = MemorySource::new();
        let bytes: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
        source.add("t", GgmlType::F32, shape, bytes).unwrap();
        source
    };
    for ggml_type in [GgmlType::F16, GgmlType::Q8_0] {
        let usual = source(0.5);
        let tensor = Expression::named(&usual, "t").unwrap();
        let tensor = tensor.encode(ggml_type, Encoding::finite()).unwrap();
        let recipe = Recipe::new(MetadataBuf::new(), vec![RecipeTensor::new("t", tensor)]);
        let base = written(&directory.path().join("base.gguf"), &made(recipe, &usual));
        for odd in [f32::NAN, f32::INFINITY, f32::MAX] {
            let donor = source(odd);
            let failure = |keep_types| {
                let mut graft = Graft::new(&base).unwrap();
                graft.take(&donor, keep_types, |name| Some(name.as_bytes().to_vec())).unwrap();
                let (recipe, sources) = graft.finish();
                let plan = recipe.plan(&sources).unwrap();
                run(&plan, &sources, Vec::new(), &RunOptions::default(), &mut go).err()
            };
            let error = failure(true).unwrap();
            let kind = if odd.is_finite() { ErrorKind::Range } else { ErrorKind::NonFinite };
            assert_eq!(error.kind(), kind, "{ggml_type}: {error}");
            assert!(error.to_string().starts_with("tensor \"t\": row 1, column 5 is"), "{error}");
            assert!(failure(false).is_none(), "with the type of the donor it is a copy");
        }
    }
}

/// Every tensor of a real file, and names that safetensors cannot have.
#[test]
fn real_files_and_odd_names() {
    let base = GgufCheckpoint::open(real("mobilenetv3_3class_v3_fp16.gguf")).unwrap();
    let all: Vec<usize> = (0..base.tensors().len()).collect();
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("all.safetensors");
    fs::write(
        &path,
        extract_safetensors(&base, &all, false, Vec::new(), &RunOptions::default(), &mut go)
            .unwrap(),
    )
    .unwrap();
    assert!(
        grafted(&base, &SafetensorsFile::open(&path).unwrap(), false)
            == fs::read(real("mobilenetv3_3class_v3_fp16.gguf")).unwrap()
    );

    let mut graft = Graft::new(&base).unwrap();
    graft.keep(|name| name == base.tensors()[0].name());
    graft.rename(|_| Some(b"__metadata__".to_vec()));
    let (recipe, sources) = graft.finish();
    let odd = written(&directory.path().join("odd.gguf"), &made(recipe, &sources));
    let error = extract_safetensors(&odd, &[0], false, Vec::new(), &RunOptions::default(), &mut go)
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "tensor \"__metadata__\": safetensors cannot contain a tensor with this name, or two \
         tensors with the same name"
    );
}
