//! MXFP4 and NVFP4: four-bit floats (E2M1: one sign bit, two exponent bits, one mantissa bit) under
//! an eight-bit float scale.

use ggmill_core::GgmlType;

use super::{Decode, Encode};
use crate::lanes::{self, Floats, Lanes, Mask};
use crate::numeric::{extreme, max_abs};

/// 32 weights under a power of two (E8M0).
pub(crate) struct MXFP4;
/// 64 weights in groups of 16, each under an E4M3 scale.
pub(crate) struct NVFP4;

/// The sixteen E2M1 values, doubled to be integers; scales are halved to match.
const DOUBLED: [i8; 16] = [0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12];

/// The values of [`DOUBLED`] that are not negative, as floats.
const FLOATS: [f32; 8] = {
    let mut floats = [0.0; 8];
    let mut level = 0;
    while level < 8 {
        floats[level] = DOUBLED[level] as f32;
        level += 1;
    }
    floats
};

impl Decode<32, 17> for MXFP4 {
    const TYPE: GgmlType = GgmlType::MXFP4;

    #[inline(always)]
    fn decode(&[exponent, ref nibbles @ ..]: &[u8; 17], out: &mut [f32; 32]) {
        decode_group(nibbles, half_power_of_two(exponent), out);
    }

    #[inline(always)]
    fn decode_many<L: Lanes>(lanes: L, blocks: &[[u8; 17]], out: &mut [[f32; 32]]) {
        for ([exponent, nibbles @ ..], out) in blocks.iter().zip(out) {
            lanes::decode_nibbles(lanes, nibbles, &DOUBLED, half_power_of_two(*exponent), out);
        }
    }
}

impl Encode<32, 17> for MXFP4 {
    const MAX_MAGNITUDE: f32 = f32::INFINITY;

    fn encode(values: &[f32; 32], [exponent, nibbles @ ..]: &mut [u8; 17]) {
        let max_abs = max_abs(values);
        // The greatest E2M1 value is 6, whose exponent is 2. Below 2^-125 the exponent wraps
        // around, as in the reference's conversion to a byte.
        *exponent = if max_abs > 0.0 { (floor_log2(max_abs) - 2 + 127) as u8 } else { 0 };
        encode_group(values, half_power_of_two(*exponent), nibbles);
    }

    #[inline(always)]
    fn encode_many<L: Lanes>(lanes: L, values: &[[f32; 32]], out: &mut [[u8; 17]]) {
        for (values, [exponent, nibbles @ ..]) in values.iter().zip(out) {
            let max_abs = lanes::max_abs(lanes, values);
            *exponent = if max_abs > 0.0 { (floor_log2(max_abs) - 2 + 127) as u8 } else { 0 };
            encode_group_lanes(lanes, values, half_power_of_two(*exponent), nibbles);
        }
    }

    fn first_out_of_range(values: &[[f32; 32]], blocks: &[[u8; 17]]) -> Option<usize> {
        // A wrapped exponent is at least that of 2^-149, the least positive `f32`. An exponent this
        // large that did not wrap belongs to large values.
        const WRAPPED: u8 = (-149 - 2 + 127_i32) as u8;
        values.iter().zip(blocks).enumerate().find_map(|(index, (values, &[exponent, ..]))| {
            let wrapped = exponent >= WRAPPED && max_abs(values) < 1.0;
            wrapped.then(|| {
                index * 32
                    + values
                        .iter()
                        .position(|value| value.to_bits() == extreme(values).to_bits())
                        .unwrap_or(0)
            })
        })
    }
}

impl Decode<64, 36> for NVFP4 {
    const TYPE: GgmlType = GgmlType::NVFP4;

    #[inline(always)]
    fn decode(block: &[u8; 36], out: &mut [f32; 64]) {
        let (scales, nibbles) = block.split_at(4);
        for ((&scale, nibbles), out) in
            scales.iter().zip(nibbles.chunks_exact(8)).zip(out.chunks_exact_mut(16))
        {
            decode_group(nibbles, half_e4m3(scale), out);
        }
    }

    #[inline(always)]
    fn decode_many<L: Lanes>(lanes: L, blocks: &[[u8; 36]], out: &mut [[f32; 64]]) {
        for (block, out) in blocks.iter().zip(out) {
            let (scales, nibbles) = block.split_at(4);
            for ((&scale, nibbles), out) in
                scales.iter().zip(nibbles.chunks_exact(8)).zip(out.as_chunks_mut::<16>().0)
            {
                lanes::decode_nibbles(lanes, nibbles, &DOUBLED, half_e4m3(scale), out);
            }
        }
    }
}

impl Encode<64, 36> for NVFP4 {
    /// The greatest E2M1 value times the greatest E4M3 scale.
    const MAX_MAGNITUDE: f32 = 6.0 * 448.0;

    fn encode(values: &[f32; 64], block: &mut [u8; 36]) {
        let (scales, nibbles) = block.split_at_mut(4);
        for ((scale, nibbles), values) in
            scales.iter_mut().zip(nibbles.chunks_exact_mut(8)).zip(values.chunks_exact(16))
        {
            *scale = e4m3(max_abs(values) / 6.0);
            encode_group(values, half_e4m3(*scale), nibbles);
        }
    }

    #[inline(always)]
    fn encode_many<L: Lanes>(lanes: L, values: &[[f32; 64]], out: &mut [[u8; 36]]) {
        for (values, block) in values.iter().zip(out) {
            let (scales, nibbles) = block.split_at_mut(4);
            for ((scale, nibbles), values) in
                scales.iter_mut().zip(nibbles.chunks_exact_mut(8)).zip(values.as_chunks::<16>().0)
            {
                *scale = e4m3(lanes::max_abs(lanes, values) / 6.0);
                encode_group_lanes(lanes, values, half_e4m3(*scale), nibbles);
            }
        }
    }
}

/// Decodes a group: the first half is in the low nibbles, the second in the high nibbles.
#[inline(always)]
fn decode_group(nibbles: &[u8], scale: f32, out: &mut [f32]) {
    let (low, high) = out.split_at_mut(nibbles.len());
    for ((byte, low), high) in nibbles.iter().zip(low).zip(high) {
        *low = f32::from(DOUBLED[usize::from(byte & 15)]) * scale;
        *high = f32::from(DOUBLED[usize::from(byte >> 4)]) * scale;
    }
}

fn encode_group(values: &[f32], scale: f32, nibbles: &mut [u8]) {
    let (low, high) = values.split_at(nibbles.len());
    for ((byte, &low), &high) in nibbles.iter_mut().zip(low).zip(high) {
        *byte = nearest_level(low, scale) | (nearest_level(high, scale) << 4);
    }
}

/// Does what [`encode_group`] does, with lanes.
#[inline(always)]
fn encode_group_lanes<L: Lanes, const N: usize>(
    lanes: L,
    values: &[f32; N],
    scale: f32,
    nibbles: &mut [u8],
) {
    let mut levels = [0; N];
    let (zero, negative, scale) = (lanes.splat(0.0), lanes.splat(8.0), lanes.splat(scale));
    for (values, levels) in values.chunks_exact(L::WIDTH).zip(levels.chunks_exact_mut(L::WIDTH)) {
        // A level of the other sign is never nearer than 0, and the distance to a level of the same
        // sign equals that of the magnitudes, to the last bit.
        let x = lanes.load(values);
        let magnitude = x.abs();
        let (mut best, mut least) = (zero, magnitude);
        for (level, &float) in FLOATS.iter().enumerate().skip(1) {
            let found = (lanes.splat(float) * scale - magnitude).abs();
            best = lanes.splat(level as f32).select(found.lt(least), best);
            least = found.min(least);
        }
        (best + negative).select(x.lt(zero).and(best.gt(zero)), best).store_bytes(levels);
    }
    let (low, high) = levels.split_at(N / 2);
    for ((byte, low), high) in nibbles.iter_mut().zip(low).zip(high) {
        *byte = low | high << 4;
    }
}

/// Returns the level nearest to a value, the first in the table of equally near ones.
fn nearest_level(value: f32, scale: f32) -> u8 {
    let error = |level: u8| (f32::from(DOUBLED[usize::from(level)]) * scale - value).abs();
    let mut best = 0;
    let mut least = error(0);
    for level in 1..16 {
        let found = error(level);
        if found < least {
            best = level;
            least = found;
        }
    }
    best
}

/// Returns half the value of an E8M0 exponent: 2^(exponent - 128).
#[inline(always)]
fn half_power_of_two(exponent: u8) -> f32 {
    f32::from_bits(if exponent < 2 {
        0x0020_0000 << exponent
    } else {
        u32::from(exponent - 1) << 23
    })
}

/// Returns `floor(log2f(x))` for a finite positive `x`.
///
/// `log2f` rounds its result, so just below a power of two it is the next integer. The width of
/// that interval, in steps of 2^-24 of the power of two, depends on the spacing of `f32` near the
/// logarithm: about ln 2 times the greatest power of two in it.
fn floor_log2(x: f32) -> i32 {
    const STEPS: [u64; 8] = [0, 1, 2, 5, 11, 22, 44, 88];
    let bits = f64::from(x).to_bits();
    let floor = (bits >> 52) as i32 - 1023;
    let next = floor + 1;
    // The magnitude of logarithms just below `next`.
    let magnitude = if next > 0 { next - 1 } else { -next };
    let steps = magnitude.checked_ilog2().map_or(0, |class| STEPS[class as usize]);
    let short_by = (1 << 52) - (bits & ((1 << 52) - 1));
    if short_by <= steps << 29 { next } else { floor }
}

/// Returns half the value of an unsigned E4M3 float. NaN (0x7f) gives 0. The highest bit is
/// ignored.
#[inline(always)]
fn half_e4m3(bits: u8) -> f32 {
    if bits == 0x7f {
        return 0.0;
    }
    let mantissa = u32::from(bits & 7);
    match u32::from(bits >> 3 & 15) {
        0 => mantissa as f32 * (1.0 / 1024.0),
        exponent => f32::from_bits((exponent + 119) << 23 | mantissa << 20),
    }
}

/// Returns the unsigned E4M3 float nearest to a value, with ties rounded up. A value of the highest
/// exponent, from 256 on, becomes the greatest float, 448, as in the reference.
fn e4m3(value: f32) -> u8 {
    if value <= 0.0 {
        return 0;
    }
    let bits = value.min(448.0).to_bits();
    let exponent = (bits >> 23).cast_signed() - 127 + 7;
    if exponent <= 0 {
        return ((value * 512.0 + 0.5) as u8).min(7);
    }
    // A carry from the mantissa increments the exponent, as it should.
    let rounded = exponent.cast_unsigned() * 8 + (bits >> 20 & 7) + (bits >> 19 & 1);
    if rounded < 15 * 8 { rounded as u8 } else { 0x7e }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logarithms_just_below_a_power_of_two_round_up() {
        for (bits, expected) in [
            (0x3f80_0000, 0),    // 1
            (0x3f7f_ffff, -1),   // just below 1
            (0x40ff_ffff, 3),    // one step below 8
            (0x40ff_fffe, 2),    // two
            (0x7f7f_ffff, 128),  // the greatest
            (0x7f7f_ffd4, 128),  // 44 steps below 2^128
            (0x7f7f_ffd3, 127),  // 45
            (0x0000_0001, -149), // the least
            (0x003f_fff5, -127), // 11 subnormal steps below 2^-127
            (0x003f_fff4, -128),
            (0x0000_0fff, -138),
        ] {
            assert_eq!(floor_log2(f32::from_bits(bits)), expected, "{bits:#x}");
        }
    }

    #[test]
    fn e4m3_scales_below_the_highest_exponent_round_trip() {
        for bits in 0..15 * 8 {
            assert_eq!(e4m3(half_e4m3(bits) * 2.0), bits);
        }
        assert_eq!(e4m3(256.0), 0x7e);
        assert_eq!(e4m3(1e9), 0x7e);
        assert_eq!(e4m3(-1.0), 0);
    }
}
