#![doc = include_str!("../README.md")]
#![allow(
    clippy::large_enum_variant,
    clippy::many_single_char_names,
    clippy::neg_cmp_op_on_partial_ord,
    clippy::match_same_arms,
    clippy::similar_names,
    clippy::struct_field_names,
    reason = "formulas keep their usual letters and tables their rows; search state lives on the \
              stack, never in collections"
)]
#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    clippy::cast_lossless,
    reason = "this crate packs numbers into fewer bits; where a cast loses bits, so does the \
              reference"
)]

mod arch;
mod block;
mod codec;
mod codes;
mod description;
mod error;
mod float16;
pub mod functions;
mod isa;
mod lanes;
mod numeric;
mod product;
mod search;

pub use codec::{BlockCodec, codec, codec_with, read_f32};
pub use codes::{BlockParts, Codes, GroupChoice, GroupSearch, PerRow, subtract_products};
pub use description::{BlockDescription, BlockField, ScaleFormat};
pub use error::{Error, ErrorKind, Result};
use ggmill_core::GgmlType;
pub use ggmill_core::swap_bytes;
pub use isa::Isa;
pub use product::{Panel, Panels, Rows};

/// Decodes whole blocks of a type.
///
/// # Errors
///
/// Those of [`codec`] and [`BlockCodec::dequantize`].
pub fn dequantize(ggml_type: GgmlType, blocks: &[u8], out: &mut [f32]) -> Result<()> {
    codec::dequantize_type(ggml_type, blocks, out)
}

/// Encodes whole rows of `row_len` values as blocks of a type.
///
/// # Errors
///
/// Those of [`codec`] and [`BlockCodec::quantize`].
pub fn quantize(
    ggml_type: GgmlType,
    values: &[f32],
    row_len: usize,
    weights: Option<&[f32]>,
    out: &mut [u8],
) -> Result<()> {
    codec(ggml_type)?.quantize(values, row_len, weights, out)
}

/// Checks that every value was within the range of the type that `blocks` were encoded in.
///
/// # Errors
///
/// Those of [`codec`] and [`BlockCodec::check_range`].
pub fn check_range(
    ggml_type: GgmlType,
    values: &[f32],
    row_len: usize,
    blocks: &[u8],
) -> Result<()> {
    codec(ggml_type)?.check_range(values, row_len, blocks)
}

/// The version of the quantization formats that this crate and the reference write
/// (`GGML_QNT_VERSION`).
pub const QUANTIZATION_VERSION: u32 = 2;
