//! Single safetensors files, read and written.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::path::Path;

use ggmill_core::{ByteSize, Endian, GgmlType, RawStr, ReadAt as _, Shape, Sink};
use ggmill_io::RandomAccess;
use safetensors::tensor::{Dtype, Metadata, TensorInfo};
use serde::de::{Deserialize, Deserializer, Error as _, MapAccess, Visitor};
use serde_json::{Map, Value, json};

use crate::formats::column::{Column, Element, append, stream};
use crate::formats::json::{Unambiguous, unique};
use crate::{Checkpoint, Error, ErrorKind, FileRange, Report, Result, RunOptions, SourceTensor};

/// A single `.safetensors` file, with its tensors sorted by name. Quantized tensors that
/// [`extract_safetensors`] wrote as raw blocks have their original type and shape.
#[derive(Debug)]
pub struct SafetensorsFile {
    file: RandomAccess,
    tensors: Vec<SourceTensor>,
    /// The offset and size of each tensor's data.
    places: Vec<(u64, u64)>,
}

impl SafetensorsFile {
    /// Opens a file. Fails if it is not a safetensors file or is truncated. Tensors of types that
    /// GGUF does not have are listed with the name of the type ([`SourceTensor::stored_type`]);
    /// types smaller than a byte are refused.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        Self::new(RandomAccess::open(path)?)
    }

    pub(crate) fn file(&self) -> &RandomAccess {
        &self.file
    }

    pub(crate) fn new(file: RandomAccess) -> Result<Self> {
        let (metadata, data_start) = read_header(&file)?;
        let noted = metadata.metadata().as_ref().and_then(|entries| entries.get(RAW_KEY));
        let raw = raw_tensors(noted.map(String::as_str));
        let mut names = metadata.offset_keys();
        names.sort_unstable();
        let (mut tensors, mut places) =
            (Vec::with_capacity(names.len()), Vec::with_capacity(names.len()));
        for name in names {
            let Some(info) = metadata.info(&name) else { continue };
            let (ggml_type, shape, stored_type) =
                element(info, raw.get(&name)).map_err(|error| error.tensor(&name))?;
            places.push((
                data_start + info.data_offsets.0 as u64,
                (info.data_offsets.1 - info.data_offsets.0) as u64,
            ));
            let tensor = SourceTensor::new(name, ggml_type, shape);
            tensors.push(match stored_type {
                Some(stored_type) => tensor.with_stored_type(stored_type),
                None => tensor,
            });
        }
        Ok(Self { file, tensors, places })
    }
}

impl Checkpoint for SafetensorsFile {
    fn tensors(&self) -> &[SourceTensor] {
        &self.tensors
    }

    fn read(&self, number: usize, offset: u64, out: &mut [u8]) -> Result<()> {
        let &(start, size) = self
            .places
            .get(number)
            .ok_or_else(|| Error::new(ErrorKind::Misuse, "no tensor has this number"))?;
        if offset.checked_add(out.len() as u64).is_none_or(|end| end > size) {
            return Err(Error::new(ErrorKind::Misuse, "reads beyond the data of the tensor")
                .file(self.file.path()));
        }
        Ok(self.file.read_at(start.saturating_add(offset), out)?)
    }

    fn prefetch(&self, numbers: &[usize]) {
        let range = |&(start, size): &(u64, u64)| start..start.saturating_add(size);
        let places = numbers.iter().filter_map(|&number| self.places.get(number));
        self.file.prefetch(&places.map(range).collect::<Vec<_>>());
    }

    fn sources(&self) -> Vec<&RandomAccess> {
        vec![&self.file]
    }

    fn range(&self, number: usize) -> Option<FileRange<'_>> {
        self.places.get(number).map(|&(start, _)| FileRange::new(&self.file, start, Endian::Little))
    }
}

/// Returns type and shape of a tensor, and the name of a type that GGML does not have. For raw
/// blocks they are those noted in the metadata; fails if the size does not match.
fn element(
    info: &TensorInfo,
    noted: Option<&(GgmlType, Shape)>,
) -> Result<(GgmlType, Shape, Option<&'static str>)> {
    if let Some((ggml_type, shape)) = noted.filter(|_| info.dtype == Dtype::U8) {
        let size = (info.data_offsets.1 - info.data_offsets.0) as u64;
        if ggml_type.layout().and_then(|layout| layout.bytes_for(shape.elements())) != Some(size) {
            return Err(Error::new(
                ErrorKind::Checkpoint,
                format!("{size} bytes, which is not the size of {shape} of {ggml_type}"),
            ));
        }
        return Ok((*ggml_type, *shape, None));
    }
    let (ggml_type, stored_type) = ggml_type(info.dtype).ok_or_else(|| {
        Error::new(
            ErrorKind::Unsupported,
            format!("elements of type {:?} are not supported", info.dtype),
        )
    })?;
    let dimensions: Vec<u64> = info.shape.iter().map(|&dimension| dimension as u64).collect();
    let shape = Shape::from_row_major(&dimensions)
        .map_err(|error| Error::caused(ErrorKind::Checkpoint, error))?;
    Ok((ggml_type, shape, stored_type))
}

/// Converts a type: to the GGML type, or to the integer type of the same size with the name of the
/// type; `None` for types smaller than a byte.
fn ggml_type(dtype: Dtype) -> Option<(GgmlType, Option<&'static str>)> {
    Some(match dtype {
        Dtype::F64 => (GgmlType::F64, None),
        Dtype::F32 => (GgmlType::F32, None),
        Dtype::F16 => (GgmlType::F16, None),
        Dtype::BF16 => (GgmlType::BF16, None),
        Dtype::I64 => (GgmlType::I64, None),
        Dtype::I32 => (GgmlType::I32, None),
        Dtype::I16 => (GgmlType::I16, None),
        Dtype::I8 => (GgmlType::I8, None),
        Dtype::BOOL => (GgmlType::I8, Some("BOOL")),
        Dtype::U8 => (GgmlType::I8, Some("U8")),
        Dtype::F8_E4M3 => (GgmlType::I8, Some("F8_E4M3")),
        Dtype::F8_E5M2 => (GgmlType::I8, Some("F8_E5M2")),
        Dtype::F8_E8M0 => (GgmlType::I8, Some("F8_E8M0")),
        Dtype::F8_E4M3FNUZ => (GgmlType::I8, Some("F8_E4M3FNUZ")),
        Dtype::F8_E5M2FNUZ => (GgmlType::I8, Some("F8_E5M2FNUZ")),
        Dtype::U16 => (GgmlType::I16, Some("U16")),
        Dtype::U32 => (GgmlType::I32, Some("U32")),
        Dtype::U64 => (GgmlType::I64, Some("U64")),
        Dtype::C64 => (GgmlType::I64, Some("C64")),
        _ => return None,
    })
}

/// The largest header the format allows (safetensors, `MAX_HEADER_SIZE`).
const MAX_HEADER: u64 = 100_000_000;

/// Limit for the strings in a header (names, types, keys), ten times that of any known checkpoint.
/// A parsed string needs much more memory than its bytes in the file.
const MAX_STRINGS: usize = 1 << 21;

/// The key of the metadata in the header.
const METADATA: &str = "__metadata__";

/// Reads and checks the header, and returns it with the offset of the data.
fn read_header(file: &RandomAccess) -> Result<(Metadata, u64)> {
    let bad = |message: String| Error::new(ErrorKind::Checkpoint, message).file(file.path());
    let mut length = [0; 8];
    if file.len() < 8 {
        return Err(bad(format!("{} bytes, expected a safetensors file", file.len())));
    }
    file.read_at(0, &mut length)?;
    let header_len = u64::from_le_bytes(length);
    let rest = file.len() - 8;
    if header_len > rest {
        let [len, rest] = ByteSize::both(header_len, rest);
        let message = format!("the header should have {len}, but {rest} remain in the file");
        return Err(bad(message));
    }
    if header_len > MAX_HEADER {
        let [len, limit] = ByteSize::both(header_len, MAX_HEADER);
        return Err(bad(format!("the header has {len}, the limit is {limit}")));
    }
    let mut header = Vec::new();
    let len = usize::try_from(header_len).unwrap_or(usize::MAX);
    header.try_reserve_exact(len).map_err(|_| {
        bad(format!("not enough memory for the {} of the header", ByteSize::from(len)))
    })?;
    header.resize(len, 0);
    file.read_at(8, &mut header)?;
    #[expect(clippy::naive_bytecount, reason = "once per file")]
    let strings = header.iter().filter(|&&byte| byte == b'"').count() / 2;
    if strings > MAX_STRINGS {
        return Err(bad(format!("the header has {strings} strings, the limit is {MAX_STRINGS}")));
    }
    let invalid = |error: &dyn fmt::Display| {
        bad(format!(
            "the header is not a valid safetensors header: {}",
            RawStr::from(&*error.to_string())
        ))
    };
    let Header { metadata, mut tensors } =
        serde_json::from_slice(&header).map_err(|error| invalid(&error))?;
    tensors.sort_unstable_by(|(a, _), (b, _)| a.cmp(b));
    if let Some((name, _)) =
        tensors.windows(2).find(|pair| pair[0].0 == pair[1].0).and_then(<[_]>::first)
    {
        let path = RawStr::new(file.path().as_os_str().as_encoded_bytes());
        return Err(Error::new(
            ErrorKind::Checkpoint,
            format!("is a duplicate: the header of {path} has two entries with this name"),
        )
        .tensor(name));
    }
    tensors.sort_by_key(|(_, info)| info.data_offsets);
    let mut start = 0;
    for (name, info) in &tensors {
        if let Some(message) = fault(info, start) {
            let error = Error::new(ErrorKind::Checkpoint, message).tensor(name);
            return Err(error.file(file.path()));
        }
        start = info.data_offsets.1;
    }
    let metadata = Metadata::new(metadata, tensors).map_err(|error| invalid(&error))?;

    let data_start = 8 + header_len;
    let needed = data_start.saturating_add(metadata.data_len() as u64);
    if needed > file.len() {
        let percent = file.len() * 100 / needed;
        return Err(bad(format!(
            "the file has {} of {needed} bytes ({percent}%), perhaps an incomplete download",
            file.len()
        )));
    }
    if needed < file.len() {
        return Err(bad(format!(
            "{} bytes follow the data of the last tensor: perhaps two files were joined, or this \
             is not a safetensors file",
            file.len() - needed
        )));
    }
    Ok((metadata, data_start))
}

/// Checks a tensor whose data must begin at `start`, without a gap, and must have the size of its
/// shape and type. Returns the fault.
fn fault(info: &TensorInfo, start: usize) -> Option<String> {
    let (from, to) = info.data_offsets;
    if from != start || to < from {
        return Some(format!("its data is bytes {from} to {to}, expected to begin at {start}"));
    }
    let TensorInfo { dtype, shape, .. } = info;
    let elements = shape.iter().try_fold(1usize, |product, &extent| product.checked_mul(extent));
    let Some(bits) = elements.and_then(|count| count.checked_mul(dtype.bitsize())) else {
        return Some(format!("the shape {shape:?} has too many elements"));
    };
    let found = to - from;
    let is_whole_bytes = bits.is_multiple_of(8);
    (!is_whole_bytes || bits / 8 != found).then(|| {
        format!("{found} bytes, expected {} for {dtype} of the shape {shape:?}", bits.div_ceil(8))
    })
}

/// The JSON of a header with all entries, to detect duplicates: `Metadata` of the `safetensors`
/// crate keeps only the last.
struct Header {
    metadata: Option<HashMap<String, String>>,
    tensors: Vec<(String, TensorInfo)>,
}

impl<'de> Deserialize<'de> for Header {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Entries)
    }
}

struct Entries;

impl<'de> Visitor<'de> for Entries {
    type Value = Header;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of tensors")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Header, A::Error> {
        /// A map of strings without duplicate keys.
        #[derive(serde::Deserialize)]
        #[serde(transparent)]
        struct Strings {
            #[serde(deserialize_with = "unique")]
            strings: BTreeMap<String, String>,
        }
        let mut header = Header { metadata: None, tensors: Vec::new() };
        while let Some(key) = entries.next_key::<String>()? {
            if key != METADATA {
                let info = entries.next_value().map_err(|error| {
                    A::Error::custom(format_args!("tensor {:?}: {error}", RawStr::from(&*key)))
                })?;
                header.tensors.push((key, info));
            } else if header.metadata.is_some() {
                return Err(A::Error::custom("two __metadata__ entries"));
            } else {
                header.metadata = entries
                    .next_value::<Option<Strings>>()?
                    .map(|map| map.strings.into_iter().collect());
            }
        }
        Ok(header)
    }
}

/// The metadata key for the types of raw blocks: a JSON object of `{"type", "shape"}` by tensor
/// name, with the shape in stored order.
const RAW_KEY: &str = "ggmill.raw";

/// Writes tensors as a safetensors file, and returns the sink.
///
/// Floats and integers keep their type. Quantized types become F32 or, if `raw`, are stored as
/// their bytes: `U8`, one row of bytes for each row of the tensor, with type and shape in the
/// metadata, so that [`SafetensorsFile`] restores them. Fails for names that the format does not
/// allow: not UTF-8, duplicate, or `__metadata__`.
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
    append(&mut sink, &write_header(&columns)?)?;
    stream(checkpoint, &columns, &mut sink, options, progress)?;
    Ok(sink)
}

/// Returns the size of the file that [`extract_safetensors`] writes, in bytes. Fails if that would
/// fail before writing.
pub fn safetensors_len(checkpoint: &dyn Checkpoint, numbers: &[usize], raw: bool) -> Result<u64> {
    let columns = columns(checkpoint, numbers, raw)?;
    let header = write_header(&columns)?.len() as u64;
    Ok(columns.iter().map(|column| column.size).fold(header, u64::saturating_add))
}

/// Returns the tensors in the order of the file.
fn columns<'a>(
    checkpoint: &'a dyn Checkpoint,
    numbers: &[usize],
    raw: bool,
) -> Result<Vec<Column<'a>>> {
    let mut columns = numbers
        .iter()
        .map(|&number| Column::new(checkpoint, number, raw, |_| true))
        .collect::<Result<Vec<_>>>()?;
    // Sorted by descending element size, so that every tensor is aligned to its elements.
    columns.sort_by_key(|column| std::cmp::Reverse(column.element.bytes()));
    Ok(columns)
}

fn write_header(columns: &[Column<'_>]) -> Result<Vec<u8>> {
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

/// Parses the types and shapes of raw blocks from the metadata of a file. Invalid ones are omitted,
/// and the tensor stays bytes.
fn raw_tensors(noted: Option<&str>) -> BTreeMap<String, (GgmlType, Shape)> {
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

    /// Found by fuzzing: a U8 tensor was exported as I8.
    #[test]
    fn unsupported_types_are_not_exported() {
        let header = br#"{"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}}"#;
        let file = [&(header.len() as u64).to_le_bytes()[..], header, &[1, 2]].concat();
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.safetensors");
        std::fs::write(&path, file).unwrap();
        let file = SafetensorsFile::open(&path).unwrap();
        for raw in [false, true] {
            let options = RunOptions::with_threads(1);
            let error = extract_safetensors(&file, &[0], raw, Vec::new(), &options, &mut |_| {
                ControlFlow::Continue(())
            })
            .unwrap_err();
            assert!(error.to_string().contains("elements of type U8"), "{error}");
        }
    }
}
