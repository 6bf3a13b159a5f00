//! Metadata types as people write them.

use std::fmt;
use std::str::FromStr;

use ggmill_core::{Value, ValueType};

use super::shown::quoted;

/// Arrays within arrays, as the reader allows by default.
pub(crate) const MAX_DEPTH: usize = 8;

/// A metadata type as people write it: `u32`, `string`, `[f32]`, `[[i32]]`.
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
    /// The type within all arrays. Never an array.
    pub(super) element: ValueType,
    /// How many arrays are around it.
    pub(super) depth: usize,
}

impl KeyType {
    /// A single value of this type.
    pub(crate) const fn single(element: ValueType) -> Self {
        Self { element, depth: 0 }
    }

    /// An array of such values.
    pub(crate) const fn array(element: ValueType) -> Self {
        Self { element, depth: 1 }
    }

    /// An array of what this is; `None` for more arrays within arrays than are read.
    pub(crate) fn within(self) -> Option<Self> {
        (self.depth < MAX_DEPTH).then(|| Self { depth: self.depth + 1, ..self })
    }

    pub(crate) fn is_string(self) -> bool {
        self == Self::single(ValueType::STRING)
    }

    /// The type of an existing value, or `None` when it is an array of arrays, which may have
    /// different innermost types.
    pub(crate) fn of(value: &Value<'_>) -> Option<Self> {
        match value.as_array() {
            None => Some(Self::single(value.value_type())),
            Some(array) if array.element_type() == ValueType::ARRAY => None,
            Some(array) => Some(Self::array(array.element_type())),
        }
    }

    /// The value type this is written with.
    pub(super) fn value_type(self) -> ValueType {
        if self.depth == 0 { self.element } else { ValueType::ARRAY }
    }

    pub(super) fn inner(self) -> Self {
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
        // The names of the specification and of the Python package, besides the short ones.
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

/// Text that is not a [`KeyType`].
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
