//! IQ3_XXS: groups of 32 weights, each a four-bit scale, eight points of a grid of 256 and four
//! times seven signs.

use ggmill_core::GgmlType;

use super::grid::{self, points};
use super::group::{Group, eighth_sign, eighth_signs, signed};
use super::search::{Again, Search, Way};
use super::{SUPER, Write, counts, greatest, scale_levels, sets, spread};
use crate::block::Decode;
use crate::float16::{read_f16, write_f16};
use crate::lanes::{self, Lanes};

pub(crate) struct IQ3_XXS;

// The super-scale, the indices, then for each group a word of four times seven signs below the
// scale.
const POINTS: usize = 2;
const SIGNS: usize = 66;

/// Groups whose largest magnitude is below this count as all zero.
const SMALLEST: f32 = 1e-8;

static MAGNITUDES: [[u8; 4]; 256] = points(&sets::IQ3_XXS, &[4, 12, 20, 28, 36, 44, 52, 62]);

static SEARCH: Search<4> =
    Search { grid: &grid::IQ3_XXS, reach: 15, width: 0.2, again: Again::Off };

impl Decode<SUPER, 98> for IQ3_XXS {
    const TYPE: GgmlType = GgmlType::IQ3_XXS;

    fn decode(block: &[u8; 98], out: &mut [f32; SUPER]) {
        let super_scale = read_f16(block, 0);
        let (words, _) = block[SIGNS..].as_chunks::<4>();
        for ((word, points), out) in
            words.iter().zip(block[POINTS..].chunks_exact(8)).zip(out.chunks_exact_mut(32))
        {
            let word = u32::from_le_bytes(*word);
            let scale = super_scale * (0.5 + (word >> 28) as f32) * 0.5;
            for (place, (&point, out)) in points.iter().zip(out.chunks_exact_mut(4)).enumerate() {
                let signs = eighth_sign((word >> (place / 2 * 7)) as u8 & 127);
                signed(scale, &MAGNITUDES[usize::from(point)], signs >> (place % 2 * 4), out);
            }
        }
    }

    #[inline(always)]
    fn decode_many<L: Lanes>(lanes: L, blocks: &[[u8; 98]], out: &mut [[f32; SUPER]]) {
        for (block, out) in blocks.iter().zip(out) {
            let super_scale = read_f16(block, 0);
            let (words, _) = block[SIGNS..].as_chunks::<4>();
            for ((word, points), out) in
                words.iter().zip(block[POINTS..].chunks_exact(8)).zip(out.chunks_exact_mut(32))
            {
                let word = u32::from_le_bytes(*word);
                let indices = core::array::from_fn(|i| u16::from(points[i]));
                let bytes = lanes.signed_points(&MAGNITUDES, &indices, eighth_signs(word));
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
        way: impl Way,
        values: &[f32; SUPER],
        importance: Option<&[f32; SUPER]>,
        block: &mut [u8; 98],
    ) {
        let spread = spread(values);
        let weights = counts(values, importance, spread, 0.0);
        block.fill(0);
        let mut scales = [0.0; 8];
        let (values, _) = values.as_chunks::<32>();
        let (weights, _) = weights.as_chunks::<32>();
        for (index, (values, weights)) in values.iter().zip(weights).enumerate() {
            let mut group = Group::even_signs(values, weights);
            let max = group.max();
            if max < SMALLEST {
                continue;
            }
            let (scale, points) =
                way.run::<4, 32, 8>(&SEARCH, &mut group, weights, max, max / 15.0);
            scales[index] = scale;
            let signs =
                group.signs.iter().rfold(0, |word, signs| word << 7 | u32::from(signs & 127));
            block[POINTS + 8 * index..][..8].copy_from_slice(&points.map(|point| point as u8));
            block[SIGNS + 4 * index..][..4].copy_from_slice(&signs.to_le_bytes());
        }
        let greatest = greatest(&scales);
        if greatest == 0.0 {
            block.fill(0);
            return;
        }
        let super_scale = greatest / 31.0;
        for (index, level) in scale_levels(scales, super_scale, 15).into_iter().enumerate() {
            block[SIGNS + 4 * index + 3] |= level << 4;
        }
        // The reference's correction, found by trial.
        write_f16(block, 0, super_scale * 1.0125);
    }
}
