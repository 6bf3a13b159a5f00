//! Written files parse to the same content, and parsed files are written unchanged.

use std::fs;

use ggmill_core::{Builder, Endian, GgmlType, Header, MetadataBuf, Shape, ToValue as _, Writer};
use ggmill_testdata::bytes::{FileBytes, Value};
use ggmill_testdata::{corpus, every_gguf, expected};
use proptest::prelude::*;

use crate::support::cases;

/// Rewrites a file in a byte order, as version 2 or 3. Returns `None` if the builder rejects it: for an
/// unknown tensor type or a duplicate name.
fn rewritten(model: &Header<'_>, version: u32, endian: Endian) -> Option<Vec<u8>> {
    let mut builder =
        Builder::new().endian(endian).metadata(MetadataBuf::copy_of(&model.metadata()).unwrap());
    if version == 2 {
        builder = builder.version_2();
    }
    for tensor in model.tensors() {
        builder = builder.tensor(tensor.name().as_bytes(), tensor.ggml_type(), *tensor.shape());
    }
    let plan = builder.plan().ok()?;
    let mut writer = Writer::start(&plan, Vec::new()).unwrap();
    for (number, tensor) in model.tensors().iter().enumerate() {
        // In two pieces, which must not change the result.
        let (head, tail) =
            tensor.raw_data().unwrap().split_at(tensor.raw_data().unwrap().len() / 3);
        writer.write(number, head).unwrap();
        writer.write(number, tail).unwrap();
    }
    let file = writer.finish().unwrap();
    assert_eq!(file.len() as u64, plan.total_len());
    Some(file)
}

/// The content of a file, independent of version, byte order and offsets.
type Content = (Vec<(Vec<u8>, u32, Vec<u8>)>, Vec<(Vec<u8>, GgmlType, Shape, Vec<u8>)>);

fn content(model: &Header<'_>) -> Content {
    let encoded = |value: ggmill_core::Value<'_>| {
        let mut bytes = Vec::new();
        value.encode(&mut bytes);
        bytes
    };
    let pairs = model.metadata().iter().map(|pair| {
        (pair.key().as_bytes().to_vec(), pair.value_type().0, encoded(pair.value().unwrap()))
    });
    let tensors = model.tensors().iter().map(|tensor| {
        (
            tensor.name().as_bytes().to_vec(),
            tensor.ggml_type(),
            *tensor.shape(),
            tensor.raw_data().unwrap_or_default().to_vec(),
        )
    });
    (pairs.collect(), tensors.collect())
}

/// Returns the reason why a rewritten file differs from the original, or `None` if it must not.
fn not_canonical(name: &str) -> Option<&'static str> {
    let reasons = [
        ("v1", "version 1 is read, not written: lengths have 32 bits"),
        ("VERSION_1", "version 1 is read, not written: lengths have 32 bits"),
        ("fugg", "the magic is written as the specification has it"),
        ("BAD_MAGIC", "the magic is written as the specification has it"),
        ("HEADER_EMPTY", "bytes after a file without tensors"),
        ("KV_", "bytes after a file without tensors"),
        ("TENSORS_", "bytes after the last tensor, or offsets that are not aligned"),
        ("DATA_SUCCESS", "padding that is not of zeros"),
        ("DATA_INCONSISTENT_ALIGN", "offsets that are not aligned"),
        ("trailing-bytes", "bytes after the end"),
        ("gaps", "bytes that belong to no tensor"),
        ("offsets-", "the data come in the order of the directory, aligned"),
        ("no-padding", "the last tensor is padded"),
        ("scalar", "the last tensor is padded"),
        ("zero-elements", "offsets of tensors without data"),
        ("odd-names", "the data section of a file with tensors begins aligned"),
        ("nvfp4", "the last tensor is padded"),
        ("whole", "the last tensor is padded"),
    ];
    reasons.iter().find(|(part, _)| name.contains(part)).map(|(_, reason)| *reason)
}

#[test]
fn canonical_files_are_rewritten_unchanged() {
    let built = corpus::valid().into_iter().map(|case| (case.name.to_owned(), case.bytes));
    let real = every_gguf().into_iter().map(|path| {
        (path.file_name().unwrap().to_str().unwrap().to_owned(), fs::read(path).unwrap())
    });
    let mut same = Vec::new();
    for (name, bytes) in built.chain(real) {
        let Ok(model) = Header::parse(&bytes) else { continue };
        let Some(file) = rewritten(&model, model.version(), model.endian()) else {
            continue;
        };
        assert_eq!(content(&Header::parse(&file).unwrap()), content(&model), "{name}");
        match not_canonical(&name) {
            None => {
                assert!(file == bytes, "{name}: {} bytes, expected {}", file.len(), bytes.len());
                same.push(name);
            }
            Some(reason) => {
                assert!(file != bytes, "{name} is canonical after all, and not: {reason}");
            }
        }
    }
    assert!(same.len() > 20, "{same:?}");
}

#[test]
fn invalid_files_are_not_written() {
    let refused: Vec<&str> = corpus::valid()
        .iter()
        .filter(|case| {
            Header::parse(&case.bytes)
                .is_ok_and(|model| rewritten(&model, 3, Endian::Little).is_none())
        })
        .map(|case| case.name)
        .collect();
    assert_eq!(
        refused,
        ["TENSORS_BAD_TYPE", "TENSORS_DUPLICATE_NAME", "unknown-tensor-types", "duplicate-names"]
    );
}

/// Conversion to the other byte order and version and back loses nothing. Tensor data is not swapped:
/// that is the caller's task.
#[test]
fn conversion_to_every_form_and_back() {
    for case in corpus::valid() {
        let Ok(model) = Header::parse(&case.bytes) else { continue };
        let Some(little) = rewritten(&model, 3, Endian::Little) else { continue };
        for (version, endian) in [(2, Endian::Little), (2, Endian::Big), (3, Endian::Big)] {
            let there = rewritten(&model, version, endian).unwrap();
            let there = Header::parse(there).unwrap();
            assert_eq!((there.version(), there.endian()), (version, endian));
            assert_eq!(content(&there), content(&model), "{}", case.name);
            assert!(rewritten(&there, 3, Endian::Little).unwrap() == little, "{}", case.name);
        }
    }
}

/// A padded header without data, as the C library writes it.
#[test]
fn a_header_can_be_padded_without_tensors() {
    let plan = |builder: Builder| builder.plan().unwrap();
    let (bare, padded) = (plan(Builder::new()), plan(Builder::new().pad_header()));
    assert_eq!((bare.total_len(), padded.total_len()), (24, 32));
    assert_eq!(padded.header(), [bare.header(), &[0; 8]].concat());
}

/// A range copied by the sink counts like bytes written through the writer. It can begin and end
/// anywhere in data, but cannot end within padding.
#[test]
fn bytes_copied_by_the_sink_count() {
    let shape = |len| Shape::new(&[len]).unwrap();
    let names = [("empty", 0), ("a", 40), ("none", 0), ("b", 7), ("c", 32)];
    let plan = names
        .iter()
        .fold(Builder::new(), |builder, (name, len)| {
            builder.tensor(name, GgmlType::I8, shape(*len))
        })
        .plan()
        .unwrap();
    let data = [&[1; 40][..], &[0; 24], &[2; 7], &[0; 25], &[3; 32]].concat();
    let tensor_at = |at: usize| {
        [(40, 1), (71, 3), (usize::MAX, 4)].iter().find(|(end, _)| at < *end).unwrap().1
    };
    let is_data = |end: usize| end <= 40 || (64..=71).contains(&end) || end >= 96;
    for first in 1..data.len() {
        let mut writer = Writer::start(&plan, Vec::new()).unwrap();
        let taken = writer.write_with(1, first as u64, |sink| {
            sink.extend_from_slice(&data[..first]);
            Ok(true)
        });
        assert_eq!(taken.is_ok(), is_data(first), "{first}");
        if taken.is_err() {
            continue;
        }
        // After a range that ends with the data, the writer adds the padding.
        let at = match first {
            40 => 64,
            71 => 96,
            _ => first,
        };
        writer
            .write_with(tensor_at(at), (data.len() - at) as u64, |sink| {
                sink.extend_from_slice(&data[at..]);
                Ok(true)
            })
            .unwrap();
        let file = writer.finish().unwrap();
        assert_eq!(file, [plan.header(), &data].concat(), "{first}");
    }
    let mut writer = Writer::start(&plan, Vec::new()).unwrap();
    assert!(writer.write_with(1, data.len() as u64 + 1, |_| Ok(true)).is_err(), "beyond the end");
    assert!(writer.write_with(3, 1, |_| Ok(true)).is_err(), "a different tensor is next");
    assert!(!writer.write_with(1, 96 + 32, |_| Ok(false)).unwrap(), "the sink would not");
    assert!(writer.finish().is_err());
}

/// The example of gguf-py's writer, byte for byte.
#[test]
fn the_writer_writes_the_same_bytes_as_gguf_py() {
    let mut metadata = MetadataBuf::new();
    metadata.set("general.architecture", "llama");
    metadata.set("llama.block_count", 12u32);
    metadata.set("answer", 42u32);
    metadata.set("answer_in_float", 42.0f32);
    metadata.set("general.alignment", 64u32);
    let tensors = [("tensor1", 32u64, 100.0f32), ("tensor2", 64, 101.0), ("tensor3", 96, 102.0)];
    let mut builder = Builder::new().metadata(metadata);
    for (name, len, _) in tensors {
        builder = builder.tensor(name, GgmlType::F32, Shape::new(&[len]).unwrap());
    }
    let plan = builder.plan().unwrap();
    let mut writer = Writer::start(&plan, Vec::new()).unwrap();
    for (number, (_, len, value)) in tensors.into_iter().enumerate() {
        for _ in 0..len {
            writer.write(number, &value.to_le_bytes()).unwrap();
        }
    }
    assert_eq!(writer.finish().unwrap(), fs::read(expected("writer-example.gguf")).unwrap());
}

/// A random model: entries with distinct keys, and tensors with distinct names and data.
#[derive(Clone, Debug)]
struct Model {
    pairs: Vec<(Vec<u8>, Value)>,
    alignment: Option<u32>,
    tensors: Vec<(Vec<u8>, GgmlType, Vec<u64>, u8)>,
}

impl Model {
    fn size(ggml_type: GgmlType, dimensions: &[u64]) -> usize {
        let bytes = ggml_type.layout().unwrap().bytes_for(dimensions.iter().product()).unwrap();
        usize::try_from(bytes).unwrap()
    }

    /// Composes the file independently of this library's writer.
    fn compose(&self, version: u32, endian: Endian) -> Vec<u8> {
        let mut file = FileBytes::new(version, endian);
        file.head(
            self.tensors.len() as u64,
            self.pairs.len() as u64 + u64::from(self.alignment.is_some()),
        );
        for (key, value) in &self.pairs {
            file.pair(key, value);
        }
        if let Some(alignment) = self.alignment {
            file.pair("general.alignment", &Value::U32(alignment));
        }
        let alignment = usize::try_from(self.alignment.unwrap_or(32)).unwrap();
        let mut offset = 0;
        for (name, ggml_type, dimensions, _) in &self.tensors {
            file.tensor(name, dimensions, ggml_type.0, offset as u64);
            offset += Self::size(*ggml_type, dimensions).next_multiple_of(alignment);
        }
        if !self.tensors.is_empty() {
            file.pad(alignment);
        }
        for (_, ggml_type, dimensions, fill) in &self.tensors {
            file.raw(&vec![*fill; Self::size(*ggml_type, dimensions)]).pad(alignment);
        }
        file.into_bytes()
    }
}

/// Values of one type; arrays are up to three deep.
fn value_of(value_type: u32, depth: u32) -> BoxedStrategy<Value> {
    match value_type {
        0 => any::<u8>().prop_map(Value::U8).boxed(),
        1 => any::<i8>().prop_map(Value::I8).boxed(),
        2 => any::<u16>().prop_map(Value::U16).boxed(),
        3 => any::<i16>().prop_map(Value::I16).boxed(),
        4 => any::<u32>().prop_map(Value::U32).boxed(),
        5 => any::<i32>().prop_map(Value::I32).boxed(),
        6 => any::<u32>().prop_map(|bits| Value::F32(f32::from_bits(bits))).boxed(),
        7 => (0u8..2).prop_map(Value::Bool).boxed(),
        8 => proptest::collection::vec(any::<u8>(), 0..20).prop_map(Value::Str).boxed(),
        10 => any::<u64>().prop_map(Value::U64).boxed(),
        11 => any::<i64>().prop_map(Value::I64).boxed(),
        12 => any::<u64>().prop_map(|bits| Value::F64(f64::from_bits(bits))).boxed(),
        _ if depth == 3 => Just(Value::Array(6, Vec::new())).boxed(),
        _ => (0u32..13)
            .prop_flat_map(move |element| {
                proptest::collection::vec(value_of(element, depth + 1), 0..4)
                    .prop_map(move |elements| Value::Array(element, elements))
            })
            .boxed(),
    }
}

fn model() -> impl Strategy<Value = Model> {
    let key = proptest::collection::vec(any::<u8>(), 0..12);
    let pairs = proptest::collection::btree_map(
        key,
        (0u32..13).prop_flat_map(|value_type| value_of(value_type, 0)),
        0..8,
    );
    let shape = (0u64..4, proptest::collection::vec(0u64..4, 0..3));
    let name = proptest::collection::vec(any::<u8>(), 0..12);
    let tensors = proptest::collection::btree_map(name, (0u32..43, shape, any::<u8>()), 0..6);
    let alignment = proptest::option::of((1u32..20).prop_map(|eights| eights * 8));
    (pairs, alignment, tensors).prop_map(|(pairs, alignment, tensors)| {
        let tensors = tensors.into_iter().map(|(name, (number, (blocks, rest), fill))| {
            let ggml_type = GgmlType(number);
            let row = blocks * u64::from(ggml_type.layout().unwrap().elements);
            (name, ggml_type, [vec![row], rest].concat(), fill)
        });
        Model { pairs: pairs.into_iter().collect(), alignment, tensors: tensors.collect() }
    })
}

proptest! {
    #![proptest_config(cases(300))]

    /// A file read in any form and written in any form has the independently composed bytes.
    #[test]
    fn any_model_in_any_form(model in model(), from in 0usize..6, to in 0usize..4) {
        let (version, endian) = [(1, Endian::Little), (1, Endian::Big), (2, Endian::Little), (2, Endian::Big), (3, Endian::Little), (3, Endian::Big)][from];
        let read = Header::parse(model.compose(version, endian)).unwrap();
        prop_assert_eq!((read.version(), read.endian()), (version, endian));
        let (version, endian) = [(2, Endian::Little), (2, Endian::Big), (3, Endian::Little), (3, Endian::Big)][to];
        let written = rewritten(&read, version, endian).unwrap();
        prop_assert!(written == model.compose(version, endian));
        prop_assert_eq!(content(&Header::parse(written).unwrap()), content(&read));
    }
}
