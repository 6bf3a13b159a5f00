//! Metadata to be written: owned entries, and the encoding of values.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;

use crate::bytes::{Cursor, Encoding};
use crate::error::Result;
use crate::value::Elements;
use crate::{Array, Endian, Entry, Metadata, RawStr, Value, ValueType};

/// Metadata that owns its entries, in order, and can be changed.
///
/// [`set`](Self::set) keeps the position of an existing key, and accepts values read from any file.
/// [`MetadataBuf::copy_of`] copies all entries of a file.
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
    /// In the encoding of [`ToValue::encode`].
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
    /// Creates empty metadata.
    pub fn new() -> Self {
        Self::default()
    }

    /// Copies every entry of a file in order, duplicate keys included. Values of a little-endian file of
    /// version 2 or 3 are copied byte for byte, including bools that are neither 0 nor 1.
    pub fn copy_of(metadata: &Metadata<'_>) -> Result<Self> {
        let entry = |entry: Entry<'_>| {
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

    /// Sets the value of a key: in place if it exists, otherwise at the end. Removes duplicates of the
    /// key after the first, so that readers cannot disagree about its value.
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

    /// Removes every entry with this key. Returns `true` if there was one.
    pub fn remove(&mut self, key: impl AsRef<[u8]>) -> bool {
        let before = self.entries.len();
        self.entries.retain(|entry| entry.key != key.as_ref());
        self.entries.len() < before
    }

    /// Removes the entries with the keys for which `keep` returns `false`.
    pub fn retain(&mut self, mut keep: impl FnMut(RawStr<'_>) -> bool) {
        self.entries.retain(|entry| keep(RawStr::new(&entry.key)));
    }

    /// Renames the key of every entry with the key `from` to `to`. Returns `true` if there was one. The
    /// result can have duplicate keys.
    pub fn rename(&mut self, from: impl AsRef<[u8]>, to: impl AsRef<[u8]>) -> bool {
        let mut found = false;
        for entry in self.entries.iter_mut().filter(|entry| entry.key == from.as_ref()) {
            entry.key = to.as_ref().to_vec();
            found = true;
        }
        found
    }

    /// Returns the value of the first entry with this key.
    pub fn get(&self, key: impl AsRef<[u8]>) -> Option<Value<'_>> {
        self.entries.iter().find(|entry| entry.key == key.as_ref())?.value()
    }

    /// Returns the first value of each key. Use it instead of [`get`](Self::get) to read many keys, because
    /// `get` searches all entries.
    pub fn first_values(&self) -> BTreeMap<&[u8], Value<'_>> {
        let mut values = BTreeMap::new();
        for (key, value) in self.iter() {
            values.entry(key.as_bytes()).or_insert(value);
        }
        values
    }

    /// Returns an iterator over keys and values in order.
    pub fn iter(&self) -> impl Iterator<Item = (RawStr<'_>, Value<'_>)> {
        self.entries.iter().filter_map(|entry| Some((RawStr::new(&entry.key), entry.value()?)))
    }

    /// Returns the number of entries.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns `true` if there are no entries.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Appends the entries in the encoding of a file.
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

/// A type that can be a metadata value: numbers, `bool`, strings, slices and vectors of these, and
/// [`Value`]s read from a file.
///
/// ```
/// use ggmill_core::{MetadataBuf, ToValue, ValueType};
/// assert_eq!(7u16.value_type(), ValueType::U16);
/// assert_eq!("text".value_type(), ValueType::STRING);
/// assert_eq!([1.0f32, 2.0].as_slice().value_type(), ValueType::ARRAY);
/// ```
pub trait ToValue {
    /// Returns the type of the written value.
    fn value_type(&self) -> ValueType;

    /// Appends the value as in a little-endian file of version 3: for a string its length and bytes, for
    /// an array its element type, length and elements.
    fn encode(&self, out: &mut Vec<u8>);
}

/// A number, string or bool that can be an element of a slice.
trait Element {
    const TYPE: ValueType;
    fn put(&self, out: &mut Vec<u8>);
}

macro_rules! elements {
    ($($rust:ty, $value_type:ident, |$value:ident, $out:ident| $put:expr;)*) => {$(
        impl Element for $rust {
            const TYPE: ValueType = ValueType::$value_type;
            fn put(&self, $out: &mut Vec<u8>) {
                let $value = self;
                $put
            }
        }
        impl ToValue for [$rust] {
            fn value_type(&self) -> ValueType {
                ValueType::ARRAY
            }
            fn encode(&self, out: &mut Vec<u8>) {
                put_slice(self, out);
            }
        }
        impl ToValue for Vec<$rust> {
            fn value_type(&self) -> ValueType {
                ValueType::ARRAY
            }
            fn encode(&self, out: &mut Vec<u8>) {
                put_slice(self, out);
            }
        }
    )*};
}

/// Implements [`ToValue`] for single elements. `&str` is excluded: it is covered by `str` and `&T`.
macro_rules! scalars {
    ($($rust:ty)*) => {$(
        impl ToValue for $rust {
            fn value_type(&self) -> ValueType {
                <Self as Element>::TYPE
            }
            fn encode(&self, out: &mut Vec<u8>) {
                self.put(out);
            }
        }
    )*};
}

scalars! { u8 i8 u16 i16 u32 i32 u64 i64 f32 f64 bool String RawStr<'_> }

elements! {
    u8, U8, |value, out| out.push(*value);
    i8, I8, |value, out| out.extend_from_slice(&value.to_le_bytes());
    u16, U16, |value, out| out.extend_from_slice(&value.to_le_bytes());
    i16, I16, |value, out| out.extend_from_slice(&value.to_le_bytes());
    u32, U32, |value, out| out.extend_from_slice(&value.to_le_bytes());
    i32, I32, |value, out| out.extend_from_slice(&value.to_le_bytes());
    u64, U64, |value, out| out.extend_from_slice(&value.to_le_bytes());
    i64, I64, |value, out| out.extend_from_slice(&value.to_le_bytes());
    f32, F32, |value, out| out.extend_from_slice(&value.to_le_bytes());
    f64, F64, |value, out| out.extend_from_slice(&value.to_le_bytes());
    bool, BOOL, |value, out| out.push(u8::from(*value));
    &str, STRING, |value, out| put_string(value.as_bytes(), Encoding::CANONICAL, out);
    String, STRING, |value, out| put_string(value.as_bytes(), Encoding::CANONICAL, out);
    RawStr<'_>, STRING, |value, out| put_string(value.as_bytes(), Encoding::CANONICAL, out);
}

fn put_slice<T: Element>(elements: &[T], out: &mut Vec<u8>) {
    out.extend_from_slice(&T::TYPE.0.to_le_bytes());
    out.extend_from_slice(&(elements.len() as u64).to_le_bytes());
    for element in elements {
        element.put(out);
    }
}

impl ToValue for str {
    fn value_type(&self) -> ValueType {
        ValueType::STRING
    }
    fn encode(&self, out: &mut Vec<u8>) {
        put_string(self.as_bytes(), Encoding::CANONICAL, out);
    }
}

impl<T: ToValue + ?Sized> ToValue for &T {
    fn value_type(&self) -> ValueType {
        (**self).value_type()
    }
    fn encode(&self, out: &mut Vec<u8>) {
        (**self).encode(out);
    }
}

impl ToValue for Value<'_> {
    fn value_type(&self) -> ValueType {
        Value::value_type(self)
    }
    fn encode(&self, out: &mut Vec<u8>) {
        put_value(self, Encoding::CANONICAL, out);
    }
}

impl ToValue for Array<'_> {
    fn value_type(&self) -> ValueType {
        ValueType::ARRAY
    }
    fn encode(&self, out: &mut Vec<u8>) {
        put_array(self, Encoding::CANONICAL, out);
    }
}

pub(crate) fn put_length(length: u64, encoding: Encoding, out: &mut Vec<u8>) {
    encoding.endian.put_u64(length, out);
}

pub(crate) fn put_string(bytes: &[u8], encoding: Encoding, out: &mut Vec<u8>) {
    put_length(bytes.len() as u64, encoding, out);
    out.extend_from_slice(bytes);
}

/// Appends a value in an encoding with 64-bit lengths.
pub(crate) fn put_value(value: &Value<'_>, encoding: Encoding, out: &mut Vec<u8>) {
    let endian = encoding.endian;
    match *value {
        Value::U8(v) => out.push(v),
        Value::I8(v) => out.extend_from_slice(&v.to_le_bytes()),
        Value::U16(v) => endian.put_u16(v, out),
        Value::I16(v) => endian.put_i16(v, out),
        Value::U32(v) => endian.put_u32(v, out),
        Value::I32(v) => endian.put_i32(v, out),
        Value::U64(v) => endian.put_u64(v, out),
        Value::I64(v) => endian.put_i64(v, out),
        Value::F32(v) => endian.put_f32(v, out),
        Value::F64(v) => endian.put_f64(v, out),
        Value::Bool(v) => out.push(u8::from(v)),
        Value::Str(v) => put_string(v.as_bytes(), encoding, out),
        Value::Array(ref v) => put_array(v, encoding, out),
    }
}

fn put_array_head(array: &Array<'_>, encoding: Encoding, out: &mut Vec<u8>) {
    encoding.endian.put_u32(array.element_type().0, out);
    put_length(array.len(), encoding, out);
}

/// Appends an array, without recursion for nested arrays. If the file has changed since it was parsed,
/// elements that cannot be read are omitted, and reading the result fails.
fn put_array(array: &Array<'_>, encoding: Encoding, out: &mut Vec<u8>) {
    put_array_head(array, encoding, out);
    // Elements that need no byte swap are copied in one piece.
    let single_bytes = array.element_type().fixed_size() == Some(1);
    let same_order = encoding.endian == Endian::Little
        && array.encoding().endian == Endian::Little
        && array.element_type().fixed_size().is_some();
    if single_bytes || same_order {
        out.extend_from_slice(array.as_bytes());
        return;
    }
    let mut open: Vec<Elements<'_>> = alloc::vec![array.iter()];
    while let Some(elements) = open.last_mut() {
        match elements.next() {
            Some(Ok(Value::Array(inner))) => {
                put_array_head(&inner, encoding, out);
                open.push(inner.iter());
            }
            Some(Ok(value)) => put_value(&value, encoding, out),
            Some(Err(_)) | None => {
                open.pop();
            }
        }
    }
}
