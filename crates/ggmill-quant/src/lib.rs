//! Block codecs of every GGML tensor type, bit for bit the reference's.
//!
//! A quantized tensor stores its rows as *blocks*: a fixed number of weights that share a scale. A
//! [`BlockCodec`] turns blocks of one type into `f32` and back. What it writes equals, byte for
//! byte, what `ggml_quantize_chunk` of ggml 0.25.3 writes for the same values and importance
//! weights on x86-64: plain IEEE single precision, in source order, nothing fused. The golden
//! vectors in `tests/vectors` hold it to that.
//!
//! ```
//! use ggmill_core::GgmlType;
//! let row: Vec<f32> = (0..64).map(|i| i as f32 / 8.0 - 4.0).collect();
//! let mut blocks = [0; 2 * 34];
//! ggmill_quant::quantize(GgmlType::Q8_0, &row, 64, None, &mut blocks)?;
//! let mut back = [0.0; 64];
//! ggmill_quant::dequantize(GgmlType::Q8_0, &blocks, &mut back)?;
//! assert!(row.iter().zip(&back).all(|(a, b)| (a - b).abs() < 0.02));
//! # Ok::<(), ggmill_quant::Error>(())
//! ```
//!
//! Two inputs are refused where the reference carries on: values that are infinite or not a number,
//! which would spoil the scale of every weight beside them, and importance weights that are. Plain
//! floats (F16, BF16, F64, F32) carry such values as they are.
//!
//! Finite values that a type cannot hold have the reference's bytes, which then mean something
//! else: [`check_range`] finds them.
//!
//! Three types (IQ1_S, IQ2_XXS, IQ2_XS) are refused without importance weights, as by the
//! reference. Where it ends its process over finite values, because the sums of its search overflow
//! or vanish, there is an answer here, and it is the same everywhere.

#![allow(
    clippy::large_enum_variant,
    clippy::many_single_char_names,
    clippy::neg_cmp_op_on_partial_ord,
    clippy::match_same_arms,
    clippy::similar_names,
    clippy::struct_field_names,
    reason = "formulas keep the letters they have in the field, and tables their rows; search \
              state lives on the stack, never in collections"
)]
#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    clippy::cast_lossless,
    reason = "packing numbers into fewer bits is what this crate does; where a cast loses \
              anything, the reference loses the same"
)]

mod arch;
mod block;
mod codec;
mod description;
mod error;
mod float16;
mod isa;
mod lanes;
mod numeric;
mod read;
mod search;

pub use codec::{BlockCodec, codec, codec_with};
pub use description::{BlockDescription, BlockField, ScaleFormat};
pub use error::{Error, ErrorKind, Result};
use ggmill_core::GgmlType;
pub use ggmill_core::swap_bytes;
pub use isa::Isa;
pub use read::read_f32;

/// Turns whole blocks of a type into values; fails as [`codec`] and [`BlockCodec::dequantize`] do.
pub fn dequantize(ggml_type: GgmlType, blocks: &[u8], out: &mut [f32]) -> Result<()> {
    codec(ggml_type)?.dequantize(blocks, out)
}

/// Turns whole rows of `row_len` values into blocks of a type; fails as [`codec`] and
/// [`BlockCodec::quantize`] do.
pub fn quantize(
    ggml_type: GgmlType,
    values: &[f32],
    row_len: usize,
    weights: Option<&[f32]>,
    out: &mut [u8],
) -> Result<()> {
    codec(ggml_type)?.quantize(values, row_len, weights, out)
}

/// Whether blocks hold the values they were made of; fails as [`codec`] and
/// [`BlockCodec::check_range`] do.
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
