use alloc::vec::Vec;

use crate::bytes::{Cursor, Encoding};
use crate::error::Result;
use crate::write::encode::{ToValue, put_string, put_value};
use crate::{Metadata, RawStr, Value, ValueType};

/// A builder of metadata: ordered entries that own their values.
///
/// [`set`](Self::set) keeps the place of a key that already exists. A value read from any file can
/// be set as it is; [`MetadataBuf::copy_of`] takes them all.
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
    entries: Vec<OwnedEntry>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct OwnedEntry {
    key: Vec<u8>,
    value_type: ValueType,
    /// As [`ToValue::encode`] writes it.
    value: Vec<u8>,
}

impl OwnedEntry {
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
    /// No entries.
    pub fn new() -> Self {
        Self::default()
    }

    /// Every entry of a file, in its order, duplicates included. Values of a file that is encoded as
    /// they are kept here keep every bit, also the odd `true` that is not 1.
    pub fn copy_of(metadata: &Metadata<'_>) -> Result<Self> {
        let entry = |entry: crate::Entry<'_>| {
            let value = entry.value()?;
            let copy = |bytes: &[u8]| OwnedEntry {
                key: entry.key().as_bytes().to_vec(),
                value_type: entry.value_type(),
                value: bytes.to_vec(),
            };
            Ok(entry
                .canonical_bytes()
                .map_or_else(|| OwnedEntry::new(entry.key().as_bytes(), &value), copy))
        };
        Ok(Self { entries: metadata.iter().map(entry).collect::<Result<_>>()? })
    }

    /// Sets the value of a key: in place if it exists, otherwise at the end. Of a duplicate key the
    /// first place remains, since two values that disagree would be two readings of one file.
    pub fn set(&mut self, key: impl AsRef<[u8]>, value: impl ToValue) {
        let entry = OwnedEntry::new(key.as_ref(), &value);
        let Some(place) = self.entries.iter().position(|present| present.key == entry.key) else {
            self.entries.push(entry);
            return;
        };
        let mut number = 0usize;
        self.entries.retain(|present| {
            let keep = number <= place || present.key != entry.key;
            number = number.saturating_add(1);
            keep
        });
        if let Some(present) = self.entries.get_mut(place) {
            *present = entry;
        }
    }

    /// Removes every entry with this key and says whether there was one.
    pub fn remove(&mut self, key: impl AsRef<[u8]>) -> bool {
        let before = self.entries.len();
        self.entries.retain(|entry| entry.key != key.as_ref());
        self.entries.len() < before
    }

    /// Gives every entry with the key `from` the key `to`, in its place, and says whether there was
    /// one. Two keys that were different can be the same afterwards.
    pub fn rename(&mut self, from: impl AsRef<[u8]>, to: impl AsRef<[u8]>) -> bool {
        let mut found = false;
        for entry in self.entries.iter_mut().filter(|entry| entry.key == from.as_ref()) {
            entry.key = to.as_ref().to_vec();
            found = true;
        }
        found
    }

    /// The value of the first entry with this key.
    pub fn get(&self, key: impl AsRef<[u8]>) -> Option<Value<'_>> {
        self.entries.iter().find(|entry| entry.key == key.as_ref())?.value()
    }

    /// Keys and values in order.
    pub fn iter(&self) -> impl Iterator<Item = (RawStr<'_>, Value<'_>)> {
        self.entries.iter().filter_map(|entry| Some((RawStr::new(&entry.key), entry.value()?)))
    }

    /// Number of entries.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are no entries.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Appends the entries as a file has them.
    pub(crate) fn encode(&self, encoding: Encoding, out: &mut Vec<u8>) {
        for entry in &self.entries {
            put_string(&entry.key, encoding, out);
            encoding.endian.put_u32(entry.value_type.0, out);
            if encoding == Encoding::CANONICAL || entry.value_type.fixed_size() == Some(1) {
                out.extend_from_slice(&entry.value);
            } else if let Some(value) = entry.value() {
                put_value(&value, encoding, out);
            }
        }
    }
}
