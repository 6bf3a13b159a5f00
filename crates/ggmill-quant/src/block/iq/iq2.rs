//! IQ2_XXS, IQ2_XS and IQ2_S: points of eight magnitudes on a grid, with signs.

use ggmill_core::GgmlType;

use super::grid::{self, points};
use super::search::{Group, Rechoose, Search, Strategy, eighth_sign, signed, signed_bytes};
use super::{QK_K, Write, max_scale, scale_levels, sets, sigma2, value_weights};
use crate::block::Decode;
use crate::float16::{read_f16, write_f16};
use crate::lanes::{self, Lanes};
use crate::numeric::sum_of_squares;
use crate::search::{GROUP_MAX_EPS, positive};

/// Groups of 32 weights, each with a four-bit scale, four points of a grid of 256, and seven signs
/// per point.
pub(crate) struct IQ2_XXS;

impl IQ2_XXS {
    // Offset: after the super-scale, for each group four one-byte indices and a word with four
    // times seven signs below the scale.
    const GROUPS: usize = 2;
}

static IQ2_XXS_MAGNITUDES: [[u8; 8]; 256] = points(&sets::IQ2_XXS, &[8, 25, 43]);

static IQ2_XXS_SEARCH: Search<8> =
    Search { grid: &grid::IQ2_XXS, reach: 6, width: 0.1, rechoose: Rechoose::All };

impl Decode<QK_K, 66> for IQ2_XXS {
    const TYPE: GgmlType = GgmlType::IQ2_XXS;

    fn decode(block: &[u8; 66], out: &mut [f32; QK_K]) {
        let super_scale = read_f16(block, 0);
        let (groups, _) = block[Self::GROUPS..].as_chunks::<8>();
        for (&[a, b, c, d, ref word @ ..], out) in groups.iter().zip(out.chunks_exact_mut(32)) {
            let word = u32::from_le_bytes(*word);
            let scale = super_scale * (0.5 + (word >> 28) as f32) * 0.25;
            for (place, (index, out)) in
                [a, b, c, d].into_iter().zip(out.chunks_exact_mut(8)).enumerate()
            {
                signed(
                    scale,
                    &IQ2_XXS_MAGNITUDES[usize::from(index)],
                    eighth_sign((word >> (7 * place)) as u8 & 127),
                    out,
                );
            }
        }
    }

    #[inline(always)]
    fn decode_many<L: Lanes>(lanes: L, blocks: &[[u8; 66]], out: &mut [[f32; QK_K]]) {
        for (block, out) in blocks.iter().zip(out) {
            let super_scale = read_f16(block, 0);
            let (groups, _) = block[Self::GROUPS..].as_chunks::<8>();
            for (&[a, b, c, d, ref word @ ..], out) in groups.iter().zip(out.chunks_exact_mut(32)) {
                let word = u32::from_le_bytes(*word);
                let mut bytes = [[0; 8]; 4];
                for (place, (index, bytes)) in [a, b, c, d].into_iter().zip(&mut bytes).enumerate()
                {
                    *bytes = signed_bytes(
                        IQ2_XXS_MAGNITUDES[usize::from(index)],
                        eighth_sign((word >> (7 * place)) as u8 & 127),
                    );
                }
                lanes::decode_signed(
                    lanes,
                    bytes.as_flattened(),
                    super_scale * (0.5 + (word >> 28) as f32) * 0.25,
                    out,
                );
            }
        }
    }
}

impl Write<66> for IQ2_XXS {
    const NEEDS_WEIGHTS: bool = true;

    #[inline(always)]
    fn write(
        strategy: impl Strategy,
        values: &[f32; QK_K],
        importance: Option<&[f32; QK_K]>,
        block: &mut [u8; 66],
    ) {
        block.fill(0);
        let weights = value_weights(values, importance, sum_of_squares(values) / QK_K as f32, 0.0);
        let mut scales = [0.0; 8];
        let (values, _) = values.as_chunks::<32>();
        let (weights, _) = weights.as_chunks::<32>();
        let (stored, _) = block[Self::GROUPS..].as_chunks_mut::<8>();
        for (index, stored) in stored.iter_mut().enumerate() {
            let weights = &weights[index];
            let mut group = Group::even_signs(&values[index], weights);
            if group.max() < GROUP_MAX_EPS {
                continue;
            }
            // The candidates start from the best scale for levels 0 to 4. Three times this scale is
            // put on the top level of the grid.
            let scale = positive(&group.magnitudes, 4, weights, &mut [0; 32]);
            let extent = 3.0 * scale;
            if extent <= 0.0 {
                continue;
            }
            let (scale, points) =
                strategy.run::<8, 32, 4>(&IQ2_XXS_SEARCH, &mut group, weights, extent, scale);
            scales[index] = scale;
            let signs =
                group.signs.iter().rfold(0, |word, signs| word << 7 | u32::from(signs & 127));
            stored[..4].copy_from_slice(&points.map(|point| point as u8));
            stored[4..].copy_from_slice(&signs.to_le_bytes());
        }
        let max_scale = max_scale(&scales);
        if max_scale == 0.0 {
            block.fill(0);
            return;
        }
        let super_scale = max_scale / 31.0;
        for (level, stored) in scale_levels(scales, super_scale, 15).into_iter().zip(stored) {
            stored[7] |= level << 4;
        }
        write_f16(block, 0, super_scale);
    }
}

/// Groups of 16 weights, each with a four-bit scale, two points of a grid of 512, and seven signs
/// per point.
pub(crate) struct IQ2_XS;

impl IQ2_XS {
    // Offsets: after the super-scale, the points (nine bits of index below seven signs), the
    // scales.
    const POINTS: usize = 2;
    const SCALES: usize = 66;
}

static IQ2_XS_MAGNITUDES: [[u8; 8]; 512] = points(&sets::IQ2_XS, &[8, 25, 43]);

static IQ2_XS_SEARCH: Search<8> =
    Search { grid: &grid::IQ2_XS, reach: 9, width: 0.1, rechoose: Rechoose::OffGrid };

impl Decode<QK_K, 74> for IQ2_XS {
    const TYPE: GgmlType = GgmlType::IQ2_XS;

    fn decode(block: &[u8; 74], out: &mut [f32; QK_K]) {
        let super_scale = read_f16(block, 0);
        let (points, _) = block[Self::POINTS..Self::SCALES].as_chunks::<2>();
        for (place, (point, out)) in points.iter().zip(out.chunks_exact_mut(8)).enumerate() {
            let point = u16::from_le_bytes(*point);
            let level = block[Self::SCALES + place / 4] >> (place / 2 % 2 * 4) & 15;
            let scale = super_scale * (0.5 + f32::from(level)) * 0.25;
            signed(
                scale,
                &IQ2_XS_MAGNITUDES[usize::from(point & 511)],
                eighth_sign((point >> 9) as u8),
                out,
            );
        }
    }

    #[inline(always)]
    fn decode_many<L: Lanes>(lanes: L, blocks: &[[u8; 74]], out: &mut [[f32; QK_K]]) {
        for (block, out) in blocks.iter().zip(out) {
            let super_scale = read_f16(block, 0);
            let (points, _) = block[Self::POINTS..Self::SCALES].as_chunks::<2>();
            for (place, (points, out)) in
                points.chunks_exact(2).zip(out.chunks_exact_mut(16)).enumerate()
            {
                let mut bytes = [[0; 8]; 2];
                for (point, bytes) in points.iter().zip(&mut bytes) {
                    let point = u16::from_le_bytes(*point);
                    *bytes = signed_bytes(
                        IQ2_XS_MAGNITUDES[usize::from(point & 511)],
                        eighth_sign((point >> 9) as u8),
                    );
                }
                let level = block[Self::SCALES + place / 2] >> (place % 2 * 4) & 15;
                lanes::decode_signed(
                    lanes,
                    bytes.as_flattened(),
                    super_scale * (0.5 + f32::from(level)) * 0.25,
                    out,
                );
            }
        }
    }
}

impl Write<74> for IQ2_XS {
    const NEEDS_WEIGHTS: bool = true;

    #[inline(always)]
    fn write(
        strategy: impl Strategy,
        values: &[f32; QK_K],
        importance: Option<&[f32; QK_K]>,
        block: &mut [u8; 74],
    ) {
        block.fill(0);
        let weights = value_weights(values, importance, sum_of_squares(values) / QK_K as f32, 0.0);
        let mut scales = [0.0; 16];
        let (values, _) = values.as_chunks::<16>();
        let (weights, _) = weights.as_chunks::<16>();
        for (index, stored) in block[Self::POINTS..Self::SCALES].chunks_exact_mut(4).enumerate() {
            let weights = &weights[index];
            let mut group = Group::even_signs(&values[index], weights);
            let max = group.max();
            if max < GROUP_MAX_EPS {
                continue;
            }
            let (scale, points) =
                strategy.run::<8, 16, 2>(&IQ2_XS_SEARCH, &mut group, weights, max, max / 5.0);
            scales[index] = scale;
            for ((stored, point), signs) in stored.chunks_exact_mut(2).zip(points).zip(group.signs)
            {
                stored.copy_from_slice(&(point | u16::from(signs & 127) << 9).to_le_bytes());
            }
        }
        let max_scale = max_scale(&scales);
        if max_scale == 0.0 {
            block.fill(0);
            return;
        }
        let super_scale = max_scale / 31.0;
        for (index, level) in scale_levels(scales, super_scale, 15).into_iter().enumerate() {
            block[Self::SCALES + index / 2] |= level << (index % 2 * 4);
        }
        write_f16(block, 0, super_scale);
    }
}

/// Groups of 16 weights, each with a four-bit scale, two points of a grid of 1024, and all signs.
pub(crate) struct IQ2_S;

impl IQ2_S {
    // Offsets: after the super-scale, the lower eight bits of every index, the signs, the upper two
    // bits of the indices, the scales.
    const LOW: usize = 2;
    const SIGNS: usize = 34;
    const HIGH: usize = 66;
    const SCALES: usize = 74;

    /// Groups whose greatest magnitude is below this are treated as zero.
    const GROUP_MAX_EPS: f32 = 1e-8;
}

static IQ2_S_MAGNITUDES: [[u8; 8]; 1024] = points(&sets::IQ2_S, &[8, 25, 43]);

static IQ2_S_SEARCH: Search<8> =
    Search { grid: &grid::IQ2_S, reach: 9, width: 0.1, rechoose: Rechoose::OffGrid };

impl Decode<QK_K, 82> for IQ2_S {
    const TYPE: GgmlType = GgmlType::IQ2_S;

    fn decode(block: &[u8; 82], out: &mut [f32; QK_K]) {
        let super_scale = read_f16(block, 0);
        for (place, out) in out.chunks_exact_mut(8).enumerate() {
            let high = block[Self::HIGH + place / 4] >> (place % 4 * 2) & 3;
            let index = usize::from(block[Self::LOW + place]) | usize::from(high) << 8;
            let level = block[Self::SCALES + place / 4] >> (place / 2 % 2 * 4) & 15;
            let scale = super_scale * (0.5 + f32::from(level)) * 0.25;
            signed(scale, &IQ2_S_MAGNITUDES[index], block[Self::SIGNS + place], out);
        }
    }

    #[inline(always)]
    fn decode_many<L: Lanes>(lanes: L, blocks: &[[u8; 82]], out: &mut [[f32; QK_K]]) {
        for (block, out) in blocks.iter().zip(out) {
            let super_scale = read_f16(block, 0);
            for (group, out) in out.chunks_exact_mut(16).enumerate() {
                let mut bytes = [[0; 8]; 2];
                for (place, bytes) in (2 * group..).zip(&mut bytes) {
                    let high = block[Self::HIGH + place / 4] >> (place % 4 * 2) & 3;
                    let index = usize::from(block[Self::LOW + place]) | usize::from(high) << 8;
                    *bytes = signed_bytes(IQ2_S_MAGNITUDES[index], block[Self::SIGNS + place]);
                }
                let level = block[Self::SCALES + group / 2] >> (group % 2 * 4) & 15;
                lanes::decode_signed(
                    lanes,
                    bytes.as_flattened(),
                    super_scale * (0.5 + f32::from(level)) * 0.25,
                    out,
                );
            }
        }
    }
}

impl Write<82> for IQ2_S {
    #[inline(always)]
    fn write(
        strategy: impl Strategy,
        values: &[f32; QK_K],
        importance: Option<&[f32; QK_K]>,
        block: &mut [u8; 82],
    ) {
        let sigma2 = sigma2(values);
        let weights = value_weights(values, importance, sigma2, 0.25 * sigma2);
        block.fill(0);
        let mut scales = [0.0; 16];
        let (values, _) = values.as_chunks::<16>();
        let (weights, _) = weights.as_chunks::<16>();
        for (index, (values, weights)) in values.iter().zip(weights).enumerate() {
            let mut group = Group::any_signs(values);
            let max = group.max();
            if max < Self::GROUP_MAX_EPS {
                continue;
            }
            let (scale, points) =
                strategy.run::<8, 16, 2>(&IQ2_S_SEARCH, &mut group, weights, max, max / 5.0);
            scales[index] = scale;
            for (place, (point, signs)) in (2 * index..).zip(points.into_iter().zip(group.signs)) {
                block[Self::LOW + place] = point as u8;
                block[Self::HIGH + place / 4] |= ((point >> 8) as u8) << (place % 4 * 2);
                block[Self::SIGNS + place] = signs;
            }
        }
        let max_scale = max_scale(&scales);
        if max_scale == 0.0 {
            return;
        }
        let super_scale = max_scale / 31.0;
        for (index, level) in scale_levels(scales, super_scale, 15).into_iter().enumerate() {
            block[Self::SCALES + index / 2] |= level << (index % 2 * 4);
        }
        // Rounding to the grid makes magnitudes too large on average, which the reference corrects.
        write_f16(block, 0, super_scale * 0.9875);
    }
}
