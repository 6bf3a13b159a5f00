//! Q6_K: groups of 16 six-bit levels around zero, each group with an eight-bit scale.

use ggmill_core::GgmlType;

use super::QK_K;
use super::search::{SymmetricWeights, batch_len, search_symmetric};
use crate::block::{Decode, Encode};
use crate::float16::{read_f16, write_f16};
use crate::lanes::{Lanes, decode_signed};
use crate::numeric::{extreme, nearest_int};
use crate::search::{GROUP_MAX_EPS, symmetric};

pub(crate) struct Q6_K;

// Offsets: after the lower four bits of every level, the upper two bits, the scales, the
// super-scale.
const HIGH: usize = 128;
const SCALES: usize = 192;
const SCALE: usize = 208;

impl Decode<QK_K, 210> for Q6_K {
    const TYPE: GgmlType = GgmlType::Q6_K;

    #[inline(always)]
    fn decode(block: &[u8; 210], out: &mut [f32; QK_K]) {
        let super_scale = read_f16(block, SCALE);
        let levels = unpack(block);
        for ((out, levels), scale) in
            out.chunks_exact_mut(16).zip(levels.chunks_exact(16)).zip(&block[SCALES..SCALE])
        {
            let scale = super_scale * f32::from(scale.cast_signed());
            for (out, level) in out.iter_mut().zip(levels) {
                *out = scale * f32::from(level.cast_signed());
            }
        }
    }

    #[inline(always)]
    fn decode_many<L: Lanes>(lanes: L, blocks: &[[u8; 210]], out: &mut [[f32; QK_K]]) {
        for (block, out) in blocks.iter().zip(out) {
            let super_scale = read_f16(block, SCALE);
            let levels = unpack(block);
            for ((out, levels), scale) in
                out.chunks_exact_mut(16).zip(levels.chunks_exact(16)).zip(&block[SCALES..SCALE])
            {
                decode_signed(lanes, levels, super_scale * f32::from(scale.cast_signed()), out);
            }
        }
    }
}

/// Unpacks the signed levels, -32..32, one per byte.
#[inline(always)]
fn unpack(block: &[u8; 210]) -> [u8; QK_K] {
    // In each half super-block, rows of 32 weights: the low bits of rows 0 and 1 in the low, of
    // rows 2 and 3 in the high halves of 64 bytes; the high bits of all four rows in the bit
    // pairs of 32 bytes.
    let mut levels = [0; QK_K];
    let halves = block[..HIGH].chunks_exact(64).zip(block[HIGH..SCALES].chunks_exact(32));
    for (levels, (low, high)) in levels.chunks_exact_mut(128).zip(halves) {
        for column in 0..32 {
            let (first, second, high) = (low[column], low[column + 32], high[column]);
            levels[column] = first & 15 | (high & 3) << 4;
            levels[column + 32] = second & 15 | (high >> 2 & 3) << 4;
            levels[column + 64] = first >> 4 | (high >> 4 & 3) << 4;
            levels[column + 96] = second >> 4 | (high >> 6) << 4;
        }
    }
    levels.map(|level| level.wrapping_sub(32))
}

impl Encode<QK_K, 210> for Q6_K {
    fn encode(values: &[f32; QK_K], block: &mut [u8; 210]) {
        encode(values, |_| None, block);
    }

    fn encode_weighted(values: &[f32; QK_K], weights: &[f32; QK_K], _: f32, block: &mut [u8; 210]) {
        encode(values, |group| Some(&weights[16 * group..][..16]), block);
    }

    #[inline(always)]
    fn encode_many<L: Lanes>(lanes: L, values: &[[f32; QK_K]], out: &mut [[u8; 210]]) {
        for (values, out) in values.chunks(batch_len::<L>()).zip(out.chunks_mut(batch_len::<L>())) {
            encode_many(lanes, values, SymmetricWeights::Square, out);
        }
    }

    #[inline(always)]
    fn encode_many_weighted<L: Lanes>(
        lanes: L,
        values: &[[f32; QK_K]],
        weights: &[[f32; QK_K]],
        _: f32,
        out: &mut [[u8; 210]],
    ) {
        for ((values, weights), out) in values
            .chunks(batch_len::<L>())
            .zip(weights.chunks(batch_len::<L>()))
            .zip(out.chunks_mut(batch_len::<L>()))
        {
            encode_many(lanes, values, SymmetricWeights::Column(weights), out);
        }
    }
}

fn encode<'a>(
    values: &[f32; QK_K],
    weights: impl Fn(usize) -> Option<&'a [f32]>,
    block: &mut [u8; 210],
) {
    let mut levels = [0; QK_K];
    let mut scales = [0.0; 16];
    for (group, (values, levels)) in
        values.chunks_exact(16).zip(levels.chunks_exact_mut(16)).enumerate()
    {
        scales[group] = symmetric(values, 32, weights(group), levels);
    }
    let Some(scales) = write_scales(&scales, block) else { return };
    for (scale, (values, levels)) in
        scales.into_iter().zip(values.chunks_exact(16).zip(levels.chunks_exact_mut(16)))
    {
        if scale != 0.0 {
            for (level, value) in levels.iter_mut().zip(values) {
                *level = (nearest_int(value / scale).clamp(-32, 31) + 32) as u8;
            }
        }
    }
    pack(&levels, block);
}

#[inline(always)]
fn encode_many<L: Lanes>(
    lanes: L,
    values: &[[f32; QK_K]],
    weights: SymmetricWeights<'_>,
    out: &mut [[u8; 210]],
) {
    let found = search_symmetric(lanes, values, weights, 32);
    let (scales, _) = found.scales.as_chunks::<16>();
    for (index, (values, block)) in values.iter().zip(out).enumerate() {
        if let Some(scales) = write_scales(&scales[index], block) {
            pack(&found.assign(lanes, index, values, scales, 32), block);
        }
    }
}

/// Stores the scales as 128ths of the extreme one, and returns the rounded scales; or stores a
/// block of zeros and returns `None`.
fn write_scales(scales: &[f32; 16], block: &mut [u8; 210]) -> Option<[f32; 16]> {
    let extreme = extreme(scales);
    if extreme.abs() < GROUP_MAX_EPS {
        block.fill(0);
        return None;
    }
    let inverse = -128.0 / extreme;
    let super_scale = write_f16(block, SCALE, 1.0 / inverse);
    for (stored, scale) in block[SCALES..SCALE].iter_mut().zip(scales) {
        *stored = nearest_int(inverse * scale).min(127) as u8;
    }
    Some(core::array::from_fn(|group| super_scale * f32::from(block[SCALES + group].cast_signed())))
}

#[inline(always)]
fn pack(levels: &[u8; QK_K], block: &mut [u8; 210]) {
    let (low, high) = block[..SCALES].split_at_mut(HIGH);
    let halves = low.chunks_exact_mut(64).zip(high.chunks_exact_mut(32));
    for (levels, (low, high)) in levels.chunks_exact(128).zip(halves) {
        for column in 0..32 {
            let level = |row: usize| levels[column + 32 * row];
            low[column] = level(0) & 15 | level(2) << 4;
            low[32 + column] = level(1) & 15 | level(3) << 4;
            high[column] =
                level(0) >> 4 | (level(1) >> 4) << 2 | (level(2) >> 4) << 4 | (level(3) >> 4) << 6;
        }
    }
}
