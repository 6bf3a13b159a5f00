//! GGUF files composed field by field, without checks.

use ggmill_core::{Endian, ValueType};

/// A GGUF file being composed. Every field is written as given: nothing is counted, checked or padded
/// automatically, so that a file can have exactly one fault.
///
/// ```
/// use ggmill_core::{Endian, Header};
/// use ggmill_testdata::bytes::{FileBytes, Value};
///
/// let mut file = FileBytes::new(3, Endian::Big);
/// file.head(1, 1).pair("general.architecture", &Value::from("llama")).tensor("a", &[2], 0, 0).pad(32).raw(&[0; 8]);
/// let model = Header::parse(file.as_bytes())?;
/// assert_eq!(model.endian(), Endian::Big);
/// assert_eq!(model.tensor("a")?.data()?.len(), 8);
/// # Ok::<(), ggmill_core::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct FileBytes {
    bytes: Vec<u8>,
    version: u32,
    endian: Endian,
}

macro_rules! numbers {
    ($($name:ident $number:ty;)*) => {$(
        #[doc = concat!("Appends a `", stringify!($number), "` in the byte order of the file.")]
        pub fn $name(&mut self, number: $number) -> &mut Self {
            match self.endian {
                Endian::Little => self.raw(&number.to_le_bytes()),
                Endian::Big => self.raw(&number.to_be_bytes()),
            }
        }
    )*};
}

impl FileBytes {
    /// Creates an empty file whose fields are written with a version and byte order.
    pub fn new(version: u32, endian: Endian) -> Self {
        Self { bytes: Vec::new(), version, endian }
    }

    /// Creates a little-endian file of version 3 with magic, version and counts.
    pub fn v3(tensors: u64, pairs: u64) -> Self {
        let mut file = Self::new(3, Endian::Little);
        file.head(tensors, pairs);
        file
    }

    numbers! {
        u8 u8; i8 i8; u16 u16; i16 i16; u32 u32; i32 i32; u64 u64; i64 i64; f32 f32; f64 f64;
    }

    /// Appends bytes.
    pub fn raw(&mut self, bytes: &[u8]) -> &mut Self {
        self.bytes.extend_from_slice(bytes);
        self
    }

    /// Appends the magic `GGUF`, the version, and the numbers of tensors and metadata entries.
    pub fn head(&mut self, tensors: u64, pairs: u64) -> &mut Self {
        self.head_with(b"GGUF", tensors, pairs)
    }

    /// Appends the fields of [`FileBytes::head`] with a different magic.
    pub fn head_with(&mut self, magic: &[u8], tensors: u64, pairs: u64) -> &mut Self {
        let version = self.version;
        self.raw(magic).u32(version).length(tensors).length(pairs)
    }

    /// Appends a count or length: 64 bits, or the lower 32 bits in version 1.
    pub fn length(&mut self, length: u64) -> &mut Self {
        if self.version == 1 {
            #[expect(
                clippy::cast_possible_truncation,
                reason = "version 1 has no more than 32 bits for it"
            )]
            self.u32(length as u32)
        } else {
            self.u64(length)
        }
    }

    /// Appends a string: length and bytes.
    pub fn string(&mut self, bytes: impl AsRef<[u8]>) -> &mut Self {
        self.length(bytes.as_ref().len() as u64).raw(bytes.as_ref())
    }

    /// Appends a metadata entry: key, type and value.
    pub fn pair(&mut self, key: impl AsRef<[u8]>, value: &Value) -> &mut Self {
        self.string(key).u32(value.value_type()).value(value)
    }

    /// Appends a value without its type.
    pub fn value(&mut self, value: &Value) -> &mut Self {
        match value {
            Value::U8(v) | Value::Bool(v) => self.u8(*v),
            Value::I8(v) => self.i8(*v),
            Value::U16(v) => self.u16(*v),
            Value::I16(v) => self.i16(*v),
            Value::U32(v) => self.u32(*v),
            Value::I32(v) => self.i32(*v),
            Value::U64(v) => self.u64(*v),
            Value::I64(v) => self.i64(*v),
            Value::F32(v) => self.f32(*v),
            Value::F64(v) => self.f64(*v),
            Value::Str(v) => self.string(v),
            Value::Array(element, values) => {
                self.array(*element, values.len() as u64);
                values.iter().fold(self, |file, value| file.value(value))
            }
        }
    }

    /// Appends the beginning of an array: element type and length.
    pub fn array(&mut self, element: u32, length: u64) -> &mut Self {
        self.u32(element).length(length)
    }

    /// Appends a tensor info: name, dimensions (32 bits each in version 1), type, and offset within the
    /// data.
    pub fn tensor(
        &mut self,
        name: impl AsRef<[u8]>,
        dimensions: &[u64],
        ggml_type: u32,
        offset: u64,
    ) -> &mut Self {
        #[expect(clippy::cast_possible_truncation, reason = "no test has four billion dimensions")]
        self.string(name).u32(dimensions.len() as u32);
        dimensions
            .iter()
            .fold(self, |file, &dimension| file.length(dimension))
            .u32(ggml_type)
            .u64(offset)
    }

    /// Appends zeros up to the next multiple.
    pub fn pad(&mut self, alignment: usize) -> &mut Self {
        self.bytes.resize(self.bytes.len().next_multiple_of(alignment), 0);
        self
    }

    /// Returns the number of bytes, which is the offset of the next field.
    pub fn position(&self) -> u64 {
        self.bytes.len() as u64
    }

    /// Returns the bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Converts the file to its bytes.
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }
}

/// A metadata value to write. Bools can be any byte, strings need not be UTF-8, and the elements of an
/// array need not have its element type.
#[derive(Clone, Debug)]
#[expect(
    missing_docs,
    clippy::exhaustive_enums,
    reason = "each variant is its type; the specification lists these"
)]
pub enum Value {
    U8(u8),
    I8(i8),
    U16(u16),
    I16(i16),
    U32(u32),
    I32(i32),
    U64(u64),
    I64(i64),
    F32(f32),
    F64(f64),
    Bool(u8),
    Str(Vec<u8>),
    Array(u32, Vec<Value>),
}

impl Value {
    /// Returns the number of the type in a file.
    pub fn value_type(&self) -> u32 {
        match self {
            Self::U8(_) => ValueType::U8,
            Self::I8(_) => ValueType::I8,
            Self::U16(_) => ValueType::U16,
            Self::I16(_) => ValueType::I16,
            Self::U32(_) => ValueType::U32,
            Self::I32(_) => ValueType::I32,
            Self::U64(_) => ValueType::U64,
            Self::I64(_) => ValueType::I64,
            Self::F32(_) => ValueType::F32,
            Self::F64(_) => ValueType::F64,
            Self::Bool(_) => ValueType::BOOL,
            Self::Str(_) => ValueType::STRING,
            Self::Array(..) => ValueType::ARRAY,
        }
        .0
    }

    /// Returns one value of each type, in the order of the numbers: extremes, a NaN with a payload, nested
    /// arrays.
    pub fn one_of_each() -> Vec<Self> {
        let numbers = Self::Array(ValueType::I16.0, vec![Self::I16(-1), Self::I16(i16::MAX)]);
        let strings = Self::Array(ValueType::STRING.0, vec![Self::from(""), Self::from("b\u{e9}")]);
        let nested = Self::Array(
            ValueType::ARRAY.0,
            vec![numbers, strings, Self::Array(ValueType::F64.0, vec![])],
        );
        vec![
            Self::U8(u8::MAX),
            Self::I8(i8::MIN),
            Self::U16(u16::MAX),
            Self::I16(i16::MIN),
            Self::U32(u32::MAX),
            Self::I32(i32::MIN),
            Self::F32(f32::from_bits(0x7fc1_2345)),
            Self::Bool(1),
            Self::from("caf\u{e9}"),
            nested,
            Self::U64(u64::MAX),
            Self::I64(i64::MIN),
            Self::F64(f64::from_bits(0x7ff8_0000_0000_0001)),
        ]
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Str(text.into())
    }
}
