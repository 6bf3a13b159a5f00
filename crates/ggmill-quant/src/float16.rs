//! Conversions of the two 16-bit float types as in the reference: to nearest, ties to even.
//!
//! They compute every case and select one, without branches, so that compilers vectorize loops.

#![allow(
    clippy::inline_always,
    reason = "a loop is vectorized only inside a function compiled for the instruction set"
)]
#![allow(clippy::precedence, reason = "bits are shifted down, then masked, on every line")]

/// The bits of 2⁻¹⁴, the least normal half-precision number, as `f32`.
const LEAST_NORMAL: u32 = 113 << 23;

/// The difference of the exponent biases of `f32` and half precision.
const BIAS_DIFFERENCE: u32 = (127 - 15) << 23;

/// Returns the half-precision number with these bits. NaN becomes quiet.
#[inline(always)]
pub(crate) fn f16_to_f32(bits: u16) -> f32 {
    let (sign, magnitude) = (u32::from(bits & 0x8000) << 16, u32::from(bits & 0x7fff));
    let moved = magnitude << 13;
    // The mantissa of a subnormal half is appended to a leading 1 of weight 2⁻¹⁴, which is then
    // subtracted.
    let subnormal = f32::from_bits(moved + LEAST_NORMAL) - f32::from_bits(LEAST_NORMAL);
    let normal = if magnitude < 0x7c00 { moved + BIAS_DIFFERENCE } else { moved | 0x7f80_0000 };
    let quiet = if magnitude > 0x7c00 { 0x0040_0000 } else { 0 };
    let found = if magnitude < 0x0400 { subnormal.to_bits() } else { normal | quiet };
    f32::from_bits(sign | found)
}

/// Returns the bits of the nearest half-precision number. NaN becomes the default NaN with its
/// sign.
#[inline(always)]
pub(crate) fn f32_to_f16(value: f32) -> u16 {
    let bits = value.to_bits();
    let (sign, magnitude) = (bits >> 16 & 0x8000, bits & 0x7fff_ffff);
    // Adding this makes the dropped bits carry if they are more than half, or half after an odd
    // digit. A carry out of the mantissa increments the exponent, as it should.
    let carry = 0x0fff + (magnitude >> 13 & 1);
    let carried = magnitude.wrapping_sub(BIAS_DIFFERENCE).wrapping_add(carry);
    // The last mantissa bit of 1/2 has the weight 2⁻²⁴, as that of a subnormal half: the addition
    // rounds to it.
    let subnormal = (f32::from_bits(magnitude) + 0.5).to_bits().wrapping_sub(0.5_f32.to_bits());
    let finite = if magnitude < LEAST_NORMAL { subnormal } else { carried >> 13 };
    // 65536 and above become infinity. A smaller value that is closer to 65536 than to 65504 has
    // been carried to infinity above.
    let half = if magnitude < 143 << 23 { finite } else { 0x7c00 };
    let half = if magnitude > 0x7f80_0000 { 0x7e00 } else { half };
    (sign | half) as u16
}

/// Returns the bfloat16 number with these bits.
#[inline(always)]
pub(crate) fn bf16_to_f32(bits: u16) -> f32 {
    f32::from_bits(u32::from(bits) << 16)
}

/// Returns the bits of the nearest bfloat16 number. NaN keeps the upper half of its bits and
/// becomes quiet.
#[inline(always)]
pub(crate) fn f32_to_bf16(value: f32) -> u16 {
    let bits = value.to_bits();
    let is_nan = bits & 0x7fff_ffff > 0x7f80_0000;
    let carried = bits.wrapping_add(0x7fff + (bits >> 16 & 1)) >> 16;
    (if is_nan { bits >> 16 | 0x0040 } else { carried }) as u16
}

/// Reads the half-precision number at a byte offset of a block.
#[inline(always)]
pub(crate) fn read_f16(block: &[u8], offset: usize) -> f32 {
    f16_to_f32(u16::from_le_bytes([block[offset], block[offset + 1]]))
}

/// Stores a scale as half precision at a byte offset of a block, and returns the rounded scale.
///
/// The scale is NaN if sums of huge values overflowed. The sign of such a NaN depends on the CPU,
/// so NaN is stored with the sign that x86 gives it.
#[inline(always)]
pub(crate) fn write_f16(block: &mut [u8], offset: usize, value: f32) -> f32 {
    let bits = if value.is_nan() { 0xfe00 } else { f32_to_f16(value) };
    block[offset..offset + 2].copy_from_slice(&bits.to_le_bytes());
    f16_to_f32(bits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conversions_round_trip() {
        for bits in 0..=u16::MAX {
            let value = f16_to_f32(bits);
            if !value.is_nan() {
                assert_eq!(f32_to_f16(value), bits);
            }
            let value = bf16_to_f32(bits);
            assert_eq!(f32_to_bf16(value), if value.is_nan() { bits | 64 } else { bits });
        }
    }

    #[test]
    fn conversions_equal_those_of_the_half_crate() {
        for bits in 0..=u16::MAX {
            let (ours, theirs) = (f16_to_f32(bits), half::f16::from_bits(bits).to_f32());
            assert_eq!(ours.to_bits(), theirs.to_bits(), "{bits:#06x}");
        }
        // Every 16-bit number, the midpoint to the next, quarter points, and the neighbors of
        // each.
        for upper in 0..=u16::MAX {
            for place in [0_u32, 0x1000, 0x2000, 0x3000, 0x8000] {
                for bits in
                    [-1, 0, 1].map(|by| (u32::from(upper) << 16 | place).wrapping_add_signed(by))
                {
                    let value = f32::from_bits(bits);
                    let half = half::f16::from_f32(value).to_bits();
                    let half = if value.is_nan() { half & 0x8000 | 0x7e00 } else { half };
                    assert_eq!(f32_to_f16(value), half, "{bits:#010x}");
                    let half = half::bf16::from_f32(value).to_bits();
                    assert_eq!(f32_to_bf16(value), half, "{bits:#010x}");
                }
            }
        }
    }

    #[test]
    #[ignore = "minutes without optimization"]
    fn conversions_of_every_float_equal_those_of_the_half_crate() {
        for bits in 0..=u32::MAX {
            let value = f32::from_bits(bits);
            let half = half::f16::from_f32(value).to_bits();
            let half = if value.is_nan() { half & 0x8000 | 0x7e00 } else { half };
            assert_eq!(f32_to_f16(value), half, "{bits:#010x}");
            assert_eq!(f32_to_bf16(value), half::bf16::from_f32(value).to_bits(), "{bits:#010x}");
        }
    }

    #[test]
    fn ties_round_to_even() {
        assert_eq!(f32_to_f16(1.0 + 1.0 / 2048.0), 0x3c00);
        assert_eq!(f32_to_f16(1.0 + 3.0 / 2048.0), 0x3c02);
        assert_eq!(f32_to_f16(65_520.0), 0x7c00, "beyond the largest half is infinity");
        assert_eq!(f32_to_f16(2.0_f32.powi(-25)), 0, "half of the smallest subnormal");
        assert_eq!(f32_to_f16(f32::from_bits(0xff80_0001)), 0xfe00);
        assert_eq!(f32_to_bf16(1.0 + 1.0 / 256.0), 0x3f80);
        assert_eq!(f32_to_bf16(1.0 + 3.0 / 256.0), 0x3f82);
        assert_eq!(f32_to_bf16(f32::MAX), 0x7f80);
    }
}
