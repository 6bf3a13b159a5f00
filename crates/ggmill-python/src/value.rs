//! Metadata values as Python objects, and back.

use ggmill::core::ToValue;
use ggmill::{RawStr, Value, ValueType};
use numpy::{PyArray1, PyReadonlyArray1};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyString};

use crate::error::{Class, Failure, Result};
use crate::memory::contiguous;

/// The maximum nesting depth of arrays.
const MAX_DEPTH: usize = 64;

/// Converts a value to a Python object, and arrays to lists.
pub(crate) fn object<'py>(
    py: Python<'py>,
    value: &Value<'_>,
    depth: usize,
) -> Result<Bound<'py, PyAny>> {
    Ok(match *value {
        Value::U8(value) => value.into_pyobject(py).map(Bound::into_any)?,
        Value::I8(value) => value.into_pyobject(py).map(Bound::into_any)?,
        Value::U16(value) => value.into_pyobject(py).map(Bound::into_any)?,
        Value::I16(value) => value.into_pyobject(py).map(Bound::into_any)?,
        Value::U32(value) => value.into_pyobject(py).map(Bound::into_any)?,
        Value::I32(value) => value.into_pyobject(py).map(Bound::into_any)?,
        Value::U64(value) => value.into_pyobject(py).map(Bound::into_any)?,
        Value::I64(value) => value.into_pyobject(py).map(Bound::into_any)?,
        Value::F32(value) => f64::from(value).into_pyobject(py).map(Bound::into_any)?,
        Value::F64(value) => value.into_pyobject(py).map(Bound::into_any)?,
        Value::Bool(value) => value.into_pyobject(py)?.to_owned().into_any(),
        Value::Str(text) => string(py, text)?,
        Value::Array(ref array) => {
            if depth >= MAX_DEPTH {
                let message = format!("arrays nested deeper than {MAX_DEPTH}");
                return Err(Failure::limit(message));
            }
            let list = PyList::empty(py);
            match array.strings() {
                Some(texts) => {
                    for text in texts {
                        list.append(string(py, text?)?)?;
                    }
                }
                None => {
                    for element in array {
                        list.append(object(py, &element?, depth + 1)?)?;
                    }
                }
            }
            list.into_any()
        }
        _ => return Err(Failure::unsupported("a value of unknown type")),
    })
}

/// Converts text of a file to a `str`. Invalid bytes become lone surrogates, as in file names, so that
/// they can be written back unchanged.
pub(crate) fn string<'py>(py: Python<'py>, text: RawStr<'_>) -> Result<Bound<'py, PyAny>> {
    if let Ok(text) = text.to_str() {
        return Ok(PyString::new(py, text).into_any());
    }
    let bytes = PyBytes::new(py, text.as_bytes());
    Ok(bytes.call_method1("decode", ("utf-8", "surrogateescape"))?)
}

/// Returns the bytes of a `str` or `bytes`. Lone surrogates become the bytes that they represent.
pub(crate) fn bytes_of(object: &Bound<'_, PyAny>) -> Result<Vec<u8>> {
    if let Ok(text) = object.cast::<PyString>() {
        if let Ok(text) = text.to_cow() {
            return Ok(text.as_bytes().to_vec());
        }
        let encoded = object.call_method1("encode", ("utf-8", "surrogateescape"))?;
        return Ok(encoded.extract::<Vec<u8>>()?);
    }
    if let Ok(bytes) = object.cast::<PyBytes>() {
        return Ok(bytes.as_bytes().to_vec());
    }
    let name = object.get_type().name();
    let name = name.map_or_else(|_| "an object".to_owned(), |name| name.to_string());
    Err(Failure::misuse(format!("{name}, expected str or bytes")))
}

/// A Python object encoded as a metadata value.
pub(crate) struct EncodedValue {
    value_type: ValueType,
    bytes: Vec<u8>,
}

impl ToValue for EncodedValue {
    fn value_type(&self) -> ValueType {
        self.value_type
    }

    fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.bytes);
    }
}

impl EncodedValue {
    /// Encodes a value. `types` are the numbers of its type and, for an array, of its element types:
    /// `[4]` is `u32`, `[9, 8]` an array of strings, `[9, 9, 4]` an array of arrays of `u32`.
    pub(crate) fn new(types: &[u32], value: &Bound<'_, PyAny>) -> Result<Self> {
        let [first, ..] = *types else {
            return Err(Failure::misuse("a value without a type"));
        };
        if types.len() > MAX_DEPTH {
            return Err(Failure::misuse(format!("arrays nested deeper than {MAX_DEPTH}")));
        }
        let mut bytes = Vec::new();
        encode(types, value, &mut bytes)?;
        Ok(Self { value_type: ValueType(first), bytes })
    }
}

fn encode(types: &[u32], value: &Bound<'_, PyAny>, out: &mut Vec<u8>) -> Result<()> {
    let Some((&first, inner)) = types.split_first() else {
        return Err(Failure::misuse("an array without the type of its elements"));
    };
    let refused = |_: PyErr| {
        let value = value.repr().map(|text| text.to_string()).unwrap_or_default();
        let shown: String = value.chars().take(40).collect();
        let message = format!("{shown} is not a {}", ValueType(first));
        Failure::new(Class::FormatError, "wrong_type", message)
    };
    macro_rules! number {
        ($rust:ty) => {
            <$rust>::encode(&value.extract::<$rust>().map_err(refused)?, out)
        };
    }
    match ValueType(first) {
        ValueType::U8 => number!(u8),
        ValueType::I8 => number!(i8),
        ValueType::U16 => number!(u16),
        ValueType::I16 => number!(i16),
        ValueType::U32 => number!(u32),
        ValueType::I32 => number!(i32),
        ValueType::U64 => number!(u64),
        ValueType::I64 => number!(i64),
        ValueType::F32 => number!(f32),
        ValueType::F64 => number!(f64),
        ValueType::BOOL => value.is_truthy()?.encode(out),
        ValueType::STRING => RawStr::new(&bytes_of(value)?).encode(out),
        ValueType::ARRAY => {
            let element = inner.first().copied().unwrap_or_default();
            out.extend_from_slice(&element.to_le_bytes());
            let place = out.len();
            out.extend_from_slice(&[0; 8]);
            let mut count = 0u64;
            for element in value.try_iter()? {
                encode(inner, &element?, out)?;
                count += 1;
            }
            if let Some(length) = out.get_mut(place..place + 8) {
                length.copy_from_slice(&count.to_le_bytes());
            }
        }
        other => {
            let message = format!("{other} is not a metadata value type");
            return Err(Failure::unsupported(message));
        }
    }
    Ok(())
}

/// Returns the offsets of `count` consecutive strings in `buffer`, the first of which is at `offset`,
/// and the offset after the last: `count + 1` numbers.
///
/// A string is encoded as its length in 64 bits, followed by its bytes. `buffer` need not be part of an
/// open model.
#[pyfunction]
#[pyo3(signature = (buffer, offset, count, *, big_endian = false))]
pub(crate) fn string_offsets<'py>(
    py: Python<'py>,
    buffer: PyReadonlyArray1<'py, u8>,
    offset: usize,
    count: usize,
    big_endian: bool,
) -> Result<Bound<'py, PyArray1<i64>>> {
    let bytes = contiguous(&buffer)?;
    let number = if big_endian { u64::from_be_bytes } else { u64::from_le_bytes };
    let outside = |at: usize| {
        let message = format!("offset {at:#x}: the string ends after the bytes");
        Failure::new(Class::FormatError, "truncated", message)
    };
    // A string takes at least 8 bytes: a count that is too large allocates no memory.
    if bytes.len().saturating_sub(offset) / 8 < count {
        return Err(outside(offset));
    }
    let mut offsets = Vec::with_capacity(count.saturating_add(1));
    let mut at = offset;
    for _ in 0..count {
        offsets.push(i64::try_from(at).map_err(|_| outside(at))?);
        let length =
            bytes.get(at..).and_then(|rest| rest.first_chunk()).ok_or_else(|| outside(at))?;
        let end = usize::try_from(number(*length)).ok().and_then(|length| {
            at.checked_add(8)?.checked_add(length).filter(|&end| end <= bytes.len())
        });
        at = end.ok_or_else(|| outside(at))?;
    }
    offsets.push(i64::try_from(at).map_err(|_| outside(at))?);
    Ok(PyArray1::from_vec(py, offsets))
}
