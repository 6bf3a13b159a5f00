//! Rounding and conversion as the reference does them on x86-64, including out-of-range values.

/// Truncates towards zero. An out-of-range value or NaN gives `i32::MIN`, the result on x86, which
/// the reference uses.
pub(crate) fn truncate(value: f32) -> i32 {
    const RANGE: core::ops::Range<f32> = -2_147_483_648.0..2_147_483_648.0;
    if RANGE.contains(&value) { value as i32 } else { i32::MIN }
}

/// Rounds half away from zero, then [`truncate`]s.
pub(crate) fn round(value: f32) -> i32 {
    truncate(value.round())
}

/// Rounds half away from zero to 64 bits and keeps the lower 32. A value outside 64 bits gives 0.
pub(crate) fn round_long(value: f32) -> i32 {
    const RANGE: core::ops::Range<f32> = -9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0;
    let rounded = value.round();
    if RANGE.contains(&rounded) { rounded as i64 as i32 } else { 0 }
}

/// Rounds half to even: adding 1.5 · 2²³ leaves the integer in the low bits of the mantissa.
///
/// Beyond ±2²² the result is whatever those bits are, as in the reference (`nearest_int`).
pub(crate) fn nearest_int(value: f32) -> i32 {
    let bits = (value + 12_582_912.0).to_bits();
    (bits & 0x007f_ffff).cast_signed() - 0x0040_0000
}

/// Returns the greatest absolute value.
pub(crate) fn max_abs(values: &[f32]) -> f32 {
    values
        .iter()
        .fold(0.0, |max_abs, value| if max_abs > value.abs() { max_abs } else { value.abs() })
}

/// Returns the first value of the greatest magnitude, with its sign, or 0 if all are 0.
pub(crate) fn extreme(values: &[f32]) -> f32 {
    values
        .iter()
        .fold(0.0_f32, |extreme, &value| if value.abs() > extreme.abs() { value } else { extreme })
}

/// Returns the least and the greatest value of a slice, which must not be empty.
pub(crate) fn bounds(values: &[f32]) -> (f32, f32) {
    values.iter().fold((values[0], values[0]), |(min, max), &value| {
        (if value < min { value } else { min }, if value > max { value } else { max })
    })
}

/// Returns the sum of the squares, added in order.
pub(crate) fn sum_of_squares(values: &[f32]) -> f32 {
    values.iter().fold(0.0, |sum, value| sum + value * value)
}

/// Returns `1 / scale`, or 0 if `scale` is 0. For a subnormal scale this may be infinite, as in the
/// reference.
pub(crate) fn inverse_or_zero(scale: f32) -> f32 {
    if scale == 0.0 { 0.0 } else { 1.0 / scale }
}

/// Returns `a * b + c`, rounded once, without requiring an FMA instruction.
pub(crate) fn fused(a: f32, b: f32, c: f32) -> f32 {
    if cfg!(target_arch = "s390x") {
        // Every s390x CPU has the instruction. The code below also fails in QEMU 7.2, whose MDEBR
        // reads its first factor as 64 bits.
        return a.mul_add(b, c);
    }
    // The product is exact in 64 bits. The sum is rounded to odd: if it is inexact, its last bit is
    // set to 1. With more than two extra bits, rounding the result again then equals rounding once.
    let (product, addend) = (f64::from(a) * f64::from(b), f64::from(c));
    let sum = product + addend;
    let part = sum - product;
    let error = (product - (sum - part)) + (addend - part);
    let bits = sum.to_bits();
    let outwards = (error > 0.0) == (sum > 0.0);
    let odd = if outwards { bits.wrapping_add(1) } else { bits.wrapping_sub(1) };
    // False if `error` is NaN, which it is for infinities and NaN.
    let is_inexact = error.abs() > 0.0;
    f64::from_bits(if is_inexact && bits & 1 == 0 { odd } else { bits }) as f32
}

/// Returns 2 to the power of an integer from -126 to 127.
pub(crate) fn power_of_two(exponent: f32) -> f32 {
    f32::from_bits(((exponent as i32 + 127) as u32) << 23)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn out_of_range_conversions_equal_x86() {
        assert_eq!(truncate(-1.9), -1);
        assert_eq!(truncate(2_147_483_648.0), i32::MIN);
        assert_eq!(truncate(-2_147_483_648.0), i32::MIN);
        assert_eq!(truncate(f32::NAN), i32::MIN);
        assert_eq!(round(-2.5), -3);
        assert_eq!(round_long(2.5), 3);
        assert_eq!(round_long(f32::NEG_INFINITY), 0);
    }

    #[test]
    fn ties_round_to_even() {
        for (value, expected) in [
            (0.5, 0),
            (1.5, 2),
            (2.5, 2),
            (-0.5, 0),
            (-1.5, -2),
            (4_194_302.5, 4_194_302),
            (f32::NAN, 0),
        ] {
            assert_eq!(nearest_int(value), expected, "{value}");
        }
    }

    #[test]
    #[expect(clippy::float_cmp, reason = "the values must be equal")]
    fn fused_products_are_rounded_once() {
        let mut state = 7u64;
        let mut next = |spread: u32| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let bits = (state >> 32) as u32;
            // Exponents close together, so that sums cancel, or far apart.
            let exponent = 127 - spread / 2 + (bits >> 23) % spread;
            f32::from_bits(bits & 0x807f_ffff | exponent << 23)
        };
        for round in 0..200_000 {
            let spread = [2, 30, 200][round % 3];
            let (a, b, c) = (next(spread), next(spread), next(spread));
            // Every other sum is at or next to the midpoint of two `f32`.
            let c = if round % 2 == 0 { c } else { -(a * b) };
            let expected = a.mul_add(b, c);
            assert_eq!(fused(a, b, c).to_bits(), expected.to_bits(), "{a:e} {b:e} {c:e}");
        }
        let half = 2f32.powi(-24);
        assert_eq!(fused(1.0 + 2.0 * half, 1.0 + 2.0 * half, 2f32.powi(-60)), 1.0 + 4.0 * half);
        // A tie in 64 bits, broken only by bits that the 64-bit sum drops.
        let (tie, little) = (1.0 + 2f32.powi(-12), 2f32.powi(-70));
        for (a, c) in [(tie, little), (tie, -little), (-tie, little), (-tie, -little)] {
            assert_eq!(fused(a, tie, c).to_bits(), a.mul_add(tie, c).to_bits());
        }
        assert_eq!(fused(1e-30, 1e-15, 1e-45).to_bits(), 1e-30f32.mul_add(1e-15, 1e-45).to_bits());
        assert_eq!(fused(3e38, 3e38, f32::MIN), f32::INFINITY);
        assert_eq!(fused(f32::INFINITY, 1.0, 1.0), f32::INFINITY);
        assert!(fused(f32::INFINITY, 0.0, 1.0).is_nan() && fused(1.0, 1.0, f32::NAN).is_nan());
        assert_eq!(fused(-0.0, 1.0, -0.0).to_bits(), (-0.0f32).to_bits());
        assert_eq!([-126.0, 0.0, 127.0].map(power_of_two), [2f32.powi(-126), 1.0, 2f32.powi(127)]);
    }
}
