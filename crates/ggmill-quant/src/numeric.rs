//! Roundings and conversions as the reference's machine code does them, out-of-range values
//! included.

/// Truncates towards zero. Out of range or not a number gives `i32::MIN`, which is what x86 answers
/// and the reference goes on with.
pub(crate) fn truncate(value: f32) -> i32 {
    const RANGE: core::ops::Range<f32> = -2_147_483_648.0..2_147_483_648.0;
    if RANGE.contains(&value) { value as i32 } else { i32::MIN }
}

/// Rounds half away from zero, then [`truncate`]s.
pub(crate) fn round(value: f32) -> i32 {
    truncate(value.round())
}

/// Rounds half away from zero, through 64 bits: what is out of their range ends as 0.
pub(crate) fn round_long(value: f32) -> i32 {
    const RANGE: core::ops::Range<f32> = -9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0;
    let rounded = value.round();
    if RANGE.contains(&rounded) { rounded as i64 as i32 } else { 0 }
}

/// Rounds half to even: adding 1.5 · 2²³ leaves the integer in the low bits of the mantissa.
///
/// Beyond ±2²² the answer is what those bits happen to be, as in the reference.
pub(crate) fn nearest(value: f32) -> i32 {
    let bits = (value + 12_582_912.0).to_bits();
    (bits & 0x007f_ffff).cast_signed() - 0x0040_0000
}

/// The greatest absolute value.
pub(crate) fn largest(values: &[f32]) -> f32 {
    values
        .iter()
        .fold(0.0, |largest, value| if largest > value.abs() { largest } else { value.abs() })
}

/// The first value of the greatest magnitude, with its sign; 0 where all are 0.
pub(crate) fn extreme(values: &[f32]) -> f32 {
    values
        .iter()
        .fold(0.0_f32, |extreme, &value| if value.abs() > extreme.abs() { value } else { extreme })
}

/// The least and the greatest value. The slice is not empty.
pub(crate) fn bounds(values: &[f32]) -> (f32, f32) {
    values.iter().fold((values[0], values[0]), |(min, max), &value| {
        (if value < min { value } else { min }, if value > max { value } else { max })
    })
}

/// The sum of the squares, added in order.
pub(crate) fn sum_of_squares(values: &[f32]) -> f32 {
    values.iter().fold(0.0, |sum, value| sum + value * value)
}

/// `1 / scale`, and 0 for a scale of 0. Of a subnormal scale this may be infinite, as in the
/// reference.
pub(crate) fn inverse_or_zero(scale: f32) -> f32 {
    if scale == 0.0 { 0.0 } else { 1.0 / scale }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conversions_out_of_range_answer_as_x86() {
        assert_eq!(truncate(-1.9), -1);
        assert_eq!(truncate(2_147_483_648.0), i32::MIN);
        assert_eq!(truncate(-2_147_483_648.0), i32::MIN);
        assert_eq!(truncate(f32::NAN), i32::MIN);
        assert_eq!(round(-2.5), -3);
        assert_eq!(round_long(2.5), 3);
        assert_eq!(round_long(f32::NEG_INFINITY), 0);
    }

    #[test]
    fn ties_go_to_the_even_neighbour() {
        for (value, expected) in [
            (0.5, 0),
            (1.5, 2),
            (2.5, 2),
            (-0.5, 0),
            (-1.5, -2),
            (4_194_302.5, 4_194_302),
            (f32::NAN, 0),
        ] {
            assert_eq!(nearest(value), expected, "{value}");
        }
    }
}
