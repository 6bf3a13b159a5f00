//! Metadata values of a file as Python objects, and Python objects as metadata values.

use ggmill::core::ToValue;
use ggmill::{RawStr, Value, ValueType};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyString};

use crate::error::{Failure, Result};

/// Arrays within arrays that are followed: deeper ones are refused.
const DEPTH: usize = 64;

/// A value as the Python object of its type; arrays as lists.
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
            if depth >= DEPTH {
                let message = format!("arrays nested deeper than {DEPTH}");
                return Err(Failure::new("limit", message));
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
        _ => return Err(Failure::new("unsupported", "a value of unknown type")),
    })
}

/// Text of a file. Bytes that are not UTF-8 become lone surrogates, as in the names of files, and
/// can be written again as they were.
pub(crate) fn string<'py>(py: Python<'py>, text: RawStr<'_>) -> Result<Bound<'py, PyAny>> {
    if let Ok(text) = text.to_str() {
        return Ok(PyString::new(py, text).into_any());
    }
    let bytes = PyBytes::new(py, text.as_bytes());
    Ok(bytes.call_method1("decode", ("utf-8", "surrogateescape"))?)
}

/// The bytes of a `str` or `bytes`; lone surrogates are the bytes that they stand for.
pub(crate) fn bytes_of(given: &Bound<'_, PyAny>) -> Result<Vec<u8>> {
    if let Ok(text) = given.cast::<PyString>() {
        if let Ok(text) = text.to_cow() {
            return Ok(text.as_bytes().to_vec());
        }
        let encoded = given.call_method1("encode", ("utf-8", "surrogateescape"))?;
        return Ok(encoded.extract::<Vec<u8>>()?);
    }
    if let Ok(bytes) = given.cast::<PyBytes>() {
        return Ok(bytes.as_bytes().to_vec());
    }
    Err(Failure::misuse(format!("{}, expected str or bytes", type_name(given))))
}

fn type_name(given: &Bound<'_, PyAny>) -> String {
    given.get_type().name().map_or_else(|_| "an object".to_owned(), |name| name.to_string())
}

/// A metadata value that Python gave: its type, and its bytes as a file has them.
pub(crate) struct Given {
    value_type: ValueType,
    bytes: Vec<u8>,
}

impl ToValue for Given {
    fn value_type(&self) -> ValueType {
        self.value_type
    }

    fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.bytes);
    }
}

impl Given {
    /// A value of this type: `[4]` is `u32`, `[9, 8]` an array of strings, `[9, 9, 4]` an array of
    /// arrays.
    pub(crate) fn new(types: &[u32], value: &Bound<'_, PyAny>) -> Result<Self> {
        let [first, ..] = *types else {
            return Err(Failure::misuse("a value without a type"));
        };
        if types.len() > DEPTH {
            return Err(Failure::misuse(format!("arrays nested deeper than {DEPTH}")));
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
        Failure::new("wrong_type", format!("{shown} is not a {}", ValueType(first)))
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
            return Err(Failure::new("unsupported", message));
        }
    }
    Ok(())
}
