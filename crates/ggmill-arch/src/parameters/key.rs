//! Metadata keys: in descriptions, and with their values.

use ggmill_core::keys::GENERAL_FILE_TYPE;
use ggmill_core::{MetadataBuf, ToValue, ValueType};

use crate::data::schema::{RawKey, RawRequired, RawStage};
use crate::error::{Error, Result, SubjectKind};
use crate::language::expression::{Expression, condition, expression};
use crate::value::ParameterValue;

/// A metadata key with its value.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Key {
    /// The full key, such as `llama.block_count`.
    pub name: String,
    /// The value, or [`KeyValue::FileType`] if the writer determines it.
    pub value: KeyValue,
}

/// A metadata value of the type that is written.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
#[expect(missing_docs, reason = "each variant is its type")]
pub enum KeyValue {
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
    Bool(bool),
    Str(String),
    U32Array(Vec<u32>),
    I32Array(Vec<i32>),
    U64Array(Vec<u64>),
    I64Array(Vec<i64>),
    F32Array(Vec<f32>),
    BoolArray(Vec<bool>),
    StrArray(Vec<String>),
    /// A placeholder for `general.file_type`, which the writer determines with the types of the
    /// tensors.
    FileType,
}

impl KeyValue {
    /// Sets the key to this value; `file_type` replaces [`KeyValue::FileType`].
    pub(crate) fn set(&self, name: &str, file_type: u32, metadata: &mut MetadataBuf) {
        let value: &dyn Settable = match self {
            Self::U8(value) => value,
            Self::I8(value) => value,
            Self::U16(value) => value,
            Self::I16(value) => value,
            Self::U32(value) => value,
            Self::I32(value) => value,
            Self::U64(value) => value,
            Self::I64(value) => value,
            Self::F32(value) => value,
            Self::F64(value) => value,
            Self::Bool(value) => value,
            Self::Str(value) => value,
            Self::U32Array(value) => value,
            Self::I32Array(value) => value,
            Self::U64Array(value) => value,
            Self::I64Array(value) => value,
            Self::F32Array(value) => value,
            Self::BoolArray(value) => value,
            Self::StrArray(value) => value,
            Self::FileType => &file_type,
        };
        value.set_in(name, metadata);
    }
}

/// An object-safe form of `MetadataBuf::set`, which takes a sized value.
trait Settable {
    fn set_in(&self, name: &str, metadata: &mut MetadataBuf);
}

impl<T: ToValue> Settable for T {
    fn set_in(&self, name: &str, metadata: &mut MetadataBuf) {
        metadata.set(name, self);
    }
}

/// Returns the full key: descriptions omit the prefix of the architecture. Keys of the format have no
/// such prefix, and llama.cpp writes those of the xIELU activation without it.
pub(crate) fn whole_key(architecture: &str, key: &str) -> Box<str> {
    let whole = ["general.", "tokenizer.", "xielu."].iter().any(|space| key.starts_with(space));
    if whole { key.into() } else { format!("{architecture}.{key}").into() }
}

/// The type that a key is written with: of a single value, of list elements, or both if checkpoints
/// have either.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct KeyType {
    pub(crate) single: Option<ValueType>,
    pub(crate) element: Option<ValueType>,
}

impl KeyType {
    /// Parses `u32`, `[i32]` or `u32 | [i32]`.
    pub(crate) fn parse(text: &str) -> Result<Self> {
        let fault = || {
            Error::description(format!(
                "type {}: expected one such as u32, [f32] or \"u32 | [i32]\"",
                crate::error::quoted(text)
            ))
        };
        let mut key_type = Self { single: None, element: None };
        for part in text.split('|') {
            let part = part.trim();
            let element = part.strip_prefix('[').and_then(|part| part.strip_suffix(']'));
            let value_type = element
                .unwrap_or(part)
                .parse()
                .ok()
                .filter(|value_type| *value_type != ValueType::ARRAY)
                .ok_or_else(fault)?;
            let place =
                if element.is_some() { &mut key_type.element } else { &mut key_type.single };
            if place.replace(value_type).is_some() {
                return Err(fault());
            }
        }
        let elements = [
            ValueType::U32,
            ValueType::I32,
            ValueType::U64,
            ValueType::I64,
            ValueType::F32,
            ValueType::BOOL,
            ValueType::STRING,
        ];
        if key_type.element.is_some_and(|element| !elements.contains(&element)) {
            return Err(fault());
        }
        Ok(key_type)
    }

    /// Converts a value to this type. Fails if it is out of range or of a different type.
    pub(crate) fn convert(
        self,
        expression: &Expression,
        value: &ParameterValue,
    ) -> Result<KeyValue> {
        let wrong = || {
            let name = |value_type: ValueType| value_type.name().unwrap_or("a value");
            let expected = match (self.single, self.element, value.as_list()) {
                (_, Some(element), Some(_)) | (None, Some(element), None) => {
                    format!("a list of {}", name(element))
                }
                (Some(single), ..) => name(single).to_owned(),
                (None, None, _) => "nothing".to_owned(),
            };
            expression.wrong(value, &expected)
        };
        let converted = match value.as_list() {
            Some(elements) => self.element.and_then(|element| list(element, elements)),
            None => self.single.and_then(|value_type| single(value_type, value)),
        };
        converted.ok_or_else(wrong)
    }
}

fn integer<T: TryFrom<i64>>(value: &ParameterValue) -> Option<T> {
    value.as_i64()?.try_into().ok()
}

/// Rounds to the nearest single-precision number, ties to even. Returns `None` on overflow.
fn float(value: &ParameterValue) -> Option<f32> {
    #[expect(clippy::cast_possible_truncation, reason = "the rounding is the point")]
    let rounded = value.as_f64()? as f32;
    // An infinite value is intended; a finite value that overflows is not.
    (rounded.is_finite() || value.as_f64()?.is_infinite()).then_some(rounded)
}

fn text(value: &ParameterValue) -> Option<String> {
    value.as_str().map(str::to_owned)
}

fn single(value_type: ValueType, value: &ParameterValue) -> Option<KeyValue> {
    Some(match value_type {
        ValueType::U8 => KeyValue::U8(integer(value)?),
        ValueType::I8 => KeyValue::I8(integer(value)?),
        ValueType::U16 => KeyValue::U16(integer(value)?),
        ValueType::I16 => KeyValue::I16(integer(value)?),
        ValueType::U32 => KeyValue::U32(integer(value)?),
        ValueType::I32 => KeyValue::I32(integer(value)?),
        ValueType::U64 => KeyValue::U64(integer(value)?),
        ValueType::I64 => KeyValue::I64(integer(value)?),
        ValueType::F32 => KeyValue::F32(float(value)?),
        ValueType::F64 => KeyValue::F64(value.as_f64()?),
        ValueType::BOOL => KeyValue::Bool(value.as_bool()?),
        ValueType::STRING => KeyValue::Str(text(value)?),
        _ => return None,
    })
}

fn list(element: ValueType, elements: &[ParameterValue]) -> Option<KeyValue> {
    fn all<T>(
        elements: &[ParameterValue],
        convert: fn(&ParameterValue) -> Option<T>,
    ) -> Option<Vec<T>> {
        elements.iter().map(convert).collect()
    }
    Some(match element {
        ValueType::U32 => KeyValue::U32Array(all(elements, integer)?),
        ValueType::I32 => KeyValue::I32Array(all(elements, integer)?),
        ValueType::U64 => KeyValue::U64Array(all(elements, integer)?),
        ValueType::I64 => KeyValue::I64Array(all(elements, integer)?),
        ValueType::F32 => KeyValue::F32Array(all(elements, float)?),
        ValueType::BOOL => KeyValue::BoolArray(all(elements, ParameterValue::as_bool)?),
        ValueType::STRING => KeyValue::StrArray(all(elements, text)?),
        _ => return None,
    })
}

/// A metadata key in a description. A key without a value is written by the writer.
#[derive(Clone, Debug)]
pub(crate) struct KeyTemplate {
    pub(crate) name: Box<str>,
    pub(crate) key_type: KeyType,
    pub(crate) value: Option<Expression>,
    pub(crate) optional: bool,
    pub(crate) required: Option<RawRequired>,
    pub(crate) when: Expression,
    pub(crate) stage: RawStage,
    /// If true, an earlier entry of the description has the same key.
    pub(crate) is_further: bool,
}

impl KeyTemplate {
    pub(crate) fn from_raw(
        architecture: &str,
        name: &str,
        raw: &RawKey,
        is_declared: &dyn Fn(&str) -> bool,
    ) -> Result<Self> {
        let parsed = || {
            let value = raw
                .value
                .as_ref()
                .map(|value| expression(value, is_declared))
                .transpose()
                .map_err(|error| error.at("value"))?;
            let optional = raw.optional.unwrap_or(false);
            if value.is_none() && !optional && name != GENERAL_FILE_TYPE {
                return Err(Error::description(format!(
                    "the value is missing: only {GENERAL_FILE_TYPE} and optional keys may have none"
                )));
            }
            let key_type =
                raw.r#type.as_deref().ok_or_else(|| Error::description("the type is missing"))?;
            let key_type = KeyType::parse(key_type)?;
            // A suffix after @ distinguishes entries with the same key. The key is written at the place of
            // the first entry that applies, with the value of the last.
            let (name, is_further) =
                name.split_once('@').map_or((name, false), |(name, _)| (name, true));
            Ok(Self {
                name: if raw.absolute == Some(true) {
                    name.into()
                } else {
                    whole_key(architecture, name)
                },
                key_type,
                value,
                optional,
                required: raw.required,
                when: condition(raw.when.as_ref(), is_declared)?,
                stage: raw.stage.unwrap_or(RawStage::Model),
                is_further,
            })
        };
        parsed().map_err(|error| error.about(SubjectKind::Key, name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn convert(key_type: &str, value: &ParameterValue) -> Option<KeyValue> {
        KeyType::parse(key_type).unwrap().convert(&Expression::parse("x").unwrap(), value).ok()
    }

    #[test]
    fn values_must_fit() {
        use ParameterValue::{Float, Int, List};
        assert_eq!(convert("u32", &Int(7)), Some(KeyValue::U32(7)));
        assert_eq!(convert("u32", &Int(-1)), None);
        assert_eq!(convert("u32", &Int(1 << 32)), None);
        assert_eq!(convert("u32", &Float(7.0)), None);
        assert_eq!(convert("f32", &Int(10_000)), Some(KeyValue::F32(10_000.0)));
        assert_eq!(convert("f32", &Float(1e-5)), Some(KeyValue::F32(1e-5)));
        assert_eq!(convert("f32", &Float(1e39)), None);
        assert_eq!(convert("u32 | [i32]", &Int(7)), Some(KeyValue::U32(7)));
        assert_eq!(
            convert("u32 | [i32]", &List(vec![Int(1), Int(2)].into())),
            Some(KeyValue::I32Array(vec![1, 2]))
        );
        assert_eq!(convert("u32", &List(vec![Int(1)].into())), None);
        assert_eq!(convert("bool", &ParameterValue::None), None);
    }

    #[test]
    fn types_that_do_not_exist_are_refused() {
        for text in ["", "u33", "array", "[array]", "[[u32]]", "u32 | i32", "[u32] | [i32]", "[u8]"]
        {
            assert!(KeyType::parse(text).is_err(), "{text:?}");
        }
    }
}
