//! Metadata values as views of the file: nothing is copied, and arrays are decoded element by element.

use crate::Endian;
use crate::bytes::{Cursor, Encoding, Stop};
use crate::error::{Detail, Error, ErrorKind, Result};
use crate::{RawStr, ValueType};

/// One metadata value, borrowed from the file.
///
/// ```
/// use ggmill_core::{MetadataBuf, Value};
/// let mut metadata = MetadataBuf::new();
/// metadata.set("answer", 42u16);
/// let value = metadata.get("answer").ok_or("present")?;
/// assert_eq!(value, Value::U16(42));
/// // Integers of any width answer any integer accessor they fit.
/// assert_eq!((value.as_u64(), value.as_i64(), value.as_u32()), (Some(42), Some(42), Some(42)));
/// # Ok::<(), &str>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
#[expect(missing_docs, reason = "each variant is its type")]
pub enum Value<'a> {
    U8(u8),
    I8(i8),
    U16(u16),
    I16(i16),
    U32(u32),
    I32(i32),
    U64(u64),
    I64(i64),
    F32(f32),
    F64(f64),
    /// Any byte but 0 is true, as in the C reader.
    Bool(bool),
    Str(RawStr<'a>),
    Array(Array<'a>),
}

impl<'a> Value<'a> {
    /// Returns the type of the value.
    pub fn value_type(&self) -> ValueType {
        match self {
            Self::U8(_) => ValueType::U8,
            Self::I8(_) => ValueType::I8,
            Self::U16(_) => ValueType::U16,
            Self::I16(_) => ValueType::I16,
            Self::U32(_) => ValueType::U32,
            Self::I32(_) => ValueType::I32,
            Self::U64(_) => ValueType::U64,
            Self::I64(_) => ValueType::I64,
            Self::F32(_) => ValueType::F32,
            Self::F64(_) => ValueType::F64,
            Self::Bool(_) => ValueType::BOOL,
            Self::Str(_) => ValueType::STRING,
            Self::Array(_) => ValueType::ARRAY,
        }
    }

    /// Returns the value of an integer of any type.
    pub fn as_i128(&self) -> Option<i128> {
        Some(match *self {
            Self::U8(v) => v.into(),
            Self::I8(v) => v.into(),
            Self::U16(v) => v.into(),
            Self::I16(v) => v.into(),
            Self::U32(v) => v.into(),
            Self::I32(v) => v.into(),
            Self::U64(v) => v.into(),
            Self::I64(v) => v.into(),
            _ => return None,
        })
    }

    /// Returns the value of an integer of any type, if it fits in a `u64`.
    pub fn as_u64(&self) -> Option<u64> {
        self.as_i128()?.try_into().ok()
    }

    /// Returns the value of an integer of any type, if it fits in an `i64`.
    pub fn as_i64(&self) -> Option<i64> {
        self.as_i128()?.try_into().ok()
    }

    /// Returns the value of an integer of any type, if it fits in a `u32`.
    pub fn as_u32(&self) -> Option<u32> {
        self.as_i128()?.try_into().ok()
    }

    /// Returns the value of an `f32` or `f64`.
    pub fn as_f64(&self) -> Option<f64> {
        match *self {
            Self::F32(v) => Some(v.into()),
            Self::F64(v) => Some(v),
            _ => None,
        }
    }

    /// Returns the value of a bool.
    pub fn as_bool(&self) -> Option<bool> {
        match *self {
            Self::Bool(v) => Some(v),
            _ => None,
        }
    }

    /// Returns the value of a string.
    pub fn as_raw_str(&self) -> Option<RawStr<'a>> {
        match *self {
            Self::Str(v) => Some(v),
            _ => None,
        }
    }

    /// Returns the value of a string that is UTF-8.
    pub fn as_str(&self) -> Option<&'a str> {
        self.as_raw_str()?.to_str().ok()
    }

    /// Returns the value of an array.
    pub fn as_array(&self) -> Option<Array<'a>> {
        match *self {
            Self::Array(v) => Some(v),
            _ => None,
        }
    }

    /// Decodes one value at the cursor and moves the cursor past it.
    pub(crate) fn decode(
        value_type: ValueType,
        cursor: &mut Cursor<'a>,
        encoding: Encoding,
    ) -> Result<Self, Stop> {
        if value_type == ValueType::STRING {
            return Ok(Self::Str(cursor.string(u64::MAX, "string")?));
        }
        if value_type == ValueType::ARRAY {
            return Ok(Self::Array(Array::decode(cursor, encoding)?));
        }
        let Some(size) = value_type.fixed_size() else {
            return Err(Error::new(
                ErrorKind::Malformed,
                Detail::UnknownValueType { found: value_type.0 },
            )
            .into());
        };
        let bytes = cursor.take(size, "value")?;
        Self::from_bytes(value_type, bytes, encoding).ok_or_else(|| changed().into())
    }

    /// Decodes a value of fixed size from exactly its bytes.
    fn from_bytes(value_type: ValueType, bytes: &[u8], encoding: Encoding) -> Option<Self> {
        let endian = encoding.endian;
        Some(match value_type {
            ValueType::U8 => Self::U8(u8::from_le_bytes(bytes.try_into().ok()?)),
            ValueType::I8 => Self::I8(i8::from_le_bytes(bytes.try_into().ok()?)),
            ValueType::BOOL => Self::Bool(u8::from_le_bytes(bytes.try_into().ok()?) != 0),
            ValueType::U16 => Self::U16(endian.u16(bytes.try_into().ok()?)),
            ValueType::I16 => Self::I16(endian.i16(bytes.try_into().ok()?)),
            ValueType::U32 => Self::U32(endian.u32(bytes.try_into().ok()?)),
            ValueType::I32 => Self::I32(endian.i32(bytes.try_into().ok()?)),
            ValueType::U64 => Self::U64(endian.u64(bytes.try_into().ok()?)),
            ValueType::I64 => Self::I64(endian.i64(bytes.try_into().ok()?)),
            ValueType::F32 => Self::F32(endian.f32(bytes.try_into().ok()?)),
            ValueType::F64 => Self::F64(endian.f64(bytes.try_into().ok()?)),
            _ => return None,
        })
    }
}

#[cold]
fn changed() -> Error {
    Error::new(ErrorKind::Malformed, Detail::Changed)
}

/// An array of metadata values of one type: a view of its bytes, decoded element by element.
///
/// ```
/// use ggmill_core::MetadataBuf;
/// let mut metadata = MetadataBuf::new();
/// metadata.set("tokenizer.ggml.tokens", ["<s>", "a", "b"].as_slice());
/// let tokens = metadata.get("tokenizer.ggml.tokens").and_then(|value| value.as_array()).ok_or("an array")?;
/// assert_eq!(tokens.len(), 3);
/// for token in tokens.strings().ok_or("of strings")? {
///     println!("{}", token.map_err(|_| "whole")?);
/// }
/// # Ok::<(), &str>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Array<'a> {
    element: ValueType,
    len: u64,
    /// The bytes of the elements. They can extend past the last string or array, as only decoding
    /// all elements finds the end.
    bytes: &'a [u8],
    encoding: Encoding,
}

impl<'a> Array<'a> {
    /// Decodes an array at the cursor and moves the cursor past its elements, without recursion for
    /// nested arrays.
    fn decode(cursor: &mut Cursor<'a>, encoding: Encoding) -> Result<Self, Stop> {
        let element = cursor.value_type()?;
        let len = cursor.length("array length")?;
        let start = *cursor;
        skip_elements(cursor, element, len)?;
        let size = cursor.position().saturating_sub(start.position());
        let bytes = start.clone().take(size, "array")?;
        Ok(Self { element, len, bytes, encoding })
    }

    /// Decodes an array from exactly the bytes of its value: element type, length, elements. The
    /// parser has checked the elements, so they are only checked again when they are read.
    pub(crate) fn from_bytes(bytes: &'a [u8], encoding: Encoding) -> Result<Self> {
        let mut cursor = Cursor::new(bytes, 0, bytes.len() as u64, encoding);
        let head = |cursor: &mut Cursor<'a>| {
            Ok::<_, Stop>((cursor.value_type()?, cursor.length("array length")?))
        };
        let (element, len) = head(&mut cursor).map_err(|_| changed())?;
        let elements = usize::try_from(cursor.position())
            .ok()
            .and_then(|start| bytes.get(start..))
            .unwrap_or_default();
        let fits = match element.fixed_size() {
            Some(size) => len.checked_mul(size) == Some(elements.len() as u64),
            // Each string or array has at least a length. Reading the elements checks the rest.
            None => len
                .checked_mul(encoding.length_size())
                .is_some_and(|least| least <= elements.len() as u64),
        };
        if fits { Ok(Self { element, len, bytes: elements, encoding }) } else { Err(changed()) }
    }

    /// Returns the type of the elements.
    pub fn element_type(&self) -> ValueType {
        self.element
    }

    /// Returns the number of elements.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Returns `true` if there are no elements. An empty array has an element type too.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the bytes of the elements as stored in the file.
    pub fn as_bytes(&self) -> &'a [u8] {
        self.bytes
    }

    pub(crate) fn encoding(&self) -> Encoding {
        self.encoding
    }

    /// Returns an iterator over the elements. An item is an error only if the bytes have changed since
    /// they were parsed; it is the last item.
    pub fn iter(&self) -> Elements<'a> {
        Elements {
            cursor: Cursor::new(self.bytes, 0, self.bytes.len() as u64, self.encoding),
            element: self.element,
            left: self.len,
            encoding: self.encoding,
        }
    }

    /// Returns the element at `index`, or `None` if there is none.
    ///
    /// Takes constant time for numbers and bools, but time proportional to `index` for strings and
    /// arrays, which have different lengths: use [`iter`](Self::iter) or [`strings`](Self::strings) to
    /// read several of them.
    pub fn get(&self, index: u64) -> Option<Result<Value<'a>>> {
        if index >= self.len {
            return None;
        }
        if let Some(size) = self.element.fixed_size() {
            let start = usize::try_from(index.checked_mul(size)?).ok()?;
            let bytes = self.bytes.get(start..)?.get(..usize::try_from(size).ok()?)?;
            return Value::from_bytes(self.element, bytes, self.encoding).map(Ok);
        }
        self.iter().nth(usize::try_from(index).ok()?)
    }

    /// Returns an iterator over the elements of an array of strings, or `None` for other arrays. It
    /// needs a tenth of the time of [`iter`](Self::iter).
    pub fn strings(&self) -> Option<Strings<'a>> {
        (self.element == ValueType::STRING).then_some(Strings {
            rest: self.bytes,
            left: self.len,
            encoding: self.encoding,
        })
    }

    /// Returns an iterator over the elements of an array of `f32` or `f64`, or `None` for other arrays.
    pub fn floats(&self) -> Option<impl Iterator<Item = f64> + use<'a>> {
        let (size, endian) =
            (usize::try_from(self.element.fixed_size()?).ok()?, self.encoding.endian);
        // Not through `Value`, which is slower: vocabularies have a score for every token.
        let float = move |bytes: &[u8]| match bytes.first_chunk() {
            Some(bytes) => endian.f64(*bytes),
            None => bytes.first_chunk().map_or(f64::NAN, |bytes| f64::from(endian.f32(*bytes))),
        };
        matches!(self.element, ValueType::F32 | ValueType::F64)
            .then(|| self.bytes.chunks_exact(size).map(float))
    }

    /// Returns an iterator over the elements of an array of integers, or `None` for other arrays.
    pub fn integers(&self) -> Option<impl Iterator<Item = i128> + use<'a>> {
        self.element.is_integer().then(|| self.fixed().filter_map(|value| value.as_i128()))
    }

    /// Returns an iterator over the elements of an array whose elements have a fixed size.
    fn fixed(&self) -> impl Iterator<Item = Value<'a>> + use<'a> {
        let (element, encoding) = (self.element, self.encoding);
        let size = element.fixed_size().and_then(|size| usize::try_from(size).ok()).unwrap_or(1);
        self.bytes
            .chunks_exact(size)
            .filter_map(move |bytes| Value::from_bytes(element, bytes, encoding))
    }
}

impl PartialEq for Array<'_> {
    /// Compares element types, lengths and decoded elements, regardless of byte order. NaN is not
    /// equal to itself.
    fn eq(&self, other: &Self) -> bool {
        self.element == other.element
            && self.len == other.len
            && self.iter().zip(other.iter()).all(|pair| matches!(pair, (Ok(a), Ok(b)) if a == b))
    }
}

impl<'a> IntoIterator for &Array<'a> {
    type Item = Result<Value<'a>>;
    type IntoIter = Elements<'a>;
    fn into_iter(self) -> Elements<'a> {
        self.iter()
    }
}

/// The iterator over the elements of an [`Array`].
#[derive(Clone, Debug)]
pub struct Elements<'a> {
    cursor: Cursor<'a>,
    element: ValueType,
    left: u64,
    encoding: Encoding,
}

impl<'a> Iterator for Elements<'a> {
    type Item = Result<Value<'a>>;

    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        let element = Value::decode(self.element, &mut self.cursor, self.encoding);
        Some(element.map_err(|_| {
            self.left = 0;
            changed()
        }))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (0, usize::try_from(self.left).ok())
    }
}

/// The iterator over the elements of an [`Array`] of strings. It does not create a [`Value`] for each: a string depends
/// only on the length of the previous one.
#[derive(Clone, Debug)]
pub struct Strings<'a> {
    rest: &'a [u8],
    left: u64,
    encoding: Encoding,
}

impl<'a> Iterator for Strings<'a> {
    type Item = Result<RawStr<'a>>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        let found = match (self.encoding.wide, self.encoding.endian) {
            (true, Endian::Little) => split_string(self.rest, u64::from_le_bytes),
            (true, Endian::Big) => split_string(self.rest, u64::from_be_bytes),
            (false, Endian::Little) => {
                split_string(self.rest, |bytes: [u8; 4]| u64::from(u32::from_le_bytes(bytes)))
            }
            (false, Endian::Big) => {
                split_string(self.rest, |bytes: [u8; 4]| u64::from(u32::from_be_bytes(bytes)))
            }
        };
        let Some((text, rest)) = found else {
            self.left = 0;
            return Some(Err(changed()));
        };
        self.rest = rest;
        Some(Ok(RawStr::new(text)))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (0, usize::try_from(self.left).ok())
    }
}

/// Splits off the string at the beginning of the bytes.
#[inline]
fn split_string<const N: usize>(
    bytes: &[u8],
    length: impl Fn([u8; N]) -> u64,
) -> Option<(&[u8], &[u8])> {
    let (prefix, tail) = bytes.split_first_chunk::<N>()?;
    tail.split_at_checked(usize::try_from(length(*prefix)).ok()?)
}

/// Moves the cursor past `count` elements, nested arrays included. Depth uses heap, not stack.
fn skip_elements(cursor: &mut Cursor<'_>, element: ValueType, count: u64) -> Result<(), Stop> {
    let mut skip = ArraySkip::default();
    skip.enter(element, count);
    skip.advance(cursor, u64::MAX, u64::MAX, u32::MAX)
}

/// The element types and remaining counts of the arrays that are being skipped, outermost first. They
/// persist when the available bytes end, so that skipping resumes there.
#[derive(Clone, Debug, Default)]
pub(crate) struct ArraySkip(alloc::vec::Vec<(ValueType, u64)>);

impl ArraySkip {
    pub(crate) fn enter(&mut self, element: ValueType, count: u64) {
        self.0.push((element, count));
    }

    /// Moves the cursor to the end of the outermost array. On an error, the cursor is after the last
    /// complete element.
    pub(crate) fn advance(
        &mut self,
        cursor: &mut Cursor<'_>,
        string_limit: u64,
        element_limit: u64,
        depth_limit: u32,
    ) -> Result<(), Stop> {
        loop {
            let depth = self.0.len().saturating_add(1);
            let Some((element, left)) = self.0.last_mut() else { return Ok(()) };
            if *left == 0 {
                self.0.pop();
            } else if let Some(size) = element.fixed_size() {
                let bytes = left.checked_mul(size).unwrap_or(u64::MAX);
                cursor.take(bytes, "array")?;
                *left = 0;
            } else if *element == ValueType::STRING {
                let (skipped, result) = cursor.skip_strings(*left, string_limit);
                *left = left.saturating_sub(skipped);
                result?;
            } else {
                let mut ahead = *cursor;
                let (inner, count) = array_head(&mut ahead, element_limit)?;
                // Nothing has changed before this check, so resuming fails here again.
                if depth > depth_limit as usize {
                    let limit = u64::from(depth_limit);
                    return Err(Error::new(
                        ErrorKind::Limit,
                        Detail::Limit { what: "array depth", found: depth as u64, limit },
                    )
                    .at(cursor.position())
                    .into());
                }
                *left = left.saturating_sub(1);
                *cursor = ahead;
                self.enter(inner, count);
            }
        }
    }
}

/// Reads the element type and count of an array. Fails if the remaining bytes cannot hold the
/// elements.
pub(crate) fn array_head(
    cursor: &mut Cursor<'_>,
    element_limit: u64,
) -> Result<(ValueType, u64), Stop> {
    let start = cursor.position();
    let element = cursor.value_type()?;
    let count = cursor.length("array length")?;
    // The least bytes of an element: its fixed size, or the length of a string, which is also less
    // than the type and length of an array.
    let least = element.fixed_size().unwrap_or(4);
    cursor.check_room("array elements", count, least).map_err(|error| error.at(start))?;
    if count > element_limit {
        return Err(Error::new(
            ErrorKind::Limit,
            Detail::Limit { what: "array elements", found: count, limit: element_limit },
        )
        .at(start)
        .into());
    }
    Ok((element, count))
}
