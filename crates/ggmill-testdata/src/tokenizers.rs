//! Tokenizers of every kind as transformers 5 saves them, with the token IDs of the `tokenizers`
//! library. `conformance/tokenizer_kinds.py` records them.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde_json::Value;

/// A recorded tokenizer.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RecordedTokenizer {
    /// Its name.
    pub name: String,
    /// The files of a checkpoint without weights: `tokenizer.json`, `tokenizer_config.json` and
    /// `config.json`.
    pub files: BTreeMap<String, Value>,
    /// The added tokens that occur in the texts.
    pub added: Vec<String>,
    /// The token IDs of the first text.
    pub first: Vec<u32>,
    /// The checksum of the token IDs of each text ([`ids_checksum`]).
    pub ids: Vec<String>,
    /// The checksum of the text that the library decodes from the token IDs of each text.
    pub decoded: Vec<String>,
}

/// Returns the recorded tokenizers, sorted by name.
///
/// # Panics
///
/// Panics if a file cannot be read.
pub fn recorded_tokenizers() -> Vec<RecordedTokenizer> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tokenizers");
    let mut cases: BTreeMap<String, Value> = BTreeMap::new();
    for entry in fs::read_dir(directory).expect("a directory") {
        let path = entry.expect("an entry").path();
        let name = path.file_stem().expect("a name").to_string_lossy().into_owned();
        let content = fs::read(&path).expect("a readable file");
        cases.insert(name, serde_json::from_slice(&content).expect("a JSON file"));
    }
    cases.iter().map(|(name, case)| recorded(name, case, &cases)).collect()
}

fn recorded(name: &str, case: &Value, cases: &BTreeMap<String, Value>) -> RecordedTokenizer {
    let base = case["base"].as_str().map_or(case, |base| &cases[base]);
    let mut files: BTreeMap<String, Value> = members(&base["files"]);
    if case.get("base").is_some() {
        for (file, changes) in members(&case["files"]) {
            let content = files.get_mut(&file).and_then(Value::as_object_mut).expect("an object");
            content.extend(members(&changes));
        }
    }
    let texts = |member: &str| {
        let texts = case[member].as_array().expect("a list").iter();
        texts.map(|text| text.as_str().expect("a text").to_owned()).collect()
    };
    let number = |id: &Value| u32::try_from(id.as_u64().expect("an ID")).expect("an ID");
    RecordedTokenizer {
        name: name.to_owned(),
        files,
        added: texts("added"),
        first: case["first"].as_array().expect("a list").iter().map(number).collect(),
        ids: texts("ids"),
        decoded: texts("decoded"),
    }
}

fn members(value: &Value) -> BTreeMap<String, Value> {
    value.as_object().expect("an object").clone().into_iter().collect()
}

/// Returns the checksum of token IDs: the CRC-32 of their decimal numbers, separated by commas.
pub fn ids_checksum(ids: &[u32]) -> String {
    let numbers: Vec<String> = ids.iter().map(u32::to_string).collect();
    text_checksum(&numbers.join(","))
}

/// Returns the CRC-32 of a text in hexadecimal digits.
///
/// ```
/// assert_eq!(ggmill_testdata::tokenizers::text_checksum("123456789"), "cbf43926");
/// ```
pub fn text_checksum(text: &str) -> String {
    let mut crc = u32::MAX;
    for byte in text.bytes() {
        crc ^= u32::from(byte);
        for _ in 0..8 {
            crc = (crc >> 1) ^ (0xEDB8_8320 & (crc & 1).wrapping_neg());
        }
    }
    format!("{:08x}", !crc)
}
