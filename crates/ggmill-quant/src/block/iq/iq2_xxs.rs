//! IQ2_XXS: groups of 32 weights, each a four-bit scale, four points of a grid of 256 and four
//! times seven signs.

use ggmill_core::GgmlType;

use super::grid::{self, points};
use super::group::{Group, eighth_sign, signed, signed_bytes};
use super::search::{Again, Search, Way};
use super::{SUPER, Write, counts, greatest, scale_levels, sets};
use crate::block::Decode;
use crate::float16::{read_f16, write_f16};
use crate::lanes::{self, Lanes};
use crate::numeric::sum_of_squares;
use crate::search::{NOTHING, positive};

pub(crate) struct IQ2_XXS;

// The super-scale; then for each group four indices of a byte, and a word of four times seven signs
// below the scale.
const GROUPS: usize = 2;

static MAGNITUDES: [[u8; 8]; 256] = points(&sets::IQ2_XXS, &[8, 25, 43]);

static SEARCH: Search<8> = Search { grid: &grid::IQ2_XXS, reach: 6, width: 0.1, again: Again::All };

impl Decode<SUPER, 66> for IQ2_XXS {
    const TYPE: GgmlType = GgmlType::IQ2_XXS;

    fn decode(block: &[u8; 66], out: &mut [f32; SUPER]) {
        let super_scale = read_f16(block, 0);
        let (groups, _) = block[GROUPS..].as_chunks::<8>();
        for (&[a, b, c, d, ref word @ ..], out) in groups.iter().zip(out.chunks_exact_mut(32)) {
            let word = u32::from_le_bytes(*word);
            let scale = super_scale * (0.5 + (word >> 28) as f32) * 0.25;
            for (place, (index, out)) in
                [a, b, c, d].into_iter().zip(out.chunks_exact_mut(8)).enumerate()
            {
                signed(
                    scale,
                    &MAGNITUDES[usize::from(index)],
                    eighth_sign((word >> (7 * place)) as u8 & 127),
                    out,
                );
            }
        }
    }

    #[inline(always)]
    fn decode_many<L: Lanes>(lanes: L, blocks: &[[u8; 66]], out: &mut [[f32; SUPER]]) {
        for (block, out) in blocks.iter().zip(out) {
            let super_scale = read_f16(block, 0);
            let (groups, _) = block[GROUPS..].as_chunks::<8>();
            for (&[a, b, c, d, ref word @ ..], out) in groups.iter().zip(out.chunks_exact_mut(32)) {
                let word = u32::from_le_bytes(*word);
                let mut bytes = [[0; 8]; 4];
                for (place, (index, bytes)) in [a, b, c, d].into_iter().zip(&mut bytes).enumerate()
                {
                    *bytes = signed_bytes(
                        MAGNITUDES[usize::from(index)],
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
        way: impl Way,
        values: &[f32; SUPER],
        importance: Option<&[f32; SUPER]>,
        block: &mut [u8; 66],
    ) {
        block.fill(0);
        let weights = counts(values, importance, sum_of_squares(values) / SUPER as f32, 0.0);
        let mut scales = [0.0; 8];
        let (values, _) = values.as_chunks::<32>();
        let (weights, _) = weights.as_chunks::<32>();
        let (stored, _) = block[GROUPS..].as_chunks_mut::<8>();
        for (index, stored) in stored.iter_mut().enumerate() {
            let weights = &weights[index];
            let mut group = Group::even_signs(&values[index], weights);
            if group.max() < NOTHING {
                continue;
            }
            // The candidates start from the scale that would suit magnitudes of 0 to 4, with the
            // third of them on the top level.
            let scale = positive(&group.magnitudes, 4, weights, &mut [0; 32]);
            let extent = 3.0 * scale;
            if extent <= 0.0 {
                continue;
            }
            let (scale, points) = way.run::<8, 32, 4>(&SEARCH, &mut group, weights, extent, scale);
            scales[index] = scale;
            let signs =
                group.signs.iter().rfold(0, |word, signs| word << 7 | u32::from(signs & 127));
            stored[..4].copy_from_slice(&points.map(|point| point as u8));
            stored[4..].copy_from_slice(&signs.to_le_bytes());
        }
        let greatest = greatest(&scales);
        if greatest == 0.0 {
            block.fill(0);
            return;
        }
        let super_scale = greatest / 31.0;
        for (level, stored) in scale_levels(scales, super_scale, 15).into_iter().zip(stored) {
            stored[7] |= level << 4;
        }
        write_f16(block, 0, super_scale);
    }
}
