//! Types of metadata, and values as people write them: parsed, and checked against their ranges.

use std::fmt;
use std::str::FromStr;

use ggmill_core::{RawStr, ToValue, Value, ValueType};
use serde_json::Value as Json;

use super::error::ValueError;

/// The maximum nesting of arrays, which is the reader's default limit.
pub(crate) const MAX_DEPTH: usize = 8;

/// A metadata type in text form: `u32`, `string`, `[f32]`, `[[i32]]`.
///
/// ```
/// use ggmill_edit::KeyType;
/// let tokens: KeyType = "[string]".parse()?;
/// assert_eq!(tokens.to_string(), "[string]");
/// assert!("[strong]".parse::<KeyType>().is_err());
/// # Ok::<(), ggmill_edit::KeyTypeError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyType {
    /// The innermost type. Never an array.
    element: ValueType,
    /// The number of nested arrays.
    depth: usize,
}

impl KeyType {
    /// Returns the type of a single value.
    pub(crate) const fn single(element: ValueType) -> Self {
        Self { element, depth: 0 }
    }

    /// Returns the type of an array of such values.
    pub(crate) const fn array(element: ValueType) -> Self {
        Self { element, depth: 1 }
    }

    /// Returns the type of an array of this type; `None` if arrays would be nested too deeply.
    pub(crate) fn within(self) -> Option<Self> {
        (self.depth < MAX_DEPTH).then(|| Self { depth: self.depth + 1, ..self })
    }

    pub(crate) fn is_string(self) -> bool {
        self == Self::single(ValueType::STRING)
    }

    /// Returns the type of a value; `None` for an array of arrays, which may have different innermost
    /// types.
    pub(crate) fn of(value: &Value<'_>) -> Option<Self> {
        match value.as_array() {
            None => Some(Self::single(value.value_type())),
            Some(array) if array.element_type() == ValueType::ARRAY => None,
            Some(array) => Some(Self::array(array.element_type())),
        }
    }

    /// Returns the type code that is written to the file.
    fn value_type(self) -> ValueType {
        if self.depth == 0 { self.element } else { ValueType::ARRAY }
    }

    fn inner(self) -> Self {
        Self { depth: self.depth.saturating_sub(1), ..self }
    }
}

impl fmt::Display for KeyType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}{}", "[".repeat(self.depth), self.element, "]".repeat(self.depth))
    }
}

impl FromStr for KeyType {
    type Err = KeyTypeError;

    fn from_str(text: &str) -> Result<Self, KeyTypeError> {
        let mut depth = 0usize;
        let mut name = text;
        while let Some(inner) = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')) {
            name = inner;
            depth = depth.saturating_add(1);
        }
        // The names in the specification and in the Python package.
        let short = match name {
            "uint8" => "u8",
            "int8" => "i8",
            "uint16" => "u16",
            "int16" => "i16",
            "uint32" => "u32",
            "int32" => "i32",
            "uint64" => "u64",
            "int64" => "i64",
            "float32" => "f32",
            "float64" => "f64",
            "str" => "string",
            name => name,
        };
        let element = short
            .parse::<ValueType>()
            .ok()
            .filter(|element| *element != ValueType::ARRAY && depth <= MAX_DEPTH);
        element.map(|element| Self { element, depth }).ok_or_else(|| KeyTypeError(text.to_owned()))
    }
}

/// The error of parsing a [`KeyType`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyTypeError(String);

impl fmt::Display for KeyTypeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} is not a type, expected one such as u32, f32, bool, string or [string]",
            quoted(&self.0)
        )
    }
}

impl std::error::Error for KeyTypeError {}

/// A value to set: typed, or text that is converted to the type of its key.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum EditValue {
    /// A typed value.
    Typed(TypedValue),
    /// Text of a command line: one value, or an array in JSON.
    Text(String),
    /// The content of a file: one value, an array in JSON, or an array with one element per line.
    Content(String),
    /// A value in JSON.
    Json(Json),
}

/// A value with its type, encoded by [`ToValue::encode`].
///
/// ```
/// use ggmill_core::{ToValue, ValueType};
/// use ggmill_edit::TypedValue;
/// assert_eq!(TypedValue::new(&4096u32).value_type(), ValueType::U32);
/// assert_eq!(TypedValue::new(&["a", "b"].as_slice()).value_type(), ValueType::ARRAY);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TypedValue {
    value_type: ValueType,
    bytes: Vec<u8>,
}

impl ToValue for TypedValue {
    fn value_type(&self) -> ValueType {
        self.value_type
    }

    fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.bytes);
    }
}

impl TypedValue {
    /// Encodes a value.
    pub fn new(value: &impl ToValue) -> Self {
        let mut bytes = Vec::new();
        value.encode(&mut bytes);
        Self { value_type: value.value_type(), bytes }
    }

    /// Returns an array of `count` encoded elements.
    pub(super) fn array(element: ValueType, count: u64, elements: &[u8]) -> Self {
        let bytes = [&element.0.to_le_bytes()[..], &count.to_le_bytes(), elements].concat();
        Self { value_type: ValueType::ARRAY, bytes }
    }

    /// Returns the type of the elements of an array.
    fn element_type(&self) -> Option<ValueType> {
        let code = self.bytes.get(..4).filter(|_| self.value_type == ValueType::ARRAY)?;
        Some(ValueType(u32::from_le_bytes(code.try_into().ok()?)))
    }

    /// Returns the type; `None` for an array of arrays.
    fn key_type(&self) -> Option<KeyType> {
        match self.element_type() {
            None => Some(KeyType::single(self.value_type)),
            Some(ValueType::ARRAY) => None,
            Some(element) => Some(KeyType::array(element)),
        }
    }

    /// Returns `true` if the value has this type, or is an array of arrays and the type is too.
    fn is(&self, key_type: KeyType) -> bool {
        self.key_type().map_or(key_type.depth > 1, |own| own == key_type)
    }
}

impl EditValue {
    /// Converts the value to a type.
    pub(crate) fn as_type(&self, key_type: KeyType) -> Result<TypedValue, ValueError> {
        match self {
            Self::Typed(value) if value.is(key_type) => Ok(value.clone()),
            Self::Typed(value) => {
                Err(ValueError::OtherType { found: value.value_type, expected: key_type })
            }
            Self::Json(json) => from_json(json, key_type),
            Self::Text(text) | Self::Content(text) if key_type.is_string() => {
                Ok(TypedValue::new(&text.as_str()))
            }
            Self::Text(text) | Self::Content(text) if key_type.depth == 0 => {
                from_text(text.trim(), key_type.element)
            }
            Self::Text(text) => match bounded_json(text) {
                Ok(json @ Json::Array(_)) => from_json(&json, key_type),
                _ => {
                    Err(ValueError::NotJsonArray { found: Some(quoted(text)), expected: key_type })
                }
            },
            Self::Content(text) => match bounded_json(text) {
                Ok(json @ Json::Array(_)) => from_json(&json, key_type),
                _ if key_type.depth == 1 => from_lines(text, key_type),
                _ => Err(ValueError::NotJsonArray { found: None, expected: key_type }),
            },
        }
    }

    /// Infers the type from the value: `true` and `false` are bools, integers the first of u32, i32,
    /// u64 and i64 that holds them, other numbers f32, anything else a string. An array has one type
    /// for all elements. Returns `None` for an array that is empty or has several types, and for
    /// null.
    pub(crate) fn own_type(&self) -> Option<KeyType> {
        match self {
            Self::Typed(value) => value.key_type(),
            Self::Content(_) => Some(KeyType::single(ValueType::STRING)),
            Self::Text(text) => match bounded_json(text) {
                Ok(json @ Json::Array(_)) => type_of_json(&json),
                _ => Some(KeyType::single(type_of_text(text.trim()))),
            },
            Self::Json(json) => type_of_json(json),
        }
    }

    /// Returns `true` if the value is an array.
    pub(crate) fn is_list(&self) -> bool {
        match self {
            Self::Typed(value) => value.value_type == ValueType::ARRAY,
            Self::Content(_) => false,
            Self::Text(text) => matches!(bounded_json(text), Ok(Json::Array(_))),
            Self::Json(json) => json.is_array(),
        }
    }
}

/// Memory of a JSON value in bytes. A vocabulary of a million tokens takes half.
const MAX_MEMORY: usize = 192 << 20;

/// Parses JSON. Fails for a value that takes too much memory, and for an object in which a key has two
/// different values.
pub(super) fn bounded_json(text: &str) -> Result<Json, serde_json::Error> {
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let value = ggmill_text::read_json(&mut deserializer, MAX_MEMORY)?;
    deserializer.end()?;
    Ok(value)
}

fn type_of_text(text: &str) -> ValueType {
    if matches!(text, "true" | "false") {
        return ValueType::BOOL;
    }
    if let Ok(number) = text.parse::<i128>() {
        return integer_type(number, number).unwrap_or(ValueType::STRING);
    }
    let numeric =
        text.bytes().next().is_some_and(|byte| byte.is_ascii_digit() || b"+-.".contains(&byte))
            && text.parse::<f64>().is_ok();
    if numeric { ValueType::F32 } else { ValueType::STRING }
}

/// Returns the first of u32, i32, u64 and i64 that holds all numbers from `least` to `most`.
fn integer_type(least: i128, most: i128) -> Option<ValueType> {
    let ranges = [
        (ValueType::U32, 0, i128::from(u32::MAX)),
        (ValueType::I32, i32::MIN.into(), i32::MAX.into()),
        (ValueType::U64, 0, u64::MAX.into()),
        (ValueType::I64, i64::MIN.into(), i64::MAX.into()),
    ];
    ranges.into_iter().find(|(_, from, to)| least >= *from && most <= *to).map(|range| range.0)
}

fn type_of_json(json: &Json) -> Option<KeyType> {
    Some(match json {
        Json::Bool(_) => KeyType::single(ValueType::BOOL),
        Json::String(_) => KeyType::single(ValueType::STRING),
        Json::Number(_) => KeyType::single(
            integer_of(json).map_or(Some(ValueType::F32), |number| integer_type(number, number))?,
        ),
        Json::Array(elements) => {
            let types: Vec<KeyType> = elements.iter().map(type_of_json).collect::<Option<_>>()?;
            let first = *types.first()?;
            let integers: Option<Vec<i128>> = elements.iter().map(integer_of).collect();
            let element = match integers {
                Some(numbers) => {
                    KeyType::single(integer_type(*numbers.iter().min()?, *numbers.iter().max()?)?)
                }
                None if elements.iter().all(Json::is_number) => KeyType::single(ValueType::F32),
                None if types.iter().all(|other| *other == first) => first,
                None => return None,
            };
            KeyType { depth: element.depth.saturating_add(1), ..element }
        }
        Json::Null | Json::Object(_) => return None,
    })
}

fn integer_of(json: &Json) -> Option<i128> {
    json.as_u64().map(i128::from).or_else(|| json.as_i64().map(i128::from))
}

fn from_lines(text: &str, key_type: KeyType) -> Result<TypedValue, ValueError> {
    let element = key_type.element;
    let mut elements = Vec::new();
    let mut count = 0u64;
    for (line, number) in text.lines().zip(1u64..) {
        let value = if element == ValueType::STRING {
            TypedValue::new(&line)
        } else {
            from_text(line.trim(), element)
                .map_err(|cause| ValueError::Line { number, cause: Box::new(cause) })?
        };
        elements.extend_from_slice(&value.bytes);
        count = number;
    }
    Ok(TypedValue::array(element, count, &elements))
}

fn from_json(json: &Json, key_type: KeyType) -> Result<TypedValue, ValueError> {
    if key_type.depth == 0 {
        return match (json, key_type.element) {
            (Json::String(text), ValueType::STRING) => Ok(TypedValue::new(&text.as_str())),
            (Json::Bool(value), ValueType::BOOL) => Ok(TypedValue::new(value)),
            (Json::Number(number), element)
                if element != ValueType::STRING && element != ValueType::BOOL =>
            {
                from_text(&number.to_string(), element)
            }
            // Many tools write bools as 0 and 1.
            (Json::Number(number), ValueType::BOOL) => {
                from_text(&number.to_string(), ValueType::BOOL)
            }
            (Json::String(text), ValueType::F32 | ValueType::F64)
                if NOT_FINITE.contains(&text.as_str()) =>
            {
                from_text(text, key_type.element)
            }
            (Json::Null, expected) => Err(ValueError::Null { expected }),
            (other, expected) => Err(ValueError::Mismatch { found: shown_json(other), expected }),
        };
    }
    let Json::Array(elements) = json else {
        return Err(ValueError::NotArray { found: shown_json(json), expected: key_type });
    };
    let inner = key_type.inner();
    let mut bytes = Vec::new();
    for (place, element) in elements.iter().enumerate() {
        let value = from_json(element, inner)
            .map_err(|cause| ValueError::Element { place, cause: Box::new(cause) })?;
        bytes.extend_from_slice(&value.bytes);
    }
    Ok(TypedValue::array(inner.value_type(), elements.len() as u64, &bytes))
}

/// The names of numbers that JSON cannot express.
const NOT_FINITE: [&str; 3] = ["NaN", "Infinity", "-Infinity"];

/// Parses one number or bool.
fn from_text(text: &str, value_type: ValueType) -> Result<TypedValue, ValueError> {
    let integer = || {
        text.parse::<i128>()
            .map_err(|_| ValueError::NotInteger { found: quoted(text), expected: value_type })
    };
    macro_rules! fitted {
        ($rust:ty) => {
            TypedValue::new(&<$rust>::try_from(integer()?).map_err(|_| ValueError::OutOfRange {
                found: text.to_owned(),
                least: <$rust>::MIN.into(),
                greatest: <$rust>::MAX.into(),
            })?)
        };
    }
    let float = || {
        text.parse::<f64>()
            .map_err(|_| ValueError::NotNumber { found: quoted(text), expected: value_type })
    };
    Ok(match value_type {
        ValueType::U8 => fitted!(u8),
        ValueType::I8 => fitted!(i8),
        ValueType::U16 => fitted!(u16),
        ValueType::I16 => fitted!(i16),
        ValueType::U32 => fitted!(u32),
        ValueType::I32 => fitted!(i32),
        ValueType::U64 => fitted!(u64),
        ValueType::I64 => fitted!(i64),
        ValueType::F32 => {
            // Parsed as f32 directly: parsing as f64 first would round twice.
            let value: f32 = text
                .parse()
                .map_err(|_| ValueError::NotNumber { found: quoted(text), expected: value_type })?;
            if value.is_infinite() && float()?.is_finite() {
                return Err(ValueError::TooLargeForF32 { found: text.to_owned() });
            }
            TypedValue::new(&value)
        }
        ValueType::F64 => TypedValue::new(&float()?),
        ValueType::BOOL => match text {
            "true" | "1" => TypedValue::new(&true),
            "false" | "0" => TypedValue::new(&false),
            _ => return Err(ValueError::NotBool { found: quoted(text) }),
        },
        other => return Err(ValueError::NotWritable { found: quoted(text), expected: other }),
    })
}

/// The maximum length of a value in a message, in characters.
const MAX_SHOWN: usize = 40;

/// Quotes, escapes and shortens text for a message.
pub(super) fn quoted(text: &str) -> String {
    let short: String = text.chars().take(MAX_SHOWN).collect();
    let more = if short.len() < text.len() { " …" } else { "" };
    format!("{:?}{more}", RawStr::from(short.as_str()))
}

/// Escapes and shortens JSON for a message.
pub(super) fn shown_json(json: &serde_json::Value) -> String {
    if let serde_json::Value::String(text) = json {
        return quoted(text);
    }
    let whole = json.to_string();
    let short: String = whole.chars().take(MAX_SHOWN).collect();
    let more = if short.len() < whole.len() { " …" } else { "" };
    format!("{}{more}", RawStr::from(short.as_str()))
}

#[cfg(test)]
mod tests {
    use ggmill_core::MetadataBuf;

    use super::*;

    fn shown(given: &EditValue, key_type: &str) -> Result<String, ValueError> {
        let mut metadata = MetadataBuf::new();
        metadata.set("k", given.as_type(key_type.parse().unwrap())?);
        let value = metadata.get("k").unwrap();
        Ok(match value.as_array() {
            None => format!("{value:?}"),
            Some(array) => format!("{:?}", array.iter().map(Result::unwrap).collect::<Vec<_>>()),
        })
    }

    fn text(text: &str) -> EditValue {
        EditValue::Text(text.into())
    }

    #[test]
    fn json_is_read_in_bounded_memory() {
        let error = bounded_json(&format!("[{}1]", "{\"\":1},".repeat(1_000_000))).unwrap_err();
        assert!(error.to_string().contains("more than 192 MiB"), "{error}");
        assert!(bounded_json("[1] 2").is_err());
        assert_eq!(bounded_json("[1]").unwrap(), serde_json::json!([1]));
    }

    #[test]
    fn values_of_every_type() {
        for (given, key_type, expected) in [
            ("255", "u8", "U8(255)"),
            ("-128", "i8", "I8(-128)"),
            ("65535", "u16", "U16(65535)"),
            ("-1", "i16", "I16(-1)"),
            ("7", "uint32", "U32(7)"),
            ("-7", "i32", "I32(-7)"),
            ("18446744073709551615", "u64", "U64(18446744073709551615)"),
            ("-9223372036854775808", "i64", "I64(-9223372036854775808)"),
            ("0.1", "f32", "F32(0.1)"),
            ("1e300", "f64", "F64(1e300)"),
            ("inf", "f32", "F32(inf)"),
            ("true", "bool", "Bool(true)"),
            ("0", "bool", "Bool(false)"),
            ("[1, 2]", "[u16]", "[U16(1), U16(2)]"),
            ("[0.5, 1]", "[f32]", "[F32(0.5), F32(1.0)]"),
            ("[]", "[string]", "[]"),
        ] {
            assert_eq!(
                shown(&text(given), key_type).as_deref(),
                Ok(expected),
                "{given} as {key_type}"
            );
        }
        assert!(shown(&text(r#"["a", "\u00e9"]"#), "[string]").unwrap().contains('é'));
        assert_eq!(shown(&text("[[1],[]]"), "[[u8]]").unwrap().matches("Array(").count(), 2);
    }

    #[test]
    fn errors_name_the_value_and_the_expected_type() {
        for (given, key_type, words) in [
            ("256", "u8", "256 is out of range, expected 0 to 255"),
            ("-1", "u64", "out of range, expected 0 to 18446744073709551615"),
            ("18446744073709551616", "u64", "out of range"),
            ("1.5", "u32", "\"1.5\" is not an integer, expected u32"),
            ("1e39", "f32", "1e39 is out of range for f32"),
            ("x", "f64", "\"x\" is not a number"),
            ("yes", "bool", "is not a bool, expected true or false"),
            ("1", "[u32]", "is not a JSON array, expected [u32]"),
            ("[1, 256]", "[u8]", "element 1: 256 is out of range"),
            ("[\"a\"]", "[u8]", "element 0: "),
            ("[1]", "[[u8]]", "element 0: 1 is not an array, expected [u8]"),
        ] {
            let why = shown(&text(given), key_type).unwrap_err().to_string();
            assert!(why.contains(words), "{given} as {key_type}: {why}");
        }
    }

    #[test]
    fn types_are_inferred_from_the_text() {
        for (given, expected) in [
            ("true", "bool"),
            ("0", "u32"),
            ("4294967295", "u32"),
            ("-1", "i32"),
            ("4294967296", "u64"),
            ("-4294967296", "i64"),
            ("18446744073709551616", "string"),
            ("1.5", "f32"),
            ("-1e-5", "f32"),
            ("nan", "string"),
            ("infinity", "string"),
            ("v1", "string"),
            ("", "string"),
            ("[1, 2]", "[u32]"),
            ("[1, -2]", "[i32]"),
            ("[1, 2.5]", "[f32]"),
            ("[\"a\"]", "[string]"),
            ("[[1], [2]]", "[[u32]]"),
            ("[PAD]", "string"),
        ] {
            assert_eq!(text(given).own_type().unwrap().to_string(), expected, "{given}");
        }
        for given in ["[]", "[1, \"a\"]", "[1, true]", "[[]]"] {
            assert_eq!(text(given).own_type(), None, "{given}");
        }
    }

    #[test]
    fn a_file_has_one_element_per_line() {
        let lines = EditValue::Content("[PAD]\r\nb c\n\n".into());
        assert_eq!(shown(&lines, "[string]").unwrap().matches("Str").count(), 3);
        assert_eq!(
            shown(&EditValue::Content("1\n2\n".into()), "[i32]").unwrap(),
            "[I32(1), I32(2)]"
        );
        assert_eq!(
            shown(&EditValue::Content("[1, 2]\n".into()), "[i32]").unwrap(),
            "[I32(1), I32(2)]"
        );
        assert!(
            shown(&EditValue::Content("1\nx\n".into()), "[i32]")
                .unwrap_err()
                .to_string()
                .starts_with("line 2: ")
        );
    }

    #[test]
    fn unknown_types_are_rejected() {
        for name in ["", "u33", "array", "[array]", "[u8", "u8]", "[[[[[[[[[u8]]]]]]]]]"] {
            assert!(name.parse::<KeyType>().is_err(), "{name}");
        }
    }
}
