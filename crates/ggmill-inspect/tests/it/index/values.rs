//! Cells of metadata values.

use ggmill_inspect::index::{MAX_ELEMENTS, MAX_TEXT};
use ggmill_testdata::bytes::{FileBytes, Value};
use serde_json::{Value as Json, json};

use crate::index::support::{file, ndjson, ndjson_rows};

/// Returns the metadata row of an entry with this value.
fn row(value: &Value) -> Json {
    let mut bytes = FileBytes::v3(0, 1);
    bytes.pair("k", value).pad(32);
    let (text, outcome, _) = ndjson(&[file("f", bytes.into_bytes(), 0)], None, 1).unwrap();
    assert_eq!((outcome.entries, outcome.broken), (1, 0));
    ndjson_rows(&text)[2].remove(0)
}

fn cells(value: &Value) -> Json {
    let row = row(value);
    json!([
        row["type"],
        row["element_type"],
        row["length"],
        row["value"],
        row["integer"],
        row["float"]
    ])
}

#[test]
fn a_value_is_text_and_a_number_where_it_is_one() {
    let expected = [
        (Value::U8(7), json!(["u8", null, null, "7", 7, null])),
        (Value::I64(i64::MIN), json!(["i64", null, null, i64::MIN.to_string(), i64::MIN, null])),
        (Value::U64(u64::MAX), json!(["u64", null, null, "18446744073709551615", null, null])),
        (Value::Bool(1), json!(["bool", null, null, "true", null, null])),
        (Value::F32(0.5), json!(["f32", null, null, "0.5", null, 0.5])),
        (Value::F64(f64::NAN), json!(["f64", null, null, "NaN", null, null])),
        (Value::F32(f32::NEG_INFINITY), json!(["f32", null, null, "-Infinity", null, null])),
        ("a\"\u{202e}b".into(), json!(["string", null, 6, "a\"\u{202e}b", null, null])),
        (
            Value::Array(5, vec![Value::I32(-1), Value::I32(2)]),
            json!(["array", "i32", 2, "[-1,2]", null, null]),
        ),
        (
            Value::Array(8, vec!["x\n".into(), "\u{e9}".into()]),
            json!(["array", "string", 2, "[\"x\\n\",\"\u{e9}\"]", null, null]),
        ),
        (
            Value::Array(6, vec![Value::F32(f32::NAN), Value::F32(1e-7)]),
            json!(["array", "f32", 2, "[\"NaN\",0.0000001]", null, null]),
        ),
    ];
    for (value, expected) in expected {
        assert_eq!(cells(&value), expected);
    }
}

#[test]
fn long_values_are_cut_but_their_length_is_that_of_the_whole() {
    let long = "\u{e9}".repeat(MAX_TEXT);
    let found = row(&long.as_str().into());
    let text = found["value"].as_str().unwrap();
    assert!(text.len() <= MAX_TEXT && text.len() + 2 > MAX_TEXT && long.starts_with(text));
    assert_eq!(found["length"], long.len());
    let many = Value::Array(4, (0..1000).map(Value::U32).collect());
    let found = row(&many);
    assert_eq!(found["length"], 1000);
    let shown: Vec<u32> = serde_json::from_str(found["value"].as_str().unwrap()).unwrap();
    assert!(shown.into_iter().eq(0..u32::try_from(MAX_ELEMENTS).unwrap()));
    let texts = Value::Array(8, (0..100).map(|_| long.as_str().into()).collect());
    let found = row(&texts);
    let text = found["value"].as_str().unwrap();
    assert!(text.len() < 3 * MAX_TEXT && serde_json::from_str::<Json>(text).is_ok());
}

#[test]
fn names_that_are_not_text_are_escaped() {
    let mut bytes = FileBytes::v3(1, 1);
    bytes.pair(b"k\xff\\", &Value::U8(1)).tensor(b"t\x80", &[32], 0, 0).pad(32).raw(&[0; 128]);
    let (text, ..) = ndjson(&[file("f", bytes.into_bytes(), 0)], None, 1).unwrap();
    let [_, tensors, metadata] = ndjson_rows(&text);
    assert_eq!(tensors[0]["name"], r"t\x80");
    assert_eq!(metadata[0]["key"], r"k\xff\\");
}
