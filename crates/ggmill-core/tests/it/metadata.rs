//! Metadata values through the public interface.

use ggmill_core::{
    Builder, ErrorKind, Header, MetadataBuf, Optional as _, RawStr, Split, ToValue, Value,
    ValueType,
};
use ggmill_testdata::bytes::{FileBytes, Value as Built};
use ggmill_testdata::corpus;
use proptest::prelude::*;

use crate::support::cases;

fn parsed(pairs: &[(&str, Built)]) -> Header<'static> {
    let mut file = FileBytes::v3(0, pairs.len() as u64);
    for (key, value) in pairs {
        file.pair(key, value);
    }
    Header::parse(file.into_bytes()).unwrap()
}

fn case(name: &str) -> Header<'static> {
    let case = corpus::valid().into_iter().find(|case| case.name == name).unwrap();
    Header::parse_with(case.bytes, &case.limits).unwrap()
}

/// Returns the kind of an expected error.
fn kind<T>(result: ggmill_core::Result<T>) -> ErrorKind {
    result.map(|_| ()).unwrap_err().kind()
}

/// An integer of any type, and its value.
fn integer() -> impl Strategy<Value = (Built, i128)> {
    let wide = (any::<u64>(), 0u32..64).prop_map(|(bits, shift)| bits >> shift);
    prop_oneof![
        any::<u8>().prop_map(|v| (Built::U8(v), v.into())),
        any::<i8>().prop_map(|v| (Built::I8(v), v.into())),
        any::<u16>().prop_map(|v| (Built::U16(v), v.into())),
        any::<i16>().prop_map(|v| (Built::I16(v), v.into())),
        any::<u32>().prop_map(|v| (Built::U32(v), v.into())),
        any::<i32>().prop_map(|v| (Built::I32(v), v.into())),
        wide.clone().prop_map(|v| (Built::U64(v), v.into())),
        (wide, any::<bool>())
            .prop_map(|(v, negative)| if negative {
                v.cast_signed().wrapping_neg()
            } else {
                v.cast_signed()
            })
            .prop_map(|v| (Built::I64(v), v.into())),
    ]
}

proptest! {
    #![proptest_config(cases(2000))]

    #[test]
    fn integer_accessors_accept_any_type_that_fits((built, number) in integer()) {
        let model = parsed(&[("key", built)]);
        let metadata = model.metadata();
        prop_assert_eq!(metadata.u64("key").ok(), u64::try_from(number).ok());
        prop_assert_eq!(metadata.i64("key").ok(), i64::try_from(number).ok());
        prop_assert_eq!(metadata.u32("key").ok(), u32::try_from(number).ok());
        prop_assert_eq!(metadata.get("key").unwrap().value().unwrap().as_i128(), Some(number));
        for result in [metadata.u64("key").map(|_| ()), metadata.i64("key").map(|_| ()), metadata.u32("key").map(|_| ())] {
            prop_assert!(result.is_ok() || result.unwrap_err().to_string().contains("does not fit"));
        }
        prop_assert_eq!(kind(metadata.str("key")), ErrorKind::WrongType);
        prop_assert_eq!(kind(metadata.f64("key")), ErrorKind::WrongType);
        prop_assert_eq!(kind(metadata.bool("key")), ErrorKind::WrongType);
    }
}

#[test]
fn accessors_use_the_first_of_duplicate_keys() {
    let model = case("duplicate-keys");
    let metadata = model.metadata();
    let keys: Vec<String> = metadata.iter().map(|pair| pair.key().to_string()).collect();
    assert_eq!(keys, ["key", "other", "key", "key"]);
    assert_eq!(metadata.u64("key").unwrap(), 1);
    let all: Vec<Value<'_>> = metadata.all(b"key").map(|pair| pair.value().unwrap()).collect();
    assert_eq!(all, [Value::U8(1), Value::Str("two".into()), Value::F64(3.0)]);
    assert_eq!(metadata.all(b"absent").count(), 0);

    let model = case("duplicate-names");
    assert_eq!(
        model.tensors().iter().map(|tensor| tensor.shape().elements()).collect::<Vec<_>>(),
        [8, 4]
    );
    assert_eq!(model.tensor("a").unwrap().shape().elements(), 8);
}

/// Duplicates of `general.alignment` with different values are rejected, so setting the key must remove
/// its duplicates.
#[test]
fn setting_a_duplicate_key_leaves_one_entry() {
    for name in ["alignment-twice-the-same", "duplicate-keys"] {
        let model = case(name);
        let mut metadata = MetadataBuf::copy_of(&model.metadata()).unwrap();
        assert_eq!(metadata.len(), model.metadata().len());
        metadata.set("general.alignment", 128u32);
        metadata.set("key", "new");
        let keys: Vec<String> = metadata.iter().map(|(key, _)| key.to_string()).collect();
        assert_eq!(keys.iter().filter(|key| *key == "general.alignment").count(), 1);
        assert_eq!(keys.iter().filter(|key| *key == "key").count(), 1);
        let file = Builder::new().metadata(metadata).plan().unwrap().header().to_vec();
        assert_eq!(Header::parse(file).unwrap().alignment().get(), 128);
    }
}

#[test]
fn a_missing_key_is_an_error_of_kind_missing() {
    let model = parsed(&[("number", Built::F64(0.5)), ("flag", Built::Bool(7))]);
    let metadata = model.metadata();
    assert_eq!(metadata.f64("number").unwrap().to_bits(), 0.5f64.to_bits());
    assert!(metadata.bool("flag").unwrap());
    assert_eq!(kind(metadata.str("absent")), ErrorKind::Missing);
    assert_eq!(metadata.u64("absent").optional().unwrap(), None);
    assert_eq!(kind(metadata.u64("number").optional()), ErrorKind::WrongType);
    assert!(
        metadata.get("numbe").is_none()
            && metadata.get("number ").is_none()
            && metadata.get("").is_none()
    );
}

#[test]
fn strings_are_bytes_first() {
    let model = case("hostile-text");
    let metadata = model.metadata();
    let hostile: &[u8] = b"\x1b[2J\x1b]0;title\x07\xe2\x80\xae\xff\xfe\0\r\n";
    let pair = metadata.get(hostile).unwrap();
    assert_eq!(pair.key().as_bytes(), hostile);
    assert_eq!(pair.value().unwrap().as_raw_str(), Some(RawStr::new(hostile)));
    assert_eq!(pair.value().unwrap().as_str(), None);
    assert_eq!(pair.key().to_string(), r"\u{1b}[2J\u{1b}]0;title\u{7}\u{202e}\xff\xfe\u{0}\r\n");
    assert_eq!(metadata.raw_str("cut").unwrap().as_bytes(), [0xe2, 0x82]);
    assert_eq!(kind(metadata.str("cut")), ErrorKind::WrongType);
    let strings: Vec<&[u8]> = metadata
        .array("strings")
        .unwrap()
        .strings()
        .unwrap()
        .map(|text| text.unwrap().as_bytes())
        .collect();
    assert_eq!(strings, [&b""[..], hostile, &[0xc3], &[0; 3]]);
}

#[test]
fn every_version_and_byte_order_has_the_same_values() {
    let plain = case("whole-v3");
    for name in [
        "whole-v1",
        "whole-v2",
        "whole-v1-big-endian",
        "whole-v2-big-endian",
        "whole-v3-big-endian",
        "whole-v3-fugg",
        "whole-v3-fugg-little",
    ] {
        let other = case(name);
        assert_eq!(other.has_swapped_magic(), name.contains("fugg"));
        assert_eq!(other.metadata().len(), ValueType::ALL.len());
        for (a, b) in plain.metadata().iter().zip(other.metadata().iter()) {
            assert_eq!((a.key(), a.value_type()), (b.key(), b.value_type()));
            let encode = |value: Value<'_>| {
                let mut bytes = Vec::new();
                value.encode(&mut bytes);
                bytes
            };
            assert_eq!(
                encode(a.value().unwrap()),
                encode(b.value().unwrap()),
                "{name}, {}",
                a.key()
            );
        }
        assert!(other.metadata().iter().map(|pair| pair.value_type()).eq(ValueType::ALL), "{name}");
    }
}

#[test]
fn an_empty_array_keeps_its_element_type() {
    let model = case("empty-arrays");
    assert_eq!(model.metadata().len(), 13);
    for pair in model.metadata() {
        let array = pair.value().unwrap().as_array().unwrap();
        assert_eq!(array.element_type().name(), pair.key().to_str().ok());
        assert!(array.is_empty() && array.iter().next().is_none() && array.get(0).is_none());
        assert_eq!(array.strings().is_some(), array.element_type() == ValueType::STRING);
        assert_eq!(array.integers().is_some(), array.element_type().is_integer());
    }
    assert_eq!(
        MetadataBuf::copy_of(&model.metadata())
            .unwrap()
            .get("u16")
            .unwrap()
            .as_array()
            .unwrap()
            .element_type(),
        ValueType::U16
    );
}

#[test]
fn get_returns_the_elements_of_iter() {
    for name in ["arrays", "whole-v1", "whole-v3-big-endian", "odd-bools", "array-depth-8"] {
        let model = case(name);
        for pair in model.metadata() {
            let Some(array) = pair.value().unwrap().as_array() else { continue };
            let mut count = 0;
            for (number, walked) in array.iter().enumerate() {
                let picked = array.get(number as u64).unwrap().unwrap();
                let mut bytes = [Vec::new(), Vec::new()];
                walked.unwrap().encode(&mut bytes[0]);
                picked.encode(&mut bytes[1]);
                assert_eq!(bytes[0], bytes[1], "{name}");
                count += 1;
            }
            assert_eq!(count, array.len());
            // The typed iterators are separate loops.
            if let Some(strings) = array.strings() {
                assert!(
                    strings
                        .map(Result::unwrap)
                        .eq(array.iter().map(|value| value.unwrap().as_raw_str().unwrap())),
                    "{name}"
                );
            }
            if let Some(integers) = array.integers() {
                assert!(
                    integers.eq(array.iter().map(|value| value.unwrap().as_i128().unwrap())),
                    "{name}"
                );
            }
            if let Some(floats) = array.floats() {
                assert!(
                    floats.map(f64::to_bits).eq(array.iter().map(|value| value
                        .unwrap()
                        .as_f64()
                        .unwrap()
                        .to_bits())),
                    "{name}"
                );
            }
            assert!(array.get(count).is_none() && array.get(u64::MAX).is_none());
        }
    }
}

#[test]
fn any_byte_but_zero_is_true() {
    let model = case("odd-bools");
    assert!(model.metadata().bool("alone").unwrap());
    let array = model.metadata().array("array").unwrap();
    assert_eq!(
        array.iter().map(|value| value.unwrap().as_bool().unwrap()).collect::<Vec<_>>(),
        [false, true, true, true]
    );
}

#[test]
fn the_keys_of_a_shard_may_have_any_integer_type() {
    for name in ["split-u16", "split-u32", "split-i32"] {
        let model = case(name);
        let split = Split::of(&model.metadata()).unwrap().unwrap();
        assert_eq!(
            (split.number, split.count, split.tensors, split.is_part()),
            (1, 3, Some(201), true)
        );
    }
    let merged = case("split-merged");
    assert!(!Split::of(&merged.metadata()).unwrap().unwrap().is_part());
    assert_eq!(Split::of(&case("whole-v3").metadata()).unwrap(), None);
    assert_eq!(
        kind(Split::of(&parsed(&[("split.count", Built::I32(-1))]).metadata())),
        ErrorKind::WrongType
    );
    assert_eq!(
        kind(Split::of(&parsed(&[("split.count", Built::from("3"))]).metadata())),
        ErrorKind::WrongType
    );
}

#[test]
fn every_rust_value_reads_back() {
    fn same<T: ToValue + Clone>(value: T, expected: &Value<'_>) {
        let mut metadata = MetadataBuf::new();
        metadata.set("key", value.clone());
        assert_eq!(metadata.get("key").as_ref(), Some(expected));
        let file = Builder::new().metadata(metadata).plan().unwrap().header().to_vec();
        let model = Header::parse(file).unwrap();
        assert_eq!(&model.metadata().get("key").unwrap().value().unwrap(), expected);
        assert_eq!(value.value_type(), expected.value_type());
    }
    same(1u8, &Value::U8(1));
    same(-1i8, &Value::I8(-1));
    same(u16::MAX, &Value::U16(u16::MAX));
    same(i16::MIN, &Value::I16(i16::MIN));
    same(u32::MAX, &Value::U32(u32::MAX));
    same(i32::MIN, &Value::I32(i32::MIN));
    same(u64::MAX, &Value::U64(u64::MAX));
    same(i64::MIN, &Value::I64(i64::MIN));
    same(0.1f32, &Value::F32(0.1));
    same(f64::INFINITY, &Value::F64(f64::INFINITY));
    same(true, &Value::Bool(true));
    same("text", &Value::Str("text".into()));
    same(String::from("text"), &Value::Str("text".into()));
    same(RawStr::new(b"\xff"), &Value::Str(RawStr::new(b"\xff")));
    let mut other = MetadataBuf::new();
    other.set("array", vec![1i32, -2, 3]);
    let array = other.get("array").unwrap();
    same(vec![1i32, -2, 3], &array);
    same([1i32, -2, 3].as_slice(), &array);
    same(array, &array);
    same(array.as_array().unwrap(), &array);
}
