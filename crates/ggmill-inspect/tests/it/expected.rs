//! The JSON of real files equals what gguf 0.19.0 reads, for every key, value and tensor.

use ggmill_inspect::json::Arrays;
use ggmill_testdata::{every_gguf, expected, sha256};
use serde_json::Value as Json;

use crate::support::{json, open};

/// Returns the elements of an array as bytes of a little-endian file of version 3.
fn encoded(element: &str, values: &[Json]) -> Vec<u8> {
    let mut out = Vec::new();
    for value in values {
        match element {
            "string" => {
                let text = value.as_str().unwrap();
                out.extend((text.len() as u64).to_le_bytes());
                out.extend(text.as_bytes());
            }
            #[expect(clippy::cast_possible_truncation, reason = "it was an f32")]
            "f32" => out.extend((value.as_f64().unwrap() as f32).to_le_bytes()),
            "i32" => out.extend(i32::try_from(value.as_i64().unwrap()).unwrap().to_le_bytes()),
            other => panic!("no real file has an array of {other}"),
        }
    }
    out
}

fn compare_pair(found: &Json, fixture: &Json) {
    for field in ["key", "type", "element", "length"] {
        assert_eq!(found.get(field), fixture.get(field), "{found}");
    }
    assert!(found.get("truncated").is_none());
    match found["value"].as_array() {
        Some(values) => assert_eq!(
            sha256(&encoded(found["element"].as_str().unwrap(), values)),
            fixture["sha256"],
            "{}",
            found["key"]
        ),
        #[expect(clippy::cast_possible_truncation, reason = "it was an f32")]
        None if found["type"] == "f32" => {
            let bits = format!("{:08x}", (found["value"].as_f64().unwrap() as f32).to_bits());
            assert_eq!(bits, fixture["value"]["bits"].as_str().unwrap(), "{found}");
        }
        None => assert_eq!(found["value"], fixture["value"], "{found}"),
    }
}

#[test]
fn json_agrees_with_gguf_py() {
    for path in every_gguf() {
        let name = path.file_name().unwrap().to_str().unwrap();
        let fixture: Json = serde_json::from_str(
            &std::fs::read_to_string(expected(&format!("{name}.json"))).unwrap(),
        )
        .unwrap();
        let found = json(&open(&path), Arrays::Full);

        assert_eq!(found["file_size"], fixture["bytes"], "{name}");
        for field in ["version", "endian", "alignment"] {
            assert_eq!(found[field], fixture[field], "{name}");
        }
        let pairs = found["metadata"]
            .as_array()
            .unwrap()
            .iter()
            .zip(fixture["metadata"].as_array().unwrap());
        assert_eq!(
            found["metadata"].as_array().unwrap().len(),
            fixture["metadata"].as_array().unwrap().len(),
            "{name}"
        );
        pairs.for_each(|(found, fixture)| compare_pair(found, fixture));

        let (tensors, fixtures) =
            (found["tensors"].as_array().unwrap(), fixture["tensors"].as_array().unwrap());
        assert_eq!(tensors.len(), fixtures.len(), "{name}");
        for (found, fixture) in tensors.iter().zip(fixtures) {
            for field in ["name", "type", "shape", "offset", "size"] {
                assert_eq!(found[field], fixture[field], "{name}, {found}");
            }
        }
    }
}
