//! IQ3_XXS and IQ3_S: points of four magnitudes on a grid, with signs.

use ggmill_core::GgmlType;

use super::grid::{self, points};
use super::search::{Group, Rechoose, Search, Strategy, eighth_sign, eighth_signs, signed};
use super::{QK_K, Write, max_scale, scale_levels, sets, sigma2, value_weights};
use crate::block::Decode;
use crate::float16::{read_f16, write_f16};
use crate::lanes::{self, Lanes};

/// Groups of 32 weights, each with a four-bit scale, eight points of a grid of 256, and seven signs
/// per pair of points.
pub(crate) struct IQ3_XXS;

impl IQ3_XXS {
    // Offsets: after the super-scale, the indices, then for each group a word with four times seven
    // signs below the scale.
    const POINTS: usize = 2;
    const SIGNS: usize = 66;

    /// Groups whose greatest magnitude is below this are treated as zero.
    const GROUP_MAX_EPS: f32 = 1e-8;
}

static IQ3_XXS_MAGNITUDES: [[u8; 4]; 256] =
    points(&sets::IQ3_XXS, &[4, 12, 20, 28, 36, 44, 52, 62]);

static IQ3_XXS_SEARCH: Search<4> =
    Search { grid: &grid::IQ3_XXS, reach: 15, width: 0.2, rechoose: Rechoose::OffGrid };

impl Decode<QK_K, 98> for IQ3_XXS {
    const TYPE: GgmlType = GgmlType::IQ3_XXS;

    fn decode(block: &[u8; 98], out: &mut [f32; QK_K]) {
        let super_scale = read_f16(block, 0);
        let (words, _) = block[Self::SIGNS..].as_chunks::<4>();
        for ((word, points), out) in
            words.iter().zip(block[Self::POINTS..].chunks_exact(8)).zip(out.chunks_exact_mut(32))
        {
            let word = u32::from_le_bytes(*word);
            let scale = super_scale * (0.5 + (word >> 28) as f32) * 0.5;
            for (place, (&point, out)) in points.iter().zip(out.chunks_exact_mut(4)).enumerate() {
                let signs = eighth_sign((word >> (place / 2 * 7)) as u8 & 127);
                signed(
                    scale,
                    &IQ3_XXS_MAGNITUDES[usize::from(point)],
                    signs >> (place % 2 * 4),
                    out,
                );
            }
        }
    }

    #[inline(always)]
    fn decode_many<L: Lanes>(lanes: L, blocks: &[[u8; 98]], out: &mut [[f32; QK_K]]) {
        for (block, out) in blocks.iter().zip(out) {
            let super_scale = read_f16(block, 0);
            let (words, _) = block[Self::SIGNS..].as_chunks::<4>();
            for ((word, points), out) in words
                .iter()
                .zip(block[Self::POINTS..].chunks_exact(8))
                .zip(out.chunks_exact_mut(32))
            {
                let word = u32::from_le_bytes(*word);
                let indices = core::array::from_fn(|i| u16::from(points[i]));
                let bytes = lanes.signed_points(&IQ3_XXS_MAGNITUDES, &indices, eighth_signs(word));
                lanes::decode_signed(
                    lanes,
                    &bytes,
                    super_scale * (0.5 + (word >> 28) as f32) * 0.5,
                    out,
                );
            }
        }
    }
}

impl Write<98> for IQ3_XXS {
    #[inline(always)]
    fn write(
        strategy: impl Strategy,
        values: &[f32; QK_K],
        importance: Option<&[f32; QK_K]>,
        block: &mut [u8; 98],
    ) {
        let sigma2 = sigma2(values);
        let weights = value_weights(values, importance, sigma2, 0.0);
        block.fill(0);
        let mut scales = [0.0; 8];
        let (values, _) = values.as_chunks::<32>();
        let (weights, _) = weights.as_chunks::<32>();
        for (index, (values, weights)) in values.iter().zip(weights).enumerate() {
            let mut group = Group::even_signs(values, weights);
            let max = group.max();
            if max < Self::GROUP_MAX_EPS {
                continue;
            }
            let (scale, points) =
                strategy.run::<4, 32, 8>(&IQ3_XXS_SEARCH, &mut group, weights, max, max / 15.0);
            scales[index] = scale;
            let signs =
                group.signs.iter().rfold(0, |word, signs| word << 7 | u32::from(signs & 127));
            block[Self::POINTS + 8 * index..][..8]
                .copy_from_slice(&points.map(|point| point as u8));
            block[Self::SIGNS + 4 * index..][..4].copy_from_slice(&signs.to_le_bytes());
        }
        let max_scale = max_scale(&scales);
        if max_scale == 0.0 {
            block.fill(0);
            return;
        }
        let super_scale = max_scale / 31.0;
        for (index, level) in scale_levels(scales, super_scale, 15).into_iter().enumerate() {
            block[Self::SIGNS + 4 * index + 3] |= level << 4;
        }
        // An empirical correction of the reference.
        write_f16(block, 0, super_scale * 1.0125);
    }
}

/// Groups of 32 weights, each with a four-bit scale, eight points of a grid of 512, and all signs.
pub(crate) struct IQ3_S;

impl IQ3_S {
    // Offsets: after the super-scale, the lower eight bits of every index, the ninth bits, the
    // signs, the scales.
    const LOW: usize = 2;
    const HIGH: usize = 66;
    const SIGNS: usize = 74;
    const SCALES: usize = 106;
}

static IQ3_S_MAGNITUDES: [[u8; 4]; 512] = points(&sets::IQ3_S, &[1, 3, 5, 7, 9, 11, 13, 15]);

static IQ3_S_SEARCH: Search<4> =
    Search { grid: &grid::IQ3_S, reach: 9, width: 0.2, rechoose: Rechoose::AllIfAnyOffGrid };

impl Decode<QK_K, 110> for IQ3_S {
    const TYPE: GgmlType = GgmlType::IQ3_S;

    fn decode(block: &[u8; 110], out: &mut [f32; QK_K]) {
        let super_scale = read_f16(block, 0);
        for (place, out) in out.chunks_exact_mut(4).enumerate() {
            let high = block[Self::HIGH + place / 8] >> (place % 8) & 1;
            let index = usize::from(block[Self::LOW + place]) | usize::from(high) << 8;
            let level = block[Self::SCALES + place / 16] >> (place / 8 % 2 * 4) & 15;
            let scale = super_scale * f32::from(1 + 2 * level);
            signed(
                scale,
                &IQ3_S_MAGNITUDES[index],
                block[Self::SIGNS + place / 2] >> (place % 2 * 4),
                out,
            );
        }
    }

    #[inline(always)]
    fn decode_many<L: Lanes>(lanes: L, blocks: &[[u8; 110]], out: &mut [[f32; QK_K]]) {
        for (block, out) in blocks.iter().zip(out) {
            let super_scale = read_f16(block, 0);
            for (group, out) in out.chunks_exact_mut(32).enumerate() {
                let high = block[Self::HIGH + group];
                let mut indices = [0; 8];
                for (place, (index, &low)) in
                    indices.iter_mut().zip(&block[Self::LOW + 8 * group..]).enumerate()
                {
                    *index = u16::from(low) | u16::from(high) << (8 - place) & 0x100;
                }
                let signs = u32::from_le_bytes(core::array::from_fn(|i| {
                    block[Self::SIGNS + 4 * group + i]
                }));
                let level = block[Self::SCALES + group / 2] >> (group % 2 * 4) & 15;
                let bytes = lanes.signed_points(&IQ3_S_MAGNITUDES, &indices, signs);
                lanes::decode_signed(lanes, &bytes, super_scale * f32::from(1 + 2 * level), out);
            }
        }
    }
}

impl Write<110> for IQ3_S {
    #[inline(always)]
    fn write(
        strategy: impl Strategy,
        values: &[f32; QK_K],
        importance: Option<&[f32; QK_K]>,
        block: &mut [u8; 110],
    ) {
        let sigma2 = sigma2(values);
        let weights = value_weights(values, importance, sigma2, 0.0);
        block.fill(0);
        let mut scales = [0.0; 8];
        // The reference does not advance its output past a group of zeros: the indices and signs of
        // later groups move up, but their scales and ninth bits do not. Such a block decodes to
        // wrong values, but its bytes must equal the reference's.
        let mut slot = 0;
        let (values, _) = values.as_chunks::<32>();
        let (weights, _) = weights.as_chunks::<32>();
        for (index, (values, weights)) in values.iter().zip(weights).enumerate() {
            let mut group = Group::any_signs(values);
            let max = group.max();
            if max == 0.0 {
                continue;
            }
            let (scale, points) =
                strategy.run::<4, 32, 8>(&IQ3_S_SEARCH, &mut group, weights, max, max / 15.0);
            scales[index] = scale;
            for (place, point) in points.into_iter().enumerate() {
                block[Self::LOW + 8 * slot + place] = point as u8;
                block[Self::HIGH + index] |= ((point >> 8) as u8) << place;
            }
            block[Self::SIGNS + 4 * slot..][..4].copy_from_slice(&group.signs);
            slot += 1;
        }
        let max_scale = max_scale(&scales);
        if max_scale == 0.0 {
            return;
        }
        let super_scale = max_scale / 31.0;
        for (index, level) in scale_levels(scales, super_scale, 15).into_iter().enumerate() {
            block[Self::SCALES + index / 2] |= level << (index % 2 * 4);
        }
        // An empirical correction of the reference.
        write_f16(block, 0, super_scale * 1.033);
    }
}
