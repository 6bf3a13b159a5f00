//! IQ2_XS: groups of 16 weights, each a four-bit scale and two points of a grid of 512 with seven
//! signs.

use ggmill_core::GgmlType;

use super::grid::{self, points};
use super::group::{Group, eighth_sign, signed, signed_bytes};
use super::search::{Again, Search, Way};
use super::{SUPER, Write, counts, greatest, scale_levels, sets};
use crate::block::Decode;
use crate::float16::{read_f16, write_f16};
use crate::lanes::{self, Lanes};
use crate::numeric::sum_of_squares;
use crate::search::NOTHING;

pub(crate) struct IQ2_XS;

// The super-scale, the points (nine bits of index below seven signs), the scales.
const POINTS: usize = 2;
const SCALES: usize = 66;

static MAGNITUDES: [[u8; 8]; 512] = points(&sets::IQ2_XS, &[8, 25, 43]);

static SEARCH: Search<8> = Search { grid: &grid::IQ2_XS, reach: 9, width: 0.1, again: Again::Off };

impl Decode<SUPER, 74> for IQ2_XS {
    const TYPE: GgmlType = GgmlType::IQ2_XS;

    fn decode(block: &[u8; 74], out: &mut [f32; SUPER]) {
        let super_scale = read_f16(block, 0);
        let (points, _) = block[POINTS..SCALES].as_chunks::<2>();
        for (place, (point, out)) in points.iter().zip(out.chunks_exact_mut(8)).enumerate() {
            let point = u16::from_le_bytes(*point);
            let level = block[SCALES + place / 4] >> (place / 2 % 2 * 4) & 15;
            let scale = super_scale * (0.5 + f32::from(level)) * 0.25;
            signed(
                scale,
                &MAGNITUDES[usize::from(point & 511)],
                eighth_sign((point >> 9) as u8),
                out,
            );
        }
    }

    #[inline(always)]
    fn decode_many<L: Lanes>(lanes: L, blocks: &[[u8; 74]], out: &mut [[f32; SUPER]]) {
        for (block, out) in blocks.iter().zip(out) {
            let super_scale = read_f16(block, 0);
            let (points, _) = block[POINTS..SCALES].as_chunks::<2>();
            for (place, (points, out)) in
                points.chunks_exact(2).zip(out.chunks_exact_mut(16)).enumerate()
            {
                let mut bytes = [[0; 8]; 2];
                for (point, bytes) in points.iter().zip(&mut bytes) {
                    let point = u16::from_le_bytes(*point);
                    *bytes = signed_bytes(
                        MAGNITUDES[usize::from(point & 511)],
                        eighth_sign((point >> 9) as u8),
                    );
                }
                let level = block[SCALES + place / 2] >> (place % 2 * 4) & 15;
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
        way: impl Way,
        values: &[f32; SUPER],
        importance: Option<&[f32; SUPER]>,
        block: &mut [u8; 74],
    ) {
        block.fill(0);
        let weights = counts(values, importance, sum_of_squares(values) / SUPER as f32, 0.0);
        let mut scales = [0.0; 16];
        let (values, _) = values.as_chunks::<16>();
        let (weights, _) = weights.as_chunks::<16>();
        for (index, stored) in block[POINTS..SCALES].chunks_exact_mut(4).enumerate() {
            let weights = &weights[index];
            let mut group = Group::even_signs(&values[index], weights);
            let max = group.max();
            if max < NOTHING {
                continue;
            }
            let (scale, points) = way.run::<8, 16, 2>(&SEARCH, &mut group, weights, max, max / 5.0);
            scales[index] = scale;
            for ((stored, point), signs) in stored.chunks_exact_mut(2).zip(points).zip(group.signs)
            {
                stored.copy_from_slice(&(point | u16::from(signs & 127) << 9).to_le_bytes());
            }
        }
        let greatest = greatest(&scales);
        if greatest == 0.0 {
            block.fill(0);
            return;
        }
        let super_scale = greatest / 31.0;
        for (index, level) in scale_levels(scales, super_scale, 15).into_iter().enumerate() {
            block[SCALES + index / 2] |= level << (index % 2 * 4);
        }
        write_f16(block, 0, super_scale);
    }
}
