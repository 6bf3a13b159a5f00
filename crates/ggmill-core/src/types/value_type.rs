use core::fmt;
use core::str::FromStr;

use super::UnknownName;

/// The type of a metadata value (specification: `gguf_metadata_value_type`).
///
/// ```
/// use ggmill_core::ValueType;
/// assert_eq!(ValueType::U32.name(), Some("u32"));
/// assert_eq!(ValueType::U32.fixed_size(), Some(4));
/// assert_eq!("string".parse::<ValueType>().ok(), Some(ValueType::STRING));
/// assert_eq!(ValueType(77).to_string(), "value type 77");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(clippy::exhaustive_structs, reason = "an open code: the number is the whole of it")]
pub struct ValueType(pub u32);

impl ValueType {
    /// An 8-bit unsigned integer.
    pub const U8: Self = Self(0);
    /// An 8-bit signed integer.
    pub const I8: Self = Self(1);
    /// A 16-bit unsigned integer.
    pub const U16: Self = Self(2);
    /// A 16-bit signed integer.
    pub const I16: Self = Self(3);
    /// A 32-bit unsigned integer.
    pub const U32: Self = Self(4);
    /// A 32-bit signed integer.
    pub const I32: Self = Self(5);
    /// A 32-bit IEEE 754 number.
    pub const F32: Self = Self(6);
    /// A byte that is 0 or 1.
    pub const BOOL: Self = Self(7);
    /// Bytes with their length before them, UTF-8 by convention.
    pub const STRING: Self = Self(8);
    /// Values of one type with their type and count before them; may be nested.
    pub const ARRAY: Self = Self(9);
    /// A 64-bit unsigned integer.
    pub const U64: Self = Self(10);
    /// A 64-bit signed integer.
    pub const I64: Self = Self(11);
    /// A 64-bit IEEE 754 number.
    pub const F64: Self = Self(12);

    /// Every type the specification lists, in the order of their numbers.
    pub const ALL: [Self; 13] = [
        Self::U8,
        Self::I8,
        Self::U16,
        Self::I16,
        Self::U32,
        Self::I32,
        Self::F32,
        Self::BOOL,
        Self::STRING,
        Self::ARRAY,
        Self::U64,
        Self::I64,
        Self::F64,
    ];

    /// The short name (`u32`, `string`, …), or `None` for a number the specification does not list.
    pub const fn name(self) -> Option<&'static str> {
        Some(match self {
            Self::U8 => "u8",
            Self::I8 => "i8",
            Self::U16 => "u16",
            Self::I16 => "i16",
            Self::U32 => "u32",
            Self::I32 => "i32",
            Self::F32 => "f32",
            Self::BOOL => "bool",
            Self::STRING => "string",
            Self::ARRAY => "array",
            Self::U64 => "u64",
            Self::I64 => "i64",
            Self::F64 => "f64",
            _ => return None,
        })
    }

    /// Bytes of one value, or `None` when the length is written beside the value (strings, arrays)
    /// or the type is unknown.
    pub const fn fixed_size(self) -> Option<u64> {
        Some(match self {
            Self::U8 | Self::I8 | Self::BOOL => 1,
            Self::U16 | Self::I16 => 2,
            Self::U32 | Self::I32 | Self::F32 => 4,
            Self::U64 | Self::I64 | Self::F64 => 8,
            _ => return None,
        })
    }

    /// Whether the type is one of the eight integers.
    pub const fn is_integer(self) -> bool {
        matches!(
            self,
            Self::U8
                | Self::I8
                | Self::U16
                | Self::I16
                | Self::U32
                | Self::I32
                | Self::U64
                | Self::I64
        )
    }
}

impl FromStr for ValueType {
    type Err = UnknownName;

    /// The type with this short name.
    fn from_str(name: &str) -> Result<Self, UnknownName> {
        Self::ALL
            .into_iter()
            .find(|value_type| value_type.name() == Some(name))
            .ok_or(UnknownName(()))
    }
}

impl fmt::Display for ValueType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.pad(name),
            None => write!(f, "value type {}", self.0),
        }
    }
}

impl fmt::Debug for ValueType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
