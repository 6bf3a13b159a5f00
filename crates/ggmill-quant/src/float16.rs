//! The two 16-bit floats, converted as the reference converts them: to nearest, ties to even.
//!
//! Every case is computed and one is chosen, without a branch, so that compilers make vectors of a
//! loop over numbers.

#![allow(
    clippy::inline_always,
    reason = "a loop becomes vectors only where it is compiled for the instructions at hand"
)]
#![allow(clippy::precedence, reason = "bits are shifted down, then masked, on every line")]

/// The least normal half-precision number, 2⁻¹⁴, as the bits of a float.
const LEAST_NORMAL: u32 = 113 << 23;

/// From the exponents of one format to those of the other: both have 0 in the middle.
const BETWEEN_EXPONENTS: u32 = (127 - 15) << 23;

/// A half-precision number from its bits. A NaN is made quiet.
#[inline(always)]
pub(crate) fn f16_to_f32(bits: u16) -> f32 {
    let (sign, magnitude) = (u32::from(bits & 0x8000) << 16, u32::from(bits & 0x7fff));
    let moved = magnitude << 13;
    // Behind the leading digit of 2⁻¹⁴ are the digits of a subnormal number.
    let subnormal = f32::from_bits(moved + LEAST_NORMAL) - f32::from_bits(LEAST_NORMAL);
    let normal = if magnitude < 0x7c00 { moved + BETWEEN_EXPONENTS } else { moved | 0x7f80_0000 };
    let quiet = if magnitude > 0x7c00 { 0x0040_0000 } else { 0 };
    let found = if magnitude < 0x0400 { subnormal.to_bits() } else { normal | quiet };
    f32::from_bits(sign | found)
}

/// The bits of the nearest half-precision number. Of a NaN only the sign remains.
#[inline(always)]
pub(crate) fn f32_to_f16(value: f32) -> u16 {
    let bits = value.to_bits();
    let (sign, magnitude) = (bits >> 16 & 0x8000, bits & 0x7fff_ffff);
    // What is cut off counts as a carry if it is more than half, or half behind an odd digit. A
    // carry beyond the digits is one in the exponent.
    let carry = 0x0fff + (magnitude >> 13 & 1);
    let carried = magnitude.wrapping_sub(BETWEEN_EXPONENTS).wrapping_add(carry);
    // Beside 1/2 there are digits down to 2⁻²⁴, which are those of a subnormal number.
    let subnormal = (f32::from_bits(magnitude) + 0.5).to_bits().wrapping_sub(0.5_f32.to_bits());
    let finite = if magnitude < LEAST_NORMAL { subnormal } else { carried >> 13 };
    // From 65536 on; below it, what is nearer to it than to 65504 has been carried there.
    let half = if magnitude < 143 << 23 { finite } else { 0x7c00 };
    let half = if magnitude > 0x7f80_0000 { 0x7e00 } else { half };
    (sign | half) as u16
}

/// A bfloat16 number from its bits.
#[inline(always)]
pub(crate) fn bf16_to_f32(bits: u16) -> f32 {
    f32::from_bits(u32::from(bits) << 16)
}

/// The bits of the nearest bfloat16 number. A NaN keeps the upper half of its bits and is made
/// quiet.
#[inline(always)]
pub(crate) fn f32_to_bf16(value: f32) -> u16 {
    let bits = value.to_bits();
    let is_nan = bits & 0x7fff_ffff > 0x7f80_0000;
    let carried = bits.wrapping_add(0x7fff + (bits >> 16 & 1)) >> 16;
    (if is_nan { bits >> 16 | 0x0040 } else { carried }) as u16
}

/// The half-precision number at a byte offset of a block.
#[inline(always)]
pub(crate) fn read_f16(block: &[u8], offset: usize) -> f32 {
    f16_to_f32(u16::from_le_bytes([block[offset], block[offset + 1]]))
}

/// Stores a scale as half precision at a byte offset of a block, and returns what will be read
/// back.
///
/// Where sums of huge values overflowed, the scale is not a number. Which sign that has differs
/// from machine to machine; what is stored has the sign x86 gives.
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
    fn halves_survive_the_way_there_and_back() {
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
    fn conversions_are_those_of_another_library() {
        for bits in 0..=u16::MAX {
            let (ours, theirs) = (f16_to_f32(bits), half::f16::from_bits(bits).to_f32());
            assert_eq!(ours.to_bits(), theirs.to_bits(), "{bits:#06x}");
        }
        // Every number of sixteen bits, what is half way to the next, and the neighbours of both.
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
    fn every_float_is_converted_as_by_another_library() {
        for bits in 0..=u32::MAX {
            let value = f32::from_bits(bits);
            let half = half::f16::from_f32(value).to_bits();
            let half = if value.is_nan() { half & 0x8000 | 0x7e00 } else { half };
            assert_eq!(f32_to_f16(value), half, "{bits:#010x}");
            assert_eq!(f32_to_bf16(value), half::bf16::from_f32(value).to_bits(), "{bits:#010x}");
        }
    }

    #[test]
    fn ties_go_to_the_even_neighbour() {
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
