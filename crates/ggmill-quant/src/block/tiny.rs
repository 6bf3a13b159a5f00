//! Q1_0 and Q2_0: one or two bits a weight under one half-precision scale.

use ggmill_core::GgmlType;

use super::{Decode, Encode};
use crate::float16::{read_f16, write_f16};
use crate::lanes::{self, Lanes};
use crate::numeric::{inverse_or_zero, largest, round};

/// 128 signs.
pub(crate) struct Q1_0;
/// 64 weights of -1, 0, 1 or 2 times the scale.
pub(crate) struct Q2_0;

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
        let scale = largest(values);
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
            let scale = lanes::greatest_magnitude(lanes, values);
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
