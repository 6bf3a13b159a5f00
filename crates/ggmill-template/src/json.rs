//! JSON with ordered keys, because templates can output their order.

use std::cell::Cell;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};

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
        let left = Cell::new(MAX_MEMORY);
        let read = Reader { left: &left }.deserialize(&mut deserializer);
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

/// Reads a value, so that serde's traits are not part of the interface.
#[derive(Clone, Copy)]
struct Reader<'a> {
    /// The remaining bytes of memory.
    left: &'a Cell<usize>,
}

impl Reader<'_> {
    fn take<E: serde::de::Error>(self, bytes: usize) -> Result<(), E> {
        let left = self.left.get().checked_sub(bytes);
        self.left.set(left.ok_or_else(|| E::custom("the document needs too much memory"))?);
        Ok(())
    }
}

impl<'de> DeserializeSeed<'de> for Reader<'_> {
    type Value = Json;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Json, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Reader<'_> {
    type Value = Json;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Json, E> {
        Ok(Json::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Json, E> {
        Ok(Json::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Json, E> {
        Ok(Json::Int(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Json, E> {
        Ok(Json::Int(value.into()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Json, E> {
        Ok(Json::Float(value))
    }

    fn visit_str<E: serde::de::Error>(self, value: &str) -> Result<Json, E> {
        self.take(value.len())?;
        Ok(Json::String(value.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Json, A::Error> {
        let mut out = Vec::new();
        while let Some(item) = items.next_element_seed(self)? {
            self.take(2 * size_of::<Json>())?;
            out.push(item);
        }
        Ok(Json::Array(out))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Json, A::Error> {
        let mut out: Vec<(String, Json)> = Vec::new();
        let mut places = std::collections::HashMap::new();
        while let Some(name) = entries.next_key::<String>()? {
            // The first entry makes room for several.
            let count = if out.is_empty() { 6 } else { 4 };
            self.take(count * size_of::<(String, Json)>() + 2 * name.len())?;
            let value = entries.next_value_seed(self)?;
            let known = places.get(&name).and_then(|place: &usize| out.get_mut(*place));
            if let Some((_, old)) = known {
                *old = value;
            } else {
                places.insert(name.clone(), out.len());
                out.push((name, value));
            }
        }
        Ok(Json::Object(out))
    }
}
