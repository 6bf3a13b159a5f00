//! A file that was read can be written; the written file reads the same, and writing it again
//! changes no byte.

use ggmill_core::{Array, Builder, Error, Header, MetadataBuf, Value, Writer};

/// Larger files are not written: a tiny file may ask for an alignment of megabytes.
const LARGEST: u64 = 1 << 20;

/// Opens the bytes as a file, rewrites it, and compares.
pub fn roundtrip(data: &[u8]) {
    let Ok(model) = Header::parse(data) else { return };
    let Ok(Some(written)) = write(&model) else { return };
    let again = Header::parse(written.as_slice()).expect("what was written opens");
    same(&model, &again);
    let twice = write(&again).expect("what was written can be written").expect("it is no larger");
    assert_eq!(written, twice, "writing is not stable");
}

/// Rewrites the file in its byte order, as version 3. Returns `None` if it is large. Fails for
/// files that are readable but not writable, such as with unknown types or duplicate tensor names.
fn write(model: &Header<'_>) -> Result<Option<Vec<u8>>, Error> {
    let metadata = MetadataBuf::copy_of(&model.metadata()).expect("checked values decode");
    let mut builder = Builder::new().endian(model.endian()).metadata(metadata);
    for tensor in model.tensors() {
        builder = builder.tensor(tensor.name().as_bytes(), tensor.ggml_type(), *tensor.shape());
    }
    let plan = builder.plan()?;
    if plan.total_len() > LARGEST {
        return Ok(None);
    }
    let mut writer = Writer::start(&plan, Vec::new()).expect("a Vec takes all");
    for (number, tensor) in model.tensors().iter().enumerate() {
        writer
            .write(number, tensor.raw_data().expect("planned, so of a known type"))
            .expect("as planned");
    }
    let file = writer.finish().expect("every tensor was written");
    assert_eq!(file.len() as u64, plan.total_len(), "the plan knows the length");
    Ok(Some(file))
}

fn same(one: &Header<'_>, other: &Header<'_>) {
    assert_eq!(one.metadata().len(), other.metadata().len());
    for (a, b) in one.metadata().iter().zip(other.metadata().iter()) {
        assert_eq!(a.key(), b.key());
        assert!(same_value(&a.value().unwrap(), &b.value().unwrap()), "key {}", a.key());
    }
    assert_eq!(one.tensors().len(), other.tensors().len());
    for (a, b) in one.tensors().iter().zip(other.tensors().iter()) {
        assert_eq!((a.name(), a.ggml_type(), a.shape()), (b.name(), b.ggml_type(), b.shape()));
        assert_eq!(a.raw_data().unwrap(), b.raw_data().unwrap(), "tensor {}", a.name());
    }
}

/// Equality down to the bits of a NaN.
fn same_value(a: &Value<'_>, b: &Value<'_>) -> bool {
    match (a, b) {
        (Value::F32(a), Value::F32(b)) => a.to_bits() == b.to_bits(),
        (Value::F64(a), Value::F64(b)) => a.to_bits() == b.to_bits(),
        (Value::Array(a), Value::Array(b)) => same_array(a, b),
        _ => a == b,
    }
}

fn same_array(a: &Array<'_>, b: &Array<'_>) -> bool {
    let elements =
        || a.iter().zip(b.iter()).all(|pair| matches!(pair, (Ok(a), Ok(b)) if same_value(&a, &b)));
    a.element_type() == b.element_type() && a.len() == b.len() && elements()
}
