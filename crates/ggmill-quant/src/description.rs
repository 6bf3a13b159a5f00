//! The layout of a block of each tensor type: for pages about types, and for what reads scales
//! without decoding.

use ggmill_core::GgmlType;

/// How a scale is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "what reads scales has to know every format")]
pub enum ScaleFormat {
    /// IEEE half precision.
    F16,
    /// IEEE single precision.
    F32,
    /// A power of two: the exponent alone, of which 255 is not a number.
    E8M0,
    /// Each byte four bits of exponent and three of fraction, of which 127 is not a number.
    UE4M3,
    /// Half precision, of which each of four half-words has a quarter in its upper four bits.
    Spread,
}

/// Bytes of a block that belong together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct BlockField {
    /// The name in the reference.
    pub name: &'static str,
    /// The first of its bytes within the block.
    pub start: u32,
    /// How many bytes it has.
    pub bytes: u32,
    /// Its content, in words.
    pub what: &'static str,
    /// How it is written, when it is a scale of the whole block (or a minimum or sum with such a
    /// scale).
    pub scale: Option<ScaleFormat>,
}

/// The block of a type: its parts in the order of the bytes, and how a weight comes from them.
///
/// ```
/// use ggmill_core::GgmlType;
/// use ggmill_quant::BlockDescription;
/// let block = BlockDescription::of(GgmlType::Q8_0).ok_or("has blocks")?;
/// assert_eq!((block.fields[0].name, block.fields[1].bytes, block.formula), ("d", 32, "d · q"));
/// # Ok::<(), &str>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct BlockDescription {
    /// Its parts in the order of the bytes.
    pub fields: &'static [BlockField],
    /// How a weight comes from them, with their names.
    pub formula: &'static str,
}

impl BlockDescription {
    /// The block of a type, or `None` for plain numbers and for types that were removed.
    pub fn of(ggml_type: GgmlType) -> Option<Self> {
        block(ggml_type)
    }
}

const fn field(name: &'static str, start: u32, bytes: u32, what: &'static str) -> BlockField {
    BlockField { name, start, bytes, what, scale: None }
}

const fn scale(
    name: &'static str,
    start: u32,
    bytes: u32,
    scale: ScaleFormat,
    what: &'static str,
) -> BlockField {
    BlockField { name, start, bytes, what, scale: Some(scale) }
}

/// A half-precision scale.
const fn d(start: u32) -> BlockField {
    scale("d", start, 2, ScaleFormat::F16, "f16 scale")
}

const fn m(start: u32) -> BlockField {
    scale("m", start, 2, ScaleFormat::F16, "f16 minimum")
}

const fn dmin(start: u32) -> BlockField {
    scale("dmin", start, 2, ScaleFormat::F16, "f16 scale of the minimums")
}

/// The block of a type, or `None` for plain numbers and for types that were removed.
#[expect(clippy::too_many_lines, reason = "a table")]
fn block(ggml_type: GgmlType) -> Option<BlockDescription> {
    const NIBBLES: &str = "32 weights of 4 bits: i below, i + 16 above";
    let (fields, formula): (&'static [BlockField], _) = match ggml_type {
        GgmlType::Q4_0 => (const { &[d(0), field("qs", 2, 16, NIBBLES)] }, "d · (q - 8)"),
        GgmlType::Q4_1 => (const { &[d(0), m(2), field("qs", 4, 16, NIBBLES)] }, "d · q + m"),
        GgmlType::Q5_0 => (
            const {
                &[
                    d(0),
                    field("qh", 2, 4, "fifth bit of each weight"),
                    field("qs", 6, 16, "lower 4 bits: i below, i + 16 above"),
                ]
            },
            "d · (q - 16)",
        ),
        GgmlType::Q5_1 => (
            const {
                &[
                    d(0),
                    m(2),
                    field("qh", 4, 4, "fifth bit of each weight"),
                    field("qs", 8, 16, "lower 4 bits: i below, i + 16 above"),
                ]
            },
            "d · q + m",
        ),
        GgmlType::Q8_0 => {
            (const { &[d(0), field("qs", 2, 32, "32 weights of 8 bits, signed")] }, "d · q")
        }
        GgmlType::Q8_1 => (
            const {
                &[
                    d(0),
                    scale("s", 2, 2, ScaleFormat::F16, "f16, d times the sum of the weights"),
                    field("qs", 4, 32, "32 weights of 8 bits, signed"),
                ]
            },
            "d · q",
        ),
        GgmlType::Q2_K => (
            const {
                &[
                    field(
                        "scales",
                        0,
                        16,
                        "of 16 weights each: 4 bits of scale below, 4 of minimum above",
                    ),
                    field("qs", 16, 64, "256 weights of 2 bits"),
                    d(80),
                    dmin(82),
                ]
            },
            "d · scale · q - dmin · minimum",
        ),
        GgmlType::Q3_K => (
            const {
                &[
                    field("hmask", 0, 32, "third bit of each weight"),
                    field("qs", 32, 64, "lower 2 bits of 256 weights"),
                    field("scales", 96, 12, "16 scales of 6 bits, of 16 weights each"),
                    d(108),
                ]
            },
            "d · (scale - 32) · (q - 4)",
        ),
        GgmlType::Q4_K => (
            const {
                &[
                    d(0),
                    dmin(2),
                    field("scales", 4, 12, "8 scales and 8 minimums of 6 bits, of 32 weights each"),
                    field("qs", 16, 128, "256 weights of 4 bits"),
                ]
            },
            "d · scale · q - dmin · minimum",
        ),
        GgmlType::Q5_K => (
            const {
                &[
                    d(0),
                    dmin(2),
                    field("scales", 4, 12, "8 scales and 8 minimums of 6 bits, of 32 weights each"),
                    field("qh", 16, 32, "fifth bit of each weight"),
                    field("qs", 48, 128, "lower 4 bits of 256 weights"),
                ]
            },
            "d · scale · q - dmin · minimum",
        ),
        GgmlType::Q6_K => (
            const {
                &[
                    field("ql", 0, 128, "lower 4 bits of 256 weights"),
                    field("qh", 128, 64, "upper 2 bits of 256 weights"),
                    field("scales", 192, 16, "16 scales of 8 bits, signed, of 16 weights each"),
                    d(208),
                ]
            },
            "d · scale · (q - 32)",
        ),
        GgmlType::Q8_K => (
            const {
                &[
                    scale("d", 0, 4, ScaleFormat::F32, "f32 scale"),
                    field("qs", 4, 256, "256 weights of 8 bits, signed"),
                    field("bsums", 260, 32, "sums of 16 weights each, i16"),
                ]
            },
            "d · q",
        ),
        GgmlType::IQ2_XXS => (
            const {
                &[
                    d(0),
                    field(
                        "qs",
                        2,
                        64,
                        "of 32 weights each: 4 grid points of 8 bits, then 4 × 7 bits of signs \
                         and 4 of scale",
                    ),
                ]
            },
            "d · (scale + ½) / 4 · ± grid",
        ),
        GgmlType::IQ2_XS => (
            const {
                &[
                    d(0),
                    field("qs", 2, 64, "of 8 weights each: 9 bits of grid point, 7 of signs"),
                    field("scales", 66, 8, "16 scales of 4 bits, of 16 weights each"),
                ]
            },
            "d · (scale + ½) / 4 · ± grid",
        ),
        GgmlType::IQ2_S => (
            const {
                &[
                    d(0),
                    field("qs", 2, 32, "lower 8 bits of 32 grid points"),
                    field("signs", 34, 32, "a sign bit for each weight"),
                    field("qh", 66, 8, "upper 2 bits of the grid points"),
                    field("scales", 74, 8, "16 scales of 4 bits, of 16 weights each"),
                ]
            },
            "d · (scale + ½) / 4 · ± grid",
        ),
        GgmlType::IQ3_XXS => (
            const {
                &[
                    d(0),
                    field("qs", 2, 64, "64 grid points of 8 bits, of 4 weights each"),
                    field("gas", 66, 32, "of 32 weights each: 4 × 7 bits of signs, 4 of scale"),
                ]
            },
            "d · (scale + ½) / 2 · ± grid",
        ),
        GgmlType::IQ3_S => (
            const {
                &[
                    d(0),
                    field("qs", 2, 64, "lower 8 bits of 64 grid points"),
                    field("qh", 66, 8, "ninth bit of the grid points"),
                    field("signs", 74, 32, "a sign bit for each weight"),
                    field("scales", 106, 4, "8 scales of 4 bits, of 32 weights each"),
                ]
            },
            "d · (1 + 2 · scale) · ± grid",
        ),
        GgmlType::IQ1_S => (
            const {
                &[
                    d(0),
                    field("qs", 2, 32, "lower 8 bits of 32 grid points, of 8 weights each"),
                    field(
                        "qh",
                        34,
                        16,
                        "of 32 weights each: 4 × 3 bits of grid points, 3 of scale, 1 for the \
                         shift",
                    ),
                ]
            },
            "d · (2 · scale + 1) · (grid ± ⅛)",
        ),
        GgmlType::IQ1_M => (
            const {
                &[
                    field("qs", 0, 32, "lower 8 bits of 32 grid points, of 8 weights each"),
                    field("qh", 32, 16, "of each grid point: 3 bits of it, 1 for the shift"),
                    scale(
                        "scales",
                        48,
                        8,
                        ScaleFormat::Spread,
                        "4 × (4 scales of 3 bits, then 4 bits of the f16 scale d)",
                    ),
                ]
            },
            "d · (2 · scale + 1) · (grid ± ⅛)",
        ),
        GgmlType::IQ4_NL => (const { &[d(0), field("qs", 2, 16, NIBBLES)] }, "d · table[q]"),
        GgmlType::IQ4_XS => (
            const {
                &[
                    d(0),
                    field("scales_h", 2, 2, "upper 2 bits of 8 scales"),
                    field("scales_l", 4, 4, "lower 4 bits of 8 scales, of 32 weights each"),
                    field("qs", 8, 128, "256 weights of 4 bits"),
                ]
            },
            "d · (scale - 32) · table[q]",
        ),
        GgmlType::TQ1_0 => (
            const {
                &[
                    field("qs", 0, 48, "5 weights in a byte, in base 3"),
                    field("qh", 48, 4, "4 weights in a byte, in base 3"),
                    d(52),
                ]
            },
            "d · (q - 1)",
        ),
        GgmlType::TQ2_0 => {
            (const { &[field("qs", 0, 64, "256 weights of 2 bits"), d(64)] }, "d · (q - 1)")
        }
        GgmlType::MXFP4 => (
            const {
                &[
                    scale("e", 0, 1, ScaleFormat::E8M0, "E8M0 scale: an exponent"),
                    field("qs", 1, 16, NIBBLES),
                ]
            },
            "2^(e - 127) · E2M1 number q",
        ),
        GgmlType::NVFP4 => (
            const {
                &[
                    scale("d", 0, 4, ScaleFormat::UE4M3, "4 UE4M3 scales, of 16 weights each"),
                    field("qs", 4, 32, "64 weights of 4 bits: of each 16, i below, i + 8 above"),
                ]
            },
            "d · E2M1 number q",
        ),
        GgmlType::Q1_0 => (const { &[d(0), field("qs", 2, 16, "128 weights of 1 bit")] }, "± d"),
        GgmlType::Q2_0 => {
            (const { &[d(0), field("qs", 2, 16, "64 weights of 2 bits")] }, "d · (q - 1)")
        }
        _ => return None,
    };
    Some(BlockDescription { fields, formula })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_fill_the_block() {
        for ggml_type in GgmlType::all() {
            let Some(block) = block(ggml_type) else {
                assert!(
                    !ggml_type.is_quantized() || ggml_type.is_retired(),
                    "{ggml_type}: no block"
                );
                continue;
            };
            let end = block.fields.iter().fold(0, |end, field| {
                assert_eq!(field.start, end, "{ggml_type}: {}", field.name);
                field.start + field.bytes
            });
            assert_eq!(end, ggml_type.layout().unwrap().bytes, "{ggml_type}");
            assert!(
                block.fields.iter().any(|field| field.scale.is_some()),
                "{ggml_type}: no scale"
            );
        }
    }
}
