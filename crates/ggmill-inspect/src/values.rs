//! Metadata values for other programs: JSON without loss of information, and raw bytes.

use std::fmt;

use ggmill_core::{Array, Value};
use ggmill_text::LosslessStr;
use serde::Serialize;
use serde::ser::{Error as _, SerializeMap as _, SerializeSeq as _, Serializer};

/// The maximum number of elements that are written of an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ElementLimit(pub(crate) u64);

/// A value in JSON. An array is an object, whose fields a metadata entry contains directly.
pub(crate) struct LosslessValue<'a>(pub(crate) Value<'a>, pub(crate) ElementLimit);

impl Serialize for LosslessValue<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Value::U8(v) => serializer.serialize_u8(v),
            Value::I8(v) => serializer.serialize_i8(v),
            Value::U16(v) => serializer.serialize_u16(v),
            Value::I16(v) => serializer.serialize_i16(v),
            Value::U32(v) => serializer.serialize_u32(v),
            Value::I32(v) => serializer.serialize_i32(v),
            Value::U64(v) => serializer.serialize_u64(v),
            Value::I64(v) => serializer.serialize_i64(v),
            Value::F32(v) if v.is_finite() => serializer.serialize_f32(v),
            Value::F32(v) => serialize_non_finite(
                f64::from(v),
                &format_args!("{:#010x}", v.to_bits()),
                serializer,
            ),
            Value::F64(v) if v.is_finite() => serializer.serialize_f64(v),
            Value::F64(v) => {
                serialize_non_finite(v, &format_args!("{:#018x}", v.to_bits()), serializer)
            }
            Value::Bool(v) => serializer.serialize_bool(v),
            Value::Str(v) => LosslessStr(v).serialize(serializer),
            Value::Array(array) => {
                let mut object = serializer.serialize_map(None)?;
                serialize_array_entries::<S>(&mut object, array, self.1)?;
                object.end()
            }
            _ => Err(S::Error::custom("a value of a type that this version does not support")),
        }
    }
}

fn serialize_non_finite<S: Serializer>(
    number: f64,
    bits: &std::fmt::Arguments<'_>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let name = match number {
        f64::INFINITY => "Infinity",
        f64::NEG_INFINITY => "-Infinity",
        _ => "NaN",
    };
    let mut object = serializer.serialize_map(Some(2))?;
    object.serialize_entry("float", name)?;
    object.serialize_entry("bits", bits)?;
    object.end()
}

/// Writes the fields `type`, `element`, `length` and `value` of an array, and `truncated` if elements
/// are left out.
pub(crate) fn serialize_array_entries<S: Serializer>(
    object: &mut S::SerializeMap,
    array: Array<'_>,
    limit: ElementLimit,
) -> Result<(), S::Error> {
    object.serialize_entry("type", "array")?;
    object.serialize_entry("element", array.element_type().name().unwrap_or("unknown"))?;
    object.serialize_entry("length", &array.len())?;
    object.serialize_entry("value", &LosslessElements(array, limit))?;
    if array.len() > limit.0 {
        object.serialize_entry("truncated", &true)?;
    }
    Ok(())
}

/// The elements of an array, decoded while they are written.
struct LosslessElements<'a>(Array<'a>, ElementLimit);

impl Serialize for LosslessElements<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut sequence = serializer.serialize_seq(None)?;
        let mut remaining = self.1.0;
        for element in &self.0 {
            let Some(rest) = remaining.checked_sub(1) else { break };
            remaining = rest;
            sequence
                .serialize_element(&LosslessValue(element.map_err(S::Error::custom)?, self.1))?;
        }
        sequence.end()
    }
}

/// Returns a value without quoting or escaping: the bytes of a string without a final line break, a
/// number or bool on a line, or the elements of an array, one per line.
///
/// An edit that reads the result restores the value. Fails for nested arrays and for strings in arrays
/// that contain line breaks.
///
/// ```
/// use ggmill_core::Value;
/// assert_eq!(ggmill_inspect::raw_value(&Value::U32(4096))?, b"4096\n");
/// # Ok::<(), ggmill_inspect::RawValueError>(())
/// ```
pub fn raw_value(value: &Value<'_>) -> Result<Vec<u8>, RawValueError> {
    if let Some(text) = value.as_raw_str() {
        return Ok(text.as_bytes().to_vec());
    }
    let mut bytes = Vec::new();
    match value.as_array() {
        None => push_line(value, &mut bytes).ok_or(RawValueError::Nested)?,
        Some(array) => {
            for (index, element) in (0..).zip(array.iter()) {
                let element = element.map_err(RawValueError::Unreadable)?;
                if let Some(text) = element.as_raw_str()
                    && text.as_bytes().iter().any(|byte| matches!(byte, b'\n' | b'\r'))
                {
                    return Err(RawValueError::LineBreak { index });
                }
                push_line(&element, &mut bytes).ok_or(RawValueError::Nested)?;
            }
        }
    }
    Ok(bytes)
}

/// Appends a value and a line break; `None` for an array.
fn push_line(value: &Value<'_>, bytes: &mut Vec<u8>) -> Option<()> {
    match *value {
        Value::Bool(value) => bytes.extend_from_slice(value.to_string().as_bytes()),
        Value::F32(value) => bytes.extend_from_slice(format!("{value:?}").as_bytes()),
        Value::F64(value) => bytes.extend_from_slice(format!("{value:?}").as_bytes()),
        ref other => match other.as_raw_str() {
            Some(text) => bytes.extend_from_slice(text.as_bytes()),
            None => bytes.extend_from_slice(other.as_i128()?.to_string().as_bytes()),
        },
    }
    bytes.push(b'\n');
    Some(())
}

/// Why a value cannot be written with one line per element.
#[derive(Debug)]
#[non_exhaustive]
pub enum RawValueError {
    /// The value is an array of arrays.
    Nested,
    /// An element is a string with a line break.
    LineBreak {
        /// The index of the element, from 0.
        index: u64,
    },
    /// An element cannot be read.
    Unreadable(ggmill_core::Error),
}

impl fmt::Display for RawValueError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nested => f.write_str("is an array of arrays, expected one element per line"),
            Self::LineBreak { index } => {
                write!(f, "element {index} has a line break, expected one element per line")
            }
            Self::Unreadable(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for RawValueError {}
