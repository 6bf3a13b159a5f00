//! Notices about unusual files.

use ggmill_core::{Decoder, Header, Limits};
use ggmill_inspect::notices;
use ggmill_testdata::bytes::{FileBytes, Value};
use ggmill_testdata::every_gguf;

use crate::support::{named, open, small_model};

fn told(file: &Header<'_>) -> Vec<String> {
    notices(&named(file, "a.gguf")).iter().map(ToString::to_string).collect()
}

#[test]
fn real_files_have_no_notices() {
    for path in every_gguf() {
        assert_eq!(told(&open(&path)), Vec::<String>::new(), "{}", path.display());
    }
    assert!(told(&small_model()).is_empty());
}

#[test]
fn each_notice_has_its_text() {
    let mut file = FileBytes::v3(3, 3);
    file.pair("a", &Value::U8(1)).pair("b", &Value::U8(2)).pair("a", &Value::U8(3));
    file.tensor("t", &[8], 0, 0).tensor("t", &[8], 0, 32).tensor("r", &[32], 31, 64).pad(32);
    file.raw(&[0; 64 + 32 + 100]);
    let expected = [
        r#"key "a" occurs 2 times; the first entry is used"#,
        r#"tensor "t" occurs 2 times"#,
        "1 tensor of Q4_0_4_4, a type that current readers reject",
        "100 B (100 bytes) after the last tensor do not belong to any tensor, in a.gguf",
    ];
    assert_eq!(told(&Header::parse(file.into_bytes()).unwrap()), expected);
}

#[test]
fn files_that_llama_cpp_rejects_are_reported() {
    let mut file = FileBytes::v3(3, 1);
    file.pair("general.alignment", &Value::U32(24));
    // In another order, and with a gap.
    file.tensor("b", &[6], 0, 24)
        .tensor("a", &[6], 0, 0)
        .tensor("n".repeat(64), &[6], 0, 72)
        .pad(24);
    file.raw(&[0; 96]);
    let expected = [
        r#"3 tensors do not begin where the preceding one ends, the first is "b": llama.cpp rejects the file"#.to_owned(),
        format!("1 tensor has a name of 64 bytes or more, the first is {:?}…: llama.cpp rejects \
                 the file", "n".repeat(64)),
        "alignment 24 is not a power of two: llama.cpp rejects the file".to_owned(),
    ];
    assert_eq!(told(&Header::parse(file.into_bytes()).unwrap()), expected);
}

#[test]
fn an_unknown_length_is_reported() {
    let mut decoder = Decoder::new(None, &Limits::default());
    decoder.feed(small_model().bytes()).unwrap();
    assert_eq!(
        told(&decoder.finish().unwrap()),
        ["the length of the file is unknown, so tensor data was not checked for completeness"]
    );
}
