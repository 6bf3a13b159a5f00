//! The block formats, one file per family.
//!
//! A format defines how one block is decoded and encoded. The codec handles lengths, rows and the
//! rejection of infinities. The order of the floating-point operations is part of the format:
//! another order gives other bytes.

#![allow(non_camel_case_types, reason = "types have the specification's names")]
#![allow(
    clippy::precedence,
    reason = "bits are shifted, masked and combined, in that order, on every line"
)]
#![allow(
    clippy::inline_always,
    reason = "vector code is fast only when inlined into the function compiled for its instructions"
)]

pub(crate) mod fp4;
pub(crate) mod iq;
pub(crate) mod iq4;
pub(crate) mod k;
pub(crate) mod legacy;
pub(crate) mod low_bit;
pub(crate) mod plain;

use ggmill_core::GgmlType;

use crate::lanes::Lanes;

/// A block format of `N` elements in `B` bytes that can be decoded.
pub(crate) trait Decode<const N: usize, const B: usize>: Sync + 'static {
    /// The tensor type.
    const TYPE: GgmlType;

    /// Decodes one block.
    fn decode(block: &[u8; B], out: &mut [f32; N]);

    /// Decodes all blocks with the instruction set `lanes`.
    #[inline(always)]
    fn decode_many<L: Lanes>(lanes: L, blocks: &[[u8; B]], out: &mut [[f32; N]]) {
        let _ = lanes;
        for (block, out) in blocks.iter().zip(out) {
            Self::decode(block, out);
        }
    }
}

/// A block format that can also be encoded.
pub(crate) trait Encode<const N: usize, const B: usize>: Decode<N, B> {
    /// `true` if the format requires importance weights. If true, the codec never calls
    /// [`encode`](Self::encode).
    const NEEDS_WEIGHTS: bool = false;

    /// An upper bound of the magnitudes that blocks can represent. A half-precision scale times a
    /// level is below 2³⁰ in every format. Beyond it, sums in the search for a scale can overflow,
    /// and the values may decode to zeros. Types without a scale need no bound: values out of their
    /// range decode to infinities.
    const MAX_MAGNITUDE: f32 = if N == 1 { f32::INFINITY } else { 1_073_741_824.0 };

    /// Encodes one block. The values are finite unless `N` is 1.
    fn encode(values: &[f32; N], block: &mut [u8; B]);

    /// Encodes one block, with errors weighted by the importance of their column.
    ///
    /// `row_sigma2` is the result of [`row_sigma2`](Self::row_sigma2). The default implementation
    /// ignores importance.
    fn encode_weighted(
        values: &[f32; N],
        weights: &[f32; N],
        row_sigma2: f32,
        block: &mut [u8; B],
    ) {
        let _ = (weights, row_sigma2);
        Self::encode(values, block);
    }

    /// Encodes all blocks with the instruction set `lanes`, to the bytes that
    /// [`encode`](Self::encode) gives.
    #[inline(always)]
    fn encode_many<L: Lanes>(lanes: L, values: &[[f32; N]], out: &mut [[u8; B]]) {
        let _ = lanes;
        for (values, block) in values.iter().zip(out) {
            Self::encode(values, block);
        }
    }

    /// Encodes the blocks of one row with the instruction set `lanes`, to the bytes that
    /// [`encode_weighted`](Self::encode_weighted) gives.
    #[inline(always)]
    fn encode_many_weighted<L: Lanes>(
        lanes: L,
        values: &[[f32; N]],
        weights: &[[f32; N]],
        row_sigma2: f32,
        out: &mut [[u8; B]],
    ) {
        let _ = lanes;
        for ((values, weights), block) in values.iter().zip(weights).zip(out) {
            Self::encode_weighted(values, weights, row_sigma2, block);
        }
    }

    /// Encodes blocks with or without importance weights and the σ² of their row. A format that has
    /// one algorithm for both overrides this, which halves its code size.
    #[inline(always)]
    fn encode_all<L: Lanes>(
        lanes: L,
        values: &[[f32; N]],
        weights: Option<(&[[f32; N]], f32)>,
        out: &mut [[u8; B]],
    ) {
        match weights {
            None => Self::encode_many(lanes, values, out),
            Some((weights, row_sigma2)) => {
                Self::encode_many_weighted(lanes, values, weights, row_sigma2, out);
            }
        }
    }

    /// Returns the index of the first value that is out of range: above
    /// [`MAX_MAGNITUDE`](Self::MAX_MAGNITUDE), or decoded to an infinity or NaN because its scale
    /// overflows half precision.
    fn first_out_of_range(values: &[[f32; N]], blocks: &[[u8; B]]) -> Option<usize> {
        /// No search gives a scale that decodes to twice the greatest magnitude of the block, and
        /// half precision ends at 65504.
        const SAFE: f32 = 32_768.0;
        let safe = SAFE.min(Self::MAX_MAGNITUDE);
        if !values.as_flattened().iter().fold(false, |any, value| any | (value.abs() > safe)) {
            return None;
        }
        let mut back = [0.0; N];
        values.iter().zip(blocks).enumerate().find_map(|(index, (values, block))| {
            Self::decode(block, &mut back);
            let beyond = values.iter().position(|value| value.abs() > Self::MAX_MAGNITUDE);
            Some(index * N + beyond.or_else(|| back.iter().position(|value| !value.is_finite()))?)
        })
    }

    /// Returns the mean square of the row, if encoding with importance needs it, else 0.
    fn row_sigma2(row: &[f32]) -> f32 {
        let _ = row;
        0.0
    }
}

/// Spreads the bits of a byte to the lowest bits of eight bytes, the lowest bit first.
const BITS_TO_BYTES: [u64; 256] = {
    let mut spread = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut bit = 0;
        while bit < 8 {
            spread[byte] |= (byte as u64 >> bit & 1) << (8 * bit);
            bit += 1;
        }
        byte += 1;
    }
    spread
};

/// A 1 in each of eight bytes.
const BYTE_ONES: u64 = 0x0101_0101_0101_0101;

/// Collects the lowest bit of each of eight bytes, the inverse of [`BITS_TO_BYTES`].
#[inline(always)]
const fn gather_bits(bytes: u64) -> u8 {
    // The term 2^(56 - 7·i) moves bit 8·i to 56 + i. No other product reaches that bit, and no two
    // products meet below it, so there are no carries.
    ((bytes & BYTE_ONES).wrapping_mul(0x0102_0408_1020_4080) >> 56) as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gathered_bits_equal_the_spread_ones() {
        for byte in 0..=u8::MAX {
            let spread = BITS_TO_BYTES[usize::from(byte)];
            assert_eq!(gather_bits(spread), byte);
            assert_eq!(gather_bits(spread | !BYTE_ONES), byte);
        }
    }
}
