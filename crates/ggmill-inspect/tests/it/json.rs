//! The JSON matches its schema and loses nothing.

use ggmill_core::{Header, Model};
use ggmill_inspect::json::Arrays;
use ggmill_inspect::{Selection, json as report};
use ggmill_testdata::bytes::Value;
use ggmill_testdata::{corpus, every_gguf};
use serde_json::{Value as Json, json};

use crate::support::{
    json, json_text, named, of_pairs, open, small_model, small_model_with, strings,
};

fn schema() -> jsonschema::Validator {
    let schema: Json =
        serde_json::from_str(include_str!("../../../../docs/formats/inspect.schema.json")).unwrap();
    jsonschema::draft202012::meta::validate(&schema).unwrap();
    jsonschema::draft202012::new(&schema).unwrap()
}

fn assert_valid(schema: &jsonschema::Validator, name: &str, report: &Json) {
    let errors: Vec<String> = schema
        .iter_errors(report)
        .take(3)
        .map(|error| format!("{}: {error}", error.instance_path()))
        .collect();
    assert!(errors.is_empty(), "{name}: {errors:#?}");
}

#[test]
fn real_files_fit_the_schema() {
    let schema = schema();
    for path in every_gguf() {
        let file = open(&path);
        let name = path.to_string_lossy();
        assert_valid(&schema, &name, &json(&file, Arrays::Shortened));
        // Larger arrays would test nothing more.
        if file.header_len() < 1 << 20 {
            assert_valid(&schema, &name, &json(&file, Arrays::Full));
        }
    }
}

#[test]
fn every_valid_file_of_the_corpus_fits_the_schema() {
    let schema = schema();
    for case in corpus::valid() {
        let file = Header::parse_with(case.bytes, &case.limits).unwrap();
        for arrays in [Arrays::Shortened, Arrays::Full] {
            assert_valid(&schema, case.name, &json(&file, arrays));
        }
    }
}

#[test]
fn the_schema_refuses_wrong_documents() {
    let schema = schema();
    let good = json(&small_model(), Arrays::Shortened);
    assert_valid(&schema, "small", &good);
    let edits: [fn(&mut Json); 6] = [
        |report| report["schema"] = json!("ggmill.inspect/2"),
        |report| report["metadata"][0]["value"] = json!(1),
        |report| report["metadata"][0]["extra"] = json!(1),
        |report| report["metadata"][16]["element"] = json!("text"),
        |report| report["tensors"][0]["offset"] = json!(-1),
        |report| drop(report["summary"].as_object_mut().unwrap().remove("parameters")),
    ];
    for (number, edit) in edits.into_iter().enumerate() {
        let mut bad = good.clone();
        edit(&mut bad);
        assert!(!schema.is_valid(&bad), "edit {number}");
    }
}

#[test]
fn every_type_is_lossless() {
    let pairs: Vec<(Vec<u8>, Value)> = Value::one_of_each()
        .into_iter()
        .enumerate()
        .map(|(i, value)| (format!("key{i}").into_bytes(), value))
        .collect();
    let pairs: Vec<(&[u8], Value)> =
        pairs.iter().map(|(key, value)| (key.as_slice(), value.clone())).collect();
    let found = json(&of_pairs(&pairs), Arrays::Shortened);
    let values: Vec<&Json> =
        found["metadata"].as_array().unwrap().iter().map(|pair| &pair["value"]).collect();
    let expected = [
        json!(255),
        json!(-128),
        json!(65535),
        json!(-32768),
        json!(u32::MAX),
        json!(i32::MIN),
        json!({ "float": "NaN", "bits": "0x7fc12345" }),
        json!(true),
        json!("café"),
        json!([
            { "type": "array", "element": "i16", "length": 2, "value": [-1, 32767] },
            { "type": "array", "element": "string", "length": 2, "value": ["", "bé"] },
            { "type": "array", "element": "f64", "length": 0, "value": [] },
        ]),
        json!(u64::MAX),
        json!(i64::MIN),
        json!({ "float": "NaN", "bits": "0x7ff8000000000001" }),
    ];
    assert_eq!(values, expected.iter().collect::<Vec<_>>());
}

#[test]
fn floats_round_trip_bit_for_bit() {
    let numbers = [
        0.1f32,
        -0.0,
        1e-45,
        f32::MAX,
        f32::MIN_POSITIVE,
        16_777_216.0,
        1.0 / 3.0,
        1e-5,
        33_554_434.0,
    ];
    let text = json_text(
        &of_pairs(&[(b"a", Value::Array(6, numbers.map(Value::F32).into()))]),
        Arrays::Full,
    );
    let list = text.split_once("\"value\":[").unwrap().1.split_once(']').unwrap().0;
    let back: Vec<u32> =
        list.split(',').map(|number| number.parse::<f32>().unwrap().to_bits()).collect();
    assert_eq!(back, numbers.map(f32::to_bits));
    let found = json(
        &of_pairs(&[(b"a", Value::F64(f64::NEG_INFINITY)), (b"b", Value::F32(f32::INFINITY))]),
        Arrays::Full,
    );
    assert_eq!(
        found["metadata"][0]["value"],
        json!({ "float": "-Infinity", "bits": "0xfff0000000000000" })
    );
    assert_eq!(found["metadata"][1]["value"], json!({ "float": "Infinity", "bits": "0x7f800000" }));
}

#[test]
fn bytes_that_are_not_utf8_are_in_hexadecimal() {
    let found = json(
        &of_pairs(&[
            (b"\xffkey", Value::Str(b"a\xc3".to_vec())),
            (b"ok", Value::Str(b"\0\xe2\x82\xac".to_vec())),
        ]),
        Arrays::Full,
    );
    assert_eq!(found["metadata"][0]["key"], json!({ "bytes_hex": "ff6b6579" }));
    assert_eq!(found["metadata"][0]["value"], json!({ "bytes_hex": "61c3" }));
    assert_eq!(found["metadata"][1]["value"], json!("\0€"));
}

#[test]
fn arrays_are_shortened_to_eight() {
    let numbers = |count: u8| Value::Array(0, (0..count).map(Value::U8).collect());
    let file = of_pairs(&[
        (b"eight", numbers(8)),
        (b"nine", numbers(9)),
        (b"nested", Value::Array(9, vec![numbers(9)])),
    ]);
    let short = json(&file, Arrays::Shortened);
    assert_eq!(
        short["metadata"][0],
        json!({ "key": "eight", "type": "array", "element": "u8", "length": 8, "value": [0, 1, 2, 3, 4, 5, 6, 7] })
    );
    assert_eq!(short["metadata"][1]["truncated"], json!(true));
    assert_eq!(short["metadata"][2]["value"][0]["truncated"], json!(true));
    assert!(!json_text(&file, Arrays::Full).contains("truncated"));
}

#[test]
fn both_entries_of_a_duplicate_key_are_listed() {
    let found = json(&of_pairs(&[(b"a", Value::U8(1)), (b"a", Value::U8(2))]), Arrays::Full);
    assert_eq!(
        found["metadata"],
        json!([{ "key": "a", "type": "u8", "value": 1 }, { "key": "a", "type": "u8", "value": 2 }])
    );
}

#[test]
fn sections_and_patterns_choose() {
    let file = small_model();
    let view = named(&file, "small.gguf");
    let write = |selection: &Selection| -> Json {
        let mut out = Vec::new();
        report::write(&mut out, &view, selection, Arrays::Shortened).unwrap();
        serde_json::from_slice(&out).unwrap()
    };
    let keys = write(&Selection::metadata(vec!["*.head_count*".parse().unwrap()]));
    assert_eq!(keys["metadata"].as_array().unwrap().len(), 2);
    assert!(keys.get("tensors").is_none());
    let tensors = write(&Selection::tensors(vec!["blk.1.*".parse().unwrap()]));
    assert_eq!(tensors["tensors"].as_array().unwrap().len(), 2);
    assert!(tensors.get("metadata").is_none());
    assert_eq!(tensors["summary"]["tensors"], 6);
}

#[test]
fn shards_are_one_model() {
    let first = small_model_with(&[("split.no", Value::U16(1)), ("split.count", Value::U16(2))]);
    let second = of_pairs(&[(b"split.no", Value::U16(0)), (b"split.count", Value::U16(2))]);
    let view =
        Model::from_shards(vec![named(&first, "directory/b"), named(&second, "directory/a")])
            .unwrap();
    let mut out = Vec::new();
    report::write(&mut out, &view, &Selection::default(), Arrays::Shortened).unwrap();
    let found: Json = serde_json::from_slice(&out).unwrap();
    assert_valid(&schema(), "shards", &found);
    assert_eq!(found["summary"]["shards"], 2);
    assert_eq!(found["tensors"][0]["shard"], 1);
    assert_eq!(found["file_size"], json!(first.bytes().len() + second.bytes().len()));
    assert_eq!(found["shards"][1]["file"], "b");
}

#[test]
fn a_line_for_each_pair_and_tensor() {
    let text =
        json_text(&of_pairs(&[(b"a", strings(&["x", "y"])), (b"b", Value::Bool(0))]), Arrays::Full);
    insta::assert_snapshot!(text);
}
