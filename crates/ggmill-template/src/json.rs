//! JSON with ordered keys, because templates can output their order.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};

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
        serde_json::from_str::<Read>(text).map(|read| read.0).map_err(|error| {
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

/// A newtype for deserialization, so that serde's traits are not part of the interface.
struct Read(Json);

struct Reader;

impl<'de> Visitor<'de> for Reader {
    type Value = Read;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Read, E> {
        Ok(Read(Json::Null))
    }

    fn visit_bool<E>(self, value: bool) -> Result<Read, E> {
        Ok(Read(Json::Bool(value)))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Read, E> {
        Ok(Read(Json::Int(value.into())))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Read, E> {
        Ok(Read(Json::Int(value.into())))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Read, E> {
        Ok(Read(Json::Float(value)))
    }

    fn visit_str<E>(self, value: &str) -> Result<Read, E> {
        Ok(Read(Json::String(value.to_owned())))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Read, A::Error> {
        let mut out = Vec::new();
        while let Some(Read(item)) = items.next_element()? {
            out.push(item);
        }
        Ok(Read(Json::Array(out)))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Read, A::Error> {
        let mut out: Vec<(String, Json)> = Vec::new();
        let mut places = std::collections::HashMap::new();
        while let Some((name, Read(value))) = entries.next_entry::<String, Read>()? {
            let known = places.get(&name).and_then(|place: &usize| out.get_mut(*place));
            if let Some((_, old)) = known {
                *old = value;
            } else {
                places.insert(name.clone(), out.len());
                out.push((name, value));
            }
        }
        Ok(Read(Json::Object(out)))
    }
}

impl<'de> Deserialize<'de> for Read {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Reader)
    }
}
