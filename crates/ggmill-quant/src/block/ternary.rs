//! TQ1_0 and TQ2_0: weights that are -1, 0 or 1 times the scale of their 256.

use ggmill_core::GgmlType;

use super::{Decode, Encode};
use crate::float16::{read_f16, write_f16};
use crate::lanes::{self, Lanes};
use crate::numeric::{inverse_or_zero, largest, round_long};

/// Five trits to a byte.
pub(crate) struct TQ1_0;
/// Four trits to a byte.
pub(crate) struct TQ2_0;

const TQ1_0_SCALE: usize = 52;
const TQ2_0_SCALE: usize = 64;

/// How TQ1_0 lays its trits out: from byte `start`, `bytes` bytes with `trits` trits in each. Trit
/// `t` of byte `b` belongs to weight `t * bytes + b` of the run.
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
                    // A byte is a fraction of 256: times three to the place, what overflows is the
                    // trit before, what remains starts with this one.
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
        let scale = largest(values);
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
                // As a fraction of 256, rounded up, so that multiplying by three brings the trits
                // out exactly.
                *out = (u16::from(number) * 256).div_ceil(243) as u8;
            }
        }
    }

    #[inline(always)]
    fn encode_many<L: Lanes>(lanes: L, values: &[[f32; 256]], out: &mut [[u8; 54]]) {
        for (values, block) in values.iter().zip(out) {
            let scale = lanes::greatest_magnitude(lanes, values);
            let inverse = inverse_or_zero(scale);
            if !inverse.is_finite() {
                Self::encode(values, block);
                continue;
            }
            write_f16(block, TQ1_0_SCALE, scale);
            // -1, 0 and 1 as bytes, then 0, 1 and 2.
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
        let scale = largest(values);
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
            let scale = lanes::greatest_magnitude(lanes, values);
            let inverse = inverse_or_zero(scale);
            if !inverse.is_finite() {
                Self::encode(values, block);
                continue;
            }
            write_f16(block, TQ2_0_SCALE, scale);
            // -1, 0 and 1 as bytes, then 0, 1 and 2.
            let levels =
                lanes::round_to_bytes(lanes, values, inverse).map(|level| level.wrapping_add(1));
            pack_two_bits(&levels, block);
        }
    }
}

/// As many trits to a byte as there are in its run.
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
        // As a fraction of 256, rounded up: see above.
        for (out, number) in block[start..start + bytes].iter_mut().zip(numbers) {
            *out = (number * 256).div_ceil(243) as u8;
        }
    }
}

/// In each half, byte `b` holds weights `b`, `b + 32`, `b + 64` and `b + 96`, the first lowest.
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

/// 0, 1 or 2.
fn level(value: f32, inverse: f32) -> i32 {
    round_long(value * inverse) + 1
}
