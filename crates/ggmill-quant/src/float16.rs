//! The two 16-bit floats, converted as the reference converts them: to nearest, ties to even.

use half::{bf16, f16};

/// A half-precision number from its bits.
pub(crate) fn f16_to_f32(bits: u16) -> f32 {
    f16::from_bits(bits).to_f32()
}

/// The bits of the nearest half-precision number. Of a NaN only the sign remains.
pub(crate) fn f32_to_f16(value: f32) -> u16 {
    if value.is_nan() {
        let sign = if value.is_sign_negative() { 0x8000 } else { 0 };
        return sign | 0x7e00;
    }
    f16::from_f32(value).to_bits()
}

/// A bfloat16 number from its bits.
pub(crate) fn bf16_to_f32(bits: u16) -> f32 {
    f32::from_bits(u32::from(bits) << 16)
}

/// The bits of the nearest bfloat16 number. A NaN keeps the upper half of its bits and is made
/// quiet.
pub(crate) fn f32_to_bf16(value: f32) -> u16 {
    bf16::from_f32(value).to_bits()
}

/// The half-precision number at a byte offset of a block.
pub(crate) fn read_f16(block: &[u8], offset: usize) -> f32 {
    f16_to_f32(u16::from_le_bytes([block[offset], block[offset + 1]]))
}

/// Stores a scale as half precision at a byte offset of a block, and returns what will be read
/// back.
///
/// Where sums of huge values overflowed, the scale is not a number. Which sign that has differs
/// from machine to machine; what is stored has the sign x86 gives.
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
