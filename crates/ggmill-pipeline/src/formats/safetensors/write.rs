use std::collections::{BTreeMap, BTreeSet};

use ggmill_core::{GgmlType, Shape, Sink};
use serde_json::{Map, Value, json};

use crate::Report;
use crate::formats::column::{Column, Element, append, stream};
use crate::formats::json::Unambiguous;
use crate::{Checkpoint, RunOptions};
use crate::{Error, ErrorKind, Result};

/// The entry of a file's metadata that says what bytes of blocks are: JSON, an object of `{"type",
/// "shape"}` by tensor name, the shape in stored order.
pub(crate) const RAW_KEY: &str = "ggmill.raw";

/// Streams tensors into a file of safetensors and gives the sink back.
///
/// Floats and integers are stored as they are, quantized types as f32 or, when `raw`, as their
/// bytes: `U8`, one row of bytes for each row of the tensor, with type and shape noted in the
/// metadata, so that [`SafetensorsFile`](crate::formats::SafetensorsFile) reads them as what they were. Fails for
/// names that the format cannot hold: those that are not UTF-8, occur twice, or are `__metadata__`.
/// `options` say how many threads are used.
pub fn extract_safetensors<S>(
    checkpoint: &dyn Checkpoint,
    numbers: &[usize],
    raw: bool,
    mut sink: S,
    options: &RunOptions,
    progress: &mut Report<'_>,
) -> Result<S>
where
    S: Sink,
    S::Error: std::error::Error + Send + Sync + 'static,
{
    let columns = columns(checkpoint, numbers, raw)?;
    append(&mut sink, &header(&columns)?)?;
    stream(checkpoint, &columns, &mut sink, options, progress)?;
    Ok(sink)
}

/// Bytes of the file that [`extract_safetensors`] makes of tensors. Fails where it would fail
/// before it writes.
pub fn safetensors_len(checkpoint: &dyn Checkpoint, numbers: &[usize], raw: bool) -> Result<u64> {
    let columns = columns(checkpoint, numbers, raw)?;
    let header = header(&columns)?.len() as u64;
    Ok(columns.iter().map(|column| column.size).fold(header, u64::saturating_add))
}

/// The tensors in the order they have in the file.
fn columns<'a>(
    checkpoint: &'a dyn Checkpoint,
    numbers: &[usize],
    raw: bool,
) -> Result<Vec<Column<'a>>> {
    let mut columns = numbers
        .iter()
        .map(|&number| Column::new(checkpoint, number, raw, |_| true))
        .collect::<Result<Vec<_>>>()?;
    // So every tensor begins at a multiple of the size of its elements.
    columns.sort_by_key(|column| std::cmp::Reverse(column.element.bytes()));
    Ok(columns)
}

fn header(columns: &[Column<'_>]) -> Result<Vec<u8>> {
    let mut names = BTreeSet::new();
    let mut tensors = Map::new();
    let mut raw = Map::new();
    let mut offset: u64 = 0;
    for column in columns {
        let refused =
            |message: &str| Error::new(ErrorKind::Unsupported, message).tensor(&column.tensor.name);
        let name = column
            .tensor
            .name()
            .to_str()
            .map_err(|_| refused("safetensors supports only names that are valid UTF-8"))?;
        if name == "__metadata__" || !names.insert(name) {
            return Err(refused(
                "safetensors cannot contain a tensor with this name, or two tensors with the same \
                 name",
            ));
        }
        if column.element == Element::U8 {
            raw.insert(name.to_owned(), json!({ "type": column.tensor.ggml_type.to_string(), "shape": column.tensor.shape.dimensions() }));
        }
        let end =
            offset.checked_add(column.size).ok_or_else(|| refused("too large for one file"))?;
        tensors.insert(name.to_owned(), json!({ "dtype": dtype(column.element), "shape": column.shape, "data_offsets": [offset, end] }));
        offset = end;
    }
    let mut metadata = json!({ "format": "pt" });
    if let (false, Some(metadata)) = (raw.is_empty(), metadata.as_object_mut()) {
        metadata.insert(RAW_KEY.to_owned(), Value::Object(raw).to_string().into());
    }
    tensors.insert("__metadata__".to_owned(), metadata);
    let mut text = Value::Object(tensors).to_string().into_bytes();
    text.resize(text.len().next_multiple_of(8), b' ');
    Ok([&(text.len() as u64).to_le_bytes(), &*text].concat())
}

fn dtype(element: Element) -> &'static str {
    match element {
        Element::F64 => "F64",
        Element::F32 => "F32",
        Element::F16 => "F16",
        Element::BF16 => "BF16",
        Element::I64 => "I64",
        Element::I32 => "I32",
        Element::I16 => "I16",
        Element::I8 => "I8",
        Element::U8 => "U8",
    }
}

/// The types and shapes of raw tensors from the metadata of a file. Invalid ones are omitted, and
/// the tensor stays bytes.
pub(crate) fn raw_tensors(noted: Option<&str>) -> BTreeMap<String, (GgmlType, Shape)> {
    let noted =
        noted.and_then(|text| serde_json::from_str(text).ok()).map(|Unambiguous(noted)| noted);
    let tensor = |(name, tensor): (String, Value)| {
        let ggml_type = tensor.get("type")?.as_str()?.parse::<GgmlType>().ok()?;
        let dimensions = tensor
            .get("shape")?
            .as_array()?
            .iter()
            .map(Value::as_u64)
            .collect::<Option<Vec<u64>>>()?;
        Some((name, (ggml_type, Shape::new(&dimensions).ok()?)))
    };
    match noted {
        Some(Value::Object(noted)) => noted.into_iter().filter_map(tensor).collect(),
        _ => BTreeMap::new(),
    }
}

#[cfg(test)]
mod tests {
    use std::ops::ControlFlow;

    use super::*;
    use crate::formats::SafetensorsFile;

    /// Found by fuzzing: such a tensor came out as I8.
    #[test]
    fn a_tensor_of_a_type_that_is_not_converted_is_not_written_as_another() {
        let header = br#"{"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}}"#;
        let file = [&(header.len() as u64).to_le_bytes()[..], header, &[1, 2]].concat();
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.safetensors");
        std::fs::write(&path, file).unwrap();
        let file = SafetensorsFile::open(&path).unwrap();
        for raw in [false, true] {
            let options = RunOptions::on(1);
            let error = extract_safetensors(&file, &[0], raw, Vec::new(), &options, &mut |_| {
                ControlFlow::Continue(())
            })
            .unwrap_err();
            assert!(error.to_string().contains("elements of type U8"), "{error}");
        }
    }
}
