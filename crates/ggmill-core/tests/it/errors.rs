//! Errors after opening, and the messages of all errors.

use ggmill_core::{
    Alignment, Builder, Decoder, Error, ErrorKind, GgmlType, Header, Limits, MetadataBuf, Shape,
    Subject, WriteError, Writer,
};
use ggmill_testdata::bytes::{FileBytes, Value};
use ggmill_testdata::corpus;

/// Returns the kind and message of an error.
fn told(error: &Error) -> (ErrorKind, String) {
    (error.kind(), error.to_string())
}

fn shape(dimensions: &[u64]) -> Shape {
    Shape::new(dimensions).unwrap()
}

/// A string, a number, a broken string; a tensor of known and one of unknown type.
fn model() -> Vec<u8> {
    let mut file = FileBytes::v3(2, 3);
    file.pair("text", &Value::from("caf\u{e9}"))
        .pair("number", &Value::I64(-1))
        .pair("broken", &Value::Str(vec![b'a', b'b', 0xff]));
    file.tensor("known", &[2, 3], 0, 0).tensor("unknown", &[8], 99, 32).pad(32).raw(&[0; 64]);
    file.into_bytes()
}

#[test]
fn a_value_asked_for_as_something_else() {
    let model = Header::parse(model()).unwrap();
    let metadata = model.metadata();
    let error = |result: ggmill_core::Result<()>| told(&result.unwrap_err());
    let wrong = |words: &str| (ErrorKind::WrongType, words.to_owned());
    assert_eq!(
        error(metadata.u64("text").map(|_| ())),
        wrong(r#"offset 0x28, key "text": is string, expected u64"#)
    );
    assert_eq!(
        error(metadata.u32("number").map(|_| ())),
        wrong(r#"offset 0x47, key "number": the value does not fit u32"#)
    );
    assert_eq!(
        error(metadata.array("number").map(|_| ())),
        wrong(r#"offset 0x47, key "number": is i64, expected array"#)
    );
    assert_eq!(
        error(metadata.f64("number").map(|_| ())),
        wrong(r#"offset 0x47, key "number": is i64, expected float"#)
    );
    assert_eq!(
        error(metadata.bool("number").map(|_| ())),
        wrong(r#"offset 0x47, key "number": is i64, expected bool"#)
    );
    assert_eq!(
        error(metadata.str("broken").map(|_| ())),
        wrong(r#"offset 0x61, key "broken": not valid UTF-8 from byte 2 of the string"#)
    );
    assert_eq!(
        error(metadata.str("absent").map(|_| ())),
        (ErrorKind::Missing, r#"key "absent": no such key"#.to_owned())
    );
}

#[test]
fn data_that_is_not_available() {
    let model = Header::parse(model()).unwrap();
    let error = told(&model.tensor("absent").unwrap_err());
    assert_eq!(error, (ErrorKind::Missing, r#"tensor "absent": no such tensor"#.to_owned()));
    let tensor = model.tensor("unknown").unwrap();
    for error in [tensor.data().unwrap_err(), tensor.raw_row(0).unwrap_err()] {
        assert_eq!(
            told(&error),
            (
                ErrorKind::Unsupported,
                r#"offset 0xe0, tensor "unknown": type 99 is unknown, so its data cannot be read"#
                    .to_owned()
            )
        );
    }
    let error = told(&model.tensor("known").unwrap().row(3).unwrap_err());
    assert_eq!(
        error,
        (
            ErrorKind::Misuse,
            r#"offset 0xc0, tensor "known": row 3 was requested, but the tensor has 3 rows"#
                .to_owned()
        )
    );

    let mut decoder = Decoder::new(Some(model.bytes().len() as u64), &Limits::default());
    decoder.feed(model.bytes()).unwrap();
    let header = decoder.finish().unwrap();
    let error = told(&header.tensor("known").unwrap().data().unwrap_err());
    let expected = "offset 0xc0, tensor \"known\": data from 192 to 216 is needed, but 192 bytes of \
                    the file are in memory";
    assert_eq!(error, (ErrorKind::Misuse, expected.to_owned()));
}

#[test]
fn a_file_that_changed_is_an_error() {
    let mut bytes = model();
    let header = Header::parse(bytes.clone()).unwrap();
    // The length of the string now exceeds the checked range.
    bytes[0x28] = 200;
    let model = header.with_bytes(bytes);
    let error = told(&model.metadata().str("text").unwrap_err());
    let words = r#"offset 0x28, key "text": the file has changed since it was opened"#;
    assert_eq!(error, (ErrorKind::Malformed, words.to_owned()));
}

#[test]
fn invalid_plans() {
    let plan = |builder: Builder| told(&builder.plan().unwrap_err());
    let aligned = |set: fn(&mut MetadataBuf)| {
        let mut metadata = MetadataBuf::new();
        set(&mut metadata);
        Builder::new().metadata(metadata)
    };
    let key = r#"key "general.alignment": "#;
    assert_eq!(
        plan(aligned(|metadata| metadata.set("general.alignment", 12u32))),
        (
            ErrorKind::Malformed,
            format!("{key}alignment 12, expected a positive multiple of 8 below 2^32")
        )
    );
    assert_eq!(
        plan(aligned(|metadata| metadata.set("general.alignment", "32"))),
        (ErrorKind::WrongType, format!("{key}alignment has type string, expected u32"))
    );
    assert_eq!(
        plan(Builder::new().tensor("a", GgmlType::Q4_0, shape(&[33]))),
        (
            ErrorKind::Malformed,
            r#"tensor "a": rows of 33 elements, expected a multiple of 32, the block size of Q4_0"#
                .to_owned()
        )
    );
    assert_eq!(
        plan(Builder::new().tensor("a", GgmlType(99), shape(&[32]))).0,
        ErrorKind::Unsupported
    );
    assert_eq!(
        plan(Builder::new().tensor("a", GgmlType::F64, shape(&[1 << 61]))).0,
        ErrorKind::Malformed
    );
    let twice = Builder::new()
        .tensor("a", GgmlType::F32, shape(&[1]))
        .tensor("b", GgmlType::F32, shape(&[1]))
        .tensor("a", GgmlType::F32, shape(&[1]));
    assert_eq!(
        plan(twice),
        (ErrorKind::Misuse, r#"tensor "a": two tensors have this name"#.to_owned())
    );
    let huge = Builder::new().tensor("a", GgmlType::I8, shape(&[u64::MAX - 64])).tensor(
        "b",
        GgmlType::I8,
        shape(&[64]),
    );
    assert_eq!(plan(huge), (ErrorKind::Misuse, "the file would exceed 64 bits".to_owned()));
}

#[test]
fn data_that_does_not_match_the_plan() {
    let plan = Builder::new()
        .tensor("empty", GgmlType::F32, shape(&[0]))
        .tensor("a", GgmlType::I8, shape(&[3]))
        .tensor("none", GgmlType::F32, shape(&[4, 0]))
        .tensor("b", GgmlType::I8, shape(&[2]))
        .plan()
        .unwrap();
    let start = || Writer::start(&plan, Vec::new()).unwrap();
    let misuse = |error: WriteError<core::convert::Infallible>| match error {
        WriteError::Plan(error) => told(&error),
        WriteError::Sink(never) => match never {},
    };
    let words = |words: &str| (ErrorKind::Misuse, words.to_owned());

    let mut writer = start();
    assert_eq!(
        misuse(writer.write(1, &[0; 4]).unwrap_err()),
        words(r#"tensor "a": 4 bytes of data, but the plan has 3"#)
    );
    let mut writer = start();
    assert_eq!(
        misuse(writer.write(3, &[0]).unwrap_err()),
        words(r#"tensor "a": 0 bytes of data, but the plan has 3"#)
    );
    writer.write(1, &[0; 2]).unwrap();
    assert_eq!(
        misuse(writer.finish().unwrap_err()),
        words(r#"tensor "a": 2 bytes of data, but the plan has 3"#)
    );
    let mut writer = start();
    writer.write(0, &[]).unwrap();
    writer.write(1, &[1; 3]).unwrap();
    writer.write(3, &[2; 2]).unwrap();
    assert_eq!(misuse(writer.write(3, &[2]).unwrap_err()), words("a different tensor is next"));
    let file = writer.finish().unwrap();
    assert_eq!(file.len() as u64, plan.total_len());
    let model = Header::parse(file).unwrap();
    assert_eq!(model.tensor("b").unwrap().data().unwrap(), &[2; 2][..]);
}

/// A sink that is full after a number of bytes.
struct Full(usize);

impl ggmill_core::Sink for Full {
    type Error = &'static str;

    fn append(&mut self, bytes: &[u8]) -> Result<(), &'static str> {
        self.0 = self.0.checked_sub(bytes.len()).ok_or("full")?;
        Ok(())
    }
}

#[test]
fn the_error_of_the_sink_is_returned() {
    let plan = Builder::new().tensor("a", GgmlType::I8, shape(&[3])).plan().unwrap();
    assert!(matches!(Writer::start(&plan, Full(10)), Err(WriteError::Sink("full"))));
    let mut full = Full(plan.header().len() + 3);
    let mut writer = Writer::start(&plan, &mut full).unwrap();
    assert!(
        matches!(writer.write(0, &[1; 3]), Err(WriteError::Sink("full"))),
        "there is no room for the padding"
    );
}

#[test]
fn invalid_alignments_and_shapes() {
    for number in [0, 1, 4, 12, 33, 1 << 32, u64::MAX] {
        assert_eq!(Alignment::new(number).unwrap_err().kind(), ErrorKind::Malformed, "{number}");
    }
    assert_eq!(Alignment::new(u64::from(u32::MAX) - 7).unwrap().pad(u64::MAX), None);
    assert_eq!(
        told(&Shape::new(&[2; 9]).unwrap_err()),
        (ErrorKind::Limit, "dimensions 9, the limit is 8".to_owned())
    );
    assert_eq!(
        told(&Shape::new(&[1 << 32, 1 << 32]).unwrap_err()),
        (ErrorKind::Malformed, "the number of elements exceeds 64 bits".to_owned())
    );
}

/// The messages of every error of opening a file: each must come from a file of the corpus.
#[test]
fn every_error_of_opening_has_a_file() {
    const WORDS: [&str; 17] = [
        r#"begins with "<!DO", expected "GGUF""#,
        "version 4, expected 1, 2 or 3",
        "needs 8 bytes, but 7 remain in the file",
        "18446744073709551615 tensors need at least 24 bytes each, but 24 remain in the file",
        "string bytes 4, the limit is 3",
        "value type 13, expected 0 to 12",
        "alignment 0, expected a positive multiple of 8 below 2^32",
        "alignment -32, expected a positive multiple",
        "alignment has type string, expected u32",
        "alignment 64, but an earlier entry with this key has 32",
        "the number of elements exceeds 64 bits",
        "the size in bytes as F64 exceeds 64 bits",
        "rows of 64 elements, expected a multiple of 128, the block size of Q1_0",
        "data from offset 18446744073709551615 ends beyond 64 bits",
        "data from 64 to 96, but the file ends at 57",
        "overlaps tensor \"a\", whose data ends at ",
        "header bytes 47, the limit is 40",
    ];
    let found: Vec<String> = corpus::broken()
        .iter()
        .map(|case| Header::parse_with(&case.bytes, &case.limits).unwrap_err().to_string())
        .collect();
    for words in WORDS {
        assert!(
            found.iter().any(|message| message.contains(words)),
            "no file says {words:?}: {found:#?}"
        );
    }
    for message in found {
        let (place, words) = message.split_once(": ").unwrap();
        assert!(place.starts_with("offset 0x"), "{message}");
        assert!(
            !words.ends_with('.') && words.chars().next().is_some_and(|c| !c.is_uppercase()),
            "{message}"
        );
    }
}

/// The subject in a message is escaped, and truncated if it is long.
#[test]
fn a_subject_is_escaped_and_truncated() {
    let mut file = FileBytes::v3(0, 2);
    file.pair("\x1b[2J", &Value::U8(0)).string(vec![b'k'; 10_000]).u32(13).u64(0);
    let error = Header::parse(file.as_bytes()).unwrap_err();
    let Some(Subject::Key(key)) = error.subject() else { panic!("{error}") };
    assert_eq!(key.len(), 256);

    let mut file = FileBytes::v3(0, 1);
    file.string("\x1b[2J").u32(13).u64(0);
    let error = Header::parse(file.as_bytes()).unwrap_err();
    assert_eq!(
        error.to_string(),
        r#"offset 0x24, key "\u{1b}[2J": value type 13, expected 0 to 12"#
    );
    assert_eq!(size_of::<Error>(), size_of::<usize>());
}
