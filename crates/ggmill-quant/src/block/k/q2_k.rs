//! Q2_K: groups of 16 two-bit levels, each group with a four-bit scale and a four-bit minimum.

use ggmill_core::GgmlType;

use super::search::{AffineWeights, assign_affine, batch_len, scales_of_scales, search_affine};
use super::{QK_K, importance, pack_two_bits, sum};
use crate::block::{Decode, Encode};
use crate::float16::{read_f16, write_f16};
use crate::lanes::{Lanes, decode_affine};
use crate::numeric::{nearest_int, sum_of_squares};
use crate::search::{Affine, Steps, affine, positive};

pub(crate) struct Q2_K;

// Offsets: after 16 bytes with a scale in the low and a minimum in the high half, the levels, then
// the two super-scales.
const LEVELS: usize = 16;
const SCALE: usize = 80;
const MIN: usize = 82;

/// The highest level.
const TOP: i32 = 3;

const STEPS: Steps = Steps { first: -0.5, width: 0.1, last: 15, absolute: true };
const WEIGHTED_STEPS: Steps = Steps { first: -0.9, width: 0.05, last: 36, absolute: false };

impl Decode<QK_K, 84> for Q2_K {
    const TYPE: GgmlType = GgmlType::Q2_K;

    #[inline(always)]
    fn decode(block: &[u8; 84], out: &mut [f32; QK_K]) {
        let (scale, min) = (read_f16(block, SCALE), read_f16(block, MIN));
        for (group, out) in out.chunks_exact_mut(16).enumerate() {
            let scale = scale * f32::from(block[group] & 15);
            let min = min * f32::from(block[group] >> 4);
            // In each half super-block, groups 2p and 2p + 1 are in bit pair p, the second 16 bytes
            // after the first.
            let start = LEVELS + 32 * (group / 8) + 16 * (group % 2);
            let shift = 2 * (group / 2 % 4);
            for (out, byte) in out.iter_mut().zip(&block[start..]) {
                *out = scale * f32::from(byte >> shift & 3) - min;
            }
        }
    }

    #[inline(always)]
    fn decode_many<L: Lanes>(lanes: L, blocks: &[[u8; 84]], out: &mut [[f32; QK_K]]) {
        for (block, out) in blocks.iter().zip(out) {
            let (scale, min) = (read_f16(block, SCALE), read_f16(block, MIN));
            let levels = unpack(block);
            for ((out, levels), bits) in
                out.chunks_exact_mut(16).zip(levels.chunks_exact(16)).zip(&block[..LEVELS])
            {
                decode_affine(
                    lanes,
                    levels,
                    scale * f32::from(bits & 15),
                    min * f32::from(bits >> 4),
                    out,
                );
            }
        }
    }
}

/// Unpacks the levels, one per byte.
#[inline(always)]
fn unpack(block: &[u8; 84]) -> [u8; QK_K] {
    let mut levels = [0; QK_K];
    for (levels, bytes) in levels.chunks_exact_mut(128).zip(block[LEVELS..SCALE].chunks_exact(32)) {
        for column in 0..32 {
            let byte = bytes[column];
            levels[column] = byte & 3;
            levels[column + 32] = byte >> 2 & 3;
            levels[column + 64] = byte >> 4 & 3;
            levels[column + 96] = byte >> 6;
        }
    }
    levels
}

impl Encode<QK_K, 84> for Q2_K {
    fn encode(values: &[f32; QK_K], block: &mut [u8; 84]) {
        let mut levels = [0; QK_K];
        let mut found = [Affine::default(); 16];
        let (groups, _) = values.as_chunks::<16>();
        for ((group, levels), found) in
            groups.iter().zip(levels.chunks_exact_mut(16)).zip(&mut found)
        {
            *found = affine(group, TOP, &group.map(f32::abs), STEPS, levels);
        }
        let (scale, min) = write_scales(&found, block);
        finish(values, scale, min, &mut levels, block);
    }

    fn encode_weighted(values: &[f32; QK_K], weights: &[f32; QK_K], _: f32, block: &mut [u8; 84]) {
        let mut levels = [0; QK_K];
        let (mut scales, mut mins, mut sums) = ([0.0; 16], [0.0; 16], [0.0; 16]);
        let sigma2 = sum_of_squares(values) / 256.0;
        let (groups, _) = values.as_chunks::<16>();
        let (weights, _) = weights.as_chunks::<16>();
        for (index, levels) in levels.chunks_exact_mut(16).enumerate() {
            let weights = importance(&groups[index], &weights[index], sigma2);
            sums[index] = sum(&weights);
            Affine { scale: scales[index], min: mins[index] } =
                affine(&groups[index], TOP, &weights, WEIGHTED_STEPS, levels);
        }
        let (mut scale_levels, mut min_levels) = ([0; 16], [0; 16]);
        let scale = positive(&scales, 15, &sums, &mut scale_levels);
        let min = positive(&mins, 15, &sums, &mut min_levels);
        let (scale, min) = write_weighted_scales(scale, min, &scale_levels, &min_levels, block);
        finish(values, scale, min, &mut levels, block);
    }

    #[inline(always)]
    fn encode_many<L: Lanes>(lanes: L, values: &[[f32; QK_K]], out: &mut [[u8; 84]]) {
        for (values, out) in values.chunks(batch_len::<L>()).zip(out.chunks_mut(batch_len::<L>())) {
            if choose_many(lanes, values, AffineWeights::Magnitude, STEPS, out).is_none() {
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
        out: &mut [[u8; 84]],
    ) {
        for ((values, weights), out) in values
            .chunks(batch_len::<L>())
            .zip(weights.chunks(batch_len::<L>()))
            .zip(out.chunks_mut(batch_len::<L>()))
        {
            if choose_many(
                lanes,
                values,
                AffineWeights::Importance(weights, 1.0),
                WEIGHTED_STEPS,
                out,
            )
            .is_none()
            {
                for ((values, weights), block) in values.iter().zip(weights).zip(out) {
                    Self::encode_weighted(values, weights, row_sigma2, block);
                }
            }
        }
    }
}

/// Does what [`Encode::encode`] and [`Encode::encode_weighted`] do, for many super-blocks. Returns
/// `None` if the scalar code must encode them.
#[inline(always)]
fn choose_many<L: Lanes>(
    lanes: L,
    values: &[[f32; QK_K]],
    weights: AffineWeights<'_>,
    steps: Steps,
    out: &mut [[u8; 84]],
) -> Option<()> {
    let found = search_affine::<L, 16>(lanes, values, weights, TOP, steps)?;
    let scales = if let AffineWeights::Importance(..) = weights {
        let scales = scales_of_scales::<L, 16>(lanes, &found.scales, &found.sums, 15)?;
        Some((scales, scales_of_scales::<L, 16>(lanes, &found.mins, &found.sums, 15)?))
    } else {
        None
    };
    for (index, (values, block)) in values.iter().zip(out).enumerate() {
        let (super_scale, super_min) =
            if let Some(((scales, scale_levels), (mins, min_levels))) = &scales {
                write_weighted_scales(
                    scales[index],
                    mins[index],
                    &scale_levels[index],
                    &min_levels[index],
                    block,
                )
            } else {
                let found = core::array::from_fn(|i| Affine {
                    scale: found.scales[16 * index + i],
                    min: found.mins[16 * index + i],
                });
                write_scales(&found, block)
            };
        let mut levels = [0; QK_K];
        for (group, (values, levels)) in
            values.chunks_exact(16).zip(levels.chunks_exact_mut(16)).enumerate()
        {
            let scale = super_scale * f32::from(block[group] & 15);
            if scale == 0.0 {
                found.levels(16 * index + group, values, TOP, levels);
            } else {
                assign_affine(
                    lanes,
                    values,
                    scale,
                    super_min * f32::from(block[group] >> 4),
                    TOP,
                    levels,
                );
            }
        }
        pack_two_bits(&levels, &mut block[LEVELS..SCALE]);
    }
    Some(())
}

/// Stores scales and minima as 15ths of the greatest, and the super-scales. Returns the
/// super-scales rounded to half precision.
fn write_scales(found: &[Affine; 16], block: &mut [u8; 84]) -> (f32, f32) {
    let (mut max_scale, mut max_min) = (0.0, 0.0);
    for found in found {
        if found.scale > max_scale {
            max_scale = found.scale;
        }
        if found.min > max_min {
            max_min = found.min;
        }
    }
    let inverse = |max: f32| if max > 0.0 { 15.0 / max } else { 0.0 };
    let (inverse_scale, inverse_min) = (inverse(max_scale), inverse(max_min));
    for (stored, found) in block.iter_mut().zip(found) {
        let scale = if max_scale > 0.0 { nearest_int(inverse_scale * found.scale) } else { 0 };
        let min = if max_min > 0.0 { nearest_int(inverse_min * found.min) } else { 0 };
        *stored = scale as u8 | (min << 4) as u8;
    }
    let scale = write_f16(block, SCALE, if max_scale > 0.0 { max_scale / 15.0 } else { 0.0 });
    let min = write_f16(block, MIN, if max_min > 0.0 { max_min / 15.0 } else { 0.0 });
    (scale, min)
}

/// Stores the levels of scales and minima, and the super-scales. Returns the super-scales rounded
/// to half precision.
fn write_weighted_scales(
    scale: f32,
    min: f32,
    scale_levels: &[u8; 16],
    min_levels: &[u8; 16],
    block: &mut [u8; 84],
) -> (f32, f32) {
    for (stored, (scale, min)) in block.iter_mut().zip(scale_levels.iter().zip(min_levels)) {
        *stored = scale | min << 4;
    }
    (write_f16(block, SCALE, scale), write_f16(block, MIN, min))
}

/// Chooses the levels again for the stored scales, and packs them. Groups whose scale is 0 keep the
/// levels of the search.
fn finish(
    values: &[f32; QK_K],
    scale: f32,
    min: f32,
    levels: &mut [u8; QK_K],
    block: &mut [u8; 84],
) {
    for (stored, (values, levels)) in
        block.iter().zip(values.chunks_exact(16).zip(levels.chunks_exact_mut(16)))
    {
        let scale = scale * f32::from(stored & 15);
        if scale != 0.0 {
            let min = min * f32::from(stored >> 4);
            for (level, value) in levels.iter_mut().zip(values) {
                *level = nearest_int((value + min) / scale).clamp(0, TOP) as u8;
            }
        }
    }
    pack_two_bits(levels, &mut block[LEVELS..SCALE]);
}
