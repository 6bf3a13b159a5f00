use std::collections::{BTreeMap, HashMap};
use std::fmt;

use ggmill_core::{ByteSize, RawStr};
use ggmill_io::RandomAccess;
use safetensors::tensor::{Metadata, TensorInfo};
use serde::de::{Deserialize, Deserializer, Error as _, MapAccess, Visitor};

use crate::formats::json::unique;
use crate::{Error, ErrorKind, Result};

/// The largest header the format allows (safetensors, `MAX_HEADER_SIZE`).
const MAX_HEADER: u64 = 100_000_000;

/// Strings in a header: names, types, keys. Parsed, each takes many times the few bytes it may have
/// in the file, and no checkpoint has a tenth of these.
const MAX_STRINGS: usize = 1 << 21;

/// The key of what is not about a tensor.
const METADATA: &str = "__metadata__";

/// The header, and where the data begins.
pub(super) fn header(file: &RandomAccess) -> Result<(Metadata, u64)> {
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

/// What is wrong with a tensor whose data should begin here: tensors have no gaps between them, and
/// each has as many bytes as its shape and type need.
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
    let is_whole = bits.is_multiple_of(8);
    (!is_whole || bits / 8 != found).then(|| {
        format!("{found} bytes, expected {} for {dtype} of the shape {shape:?}", bits.div_ceil(8))
    })
}

/// The JSON of a header with all its entries: the crate's own type keeps the last of several with
/// one name.
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
        /// Text by text.
        #[derive(serde::Deserialize)]
        #[serde(transparent)]
        struct Texts {
            #[serde(deserialize_with = "unique")]
            texts: BTreeMap<String, String>,
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
                    .next_value::<Option<Texts>>()?
                    .map(|texts| texts.texts.into_iter().collect());
            }
        }
        Ok(header)
    }
}
