//! Formats of one or two bits per weight under one half-precision scale: TQ1_0 and TQ2_0 (ternary,
//! 256 weights), Q1_0 and Q2_0.

use ggmill_core::GgmlType;

use super::{Decode, Encode};
use crate::float16::{read_f16, write_f16};
use crate::lanes::{self, Lanes};
use crate::numeric::{inverse_or_zero, max_abs, round, round_long};

/// 256 weights of -1, 0 or 1 times the scale, five trits per byte.
pub(crate) struct TQ1_0;
/// 256 weights of -1, 0 or 1 times the scale, two bits each.
pub(crate) struct TQ2_0;
/// 128 weights that are the scale or its negative.
pub(crate) struct Q1_0;
/// 64 weights of -1, 0, 1 or 2 times the scale.
pub(crate) struct Q2_0;

const TQ1_0_SCALE: usize = 52;
const TQ2_0_SCALE: usize = 64;

/// A run of TQ1_0: from byte `start`, `bytes` bytes of `trits` trits each. Trit `t` of byte `b`
/// belongs to weight `t * bytes + b` of the run.
struct Run {
    start: usize,
    bytes: usize,
    trits: usize,
}

const RUNS: [Run; 3] = [
    Run { start: 0, bytes: 32, trits: 5 },
    Run { start: 32, bytes: 16, trits: 5 },
    Run { start: 48, bytes: 4, trits: 4 },
];

impl Decode<256, 54> for TQ1_0 {
    const TYPE: GgmlType = GgmlType::TQ1_0;

    #[inline(always)]
    fn decode(block: &[u8; 54], out: &mut [f32; 256]) {
        let scale = read_f16(block, TQ1_0_SCALE);
        let mut rest = out.as_mut_slice();
        for Run { start, bytes, trits } in RUNS {
            let (run, after) = rest.split_at_mut(bytes * trits);
            rest = after;
            let mut power: u8 = 1;
            for out in run.chunks_exact_mut(bytes) {
                for (out, &byte) in out.iter_mut().zip(&block[start..]) {
                    // A byte is a fraction of 256. Times a power of three, the overflow has the
                    // preceding trits, and the remaining fraction starts with this one.
                    let trit = u16::from(byte.wrapping_mul(power)) * 3 >> 8;
                    *out = (i32::from(trit) - 1) as f32 * scale;
                }
                power = power.wrapping_mul(3);
            }
        }
    }

    #[inline(always)]
    fn decode_many<L: Lanes>(lanes: L, blocks: &[[u8; 54]], out: &mut [[f32; 256]]) {
        for (block, out) in blocks.iter().zip(out) {
            let mut levels = [0; 256];
            let mut rest = levels.as_mut_slice();
            for Run { start, bytes, trits } in RUNS {
                let (run, after) = rest.split_at_mut(bytes * trits);
                rest = after;
                let mut fractions = [0_u16; 32];
                for (fraction, &byte) in fractions[..bytes].iter_mut().zip(&block[start..]) {
                    *fraction = u16::from(byte);
                }
                for levels in run.chunks_exact_mut(bytes) {
                    for (level, fraction) in levels.iter_mut().zip(&mut fractions) {
                        let tripled = *fraction * 3;
                        *level = ((tripled >> 8) as u8).wrapping_sub(1);
                        *fraction = tripled & 0xff;
                    }
                }
            }
            lanes::decode_signed(lanes, &levels, read_f16(block, TQ1_0_SCALE), out);
        }
    }
}

impl Encode<256, 54> for TQ1_0 {
    fn encode(values: &[f32; 256], block: &mut [u8; 54]) {
        let scale = max_abs(values);
        let inverse = inverse_or_zero(scale);
        write_f16(block, TQ1_0_SCALE, scale);
        let mut rest = values.as_slice();
        for Run { start, bytes, trits } in RUNS {
            let (run, after) = rest.split_at(bytes * trits);
            rest = after;
            for (place, out) in block[start..start + bytes].iter_mut().enumerate() {
                let mut number: u8 = 0;
                for value in run.chunks_exact(bytes) {
                    number =
                        number.wrapping_mul(3).wrapping_add(level(value[place], inverse) as u8);
                }
                for _ in trits..5 {
                    number = number.wrapping_mul(3);
                }
                // Stored as a fraction of 256, rounded up, so that multiplying by three gives the
                // trits exactly.
                *out = (u16::from(number) * 256).div_ceil(243) as u8;
            }
        }
    }

    #[inline(always)]
    fn encode_many<L: Lanes>(lanes: L, values: &[[f32; 256]], out: &mut [[u8; 54]]) {
        for (values, block) in values.iter().zip(out) {
            let scale = lanes::max_abs(lanes, values);
            let inverse = inverse_or_zero(scale);
            if !inverse.is_finite() {
                Self::encode(values, block);
                continue;
            }
            write_f16(block, TQ1_0_SCALE, scale);
            // Maps -1, 0 and 1 to 0, 1 and 2.
            let levels =
                lanes::round_to_bytes(lanes, values, inverse).map(|level| level.wrapping_add(1));
            pack_five_trits(&levels, block);
        }
    }
}

impl Decode<256, 66> for TQ2_0 {
    const TYPE: GgmlType = GgmlType::TQ2_0;

    #[inline(always)]
    fn decode(block: &[u8; 66], out: &mut [f32; 256]) {
        let scale = read_f16(block, TQ2_0_SCALE);
        for (bytes, out) in block[..64].chunks_exact(32).zip(out.chunks_exact_mut(128)) {
            for (place, out) in out.chunks_exact_mut(32).enumerate() {
                for (out, byte) in out.iter_mut().zip(bytes) {
                    *out = (i32::from(byte >> (2 * place) & 3) - 1) as f32 * scale;
                }
            }
        }
    }

    #[inline(always)]
    fn decode_many<L: Lanes>(lanes: L, blocks: &[[u8; 66]], out: &mut [[f32; 256]]) {
        for (block, out) in blocks.iter().zip(out) {
            let scale = read_f16(block, TQ2_0_SCALE);
            for (bytes, out) in
                block[..64].as_chunks::<32>().0.iter().zip(out.chunks_exact_mut(128))
            {
                let levels = [
                    bytes.map(|byte| (byte & 3).wrapping_sub(1)),
                    bytes.map(|byte| (byte >> 2 & 3).wrapping_sub(1)),
                    bytes.map(|byte| (byte >> 4 & 3).wrapping_sub(1)),
                    bytes.map(|byte| (byte >> 6).wrapping_sub(1)),
                ];
                lanes::decode_signed(lanes, levels.as_flattened(), scale, out);
            }
        }
    }
}

impl Encode<256, 66> for TQ2_0 {
    fn encode(values: &[f32; 256], block: &mut [u8; 66]) {
        let scale = max_abs(values);
        let inverse = inverse_or_zero(scale);
        write_f16(block, TQ2_0_SCALE, scale);
        for (bytes, values) in block[..64].chunks_exact_mut(32).zip(values.chunks_exact(128)) {
            for (column, out) in bytes.iter_mut().enumerate() {
                *out = (0..4).fold(0, |bits, place| {
                    bits | (level(values[column + 32 * place], inverse) as u8 & 3) << (2 * place)
                });
            }
        }
    }

    #[inline(always)]
    fn encode_many<L: Lanes>(lanes: L, values: &[[f32; 256]], out: &mut [[u8; 66]]) {
        for (values, block) in values.iter().zip(out) {
            let scale = lanes::max_abs(lanes, values);
            let inverse = inverse_or_zero(scale);
            if !inverse.is_finite() {
                Self::encode(values, block);
                continue;
            }
            write_f16(block, TQ2_0_SCALE, scale);
            // Maps -1, 0 and 1 to 0, 1 and 2.
            let levels =
                lanes::round_to_bytes(lanes, values, inverse).map(|level| level.wrapping_add(1));
            pack_two_bits(&levels, block);
        }
    }
}

/// Packs the trits of each [`Run`].
#[inline(always)]
fn pack_five_trits(levels: &[u8; 256], block: &mut [u8; 54]) {
    let mut rest = levels.as_slice();
    for Run { start, bytes, trits } in RUNS {
        let (run, after) = rest.split_at(bytes * trits);
        rest = after;
        let mut numbers = [0_u16; 32];
        for place in 0..5 {
            for (column, number) in numbers[..bytes].iter_mut().enumerate() {
                *number = *number * 3
                    + if place < trits { u16::from(run[place * bytes + column]) } else { 0 };
            }
        }
        // A fraction of 256, rounded up, as in `encode`.
        for (out, number) in block[start..start + bytes].iter_mut().zip(numbers) {
            *out = (number * 256).div_ceil(243) as u8;
        }
    }
}

/// Packs two-bit levels: in each half, byte `b` holds weights `b`, `b + 32`, `b + 64` and `b + 96`,
/// the first in the lowest bits.
#[inline(always)]
fn pack_two_bits(levels: &[u8; 256], block: &mut [u8; 66]) {
    for (bytes, levels) in block[..64].chunks_exact_mut(32).zip(levels.chunks_exact(128)) {
        for (column, out) in bytes.iter_mut().enumerate() {
            *out = levels[column]
                | levels[column + 32] << 2
                | levels[column + 64] << 4
                | levels[column + 96] << 6;
        }
    }
}

/// Returns the level of a value: 0, 1 or 2.
fn level(value: f32, inverse: f32) -> i32 {
    round_long(value * inverse) + 1
}

impl Decode<128, 18> for Q1_0 {
    const TYPE: GgmlType = GgmlType::Q1_0;

    #[inline(always)]
    fn decode(block: &[u8; 18], out: &mut [f32; 128]) {
        let scale = read_f16(block, 0);
        for (out, byte) in out.chunks_exact_mut(8).zip(&block[2..]) {
            for (place, out) in out.iter_mut().enumerate() {
                *out = if byte >> place & 1 == 1 { scale } else { -scale };
            }
        }
    }
}

impl Encode<128, 18> for Q1_0 {
    fn encode(values: &[f32; 128], block: &mut [u8; 18]) {
        let sum = values.iter().fold(0.0, |sum, value| sum + value.abs());
        write_f16(block, 0, sum / 128.0);
        for (values, byte) in values.chunks_exact(8).zip(&mut block[2..]) {
            *byte = values.iter().rev().fold(0, |bits, &value| bits << 1 | u8::from(value >= 0.0));
        }
    }
}

impl Decode<64, 18> for Q2_0 {
    const TYPE: GgmlType = GgmlType::Q2_0;

    #[inline(always)]
    fn decode(block: &[u8; 18], out: &mut [f32; 64]) {
        let scale = read_f16(block, 0);
        for (out, byte) in out.chunks_exact_mut(4).zip(&block[2..]) {
            for (place, out) in out.iter_mut().enumerate() {
                *out = (i32::from(byte >> (2 * place) & 3) - 1) as f32 * scale;
            }
        }
    }
}

impl Encode<64, 18> for Q2_0 {
    fn encode(values: &[f32; 64], block: &mut [u8; 18]) {
        let scale = max_abs(values);
        let inverse = inverse_or_zero(scale);
        write_f16(block, 0, scale);
        for (values, byte) in values.chunks_exact(4).zip(&mut block[2..]) {
            let level = |value: f32| round(value * inverse).wrapping_add(1).clamp(0, 3) as u8;
            *byte = values.iter().rev().fold(0, |bits, &value| bits << 2 | level(value));
        }
    }

    #[inline(always)]
    fn encode_many<L: Lanes>(lanes: L, values: &[[f32; 64]], out: &mut [[u8; 18]]) {
        for (values, block) in values.iter().zip(out) {
            let scale = lanes::max_abs(lanes, values);
            let inverse = inverse_or_zero(scale);
            if !inverse.is_finite() {
                Self::encode(values, block);
                continue;
            }
            write_f16(block, 0, scale);
            let levels = lanes::round_to_bytes(lanes, values, inverse);
            for (levels, byte) in levels.as_chunks::<4>().0.iter().zip(&mut block[2..]) {
                let [a, b, c, d] = levels.map(|level| level.wrapping_add(1));
                *byte = a | b << 2 | c << 4 | d << 6;
            }
        }
    }
}
