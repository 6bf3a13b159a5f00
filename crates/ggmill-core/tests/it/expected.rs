//! Real files compared with other readers: every key, value and tensor.

use std::fs;
use std::path::Path;

use ggmill_core::{Entry, Header, RawStr, Tensor, ToValue as _, Value};
use ggmill_testdata::{every_gguf, expected, sha256};
use serde_json::{Value as Json, json};

/// Converts a value to the form of the fixtures.
fn shown(value: &Value<'_>) -> Json {
    match *value {
        Value::F32(v) => json!({ "bits": format!("{:08x}", v.to_bits()) }),
        Value::F64(v) => json!({ "bits": format!("{:016x}", v.to_bits()) }),
        Value::Bool(v) => json!(v),
        Value::Str(v) => text(v),
        Value::U64(v) => json!(v),
        _ => json!(value.as_i64().unwrap()),
    }
}

fn text(raw: RawStr<'_>) -> Json {
    match raw.to_str() {
        Ok(text) => json!(text),
        Err(_) => {
            json!({ "hex": raw.as_bytes().iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().concat() })
        }
    }
}

/// Checks that the two forms of each float in a fixture agree, and removes one.
fn one_form(mut expected: Json) -> Json {
    if let Some(object) = expected.as_object_mut()
        && let (Some(repr), Some(bits)) = (object.remove("repr"), object.get("bits"))
    {
        let bits = bits.as_str().unwrap();
        let number = u64::from_str_radix(bits, 16).unwrap();
        let number = if bits.len() == 8 {
            f32::from_bits(u32::try_from(number).unwrap()).into()
        } else {
            f64::from_bits(number)
        };
        let repr: f64 = repr.as_str().unwrap().parse().unwrap();
        assert!(repr.to_bits() == number.to_bits() || number.is_nan());
    }
    expected
}

fn compare_pair(name: &str, found: &Entry<'_>, expected: &Json) {
    let about = format!("{name}, key {:?}", found.key());
    assert_eq!(text(found.key()), expected["key"], "{about}");
    assert_eq!(found.value_type().to_string(), expected["type"], "{about}");
    let value = found.value().unwrap();
    let Some(array) = value.as_array() else {
        assert_eq!(shown(&value), one_form(expected["value"].clone()), "{about}");
        return;
    };
    assert_eq!(array.element_type().to_string(), expected["element"], "{about}");
    assert_eq!(array.len(), expected["length"], "{about}");
    let first: Vec<Json> = array.iter().take(3).map(|element| shown(&element.unwrap())).collect();
    let expected_first: Vec<Json> =
        expected["first"].as_array().unwrap().iter().cloned().map(one_form).collect();
    assert_eq!(first, expected_first, "{about}");
    assert_eq!(array.iter().count() as u64, array.len(), "{about}");
    // Version 3, little-endian, as `ToValue` writes it: the element type and the length, then the
    // elements.
    let mut encoded = Vec::new();
    value.encode(&mut encoded);
    assert_eq!(sha256(&encoded[12..]), expected["sha256"], "{about}");
    // If the file has this encoding, its bytes are the same.
    if !name.contains(".v1.") {
        assert_eq!(sha256(array.as_bytes()), expected["sha256"], "{about}");
    }
}

fn compare_tensor(name: &str, found: &Tensor<'_>, expected: &Json) {
    let about = format!("{name}, tensor {:?}", found.name());
    assert_eq!(text(found.name()), expected["name"], "{about}");
    assert_eq!(found.ggml_type().name(), expected["type"].as_str(), "{about}");
    assert_eq!(json!(found.shape().dimensions()), expected["shape"], "{about}");
    assert_eq!(found.offset(), expected["offset"], "{about}");
    assert_eq!(json!(found.size()), expected["size"], "{about}");
    assert_eq!(sha256(found.raw_data().unwrap()), expected["sha256"], "{about}");
}

fn compare(path: &Path) {
    let name = path.file_name().unwrap().to_str().unwrap();
    let fixture: Json =
        serde_json::from_str(&fs::read_to_string(expected(&format!("{name}.json"))).unwrap())
            .unwrap();
    let bytes = fs::read(path).unwrap();
    assert_eq!(
        sha256(&bytes),
        fixture["sha256"],
        "{name} is another file than the fixture was made from"
    );

    let model = Header::parse(bytes).unwrap();
    assert_eq!(model.version(), fixture["version"], "{name}");
    assert_eq!(model.endian().to_string(), fixture["endian"], "{name}");
    assert_eq!(model.alignment().get(), fixture["alignment"], "{name}");
    if !fixture["data_offset"].is_null() {
        assert_eq!(model.data_offset(), fixture["data_offset"], "{name}");
    }
    let (entries, tensors) =
        (fixture["metadata"].as_array().unwrap(), fixture["tensors"].as_array().unwrap());
    assert_eq!(
        (model.metadata().len(), model.tensors().len()),
        (entries.len(), tensors.len()),
        "{name}"
    );
    for (found, expected) in model.metadata().iter().zip(entries) {
        compare_pair(name, &found, expected);
    }
    for (found, expected) in model.tensors().iter().zip(tensors) {
        compare_tensor(name, &found, expected);
        let by_name = model.tensor(expected["name"].as_str().unwrap()).unwrap();
        assert_eq!(by_name.offset(), found.offset());
    }
}

#[test]
fn every_real_file_is_read_as_gguf_py_reads_it() {
    for path in every_gguf() {
        compare(&path);
    }
}

/// Every fixture is used: its file is in the list of files.
#[test]
fn every_fixture_belongs_to_a_file() {
    let names = ggmill_testdata::REAL_GGUF
        .into_iter()
        .chain(ggmill_testdata::SHARED_GGUF.iter().filter_map(|path| path.rsplit('/').next()));
    let mut listed: Vec<String> = names.map(|name| format!("{name}.json")).collect();
    let mut there: Vec<String> = fs::read_dir(expected(""))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    there.retain(|name| name.ends_with(".gguf.json"));
    listed.sort();
    there.sort();
    assert_eq!(listed, there);
}
