//! Q4_K and Q5_K: groups of 32 levels, each group with a six-bit scale and a six-bit minimum. They
//! differ in the fifth bit of a level.

use ggmill_core::GgmlType;

use super::side_by_side::{Weights, assign, at_once, scales_of_scales, search};
use super::{SUPER, bits_by_column, importance, six_bits, sum};
use crate::block::{Decode, Encode};
use crate::float16::{read_f16, write_f16};
use crate::lanes::{Lanes, decode_affine};
use crate::numeric::{nearest, sum_of_squares};
use crate::search::{Affine, Steps, affine, positive};

pub(crate) struct Q4_K;
pub(crate) struct Q5_K;

// The two super-scales, the scales and minima, then for Q5_K the fifth bits, then the other four.
const SCALE: usize = 0;
const MIN: usize = 2;
const SCALES: usize = 4;
const LEVELS: usize = 16;

const WEIGHTED: Steps = Steps { first: -0.9, width: 0.05, last: 36, absolute: false };

const Q4_STEPS: Steps = Steps { first: -1.0, width: 0.1, last: 20, absolute: false };
const Q5_STEPS: Steps = Steps { first: -0.5, width: 0.1, last: 15, absolute: false };

impl Decode<SUPER, 144> for Q4_K {
    const TYPE: GgmlType = GgmlType::Q4_K;

    #[inline(always)]
    fn decode(block: &[u8; 144], out: &mut [f32; SUPER]) {
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
    fn decode_many<L: Lanes>(lanes: L, blocks: &[[u8; 144]], out: &mut [[f32; SUPER]]) {
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

impl Encode<SUPER, 144> for Q4_K {
    fn encode(values: &[f32; SUPER], block: &mut [u8; 144]) {
        let levels = choose(values, 15, Q4_STEPS, block);
        pack_nibbles(&levels, &mut block[LEVELS..]);
    }

    fn encode_weighted(
        values: &[f32; SUPER],
        weights: &[f32; SUPER],
        _: f32,
        block: &mut [u8; 144],
    ) {
        let levels = choose_weighted(values, 15, weights, block);
        pack_nibbles(&levels, &mut block[LEVELS..]);
    }

    #[inline(always)]
    fn encode_many<L: Lanes>(lanes: L, values: &[[f32; SUPER]], out: &mut [[u8; 144]]) {
        for (values, out) in values.chunks(at_once::<L>()).zip(out.chunks_mut(at_once::<L>())) {
            let all = choose_many(
                lanes,
                values,
                Weights::AboveAverage,
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
        values: &[[f32; SUPER]],
        weights: &[[f32; SUPER]],
        row_spread: f32,
        out: &mut [[u8; 144]],
    ) {
        for ((values, weights), out) in values
            .chunks(at_once::<L>())
            .zip(weights.chunks(at_once::<L>()))
            .zip(out.chunks_mut(at_once::<L>()))
        {
            let all = choose_many(
                lanes,
                values,
                Weights::Importance(weights, 2.0),
                15,
                WEIGHTED,
                out,
                |levels, block| pack_nibbles(&levels, &mut block[LEVELS..]),
            );
            if all.is_none() {
                for ((values, weights), block) in values.iter().zip(weights).zip(out) {
                    Self::encode_weighted(values, weights, row_spread, block);
                }
            }
        }
    }
}

impl Decode<SUPER, 176> for Q5_K {
    const TYPE: GgmlType = GgmlType::Q5_K;

    #[inline(always)]
    fn decode(block: &[u8; 176], out: &mut [f32; SUPER]) {
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
    fn decode_many<L: Lanes>(lanes: L, blocks: &[[u8; 176]], out: &mut [[f32; SUPER]]) {
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

impl Encode<SUPER, 176> for Q5_K {
    fn encode(values: &[f32; SUPER], block: &mut [u8; 176]) {
        let levels = choose(values, 31, Q5_STEPS, block);
        pack_five_bits(levels, &mut block[LEVELS..]);
    }

    fn encode_weighted(
        values: &[f32; SUPER],
        weights: &[f32; SUPER],
        _: f32,
        block: &mut [u8; 176],
    ) {
        let levels = choose_weighted(values, 31, weights, block);
        pack_five_bits(levels, &mut block[LEVELS..]);
    }

    #[inline(always)]
    fn encode_many<L: Lanes>(lanes: L, values: &[[f32; SUPER]], out: &mut [[u8; 176]]) {
        for (values, out) in values.chunks(at_once::<L>()).zip(out.chunks_mut(at_once::<L>())) {
            let all = choose_many(
                lanes,
                values,
                Weights::AboveAverage,
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
        values: &[[f32; SUPER]],
        weights: &[[f32; SUPER]],
        row_spread: f32,
        out: &mut [[u8; 176]],
    ) {
        for ((values, weights), out) in values
            .chunks(at_once::<L>())
            .zip(weights.chunks(at_once::<L>()))
            .zip(out.chunks_mut(at_once::<L>()))
        {
            let all = choose_many(
                lanes,
                values,
                Weights::Importance(weights, 2.0),
                31,
                WEIGHTED,
                out,
                |levels, block| pack_five_bits(levels, &mut block[LEVELS..]),
            );
            if all.is_none() {
                for ((values, weights), block) in values.iter().zip(weights).zip(out) {
                    Self::encode_weighted(values, weights, row_spread, block);
                }
            }
        }
    }
}

#[inline(always)]
fn group_scale(block: &[u8], group: usize, super_scale: f32, super_min: f32) -> (f32, f32) {
    let (scale, min) = six_bits::read(&block[SCALES..LEVELS], group);
    (super_scale * f32::from(scale), super_min * f32::from(min))
}

/// Scales and minima without importance, stored in the block, and the levels for them.
fn choose(values: &[f32; SUPER], top: i32, steps: Steps, block: &mut [u8]) -> [u8; SUPER] {
    let mut levels = [0; SUPER];
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
    let stored = |value: f32, inverse: f32| (nearest(inverse * value) as u8).min(63);
    let scales = found.map(|found| stored(found.scale, inverse(max_scale)));
    let mins = found.map(|found| stored(found.min, inverse(max_min)));
    six_bits::write(scales, mins, &mut block[SCALES..LEVELS]);
    (max_scale / 63.0, max_min / 63.0)
}

/// Scales and minima with importance, stored in the block, and the levels for them.
fn choose_weighted(
    values: &[f32; SUPER],
    top: i32,
    weights: &[f32; SUPER],
    block: &mut [u8],
) -> [u8; SUPER] {
    let mut levels = [0; SUPER];
    let (mut scales, mut mins, mut sums) = ([0.0; 8], [0.0; 8], [0.0; 8]);
    let spread = 2.0 * sum_of_squares(values) / 256.0;
    let (groups, _) = values.as_chunks::<32>();
    let (weights, _) = weights.as_chunks::<32>();
    for (index, levels) in levels.chunks_exact_mut(32).enumerate() {
        let weights = importance(&groups[index], &weights[index], spread);
        sums[index] = sum(&weights);
        Affine { scale: scales[index], min: mins[index] } =
            affine(&groups[index], top, &weights, WEIGHTED, levels);
    }
    let (mut scale_levels, mut min_levels) = ([0; 8], [0; 8]);
    let super_scale = positive(&scales, 63, &sums, &mut scale_levels);
    let super_min = positive(&mins, 63, &sums, &mut min_levels);
    six_bits::write(scale_levels, min_levels, &mut block[SCALES..LEVELS]);
    finish(values, top, super_scale, super_min, &mut levels, block);
    levels
}

/// [`choose`] and [`choose_weighted`] for many super-blocks. `None`: some of them need the scalar
/// code.
#[inline(always)]
fn choose_many<L: Lanes, const B: usize>(
    lanes: L,
    values: &[[f32; SUPER]],
    weights: Weights<'_>,
    top: i32,
    steps: Steps,
    out: &mut [[u8; B]],
    pack: impl Fn([u8; SUPER], &mut [u8; B]),
) -> Option<()> {
    let found = search::<L, 32>(lanes, values, weights, top, steps)?;
    let scales = if let Weights::Importance(..) = weights {
        let scales = scales_of_scales(lanes, &found.scales, &found.sums, 63)?;
        Some((scales, scales_of_scales(lanes, &found.mins, &found.sums, 63)?))
    } else {
        None
    };
    for (index, (values, block)) in values.iter().zip(out).enumerate() {
        let (super_scale, super_min) =
            if let Some(((scales, scale_levels), (mins, min_levels))) = &scales {
                six_bits::write(scale_levels[index], min_levels[index], &mut block[SCALES..LEVELS]);
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
        let mut levels = [0; SUPER];
        for (group, (values, levels)) in
            values.chunks_exact(32).zip(levels.chunks_exact_mut(32)).enumerate()
        {
            let (scale, min) = group_scale(block, group, super_scale, super_min);
            if scale == 0.0 {
                found.levels(8 * index + group, values, top, levels);
            } else {
                assign(lanes, values, scale, min, top, levels);
            }
        }
        pack(levels, block);
    }
    Some(())
}

/// Stores the super-scales and chooses the levels again for the scales as they are stored. Groups
/// whose scale is 0 keep the levels they have.
fn finish(
    values: &[f32; SUPER],
    top: i32,
    super_scale: f32,
    super_min: f32,
    levels: &mut [u8; SUPER],
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
                *level = nearest((value + min) / scale).clamp(0, top) as u8;
            }
        }
    }
}

/// Two groups to 32 bytes, the first in the low halves.
fn pack_nibbles(levels: &[u8; SUPER], out: &mut [u8]) {
    for (levels, out) in levels.chunks_exact(64).zip(out.chunks_exact_mut(32)) {
        for (column, out) in out.iter_mut().enumerate() {
            *out = levels[column] | levels[column + 32] << 4;
        }
    }
}

/// Byte `b` of the fifth bits holds those of weight `b` of every group.
fn pack_five_bits(levels: [u8; SUPER], out: &mut [u8]) {
    let (fifth, low) = out.split_at_mut(32);
    fifth.copy_from_slice(&bits_by_column(&levels, 4));
    pack_nibbles(&levels.map(|level| level & 15), low);
}
