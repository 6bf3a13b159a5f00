//! Q3_K: groups of 16 three-bit levels around zero, each group with a six-bit scale.

use ggmill_core::GgmlType;

use super::search::{
    SymmetricGroups, SymmetricWeights, batch_len, extreme_scales, scale_of_scales, search_by_moves,
    search_symmetric,
};
use super::{QK_K, bits_by_column, importance, pack_two_bits, sum};
use crate::block::{Decode, Encode};
use crate::float16::{read_f16, write_f16};
use crate::lanes::{Lanes, decode_signed};
use crate::numeric::{extreme, nearest_int, sum_of_squares};
use crate::search::{symmetric, symmetric_by_moves};

pub(crate) struct Q3_K;

// Offsets: after the third bit of every level, the lower two bits, the scales, the super-scale.
const LEVELS: usize = 32;
const SCALES: usize = 96;
const SCALE: usize = 108;

impl Decode<QK_K, 110> for Q3_K {
    const TYPE: GgmlType = GgmlType::Q3_K;

    #[inline(always)]
    fn decode(block: &[u8; 110], out: &mut [f32; QK_K]) {
        let super_scale = read_f16(block, SCALE);
        let scales = read_scales(&block[SCALES..SCALE]);
        for (group, (out, scale)) in out.chunks_exact_mut(16).zip(scales).enumerate() {
            let scale = super_scale * f32::from(scale);
            let (half, column) = (group / 8, 16 * (group % 2));
            let low = &block[LEVELS + 32 * half + column..];
            let high = &block[column..];
            for (out, (low, high)) in out.iter_mut().zip(low.iter().zip(high)) {
                let level = low >> (2 * (group / 2 % 4)) & 3 | (high >> (group / 2) & 1) << 2;
                *out = scale * f32::from(level.cast_signed() - 4);
            }
        }
    }

    #[inline(always)]
    fn decode_many<L: Lanes>(lanes: L, blocks: &[[u8; 110]], out: &mut [[f32; QK_K]]) {
        for (block, out) in blocks.iter().zip(out) {
            let super_scale = read_f16(block, SCALE);
            let scales = read_scales(&block[SCALES..SCALE]);
            let levels = unpack(block);
            for ((out, levels), scale) in
                out.chunks_exact_mut(16).zip(levels.chunks_exact(16)).zip(scales)
            {
                decode_signed(lanes, levels, super_scale * f32::from(scale), out);
            }
        }
    }
}

/// Unpacks the signed levels, -4..4, one per byte.
#[inline(always)]
fn unpack(block: &[u8; 110]) -> [u8; QK_K] {
    let mut levels = [0; QK_K];
    for (half, (levels, bytes)) in
        levels.chunks_exact_mut(128).zip(block[LEVELS..SCALES].chunks_exact(32)).enumerate()
    {
        for column in 0..32 {
            let (low, high) = (bytes[column], block[column] >> (4 * half));
            // Stored with 4 added, so the third bit is set from level 0 on.
            levels[column] = (low & 3 | high << 2 & 4).wrapping_sub(4);
            levels[column + 32] = (low >> 2 & 3 | high << 1 & 4).wrapping_sub(4);
            levels[column + 64] = (low >> 4 & 3 | high & 4).wrapping_sub(4);
            levels[column + 96] = (low >> 6 | high >> 1 & 4).wrapping_sub(4);
        }
    }
    levels
}

impl Encode<QK_K, 110> for Q3_K {
    fn encode(values: &[f32; QK_K], block: &mut [u8; 110]) {
        let mut levels = [0; QK_K];
        let mut scales = [0.0; 16];
        for ((values, levels), scale) in
            values.chunks_exact(16).zip(levels.chunks_exact_mut(16)).zip(&mut scales)
        {
            *scale = symmetric_by_moves(values, 4, levels);
        }
        let (super_scale, stored) = levels_of_scales(&scales, extreme(&scales));
        write_scales(stored, &mut block[SCALES..SCALE]);
        finish(values, super_scale, &mut levels, block);
    }

    fn encode_weighted(values: &[f32; QK_K], weights: &[f32; QK_K], _: f32, block: &mut [u8; 110]) {
        let mut levels = [0; QK_K];
        let (mut scales, mut sums) = ([0.0; 16], [0.0; 16]);
        let sigma2 = 2.0 * sum_of_squares(values) / 256.0;
        let (groups, _) = values.as_chunks::<16>();
        let (weights, _) = weights.as_chunks::<16>();
        for (index, levels) in levels.chunks_exact_mut(16).enumerate() {
            let weights = importance(&groups[index], &weights[index], sigma2);
            sums[index] = sum(&weights);
            scales[index] = symmetric(&groups[index], 4, Some(&weights), levels);
        }
        let mut stored = [0; 16];
        let super_scale = symmetric(&scales, 32, Some(&sums), &mut stored);
        write_scales(stored, &mut block[SCALES..SCALE]);
        finish(values, super_scale, &mut levels, block);
    }

    #[inline(always)]
    fn encode_many<L: Lanes>(lanes: L, values: &[[f32; QK_K]], out: &mut [[u8; 110]]) {
        let mut found = SymmetricGroups::with_stored_levels();
        for (values, out) in values.chunks(batch_len::<L>()).zip(out.chunks_mut(batch_len::<L>())) {
            search_by_moves(lanes, values, 4, &mut found);
            let (scales, _) = found.scales.as_chunks::<16>();
            let extremes = extreme_scales(lanes, &found);
            for (index, (values, block)) in values.iter().zip(out).enumerate() {
                let (super_scale, stored) = levels_of_scales(&scales[index], extremes[index]);
                write(lanes, &found, index, values, super_scale, stored, block);
            }
        }
    }

    #[inline(always)]
    fn encode_many_weighted<L: Lanes>(
        lanes: L,
        values: &[[f32; QK_K]],
        weights: &[[f32; QK_K]],
        _: f32,
        out: &mut [[u8; 110]],
    ) {
        for ((values, weights), out) in values
            .chunks(batch_len::<L>())
            .zip(weights.chunks(batch_len::<L>()))
            .zip(out.chunks_mut(batch_len::<L>()))
        {
            let found = search_symmetric(lanes, values, SymmetricWeights::Importance(weights), 4);
            let (super_scales, stored) = scale_of_scales(lanes, &found, 32);
            for (index, (values, block)) in values.iter().zip(out).enumerate() {
                write(lanes, &found, index, values, super_scales[index], stored[index], block);
            }
        }
    }
}

/// Quantizes the scales to 32nds of the extreme one. Returns the super-scale and the stored levels.
#[inline(always)]
fn levels_of_scales(scales: &[f32; 16], extreme: f32) -> (f32, [u8; 16]) {
    if extreme == 0.0 {
        return (0.0, [0; 16]);
    }
    let inverse = -32.0 / extreme;
    (
        1.0 / inverse,
        scales.map(|scale| {
            ((nearest_int(inverse * scale) as i8).clamp(-32, 31) + 32).cast_unsigned()
        }),
    )
}

/// Stores a super-block with the scales of a search.
#[inline(always)]
fn write<L: Lanes>(
    lanes: L,
    found: &SymmetricGroups,
    index: usize,
    values: &[f32; QK_K],
    super_scale: f32,
    stored: [u8; 16],
    block: &mut [u8; 110],
) {
    write_scales(stored, &mut block[SCALES..SCALE]);
    let super_scale = write_f16(block, SCALE, super_scale);
    let scales = read_scales(&block[SCALES..SCALE]).map(|scale| super_scale * f32::from(scale));
    pack(found.assign(lanes, index, values, scales, 4), block);
}

/// Packs sixteen six-bit scales into twelve bytes: the low four bits of the first eight below those
/// of the last eight, then the high two bits of every fourth.
#[inline(always)]
fn write_scales(scales: [u8; 16], out: &mut [u8]) {
    let mut bytes = [0; 12];
    for index in 0..8 {
        bytes[index] = scales[index] & 15 | (scales[index + 8] & 15) << 4;
    }
    for index in 0..4 {
        bytes[index + 8] = scales[index] >> 4
            | scales[index + 4] >> 4 << 2
            | scales[index + 8] >> 4 << 4
            | scales[index + 12] >> 4 << 6;
    }
    out.copy_from_slice(&bytes);
}

/// Unpacks the signed scales, -32..32.
#[inline(always)]
fn read_scales(bytes: &[u8]) -> [i8; 16] {
    core::array::from_fn(|index| {
        let low = bytes[index % 8] >> (4 * (index / 8)) & 15;
        let high = bytes[8 + index % 4] >> (2 * (index / 4)) & 3;
        (low | high << 4).cast_signed() - 32
    })
}

/// Stores the super-scale, chooses the levels again for the stored scales, and packs them. Groups
/// whose scale is 0 keep the levels of the search.
fn finish(values: &[f32; QK_K], super_scale: f32, levels: &mut [u8; QK_K], block: &mut [u8; 110]) {
    let super_scale = write_f16(block, SCALE, super_scale);
    let scales = read_scales(&block[SCALES..SCALE]);
    for (scale, (values, levels)) in
        scales.into_iter().zip(values.chunks_exact(16).zip(levels.chunks_exact_mut(16)))
    {
        let scale = super_scale * f32::from(scale);
        if scale != 0.0 {
            for (level, value) in levels.iter_mut().zip(values) {
                *level = (nearest_int(value / scale).clamp(-4, 3) + 4) as u8;
            }
        }
    }
    pack(*levels, block);
}

/// Packs the third bits, one byte for each column of the super-block, then the lower two bits.
#[inline(always)]
fn pack(mut levels: [u8; QK_K], block: &mut [u8; 110]) {
    block[..LEVELS].copy_from_slice(&bits_by_column(&levels, 2));
    for level in &mut levels {
        *level &= 3;
    }
    pack_two_bits(&levels, &mut block[LEVELS..SCALES]);
}
