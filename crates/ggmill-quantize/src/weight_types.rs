//! The tensor types that weights can be written as.

use ggmill_core::GgmlType;

/// The tensor type with this name, upper and lower case alike, if it is one of [`weight_types`].
pub fn weight_type(name: &str) -> Option<GgmlType> {
    name.parse::<GgmlType>().ok().filter(|&ggml_type| is_for_weights(ggml_type))
}

/// The tensor types that weights can be written as: not the integers, which hold none, and not
/// `Q8_1` and `Q8_K`, in which programs hold what they multiply weights with.
pub fn weight_types() -> impl Iterator<Item = GgmlType> {
    GgmlType::all().filter(|&ggml_type| is_for_weights(ggml_type))
}

pub(crate) fn is_for_weights(ggml_type: GgmlType) -> bool {
    !is_integer(ggml_type)
        && !matches!(ggml_type, GgmlType::Q8_1 | GgmlType::Q8_K)
        && ggmill_quant::codec(ggml_type).is_ok()
}

/// Whether a type holds whole numbers, and no weights.
pub(crate) fn is_integer(ggml_type: GgmlType) -> bool {
    matches!(ggml_type, GgmlType::I8 | GgmlType::I16 | GgmlType::I32 | GgmlType::I64)
}
