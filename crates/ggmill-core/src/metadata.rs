//! The metadata entries of a file, in order.

use crate::bytes::{Cursor, Encoding};
use crate::error::{Detail, Error, ErrorKind, Result};
use crate::index::{Index, MetadataEntry};
use crate::{Array, RawStr, Value, ValueType};

/// The metadata of a file: entries in the order the file has them, duplicates included.
///
/// The typed accessors ([`str`](Self::str), [`u64`](Self::u64), …) say what is wrong when a key is
/// missing or holds something else; integers of any width answer any integer accessor they fit. For
/// a duplicate key the first entry answers and [`iter`](Self::iter) shows both.
///
/// ```
/// # use ggmill_core::{Builder, Gguf, MetadataBuf};
/// # let mut metadata = MetadataBuf::new();
/// # metadata.set("general.architecture", "llama");
/// # metadata.set("llama.block_count", 32u32);
/// # let file = Builder::new().metadata(metadata).plan()?.header().to_vec();
/// let model = Gguf::parse(&file)?;
/// let metadata = model.metadata();
/// assert_eq!(metadata.str("general.architecture")?, "llama");
/// assert_eq!(metadata.u64("llama.block_count")?, 32);
/// let error = metadata.str("llama.block_count").unwrap_err();
/// assert_eq!(error.to_string(), r#"offset 0x62, key "llama.block_count": is u32, expected string"#);
/// # Ok::<(), ggmill_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Metadata<'a> {
    index: &'a Index,
    bytes: &'a [u8],
}

impl Index {
    /// The metadata, read from `bytes`: those the index was parsed from, of which the first
    /// [`Index::header_len`] are enough.
    pub fn metadata<'a>(&'a self, bytes: &'a [u8]) -> Metadata<'a> {
        Metadata::indexed(self, bytes)
    }
}

impl<'a> Metadata<'a> {
    pub(crate) fn indexed(index: &'a Index, bytes: &'a [u8]) -> Self {
        Self { index, bytes }
    }

    /// Number of entries, duplicates counted.
    pub fn len(&self) -> usize {
        self.index.entries.len()
    }

    /// Whether there are no entries.
    pub fn is_empty(&self) -> bool {
        self.index.entries.is_empty()
    }

    /// The entries in the order of the file.
    pub fn iter(
        &self,
    ) -> impl ExactSizeIterator<Item = Entry<'a>> + DoubleEndedIterator + Clone + use<'a> {
        let Self { index, bytes } = *self;
        index.entries.iter().map(move |record| Entry { record, bytes, encoding: index.encoding })
    }

    fn entry(&self, number: u32) -> Option<Entry<'a>> {
        let record = self.index.entries.get(usize::try_from(number).ok()?)?;
        Some(Entry { record, bytes: self.bytes, encoding: self.index.encoding })
    }

    /// Every entry with this key, in the order of the file.
    pub fn all(&self, key: &[u8]) -> impl Iterator<Item = Entry<'a>> + use<'a> {
        let metadata = *self;
        let by_key = &self.index.entries_by_key;
        let key_of =
            |number: u32| metadata.entry(number).map_or(&[][..], |entry| entry.key().as_bytes());
        let from = by_key.partition_point(|&number| key_of(number) < key);
        let len =
            by_key.get(from..).unwrap_or_default().partition_point(|&number| key_of(number) <= key);
        by_key
            .get(from..)
            .unwrap_or_default()
            .iter()
            .take(len)
            .filter_map(move |&number| metadata.entry(number))
    }

    /// The first entry with this key.
    pub fn get(&self, key: impl AsRef<[u8]>) -> Option<Entry<'a>> {
        self.all(key.as_ref()).next()
    }

    /// The value of a key, with the reading of it checked by `read`.
    fn typed<T>(
        &self,
        key: &str,
        expected: &'static str,
        read: impl FnOnce(&Value<'a>) -> Option<T>,
        fits: fn(&Value<'a>) -> bool,
    ) -> Result<T> {
        let entry = self.get(key).ok_or_else(|| {
            Error::new(ErrorKind::Missing, Detail::KeyMissing).key(key.as_bytes())
        })?;
        let value = entry.value()?;
        read(&value).ok_or_else(|| {
            let found = entry.value_type();
            let detail = if fits(&value) {
                Detail::DoesNotFit { expected }
            } else {
                Detail::WrongType { found, expected }
            };
            Error::new(ErrorKind::WrongType, detail).at(entry.value_offset()).key(key.as_bytes())
        })
    }

    fn integer<T>(
        &self,
        key: &str,
        expected: &'static str,
        read: impl FnOnce(&Value<'a>) -> Option<T>,
    ) -> Result<T> {
        self.typed(key, expected, read, |value| value.as_i128().is_some())
    }

    /// The text of a string key.
    pub fn str(&self, key: &str) -> Result<&'a str> {
        let raw = self.raw_str(key)?;
        raw.to_str().map_err(|error| {
            let offset = self.get(key).map_or(0, |entry| entry.value_offset());
            Error::new(ErrorKind::WrongType, Detail::NotUtf8 { valid_up_to: error.valid_up_to() })
                .at(offset)
                .key(key.as_bytes())
        })
    }

    /// The bytes of a string key, UTF-8 or not.
    pub fn raw_str(&self, key: &str) -> Result<RawStr<'a>> {
        self.typed(key, "string", Value::as_raw_str, |_| false)
    }

    /// The value of an integer key of any width.
    pub fn u64(&self, key: &str) -> Result<u64> {
        self.integer(key, "u64", Value::as_u64)
    }

    /// The value of an integer key of any width.
    pub fn u32(&self, key: &str) -> Result<u32> {
        self.integer(key, "u32", Value::as_u32)
    }

    /// The value of an integer key of any width.
    pub fn i64(&self, key: &str) -> Result<i64> {
        self.integer(key, "i64", Value::as_i64)
    }

    /// The value of a float key of either width.
    pub fn f64(&self, key: &str) -> Result<f64> {
        self.typed(key, "float", Value::as_f64, |_| false)
    }

    /// The value of a bool key.
    pub fn bool(&self, key: &str) -> Result<bool> {
        self.typed(key, "bool", Value::as_bool, |_| false)
    }

    /// The value of an array key.
    pub fn array(&self, key: &str) -> Result<Array<'a>> {
        self.typed(key, "array", Value::as_array, |_| false)
    }
}

/// One metadata entry of a file.
#[derive(Clone, Copy, Debug)]
pub struct Entry<'a> {
    record: &'a MetadataEntry,
    bytes: &'a [u8],
    encoding: Encoding,
}

impl<'a> Entry<'a> {
    /// The key.
    pub fn key(&self) -> RawStr<'a> {
        RawStr::new(self.record.key.of(self.bytes))
    }

    /// The type of the value.
    pub fn value_type(&self) -> ValueType {
        self.record.value_type
    }

    /// The value, decoded. Fails only when the bytes changed since they were parsed.
    pub fn value(&self) -> Result<Value<'a>> {
        let bytes = self.value_bytes();
        let changed = || {
            Error::new(ErrorKind::Malformed, Detail::Changed)
                .at(self.value_offset())
                .key(self.key().as_bytes())
        };
        if self.record.value_type == ValueType::ARRAY {
            return Array::over(bytes, self.encoding).map(Value::Array).map_err(|_| changed());
        }
        let mut cursor = Cursor::new(bytes, 0, bytes.len() as u64, self.encoding);
        match Value::decode(self.record.value_type, &mut cursor, self.encoding) {
            Ok(value) if cursor.remain() == 0 => Ok(value),
            _ => Err(changed()),
        }
    }

    /// The bytes of the value as they are in the file: for a string its length and bytes, for an
    /// array its element type, count and elements.
    pub fn value_bytes(&self) -> &'a [u8] {
        self.record.value.of(self.bytes)
    }

    /// The bytes of the value, where they are those of the encoding in which values are kept;
    /// single bytes always are.
    pub(crate) fn canonical_bytes(&self) -> Option<&'a [u8]> {
        (self.encoding == Encoding::CANONICAL || self.value_type().fixed_size() == Some(1))
            .then(|| self.value_bytes())
    }

    /// Where the key's length is in the file.
    pub fn offset(&self) -> u64 {
        self.record.key.start.saturating_sub(self.encoding.length_size())
    }

    /// Where the value is in the file.
    pub fn value_offset(&self) -> u64 {
        self.record.value.start
    }
}
