//! Magnitudes and signs of a group, for the types that keep them apart.

use crate::block::SPREAD;

/// A group of weights to be rounded: magnitudes for the grid, a byte of signs for every eight.
pub(super) struct Group<const N: usize> {
    /// The magnitudes for the grid to approximate. With [`even_signs`](Group::even_signs), one in eight may
    /// be negative.
    pub(super) magnitudes: [f32; N],
    /// Bit `i` of byte `b` says that weight `8·b + i` is negative. Bytes beyond the group are 0.
    pub(super) signs: [u8; 4],
}

impl<const N: usize> Group<N> {
    /// Every sign as it is.
    #[inline(always)]
    pub(super) fn any_signs(values: &[f32; N]) -> Self {
        let mut group = Self { magnitudes: *values, signs: [0; 4] };
        for (index, magnitude) in group.magnitudes.iter_mut().enumerate() {
            // Not `abs`: a negative zero stays one, and is not a sign. No branch: signs are not to
            // be foretold.
            let negative = *magnitude < 0.0;
            *magnitude = if negative { -*magnitude } else { *magnitude };
            group.signs[index / 8] |= u8::from(negative) << (index % 8);
        }
        group
    }

    /// An even number of negative signs in every eight, so that seven of them say the eighth: where
    /// it would be odd, the weight whose error costs least has its sign flipped.
    #[inline(always)]
    pub(super) fn even_signs(values: &[f32; N], weights: &[f32; N]) -> Self {
        let mut group = Self::any_signs(values);
        for (byte, signs) in group.signs[..N / 8].iter_mut().enumerate() {
            if !signs.count_ones().is_multiple_of(2) {
                let cost = |index: usize| weights[index] * values[index] * values[index];
                let first = 8 * byte;
                let mut least = (first, cost(first));
                for index in first + 1..first + 8 {
                    let cost = cost(index);
                    if cost < least.1 {
                        least = (index, cost);
                    }
                }
                group.magnitudes[least.0] = -group.magnitudes[least.0];
                *signs ^= 1 << (least.0 - first);
            }
        }
        group
    }

    /// The greatest magnitude.
    #[inline(always)]
    pub(super) fn max(&self) -> f32 {
        // Eight at a time: the greatest is the greatest in any order.
        let (eights, _) = self.magnitudes.as_chunks::<8>();
        let mut most = eights[0];
        for eight in eights {
            for (most, &value) in most.iter_mut().zip(eight) {
                *most = if *most > value { *most } else { value };
            }
        }
        most.iter().fold(most[0], |max, &value| if max > value { max } else { value })
    }
}

/// The eight signs of an even number of negative ones, from the first seven.
pub(super) const fn eighth_sign(seven: u8) -> u8 {
    seven | (seven.count_ones() as u8 & 1) << 7
}

/// As [`eighth_sign`], of four times seven signs, the first lowest.
#[inline(always)]
pub(super) fn eighth_signs(sevens: u32) -> u32 {
    let spread = sevens & 0x7f
        | (sevens & 0x3f80) << 1
        | (sevens & 0x001f_c000) << 2
        | (sevens & 0x0fe0_0000) << 3;
    let parity = spread ^ spread >> 4;
    let parity = parity ^ parity >> 2;
    let parity = parity ^ parity >> 1;
    spread | (parity & 0x0101_0101) << 7
}

/// Eight values, or four, under a scale, with their signs.
pub(super) fn signed<const D: usize>(scale: f32, magnitudes: &[u8; D], signs: u8, out: &mut [f32]) {
    for (place, (out, &magnitude)) in out.iter_mut().zip(magnitudes).enumerate() {
        let value = scale * f32::from(magnitude);
        *out = if signs >> place & 1 == 0 { value } else { -value };
    }
}

/// Eight magnitudes with their signs, as bytes. None is 0 or above 127.
#[inline(always)]
pub(super) fn signed_bytes(magnitudes: [u8; 8], signs: u8) -> [u8; 8] {
    let ones = SPREAD[usize::from(signs)];
    // The complement of each negative one, and 1: that carries into no other byte, since no
    // magnitude is 0.
    ((u64::from_le_bytes(magnitudes) ^ ones * 0xff) + ones).to_le_bytes()
}
