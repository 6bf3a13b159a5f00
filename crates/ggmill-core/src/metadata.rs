//! The metadata entries of a file, in order.

use core::slice;

use crate::bytes::{Cursor, Encoding};
use crate::error::{Detail, Error, ErrorKind, Result};
use crate::header::{Index, MetadataEntry};
use crate::{Array, RawStr, Value, ValueType};

/// The metadata of a file: its entries in order, duplicate keys included.
///
/// The typed accessors ([`str`](Self::str), [`u64`](Self::u64), …) fail with
/// [`ErrorKind::Missing`] or [`ErrorKind::WrongType`]. The integer accessors accept integers of any
/// type that fit. Of duplicate keys they use the first entry; [`iter`](Self::iter) and
/// [`all`](Self::all) return every entry.
///
/// ```
/// # use ggmill_core::{Builder, Header, MetadataBuf};
/// # let mut metadata = MetadataBuf::new();
/// # metadata.set("general.architecture", "llama");
/// # metadata.set("llama.block_count", 32u32);
/// # let file = Builder::new().metadata(metadata).plan()?.header().to_vec();
/// let model = Header::parse(&file)?;
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

impl<'a> Metadata<'a> {
    pub(crate) fn new(index: &'a Index, bytes: &'a [u8]) -> Self {
        Self { index, bytes }
    }

    /// Returns the number of entries, duplicate keys included.
    pub fn len(&self) -> usize {
        self.index.entries.len()
    }

    /// Returns `true` if there are no entries.
    pub fn is_empty(&self) -> bool {
        self.index.entries.is_empty()
    }

    /// Returns an iterator over the entries in the order of the file.
    pub fn iter(&self) -> Entries<'a> {
        Entries {
            records: self.index.entries.iter(),
            bytes: self.bytes,
            encoding: self.index.encoding,
        }
    }

    fn entry(&self, number: u32) -> Option<Entry<'a>> {
        let record = self.index.entries.get(usize::try_from(number).ok()?)?;
        Some(Entry { record, bytes: self.bytes, encoding: self.index.encoding })
    }

    /// Returns an iterator over the entries with this key in the order of the file.
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

    /// Returns the first entry with this key.
    pub fn get(&self, key: impl AsRef<[u8]>) -> Option<Entry<'a>> {
        self.all(key.as_ref()).next()
    }

    /// Returns the value of a key, converted by `read`. If that returns `None`, the error says that the
    /// value does not fit if it has an `expected` type, and that its type is wrong otherwise.
    fn typed<T>(
        &self,
        key: &str,
        expected: &'static str,
        read: impl FnOnce(&Value<'a>) -> Option<T>,
        is_expected_type: fn(&Value<'a>) -> bool,
    ) -> Result<T> {
        let entry = self.get(key).ok_or_else(|| {
            Error::new(ErrorKind::Missing, Detail::KeyMissing).key(key.as_bytes())
        })?;
        let value = entry.value()?;
        read(&value).ok_or_else(|| {
            let found = entry.value_type();
            let detail = if is_expected_type(&value) {
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

    /// Returns the value of a string key. Fails if it is not UTF-8.
    pub fn str(&self, key: &str) -> Result<&'a str> {
        let raw = self.raw_str(key)?;
        raw.to_str().map_err(|error| {
            let offset = self.get(key).map_or(0, |entry| entry.value_offset());
            Error::new(ErrorKind::WrongType, Detail::NotUtf8 { valid_up_to: error.valid_up_to() })
                .at(offset)
                .key(key.as_bytes())
        })
    }

    /// Returns the value of a string key, UTF-8 or not.
    pub fn raw_str(&self, key: &str) -> Result<RawStr<'a>> {
        self.typed(key, "string", Value::as_raw_str, |_| false)
    }

    /// Returns the value of a key of any integer type, if it fits in a `u64`.
    pub fn u64(&self, key: &str) -> Result<u64> {
        self.integer(key, "u64", Value::as_u64)
    }

    /// Returns the value of a key of any integer type, if it fits in a `u32`.
    pub fn u32(&self, key: &str) -> Result<u32> {
        self.integer(key, "u32", Value::as_u32)
    }

    /// Returns the value of a key of any integer type, if it fits in an `i64`.
    pub fn i64(&self, key: &str) -> Result<i64> {
        self.integer(key, "i64", Value::as_i64)
    }

    /// Returns the value of an `f32` or `f64` key.
    pub fn f64(&self, key: &str) -> Result<f64> {
        self.typed(key, "float", Value::as_f64, |_| false)
    }

    /// Returns the value of a bool key.
    pub fn bool(&self, key: &str) -> Result<bool> {
        self.typed(key, "bool", Value::as_bool, |_| false)
    }

    /// Returns the value of an array key.
    pub fn array(&self, key: &str) -> Result<Array<'a>> {
        self.typed(key, "array", Value::as_array, |_| false)
    }
}

impl<'a> IntoIterator for Metadata<'a> {
    type Item = Entry<'a>;
    type IntoIter = Entries<'a>;
    fn into_iter(self) -> Entries<'a> {
        self.iter()
    }
}

impl<'a> IntoIterator for &Metadata<'a> {
    type Item = Entry<'a>;
    type IntoIter = Entries<'a>;
    fn into_iter(self) -> Entries<'a> {
        self.iter()
    }
}

/// The iterator over the entries of [`Metadata`].
#[derive(Clone, Debug)]
pub struct Entries<'a> {
    records: slice::Iter<'a, MetadataEntry>,
    bytes: &'a [u8],
    encoding: Encoding,
}

impl<'a> Entries<'a> {
    fn entry(&self, record: &'a MetadataEntry) -> Entry<'a> {
        Entry { record, bytes: self.bytes, encoding: self.encoding }
    }
}

impl<'a> Iterator for Entries<'a> {
    type Item = Entry<'a>;

    fn next(&mut self) -> Option<Entry<'a>> {
        let record = self.records.next()?;
        Some(self.entry(record))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.records.size_hint()
    }
}

impl DoubleEndedIterator for Entries<'_> {
    fn next_back(&mut self) -> Option<Self::Item> {
        let record = self.records.next_back()?;
        Some(self.entry(record))
    }
}

impl ExactSizeIterator for Entries<'_> {}

/// One metadata entry of a file.
#[derive(Clone, Copy, Debug)]
pub struct Entry<'a> {
    record: &'a MetadataEntry,
    bytes: &'a [u8],
    encoding: Encoding,
}

impl<'a> Entry<'a> {
    /// Returns the key.
    pub fn key(&self) -> RawStr<'a> {
        RawStr::new(self.record.key.of(self.bytes))
    }

    /// Returns the type of the value.
    pub fn value_type(&self) -> ValueType {
        self.record.value_type
    }

    /// Decodes the value. Fails only if the bytes have changed since they were parsed.
    pub fn value(&self) -> Result<Value<'a>> {
        let bytes = self.value_bytes();
        let changed = || {
            Error::new(ErrorKind::Malformed, Detail::Changed)
                .at(self.value_offset())
                .key(self.key().as_bytes())
        };
        if self.record.value_type == ValueType::ARRAY {
            return Array::from_bytes(bytes, self.encoding)
                .map(Value::Array)
                .map_err(|_| changed());
        }
        let mut cursor = Cursor::new(bytes, 0, bytes.len() as u64, self.encoding);
        match Value::decode(self.record.value_type, &mut cursor, self.encoding) {
            Ok(value) if cursor.remain() == 0 => Ok(value),
            _ => Err(changed()),
        }
    }

    /// Returns the bytes of the value as stored in the file: for a string its length and bytes, for an
    /// array its element type, count and elements.
    pub fn value_bytes(&self) -> &'a [u8] {
        self.record.value.of(self.bytes)
    }

    /// Returns the bytes of the value if they are the canonical encoding: in a little-endian file of
    /// version 2 or 3, and for values of a single byte.
    pub(crate) fn canonical_bytes(&self) -> Option<&'a [u8]> {
        (self.encoding == Encoding::CANONICAL || self.value_type().fixed_size() == Some(1))
            .then(|| self.value_bytes())
    }

    /// Returns the offset of the entry in the file, which begins with the length of the key.
    pub fn offset(&self) -> u64 {
        self.record.key.start.saturating_sub(self.encoding.length_size())
    }

    /// Returns the offset of the value in the file.
    pub fn value_offset(&self) -> u64 {
        self.record.value.start
    }
}
