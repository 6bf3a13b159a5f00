//! The layout of a block of each tensor type, for documentation and for code that reads scales
//! without decoding blocks.

use ggmill_core::GgmlType;

/// The encoding of a scale.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "a reader of scales has to handle every encoding")]
pub enum ScaleFormat {
    /// IEEE half precision.
    F16,
    /// IEEE single precision.
    F32,
    /// A power of two stored as its biased exponent in one byte. 255 is NaN.
    E8M0,
    /// An unsigned float per byte: four bits of exponent, three of mantissa. 127 is NaN.
    UE4M3,
    /// Half precision, four bits at a time in the upper bits of four 16-bit words.
    Spread,
}

/// A field of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct BlockField {
    /// The field's name in the reference.
    pub name: &'static str,
    /// The offset of the field in the block, in bytes.
    pub start: u32,
    /// The size of the field in bytes.
    pub bytes: u32,
    /// A short description of the content.
    pub what: &'static str,
    /// The encoding, if the field is a floating-point scale of the block (or a minimum or sum
    /// stored like one).
    pub scale: Option<ScaleFormat>,
}

/// The layout of the blocks of a type: the fields, and the formula of a weight.
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
    /// The fields in byte order.
    pub fields: &'static [BlockField],
    /// The formula of a weight in terms of the fields.
    pub formula: &'static str,
}

impl BlockDescription {
    /// Returns the layout of a type's blocks, or `None` for unquantized and retired types.
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

const fn d(start: u32) -> BlockField {
    scale("d", start, 2, ScaleFormat::F16, "f16 scale")
}

const fn m(start: u32) -> BlockField {
    scale("m", start, 2, ScaleFormat::F16, "f16 minimum")
}

const fn dmin(start: u32) -> BlockField {
    scale("dmin", start, 2, ScaleFormat::F16, "f16 scale of the minimums")
}

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
