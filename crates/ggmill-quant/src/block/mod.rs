//! The block formats, one file per family.
//!
//! Each format says how one block is read and written and nothing else; lengths, rows and the
//! refusal of infinities are the codec's business. The order of the floating-point operations is
//! part of the format: another order gives other bytes.

#![allow(non_camel_case_types, reason = "types carry the specification's names")]
// `q >> 4 & 3` reads as what it is, bits taken from a byte; parentheses around every such step hide
// more than they show.
#![allow(
    clippy::precedence,
    reason = "bits are shifted down, masked and combined, in that order, on every line"
)]
#![allow(
    clippy::inline_always,
    reason = "what works on many blocks has to be compiled for the instructions at hand"
)]

pub(crate) mod float;
pub(crate) mod fp4;
pub(crate) mod integer;
pub(crate) mod iq;
pub(crate) mod iq4;
pub(crate) mod k;
pub(crate) mod legacy;
pub(crate) mod ternary;
pub(crate) mod tiny;

use ggmill_core::GgmlType;

use crate::lanes::Lanes;

/// A block format of `N` elements in `B` bytes that can be read.
pub(crate) trait Decode<const N: usize, const B: usize>: Sync + 'static {
    /// The type in the file.
    const TYPE: GgmlType;

    /// Reads one block.
    fn decode(block: &[u8; B], out: &mut [f32; N]);

    /// Reads as many blocks as there are, with the instructions at hand.
    #[inline(always)]
    fn decode_many<L: Lanes>(lanes: L, blocks: &[[u8; B]], out: &mut [[f32; N]]) {
        let _ = lanes;
        for (block, out) in blocks.iter().zip(out) {
            Self::decode(block, out);
        }
    }
}

/// A block format that can also be written.
pub(crate) trait Encode<const N: usize, const B: usize>: Decode<N, B> {
    /// Whether the format is refused without importance: the codec then never calls
    /// [`encode`](Self::encode).
    const NEEDS_WEIGHTS: bool = false;

    /// A bound of the magnitudes that blocks can hold. Scales in half precision times the levels of
    /// any format stay below 2³⁰; beyond it sums overflow on the way to a scale, and what is
    /// stored for them may read back as zeros. Numbers without a scale end where they read back
    /// infinite.
    const GREATEST: f32 = if N == 1 { f32::INFINITY } else { 1_073_741_824.0 };

    /// Writes one block. The values are finite unless `N` is 1.
    fn encode(values: &[f32; N], block: &mut [u8; B]);

    /// Writes one block so that errors count by the importance of their column.
    ///
    /// `row_spread` is what [`row_spread`](Self::row_spread) said of the row. The default is for
    /// formats that have no use for importance.
    fn encode_weighted(
        values: &[f32; N],
        weights: &[f32; N],
        row_spread: f32,
        block: &mut [u8; B],
    ) {
        let _ = (weights, row_spread);
        Self::encode(values, block);
    }

    /// Writes as many blocks as there are, with the instructions at hand: the same bytes as
    /// [`encode`](Self::encode) writes.
    #[inline(always)]
    fn encode_many<L: Lanes>(lanes: L, values: &[[f32; N]], out: &mut [[u8; B]]) {
        let _ = lanes;
        for (values, block) in values.iter().zip(out) {
            Self::encode(values, block);
        }
    }

    /// Writes the blocks of one row, with the instructions at hand: the same bytes as
    /// [`encode_weighted`](Self::encode_weighted) writes.
    #[inline(always)]
    fn encode_many_weighted<L: Lanes>(
        lanes: L,
        values: &[[f32; N]],
        weights: &[[f32; N]],
        row_spread: f32,
        out: &mut [[u8; B]],
    ) {
        let _ = lanes;
        for ((values, weights), block) in values.iter().zip(weights).zip(out) {
            Self::encode_weighted(values, weights, row_spread, block);
        }
    }

    /// Writes blocks with or without what each of their columns matters and the spread of their
    /// row. A format that goes one way about both compiles to half as much.
    #[inline(always)]
    fn encode_all<L: Lanes>(
        lanes: L,
        values: &[[f32; N]],
        weights: Option<(&[[f32; N]], f32)>,
        out: &mut [[u8; B]],
    ) {
        match weights {
            None => Self::encode_many(lanes, values, out),
            Some((weights, row_spread)) => {
                Self::encode_many_weighted(lanes, values, weights, row_spread, out);
            }
        }
    }

    /// The first of some values that the blocks made of them do not hold, counted over all: one
    /// beyond [`GREATEST`](Self::GREATEST), or one that reads back infinite or as NaN, because
    /// the scale it is under is stored in half precision.
    fn first_out_of_range(values: &[[f32; N]], blocks: &[[u8; B]]) -> Option<usize> {
        /// No scale search goes beyond the largest number of its block by as much as a factor of
        /// two, and half precision ends at 65504.
        const SAFE: f32 = 32_768.0;
        let safe = SAFE.min(Self::GREATEST);
        if !values.as_flattened().iter().fold(false, |any, value| any | (value.abs() > safe)) {
            return None;
        }
        let mut back = [0.0; N];
        values.iter().zip(blocks).enumerate().find_map(|(index, (values, block))| {
            Self::decode(block, &mut back);
            let beyond = values.iter().position(|value| value.abs() > Self::GREATEST);
            Some(index * N + beyond.or_else(|| back.iter().position(|value| !value.is_finite()))?)
        })
    }

    /// A statistic of the whole row that encoding with importance needs; 0 for most formats.
    fn row_spread(row: &[f32]) -> f32 {
        let _ = row;
        0.0
    }
}

/// The bits of a byte, each in a byte of its own, the first lowest.
const SPREAD: [u64; 256] = {
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

/// A one in each of eight bytes.
const EACH: u64 = 0x0101_0101_0101_0101;

/// The lowest bit of each of eight bytes, that of the first lowest: [`SPREAD`] backwards.
#[inline(always)]
const fn gathered(bytes: u64) -> u8 {
    // Bit 8·i moves to 56 + i by the term of 56 - 7·i; no other products come there, nor do any two
    // meet below.
    ((bytes & EACH).wrapping_mul(0x0102_0408_1020_4080) >> 56) as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_are_gathered_as_they_were_spread() {
        for byte in 0..=u8::MAX {
            let spread = SPREAD[usize::from(byte)];
            assert_eq!(gathered(spread), byte);
            assert_eq!(gathered(spread | !EACH), byte);
        }
    }
}
