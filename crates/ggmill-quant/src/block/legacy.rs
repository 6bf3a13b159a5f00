//! The first formats: 32 weights of 4, 5 or 8 bits under one scale (`_0`), or one scale and one
//! minimum (`_1`; in Q8_1 the sum instead).

use ggmill_core::GgmlType;

use super::{BITS_TO_BYTES, BYTE_ONES, Decode, Encode, gather_bits};
use crate::arch::Pair;
use crate::float16::{read_f16, write_f16};
use crate::lanes::{self, Floats, Lanes, MAX_LANES, columns};
use crate::numeric::{bounds, extreme, inverse_or_zero, max_abs, round, sum_of_squares, truncate};
use crate::search::{Affine, Steps, affine, symmetric};

pub(crate) struct Q4_0;
pub(crate) struct Q4_1;
pub(crate) struct Q5_0;
pub(crate) struct Q5_1;
pub(crate) struct Q8_0;
pub(crate) struct Q8_1;

const SCALE: usize = 0;
/// The minimum of the `_1` formats; in Q8_1 the sum.
const MIN: usize = 2;

impl Decode<32, 18> for Q4_0 {
    const TYPE: GgmlType = GgmlType::Q4_0;

    #[inline(always)]
    fn decode(block: &[u8; 18], out: &mut [f32; 32]) {
        let scale = read_f16(block, SCALE);
        let nibbles = nibbles(&block[2..]);
        for (out, level) in out.iter_mut().zip(nibbles) {
            *out = (i32::from(level) - 8) as f32 * scale;
        }
    }

    #[inline(always)]
    fn decode_many<L: Lanes>(lanes: L, blocks: &[[u8; 18]], out: &mut [[f32; 32]]) {
        for (block, out) in blocks.iter().zip(out) {
            let mut levels = nibbles(&block[2..]);
            for level in &mut levels {
                *level = level.wrapping_sub(8);
            }
            lanes::decode_signed(lanes, &levels, read_f16(block, SCALE), out);
        }
    }
}

impl Encode<32, 18> for Q4_0 {
    fn encode(values: &[f32; 32], block: &mut [u8; 18]) {
        let scale = extreme(values) / -8.0;
        let inverse = inverse_or_zero(scale);
        write_f16(block, SCALE, scale);
        let levels = values.map(|value| to_i8(value * inverse + 8.5).min(15) as u8);
        pack_nibbles(&levels, &mut block[2..]);
    }

    fn encode_weighted(
        values: &[f32; 32],
        weights: &[f32; 32],
        row_sigma2: f32,
        block: &mut [u8; 18],
    ) {
        let mut levels = [0; 32];
        let scale =
            symmetric(values, 8, Some(&importance(values, weights, row_sigma2)), &mut levels);
        write_f16(block, SCALE, scale);
        pack_nibbles(&levels, &mut block[2..]);
    }

    fn row_sigma2(row: &[f32]) -> f32 {
        mean_square(row)
    }

    #[inline(always)]
    fn encode_many<L: Lanes>(lanes: L, values: &[[f32; 32]], out: &mut [[u8; 18]]) {
        for (values, out) in values.chunks(L::WIDTH).zip(out.chunks_mut(L::WIDTH)) {
            let Some(found) = lanes::extreme_scales(lanes, values, -8.0) else {
                values.iter().zip(out).for_each(|(values, block)| Self::encode(values, block));
                continue;
            };
            for (index, (values, block)) in values.iter().zip(out).enumerate() {
                write_f16(block, SCALE, found.scales[index]);
                let levels =
                    lanes::offset_levels(lanes, values, 0.0, found.inverses[index], 8.5, 15.0);
                pack_nibbles(&levels, &mut block[2..]);
            }
        }
    }

    #[inline(always)]
    fn encode_many_weighted<L: Lanes>(
        lanes: L,
        values: &[[f32; 32]],
        weights: &[[f32; 32]],
        row_sigma2: f32,
        out: &mut [[u8; 18]],
    ) {
        for ((values, weights), out) in values
            .chunks(2 * L::WIDTH)
            .zip(weights.chunks(2 * L::WIDTH))
            .zip(out.chunks_mut(2 * L::WIDTH))
        {
            let (scales, inverses) = symmetric_many(lanes, values, weights, row_sigma2, 8);
            for (index, (values, block)) in values.iter().zip(out).enumerate() {
                write_f16(block, SCALE, scales[index]);
                let levels = symmetric_levels(lanes, values, inverses[index], 8);
                pack_nibbles(&levels, &mut block[2..]);
            }
        }
    }
}

impl Decode<32, 20> for Q4_1 {
    const TYPE: GgmlType = GgmlType::Q4_1;

    #[inline(always)]
    fn decode(block: &[u8; 20], out: &mut [f32; 32]) {
        let (scale, min) = (read_f16(block, SCALE), read_f16(block, MIN));
        for (out, level) in out.iter_mut().zip(nibbles(&block[4..])) {
            *out = f32::from(level) * scale + min;
        }
    }

    #[inline(always)]
    fn decode_many<L: Lanes>(lanes: L, blocks: &[[u8; 20]], out: &mut [[f32; 32]]) {
        for (block, out) in blocks.iter().zip(out) {
            let (scale, min) = (read_f16(block, SCALE), read_f16(block, MIN));
            decode_with_min(lanes, &nibbles(&block[4..]), scale, min, out);
        }
    }
}

impl Encode<32, 20> for Q4_1 {
    fn encode(values: &[f32; 32], block: &mut [u8; 20]) {
        let (min, max) = bounds(values);
        let scale = (max - min) / 15.0;
        let inverse = inverse_or_zero(scale);
        write_f16(block, SCALE, scale);
        write_f16(block, MIN, min);
        let levels = values.map(|value| to_i8((value - min) * inverse + 0.5).min(15) as u8);
        pack_nibbles(&levels, &mut block[4..]);
    }

    fn encode_weighted(
        values: &[f32; 32],
        weights: &[f32; 32],
        row_sigma2: f32,
        block: &mut [u8; 20],
    ) {
        let mut levels = [0; 32];
        let Affine { scale, min } = affine(
            values,
            15,
            &importance(values, weights, row_sigma2),
            WEIGHTED_STEPS,
            &mut levels,
        );
        write_f16(block, SCALE, scale);
        write_f16(block, MIN, -min);
        pack_nibbles(&levels, &mut block[4..]);
    }

    fn row_sigma2(row: &[f32]) -> f32 {
        mean_square(row)
    }

    #[inline(always)]
    fn encode_many<L: Lanes>(lanes: L, values: &[[f32; 32]], out: &mut [[u8; 20]]) {
        for (values, out) in values.chunks(L::WIDTH).zip(out.chunks_mut(L::WIDTH)) {
            let Some(found) = lanes::min_max_scales(lanes, values, 15.0) else {
                values.iter().zip(out).for_each(|(values, block)| Self::encode(values, block));
                continue;
            };
            for (index, (values, block)) in values.iter().zip(out).enumerate() {
                write_f16(block, SCALE, found.scales[index]);
                write_f16(block, MIN, found.mins[index]);
                let levels = lanes::offset_levels(
                    lanes,
                    values,
                    found.mins[index],
                    found.inverses[index],
                    0.5,
                    15.0,
                );
                pack_nibbles(&levels, &mut block[4..]);
            }
        }
    }

    #[inline(always)]
    fn encode_many_weighted<L: Lanes>(
        lanes: L,
        values: &[[f32; 32]],
        weights: &[[f32; 32]],
        row_sigma2: f32,
        out: &mut [[u8; 20]],
    ) {
        for ((values, weights), out) in values
            .chunks(2 * L::WIDTH)
            .zip(weights.chunks(2 * L::WIDTH))
            .zip(out.chunks_mut(2 * L::WIDTH))
        {
            let Some(found) = affine_many(lanes, values, weights, row_sigma2, 15) else {
                for ((values, weights), block) in values.iter().zip(weights).zip(out) {
                    Self::encode_weighted(values, weights, row_sigma2, block);
                }
                continue;
            };
            for (index, (values, block)) in values.iter().zip(out).enumerate() {
                write_f16(block, SCALE, found.scales[index]);
                write_f16(block, MIN, -found.mins[index]);
                let levels =
                    affine_levels(lanes, values, found.inverses[index], found.offsets[index], 15);
                pack_nibbles(&levels, &mut block[4..]);
            }
        }
    }
}

impl Decode<32, 22> for Q5_0 {
    const TYPE: GgmlType = GgmlType::Q5_0;

    #[inline(always)]
    fn decode(block: &[u8; 22], out: &mut [f32; 32]) {
        let scale = read_f16(block, SCALE);
        for (out, level) in out.iter_mut().zip(five_bits(&block[2..])) {
            *out = (i32::from(level) - 16) as f32 * scale;
        }
    }

    #[inline(always)]
    fn decode_many<L: Lanes>(lanes: L, blocks: &[[u8; 22]], out: &mut [[f32; 32]]) {
        for (block, out) in blocks.iter().zip(out) {
            let mut levels = five_bits(&block[2..]);
            for level in &mut levels {
                *level = level.wrapping_sub(16);
            }
            lanes::decode_signed(lanes, &levels, read_f16(block, SCALE), out);
        }
    }
}

impl Encode<32, 22> for Q5_0 {
    fn encode(values: &[f32; 32], block: &mut [u8; 22]) {
        let scale = extreme(values) / -16.0;
        let inverse = inverse_or_zero(scale);
        write_f16(block, SCALE, scale);
        let levels = values.map(|value| to_i8(value * inverse + 16.5).min(31) as u8);
        pack_five_bits(&levels, &mut block[2..]);
    }

    fn encode_weighted(
        values: &[f32; 32],
        weights: &[f32; 32],
        row_sigma2: f32,
        block: &mut [u8; 22],
    ) {
        let mut levels = [0; 32];
        let scale =
            symmetric(values, 16, Some(&importance(values, weights, row_sigma2)), &mut levels);
        write_f16(block, SCALE, scale);
        pack_five_bits(&levels, &mut block[2..]);
    }

    fn row_sigma2(row: &[f32]) -> f32 {
        mean_square(row)
    }

    #[inline(always)]
    fn encode_many<L: Lanes>(lanes: L, values: &[[f32; 32]], out: &mut [[u8; 22]]) {
        for (values, out) in values.chunks(L::WIDTH).zip(out.chunks_mut(L::WIDTH)) {
            let Some(found) = lanes::extreme_scales(lanes, values, -16.0) else {
                values.iter().zip(out).for_each(|(values, block)| Self::encode(values, block));
                continue;
            };
            for (index, (values, block)) in values.iter().zip(out).enumerate() {
                write_f16(block, SCALE, found.scales[index]);
                let levels =
                    lanes::offset_levels(lanes, values, 0.0, found.inverses[index], 16.5, 31.0);
                pack_five_bits(&levels, &mut block[2..]);
            }
        }
    }

    #[inline(always)]
    fn encode_many_weighted<L: Lanes>(
        lanes: L,
        values: &[[f32; 32]],
        weights: &[[f32; 32]],
        row_sigma2: f32,
        out: &mut [[u8; 22]],
    ) {
        for ((values, weights), out) in values
            .chunks(2 * L::WIDTH)
            .zip(weights.chunks(2 * L::WIDTH))
            .zip(out.chunks_mut(2 * L::WIDTH))
        {
            let (scales, inverses) = symmetric_many(lanes, values, weights, row_sigma2, 16);
            for (index, (values, block)) in values.iter().zip(out).enumerate() {
                write_f16(block, SCALE, scales[index]);
                let levels = symmetric_levels(lanes, values, inverses[index], 16);
                pack_five_bits(&levels, &mut block[2..]);
            }
        }
    }
}

impl Decode<32, 24> for Q5_1 {
    const TYPE: GgmlType = GgmlType::Q5_1;

    #[inline(always)]
    fn decode(block: &[u8; 24], out: &mut [f32; 32]) {
        let (scale, min) = (read_f16(block, SCALE), read_f16(block, MIN));
        for (out, level) in out.iter_mut().zip(five_bits(&block[4..])) {
            *out = f32::from(level) * scale + min;
        }
    }

    #[inline(always)]
    fn decode_many<L: Lanes>(lanes: L, blocks: &[[u8; 24]], out: &mut [[f32; 32]]) {
        for (block, out) in blocks.iter().zip(out) {
            let (scale, min) = (read_f16(block, SCALE), read_f16(block, MIN));
            decode_with_min(lanes, &five_bits(&block[4..]), scale, min, out);
        }
    }
}

impl Encode<32, 24> for Q5_1 {
    fn encode(values: &[f32; 32], block: &mut [u8; 24]) {
        let (min, max) = bounds(values);
        let scale = (max - min) / 31.0;
        let inverse = inverse_or_zero(scale);
        write_f16(block, SCALE, scale);
        write_f16(block, MIN, min);
        let levels = values.map(|value| truncate((value - min) * inverse + 0.5) as u8);
        pack_five_bits(&levels, &mut block[4..]);
    }

    fn encode_weighted(
        values: &[f32; 32],
        weights: &[f32; 32],
        row_sigma2: f32,
        block: &mut [u8; 24],
    ) {
        let mut levels = [0; 32];
        let Affine { scale, min } = affine(
            values,
            31,
            &importance(values, weights, row_sigma2),
            WEIGHTED_STEPS,
            &mut levels,
        );
        write_f16(block, SCALE, scale);
        write_f16(block, MIN, -min);
        pack_five_bits(&levels, &mut block[4..]);
    }

    fn row_sigma2(row: &[f32]) -> f32 {
        mean_square(row)
    }

    #[inline(always)]
    fn encode_many<L: Lanes>(lanes: L, values: &[[f32; 32]], out: &mut [[u8; 24]]) {
        for (values, out) in values.chunks(L::WIDTH).zip(out.chunks_mut(L::WIDTH)) {
            let Some(found) = lanes::min_max_scales(lanes, values, 31.0) else {
                values.iter().zip(out).for_each(|(values, block)| Self::encode(values, block));
                continue;
            };
            for (index, (values, block)) in values.iter().zip(out).enumerate() {
                write_f16(block, SCALE, found.scales[index]);
                write_f16(block, MIN, found.mins[index]);
                let levels = lanes::offset_levels(
                    lanes,
                    values,
                    found.mins[index],
                    found.inverses[index],
                    0.5,
                    31.0,
                );
                pack_five_bits(&levels, &mut block[4..]);
            }
        }
    }

    #[inline(always)]
    fn encode_many_weighted<L: Lanes>(
        lanes: L,
        values: &[[f32; 32]],
        weights: &[[f32; 32]],
        row_sigma2: f32,
        out: &mut [[u8; 24]],
    ) {
        for ((values, weights), out) in values
            .chunks(2 * L::WIDTH)
            .zip(weights.chunks(2 * L::WIDTH))
            .zip(out.chunks_mut(2 * L::WIDTH))
        {
            let Some(found) = affine_many(lanes, values, weights, row_sigma2, 31) else {
                for ((values, weights), block) in values.iter().zip(weights).zip(out) {
                    Self::encode_weighted(values, weights, row_sigma2, block);
                }
                continue;
            };
            for (index, (values, block)) in values.iter().zip(out).enumerate() {
                write_f16(block, SCALE, found.scales[index]);
                write_f16(block, MIN, -found.mins[index]);
                let levels =
                    affine_levels(lanes, values, found.inverses[index], found.offsets[index], 31);
                pack_five_bits(&levels, &mut block[4..]);
            }
        }
    }
}

impl Decode<32, 34> for Q8_0 {
    const TYPE: GgmlType = GgmlType::Q8_0;

    #[inline(always)]
    fn decode(block: &[u8; 34], out: &mut [f32; 32]) {
        let scale = read_f16(block, SCALE);
        for (out, level) in out.iter_mut().zip(&block[2..]) {
            *out = f32::from(level.cast_signed()) * scale;
        }
    }

    #[inline(always)]
    fn decode_many<L: Lanes>(lanes: L, blocks: &[[u8; 34]], out: &mut [[f32; 32]]) {
        for (block, out) in blocks.iter().zip(out) {
            lanes::decode_signed(lanes, &block[2..], read_f16(block, SCALE), out);
        }
    }
}

impl Encode<32, 34> for Q8_0 {
    fn encode(values: &[f32; 32], block: &mut [u8; 34]) {
        let scale = max_abs(values) / 127.0;
        write_f16(block, SCALE, scale);
        encode_eight_bits(values, scale, &mut block[2..]);
    }

    #[inline(always)]
    fn encode_many<L: Lanes>(lanes: L, values: &[[f32; 32]], out: &mut [[u8; 34]]) {
        for (values, out) in values.chunks(L::WIDTH).zip(out.chunks_mut(L::WIDTH)) {
            let Some(found) = lanes::max_abs_scales(lanes, values, 127.0) else {
                values.iter().zip(out).for_each(|(values, block)| Self::encode(values, block));
                continue;
            };
            for (index, (values, block)) in values.iter().zip(out).enumerate() {
                write_f16(block, SCALE, found.scales[index]);
                block[2..].copy_from_slice(&lanes::round_to_bytes(
                    lanes,
                    values,
                    found.inverses[index],
                ));
            }
        }
    }
}

impl Decode<32, 36> for Q8_1 {
    const TYPE: GgmlType = GgmlType::Q8_1;

    #[inline(always)]
    fn decode(block: &[u8; 36], out: &mut [f32; 32]) {
        let scale = read_f16(block, SCALE);
        for (out, level) in out.iter_mut().zip(&block[4..]) {
            *out = f32::from(level.cast_signed()) * scale;
        }
    }

    #[inline(always)]
    fn decode_many<L: Lanes>(lanes: L, blocks: &[[u8; 36]], out: &mut [[f32; 32]]) {
        for (block, out) in blocks.iter().zip(out) {
            lanes::decode_signed(lanes, &block[4..], read_f16(block, SCALE), out);
        }
    }
}

impl Encode<32, 36> for Q8_1 {
    fn encode(values: &[f32; 32], block: &mut [u8; 36]) {
        let scale = max_abs(values) / 127.0;
        write_f16(block, SCALE, scale);
        encode_eight_bits(values, scale, &mut block[4..]);
        write_sum(scale, block);
    }

    #[inline(always)]
    fn encode_many<L: Lanes>(lanes: L, values: &[[f32; 32]], out: &mut [[u8; 36]]) {
        for (values, out) in values.chunks(L::WIDTH).zip(out.chunks_mut(L::WIDTH)) {
            let Some(found) = lanes::max_abs_scales(lanes, values, 127.0) else {
                values.iter().zip(out).for_each(|(values, block)| Self::encode(values, block));
                continue;
            };
            for (index, (values, block)) in values.iter().zip(out).enumerate() {
                write_f16(block, SCALE, found.scales[index]);
                block[4..].copy_from_slice(&lanes::round_to_bytes(
                    lanes,
                    values,
                    found.inverses[index],
                ));
                write_sum(found.scales[index], block);
            }
        }
    }
}

/// Stores the scaled sum of the levels.
#[inline(always)]
fn write_sum(scale: f32, block: &mut [u8; 36]) {
    let sum: i32 = block[4..].iter().map(|level| i32::from(level.cast_signed())).sum();
    write_f16(block, MIN, sum as f32 * scale);
}

/// Returns the scales of at most two vectors of blocks and the inverses that give their levels, 0
/// if all levels are 0.
#[inline(always)]
fn symmetric_many<L: Lanes>(
    lanes: L,
    values: &[[f32; 32]],
    weights: &[[f32; 32]],
    sigma2: f32,
    half: i32,
) -> ([f32; MAX_LANES], [f32; MAX_LANES]) {
    let lanes = Pair(lanes);
    let x = columns(lanes, values, 0);
    let w = lanes::importance(&x, &columns(lanes, weights, 0), lanes.splat(sigma2));
    let (scale, inverse) = lanes::symmetric(lanes, &x, half, &w);
    let (mut scales, mut inverses) = ([0.0; MAX_LANES], [0.0; MAX_LANES]);
    scale.store(&mut scales);
    inverse.store(&mut inverses);
    (scales, inverses)
}

#[inline(always)]
fn symmetric_levels<L: Lanes>(lanes: L, values: &[f32; 32], inverse: f32, half: i32) -> [u8; 32] {
    let mut levels = [0; 32];
    if inverse != 0.0 {
        let (inverse, add) = (lanes.splat(inverse), lanes.splat(half as f32));
        for (values, levels) in values.chunks_exact(L::WIDTH).zip(levels.chunks_exact_mut(L::WIDTH))
        {
            ((inverse * lanes.load(values)).nearest(-half, half - 1) + add).store_bytes(levels);
        }
    }
    levels
}

/// Scales and minima of at most two vectors of blocks, and the inverses and offsets that give their
/// levels.
struct AffineBlocks {
    scales: [f32; MAX_LANES],
    mins: [f32; MAX_LANES],
    inverses: [f32; MAX_LANES],
    offsets: [f32; MAX_LANES],
}

/// Returns `None` if the scalar code must encode the blocks.
#[inline(always)]
fn affine_many<L: Lanes>(
    lanes: L,
    values: &[[f32; 32]],
    weights: &[[f32; 32]],
    sigma2: f32,
    top: i32,
) -> Option<AffineBlocks> {
    let lanes = Pair(lanes);
    let x = columns(lanes, values, 0);
    let w = lanes::importance(&x, &columns(lanes, weights, 0), lanes.splat(sigma2));
    let found = lanes::affine(lanes, &x, &w, top, WEIGHTED_STEPS)?;
    let mut out = AffineBlocks {
        scales: [0.0; MAX_LANES],
        mins: [0.0; MAX_LANES],
        inverses: [0.0; MAX_LANES],
        offsets: [0.0; MAX_LANES],
    };
    found.scale.store(&mut out.scales);
    found.min.store(&mut out.mins);
    found.inverse.store(&mut out.inverses);
    found.offset.store(&mut out.offsets);
    Some(out)
}

#[inline(always)]
fn affine_levels<L: Lanes>(
    lanes: L,
    values: &[f32; 32],
    inverse: f32,
    offset: f32,
    top: i32,
) -> [u8; 32] {
    let mut levels = [0; 32];
    let (inverse, offset) = (lanes.splat(inverse), lanes.splat(offset));
    for (values, levels) in values.chunks_exact(L::WIDTH).zip(levels.chunks_exact_mut(L::WIDTH)) {
        (inverse * (lanes.load(values) - offset)).nearest(0, top).store_bytes(levels);
    }
    levels
}

/// The candidates of the `_1` formats with importance weights.
const WEIGHTED_STEPS: Steps = Steps { first: -0.9, width: 0.05, last: 36, absolute: false };

/// Returns the weight of each value: importance · √(mean square of the row + x²).
fn importance(values: &[f32; 32], weights: &[f32; 32], mean_square: f32) -> [f32; 32] {
    core::array::from_fn(|i| weights[i] * (mean_square + values[i] * values[i]).sqrt())
}

fn mean_square(row: &[f32]) -> f32 {
    sum_of_squares(row) / row.len() as f32
}

/// Truncates a float and keeps the lowest eight bits.
fn to_i8(value: f32) -> i8 {
    truncate(value) as i8
}

fn encode_eight_bits(values: &[f32; 32], scale: f32, out: &mut [u8]) {
    let inverse = inverse_or_zero(scale);
    for (out, value) in out.iter_mut().zip(values) {
        *out = round(value * inverse) as u8;
    }
}

/// Multiplies levels by a scale and adds a minimum.
#[inline(always)]
fn decode_with_min<L: Lanes>(
    lanes: L,
    levels: &[u8; 32],
    scale: f32,
    min: f32,
    out: &mut [f32; 32],
) {
    let (scale, min) = (lanes.splat(scale), lanes.splat(min));
    for (levels, out) in levels.chunks_exact(L::WIDTH).zip(out.chunks_exact_mut(L::WIDTH)) {
        (lanes.load_signed(levels) * scale + min).store(out);
    }
}

/// Returns the low halves of 16 bytes, then the high halves.
#[inline(always)]
fn nibbles(bytes: &[u8]) -> [u8; 32] {
    // Eight bytes at a time in one `u64`.
    const LOW: u64 = 15 * BYTE_ONES;
    let mut nibbles = [0; 32];
    let (low, high) = nibbles.split_at_mut(16);
    let (low, high) = (low.as_chunks_mut::<8>().0, high.as_chunks_mut::<8>().0);
    for (bytes, (low, high)) in bytes.as_chunks::<8>().0.iter().zip(low.iter_mut().zip(high)) {
        let eight = u64::from_le_bytes(*bytes);
        (*low, *high) = ((eight & LOW).to_le_bytes(), (eight >> 4 & LOW).to_le_bytes());
    }
    nibbles
}

#[inline(always)]
fn pack_nibbles(levels: &[u8; 32], out: &mut [u8]) {
    for (i, out) in out.iter_mut().enumerate() {
        *out = levels[i] | (levels[i + 16] << 4);
    }
}

/// Unpacks five-bit levels from four bytes of fifth bits and 16 bytes of nibbles.
#[inline(always)]
fn five_bits(bytes: &[u8]) -> [u8; 32] {
    let mut levels = nibbles(&bytes[4..20]);
    for (levels, &fifth) in levels.as_chunks_mut::<8>().0.iter_mut().zip(bytes) {
        *levels =
            (u64::from_le_bytes(*levels) | BITS_TO_BYTES[usize::from(fifth)] << 4).to_le_bytes();
    }
    levels
}

#[inline(always)]
fn pack_five_bits(levels: &[u8; 32], out: &mut [u8]) {
    let (fifth, low) = out.split_at_mut(4);
    for (byte, levels) in fifth.iter_mut().zip(levels.as_chunks::<8>().0) {
        *byte = gather_bits(u64::from_le_bytes(*levels) >> 4);
    }
    pack_nibbles(&levels.map(|level| level & 15), low);
}
