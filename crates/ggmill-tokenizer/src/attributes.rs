//! Token attributes as in llama.cpp, as a bit set.

/// A set of attributes of a token.
///
/// ```
/// use ggmill_tokenizer::Attributes;
/// let attributes = Attributes::CONTROL | Attributes::UNUSED;
/// assert!(attributes.contains(Attributes::CONTROL));
/// assert!(!attributes.intersects(Attributes::NORMAL | Attributes::BYTE));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Attributes(u16);

impl Attributes {
    /// No attribute: the type in the file is 0 or unknown.
    pub const UNDEFINED: Self = Self(0);
    /// Stands for text that has no token.
    pub const UNKNOWN: Self = Self(1);
    /// Reserved.
    pub const UNUSED: Self = Self(1 << 1);
    /// Text.
    pub const NORMAL: Self = Self(1 << 2);
    /// Not text: begin, end, turns.
    pub const CONTROL: Self = Self(1 << 3);
    /// Text that is found before all other.
    pub const USER_DEFINED: Self = Self(1 << 4);
    /// One byte, written `<0xXX>`.
    pub const BYTE: Self = Self(1 << 5);
    /// Takes the whitespace on its left.
    pub const LSTRIP: Self = Self(1 << 7);
    /// Takes the whitespace on its right.
    pub const RSTRIP: Self = Self(1 << 8);

    /// The attributes of a type in `tokenizer.ggml.token_type`.
    pub fn of_type(token_type: i32) -> Self {
        match token_type {
            1 => Self::NORMAL,
            2 => Self::UNKNOWN,
            3 => Self::CONTROL,
            4 => Self::USER_DEFINED,
            5 => Self::UNUSED,
            6 => Self::BYTE,
            _ => Self::UNDEFINED,
        }
    }

    /// Whether every attribute of `other` is set.
    pub fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Whether any attribute of `other` is set.
    pub fn intersects(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// The set without the attributes of `other`.
    #[must_use]
    pub fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// The bits, as llama.cpp has them in `llama_token_attr`.
    pub fn bits(self) -> u16 {
        self.0
    }
}

impl std::ops::BitOr for Attributes {
    type Output = Self;
    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl std::ops::BitOrAssign for Attributes {
    fn bitor_assign(&mut self, other: Self) {
        self.0 |= other.0;
    }
}
