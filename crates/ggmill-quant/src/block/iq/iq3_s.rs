//! IQ3_S: groups of 32 weights, each a four-bit scale, eight points of a grid of 512 and all signs.

use ggmill_core::GgmlType;

use super::grid::{self, points};
use super::group::{Group, signed};
use super::search::{Again, Search, Way};
use super::{SUPER, Write, counts, greatest, scale_levels, sets, spread};
use crate::block::Decode;
use crate::float16::{read_f16, write_f16};
use crate::lanes::{self, Lanes};

pub(crate) struct IQ3_S;

// The super-scale, eight bits of every index, the ninth bits, the signs, the scales.
const LOW: usize = 2;
const HIGH: usize = 66;
const SIGNS: usize = 74;
const SCALES: usize = 106;

static MAGNITUDES: [[u8; 4]; 512] = points(&sets::IQ3_S, &[1, 3, 5, 7, 9, 11, 13, 15]);

static SEARCH: Search<4> =
    Search { grid: &grid::IQ3_S, reach: 9, width: 0.2, again: Again::AllIfAnyOff };

impl Decode<SUPER, 110> for IQ3_S {
    const TYPE: GgmlType = GgmlType::IQ3_S;

    fn decode(block: &[u8; 110], out: &mut [f32; SUPER]) {
        let super_scale = read_f16(block, 0);
        for (place, out) in out.chunks_exact_mut(4).enumerate() {
            let high = block[HIGH + place / 8] >> (place % 8) & 1;
            let index = usize::from(block[LOW + place]) | usize::from(high) << 8;
            let level = block[SCALES + place / 16] >> (place / 8 % 2 * 4) & 15;
            let scale = super_scale * f32::from(1 + 2 * level);
            signed(scale, &MAGNITUDES[index], block[SIGNS + place / 2] >> (place % 2 * 4), out);
        }
    }

    #[inline(always)]
    fn decode_many<L: Lanes>(lanes: L, blocks: &[[u8; 110]], out: &mut [[f32; SUPER]]) {
        for (block, out) in blocks.iter().zip(out) {
            let super_scale = read_f16(block, 0);
            for (group, out) in out.chunks_exact_mut(32).enumerate() {
                let high = block[HIGH + group];
                let mut indices = [0; 8];
                for (place, (index, &low)) in
                    indices.iter_mut().zip(&block[LOW + 8 * group..]).enumerate()
                {
                    *index = u16::from(low) | u16::from(high) << (8 - place) & 0x100;
                }
                let signs =
                    u32::from_le_bytes(core::array::from_fn(|i| block[SIGNS + 4 * group + i]));
                let level = block[SCALES + group / 2] >> (group % 2 * 4) & 15;
                let bytes = lanes.signed_points(&MAGNITUDES, &indices, signs);
                lanes::decode_signed(lanes, &bytes, super_scale * f32::from(1 + 2 * level), out);
            }
        }
    }
}

impl Write<110> for IQ3_S {
    #[inline(always)]
    fn write(
        way: impl Way,
        values: &[f32; SUPER],
        importance: Option<&[f32; SUPER]>,
        block: &mut [u8; 110],
    ) {
        let spread = spread(values);
        let weights = counts(values, importance, spread, 0.0);
        block.fill(0);
        let mut scales = [0.0; 8];
        // The reference does not step over a group of zeros: the indices and signs of the groups
        // after it move up, while scales and ninth bits stay where they belong. Such a block reads
        // back wrong. Its bytes are the reference's anyway.
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
                way.run::<4, 32, 8>(&SEARCH, &mut group, weights, max, max / 15.0);
            scales[index] = scale;
            for (place, point) in points.into_iter().enumerate() {
                block[LOW + 8 * slot + place] = point as u8;
                block[HIGH + index] |= ((point >> 8) as u8) << place;
            }
            block[SIGNS + 4 * slot..][..4].copy_from_slice(&group.signs);
            slot += 1;
        }
        let greatest = greatest(&scales);
        if greatest == 0.0 {
            return;
        }
        let super_scale = greatest / 31.0;
        for (index, level) in scale_levels(scales, super_scale, 15).into_iter().enumerate() {
            block[SCALES + index / 2] |= level << (index % 2 * 4);
        }
        // The reference's correction, found by trial.
        write_f16(block, 0, super_scale * 1.033);
    }
}
