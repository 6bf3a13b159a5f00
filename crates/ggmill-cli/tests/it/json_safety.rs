//! JSON output: it contains no raw control characters or bidirectional overrides, and parses to the
//! text in the file.

use ggmill_testdata::bytes::{FileBytes, Value};
use serde_json::Value as Json;

use crate::support::{Directory, ggmill};

/// A C1 control, U+007F, a bidirectional override, a line separator, and a tag character outside
/// the basic plane.
const HOSTILE: &str = "a\u{9b}31m\u{7f}\u{202e}\u{2028}\u{e0041}z";

fn model(second: u8) -> Vec<u8> {
    let mut file = FileBytes::v3(2, 4);
    file.pair("general.architecture", &"llama".into());
    file.pair("general.name", &HOSTILE.into());
    file.pair(format!("x.{HOSTILE}"), &HOSTILE.into());
    file.pair("llama.context_length", &Value::U32(128));
    file.tensor(format!("{HOSTILE}.weight"), &[32], 0, 0)
        .tensor("output.weight", &[32], 0, 128)
        .pad(32);
    file.raw(&[second; 128]).raw(&[0; 128]);
    file.into_bytes()
}

fn texts<'a>(json: &'a Json, found: &mut Vec<&'a str>) {
    match json {
        Json::String(text) => found.push(text),
        Json::Array(elements) => elements.iter().for_each(|element| texts(element, found)),
        Json::Object(fields) => fields.iter().for_each(|(name, value)| {
            found.push(name);
            texts(value, found);
        }),
        _ => {}
    }
}

#[test]
fn no_command_prints_raw_control_characters_in_json() {
    let name = format!("{HOSTILE}.gguf");
    let safetensors = {
        let header = serde_json::json!({ HOSTILE: { "dtype": "F32", "shape": [1], "data_offsets": [0, 4] } }).to_string();
        [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), &[0; 4]].concat()
    };
    let directory = Directory::new()
        .with(&name, model(0))
        .with("other.gguf", model(1))
        .with("donor.safetensors", safetensors);
    let manifest = ggmill(directory.path(), &["hash", &name]).stdout;
    assert!(!manifest.is_empty());
    let directory =
        directory.with("manifest", format!("{manifest}xxh64     00  {name}:{HOSTILE}\n"));
    let output = format!("{HOSTILE}-out.gguf");
    let commands: [&[&str]; 17] = [
        &["inspect", &name, "--json", "--full"],
        &["check", &name, "--data", "--format", "json"],
        &["check", &name, "--data", "--format", "sarif"],
        &["check", &name, "--data", "--format", "github"],
        &["hash", &name, "--json"],
        &["hash", &name, "--json", "--check", "manifest"],
        &["diff", &name, "other.gguf", "--json", "--data"],
        &["quantize", &name, &output, "Q8_0", "--dry-run", "--json"],
        &["split", &name, &output, "--split-max-tensors", "1", "--dry-run", "--json"],
        &[
            "edit",
            &name,
            "--set",
            "llama.context_length=64",
            "--unset",
            "x.*",
            "--dry-run",
            "--json",
        ],
        &["edit", &name, "--chat-template", &name, "--dry-run", "--json"],
        &[
            "graft",
            &name,
            "--from",
            "donor.safetensors",
            "--add",
            "-o",
            &output,
            "--dry-run",
            "--json",
        ],
        &["repack", &name, "-o", &output, "--dry-run", "--json"],
        &["extract", &name, "-k", "*", "-o", "-"],
        &["extract", &name, "-k", "general.name", "-o", "-"],
        &["name", "parse", &name, "--json"],
        &["name", "parse", "Mixtral-8x7B-v0.1.gguf", &name, "--json"],
    ];
    let mut wrong = Vec::new();
    for args in commands {
        // The chat template is a text file; invalid UTF-8 is rejected before anything is printed.
        let outcome = ggmill(directory.path(), args);
        let (code, stdout) = (outcome.code, outcome.stdout);
        if args.contains(&"--chat-template") {
            assert_eq!((code, stdout.as_str()), (2, ""), "{args:?}");
            continue;
        }
        assert!(code < 2 && !stdout.is_empty(), "{args:?}: {code} {}", outcome.stderr);
        let raw: Vec<char> =
            stdout.chars().filter(|c| *c != '\n' && !ggmill_core::RawStr::is_plain(*c)).collect();
        if !raw.is_empty() {
            wrong.push(format!("{}: {raw:?}", args[0]));
        }
        if args.contains(&"github") {
            continue;
        }
        let json: Json =
            serde_json::from_str(&stdout).unwrap_or_else(|error| panic!("{args:?}: {error}"));
        let mut found = Vec::new();
        texts(&json, &mut found);
        assert!(
            found.iter().any(|text| text.contains(HOSTILE)) || args.contains(&"sarif"),
            "{args:?}: {stdout}"
        );
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
