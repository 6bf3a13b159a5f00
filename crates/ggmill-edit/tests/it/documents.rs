//! JSON and TOML documents as edits.

use ggmill_core::{Endian, Value};
use ggmill_edit::Edit;

use crate::edit::{Bench, content, model, set, small};

#[test]
fn documents_become_edits() {
    let document = serde_json::json!({
        "general": { "name": "Tiny", "tags": ["a"], "base_model": { "count": 1 } }, "my.flag": true, "my.number:i64": -1, "my.floats": [1, 2.5],
    });
    let edits = Edit::from_json(&document.to_string()).unwrap();
    let bench = Bench::new(&model(small(), Endian::Little));
    bench.edit(&edits).unwrap();
    let (metadata, _) = content(&bench.bytes());
    assert_eq!(metadata.get("general.base_model.count"), Some(Value::U32(1)));
    assert_eq!(metadata.get("my.flag"), Some(Value::Bool(true)));
    assert_eq!(metadata.get("my.number"), Some(Value::I64(-1)));
    assert_eq!(
        metadata
            .get("my.floats")
            .unwrap()
            .as_array()
            .unwrap()
            .floats()
            .unwrap()
            .collect::<Vec<_>>(),
        [1.0, 2.5]
    );
    assert!(
        Edit::from_json("[1]").is_err()
            && Edit::from_json("{ \"a:nope\": 1 }").is_err()
            && Edit::from_toml("a = [2024-01-01]").is_err()
            && Edit::from_toml("a = nan").is_err()
    );
}

/// The example in the documentation of patches.
#[test]
fn the_documented_patch_is_applied() {
    let page = include_str!("../../../../docs/formats/edit.md");
    let example = page.split("```json\n").nth(1).unwrap().split("```").next().unwrap();
    let bench = Bench::new(&model(small(), Endian::Little));
    bench.edit(&[set("general.license=mit")]).unwrap();
    bench.edit(&Edit::from_json(example).unwrap()).unwrap();
    let (metadata, _) = content(&bench.bytes());
    assert_eq!(metadata.get("general.license"), None);
    assert_eq!(metadata.get("llama.context_length"), Some(Value::U32(4096)));
    assert_eq!(metadata.get("llama.rope.freq_base"), Some(Value::F32(10000.0)));
}

/// New keys are added in the order of the document.
#[test]
fn documents_keep_their_order() {
    let keys = |edits: &[Edit]| -> Vec<String> {
        let key = |edit: &Edit| match edit {
            Edit::Set { key, .. } => key.clone(),
            other => format!("{other:?}"),
        };
        edits.iter().map(key).collect()
    };
    let json =
        r#"{"z.b": 1, "a": {"y": "x", "b": [1]}, "m:u64": 18446744073709551615, "z.a": 2.5}"#;
    let order = ["z.b", "a.y", "a.b", "m", "z.a"];
    let edits = Edit::from_json(json).unwrap();
    assert_eq!(keys(&edits), order);
    let toml = "z.b = 1\na.y = 'x'\na.b = [1]\n'm:u64' = 7\n";
    assert_eq!(keys(&Edit::from_toml(toml).unwrap()), order[..4]);
    let bench = Bench::new(&model(small(), Endian::Little));
    bench.edit(&edits).unwrap();
    let (metadata, _) = content(&bench.bytes());
    let added =
        metadata.iter().map(|(key, _)| key.to_string()).filter(|key| order.contains(&&**key));
    assert_eq!(added.collect::<Vec<_>>(), order);
    assert_eq!(metadata.get("m"), Some(Value::U64(u64::MAX)));
}

/// In a patch, null removes the key with exactly this name; the name is not a pattern.
#[test]
fn documents_remove_keys_and_set_non_finite_numbers() {
    for endian in [Endian::Little, Endian::Big] {
        let bench = Bench::new(&model(small(), endian));
        bench.edit(&[set("my.a*b=1"), set("my.a1b=2"), set("my.other=3")]).unwrap();
        let patch = serde_json::json!({
            "my": { "a*b": null }, "my.x:f32": "NaN", "my.y:f64": "-Infinity", "my.z:[f32]": [1, "Infinity"], "my.text": "NaN",
        });
        bench.edit(&Edit::from_json(&patch.to_string()).unwrap()).unwrap();
        let (metadata, _) = content(&bench.bytes());
        assert_eq!(metadata.get("my.a*b"), None);
        assert_eq!(metadata.get("my.a1b"), Some(Value::U32(2)));
        assert!(matches!(metadata.get("my.x"), Some(Value::F32(number)) if number.is_nan()));
        assert_eq!(metadata.get("my.y"), Some(Value::F64(f64::NEG_INFINITY)));
        let list = metadata.get("my.z").unwrap();
        let list: Vec<f64> = list.as_array().unwrap().floats().unwrap().collect();
        assert_eq!(list, [1.0, f64::INFINITY]);
        assert_eq!(metadata.get("my.text").unwrap().as_str(), Some("NaN"));
    }
    let bench = Bench::new(&model(small(), Endian::Little));
    let refused = |text: &str| bench.edit(&Edit::from_json(text).unwrap()).unwrap_err().to_string();
    assert!(refused(r#"{"no.such.key": null}"#).contains("no key matches"));
    assert!(refused(r#"{"my.list:[u32]": [1, null]}"#).contains("null is not a value"));
    assert!(refused(r#"{"my.number:u32": "NaN"}"#).contains("is not a u32"));
}

#[test]
fn deep_documents_and_keys_with_types_are_read() {
    let list = vec!["1"; 20_000].join(",");
    let json = format!("{}[{list}]{}", "{\"a\":".repeat(120), "}".repeat(120));
    let edits = Edit::from_json(&json).unwrap();
    assert_eq!(edits.len(), 1);
    let deeper = format!("{}1{}", "{\"a\":".repeat(200), "}".repeat(200));
    assert!(Edit::from_json(&deeper).is_err(), "the parser limits the depth");
    let typed = Edit::from_json(r#"{"general.license:string": null}"#).unwrap();
    assert_eq!(typed, [Edit::parse_unset("general.license").unwrap()]);
}

/// A few megabytes of JSON or TOML would take gigabytes.
#[test]
fn values_of_too_much_memory_are_refused() {
    let list = format!("[{}1]", "{\"\":1},".repeat(1_000_000));
    let error = Edit::from_json(&format!("{{\"a.b\":{list}}}")).unwrap_err();
    assert!(error.to_string().contains("more than 192 MiB"), "{error}");
    let error = Edit::from_toml(&format!("a = [{}]", "{b=1},".repeat(1_000_000))).unwrap_err();
    assert!(error.to_string().contains("takes too much memory"), "{error}");
    // What files contain is read.
    let scores: Vec<f32> = (0u16..50_000).map(f32::from).collect();
    assert_eq!(Edit::from_json(&format!("{{\"a.scores\": {scores:?}}}")).unwrap().len(), 1);
    assert_eq!(Edit::from_toml(&format!("a.scores = {scores:?}")).unwrap().len(), 1);
}
