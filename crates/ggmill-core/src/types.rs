//! The numbers a GGUF file uses for types, as open newtypes.
//!
//! Upstream adds numbers faster than readers are released. An unknown number can therefore be read,
//! listed, compared, copied and written; only an attempt to interpret it fails.

use core::fmt;
use core::str::FromStr;

/// The error for a text that is not the name of a type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownName(());

impl fmt::Display for UnknownName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not the name of a type")
    }
}

impl core::error::Error for UnknownName {}

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
#[expect(
    clippy::exhaustive_structs,
    reason = "any number is valid, and the number is the only field"
)]
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
    /// A length and bytes, UTF-8 by convention.
    pub const STRING: Self = Self(8);
    /// An element type, a count, and values of that type; may be nested.
    pub const ARRAY: Self = Self(9);
    /// A 64-bit unsigned integer.
    pub const U64: Self = Self(10);
    /// A 64-bit signed integer.
    pub const I64: Self = Self(11);
    /// A 64-bit IEEE 754 number.
    pub const F64: Self = Self(12);

    /// Every type in the specification, in the order of the numbers.
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

    /// Returns the short name (`u32`, `string`, …), or `None` for a number that is not in the
    /// specification.
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

    /// Returns the number of bytes of one value, or `None` for strings and arrays, whose length is
    /// part of the value, and for an unknown type.
    pub const fn fixed_size(self) -> Option<u64> {
        Some(match self {
            Self::U8 | Self::I8 | Self::BOOL => 1,
            Self::U16 | Self::I16 => 2,
            Self::U32 | Self::I32 | Self::F32 => 4,
            Self::U64 | Self::I64 | Self::F64 => 8,
            _ => return None,
        })
    }

    /// Returns `true` for the eight integer types.
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

    /// Parses a short name.
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

/// The block layout of a tensor type: each block along the first dimension stores `elements` elements
/// in `bytes` bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct BlockLayout {
    /// Elements of one block: 1 for plain numbers, 32 or 256 for most quantized types.
    pub elements: u32,
    /// Bytes of one block.
    pub bytes: u32,
}

impl BlockLayout {
    /// Returns the number of bytes of `elements` elements, or `None` if `elements` is not a multiple of
    /// the block size or the product exceeds `u64`.
    pub const fn bytes_for(self, elements: u64) -> Option<u64> {
        let block = self.elements as u64;
        if block == 0 || !elements.is_multiple_of(block) {
            return None;
        }
        match elements.checked_div(block) {
            Some(blocks) => blocks.checked_mul(self.bytes as u64),
            None => None,
        }
    }

    /// Returns the average number of bits per element.
    pub fn bits_per_weight(self) -> f64 {
        f64::from(self.bytes) * 8.0 / f64::from(self.elements)
    }
}

/// The type of a tensor's elements (`ggml_type` in ggml 0.25.3: numbers 0 to 42).
///
/// ```
/// use ggmill_core::GgmlType;
/// let layout = GgmlType::Q4_K.layout().ok_or("known")?;
/// assert_eq!((layout.elements, layout.bytes), (256, 144));
/// assert_eq!(layout.bytes_for(4096), Some(2304));
/// assert_eq!(GgmlType(57).to_string(), "type 57");
/// # Ok::<(), &str>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(
    clippy::exhaustive_structs,
    reason = "any number is valid, and the number is the only field"
)]
pub struct GgmlType(pub u32);

/// The properties of one tensor type: number, name, elements and bytes of a block, status.
struct TypeRow(u32, &'static str, u32, u32, Status);

#[derive(Clone, Copy, PartialEq)]
enum Status {
    Current,
    /// Removed upstream.
    Retired,
}

macro_rules! ggml_types {
    ($($id:literal $name:ident $elements:literal / $bytes:literal $status:ident;)*) => {
        impl GgmlType {
            $(
                #[doc = concat!("`", stringify!($name), "`, number ", $id, ": ", $elements, " elements in ", $bytes, " bytes.")]
                #[allow(non_upper_case_globals, reason = "the specification's spelling is the name people search for")]
                pub const $name: Self = Self($id);
            )*
        }
        static GGML_TYPES: &[TypeRow] = &[$(TypeRow($id, stringify!($name), $elements, $bytes, Status::$status)),*];
    };
}

// The sizes of Q4_2 and Q4_3 are those of ggml in spring 2023: 16 elements, an f16 scale, and for
// Q4_3 an f16 minimum. The 4x4, 4x8 and 8x8 types are interleaved Q4_0 and IQ4_NL blocks of unchanged
// size.
ggml_types! {
    0 F32 1/4 Current;
    1 F16 1/2 Current;
    2 Q4_0 32/18 Current;
    3 Q4_1 32/20 Current;
    4 Q4_2 16/10 Retired;
    5 Q4_3 16/12 Retired;
    6 Q5_0 32/22 Current;
    7 Q5_1 32/24 Current;
    8 Q8_0 32/34 Current;
    9 Q8_1 32/36 Current;
    10 Q2_K 256/84 Current;
    11 Q3_K 256/110 Current;
    12 Q4_K 256/144 Current;
    13 Q5_K 256/176 Current;
    14 Q6_K 256/210 Current;
    15 Q8_K 256/292 Current;
    16 IQ2_XXS 256/66 Current;
    17 IQ2_XS 256/74 Current;
    18 IQ3_XXS 256/98 Current;
    19 IQ1_S 256/50 Current;
    20 IQ4_NL 32/18 Current;
    21 IQ3_S 256/110 Current;
    22 IQ2_S 256/82 Current;
    23 IQ4_XS 256/136 Current;
    24 I8 1/1 Current;
    25 I16 1/2 Current;
    26 I32 1/4 Current;
    27 I64 1/8 Current;
    28 F64 1/8 Current;
    29 IQ1_M 256/56 Current;
    30 BF16 1/2 Current;
    31 Q4_0_4_4 32/18 Retired;
    32 Q4_0_4_8 32/18 Retired;
    33 Q4_0_8_8 32/18 Retired;
    34 TQ1_0 256/54 Current;
    35 TQ2_0 256/66 Current;
    36 IQ4_NL_4_4 32/18 Retired;
    37 IQ4_NL_4_8 32/18 Retired;
    38 IQ4_NL_8_8 32/18 Retired;
    39 MXFP4 32/17 Current;
    40 NVFP4 64/36 Current;
    41 Q1_0 128/18 Current;
    42 Q2_0 64/18 Current;
}

impl GgmlType {
    /// Returns every type that upstream has ever assigned, in the order of the numbers, retired types
    /// included.
    pub fn all() -> impl ExactSizeIterator<Item = Self> + Clone {
        GGML_TYPES.iter().map(|known| Self(known.0))
    }

    fn row(self) -> Option<&'static TypeRow> {
        // Row i describes number i; a test checks it.
        GGML_TYPES.get(usize::try_from(self.0).ok()?)
    }

    /// Returns the upstream name, or `None` for a number that upstream has never assigned.
    pub fn name(self) -> Option<&'static str> {
        self.row().map(|known| known.1)
    }

    /// Returns the block layout, or `None` for a number that upstream has never assigned.
    pub fn layout(self) -> Option<BlockLayout> {
        self.row().map(|known| BlockLayout { elements: known.2, bytes: known.3 })
    }

    /// Returns `true` if upstream has removed the type. Its block layout is known, but its data cannot
    /// be decoded.
    pub fn is_retired(self) -> bool {
        self.row().is_some_and(|known| known.4 == Status::Retired)
    }

    /// Returns `true` if elements are packed in blocks with shared scales, which all types are except
    /// plain integers and floats.
    pub fn is_quantized(self) -> bool {
        self.layout().is_some_and(|layout| layout.elements > 1)
    }
}

impl FromStr for GgmlType {
    type Err = UnknownName;

    /// Parses a name, ignoring case.
    fn from_str(name: &str) -> Result<Self, UnknownName> {
        GGML_TYPES
            .iter()
            .find(|known| known.1.eq_ignore_ascii_case(name))
            .map(|known| Self(known.0))
            .ok_or(UnknownName(()))
    }
}

impl fmt::Display for GgmlType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.pad(name),
            None => f.pad(&alloc::format!("type {}", self.0)),
        }
    }
}

impl fmt::Debug for GgmlType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The type of most of a file's tensors (`general.file_type`; `llama_ftype` in llama.cpp).
///
/// Not to be confused with `ggml_ftype`, a different list with different numbers.
///
/// ```
/// use ggmill_core::FileType;
/// assert_eq!(FileType::Q4_K_M.name(), Some("Q4_K_M"));
/// assert_eq!("q8_0".parse::<FileType>().ok(), Some(FileType(7)));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(
    clippy::exhaustive_structs,
    reason = "any number is valid, and the number is the only field"
)]
pub struct FileType(pub u32);

macro_rules! file_types {
    ($($id:literal $name:ident;)*) => {
        impl FileType {
            $(
                #[doc = concat!("`", stringify!($name), "`, number ", $id, ".")]
                pub const $name: Self = Self($id);
            )*
        }
        static FILE_TYPES: &[(u32, &str)] = &[$(($id, stringify!($name))),*];
    };
}

file_types! {
    0 F32;
    1 F16;
    2 Q4_0;
    3 Q4_1;
    4 Q4_1_SOME_F16;
    5 Q4_2;
    6 Q4_3;
    7 Q8_0;
    8 Q5_0;
    9 Q5_1;
    10 Q2_K;
    11 Q3_K_S;
    12 Q3_K_M;
    13 Q3_K_L;
    14 Q4_K_S;
    15 Q4_K_M;
    16 Q5_K_S;
    17 Q5_K_M;
    18 Q6_K;
    19 IQ2_XXS;
    20 IQ2_XS;
    21 Q2_K_S;
    22 IQ3_XS;
    23 IQ3_XXS;
    24 IQ1_S;
    25 IQ4_NL;
    26 IQ3_S;
    27 IQ3_M;
    28 IQ2_S;
    29 IQ2_M;
    30 IQ4_XS;
    31 IQ1_M;
    32 BF16;
    33 Q4_0_4_4;
    34 Q4_0_4_8;
    35 Q4_0_8_8;
    36 TQ1_0;
    37 TQ2_0;
    38 MXFP4_MOE;
    39 NVFP4;
    40 Q1_0;
    41 Q2_0;
}

impl FileType {
    /// A flag added to the number if the type was guessed from the tensors.
    pub const GUESSED: u32 = 1024;

    /// Returns the type without the [`GUESSED`](Self::GUESSED) flag.
    #[must_use]
    pub const fn without_guess(self) -> Self {
        Self(self.0 & !Self::GUESSED)
    }

    /// Returns the name as `llama-quantize` spells it, or `None` for an unassigned number.
    pub fn name(self) -> Option<&'static str> {
        let number = self.without_guess().0;
        FILE_TYPES.iter().find(|known| known.0 == number).map(|known| known.1)
    }
}

impl FromStr for FileType {
    type Err = UnknownName;

    /// Parses a name, ignoring case.
    fn from_str(name: &str) -> Result<Self, UnknownName> {
        FILE_TYPES
            .iter()
            .find(|known| known.1.eq_ignore_ascii_case(name))
            .map(|known| Self(known.0))
            .ok_or(UnknownName(()))
    }
}

impl fmt::Display for FileType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) if self.0 == self.without_guess().0 => f.pad(name),
            Some(name) => write!(f, "{name} (guessed)"),
            None => write!(f, "file type {}", self.0),
        }
    }
}

impl fmt::Debug for FileType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_row_of_a_type_is_at_its_number() {
        for (number, known) in GGML_TYPES.iter().enumerate() {
            assert_eq!(known.0 as usize, number);
        }
        assert_eq!(GGML_TYPES.len(), 43);
    }

    #[test]
    fn names_parse_to_their_types() {
        for ggml_type in GgmlType::all() {
            assert_eq!(ggml_type.name().unwrap().parse::<GgmlType>().ok(), Some(ggml_type));
        }
        assert_eq!("q4_k".parse::<GgmlType>().ok(), Some(GgmlType::Q4_K));
        assert_eq!("Q4K".parse::<GgmlType>().ok(), None);
    }

    #[test]
    fn a_partial_block_has_no_size() {
        let layout = GgmlType::NVFP4.layout().unwrap();
        assert_eq!(layout.bytes_for(64), Some(36));
        assert_eq!(layout.bytes_for(32), None);
        assert_eq!(layout.bytes_for(0), Some(0));
        assert_eq!(GgmlType::F64.layout().unwrap().bytes_for(u64::MAX), None);
    }
}
