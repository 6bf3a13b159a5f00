use alloc::string::String;
use alloc::vec::Vec;

use crate::bytes::Encoding;
use crate::endian::Endian;
use crate::value::Elements;
use crate::{Array, RawStr, Value, ValueType};

/// Something that can be a metadata value: Rust's numbers, `bool`, strings and bytes, slices and
/// vectors of them, and [`Value`]s read from a file.
///
/// ```
/// use ggmill_core::{MetadataBuf, ToValue, ValueType};
/// assert_eq!(7u16.value_type(), ValueType::U16);
/// assert_eq!("text".value_type(), ValueType::STRING);
/// assert_eq!([1.0f32, 2.0].as_slice().value_type(), ValueType::ARRAY);
/// ```
pub trait ToValue {
    /// The type it is written with.
    fn value_type(&self) -> ValueType;

    /// Appends the value as version 3 writes it, in little-endian order: for a string its length
    /// and bytes, for an array its element type, length and elements.
    fn encode(&self, out: &mut Vec<u8>);
}

/// A number, string or bool that can be an element of a homogeneous slice.
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

/// An element standing alone. `&str` is not among them: `str` is, and a reference to it.
macro_rules! alone {
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

alone! { u8 i8 u16 i16 u32 i32 u64 i64 f32 f64 bool String RawStr<'_> }

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

/// Appends an array, nested ones without recursion. Elements lost to a file that changed meanwhile
/// are left out; the reader of the result will say so.
fn put_array(array: &Array<'_>, encoding: Encoding, out: &mut Vec<u8>) {
    put_array_head(array, encoding, out);
    // Bytes that need no reordering are copied whole.
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
