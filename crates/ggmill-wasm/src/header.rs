//! The content of headers, as records.

use ggmill_core::{Endian, GgmlType, Header, HeaderEdit, Model, Value, ValueType};

use crate::failure::{self, Failure};
use crate::record::Record;

/// Returns the facts of a file other than its entries and tensors: version, byte order, alignment,
/// lengths and offsets.
pub(crate) fn facts(part: &Header<'_>) -> Record {
    let mut record = Record::default();
    record.u32(part.version());
    record.u8(u8::from(part.endian() == Endian::Big));
    record.u32(part.alignment().get());
    record.u64(part.header_len());
    record.u64(part.data_offset());
    record.maybe(part.file_len());
    record.u64(HeaderEdit::of(part).tensor_infos_offset());
    record.u8(u8::from(part.header_fault().is_none()));
    record.count(part.tensors().len());
    record
}

/// Returns the keys of a file with the types of their values, and for arrays the type and the number of
/// elements.
pub(crate) fn entries(part: &Header<'_>) -> Record {
    let metadata = part.metadata();
    let mut record = Record::default();
    record.count(metadata.len());
    for entry in &metadata {
        record.text(entry.key().as_bytes());
        record.u32(entry.value_type().0);
        let array = (entry.value_type() == ValueType::ARRAY).then(|| entry.value().ok());
        let array = array.flatten().and_then(|value| value.as_array());
        record.u32(array.map_or(0, |array| array.element_type().0));
        record.u64(array.map_or(0, |array| array.len()));
    }
    record
}

/// Returns the value of an entry, by its number.
pub(crate) fn value(part: &Header<'_>, number: u64) -> Result<Record, Failure> {
    let entry = usize::try_from(number).ok().and_then(|number| part.metadata().iter().nth(number));
    let value = entry.ok_or_else(|| Failure::misuse("the file has no such entry"))?.value()?;
    let mut record = Record::default();
    match value {
        // Readers get 1 for any nonzero byte; only copies of the header preserve the byte.
        Value::Bool(value) => record.u8(u8::from(value)),
        value => record.value(&value),
    }
    Ok(record)
}

/// Returns the tensors of all files.
pub(crate) fn tensors(model: &Model) -> Record {
    let mut record = Record::default();
    record.count(model.tensors().len());
    for tensor in model.tensors() {
        record.text(tensor.name().as_bytes());
        record.u32(tensor.ggml_type().0);
        record.count(tensor.part());
        record.u64(tensor.offset());
        record.maybe(tensor.size());
        let dimensions = tensor.shape().dimensions();
        record.count(dimensions.len());
        for &dimension in dimensions {
            record.u64(dimension);
        }
    }
    record
}

/// Returns the faults of a damaged file.
pub(crate) fn faults(part: &Header<'_>) -> Record {
    let mut record = Record::default();
    record.count(part.faults().len());
    for fault in part.faults() {
        failure::put(&mut record, fault);
    }
    record
}

/// Returns all tensor types: number, name, and the elements and bytes of a block.
pub(crate) fn types() -> Record {
    let mut record = Record::default();
    let all = GgmlType::all();
    record.count(all.len());
    for ggml_type in all {
        record.u32(ggml_type.0);
        record.text(ggml_type.name().unwrap_or_default().as_bytes());
        let (elements, bytes) =
            ggml_type.layout().map_or((0, 0), |layout| (layout.elements, layout.bytes));
        record.u32(elements);
        record.u32(bytes);
    }
    record
}
