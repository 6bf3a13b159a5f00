//! Plans, writers and metadata that is changed before it is written.

use std::error::Error as _;

use ggmill_core::{
    Builder, GgmlType, Header, MetadataBuf, Plan, Shape, Sink, Value, WriteError, Writer,
};

fn plan() -> Plan {
    let tensor = |builder: Builder, name: &str, len: u64| {
        builder.tensor(name, GgmlType::I8, Shape::new(&[len]).unwrap())
    };
    let builder = tensor(tensor(Builder::new(), "a", 3), "b", 40);
    tensor(tensor(builder, "empty", 0), "c", 5).plan().unwrap()
}

/// The data section of the plan: each tensor filled with its number from 1, then padding.
fn data(plan: &Plan) -> Vec<u8> {
    let mut data = Vec::new();
    for (number, tensor) in (1..).zip(plan.tensors()) {
        data.resize(usize::try_from(tensor.offset() - plan.data_offset()).unwrap(), 0);
        data.resize(data.len() + usize::try_from(tensor.size()).unwrap(), number);
    }
    data.resize(usize::try_from(plan.total_len() - plan.data_offset()).unwrap(), 0);
    data
}

/// Writes the data from byte `from` of the data section on, tensor by tensor.
fn write_rest(plan: &Plan, writer: &mut Writer<'_, Vec<u8>>, from: usize) {
    let data = data(plan);
    for (number, tensor) in plan.tensors().iter().enumerate() {
        let start = usize::try_from(tensor.offset() - plan.data_offset()).unwrap();
        let end = start + usize::try_from(tensor.size()).unwrap();
        writer.write(number, &data[from.clamp(start, end)..end]).unwrap();
    }
}

#[test]
fn a_plan_has_aligned_offsets() {
    let plan = plan();
    let places: Vec<_> = plan
        .tensors()
        .iter()
        .map(|tensor| {
            (tensor.name().to_string(), tensor.offset() - plan.data_offset(), tensor.size())
        })
        .collect();
    let expected = [("a", 0, 3), ("b", 32, 40), ("empty", 96, 0), ("c", 96, 5)];
    assert_eq!(places, expected.map(|(name, offset, size)| (name.to_owned(), offset, size)));
    assert_eq!(plan.total_len(), plan.data_offset() + 128);
    assert_eq!(plan.data_offset(), plan.header().len() as u64);
    assert!(plan.data_offset().is_multiple_of(32));
    assert_eq!(plan.alignment().get(), 32);
    for tensor in plan.tensors() {
        assert_eq!((tensor.ggml_type(), tensor.shape().elements()), (GgmlType::I8, tensor.size()));
    }
}

/// `write_with` may end within or after the data of a tensor, or after padding, but not within it.
#[test]
fn a_range_written_at_once_equals_pieces() {
    let plan = plan();
    let data = data(&plan);
    let expected = [plan.header(), &data].concat();
    for start in [0, 1, 2] {
        for end in start + 1..=data.len() {
            let mut writer = Writer::start(&plan, Vec::new()).unwrap();
            writer.write(0, &data[..start]).unwrap();
            let range = &data[start..end];
            let result = writer.write_with(0, range.len() as u64, |sink: &mut Vec<u8>| {
                Sink::append(sink, range).map(|()| true)
            });
            let in_padding = [3..32, 72..96, 101..128]
                .iter()
                .any(|padding| padding.start < end && end < padding.end);
            assert_eq!(result.is_err(), in_padding, "{start}..{end}");
            if !in_padding {
                assert!(result.unwrap());
                write_rest(&plan, &mut writer, end);
                assert!(writer.finish().unwrap() == expected, "{start}..{end}");
            }
        }
    }
}

#[test]
fn a_declined_range_changes_nothing() {
    let plan = plan();
    let mut writer = Writer::start(&plan, Vec::new()).unwrap();
    assert!(!writer.write_with(0, 35, |_: &mut Vec<u8>| Ok(false)).unwrap());
    assert!(writer.write_with(0, 0, |_: &mut Vec<u8>| panic!("no bytes to write")).unwrap());
    let error = writer.write_with(1, 1, |_: &mut Vec<u8>| Ok(true)).unwrap_err();
    assert_eq!(error.to_string(), r#"tensor "a": 0 bytes of data, but the plan has 3"#);
    let error = writer.write_with(0, 129, |_: &mut Vec<u8>| Ok(true)).unwrap_err();
    assert_eq!(error.to_string(), r#"tensor "a": 0 bytes of data, but the plan has 3"#);
    write_rest(&plan, &mut writer, 0);
    assert_eq!(writer.finish().unwrap(), [plan.header(), &data(&plan)].concat());
}

#[test]
fn a_write_error_shows_its_cause() {
    let plan = plan();
    let mut writer = Writer::start(&plan, Vec::new()).unwrap();
    let error = writer.write(1, &[0]).unwrap_err();
    assert_eq!(error.to_string(), r#"tensor "a": 0 bytes of data, but the plan has 3"#);
    assert_eq!(error.source().unwrap().to_string(), error.to_string());
    let sink = WriteError::Sink(std::io::Error::other("full"));
    assert_eq!(
        (sink.to_string(), sink.source().unwrap().to_string()),
        ("full".into(), "full".into())
    );
}

#[test]
fn metadata_is_changed_by_key() {
    let mut metadata = MetadataBuf::new();
    assert!(metadata.is_empty());
    metadata.set("a", 1u8);
    metadata.set("b", 2u8);
    metadata.set("c", 3u8);
    assert!(!metadata.is_empty());
    assert!(!metadata.remove("d") && metadata.len() == 3);
    assert!(!metadata.rename("d", "e"));
    // The result has the key "a" twice; `get` returns the first, and `remove` removes both.
    assert!(metadata.rename("c", "a"));
    assert_eq!(metadata.len(), 3);
    assert_eq!(metadata.get("a"), Some(Value::U8(1)));
    assert_eq!(metadata.get("b"), Some(Value::U8(2)));
    let keys: Vec<_> = metadata.iter().map(|(key, value)| (key.to_string(), value)).collect();
    assert_eq!(
        keys,
        [
            ("a".to_owned(), Value::U8(1)),
            ("b".to_owned(), Value::U8(2)),
            ("a".to_owned(), Value::U8(3))
        ]
    );
    assert!(metadata.remove("a") && metadata.len() == 1);
    assert_eq!(metadata.get("a"), None);
    metadata.set("b", "new");
    metadata.set("a", [1u16, 2].as_slice());
    assert_eq!(metadata.get("b").unwrap().as_str(), Some("new"));
    let keys: Vec<_> = metadata.iter().map(|(key, _)| key.to_string()).collect();
    assert_eq!(keys, ["b", "a"]);
}

#[test]
fn a_header_is_padded_on_request() {
    let mut metadata = MetadataBuf::new();
    metadata.set("a", 1u8);
    let builder = Builder::new().metadata(metadata);
    let plain = builder.clone().plan().unwrap();
    let padded = builder.pad_header().plan().unwrap();
    assert_eq!((plain.total_len(), plain.header().len()), (38, 38));
    assert_eq!((padded.total_len(), padded.header().len()), (64, 64));
    assert!(padded.header()[38..].iter().all(|&byte| byte == 0));
    let (plain, padded) = (plain.header(), padded.header());
    assert_eq!(Header::parse(plain).unwrap().data_end(), Some(64));
    assert_eq!(Header::parse(padded).unwrap().header_len(), 38);
}

#[test]
fn the_data_end_is_that_of_the_last_tensor() {
    let plan = plan();
    let file = [plan.header(), &data(&plan)].concat();
    assert_eq!(Header::parse(file).unwrap().data_end(), Some(plan.total_len()));
    // The size of an unknown type is unknown.
    let mut file = ggmill_testdata::bytes::FileBytes::v3(1, 0);
    file.tensor("a", &[8], 99, 0).pad(32).raw(&[0; 32]);
    assert_eq!(Header::parse(file.into_bytes()).unwrap().data_end(), None);
}
