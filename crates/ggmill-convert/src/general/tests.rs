use std::collections::BTreeMap;

use ggmill_core::{Builder, Header, MetadataBuf, ToValue as _};
use proptest::prelude::*;
use serde_json::Value;

use super::yaml::{self, Yaml};
use super::{General, MetadataOverride, Parameters, Sources};

/// Results of the reference for cards, generation configurations and overrides, printed by
/// `conformance/authorship.py`: the entries it writes, each with its type and value as in the file.
const CASES: &str = include_str!("../../tests/fixtures/authorship/cases.json");

fn written(general: &General) -> MetadataBuf {
    let mut metadata = MetadataBuf::new();
    general.write_to(&mut metadata);
    metadata
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().concat()
}

/// Returns the entries, each with its type and value in hexadecimal digits.
fn entries(metadata: MetadataBuf) -> Vec<[String; 2]> {
    let plan = Builder::new().metadata(metadata).plan().unwrap();
    let file = Header::parse(plan.header().to_vec()).unwrap();
    file.metadata()
        .iter()
        .map(|entry| {
            let value = entry.value().unwrap();
            let mut bytes = value.value_type().0.to_le_bytes().to_vec();
            value.encode(&mut bytes);
            [entry.key().to_string(), hexadecimal(&bytes)]
        })
        .collect()
}

fn of_card(card: &str) -> (Vec<[String; 2]>, Vec<String>) {
    let files = BTreeMap::from([("README.md".to_owned(), card.as_bytes().to_vec())]);
    let mut notes = Vec::new();
    let sources = Sources {
        config: &Value::Null,
        directory: Some("x"),
        files: &files,
        parameters: Parameters::Exactly(0),
        size_label: None,
        given: None,
        name: None,
    };
    (entries(written(&General::of(&sources, &mut notes))), notes)
}

#[test]
fn entries_equal_the_reference() {
    let cases: Vec<Value> = serde_json::from_str(CASES).unwrap();
    for case in &cases {
        let mut files = BTreeMap::new();
        for (name, file) in [("card", "README.md"), ("generation", "generation_config.json")] {
            if let Some(text) = case[name].as_str() {
                files.insert(file.to_owned(), text.as_bytes().to_vec());
            }
        }
        let given = case
            .get("override")
            .map(|given| MetadataOverride::from_json(given.to_string().as_bytes()).unwrap());
        let sources = Sources {
            config: &case["config"],
            directory: case["directory"].as_str(),
            files: &files,
            parameters: Parameters::Exactly(case["parameters"].as_u64().unwrap()),
            size_label: case["label"].as_str().map(str::to_owned),
            given: given.as_ref(),
            name: case["name"].as_str(),
        };
        let expected: Vec<[String; 2]> = serde_json::from_value(case["expected"].clone()).unwrap();
        let found = entries(written(&General::of(&sources, &mut Vec::new())));
        assert_eq!(found, expected, "{}", case["case"]);
    }
    assert!(cases.len() > 30, "{}", cases.len());
}

/// Where the reference raises an exception, a value is the text as written, or ignored.
#[test]
fn undefined_values_are_text_as_written() {
    let text = |text: &str| {
        let mut bytes = 8u32.to_le_bytes().to_vec();
        text.encode(&mut bytes);
        hexadecimal(&bytes)
    };
    for (version, expected) in
        [("1.0", "1.0"), ("2024-01-01", "2024-01-01"), ("3", "3"), ("yes", "yes"), ("1:30", "1:30")]
    {
        let (found, notes) = of_card(&format!("---\nversion: {version}\n---\n"));
        assert_eq!(found[1], ["general.version".to_owned(), text(expected)]);
        assert_eq!(notes, [""; 0]);
    }
    let (found, notes) = of_card("---\ntags: [a, 5, no, [x]]\nlicense: {a: b}\n---\n");
    assert_eq!(found.len(), 2, "{found:?}");
    assert_eq!(found[1][0], "general.tags");
    assert!(notes.iter().any(|note| note.contains("license was ignored")), "{notes:?}");
    assert!(notes.iter().any(|note| note.contains("an item of tags")), "{notes:?}");
}

#[test]
fn a_card_that_cannot_be_read_is_ignored_with_a_note() {
    let deep = "[".repeat(100_000);
    let nested =
        (0..100).map(|level| format!("{}a:\n", " ".repeat(level))).collect::<Vec<_>>().concat();
    // Ten aliases of ten aliases, nine times: a billion values.
    let laughs = (1..10).fold("a0: &a0 [x]\n".to_owned(), |text, level| {
        let aliases = vec![format!("*a{}", level - 1); 10].join(", ");
        format!("{text}a{level}: &a{level} [{aliases}]\n")
    });
    let texts = [
        "a: [",
        "a: b: c",
        "- a",
        "text",
        "a: &a [*a]",
        "a: *missing",
        "a: !unknown b",
        "[a]: b",
        "? {a: b}\n: c",
        "a: 1\n--- \nb: 2",
        "<<: 5",
        "a: \"\\q\"",
        "a: 'open",
        &deep,
        &nested,
        &laughs,
    ];
    for text in texts {
        let (found, notes) = of_card(&format!("---\n{text}\nlicense: mit\n---\n"));
        let shown: String = text.chars().take(40).collect();
        assert!(found.iter().all(|[key, _]| key == "general.name"), "{shown}: {found:?}");
        let [note] = &*notes else { panic!("{shown}: {notes:?}") };
        assert!(note.starts_with("the model card (README.md) was ignored: "), "{note}");
    }
    // Larger than the limit.
    let (_, notes) = of_card(&format!("---\nlicense: mit\n---\n{}", "x".repeat(1 << 20)));
    assert_eq!(notes.len(), 1);
}

/// Inputs on which a parser that rescans is quadratic.
#[test]
fn a_card_of_the_maximum_size_is_parsed_in_time() {
    let before = std::time::Instant::now();
    for part in
        ["[", "- ", "? ", "a: b\n", "{a: ", "\"", "&a *a ", "- - \n", "#\n", "!", "|\n ", "a\n"]
    {
        let text = part.repeat((1 << 20) / part.len() - 16);
        drop(of_card(&format!("---\n{text}")));
    }
    assert!(before.elapsed().as_secs() < 60, "{:?}", before.elapsed());
}

#[test]
fn an_override_of_other_types_is_refused() {
    for text in [
        "",
        "[]",
        r#"{"general.name": 5}"#,
        r#"{"general.tags": "a"}"#,
        r#"{"general.tags": [5]}"#,
        r#"{"general.base_models": {"name": "a"}}"#,
        r#"{"general.base_models": ["a"]}"#,
        r#"{"general.datasets": [{"name": 5}]}"#,
        r#"{"general.sampling.temp": "hot"}"#,
        r#"{"general.sampling.top_k": 3000000000}"#,
        r#"{"general.name": "a", "general.name": "b"}"#,
    ] {
        assert!(MetadataOverride::from_json(text.as_bytes()).is_err(), "{text}");
    }
}

proptest! {
    #[test]
    fn no_text_breaks_the_reader(text in "[ \\-a:\\n\\[\\]{}&*!|>'\"#,?<%@0.\\t\\\\]{0,60}") {
        let _ = of_card(&format!("---\n{text}"));
    }

    /// Quoted text is parsed to the original text.
    #[test]
    fn quoted_text_round_trips(text in "[^\\p{C}\u{2028}\u{2029}]{0,40}") {
        let quoted = format!("a: '{}'\n", text.replace('\'', "''"));
        let Ok(Yaml::Map(entries)) = yaml::read(&quoted) else { panic!("{quoted}") };
        prop_assert_eq!(&entries[0].1, &Yaml::Text(text));
    }
}
