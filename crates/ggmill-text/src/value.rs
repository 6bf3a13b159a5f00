//! JSON documents in bounded memory.
//!
//! A few bytes of JSON can take hundreds of bytes as a value: an object of one entry takes a node of a
//! B-tree. Documents of unknown content are therefore read with a limit.

use std::cell::Cell;
use std::fmt;
use std::marker::PhantomData;

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
    read_json_as(deserializer, limit)
}

/// Reads a JSON value of any type. Fails for a value that takes more than `limit` bytes of memory,
/// approximately, and for an object that the type rejects.
pub fn read_json_as<'de, T: JsonValue, D: Deserializer<'de>>(
    deserializer: D,
    limit: usize,
) -> Result<T, D::Error> {
    let left = Cell::new(limit);
    Bounded { limit, left: &left, value: PhantomData }.deserialize(deserializer)
}

/// A type of JSON values that [`read_json_as`] can create.
pub trait JsonValue: Sized {
    /// An object that is being read.
    type Object: Default;

    /// Bytes of an element of an array, which can have twice the capacity that it needs.
    const ELEMENT: usize = 2 * size_of::<Self>();
    /// Bytes of the first entry of an object, without the text of its key.
    const FIRST_ENTRY: usize;
    /// Bytes of a further entry, without the text of its key.
    const ENTRY: usize;
    /// The number of copies of a key.
    const KEYS: usize = 1;

    /// Creates `null`.
    fn null() -> Self;

    /// Creates a Boolean.
    fn bool(value: bool) -> Self;

    /// Creates an integer from the range of `i64` and `u64`.
    fn integer(value: i128) -> Self;

    /// Creates a number that is not an integer.
    fn float(value: f64) -> Self;

    /// Creates a string.
    fn string(value: String) -> Self;

    /// Creates an array.
    fn array(elements: Vec<Self>) -> Self;

    /// Creates an object.
    fn object(object: Self::Object) -> Self;

    /// Adds an entry to an object. Fails if the object must not have another entry with this key.
    fn insert<E: Error>(object: &mut Self::Object, key: String, value: Self) -> Result<(), E>;
}

impl JsonValue for Value {
    type Object = Map<String, Value>;

    /// A node of a B-tree has room for eleven entries.
    const FIRST_ENTRY: usize = 11 * (size_of::<Self>() + size_of::<String>()) + STRING;
    /// The nodes of the tree can be half full.
    const ENTRY: usize = 2 * (size_of::<Self>() + size_of::<String>()) + STRING;

    fn null() -> Self {
        Self::Null
    }

    fn bool(value: bool) -> Self {
        value.into()
    }

    fn integer(value: i128) -> Self {
        match (i64::try_from(value), u64::try_from(value)) {
            (_, Ok(value)) => value.into(),
            (Ok(value), _) => value.into(),
            _ => Self::Null,
        }
    }

    fn float(value: f64) -> Self {
        value.into()
    }

    fn string(value: String) -> Self {
        value.into()
    }

    fn array(elements: Vec<Self>) -> Self {
        Self::Array(elements)
    }

    fn object(object: Map<String, Self>) -> Self {
        Self::Object(object)
    }

    fn insert<E: Error>(object: &mut Map<String, Self>, key: String, value: Self) -> Result<(), E> {
        if object.get(&key).is_some_and(|other| *other != value) {
            return Err(two_values(&key));
        }
        object.insert(key, value);
        Ok(())
    }
}

/// Bytes of a string in addition to its text.
const STRING: usize = 16;

/// Reads a value while memory is left.
struct Bounded<'a, T> {
    limit: usize,
    left: &'a Cell<usize>,
    value: PhantomData<T>,
}

impl<T> Clone for Bounded<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Bounded<'_, T> {}

impl<T> Bounded<'_, T> {
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

impl<'de, T: JsonValue> DeserializeSeed<'de> for Bounded<'_, T> {
    type Value = T;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<T, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de, T: JsonValue> Visitor<'de> for Bounded<'_, T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<T, E> {
        Ok(T::null())
    }

    fn visit_bool<E>(self, value: bool) -> Result<T, E> {
        Ok(T::bool(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<T, E> {
        Ok(T::integer(value.into()))
    }

    fn visit_i64<E>(self, value: i64) -> Result<T, E> {
        Ok(T::integer(value.into()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<T, E> {
        Ok(T::float(value))
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<T, E> {
        self.take(value.len().saturating_add(STRING))?;
        Ok(T::string(value.to_owned()))
    }

    fn visit_string<E: Error>(self, value: String) -> Result<T, E> {
        self.take(value.len().saturating_add(STRING))?;
        Ok(T::string(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<T, A::Error> {
        let mut array = Vec::new();
        while let Some(element) = elements.next_element_seed(self)? {
            self.take(T::ELEMENT)?;
            array.push(element);
        }
        Ok(T::array(array))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<T, A::Error> {
        let mut object = T::Object::default();
        let mut entry = T::FIRST_ENTRY;
        while let Some(key) = entries.next_key::<String>()? {
            self.take(key.len().saturating_mul(T::KEYS).saturating_add(entry))?;
            entry = T::ENTRY;
            let value = entries.next_value_seed(self)?;
            T::insert(&mut object, key, value)?;
        }
        Ok(T::object(object))
    }
}

/// Returns the error for a key with two different values.
pub fn two_values<E: Error>(key: &str) -> E {
    E::custom(format_args!("key {:?} has two values", RawStr::from(key)))
}
