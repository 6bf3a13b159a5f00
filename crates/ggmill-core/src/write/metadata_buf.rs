use alloc::vec::Vec;

use crate::bytes::{Cursor, Encoding};
use crate::error::Result;
use crate::write::encode::{ToValue, put_string, put_value};
use crate::{Metadata, RawStr, Value, ValueType};

/// Metadata being made: ordered pairs that own their values.
///
/// [`set`](Self::set) keeps the place of a key that is there already. A value read from any file
/// can be set as it is; [`MetadataBuf::copy_of`] takes them all.
///
/// ```
/// use ggmill_core::{MetadataBuf, Value};
/// let mut metadata = MetadataBuf::new();
/// metadata.set("general.architecture", "llama");
/// metadata.set("llama.block_count", 12u32);
/// metadata.set("general.architecture", "mamba");
/// let keys: Vec<String> = metadata.iter().map(|(key, _)| key.to_string()).collect();
/// assert_eq!(keys, ["general.architecture", "llama.block_count"]);
/// assert_eq!(metadata.get("general.architecture").and_then(|value| value.as_str()), Some("mamba"));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MetadataBuf {
    pairs: Vec<OwnedPair>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct OwnedPair {
    key: Vec<u8>,
    value_type: ValueType,
    /// As [`ToValue::encode`] writes it.
    value: Vec<u8>,
}

impl OwnedPair {
    fn new(key: &[u8], value: &impl ToValue) -> Self {
        let mut bytes = Vec::new();
        value.encode(&mut bytes);
        Self { key: key.to_vec(), value_type: value.value_type(), value: bytes }
    }

    fn value(&self) -> Option<Value<'_>> {
        let mut cursor = Cursor::new(&self.value, 0, self.value.len() as u64, Encoding::CANONICAL);
        Value::decode(self.value_type, &mut cursor, Encoding::CANONICAL).ok()
    }
}

impl MetadataBuf {
    /// No pairs.
    pub fn new() -> Self {
        Self::default()
    }

    /// Every pair of a file, in its order, duplicates included. Values of a file that is encoded as
    /// they are kept here keep every bit, also the odd `true` that is not 1.
    pub fn copy_of(metadata: &Metadata<'_>) -> Result<Self> {
        let pair = |pair: crate::Pair<'_>| {
            let value = pair.value()?;
            let copy = |bytes: &[u8]| OwnedPair {
                key: pair.key().as_bytes().to_vec(),
                value_type: pair.value_type(),
                value: bytes.to_vec(),
            };
            Ok(pair
                .canonical_bytes()
                .map_or_else(|| OwnedPair::new(pair.key().as_bytes(), &value), copy))
        };
        Ok(Self { pairs: metadata.iter().map(pair).collect::<Result<_>>()? })
    }

    /// Sets the value of a key: in its place when it is there, at the end when it is not. Of a
    /// duplicate key the first place remains, since two values that disagree would be two readings
    /// of one file.
    pub fn set(&mut self, key: impl AsRef<[u8]>, value: impl ToValue) {
        let pair = OwnedPair::new(key.as_ref(), &value);
        let Some(place) = self.pairs.iter().position(|present| present.key == pair.key) else {
            self.pairs.push(pair);
            return;
        };
        let mut number = 0usize;
        self.pairs.retain(|present| {
            let keep = number <= place || present.key != pair.key;
            number = number.saturating_add(1);
            keep
        });
        if let Some(present) = self.pairs.get_mut(place) {
            *present = pair;
        }
    }

    /// Removes every pair with this key and says whether there was one.
    pub fn remove(&mut self, key: impl AsRef<[u8]>) -> bool {
        let before = self.pairs.len();
        self.pairs.retain(|pair| pair.key != key.as_ref());
        self.pairs.len() < before
    }

    /// Gives every pair with the key `from` the key `to`, in its place, and says whether there was
    /// one. Two keys that were different can be the same afterwards.
    pub fn rename(&mut self, from: impl AsRef<[u8]>, to: impl AsRef<[u8]>) -> bool {
        let mut found = false;
        for pair in self.pairs.iter_mut().filter(|pair| pair.key == from.as_ref()) {
            pair.key = to.as_ref().to_vec();
            found = true;
        }
        found
    }

    /// The value of the first pair with this key.
    pub fn get(&self, key: impl AsRef<[u8]>) -> Option<Value<'_>> {
        self.pairs.iter().find(|pair| pair.key == key.as_ref())?.value()
    }

    /// Keys and values in order.
    pub fn iter(&self) -> impl Iterator<Item = (RawStr<'_>, Value<'_>)> {
        self.pairs.iter().filter_map(|pair| Some((RawStr::new(&pair.key), pair.value()?)))
    }

    /// Number of pairs.
    pub fn len(&self) -> usize {
        self.pairs.len()
    }

    /// Whether there are no pairs.
    pub fn is_empty(&self) -> bool {
        self.pairs.is_empty()
    }

    /// Appends the pairs as a file has them.
    pub(crate) fn encode(&self, encoding: Encoding, out: &mut Vec<u8>) {
        for pair in &self.pairs {
            put_string(&pair.key, encoding, out);
            encoding.endian.put_u32(pair.value_type.0, out);
            if encoding == Encoding::CANONICAL || pair.value_type.fixed_size() == Some(1) {
                out.extend_from_slice(&pair.value);
            } else if let Some(value) = pair.value() {
                put_value(&value, encoding, out);
            }
        }
    }
}
