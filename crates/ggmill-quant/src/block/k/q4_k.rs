//! Q4_K and Q5_K: groups of 32 levels of four and five bits, each group with a six-bit scale and a
//! six-bit minimum.

use ggmill_core::GgmlType;

use super::search::{AffineWeights, assign_affine, batch_len, scales_of_scales, search_affine};
use super::{QK_K, bits_by_column, importance, sum};
use crate::block::{Decode, Encode};
use crate::float16::{read_f16, write_f16};
use crate::lanes::{Lanes, decode_affine};
use crate::numeric::{nearest_int, sum_of_squares};
use crate::search::{Affine, Steps, affine, positive};

pub(crate) struct Q4_K;
pub(crate) struct Q5_K;

// Offsets: the two super-scales, the scales and minima, then for Q5_K the fifth bits, then the
// lower four bits.
const SCALE: usize = 0;
const MIN: usize = 2;
const SCALES: usize = 4;
const LEVELS: usize = 16;

const WEIGHTED_STEPS: Steps = Steps { first: -0.9, width: 0.05, last: 36, absolute: false };

const Q4_STEPS: Steps = Steps { first: -1.0, width: 0.1, last: 20, absolute: false };
const Q5_STEPS: Steps = Steps { first: -0.5, width: 0.1, last: 15, absolute: false };

impl Decode<QK_K, 144> for Q4_K {
    const TYPE: GgmlType = GgmlType::Q4_K;

    #[inline(always)]
    fn decode(block: &[u8; 144], out: &mut [f32; QK_K]) {
        let (scale, min) = (read_f16(block, SCALE), read_f16(block, MIN));
        for (group, out) in out.chunks_exact_mut(32).enumerate() {
            let (scale, min) = group_scale(block, group, scale, min);
            let low = &block[LEVELS + 32 * (group / 2)..];
            for (out, low) in out.iter_mut().zip(low) {
                *out = scale * f32::from(low >> (4 * (group % 2)) & 15) - min;
            }
        }
    }

    #[inline(always)]
    fn decode_many<L: Lanes>(lanes: L, blocks: &[[u8; 144]], out: &mut [[f32; QK_K]]) {
        for (block, out) in blocks.iter().zip(out) {
            let (scale, min) = (read_f16(block, SCALE), read_f16(block, MIN));
            let (low, _) = block[LEVELS..].as_chunks::<32>();
            for (pair, out) in out.as_chunks_mut::<64>().0.iter_mut().enumerate() {
                let (first, second) = out.split_at_mut(32);
                let mut levels = [[0; 32]; 2];
                let [lows, highs] = &mut levels;
                for (byte, (low, high)) in low[pair].iter().zip(lows.iter_mut().zip(highs)) {
                    (*low, *high) = (byte & 15, byte >> 4);
                }
                for (group, (levels, out)) in (2 * pair..).zip(levels.iter().zip([first, second])) {
                    let (scale, min) = group_scale(block, group, scale, min);
                    decode_affine(lanes, levels, scale, min, out);
                }
            }
        }
    }
}

impl Encode<QK_K, 144> for Q4_K {
    fn encode(values: &[f32; QK_K], block: &mut [u8; 144]) {
        let levels = choose(values, 15, Q4_STEPS, block);
        pack_nibbles(&levels, &mut block[LEVELS..]);
    }

    fn encode_weighted(values: &[f32; QK_K], weights: &[f32; QK_K], _: f32, block: &mut [u8; 144]) {
        let levels = choose_weighted(values, 15, weights, block);
        pack_nibbles(&levels, &mut block[LEVELS..]);
    }

    #[inline(always)]
    fn encode_many<L: Lanes>(lanes: L, values: &[[f32; QK_K]], out: &mut [[u8; 144]]) {
        for (values, out) in values.chunks(batch_len::<L>()).zip(out.chunks_mut(batch_len::<L>())) {
            let all = choose_many(
                lanes,
                values,
                AffineWeights::RmsPlusMagnitude,
                15,
                Q4_STEPS,
                out,
                |levels, block| pack_nibbles(&levels, &mut block[LEVELS..]),
            );
            if all.is_none() {
                values.iter().zip(out).for_each(|(values, block)| Self::encode(values, block));
            }
        }
    }

    #[inline(always)]
    fn encode_many_weighted<L: Lanes>(
        lanes: L,
        values: &[[f32; QK_K]],
        weights: &[[f32; QK_K]],
        row_sigma2: f32,
        out: &mut [[u8; 144]],
    ) {
        for ((values, weights), out) in values
            .chunks(batch_len::<L>())
            .zip(weights.chunks(batch_len::<L>()))
            .zip(out.chunks_mut(batch_len::<L>()))
        {
            let all = choose_many(
                lanes,
                values,
                AffineWeights::Importance(weights, 2.0),
                15,
                WEIGHTED_STEPS,
                out,
                |levels, block| pack_nibbles(&levels, &mut block[LEVELS..]),
            );
            if all.is_none() {
                for ((values, weights), block) in values.iter().zip(weights).zip(out) {
                    Self::encode_weighted(values, weights, row_sigma2, block);
                }
            }
        }
    }
}

impl Decode<QK_K, 176> for Q5_K {
    const TYPE: GgmlType = GgmlType::Q5_K;

    #[inline(always)]
    fn decode(block: &[u8; 176], out: &mut [f32; QK_K]) {
        let (scale, min) = (read_f16(block, SCALE), read_f16(block, MIN));
        let (fifth, low) = block[LEVELS..].split_at(32);
        for (group, out) in out.chunks_exact_mut(32).enumerate() {
            let (scale, min) = group_scale(block, group, scale, min);
            for (out, (low, fifth)) in out.iter_mut().zip(low[32 * (group / 2)..].iter().zip(fifth))
            {
                let level = low >> (4 * (group % 2)) & 15 | (fifth >> group & 1) << 4;
                *out = scale * f32::from(level) - min;
            }
        }
    }

    #[inline(always)]
    fn decode_many<L: Lanes>(lanes: L, blocks: &[[u8; 176]], out: &mut [[f32; QK_K]]) {
        for (block, out) in blocks.iter().zip(out) {
            let (scale, min) = (read_f16(block, SCALE), read_f16(block, MIN));
            let (fifth, low) = block[LEVELS..].split_at(32);
            let (low, _) = low.as_chunks::<32>();
            for (group, out) in out.chunks_exact_mut(32).enumerate() {
                let (scale, min) = group_scale(block, group, scale, min);
                let mut levels = low[group / 2];
                for (level, fifth) in levels.iter_mut().zip(fifth) {
                    *level = *level >> (4 * (group % 2)) & 15 | (fifth >> group & 1) << 4;
                }
                decode_affine(lanes, &levels, scale, min, out);
            }
        }
    }
}

impl Encode<QK_K, 176> for Q5_K {
    fn encode(values: &[f32; QK_K], block: &mut [u8; 176]) {
        let levels = choose(values, 31, Q5_STEPS, block);
        pack_five_bits(levels, &mut block[LEVELS..]);
    }

    fn encode_weighted(values: &[f32; QK_K], weights: &[f32; QK_K], _: f32, block: &mut [u8; 176]) {
        let levels = choose_weighted(values, 31, weights, block);
        pack_five_bits(levels, &mut block[LEVELS..]);
    }

    #[inline(always)]
    fn encode_many<L: Lanes>(lanes: L, values: &[[f32; QK_K]], out: &mut [[u8; 176]]) {
        for (values, out) in values.chunks(batch_len::<L>()).zip(out.chunks_mut(batch_len::<L>())) {
            let all = choose_many(
                lanes,
                values,
                AffineWeights::RmsPlusMagnitude,
                31,
                Q5_STEPS,
                out,
                |levels, block| pack_five_bits(levels, &mut block[LEVELS..]),
            );
            if all.is_none() {
                values.iter().zip(out).for_each(|(values, block)| Self::encode(values, block));
            }
        }
    }

    #[inline(always)]
    fn encode_many_weighted<L: Lanes>(
        lanes: L,
        values: &[[f32; QK_K]],
        weights: &[[f32; QK_K]],
        row_sigma2: f32,
        out: &mut [[u8; 176]],
    ) {
        for ((values, weights), out) in values
            .chunks(batch_len::<L>())
            .zip(weights.chunks(batch_len::<L>()))
            .zip(out.chunks_mut(batch_len::<L>()))
        {
            let all = choose_many(
                lanes,
                values,
                AffineWeights::Importance(weights, 2.0),
                31,
                WEIGHTED_STEPS,
                out,
                |levels, block| pack_five_bits(levels, &mut block[LEVELS..]),
            );
            if all.is_none() {
                for ((values, weights), block) in values.iter().zip(weights).zip(out) {
                    Self::encode_weighted(values, weights, row_sigma2, block);
                }
            }
        }
    }
}

#[inline(always)]
fn group_scale(block: &[u8], group: usize, super_scale: f32, super_min: f32) -> (f32, f32) {
    let (scale, min) = read_six_bits(&block[SCALES..LEVELS], group);
    (super_scale * f32::from(scale), super_min * f32::from(min))
}

/// Searches scales and minima without importance, stores them, and returns the levels.
fn choose(values: &[f32; QK_K], top: i32, steps: Steps, block: &mut [u8]) -> [u8; QK_K] {
    let mut levels = [0; QK_K];
    let mut found = [Affine::default(); 8];
    let (groups, _) = values.as_chunks::<32>();
    for ((group, levels), found) in groups.iter().zip(levels.chunks_exact_mut(32)).zip(&mut found) {
        let average = (sum_of_squares(group) / 32.0).sqrt();
        *found = affine(group, top, &group.map(|value| average + value.abs()), steps, levels);
    }
    let (super_scale, super_min) = write_scales(&found, block);
    finish(values, top, super_scale, super_min, &mut levels, block);
    levels
}

/// Stores scales and minima as 63rds of the greatest, and returns the super-scales.
fn write_scales(found: &[Affine; 8], block: &mut [u8]) -> (f32, f32) {
    let (mut max_scale, mut max_min) = (0.0, 0.0);
    for found in found {
        if found.scale > max_scale {
            max_scale = found.scale;
        }
        if found.min > max_min {
            max_min = found.min;
        }
    }
    let inverse = |max: f32| if max > 0.0 { 63.0 / max } else { 0.0 };
    let stored = |value: f32, inverse: f32| (nearest_int(inverse * value) as u8).min(63);
    let scales = found.map(|found| stored(found.scale, inverse(max_scale)));
    let mins = found.map(|found| stored(found.min, inverse(max_min)));
    write_six_bits(scales, mins, &mut block[SCALES..LEVELS]);
    (max_scale / 63.0, max_min / 63.0)
}

/// Searches scales and minima with importance, stores them, and returns the levels.
fn choose_weighted(
    values: &[f32; QK_K],
    top: i32,
    weights: &[f32; QK_K],
    block: &mut [u8],
) -> [u8; QK_K] {
    let mut levels = [0; QK_K];
    let (mut scales, mut mins, mut sums) = ([0.0; 8], [0.0; 8], [0.0; 8]);
    let sigma2 = 2.0 * sum_of_squares(values) / 256.0;
    let (groups, _) = values.as_chunks::<32>();
    let (weights, _) = weights.as_chunks::<32>();
    for (index, levels) in levels.chunks_exact_mut(32).enumerate() {
        let weights = importance(&groups[index], &weights[index], sigma2);
        sums[index] = sum(&weights);
        Affine { scale: scales[index], min: mins[index] } =
            affine(&groups[index], top, &weights, WEIGHTED_STEPS, levels);
    }
    let (mut scale_levels, mut min_levels) = ([0; 8], [0; 8]);
    let super_scale = positive(&scales, 63, &sums, &mut scale_levels);
    let super_min = positive(&mins, 63, &sums, &mut min_levels);
    write_six_bits(scale_levels, min_levels, &mut block[SCALES..LEVELS]);
    finish(values, top, super_scale, super_min, &mut levels, block);
    levels
}

/// Does what [`choose`] and [`choose_weighted`] do, for many super-blocks. Returns `None` if the
/// scalar code must encode them.
#[inline(always)]
fn choose_many<L: Lanes, const B: usize>(
    lanes: L,
    values: &[[f32; QK_K]],
    weights: AffineWeights<'_>,
    top: i32,
    steps: Steps,
    out: &mut [[u8; B]],
    pack: impl Fn([u8; QK_K], &mut [u8; B]),
) -> Option<()> {
    let found = search_affine::<L, 32>(lanes, values, weights, top, steps)?;
    let scales = if let AffineWeights::Importance(..) = weights {
        let scales = scales_of_scales(lanes, &found.scales, &found.sums, 63)?;
        Some((scales, scales_of_scales(lanes, &found.mins, &found.sums, 63)?))
    } else {
        None
    };
    for (index, (values, block)) in values.iter().zip(out).enumerate() {
        let (super_scale, super_min) =
            if let Some(((scales, scale_levels), (mins, min_levels))) = &scales {
                write_six_bits(scale_levels[index], min_levels[index], &mut block[SCALES..LEVELS]);
                (scales[index], mins[index])
            } else {
                let found = core::array::from_fn(|i| Affine {
                    scale: found.scales[8 * index + i],
                    min: found.mins[8 * index + i],
                });
                write_scales(&found, block)
            };
        let super_scale = write_f16(block, SCALE, super_scale);
        let super_min = write_f16(block, MIN, super_min);
        let mut levels = [0; QK_K];
        for (group, (values, levels)) in
            values.chunks_exact(32).zip(levels.chunks_exact_mut(32)).enumerate()
        {
            let (scale, min) = group_scale(block, group, super_scale, super_min);
            if scale == 0.0 {
                found.levels(8 * index + group, values, top, levels);
            } else {
                assign_affine(lanes, values, scale, min, top, levels);
            }
        }
        pack(levels, block);
    }
    Some(())
}

/// Stores the super-scales and chooses the levels again for the stored scales. Groups whose scale
/// is 0 keep the levels of the search.
fn finish(
    values: &[f32; QK_K],
    top: i32,
    super_scale: f32,
    super_min: f32,
    levels: &mut [u8; QK_K],
    block: &mut [u8],
) {
    let super_scale = write_f16(block, SCALE, super_scale);
    let super_min = write_f16(block, MIN, super_min);
    for (group, (values, levels)) in
        values.chunks_exact(32).zip(levels.chunks_exact_mut(32)).enumerate()
    {
        let (scale, min) = group_scale(block, group, super_scale, super_min);
        if scale != 0.0 {
            for (level, value) in levels.iter_mut().zip(values) {
                *level = nearest_int((value + min) / scale).clamp(0, top) as u8;
            }
        }
    }
}

/// Packs two groups into 32 bytes, the first in the low halves.
fn pack_nibbles(levels: &[u8; QK_K], out: &mut [u8]) {
    for (levels, out) in levels.chunks_exact(64).zip(out.chunks_exact_mut(32)) {
        for (column, out) in out.iter_mut().enumerate() {
            *out = levels[column] | levels[column + 32] << 4;
        }
    }
}

/// Packs five-bit levels. Byte `b` of the fifth bits has those of weight `b` of every group.
fn pack_five_bits(levels: [u8; QK_K], out: &mut [u8]) {
    let (fifth, low) = out.split_at_mut(32);
    fifth.copy_from_slice(&bits_by_column(&levels, 4));
    pack_nibbles(&levels.map(|level| level & 15), low);
}

/// Returns the scale and the minimum of group `group`.
///
/// Eight scales and eight minima of six bits are in twelve bytes. The first four scales and minima
/// are in the low six bits of bytes 0 to 3 and 4 to 7. The last four have their low halves in bytes
/// 8 to 11, scale below minimum, and their two high bits above the first four.
#[inline(always)]
fn read_six_bits(bytes: &[u8], group: usize) -> (u8, u8) {
    if group < 4 {
        return (bytes[group] & 63, bytes[group + 4] & 63);
    }
    let low = bytes[group + 4];
    (low & 15 | (bytes[group - 4] >> 6) << 4, low >> 4 | (bytes[group] >> 6) << 4)
}

/// Packs eight scales and eight minima as [`read_six_bits`] describes.
fn write_six_bits(scales: [u8; 8], mins: [u8; 8], bytes: &mut [u8]) {
    for group in 0..4 {
        bytes[group] = scales[group] | (scales[group + 4] >> 4) << 6;
        bytes[group + 4] = mins[group] | (mins[group + 4] >> 4) << 6;
        bytes[group + 8] = scales[group + 4] & 15 | (mins[group + 4] & 15) << 4;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn six_bit_scales_round_trip() {
        let scales = [0, 63, 17, 42, 63, 1, 32, 16];
        let mins = [5, 0, 62, 31, 33, 47, 15, 48];
        let mut bytes = [0xff; 12];
        write_six_bits(scales, mins, &mut bytes);
        for group in 0..8 {
            assert_eq!(read_six_bits(&bytes, group), (scales[group], mins[group]));
        }
    }
}
