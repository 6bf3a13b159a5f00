//! The first formats: 32 weights of 4, 5 or 8 bits under one scale (`_0`), or one scale and one minimum (`_1`).

use ggmill_core::GgmlType;

use super::{Decode, Encode};
use crate::float16::{read_f16, write_f16};
use crate::numeric::{bounds, extreme, inverse_or_zero, largest, round, sum_of_squares, truncate};
use crate::search::{Affine, Steps, affine, symmetric};

pub(crate) struct Q4_0;
pub(crate) struct Q4_1;
pub(crate) struct Q5_0;
pub(crate) struct Q5_1;
pub(crate) struct Q8_0;
pub(crate) struct Q8_1;

const SCALE: usize = 0;
/// The minimum of the `_1` formats; of Q8_1 the sum.
const MIN: usize = 2;

impl Decode<32, 18> for Q4_0 {
    const TYPE: GgmlType = GgmlType::Q4_0;

    fn decode(block: &[u8; 18], out: &mut [f32; 32]) {
        let scale = read_f16(block, SCALE);
        let nibbles = nibbles(&block[2..]);
        for (out, level) in out.iter_mut().zip(nibbles) {
            *out = (i32::from(level) - 8) as f32 * scale;
        }
    }
}

impl Encode<32, 18> for Q4_0 {
    fn encode(values: &[f32; 32], block: &mut [u8; 18]) {
        let scale = extreme(values) / -8.0;
        let inverse = inverse_or_zero(scale);
        write_f16(block, SCALE, scale);
        let levels = values.map(|value| byte(value * inverse + 8.5).min(15) as u8);
        pack_nibbles(&levels, &mut block[2..]);
    }

    fn encode_weighted(values: &[f32; 32], weights: &[f32; 32], row_spread: f32, block: &mut [u8; 18]) {
        let mut levels = [0; 32];
        let scale = symmetric(values, 8, Some(&importance(values, weights, row_spread)), &mut levels);
        write_f16(block, SCALE, scale);
        pack_nibbles(&levels, &mut block[2..]);
    }

    fn row_spread(row: &[f32]) -> f32 {
        mean_square(row)
    }
}

impl Decode<32, 20> for Q4_1 {
    const TYPE: GgmlType = GgmlType::Q4_1;

    fn decode(block: &[u8; 20], out: &mut [f32; 32]) {
        let (scale, min) = (read_f16(block, SCALE), read_f16(block, MIN));
        for (out, level) in out.iter_mut().zip(nibbles(&block[4..])) {
            *out = f32::from(level) * scale + min;
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
        let levels = values.map(|value| byte((value - min) * inverse + 0.5).min(15) as u8);
        pack_nibbles(&levels, &mut block[4..]);
    }

    fn encode_weighted(values: &[f32; 32], weights: &[f32; 32], row_spread: f32, block: &mut [u8; 20]) {
        let mut levels = [0; 32];
        let Affine { scale, min } = affine(values, 15, &importance(values, weights, row_spread), WEIGHTED, &mut levels);
        write_f16(block, SCALE, scale);
        write_f16(block, MIN, -min);
        pack_nibbles(&levels, &mut block[4..]);
    }

    fn row_spread(row: &[f32]) -> f32 {
        mean_square(row)
    }
}

impl Decode<32, 22> for Q5_0 {
    const TYPE: GgmlType = GgmlType::Q5_0;

    fn decode(block: &[u8; 22], out: &mut [f32; 32]) {
        let scale = read_f16(block, SCALE);
        for (out, level) in out.iter_mut().zip(five_bits(&block[2..])) {
            *out = (i32::from(level) - 16) as f32 * scale;
        }
    }
}

impl Encode<32, 22> for Q5_0 {
    fn encode(values: &[f32; 32], block: &mut [u8; 22]) {
        let scale = extreme(values) / -16.0;
        let inverse = inverse_or_zero(scale);
        write_f16(block, SCALE, scale);
        let levels = values.map(|value| byte(value * inverse + 16.5).min(31) as u8);
        pack_five_bits(&levels, &mut block[2..]);
    }

    fn encode_weighted(values: &[f32; 32], weights: &[f32; 32], row_spread: f32, block: &mut [u8; 22]) {
        let mut levels = [0; 32];
        let scale = symmetric(values, 16, Some(&importance(values, weights, row_spread)), &mut levels);
        write_f16(block, SCALE, scale);
        pack_five_bits(&levels, &mut block[2..]);
    }

    fn row_spread(row: &[f32]) -> f32 {
        mean_square(row)
    }
}

impl Decode<32, 24> for Q5_1 {
    const TYPE: GgmlType = GgmlType::Q5_1;

    fn decode(block: &[u8; 24], out: &mut [f32; 32]) {
        let (scale, min) = (read_f16(block, SCALE), read_f16(block, MIN));
        for (out, level) in out.iter_mut().zip(five_bits(&block[4..])) {
            *out = f32::from(level) * scale + min;
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

    fn encode_weighted(values: &[f32; 32], weights: &[f32; 32], row_spread: f32, block: &mut [u8; 24]) {
        let mut levels = [0; 32];
        let Affine { scale, min } = affine(values, 31, &importance(values, weights, row_spread), WEIGHTED, &mut levels);
        write_f16(block, SCALE, scale);
        write_f16(block, MIN, -min);
        pack_five_bits(&levels, &mut block[4..]);
    }

    fn row_spread(row: &[f32]) -> f32 {
        mean_square(row)
    }
}

impl Decode<32, 34> for Q8_0 {
    const TYPE: GgmlType = GgmlType::Q8_0;

    fn decode(block: &[u8; 34], out: &mut [f32; 32]) {
        let scale = read_f16(block, SCALE);
        for (out, level) in out.iter_mut().zip(&block[2..]) {
            *out = f32::from(level.cast_signed()) * scale;
        }
    }
}

impl Encode<32, 34> for Q8_0 {
    fn encode(values: &[f32; 32], block: &mut [u8; 34]) {
        let scale = largest(values) / 127.0;
        write_f16(block, SCALE, scale);
        eight_bits(values, scale, &mut block[2..]);
    }
}

impl Decode<32, 36> for Q8_1 {
    const TYPE: GgmlType = GgmlType::Q8_1;

    fn decode(block: &[u8; 36], out: &mut [f32; 32]) {
        let scale = read_f16(block, SCALE);
        for (out, level) in out.iter_mut().zip(&block[4..]) {
            *out = f32::from(level.cast_signed()) * scale;
        }
    }
}

impl Encode<32, 36> for Q8_1 {
    fn encode(values: &[f32; 32], block: &mut [u8; 36]) {
        let scale = largest(values) / 127.0;
        write_f16(block, SCALE, scale);
        eight_bits(values, scale, &mut block[4..]);
        let sum: i32 = block[4..].iter().map(|level| i32::from(level.cast_signed())).sum();
        write_f16(block, MIN, sum as f32 * scale);
    }
}

/// How the `_1` formats look for scale and minimum when there are importance weights.
const WEIGHTED: Steps = Steps { first: -0.9, width: 0.05, last: 36, absolute: false };

/// What each weight counts: its column's importance, times a magnitude that small weights share with their row.
fn importance(values: &[f32; 32], weights: &[f32; 32], mean_square: f32) -> [f32; 32] {
    core::array::from_fn(|i| weights[i] * (mean_square + values[i] * values[i]).sqrt())
}

fn mean_square(row: &[f32]) -> f32 {
    sum_of_squares(row) / row.len() as f32
}

/// A float as a signed byte: truncated, then all but the lowest eight bits dropped.
fn byte(value: f32) -> i8 {
    truncate(value) as i8
}

fn eight_bits(values: &[f32; 32], scale: f32, out: &mut [u8]) {
    let inverse = inverse_or_zero(scale);
    for (out, value) in out.iter_mut().zip(values) {
        *out = round(value * inverse) as u8;
    }
}

/// The low halves of 16 bytes, then the high ones.
fn nibbles(bytes: &[u8]) -> impl Iterator<Item = u8> {
    bytes.iter().map(|byte| byte & 15).chain(bytes.iter().map(|byte| byte >> 4))
}

fn pack_nibbles(levels: &[u8; 32], out: &mut [u8]) {
    for (i, out) in out.iter_mut().enumerate() {
        *out = levels[i] | (levels[i + 16] << 4);
    }
}

/// Four bytes of fifth bits, then 16 bytes of nibbles.
fn five_bits(bytes: &[u8]) -> impl Iterator<Item = u8> {
    let fifth = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
    nibbles(&bytes[4..]).enumerate().map(move |(i, nibble)| nibble | ((fifth >> i << 4) as u8 & 16))
}

fn pack_five_bits(levels: &[u8; 32], out: &mut [u8]) {
    let (fifth, low) = out.split_at_mut(4);
    let bits = levels.iter().rev().fold(0_u32, |bits, level| bits << 1 | u32::from(level >> 4 & 1));
    fifth.copy_from_slice(&bits.to_le_bytes());
    pack_nibbles(&levels.map(|level| level & 15), low);
}
