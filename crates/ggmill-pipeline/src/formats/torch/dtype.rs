//! The types of elements that PyTorch has.

use ggmill_core::GgmlType;

/// A type of elements.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Dtype {
    /// The storage class of the module `torch`, for the types that have one.
    class: Option<&'static str>,
    /// Its name in the module `torch`.
    name: &'static str,
    /// The GGML type, or the integer type of the same size.
    pub(super) ggml_type: GgmlType,
    /// The name of a type that GGML does not have, as safetensors spells it.
    pub(super) stored_type: Option<&'static str>,
    /// Bytes of an element.
    pub(super) size: u64,
    /// Bytes whose order depends on that of the file: half an element of a complex type.
    pub(super) unit: usize,
}

const fn own(class: &'static str, name: &'static str, ggml_type: GgmlType, size: u8) -> Dtype {
    Dtype {
        class: Some(class),
        name,
        ggml_type,
        stored_type: None,
        size: size as u64,
        unit: size as usize,
    }
}

const fn foreign(
    class: Option<&'static str>,
    name: &'static str,
    stored_type: &'static str,
    size: u8,
) -> Dtype {
    let ggml_type = match size {
        1 => GgmlType::I8,
        2 => GgmlType::I16,
        4 => GgmlType::I32,
        _ => GgmlType::I64,
    };
    Dtype {
        class,
        name,
        ggml_type,
        stored_type: Some(stored_type),
        size: size as u64,
        unit: size as usize,
    }
}

static DTYPES: [Dtype; 19] = [
    own("DoubleStorage", "float64", GgmlType::F64, 8),
    own("FloatStorage", "float32", GgmlType::F32, 4),
    own("HalfStorage", "float16", GgmlType::F16, 2),
    own("BFloat16Storage", "bfloat16", GgmlType::BF16, 2),
    own("LongStorage", "int64", GgmlType::I64, 8),
    own("IntStorage", "int32", GgmlType::I32, 4),
    own("ShortStorage", "int16", GgmlType::I16, 2),
    own("CharStorage", "int8", GgmlType::I8, 1),
    foreign(Some("ByteStorage"), "uint8", "U8", 1),
    foreign(Some("BoolStorage"), "bool", "BOOL", 1),
    Dtype { unit: 4, ..foreign(Some("ComplexFloatStorage"), "complex64", "C64", 8) },
    foreign(None, "uint16", "U16", 2),
    foreign(None, "uint32", "U32", 4),
    foreign(None, "uint64", "U64", 8),
    foreign(None, "float8_e4m3fn", "F8_E4M3", 1),
    foreign(None, "float8_e5m2", "F8_E5M2", 1),
    foreign(None, "float8_e4m3fnuz", "F8_E4M3FNUZ", 1),
    foreign(None, "float8_e5m2fnuz", "F8_E5M2FNUZ", 1),
    foreign(None, "float8_e8m0fnu", "F8_E8M0", 1),
];

impl Dtype {
    /// The type of the elements of a storage class.
    pub(super) fn of_class(class: &str) -> Option<&'static Self> {
        DTYPES.iter().find(|dtype| dtype.class == Some(class))
    }

    /// The type that has this name in the module `torch`.
    pub(super) fn named(name: &str) -> Option<&'static Self> {
        DTYPES.iter().find(|dtype| dtype.name == name)
    }
}
