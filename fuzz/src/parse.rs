//! Any bytes open or are refused with a message, and a file that opens can be read to its last
//! element.

use ggmill_core::{Array, ErrorKind, Header, Limits, Value};

/// Opens the bytes as a file and reads everything in it, through every interface.
pub fn parse(data: &[u8]) {
    match Header::parse(data) {
        Ok(model) => {
            header(&model);
            metadata(&model);
            tensors(&model);
        }
        Err(error) => {
            assert!(!error.to_string().is_empty());
            assert!(
                error.offset().is_none_or(|offset| offset <= data.len() as u64),
                "{error}: outside a file of {}",
                data.len()
            );
            assert!(
                !matches!(error.kind(), ErrorKind::Misuse | ErrorKind::Missing),
                "{error}: blames the caller"
            );
        }
    }
}

fn header(model: &Header<'_>) {
    let len = model.bytes().len() as u64;
    assert!((1..=3).contains(&model.version()));
    assert_eq!(model.file_len(), Some(len));
    assert!(model.header_len() <= len, "a header longer than its file");
    assert_eq!(model.data_offset(), model.alignment().align(model.header_len()).unwrap());
}

fn metadata(model: &Header<'_>) {
    let metadata = model.metadata();
    let header_len = model.header_len();
    let mut end = 0;
    for entry in &metadata {
        let first = metadata.get(entry.key().as_bytes()).expect("a key that is there is found");
        assert!(first.offset() <= entry.offset(), "the first entry answers");
        assert!(
            metadata.all(entry.key().as_bytes()).any(|other| other.offset() == entry.offset()),
            "every entry is found by its key"
        );

        assert!(entry.offset() >= end, "entries follow each other");
        end = entry.value_offset() + entry.value_bytes().len() as u64;
        assert!(end <= header_len, "a value outside the header");

        let value = entry.value().expect("a checked value decodes");
        assert_eq!(value.value_type(), entry.value_type());
        walk(&value);
    }
    // Typed accessors return a value or the reason why not.
    for key in ["general.alignment", "general.architecture", "k", ""] {
        let _ = (metadata.str(key), metadata.u32(key), metadata.u64(key), metadata.i64(key));
        let _ = (metadata.f64(key), metadata.bool(key), metadata.array(key), metadata.raw_str(key));
    }
}

fn walk(value: &Value<'_>) {
    match value {
        Value::Str(text) => assert!(text.is_empty() || !text.to_string().is_empty()),
        Value::Array(array) => walk_array(array),
        scalar => assert!(
            scalar.as_i128().is_some() || scalar.as_f64().is_some() || scalar.as_bool().is_some()
        ),
    }
}

/// Recursion is bounded by the default limit on the depth of arrays.
fn walk_array(array: &Array<'_>) {
    let mut count = 0;
    for element in array {
        let element = element.expect("a checked element decodes");
        assert_eq!(element.value_type(), array.element_type());
        walk(&element);
        count += 1;
    }
    assert_eq!(count, array.len(), "an array has as many elements as it says");
    assert!(array.get(array.len()).is_none());
    if let Some(last) = array.len().checked_sub(1) {
        assert!(array.get(last).is_some_and(|element| element.is_ok()));
    }
    if let Some(strings) = array.strings() {
        assert_eq!(strings.map(Result::unwrap).count() as u64, array.len());
    }
    if let Some(integers) = array.integers() {
        assert_eq!(integers.count() as u64, array.len());
    }
    if let Some(floats) = array.floats() {
        assert_eq!(floats.count() as u64, array.len());
    }
}

fn tensors(model: &Header<'_>) {
    let len = model.bytes().len() as u64;
    let mut ranges = Vec::new();
    for tensor in model.tensors() {
        let found =
            model.tensors().get(tensor.name().as_bytes()).expect("a tensor that is there is found");
        assert_eq!(found.name(), tensor.name());
        let shape = tensor.shape();
        assert!(shape.dimensions().len() <= Limits::default().dimensions as usize);
        assert_eq!(
            shape.elements(),
            shape.rows() * if shape.elements() == 0 { 0 } else { shape.row_len() }
        );
        let _ = (tensor.ggml_type().to_string(), shape.to_string(), tensor.name().to_string());

        let Some(size) = tensor.size() else {
            assert_eq!(tensor.raw_data().unwrap_err().kind(), ErrorKind::Unsupported);
            ranges.push((tensor.offset(), 1));
            continue;
        };
        let data = tensor.raw_data().expect("checked data are there");
        assert_eq!(data.len() as u64, size);
        if size > 0 {
            ranges.push((tensor.offset(), size));
            let rows = shape.rows();
            assert_eq!(tensor.raw_row(0).unwrap().len() as u64 * rows, size);
            assert!(tensor.raw_row(rows - 1).is_ok() && tensor.raw_row(rows).is_err());
        }
    }
    ranges.sort_unstable();
    let mut end = model.data_offset();
    for (start, size) in ranges {
        assert!(
            start >= end,
            "data at {start} within the header or another tensor, which end at {end}"
        );
        end = start + size;
    }
    assert!(
        model.tensors().is_empty() || end <= len.max(model.data_offset()),
        "data outside the file"
    );
}
