//! Roundings and conversions as the reference's machine code does them, out-of-range values included.

/// Truncates towards zero. Out of range or not a number gives `i32::MIN`, which is what x86 answers and the reference goes on with.
pub(crate) fn truncate(value: f32) -> i32 {
    const RANGE: core::ops::Range<f32> = -2_147_483_648.0..2_147_483_648.0;
    if RANGE.contains(&value) { value as i32 } else { i32::MIN }
}

/// Rounds half away from zero, then [`truncate`]s.
pub(crate) fn round(value: f32) -> i32 {
    truncate(value.round())
}

/// The greatest absolute value.
pub(crate) fn largest(values: &[f32]) -> f32 {
    values.iter().fold(0.0, |largest, value| if largest > value.abs() { largest } else { value.abs() })
}

/// `1 / scale`, and 0 for a scale of 0. Of a subnormal scale this may be infinite, as in the reference.
pub(crate) fn inverse_or_zero(scale: f32) -> f32 {
    if scale == 0.0 { 0.0 } else { 1.0 / scale }
}
