//! Values in JSON without losing a bit: what JSON cannot say becomes an object that can.

use ggmill_core::{Array, Value};
use ggmill_text::LosslessStr;
use serde::Serialize;
use serde::ser::{Error as _, SerializeMap as _, SerializeSeq as _, Serializer};

/// How many elements of an array are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ElementLimit(pub(crate) u64);

/// A value for JSON. An array is the object of its parts, which a metadata entry flattens into
/// itself.
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

/// Writes `type`, `element`, `length`, `value` and, where elements are left out, `truncated` into
/// an object.
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

/// The elements of an array, decoded as they are written.
struct LosslessElements<'a>(Array<'a>, ElementLimit);

impl Serialize for LosslessElements<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut sequence = serializer.serialize_seq(None)?;
        let mut left = self.1.0;
        for element in &self.0 {
            let Some(less) = left.checked_sub(1) else { break };
            left = less;
            sequence
                .serialize_element(&LosslessValue(element.map_err(S::Error::custom)?, self.1))?;
        }
        sequence.end()
    }
}
