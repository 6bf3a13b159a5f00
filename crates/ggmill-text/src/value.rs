//! JSON documents in bounded memory.
//!
//! A few bytes of JSON can take hundreds of bytes as a value: an object of one entry takes a node of a
//! B-tree. Documents of unknown content are therefore read with a limit.

use std::cell::Cell;
use std::fmt;

use ggmill_core::{ByteSize, RawStr};
use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

/// Reads a JSON value that takes at most `limit` bytes of memory, approximately. Fails for a larger one,
/// and for an object in which a key has two different values, of which most parsers take the last.
///
/// ```
/// let read = |text, limit| {
///     ggmill_text::read_json(&mut serde_json::Deserializer::from_str(text), limit)
/// };
/// assert_eq!(read("[1, 2]", 1000)?, serde_json::json!([1, 2]));
/// assert!(read("[{\"\":1},{\"\":1}]", 1000).is_err());
/// assert!(read("{\"a\":1,\"a\":2}", 1000).is_err());
/// # Ok::<(), serde_json::Error>(())
/// ```
pub fn read_json<'de, D: Deserializer<'de>>(
    deserializer: D,
    limit: usize,
) -> Result<Value, D::Error> {
    let left = Cell::new(limit);
    Bounded { limit, left: &left }.deserialize(deserializer)
}

/// Bytes of an element of an array, which can have twice the capacity that it needs.
const ELEMENT: usize = 2 * size_of::<Value>();
/// Bytes of the first entries of an object.
const OBJECT: usize = 11 * (size_of::<Value>() + size_of::<String>());
/// Bytes of a further entry. The nodes of the tree can be half full.
const ENTRY: usize = 2 * (size_of::<Value>() + size_of::<String>());
/// Bytes of a string in addition to its text.
const STRING: usize = 16;

#[derive(Clone, Copy)]
struct Bounded<'a> {
    limit: usize,
    left: &'a Cell<usize>,
}

impl Bounded<'_> {
    fn take<E: Error>(self, bytes: usize) -> Result<(), E> {
        match self.left.get().checked_sub(bytes) {
            Some(left) => {
                self.left.set(left);
                Ok(())
            }
            None => Err(E::custom(format_args!(
                "the document needs more than {} of memory",
                ByteSize::from(self.limit)
            ))),
        }
    }
}

impl<'de> DeserializeSeed<'de> for Bounded<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Bounded<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Value, E> {
        self.take(value.len().saturating_add(STRING))?;
        Ok(value.into())
    }

    fn visit_string<E: Error>(self, value: String) -> Result<Value, E> {
        self.take(value.len().saturating_add(STRING))?;
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<Value, A::Error> {
        let mut array = Vec::new();
        while let Some(element) = elements.next_element_seed(self)? {
            self.take(ELEMENT)?;
            array.push(element);
        }
        Ok(Value::Array(array))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut object = Map::new();
        while let Some(key) = entries.next_key::<String>()? {
            let bytes = if object.is_empty() { OBJECT } else { ENTRY };
            self.take(bytes.saturating_add(key.len()).saturating_add(STRING))?;
            let value = entries.next_value_seed(self)?;
            if object.get(&key).is_some_and(|other| *other != value) {
                return Err(two_values(&key));
            }
            object.insert(key, value);
        }
        Ok(Value::Object(object))
    }
}

/// Returns the error for a key with two different values.
pub fn two_values<E: Error>(key: &str) -> E {
    E::custom(format_args!("key {:?} has two values", RawStr::from(key)))
}
