//! JSON with ordered keys, because templates can output their order.

use std::collections::HashMap;

use ggmill_text::{JsonValue, read_json_as};

use crate::error::{Error, ErrorKind};

/// A JSON value. Objects keep the order of their keys.
#[derive(Clone, Debug, Default, PartialEq)]
#[expect(clippy::exhaustive_enums, reason = "what JSON has")]
pub enum Json {
    /// `null`.
    #[default]
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A number without point and exponent.
    Int(i128),
    /// Any other number.
    Float(f64),
    /// A string.
    String(String),
    /// Values in order.
    Array(Vec<Json>),
    /// Names and values. Of duplicate names, the last value is kept, at the position of the first.
    Object(Vec<(String, Json)>),
}

impl Json {
    /// Parses JSON.
    ///
    /// ```
    /// use ggmill_template::Json;
    /// assert_eq!(Json::parse("[1, null]")?, Json::Array(vec![Json::Int(1), Json::Null]));
    /// assert!(Json::parse("[1").is_err());
    /// # Ok::<(), ggmill_template::Error>(())
    /// ```
    pub fn parse(text: &str) -> Result<Self, Error> {
        let mut deserializer = serde_json::Deserializer::from_str(text);
        let read = read_json_as(&mut deserializer, MAX_MEMORY);
        read.and_then(|read| deserializer.end().map(|()| read)).map_err(|error| {
            Error::new(ErrorKind::Conversation, format!("not valid JSON: {error}"))
        })
    }

    /// Returns the value of a name; `None` if this is not an object or lacks the name.
    pub fn get(&self, name: &str) -> Option<&Self> {
        match self {
            Self::Object(entries) => {
                entries.iter().find(|(known, _)| known == name).map(|(_, value)| value)
            }
            _ => None,
        }
    }

    /// Describes the value for a message: strings, numbers and booleans with their value.
    pub(crate) fn kind(&self) -> String {
        const SHOWN: usize = 40;
        match self {
            Self::Null => "null".to_owned(),
            Self::Bool(value) => value.to_string(),
            Self::Int(value) => value.to_string(),
            Self::Float(value) => value.to_string(),
            Self::String(text) => format!("{:?}", text.chars().take(SHOWN).collect::<String>()),
            Self::Array(items) if items.is_empty() => "an empty array".to_owned(),
            Self::Array(_) => "an array".to_owned(),
            Self::Object(_) => "an object".to_owned(),
        }
    }

    /// Returns the text; `None` if this is not a string.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Self::String(text) => Some(text),
            _ => None,
        }
    }
}

impl From<&str> for Json {
    fn from(text: &str) -> Self {
        Self::String(text.to_owned())
    }
}

impl From<bool> for Json {
    fn from(value: bool) -> Self {
        Self::Bool(value)
    }
}

/// Memory of a document in bytes, approximately: a few bytes of text can take a hundred as a value.
const MAX_MEMORY: usize = 256 << 20;

/// The entries of a [`Json::Object`] that is being read.
#[derive(Debug, Default)]
pub struct JsonEntries {
    entries: Vec<(String, Json)>,
    positions: HashMap<String, usize>,
}

impl JsonValue for Json {
    type Object = JsonEntries;

    // A list that grows has room for four entries at first, and a set of names for as many.
    const FIRST_ENTRY: usize = 6 * size_of::<(String, Self)>();
    const ENTRY: usize = 4 * size_of::<(String, Self)>();
    const KEYS: usize = 2;

    fn null() -> Self {
        Self::Null
    }

    fn bool(value: bool) -> Self {
        Self::Bool(value)
    }

    fn integer(value: i128) -> Self {
        Self::Int(value)
    }

    fn float(value: f64) -> Self {
        Self::Float(value)
    }

    fn string(value: String) -> Self {
        Self::String(value)
    }

    fn array(elements: Vec<Self>) -> Self {
        Self::Array(elements)
    }

    fn object(object: JsonEntries) -> Self {
        Self::Object(object.entries)
    }

    fn insert<E: serde::de::Error>(
        object: &mut JsonEntries,
        key: String,
        value: Self,
    ) -> Result<(), E> {
        let JsonEntries { entries, positions } = object;
        if let Some((_, old)) = positions.get(&key).and_then(|&position| entries.get_mut(position))
        {
            *old = value;
        } else {
            positions.insert(key.clone(), entries.len());
            entries.push((key, value));
        }
        Ok(())
    }
}
