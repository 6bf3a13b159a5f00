//! One metadata value as bytes for other programs: nothing quoted, nothing escaped.

use std::fmt;

use ggmill_core::Value;

/// A value as it is: the bytes of a string, without a line break after them; a number or bool on a
/// line; the elements of an array, one per line.
///
/// An edit that reads such a file gets the same value. Fails for arrays whose elements are not one
/// line each.
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
        None => line(value, &mut bytes).ok_or(RawValueError::Nested)?,
        Some(array) => {
            for (index, element) in (0..).zip(array.iter()) {
                let element = element.map_err(RawValueError::Unreadable)?;
                if let Some(text) = element.as_raw_str()
                    && text.as_bytes().iter().any(|byte| matches!(byte, b'\n' | b'\r'))
                {
                    return Err(RawValueError::LineBreak { index });
                }
                line(&element, &mut bytes).ok_or(RawValueError::Nested)?;
            }
        }
    }
    Ok(bytes)
}

/// A value and a line break; `None` for an array.
fn line(value: &Value<'_>, bytes: &mut Vec<u8>) -> Option<()> {
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

/// Why a value has no form of one line for each element.
#[derive(Debug)]
#[non_exhaustive]
pub enum RawValueError {
    /// It is an array of arrays.
    Nested,
    /// This element, from 0, is a string with a line break.
    LineBreak {
        /// Its index.
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
