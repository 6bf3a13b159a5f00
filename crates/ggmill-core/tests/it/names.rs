//! Names of files, types and kinds of errors, and numbers as they are shown.

use ggmill_core::{
    Alignment, Builder, ByteSize, Endian, ErrorKind, FileType, GgmlType, Header, MetadataBuf,
    NamingError, NoTensors, RawStr, Shape, Split, ValueType, size_label, suggested_file_name,
};
use proptest::prelude::*;

use crate::support::cases;

/// Suggests a name for a file with these string entries.
fn suggested(
    entries: &[(&str, &str)],
    counted: Option<&str>,
    file_type: Option<u32>,
    split: Option<Split>,
) -> Result<String, NamingError> {
    let mut metadata = MetadataBuf::new();
    for &(key, value) in entries {
        metadata.set(format!("general.{key}"), value);
    }
    if let Some(file_type) = file_type {
        metadata.set("general.file_type", file_type);
    }
    let file = Builder::new().metadata(metadata).plan().unwrap().header().to_vec();
    suggested_file_name(&Header::parse(file).unwrap().metadata(), counted.map(Into::into), split)
}

#[test]
fn file_names_are_composed_from_metadata() {
    let (name, size, file_type) = (("name", "Tiny Stories"), Some("8B"), Some(7));
    let of = |entries: &[_]| suggested(entries, size, file_type, None).unwrap();
    assert_eq!(of(&[("architecture", "llama")]), "llama-8B-v1.0-Q8_0.gguf");
    assert_eq!(of(&[("architecture", "llama"), name]), "Tiny-Stories-8B-v1.0-Q8_0.gguf");
    assert_eq!(of(&[name, ("basename", " Base/..\\x ")]), "Base-x-8B-v1.0-Q8_0.gguf");
    assert_eq!(of(&[name, ("basename", "  ")]), "Tiny-Stories-8B-v1.0-Q8_0.gguf");
    assert_eq!(of(&[name, ("size_label", "3.8B")]), "Tiny-Stories-3.8B-v1.0-Q8_0.gguf");
    assert_eq!(of(&[name, ("finetune", "it (chat)")]), "Tiny-Stories-8B-it-chat-v1.0-Q8_0.gguf");
    assert_eq!(of(&[name, ("version", "2.5")]), "Tiny-Stories-8B-v2.5-Q8_0.gguf");
    assert_eq!(of(&[name, ("version", "v2")]), "Tiny-Stories-8B-v2-Q8_0.gguf");
    assert_eq!(of(&[name, ("type", "mmproj")]), "mmproj-Tiny-Stories-8B-v1.0-Q8_0.gguf");
    assert_eq!(of(&[name, ("type", "adapter")]), "Tiny-Stories-8B-v1.0-Q8_0-LoRA.gguf");
    assert_eq!(of(&[name, ("type", "model")]), "Tiny-Stories-8B-v1.0-Q8_0.gguf");
    // The name of a file without tensors has no encoding.
    assert_eq!(
        suggested(&[name, ("size_label", "8B")], None, file_type, None).unwrap(),
        "Tiny-Stories-8B-v1.0-vocab.gguf"
    );
    assert_eq!(suggested(&[name], size, Some(999), None).unwrap(), "Tiny-Stories-8B-v1.0.gguf");
    let mut metadata = MetadataBuf::new();
    metadata.set("split.no", 1u16);
    metadata.set("split.count", 3u16);
    let shard = Builder::new().metadata(metadata).plan().unwrap().header().to_vec();
    let split = Header::parse(shard).unwrap().split().unwrap();
    assert_eq!(
        suggested(&[name], size, file_type, split).unwrap(),
        "Tiny-Stories-8B-v1.0-Q8_0-00002-of-00003.gguf"
    );
}

#[test]
fn a_name_that_cannot_be_composed_says_why() {
    let error = suggested(&[("basename", "…")], Some("8B"), None, None).unwrap_err();
    assert_eq!(error, NamingError::NoBaseName);
    assert_eq!(
        error.to_string(),
        "general.basename, general.name and general.architecture are all missing"
    );
    let error = suggested(&[("name", "Tiny")], None, None, None).unwrap_err();
    assert_eq!(error, NamingError::NoSizeLabel);
    assert_eq!(
        error.to_string(),
        "general.size_label is missing, and there are no tensors to count"
    );
    let error = suggested(&[("name", "Tiny"), ("size_label", "a_b.c d")], None, None, None);
    assert_eq!(
        error.unwrap_err().to_string(),
        r#"the metadata results in "Tiny-a_b.c-d-v1.0-vocab.gguf", which does not follow the convention"#
    );
}

#[test]
fn size_labels_count_elements_and_experts() {
    let label = |tensors: &[(&str, &[u64])]| {
        let tensors: Vec<_> =
            tensors.iter().map(|&(name, shape)| (name, Shape::new(shape).unwrap())).collect();
        size_label(tensors.iter().map(|(name, shape)| (RawStr::from(*name), shape)))
    };
    let of = |tensors: &[(&str, &[u64])]| label(tensors).unwrap();
    assert_eq!(label(&[]), None);
    assert_eq!(label(&[("a", &[0, 5])]), None);
    for (elements, expected) in [
        (1, "0.00K"),
        (500, "0.50K"),
        (501, "0.5K"),
        (9_499, "9.5K"),
        (9_500, "10K"),
        (1_000_000, "1000K"),
        (1_000_001, "1.0M"),
        (1_000_000_000, "1000M"),
        (1_000_000_001, "1.0B"),
        (1_000_000_000_000, "1000B"),
        (2_000_000_000_000, "2.0T"),
    ] {
        assert_eq!(of(&[("a", &[elements])]), expected, "{elements}");
    }
    assert_eq!(of(&[("a", &[3_000, 1_000]), ("b", &[4_000, 1_000])]), "7.0M");
    // One expert and the shared tensors.
    let expert: (&str, &[u64]) = ("blk.0.ffn_up_exps.weight", &[1_000, 1_000, 8]);
    assert_eq!(of(&[("a", &[3_000, 1_000]), expert]), "8x4.0M");
    assert_eq!(of(&[("blk.0.ffn_up_exps.weight", &[1_000, 8_000])]), "8.0M");
    assert_eq!(of(&[("blk.0.ffn_up.weight", &[1_000, 1_000, 8])]), "8.0M");
    assert_eq!(of(&[("blk.0.ffn_up_exps.bias", &[1_000, 4, 1_000])]), "4x1000K");
    assert_eq!(of(&[("blk.0.ffn_up_exps.bias", &[1_000, 4_000])]), "4.0M");
    // A tensor with no experts does not count.
    assert_eq!(of(&[expert, ("blk.1.ffn_up_exps.weight", &[1_000, 1_000, 0])]), "8x1000K");
    assert_eq!(of(&[expert, ("blk.1.ffn_up_exps.weight", &[1_000, 1_000, 4])]), "6x2.0M");
}

#[test]
fn value_types_have_names_and_sizes() {
    let expected = [
        ("u8", Some(1), true),
        ("i8", Some(1), true),
        ("u16", Some(2), true),
        ("i16", Some(2), true),
        ("u32", Some(4), true),
        ("i32", Some(4), true),
        ("f32", Some(4), false),
        ("bool", Some(1), false),
        ("string", None, false),
        ("array", None, false),
        ("u64", Some(8), true),
        ("i64", Some(8), true),
        ("f64", Some(8), false),
    ];
    for (value_type, (name, size, is_integer)) in ValueType::ALL.into_iter().zip(expected) {
        assert_eq!(value_type.name(), Some(name));
        assert_eq!(value_type.fixed_size(), size, "{name}");
        assert_eq!(value_type.is_integer(), is_integer, "{name}");
        assert_eq!(name.parse(), Ok(value_type));
        assert_eq!(format!("{value_type:>7}|{value_type:?}"), format!("{name:>7}|{name}"));
    }
    let unknown = ValueType(13);
    assert_eq!((unknown.name(), unknown.fixed_size(), unknown.is_integer()), (None, None, false));
    assert_eq!(format!("{unknown}, {unknown:?}"), "value type 13, value type 13");
    assert_eq!("U8".parse::<ValueType>().unwrap_err().to_string(), "not the name of a type");
}

#[test]
fn tensor_types_have_names_and_layouts() {
    let plain = ["F32", "F16", "I8", "I16", "I32", "I64", "F64", "BF16"];
    let retired = ["Q4_2", "Q4_3"];
    for ggml_type in GgmlType::all() {
        let name = ggml_type.name().unwrap();
        let is_interleaved =
            name.ends_with("_4_4") || name.ends_with("_4_8") || name.ends_with("_8_8");
        assert_eq!(ggml_type.is_quantized(), !plain.contains(&name), "{name}");
        assert_eq!(ggml_type.is_retired(), retired.contains(&name) || is_interleaved, "{name}");
        assert_eq!(format!("{ggml_type:>9}|{ggml_type:?}"), format!("{name:>9}|{name}"));
    }
    let unknown = GgmlType(43);
    assert_eq!((unknown.name(), unknown.layout()), (None, None));
    assert!(!unknown.is_quantized() && !unknown.is_retired());
    assert_eq!(format!("{unknown:>8}|{unknown:?}"), " type 43|type 43");
    let bits = |ggml_type: GgmlType| ggml_type.layout().unwrap().bits_per_weight().to_bits();
    assert_eq!(bits(GgmlType::Q4_K), 4.5f64.to_bits());
    assert_eq!(bits(GgmlType::F32), 32f64.to_bits());
}

#[test]
fn file_types_have_names() {
    for number in 0..42 {
        let (exact, guessed) = (FileType(number), FileType(number + FileType::GUESSED));
        let name = exact.name().unwrap();
        assert_eq!((guessed.without_guess(), guessed.name()), (exact, Some(name)));
        assert_eq!(exact.without_guess(), exact);
        assert_eq!(name.to_lowercase().parse(), Ok(exact));
        assert_eq!(format!("{exact:>9}|{exact:?}"), format!("{name:>9}|{name}"));
        assert_eq!(guessed.to_string(), format!("{name} (guessed)"));
    }
    let unknown = FileType(42);
    assert_eq!((unknown.name(), unknown.to_string()), (None, "file type 42".to_owned()));
    assert!("Q4".parse::<FileType>().is_err());
}

#[test]
fn shapes_and_alignments_are_shown() {
    let shape = Shape::from_row_major(&[32_000, 4096]).unwrap();
    assert_eq!(shape.dimensions(), [4096, 32_000]);
    assert_eq!(shape.row_major().collect::<Vec<_>>(), [32_000, 4096]);
    assert_eq!((shape.row_len(), shape.rows(), shape.elements()), (4096, 32_000, 4096 * 32_000));
    assert_eq!(format!("{shape:>13}|{shape:?}"), " 4096 × 32000|[4096, 32000]");
    let alignment = Alignment::new(48).unwrap();
    assert_eq!(format!("{alignment:>3}|{alignment:?}"), " 48|48");
    assert_eq!(
        (alignment.pad(48), alignment.pad(49), alignment.align(49)),
        (Some(0), Some(47), Some(96))
    );
    assert!(!alignment.is_power_of_two() && Alignment::default().is_power_of_two());
    assert_eq!(Alignment::default().get(), 32);
    assert_eq!(format!("{:>7}|{:>4}", Endian::Little, Endian::Big), " little| big");
}

/// The name of each kind of error is its identifier in snake case.
#[test]
fn kinds_of_errors_have_names() {
    let kinds = [
        ErrorKind::NotGguf,
        ErrorKind::Version,
        ErrorKind::Truncated,
        ErrorKind::Malformed,
        ErrorKind::Limit,
        ErrorKind::Unsupported,
        ErrorKind::Missing,
        ErrorKind::WrongType,
        ErrorKind::Misuse,
        ErrorKind::Io,
        ErrorKind::Changed,
        ErrorKind::Shards,
    ];
    for kind in kinds {
        let mut snake = String::new();
        for (place, c) in format!("{kind:?}").char_indices() {
            if c.is_uppercase() && place > 0 {
                snake.push('_');
            }
            snake.extend(c.to_lowercase());
        }
        assert_eq!(kind.name(), snake);
    }
}

#[test]
fn a_file_without_tensors_says_so() {
    let model = |builder: Builder| {
        ggmill_core::Model::open(builder.plan().unwrap().header().to_vec()).unwrap()
    };
    let empty = NoTensors::of(&model(Builder::new())).unwrap();
    assert_eq!(empty.to_string(), "the file has no tensors");
    let mut metadata = MetadataBuf::new();
    metadata.set("tokenizer.ggml.tokens", ["a"].as_slice());
    let vocabulary = NoTensors::of(&model(Builder::new().metadata(metadata))).unwrap();
    assert_eq!(vocabulary.to_string(), "the file has no tensors, only a vocabulary");
    let shape = Shape::new(&[0]).unwrap();
    assert_eq!(NoTensors::of(&model(Builder::new().tensor("a", GgmlType::F32, shape))), None);
}

proptest! {
    #![proptest_config(cases(2000))]

    /// A size is shown with three digits, or four below the next unit, rounded half to even.
    #[test]
    fn sizes_are_rounded_as_floats_are(bits: u64, shift in 11u32..64) {
        let bytes = bits >> shift;
        let (mut number, mut unit) = (bytes.to_string().parse::<f64>().unwrap(), 0);
        while number >= 1024.0 {
            number /= 1024.0;
            unit += 1;
        }
        let digits = |decimals| format!("{number:.decimals$}");
        let expected = match unit {
            0 => digits(0),
            _ if digits(2).len() <= 4 => digits(2),
            _ if digits(1).len() <= 4 => digits(1),
            _ => digits(0),
        };
        let unit = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"][unit];
        prop_assert_eq!(ByteSize::from(bytes).to_string(), format!("{expected} {unit}"));
    }
}

#[test]
fn equal_sizes_are_shown_exactly() {
    let [a, b] = ByteSize::both((1u64 << 30) + 1, 1u64 << 30);
    assert_eq!((&*a, &*b), ("1073741825 bytes", "1073741824 bytes"));
    assert_eq!(ByteSize::both(3usize << 30, 1u128 << 30), ["3.00 GiB", "1.00 GiB"]);
}

#[test]
fn raw_strings_compare_as_bytes() {
    let text = RawStr::from("ab");
    assert!(text == *"ab" && text == "ab" && text != *"ac" && text != "abc");
    assert_eq!((text.len(), text.is_empty(), RawStr::default().is_empty()), (2, false, true));
    assert_eq!(RawStr::new(b"a\xff").to_string_lossy(), "a\u{fffd}");
    assert_eq!(format!("{:>4.1}|{:?}", RawStr::from("\n"), RawStr::from("\"\n")), r#"   \|"\"\n""#);
}
