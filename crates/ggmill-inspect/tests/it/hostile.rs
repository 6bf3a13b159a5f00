//! Text from a file cannot affect a terminal in any output.

use ggmill_core::{Header, RawStr};
use ggmill_inspect::json::Arrays;
use ggmill_inspect::{notices, text::Options};
use ggmill_testdata::bytes::{FileBytes, Value};
use ggmill_testdata::corpus;

use crate::support::{json_text, named, shown, strings};

const ESCAPES: &str = "\u{1b}[2J\u{1b}]0;owned\u{7}\u{9b}31m\r\n\t\u{8}\u{7f}\u{202e}\u{2066}\\
                       u{200b}\u{feff}\u{e0041}\u{2601}\u{fe0f}\u{1f468}\u{200d}\u{1f469}";

fn hostile() -> Header<'static> {
    let mut file = FileBytes::v3(3, 8);
    file.pair("general.architecture", &ESCAPES.into());
    file.pair("general.name", &ESCAPES.repeat(40).as_str().into());
    file.pair("general.license", &Value::Str(b"\xff\x1b[31m\xc2".to_vec()));
    file.pair(ESCAPES, &ESCAPES.into());
    file.pair(ESCAPES, &strings(&[ESCAPES; 20]));
    file.pair("tokenizer.ggml.tokens", &strings(&[ESCAPES]));
    file.pair("tokenizer.ggml.bos_token_id", &Value::U32(0));
    file.pair("tokenizer.ggml.model", &ESCAPES.into());
    file.tensor(ESCAPES, &[1], 0, 0);
    file.tensor(ESCAPES, &[1], 57, 32);
    file.tensor(b"\xff\x1b", &[0], 0, 64);
    file.pad(32);
    file.raw(&[0; 64]);
    Header::parse(file.into_bytes()).unwrap()
}

fn every_output(file: &Header<'static>) -> Vec<String> {
    let mut outputs = vec![json_text(file, Arrays::Shortened), json_text(file, Arrays::Full)];
    for width in [None, Some(0), Some(1), Some(20), Some(60), Some(200), Some(usize::MAX)] {
        for full in [false, true] {
            outputs.push(shown(
                file,
                ESCAPES,
                Options::default().with_width(width).with_full(full),
            ));
        }
    }
    let view = named(file, ESCAPES);
    outputs.extend(notices(&view).iter().map(ToString::to_string));
    outputs
}

#[test]
fn no_output_has_a_control_character() {
    let files = corpus::valid()
        .into_iter()
        .map(|case| Header::parse_with(case.bytes, &case.limits).unwrap());
    for file in files.chain([hostile()]) {
        for output in every_output(&file) {
            if let Some(bad) = output.chars().find(|&c| c != '\n' && !RawStr::is_plain(c)) {
                panic!("{bad:?} in {output}");
            }
        }
    }
}

/// The JSON has more escapes than required, and parses to the same text.
#[test]
fn escaped_json_reads_back() {
    let found: serde_json::Value =
        serde_json::from_str(&json_text(&hostile(), Arrays::Full)).unwrap();
    assert_eq!(found["metadata"][3]["key"], ESCAPES);
    assert_eq!(found["metadata"][3]["value"], ESCAPES);
    assert_eq!(found["tensors"][0]["name"], ESCAPES);
    assert_eq!(found["tensors"][1]["type"], "type 57");
    assert_eq!(found["tensors"][1]["type_id"], 57);
    assert_eq!(found["tensors"][1]["size"], serde_json::Value::Null);
}

/// The only escape sequences are colors, and only on request.
#[test]
fn the_only_sequences_are_styles() {
    let styled = shown(&hostile(), ESCAPES, Options::default().with_width(80).with_styled(true));
    assert!(styled.contains("\u{1b}[1m"));
    let mut rest = styled.as_str();
    while let Some((_, after)) = rest.split_once('\u{1b}') {
        let parameters = after.strip_prefix('[').unwrap().split_once('m').unwrap().0;
        assert!(
            parameters.bytes().all(|byte| byte.is_ascii_digit() || byte == b';'),
            "{parameters:?}"
        );
        rest = after;
    }
}

/// One absurdly long name does not pad every other line.
#[test]
fn a_long_name_does_not_pad_other_lines() {
    let long = "k".repeat(100_000);
    let mut file = FileBytes::v3(0, 101);
    file.pair(&long, &Value::U8(0));
    for number in 0..100 {
        file.pair(format!("key{number}"), &Value::U8(0));
    }
    let file = Header::parse(file.into_bytes()).unwrap();
    assert!(!shown(&file, "a", Options::default().with_width(usize::MAX)).is_empty());
    for width in [None, Some(80)] {
        assert!(shown(&file, "a", Options::default().with_width(width)).len() < 120_000);
    }
}
