//! IQ2_S: groups of 16 weights, each a four-bit scale and two points of a grid of 1024 with eight
//! signs.

use ggmill_core::GgmlType;

use super::grid::{self, points};
use super::group::{Group, signed, signed_bytes};
use super::search::{Again, Search, Way};
use super::{SUPER, Write, counts, greatest, scale_levels, sets, spread};
use crate::block::Decode;
use crate::float16::{read_f16, write_f16};
use crate::lanes::{self, Lanes};

pub(crate) struct IQ2_S;

// The super-scale, eight bits of every index, the signs, the other two bits of the indices, the
// scales.
const LOW: usize = 2;
const SIGNS: usize = 34;
const HIGH: usize = 66;
const SCALES: usize = 74;

/// Groups whose largest magnitude is below this count as all zero.
const SMALLEST: f32 = 1e-8;

static MAGNITUDES: [[u8; 8]; 1024] = points(&sets::IQ2_S, &[8, 25, 43]);

static SEARCH: Search<8> = Search { grid: &grid::IQ2_S, reach: 9, width: 0.1, again: Again::Off };

impl Decode<SUPER, 82> for IQ2_S {
    const TYPE: GgmlType = GgmlType::IQ2_S;

    fn decode(block: &[u8; 82], out: &mut [f32; SUPER]) {
        let super_scale = read_f16(block, 0);
        for (place, out) in out.chunks_exact_mut(8).enumerate() {
            let high = block[HIGH + place / 4] >> (place % 4 * 2) & 3;
            let index = usize::from(block[LOW + place]) | usize::from(high) << 8;
            let level = block[SCALES + place / 4] >> (place / 2 % 2 * 4) & 15;
            let scale = super_scale * (0.5 + f32::from(level)) * 0.25;
            signed(scale, &MAGNITUDES[index], block[SIGNS + place], out);
        }
    }

    #[inline(always)]
    fn decode_many<L: Lanes>(lanes: L, blocks: &[[u8; 82]], out: &mut [[f32; SUPER]]) {
        for (block, out) in blocks.iter().zip(out) {
            let super_scale = read_f16(block, 0);
            for (group, out) in out.chunks_exact_mut(16).enumerate() {
                let mut bytes = [[0; 8]; 2];
                for (place, bytes) in (2 * group..).zip(&mut bytes) {
                    let high = block[HIGH + place / 4] >> (place % 4 * 2) & 3;
                    let index = usize::from(block[LOW + place]) | usize::from(high) << 8;
                    *bytes = signed_bytes(MAGNITUDES[index], block[SIGNS + place]);
                }
                let level = block[SCALES + group / 2] >> (group % 2 * 4) & 15;
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
        way: impl Way,
        values: &[f32; SUPER],
        importance: Option<&[f32; SUPER]>,
        block: &mut [u8; 82],
    ) {
        let spread = spread(values);
        let weights = counts(values, importance, spread, 0.25 * spread);
        block.fill(0);
        let mut scales = [0.0; 16];
        let (values, _) = values.as_chunks::<16>();
        let (weights, _) = weights.as_chunks::<16>();
        for (index, (values, weights)) in values.iter().zip(weights).enumerate() {
            let mut group = Group::any_signs(values);
            let max = group.max();
            if max < SMALLEST {
                continue;
            }
            let (scale, points) = way.run::<8, 16, 2>(&SEARCH, &mut group, weights, max, max / 5.0);
            scales[index] = scale;
            for (place, (point, signs)) in (2 * index..).zip(points.into_iter().zip(group.signs)) {
                block[LOW + place] = point as u8;
                block[HIGH + place / 4] |= ((point >> 8) as u8) << (place % 4 * 2);
                block[SIGNS + place] = signs;
            }
        }
        let greatest = greatest(&scales);
        if greatest == 0.0 {
            return;
        }
        let super_scale = greatest / 31.0;
        for (index, level) in scale_levels(scales, super_scale, 15).into_iter().enumerate() {
            block[SCALES + index / 2] |= level << (index % 2 * 4);
        }
        // Rounding to the grid makes magnitudes too large on the average; so does the reference,
        // and takes this off.
        write_f16(block, 0, super_scale * 0.9875);
    }
}
