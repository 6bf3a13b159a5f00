//! Q8_K: 256 signed bytes under one single-precision scale, with the sum of each 16. ggml uses it
//! in matrix products; files rarely contain it.

use ggmill_core::GgmlType;

use super::QK_K;
use crate::block::{Decode, Encode};
use crate::lanes::{Floats, Lanes, Mask, max_abs};
use crate::numeric::{extreme, nearest_int};

pub(crate) struct Q8_K;

// Offsets: after the scale, the levels, the sums.
const LEVELS: usize = 4;
const SUMS: usize = 260;

impl Decode<QK_K, 292> for Q8_K {
    const TYPE: GgmlType = GgmlType::Q8_K;

    #[inline(always)]
    fn decode(block: &[u8; 292], out: &mut [f32; QK_K]) {
        let scale = f32::from_le_bytes([block[0], block[1], block[2], block[3]]);
        for (out, level) in out.iter_mut().zip(&block[LEVELS..SUMS]) {
            *out = scale * f32::from(level.cast_signed());
        }
    }
}

impl Encode<QK_K, 292> for Q8_K {
    /// The scale is an `f32`, so there is no bound.
    const MAX_MAGNITUDE: f32 = f32::INFINITY;

    fn encode(values: &[f32; QK_K], block: &mut [u8; 292]) {
        block.fill(0);
        let extreme = extreme(values);
        if extreme == 0.0 {
            return;
        }
        let inverse = -127.0 / extreme;
        block[..LEVELS].copy_from_slice(&(1.0 / inverse).to_le_bytes());
        let (levels, sums) = block[LEVELS..].split_at_mut(QK_K);
        for (level, value) in levels.iter_mut().zip(values) {
            *level = nearest_int(inverse * value).min(127) as u8;
        }
        write_sums(levels, sums);
    }

    #[inline(always)]
    fn encode_many<L: Lanes>(lanes: L, values: &[[f32; QK_K]], out: &mut [[u8; 292]]) {
        for (values, block) in values.iter().zip(out) {
            let max_abs = max_abs(lanes, values);
            let extreme = first_of_magnitude(lanes, values, max_abs);
            let inverse = -127.0 / extreme;
            if !inverse.is_finite() {
                Self::encode(values, block);
                continue;
            }
            block[..LEVELS].copy_from_slice(&(1.0 / inverse).to_le_bytes());
            let (levels, sums) = block[LEVELS..].split_at_mut(QK_K);
            let (inverse, zero, wrap) =
                (lanes.splat(inverse), lanes.splat(0.0), lanes.splat(256.0));
            for (level, values) in
                levels.chunks_exact_mut(L::WIDTH).zip(values.chunks_exact(L::WIDTH))
            {
                let nearest = (inverse * lanes.load(values)).nearest(-128, 127);
                (nearest + wrap).select(nearest.lt(zero), nearest).store_bytes(level);
            }
            write_sums(levels, sums);
        }
    }
}

/// Returns the first value of the given magnitude, which some value has.
#[inline(always)]
fn first_of_magnitude<L: Lanes>(lanes: L, values: &[f32; QK_K], magnitude: f32) -> f32 {
    let wanted = lanes.splat(magnitude);
    for values in values.chunks_exact(L::WIDTH) {
        let found = lanes.load(values).abs().eq(wanted).bits();
        if found != 0 {
            return values[found.trailing_zeros() as usize % L::WIDTH];
        }
    }
    0.0
}

#[inline(always)]
fn write_sums(levels: &[u8], sums: &mut [u8]) {
    for (levels, sum) in levels.chunks_exact(16).zip(sums.chunks_exact_mut(2)) {
        let total: i16 = levels.iter().map(|level| i16::from(level.cast_signed())).sum();
        sum.copy_from_slice(&total.to_le_bytes());
    }
}
